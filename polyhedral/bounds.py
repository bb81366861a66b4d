"""Sets and the starts of values, as plainly as they can be said."""

from __future__ import annotations

import islpy as isl

from tdsl.polyhedral.pieces import coalesced


def in_one_piece(points: isl.Set) -> isl.Set:
    """The same set by plain bounds, where those say all; isl makes a loop of each piece."""
    hull = points.remove_divs().simple_hull().to_set()
    return hull if hull.is_equal(points) else points


def plain_start(values: isl.Map, dim: int = 0) -> isl.PwAff:
    """The least value of one dimension at each point or, where that is several expressions, one of
    them that is never greater, if the values then spread no further from their start.

    Rows 14 b..14 b + 14 that lie in 96 a..96 a + 96 start at 14 b: then all blocks look alike.
    """
    least = coalesced(values.dim_min(dim))
    if least.n_piece() == 1:
        # Where there are no values, any expression will do.
        return isl.PwAff.from_aff(least.get_pieces()[0][1])
    if least.n_piece() == 0:
        return least
    greatest = values.dim_max(dim)
    room = _most(greatest.sub(least))
    if room is None:
        return least
    everywhere = values.domain()
    for _, aff in least.get_pieces():
        start = isl.PwAff.from_aff(aff)
        if not everywhere.is_subset(start.le_set(least)):
            continue
        spread = _most(greatest.sub(start))
        if spread is not None and spread <= room:
            return start
    return least


def _most(function: isl.PwAff) -> int | None:
    """The greatest value of a function, where it has one."""
    most = function.as_map().range().dim_max_val(0)
    return int(most.to_python()) if most.is_int() else None


def largest_spread(values: isl.Map) -> int | None:
    """The largest number of values from least to greatest for one key, if constant."""
    pairs = values.reverse().apply_range(values).deltas()
    if pairs.is_empty():
        return 1
    most = pairs.dim_max_val(0)
    return int(most.to_python()) + 1 if most.is_int() else None
