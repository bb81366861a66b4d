"""How often statements run: the instances of each, in numbers.

A dimension that does not depend on the others counts as a factor; only what is left is counted
point by point, so that a product of large sizes costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import islpy as isl

from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Program


@bounded("how many instances a statement has")
def instances(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """Instances of each statement, for these sizes (those that are not bound)."""
    return {name: _count(_at(s.domain, program, sizes)) for name, s in program.statements.items()}


def _at(domain: isl.Set, program: Program, sizes: Mapping[str, int]) -> isl.Set:
    """The domain for sizes, without parameters."""
    for size, param in program.params.items():
        place = domain.find_dim_by_name(isl.dim_type.param, param)
        if place >= 0:
            domain = domain.fix_val(isl.dim_type.param, place, isl.Val(sizes[size]))
    count = domain.dim(isl.dim_type.param)
    return coalesced(domain.project_out(isl.dim_type.param, 0, count))


def _count(points: isl.Set) -> int:
    factor = 1
    place = points.dim(isl.dim_type.set) - 1
    while place >= 0 and not points.is_empty():
        others = points.project_out(isl.dim_type.set, place, 1)
        alone = points.project_out(isl.dim_type.set, 0, place)
        alone = alone.project_out(isl.dim_type.set, 1, alone.dim(isl.dim_type.set) - 1)
        whole = others.reset_tuple_id().insert_dims(isl.dim_type.set, place, 1)
        column = alone.reset_tuple_id().insert_dims(isl.dim_type.set, 0, place)
        column = column.add_dims(isl.dim_type.set, points.dim(isl.dim_type.set) - 1 - place)
        if points.reset_tuple_id().is_equal(whole.intersect(column)):
            factor *= alone.count_val().to_python()
            points = others
        place -= 1
    return factor * int(points.count_val().to_python())
