"""Whether a loop tree keeps every dependence: as an order, in threads, in lanes, jammed.

All questions walk the two paths of one dependence at a time: outside in, the pairs that are
still undecided shrink to those equal at every loop so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import islpy as isl

from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.dependences import may_reorder
from tdsl.polyhedral.inits import coordinate_map, with_inits
from tdsl.polyhedral.leaves import is_dim
from tdsl.polyhedral.order import Path, paths
from tdsl.polyhedral.program import Dependence, Program, Stmt, Violation, Witness
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq, statements
from tdsl.polyhedral.witness import smallest, witness

__all__ = [
    "check",
    "check_once",
    "check_parallel",
    "check_unroll_jam",
    "check_vector",
    "with_inits",
]

Pieces = list[tuple[str | None, isl.Map]]  # where pairs go wrong (a loop or a sequence), and which


@bounded("whether the order is legal")
def check(program: Program, tree: Node, dependences: Iterable[Dependence]) -> tuple[Violation, ...]:
    """The dependences that run backward in the tree (with its inits placed)."""
    walk = _Walk(tree)
    result: list[Violation] = []
    for dependence in dependences:
        source, sink = walk.paths[dependence.source], walk.paths[dependence.sink]
        pieces, rest = walk.down(dependence, dependence.map, source, sink)
        pieces.append((None, rest))  # two instances at one place
        result += _violation("order", program, dependence, pieces)
    return tuple(result)


@bounded("whether each instance runs once")
def check_once(
    program: Program, tree: Node, names: Iterable[str] | None = None
) -> tuple[Violation, ...]:
    """Statements (all, or these) that are missing or repeated, and instances that share or lack a
    place."""
    leaves = statements(tree)
    where = paths(tree)
    result: list[Violation] = []
    for name in program.statements if names is None else names:
        stmt = program.statements[name]
        if leaves.count(name) != 1:
            result.append(Violation("once", name, name, stmt.write.array, None))
            continue
        coords = [step.coords[name] for step in where[name] if isinstance(step, Loop)]
        clash = _same_place(stmt, coords)
        if clash is not None and (found := smallest(clash.wrap(), program.context)):
            sizes = dict(zip(program.params, found.sizes, strict=True))
            half = len(stmt.indices)
            pair = Witness(sizes, found.values[:half], found.values[half:], None)
            result.append(Violation("once", name, name, stmt.write.array, pair))
    return tuple(result)


def _same_place(stmt: Stmt, coords: Sequence[isl.PwAff]) -> isl.Map | None:
    """Pairs of different instances with equal coordinates; those without any with themselves."""
    itself = isl.Map.identity(stmt.domain.get_space().map_from_set()).intersect_domain(stmt.domain)
    if coords:
        place = coordinate_map(coords).intersect_domain(stmt.domain)
        lost = stmt.domain.subtract(place.domain())
        if not lost.is_empty():
            return itself.intersect_domain(lost)
        if place.is_injective():
            return None
        return place.apply_range(place.reverse()).subtract(itself)
    everything = isl.Map.from_domain_and_range(stmt.domain, stmt.domain)
    return everything.subtract(itself)


@bounded("whether the loop may run in parallel")
def check_parallel(
    program: Program, tree: Node, dependences: Iterable[Dependence], loop: Loop
) -> tuple[Violation, ...]:
    """The dependences (all of them: pass the full set) that the loop carries."""
    walk = _Walk(tree)
    result: list[Violation] = []
    for dependence, pairs, _, _ in walk.under(loop, dependences):
        mine, other = _coordinates(loop, dependence)
        carried = pairs.intersect(mine.eq_map(other).complement())
        result += _violation("parallel", program, dependence, [(loop.name, carried)])
    return tuple(result)


@bounded("whether the loop may be vectorized")
def check_vector(
    program: Program,
    tree: Node,
    dependences: Iterable[Dependence],
    loop: Loop,
    *,
    lanes: int | None = None,
    reassociate: frozenset[str] = frozenset(),
    strict_fp: bool = False,
) -> tuple[Violation, ...]:
    """The dependences between lanes that vector code would break.

    The lanes of one statement run together: all read, then all write. So a pair of different
    lanes must be ordered by the loops and sequences inside, or be an anti dependence of one
    statement. `lanes`: how many run together; all iterations when None. A reduction over the
    lanes into one element passes where its terms may change order, and only there: lanes add
    separately.
    """
    lane_loop = replace(loop, body=_copies_in_lanes(loop.body, loop))
    walk = _Walk(_replaced(tree, loop, lane_loop))
    loop = lane_loop
    result: list[Violation] = []
    for dependence, pairs, source, sink in walk.under(loop, dependences):
        stmt, path = program.statements[dependence.source], walk.paths[dependence.source]
        one_element = _one_element(stmt, path, loop, dependence)
        if one_element and may_reorder(dependence, program, reassociate, strict_fp):
            continue
        pairs = pairs.intersect(_distance(loop, dependence, "a != b", lanes))
        if one_element and dependence.relaxable is not None:
            # Lanes add separately, also where the loops inside never run two of them at once.
            result += _violation("vector", program, dependence, [(loop.name, pairs)])
            continue
        pieces, rest = walk.down(dependence, pairs, source, sink)
        if dependence.kind != "anti":
            pieces.append((loop.name, rest))
        result += _violation("vector", program, dependence, pieces)
    return tuple(result)


def _copies_in_lanes(node: Node, lanes: Loop) -> Node:
    """The nodes inside a lane loop, with unrolled parts of its blocks counted from each lane.

    Copies of one number run together in all lanes, so their coordinates may not order lanes.
    """
    match node:
        case Leaf():
            return node
        case Seq(children):
            return Seq(tuple(_copies_in_lanes(c, lanes) for c in children))
        case Loop(coords=coords, inner_of=info):
            if info is not None and info.outer == lanes.name and is_dim(node):
                factor = isl.Val(info.factor)
                coords = {s: c.sub(lanes.coords[s].scale_val(factor)) for s, c in coords.items()}
            return replace(node, coords=coords, body=_copies_in_lanes(node.body, lanes))


def _replaced(node: Node, old: Loop, new: Loop) -> Node:
    match node:
        case Leaf():
            return node
        case Seq(children):
            return Seq(tuple(_replaced(c, old, new) for c in children))
        case Loop():
            return new if node is old else replace(node, body=_replaced(node.body, old, new))


@bounded("whether the loop may be unrolled and jammed")
def check_unroll_jam(
    program: Program,
    tree: Node,
    dependences: Iterable[Dependence],
    loop: Loop,
    *,
    by: int | None = None,
) -> tuple[Violation, ...]:
    """The dependences that run backward when the loop moves innermost, behind every sequence.

    before: for i { for j { S } }     after, i by 2: for i0 { for j { S(i0)  S(i0 + 1) } }

    `by`: how many iterations are joined; all when None.
    """
    walk = _Walk(tree)
    result: list[Violation] = []
    for dependence, pairs, source, sink in walk.under(loop, dependences):
        pairs = pairs.intersect(_distance(loop, dependence, "a < b", by))
        pieces, _ = walk.down(dependence, pairs, source, sink)
        result += _violation("order", program, dependence, pieces)
    return tuple(result)


# ---------------------------------------------------------------- the walk


class _Walk:
    """The paths of a tree, and the relations between coordinates, each made once."""

    def __init__(self, tree: Node) -> None:
        self.paths = paths(tree)
        self._made: dict[tuple[int, str, str, str], isl.Map] = {}

    def _relation(self, kind: str, loop: Loop, dependence: Dependence) -> isl.Map:
        key = (id(loop), dependence.source, dependence.sink, kind)
        if key not in self._made:
            mine, other = _coordinates(loop, dependence)
            self._made[key] = mine.gt_map(other) if kind == ">" else mine.eq_map(other)
        return self._made[key]

    def down(
        self, dependence: Dependence, pairs: isl.Map, source: Path, sink: Path
    ) -> tuple[Pieces, isl.Map]:
        """The pairs that run backward along two paths, and those equal to the very end."""
        pieces: Pieces = []
        for a, b in zip(source, sink, strict=False):
            if pairs.is_empty():
                break
            if isinstance(a, Loop):
                pieces.append((a.name, pairs.intersect(self._relation(">", a, dependence))))
                pairs = pairs.intersect(self._relation("=", a, dependence))
            elif isinstance(b, int) and a != b:
                if a > b:
                    pieces.append((None, pairs))
                return pieces, isl.Map.empty(pairs.get_space())
        return pieces, pairs

    def under(
        self, loop: Loop, dependences: Iterable[Dependence]
    ) -> Iterator[tuple[Dependence, isl.Map, Path, Path]]:
        """Dependences with both ends under the loop: the pairs in one iteration of all loops
        outside it, and the paths that are left inside it."""
        for dependence in dependences:
            source, sink = self.paths[dependence.source], self.paths[dependence.sink]
            depth = next((n for n, step in enumerate(source) if step is loop), None)
            if depth is None or not any(step is loop for step in sink):
                continue
            pairs = dependence.map
            for step in source[:depth]:
                if isinstance(step, Loop):
                    pairs = pairs.intersect(self._relation("=", step, dependence))
            yield dependence, pairs, source[depth + 1 :], sink[depth + 1 :]


def _coordinates(loop: Loop, dependence: Dependence) -> tuple[isl.PwAff, isl.PwAff]:
    return loop.coords[dependence.source], loop.coords[dependence.sink]


def _distance(loop: Loop, dependence: Dependence, relation: str, within: int | None) -> isl.Map:
    """Pairs whose coordinates a, b at the loop are so related and less than `within` apart."""
    near = "" if within is None else f" and -{within} < a - b < {within}"
    mine, other = _coordinates(loop, dependence)
    related = isl.Map(f"{{ [a] -> [b] : {relation}{near} }}")
    return (
        isl.Map.from_pw_aff(mine)
        .apply_range(related)
        .apply_range(isl.Map.from_pw_aff(other).reverse())
    )


def _one_element(stmt: Stmt, path: Path, loop: Loop, dependence: Dependence) -> bool:
    """Whether all iterations of the loop, the others fixed, update one and the same element."""
    if dependence.source != dependence.sink or not stmt.write.exact:
        return False
    pairs = isl.Map.from_domain_and_range(stmt.domain, stmt.domain)
    for step in path:
        if isinstance(step, Loop) and step is not loop:
            coordinate = step.coords[stmt.name]
            pairs = pairs.intersect(coordinate.eq_map(coordinate))
    return bool(pairs.apply_range(stmt.write.map).is_subset(stmt.write.map))


def _violation(
    kind: str, program: Program, dependence: Dependence, pieces: Pieces
) -> Iterator[Violation]:
    """At most one violation: the smallest of the pairs, whatever loop reverses it."""
    found = []
    for loop, pairs in pieces:
        if not pairs.is_empty():
            pair = witness(program, dependence, pairs)
            if pair is not None:
                found.append((pair, loop))
    if found:
        pair, loop = min(found, key=lambda f: (*f[0].sizes.values(), f[0].source, f[0].sink))
        yield Violation(
            kind, dependence.source, dependence.sink, dependence.array, pair, dependence, loop
        )
