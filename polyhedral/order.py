"""Questions about the order of a loop tree: paths, and which instances run before which."""

from __future__ import annotations

import islpy as isl

from tdsl.polyhedral.program import Stmt
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
