"""Coordinates of loops as further indices of a statement, so that subscripts can name them.

before: S[i] in 0 <= i < N, under for io = i // 8 { for i }
after:  S[i, io] in 0 <= i < N and 8 io <= i < 8 io + 8, under for io { for i }

The instances are the same; `Stmt.origin` says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import islpy as isl

from tdsl.polyhedral.inits import is_reduction_loop
from tdsl.polyhedral.parts import selecting
from tdsl.polyhedral.pieces import coalesced, plain
from tdsl.polyhedral.program import Access, Origin, Program, Stmt
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq, loops_of

IN, OUT, SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set


@dataclass(frozen=True)
class _Longer:
    """A statement with further indices, each the coordinate of a loop."""

    stmt: Stmt
    back: isl.MultiAff  # new instance -> old one
    place: dict[str, int]  # loop -> its dimension

    def coordinate(self, name: str, old: isl.PwAff) -> isl.PwAff:
        """A coordinate of the old instances as one of the new."""
        if name not in self.place:
            return old.pullback_multi_aff(self.back)
        local = isl.LocalSpace.from_space(self.stmt.domain.get_space())
        return isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, self.place[name]))


def is_plain(coordinate: isl.PwAff) -> bool:
    """Whether a coordinate is one sum of multiples of indices."""
    pieces = coalesced(coordinate).get_pieces()
    if len(pieces) != 1:
        return False
    aff = pieces[0][1]
    return aff.dim(isl.dim_type.div) == 0 and aff.get_denominator_val().is_one()


def indexed(program: Program, tree: Node, name: str, wanted: Sequence[str]) -> tuple[Program, Node]:
    """The program in which a statement has the coordinates of these loops among its indices;
    those that are sums of its indices already are left as they are. `tree` has no first terms."""
    stmt = program.statements[name]
    around = [x for x in loops_of(tree, name) if x.name in wanted]
    extra = [x for x in around if not is_plain(x.coords[name])]
    if not extra:
        return program, tree
    reducing = [is_reduction_loop(x, stmt) for x in extra]
    longer = _longer(stmt, {x.name: x.coords[name] for x in extra})
    added = longer.stmt.indices[len(stmt.indices) :]
    named = {x.name: index for x, index in zip(extra, added, strict=True)}
    terms = tuple(named[x.name] for x, r in zip(extra, reducing, strict=True) if r)
    made = {name: replace(longer.stmt, reduction=(*stmt.reduction, *terms))}
    init = program.statements.get(f"{name}.init")
    free = [x for x, r in zip(extra, reducing, strict=True) if not r]
    if init is not None and init.init_of == name and free:
        columns = {stmt.indices.index(i): k for k, i in enumerate(init.indices)}
        same = selecting(init.domain.get_space(), stmt.domain.get_space(), columns)
        coords = {x.name: x.coords[name].pullback_multi_aff(same) for x in free}
        made[init.name] = _longer(init, coords, named).stmt
    merged = {key: made.get(key, s) for key, s in program.statements.items()}
    return replace(program, statements=merged), _edited(tree, name, longer)


def _longer(
    stmt: Stmt, coords: dict[str, isl.PwAff], names: dict[str, str] | None = None
) -> _Longer:
    count = len(stmt.indices)
    full = isl.Map.identity(stmt.domain.get_space().map_from_set()).reset_tuple_id(OUT)
    indices = list(stmt.indices)
    for loop, coordinate in coords.items():
        full = full.flat_range_product(coordinate.as_map())
        index = loop if names is None else names[loop]
        while index in indices:
            index += "_"
        indices.append(index)
    full = full.set_tuple_name(OUT, stmt.tuple_name)
    domain = plain(coalesced(stmt.domain.apply(full)))
    space = domain.get_space()
    back = selecting(space, stmt.domain.get_space(), {k: k for k in range(count)})

    def access(old: Access) -> Access:
        new = isl.Map.from_multi_aff(back).apply_range(old.map).intersect_domain(domain)
        return replace(old, map=coalesced(new))

    base = isl.Map.from_multi_aff(back).intersect_domain(domain)
    if stmt.origin is not None:
        origin = Origin(stmt.origin.statement, base.apply_range(stmt.origin.map))
    else:
        origin = Origin(stmt.name, base)
    longer = replace(
        stmt,
        indices=tuple(indices),
        domain=domain,
        write=access(stmt.write),
        reads=tuple(access(a) for a in stmt.reads),
        origin=origin,
    )
    return _Longer(longer, back, {loop: count + k for k, loop in enumerate(coords)})


def _edited(node: Node, name: str, longer: _Longer) -> Node:
    match node:
        case Leaf():
            return node
        case Seq(children):
            return Seq(tuple(_edited(c, name, longer) for c in children))
        case Loop():
            if name not in node.coords:
                return node
            coordinate = longer.coordinate(node.name, node.coords[name])
            coords = {**node.coords, name: coordinate}
            return replace(node, coords=coords, body=_edited(node.body, name, longer))
