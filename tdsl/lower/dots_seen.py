"""Sums of groups on the walk along the vector level: one lane stands for several instances.

A write of `lanes` lanes of `terms` terms is looked at as lanes * terms places: place p is term
p % terms of lane p // terms, as the operands of a Dot lie.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from tdsl.ir import vector as v
from tdsl.ir.kernel import Cast, Const, Expr, Select
from tdsl.lower.masks_seen import EVERYWHERE, Lets, Mask, mask_of, over_and_over
from tdsl.lower.records_seen import Leaf, edited, spread
from tdsl.lower.registers_seen import resolved_once
from tdsl.lower.tables import NO, YES, Bools, Env, Ints, OnData, evaluate

A = TypeVar("A", Bools, Ints)
NOWHERE: Ints = np.full((1, 1), -1, dtype=np.int64)


def spread_leaf(leaf: Leaf, places: int) -> Leaf:
    """An element of each lane, as the element of all its terms."""

    def one(leaf: Leaf) -> Leaf:
        element = None if leaf.element is None else spread(leaf.element, places)
        on = Mask(spread(leaf.on.may, places), spread(leaf.on.must, places))
        return replace(leaf, element=element, on=on)

    return edited(leaf, one)


def repeated_leaf(leaf: Leaf, times: int) -> Leaf:
    """An element of a group that all lanes share."""

    def one(leaf: Leaf) -> Leaf:
        element = None if leaf.element is None else over_and_over(leaf.element, times)
        on = Mask(over_and_over(leaf.on.may, times), over_and_over(leaf.on.must, times))
        return replace(leaf, element=element, on=on)

    return edited(leaf, one)


def joined_leaf(leaf: Leaf, places: int, *, high: bool) -> Leaf:
    """An element of one half of a vector, off in the other half."""

    def half(lanes: A, other: A) -> A:
        own = np.broadcast_to(lanes, (*lanes.shape[:-1], places // 2))
        rest = np.broadcast_to(other, own.shape)
        return np.concatenate([rest, own] if high else [own, rest], axis=-1)

    def one(leaf: Leaf) -> Leaf:
        element = None if leaf.element is None else half(leaf.element, NOWHERE)
        on = Mask(half(leaf.on.may, NO), half(leaf.on.must, NO))
        return replace(leaf, element=element, on=on)

    return edited(leaf, one)


def at_places(leaf: Leaf, lanes: Ints | None) -> Leaf:
    """An element of some lanes, over and over where they are named so; None: as it is."""
    if lanes is None:
        return leaf

    def chosen(values: A) -> A:
        return values if values.shape[-1] == 1 else values[..., lanes]

    def one(leaf: Leaf) -> Leaf:
        element = None if leaf.element is None else chosen(leaf.element)
        on = Mask(chosen(leaf.on.may), chosen(leaf.on.must))
        held = lanes if leaf.lanes is None else leaf.lanes[lanes]
        return replace(leaf, element=element, on=on, lanes=held)

    return edited(leaf, one)


def operand_places(dot: v.Dot) -> tuple[Ints | None, Ints | None]:
    """For each place of a tile, the lane of either operand; None where it is the place itself."""
    if not dot.columns:
        return None, None
    place = np.arange(dot.type.lanes * dot.group)
    lane, term = place // dot.group, place % dot.group
    return (lane // dot.columns) * dot.group + term, (lane % dot.columns) * dot.group + term


def running_terms(value: v.Value, lets: Lets, env: Env) -> tuple[Bools, Bools] | None:
    """Which places a Dot adds: those where both operands are loaded, since others are 0.

    And where it would add something that is no instance: 0 times a float may be NaN. None where
    the value is no Dot.
    """
    found = next((p for p in resolved_once(value, lets) if isinstance(p, v.Dot)), None)
    if found is None:
        return None
    first, second = (
        _of_places(_loaded(x, lets, env), places)
        for x, places in zip((found.first, found.second), operand_places(found), strict=True)
    )
    runs = first.must & second.must
    doubtful = (first.may != first.must) | (second.may != second.must)
    if found.type.elem.is_float:
        doubtful = doubtful | (first.may != second.may)
    return runs, doubtful


def _of_places(mask: Mask, places: Ints | None) -> Mask:
    if places is None:
        return mask
    may, must = (m if m.shape[-1] == 1 else m[..., places] for m in (mask.may, mask.must))
    return Mask(may, must)


def sides_of(
    value: v.Value, lets: Mapping[str, v.Value]
) -> tuple[tuple[v.Value, Ints | None], ...]:
    """What the Dot of a value multiplies, with the lane of each place."""
    found = next((p for p in resolved_once(value, lets) if isinstance(p, v.Dot)), None)
    if found is None:
        return ()
    first, second = operand_places(found)
    return (found.first, first), (found.second, second)


def is_zero(expr: Expr | None, env: Env) -> Bools:
    """Where the value of a copy is a constant 0, for instances in `env`."""
    match expr:
        case Const(value):
            return YES if value == 0 else NO
        case Cast("convert", arg):
            return is_zero(arg, env)
        case Select(condition, then, other):
            one, two = is_zero(then, env), is_zero(other, env)
            try:
                chosen: Bools = evaluate(condition, env) != 0
            except OnData:
                return one & two
            return (chosen & one) | (~chosen & two)
        case _:
            return NO


def _loaded(value: v.Value, lets: Lets, env: Env) -> Mask:
    match value:
        case v.Ref(name) if name in lets:
            return _loaded(lets[name], lets, env)
        case v.Load(mask=mask):
            return mask_of(mask, lets, env)
        case v.Part(arg, start, type):
            return _of_places(_loaded(arg, lets, env), np.arange(start, start + type.lanes))
        case v.Repeat(arg, type):
            inner = _loaded(arg, lets, env)
            times = type.lanes // arg.type.lanes
            return Mask(over_and_over(inner.may, times), over_and_over(inner.must, times))
        case _:
            return EVERYWHERE
