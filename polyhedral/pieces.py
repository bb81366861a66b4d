"""Sets, maps and functions in as few pieces as isl finds.

The one place that asks isl for `coalesce`: isl gives up on some pieces with divisions, and
nothing else in the compiler has to know.
"""

from __future__ import annotations

from typing import TypeVar

import islpy as isl

Points = TypeVar("Points", isl.Set, isl.Map, isl.UnionMap, isl.PwAff, isl.PwMultiAff)


def coalesced(points: Points) -> Points:
    """The same points; isl fails to join some pieces with divisions, which then stay apart."""
    try:
        return points.coalesce()
    except isl.Error as error:
        if "original tableau" not in str(error):
            raise
        return points


def plain(points: isl.Set) -> isl.Set:
    """The same set by plain bounds, where those say all."""
    hull = points.remove_divs().simple_hull().to_set()
    return hull if hull.is_equal(points) else points
