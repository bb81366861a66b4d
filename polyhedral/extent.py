"""Where the coordinates of a loop lie: least values, extents, rectangular pairs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import islpy as isl

from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Program
from tdsl.polyhedral.tree import Loop, Node, loops_of, statements

UNBOUNDED = 1 << 20
"""Extents from here on are not "constant": sizes themselves are bounded only by 2^40."""


def coordinates(program: Program, loop: Loop) -> isl.Set:
    """All values that a loop takes: a set of one dimension over the sizes."""
    return _union(
        [
            loop.coords[s].as_map().intersect_domain(program.statements[s].domain).range()
            for s in statements(loop.body)
        ],
        program,
    )


def visited(program: Program, loops: Sequence[Loop]) -> isl.Set:
    """The tuples of coordinates that loops of one path take together."""
    parts = []
    for name in statements(loops[-1].body):
        domain = program.statements[name].domain
        point = loops[0].coords[name].as_map()
        for loop in loops[1:]:
            point = point.flat_range_product(loop.coords[name].as_map())
        parts.append(point.intersect_domain(domain).range())
    return _union(parts, program)


def _union(parts: Sequence[isl.Set], program: Program) -> isl.Set:
    return coalesced(reduce(lambda a, b: a.union(b), parts).intersect_params(program.context))


@bounded("the least coordinate of a loop")
def least(program: Program, loop: Loop) -> isl.PwAff | None:
    """The least coordinate where it is one expression in sizes, else None."""
    return _one_expression(coordinates(program, loop).dim_min(0), program)


@bounded("the greatest coordinate of a loop")
def greatest(program: Program, loop: Loop) -> isl.PwAff | None:
    """The greatest coordinate where it is one expression in sizes, else None."""
    return _one_expression(coordinates(program, loop).dim_max(0), program)


def _one_expression(value: isl.PwAff, program: Program) -> isl.PwAff | None:
    pieces = coalesced(value).gist(program.context).get_pieces()
    if len(pieces) != 1:
        return None
    # Outside its piece the domain is empty: the expression may be used everywhere.
    return isl.PwAff.from_aff(pieces[0][1])


@bounded("the extent of a loop")
def extent(program: Program, tree: Node, statement: str, name: str) -> int | None:
    """The largest number of iterations for fixed outer loops, where no size decides it."""
    path: list[Loop] = []
    for loop in loops_of(tree, statement):
        path.append(loop)
        if loop.name == name:
            break
    points = visited(program, path)
    outer = len(path) - 1
    # {[outer, c] -> [outer, c']}, then the greatest c' - c.
    pairs = isl.Map.from_domain_and_range(points, points)
    for dim in range(outer):
        pairs = pairs.equate(isl.dim_type.in_, dim, isl.dim_type.out, dim)
    distances = pairs.deltas()
    if distances.is_empty():
        return 0
    most = distances.dim_max_val(outer)
    if not most.is_int() or most.to_python() >= UNBOUNDED:
        return None
    return int(most.to_python()) + 1


@bounded("whether two loops are rectangular")
def rectangular(program: Program, outer: Sequence[Loop], first: Loop, second: Loop) -> bool:
    """Whether the range of `second` is the same in every iteration of `first`."""
    points = visited(program, [*outer, first, second])
    depth = len(outer)
    dims = isl.dim_type.set
    firsts = points.project_out(dims, depth + 1, 1).insert_dims(dims, depth + 1, 1)
    seconds = points.project_out(dims, depth, 1).insert_dims(dims, depth, 1)
    return firsts.intersect(seconds).is_subset(points)
