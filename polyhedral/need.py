"""What one iteration of some loops needs of a producer: who reads it, and which instances.

for io { for ii { C: y[io, ii] = p[8 io + ii] + p[8 io + ii + 1] } }    io needs P at 8 io..8 io + 8
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

import islpy as isl

from tdsl.polyhedral.edit import EditError
from tdsl.polyhedral.inits import coordinate_map
from tdsl.polyhedral.model import nest_indices, nest_of
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Access, Program, Stmt
from tdsl.polyhedral.tree import Loop, Node, loops_of

IN, OUT, SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set


def group_of(program: Program, array: str) -> tuple[str, ...]:
    """The statements that compute an array, `S.init` left out."""
    return tuple(
        s.name for s in program.statements.values() if s.write.array == array and s.init_of is None
    )


def with_init(program: Program, group: Iterable[str]) -> list[Stmt]:
    names = set(group)
    return [s for s in program.statements.values() if (s.init_of or s.name) in names]


def readers_of(program: Program, arrays: Sequence[str], group: Sequence[str]) -> list[str]:
    """The statements outside the group that read some of the arrays, in textual order."""
    return [
        s.name
        for s in program.statements.values()
        if s.name not in group
        and s.init_of not in group
        and any(a.array in arrays for a in read_by(s))
    ]


def read_by(stmt: Stmt) -> tuple[Access, ...]:
    """All accesses that read: an update reads the element that it writes."""
    return (*stmt.reads, stmt.write) if stmt.is_update else stmt.reads


def is_pure(program: Program, stmt: Stmt) -> bool:
    """Whether it may run again, or not at all: a temp's definition that keeps no state, or one
    that a `S.init` starts anew."""
    array = stmt.write.array
    started = f"{stmt.name}.init" in program.statements or stmt.tuple_of is not None
    own = any(a.array == array for a in stmt.reads)
    plain = stmt.op == "define" and not own
    return program.arrays[array].role == "temp" and (plain or started)


def needed_by(
    program: Program,
    tree: Node,
    members: Sequence[Stmt],
    arrays: Sequence[str],
    readers: Sequence[str],
    loops: tuple[Loop, ...],
) -> dict[str, isl.Map]:
    """For each member: coordinates of the loops -> the instances whose value is read there."""
    elements: dict[str, isl.Map] = {}
    for name in readers:
        stmt = program.statements[name]
        place = coordinate_map([loop.coords[name] for loop in loops])
        place = place.intersect_domain(stmt.domain).reverse()
        for a in read_by(stmt):
            if a.array in arrays:
                part = place.apply_range(a.map).intersect_params(program.context)
                known = elements.get(a.array)
                elements[a.array] = part if known is None else coalesced(known.union(part))
    result: dict[str, isl.Map] = {}
    wrote = {m.name: m.write.map.intersect_domain(m.domain).reverse() for m in members}
    for member in members:
        if member.write.array in elements:
            result[member.name] = elements[member.write.array].apply_range(wrote[member.name])
    close(program, members, result)
    for member in members:
        needed = result[member.name]
        around = loops_of(tree, member.init_of or member.name)
        for k, loop in enumerate(loops):
            if any(loop is mine for mine in around) and member.init_of is None:
                # It stands in this loop already: it stays in its iteration.
                space = isl.Set.universe(needed.domain().get_space())
                local = isl.LocalSpace.from_space(space.get_space())
                here = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, k))
                mine_ = loop.coords[member.name]
                same = here.as_map().apply_range(mine_.as_map().reverse())
                if not needed.is_subset(same):
                    raise EditError(
                        f"{member.name} stands in {loop.name} already, and one iteration of it "
                        f"reads what {member.name} computes in another"
                    )
        result[member.name] = coalesced(needed)
    return result


MOST_ROUNDS = 8  # of what members need of each other


def close(program: Program, members: Sequence[Stmt], needed: dict[str, isl.Map]) -> None:
    """Adds the instances whose value other members read. Raises EditError."""
    for _ in range(MOST_ROUNDS):
        grown = False
        for member in members:
            more = _for_others(program, member, members, needed)
            known = needed.get(member.name)
            if more is not None and (known is None or not more.is_subset(known)):
                needed[member.name] = more if known is None else coalesced(known.union(more))
                grown = True
        if not grown:
            break
    else:
        raise EditError("what its instances need of each other has no end that is found")
    for member in members:
        if member.name not in needed:
            raise EditError(f"nothing reads what {member.name} writes")


def _for_others(
    program: Program, member: Stmt, members: Sequence[Stmt], known: Mapping[str, isl.Map]
) -> isl.Map | None:
    """The instances whose value other members read, in the same iteration of their nest."""
    if member.tuple_of is None:
        return None
    nests = nest_indices(program.kernel)
    parts = []
    for other in members:
        for access in other.reads:
            if access.array != member.write.array or other.name not in known:
                continue
            flow = access.map.apply_range(member.write.map.reverse())
            flow = flow.intersect_range(member.domain)
            around = nest_of(nests, member)
            local = program.arrays[member.write.array].local
            for index in around[: around.index(local) + 1] if local is not None else ():
                a, b = other.indices.index(index), member.indices.index(index)
                flow = flow.equate(IN, a, OUT, b)
            parts.append(known[other.name].apply_range(flow))
    return coalesced(reduce(isl.Map.union, parts)) if parts else None
