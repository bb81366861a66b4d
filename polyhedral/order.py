"""Questions about the order of a loop tree: paths, and which instances run before which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import islpy as isl

from tdsl.ir.kernel import Expr
from tdsl.polyhedral.affine import constant_value, pw_aff
from tdsl.polyhedral.model import scope_of
from tdsl.polyhedral.program import Program, Stmt
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq

Path = tuple[Loop | int, ...]


def paths(tree: Node) -> dict[str, Path]:
    """For every statement its loops and positions in sequences, from the root."""
    result: dict[str, Path] = {}
    _collect(tree, (), result)
    return result


def _collect(node: Node, above: Path, result: dict[str, Path]) -> None:
    match node:
        case Leaf(name):
            result[name] = above
        case Loop():
            _collect(node.body, (*above, node), result)
        case Seq(children):
            for position, child in enumerate(children):
                _collect(child, (*above, position), result)


def all_pairs(source: Stmt, sink: Stmt) -> isl.Map:
    """Every instance of the source with every one of the sink, domains left out."""
    return isl.Map.from_domain_and_range(
        isl.Set.universe(source.domain.get_space()), isl.Set.universe(sink.domain.get_space())
    )


def before(where: dict[str, Path], source: Stmt, sink: Stmt) -> isl.Map | None:
    """The pairs (source instance, sink instance) in this order; None where there are none.

    A union over the shared loops: equal outside, smaller at one of them; and what is equal at
    all of them where the source stands first in the sequence.
    """
    equal = all_pairs(source, sink)
    result: isl.Map | None = None
    for a, b in zip(where[source.name], where[sink.name], strict=False):
        if isinstance(a, Loop):
            mine, other = a.coords[source.name], a.coords[sink.name]
            carried = equal.intersect(mine.lt_map(other))
            result = carried if result is None else result.union(carried)
            equal = equal.intersect(mine.eq_map(other))
        elif isinstance(b, int) and a != b:
            if a > b:
                return result
            return equal if result is None else result.union(equal)
    return result


def tree_from_order(
    program: Program, times: Mapping[str, Sequence[Expr]], names: Mapping[int, str] | None = None
) -> Node:
    """The tree in which each statement's instances run by these tuples, lexicographically.

    Where all statements of a group have constants they make a sequence, elsewhere a loop t0,
    t1, ... by its position in the tuples, or with the name given for it. Short tuples go on with
    zeros; statements with equal constants to the end run in the order of the mapping.
    """
    depth = max(len(time) for time in times.values())
    coords = {}
    for name, time in times.items():
        where = scope_of(program, name)
        zeros = [where.constant(0)] * (depth - len(time))
        coords[name] = [*(pw_aff(e, where) for e in time), *zeros]
    return _ordered(coords, 0, depth, names or {})


def _ordered(
    coords: Mapping[str, Sequence[isl.PwAff]], position: int, depth: int, names: Mapping[int, str]
) -> Node:
    if position == depth:
        leaves = tuple(Leaf(name) for name in coords)
        return leaves[0] if len(leaves) == 1 else Seq(leaves)
    here = {name: functions[position] for name, functions in coords.items()}
    groups: dict[int, dict[str, Sequence[isl.PwAff]]] = {}
    for name, function in here.items():
        value = constant_value(function)
        if value is None:
            name = names.get(position, f"t{position}")
            return Loop(name, here, _ordered(coords, position + 1, depth, names))
        groups.setdefault(value, {})[name] = coords[name]
    parts = [_ordered(groups[value], position + 1, depth, names) for value in sorted(groups)]
    return parts[0] if len(parts) == 1 else Seq(tuple(parts))
