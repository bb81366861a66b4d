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


def restricted(pairs: isl.Map, old: isl.Set, new: isl.Set) -> isl.Map:
    """Pairs that begin in `old`, those alone that begin in its part `new`.

    A function is said in as few pieces as it has, not in those of `old`: intersected with `new` as
    it is, each of its pieces would meet each of those.
    """
    if pairs.is_single_valued():
        pairs = coalesced(isl.PwMultiAff.from_map(pairs)).gist(old).as_map()
    return coalesced(pairs.intersect_domain(new))


def plain(points: isl.Set) -> isl.Set:
    """The same set by plain bounds, where those say all."""
    hull = points.remove_divs().simple_hull().to_set()
    return hull if hull.is_equal(points) else points
