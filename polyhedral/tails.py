"""`tail shift`: the last block of a split starts earlier and is full; what it shares with the block
before runs in both.

before: for i in 0..N { S(i) }
after:  for io in 0..ceil(N / f) { for i in min(f * io, N - f)..min(f * io, N - f) + f { S(i) } }

A statement gets the block as a further index, so that its instances are told apart. All copies of
an instance have the dependences of that instance, and write the same value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import islpy as isl

from tdsl.polyhedral.blocks import number
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.edit import EditError, find
from tdsl.polyhedral.extent import greatest, least, visited
from tdsl.polyhedral.parts import selecting
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Access, Dependence, Origin, Program, Stmt
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq, SplitInfo, loops_of, statements

IN, OUT, SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set


@bounded("the last block of a split")
def shifted(
    program: Program,
    tree: Node,
    dependences: Iterable[Dependence],
    at: tuple[str, str],
    info: SplitInfo,
    *,
    origins: bool = False,
) -> tuple[Program, Node, tuple[Dependence, ...]]:
    """The program, its tree and its dependences with the loop `at` split so. `origins`: value flow
    is compared with a program that does not have this split."""
    loop = find(tree, *at)
    lo, hi = least(program, loop), greatest(program, loop)
    around = loops_of(tree, at[0])
    outside = around[: next(k for k, x in enumerate(around) if x is loop)]
    if lo is None or hi is None or not _independent(program, outside, loop):
        raise EditError(f"the extent of {loop.name} depends on other loops: its tail cannot shift")
    below = statements(loop.body)
    for name in below:
        stmt = program.statements[name]
        if stmt.op != "define" or stmt.reduction:
            raise EditError(f"{name} is no plain definition: its iterations cannot run twice")
        if any(a.array == stmt.write.array for a in stmt.reads):
            raise EditError(f"{name} reads {stmt.write.array}, which it overwrites")
    copies = {s: _copies(program.statements[s], loop, lo, hi, info.factor) for s in below}
    index = info.outer
    while any(index in program.statements[s].indices for s in below):
        index += "_"
    made = {s: _with_block(program.statements[s], copies[s], index, origins) for s in below}
    changed = {name: made.get(name, stmt) for name, stmt in program.statements.items()}
    known = [*_mapped(dependences, copies)]
    known += [_between_copies(made[s], copies[s]) for s in below]
    found = tuple(d for d in known if not d.map.is_empty())
    return replace(program, statements=changed), _placed(tree, loop, made, info), found


def _independent(program: Program, outside: Sequence[Loop], loop: Loop) -> bool:
    """Whether the loop takes the same values in all iterations of those outside."""
    points = visited(program, [*outside, loop])
    depth = len(outside)
    where = points.project_out(SET, depth, 1).insert_dims(SET, depth, 1)
    values = points.project_out(SET, 0, depth).insert_dims(SET, 0, depth)
    return bool(where.intersect(values).is_subset(points))


def _copies(stmt: Stmt, loop: Loop, lo: isl.PwAff, hi: isl.PwAff, factor: int) -> isl.Map:
    """Instance -> instance and block, for all blocks that hold it."""
    line = isl.Set.universe(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, 1))
    both = stmt.domain.reset_tuple_id().flat_product(line).set_tuple_name(stmt.tuple_name)
    space, old = both.get_space(), stmt.domain.get_space()
    count = len(stmt.indices)
    block = isl.PwAff.from_aff(isl.Aff.var_on_domain(isl.LocalSpace.from_space(space), SET, count))
    first, last = lo.insert_domain(space), hi.insert_domain(space)
    start = first.add(block.scale_val(isl.Val(factor)))
    start = start.min(last.sub(number(last, factor - 1))).max(first)
    back = selecting(space, old, {k: k for k in range(count)})
    c = loop.coords[stmt.name].pullback_multi_aff(back)
    blocks = last.sub(first).scale_down_val(isl.Val(factor)).floor()
    held = both.intersect(c.ge_set(start)).intersect(c.lt_set(start.add(number(start, factor))))
    held = held.lower_bound_val(SET, count, isl.Val(0)).intersect(block.le_set(blocks))
    return coalesced(isl.Map.from_multi_aff(back).reverse().intersect_range(held))


def _with_block(stmt: Stmt, copies: isl.Map, index: str, origins: bool) -> Stmt:
    def access(old: Access) -> Access:
        return replace(old, map=coalesced(old.map.apply_domain(copies)))

    origin = stmt.origin
    if origin is not None:
        origin = replace(origin, map=origin.map.apply_domain(copies))
    elif origins and stmt.copies is None:
        origin = Origin(stmt.name, copies.reverse())
    return replace(
        stmt,
        indices=(*stmt.indices, index),
        origin=origin,
        domain=coalesced(stmt.domain.apply(copies)),
        write=access(stmt.write),
        reads=tuple(access(a) for a in stmt.reads),
    )


def _mapped(
    dependences: Iterable[Dependence], copies: Mapping[str, isl.Map]
) -> Iterable[Dependence]:
    for d in dependences:
        pairs = d.map
        if d.source in copies:
            pairs = pairs.apply_domain(copies[d.source])
        if d.sink in copies:
            pairs = pairs.apply_range(copies[d.sink])
        yield replace(d, map=pairs)


def _between_copies(stmt: Stmt, copies: isl.Map) -> Dependence:
    """Two copies of an instance write one element: they are not to do so at the same time."""
    pairs = copies.reverse().apply_range(copies)
    last = len(stmt.indices) - 1
    pairs = pairs.order_lt(IN, last, OUT, last)
    return Dependence(
        stmt.name, stmt.name, "output", stmt.write.array, pairs,
        source_span=stmt.span, sink_span=stmt.span,
    )  # fmt: skip


def _placed(tree: Node, loop: Loop, made: Mapping[str, Stmt], info: SplitInfo) -> Node:
    """The tree with the split loop, and all coordinates over the longer instances."""

    def coordinate(s: str, old: isl.PwAff) -> isl.PwAff:
        if s not in made:
            return old
        count = len(made[s].indices) - 1
        space = made[s].domain.get_space()
        same = selecting(space, old.get_domain_space(), {k: k for k in range(count)})
        return old.pullback_multi_aff(same)

    def block(s: str) -> isl.PwAff:
        local = isl.LocalSpace.from_space(made[s].domain.get_space())
        return isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, len(made[s].indices) - 1))

    def edit(node: Node) -> Node:
        match node:
            case Leaf():
                return node
            case Seq(children):
                return Seq(tuple(edit(c) for c in children))
            case Loop():
                coords = {s: coordinate(s, c) for s, c in node.coords.items()}
                new = replace(node, coords=coords, body=edit(node.body))
                if node is not loop:
                    return new
                inner = replace(new, name=info.inner, inner_of=info)
                blocks = {s: block(s) for s in made}
                return Loop(info.outer, blocks, inner, outer_of=info, notes=node.notes)

    return edit(tree)
