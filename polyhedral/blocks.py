"""Coordinates of blocks: functions of a loop's coordinate, for `tdsl.polyhedral.edit`."""

from __future__ import annotations

import islpy as isl

from tdsl.polyhedral.pieces import coalesced


def over(value: isl.PwAff, coordinate: isl.PwAff) -> isl.PwAff:
    """An expression in sizes as a function on the domain of a coordinate."""
    return value.insert_domain(coordinate.get_domain_space())


def block(coordinate: isl.PwAff, anchor: isl.PwAff | None, factor: int) -> isl.PwAff:
    """(c - anchor) // factor"""
    if anchor is not None:
        coordinate = coordinate.sub(over(anchor, coordinate))
    return coalesced(_floor_div(coordinate, factor))


def _floor_div(value: isl.PwAff, divisor: int) -> isl.PwAff:
    return value.scale_down_val(isl.Val(divisor)).floor()


def balanced(coordinate: isl.PwAff, anchor: isl.PwAff, last: isl.PwAff, factor: int) -> isl.PwAff:
    """As `block`, but the second half of the last two blocks' iterations is the last block."""
    ahead = over(last.sub(anchor), coordinate)  # extent - 1
    final = _floor_div(ahead, factor)  # the last block
    start = final.sub(number(final, 1)).scale_val(isl.Val(factor))
    rest = ahead.sub(start).add(number(ahead, 1))  # iterations of the last two blocks
    half = _floor_div(rest.add(number(rest, 1)), 2)
    offset = coordinate.sub(over(anchor, coordinate))
    usual = _floor_div(offset, factor)
    moved = offset.ge_set(start.add(half)).intersect(final.ge_set(number(final, 1)))
    return coalesced(
        isl.PwAff.union_add(
            final.intersect_domain(moved), usual.intersect_domain(moved.complement())
        )
    )


def number(like: isl.PwAff, value: int) -> isl.PwAff:
    """A constant as a function on the domain of another one."""
    space = isl.LocalSpace.from_space(like.get_domain_space())
    return isl.PwAff.from_aff(isl.Aff.val_on_domain(space, isl.Val(value)))
