"""Masks and index lanes of the vector level as arrays of (rows, lanes)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tdsl.ir import vector as v
from tdsl.ir.kernel import Expr
from tdsl.ir.walk_vector import values_in
from tdsl.lower.tables import NO, YES, Bools, Env, Ints, OnData, evaluate, operation


@dataclass(frozen=True)
class Mask:
    """Lanes that may be on and those that must be; they differ where data decide."""

    may: Bools
    must: Bools

    def within(self, other: Mask) -> Mask:
        """The lanes of both."""
        return Mask(self.may & other.may, self.must & other.must)

    @property
    def others(self) -> Mask:
        """All other lanes."""
        return Mask(~self.must, ~self.may)


EVERYWHERE = Mask(YES, YES)
UNKNOWN = Mask(YES, NO)


class Lets(dict[str, v.Value]):
    """The named values in sight of one block, and what was found of them.

    A block looks at the same rows throughout, so that a name stands for one mask and for one row
    of numbers there. Values that many names share are looked through once, not once a path.
    """

    def __init__(self, values: Mapping[str, v.Value] | None = None) -> None:
        super().__init__(values or {})
        self._masks: dict[str, Mask] = {}
        self._numbers: dict[str, Ints | None] = {}

    def mask(self, name: str, env: Env) -> Mask:
        """The mask that a name stands for."""
        for each in below(name, self, self._masks):
            self._masks[each] = mask_of(self[each], self, env)
        return self._masks[name]

    def numbers(self, name: str, env: Env) -> Ints:
        """The numbers that a name stands for; raises OnData where it depends on data."""
        for each in below(name, self, self._numbers):
            try:
                self._numbers[each] = numbers(self[each], self, env)
            except OnData:
                self._numbers[each] = None
        found = self._numbers[name]
        if found is None:
            raise OnData
        return found


def below(name: str, lets: Mapping[str, v.Value], known: Collection[str]) -> Iterator[str]:
    """A name after all that its value is made of, but for those `known`, which grows meanwhile.

    Long chains of names are no deep recursion that way.
    """
    waiting = [name]
    while waiting:
        top = waiting[-1]
        if top in known:
            waiting.pop()
        elif missing := [n for n in names_in(lets[top]) if n in lets and n not in known]:
            waiting += missing
        else:
            yield waiting.pop()


def names_in(value: v.Value) -> Iterator[str]:
    """The names that a value itself refers to."""
    return (part.name for part in values_in(value) if isinstance(part, v.Ref))


def mask_of(value: v.Value | None, lets: Lets, env: Env) -> Mask:
    """`env`: the variables, of shape (rows, 1)."""
    match value:
        case None:
            return EVERYWHERE
        case v.Ref(name) if name in lets:
            return lets.mask(name, env)
        case v.Const(on):
            return EVERYWHERE if on else Mask(NO, NO)
        case v.FirstLanes(count, type):
            return _exactly(lane_numbers(type.lanes) < evaluate(count, env))
        case v.Condition(condition):
            return _exactly(evaluate(condition, env) != 0)
        case v.Splat(arg) | v.Cast(_, arg) if arg.type.elem == value.type.elem:
            return mask_of(arg, lets, env)
        case v.Op("and", (a, b)):
            return mask_of(a, lets, env).within(mask_of(b, lets, env))
        case v.Op("or", (a, b)):
            left, right = mask_of(a, lets, env), mask_of(b, lets, env)
            return Mask(left.may | right.may, left.must | right.must)
        case v.Reduce("any", arg):
            inner = mask_of(arg, lets, env)
            may, must = (np.asarray(m).any(1, keepdims=True) for m in (inner.may, inner.must))
            return Mask(np.asarray(may), np.asarray(must))
        case v.Repeat(arg, type):
            inner = mask_of(arg, lets, env)
            times = type.lanes // arg.type.lanes
            return Mask(over_and_over(inner.may, times), over_and_over(inner.must, times))
        case v.Op("not", (a,)):
            return mask_of(a, lets, env).others
        case v.Op("eq" | "ne" | "lt" | "le" | "gt" | "ge" as op, args):
            try:
                sides = [numbers(arg, lets, env) for arg in args]
            except OnData:
                return UNKNOWN
            return _exactly(operation(op, sides) != 0)
        case _:
            return UNKNOWN


def _exactly(lanes: Bools) -> Mask:
    return Mask(lanes, lanes)


A = TypeVar("A", Bools, Ints)


def over_and_over(lanes: A, times: int) -> A:
    """The lanes of a short vector, repeated; one column is all lanes already."""
    return lanes if lanes.shape[-1] == 1 else np.tile(lanes, (1, times))


def lane_numbers(lanes: int) -> Ints:
    return np.arange(lanes, dtype=np.int64)[None, :]


def elements(offset: Expr, stride: Expr | None, lanes: int, env: Env) -> Ints:
    """The element that each lane of a load or store is."""
    first = evaluate(offset, env)
    if lanes == 1:
        return first
    step = YES.astype(np.int64) if stride is None else evaluate(stride, env)
    return first + step * lane_numbers(lanes)


def numbers(value: v.Value, lets: Lets, env: Env) -> Ints:
    """Index arithmetic in lanes; raises OnData where it depends on data."""
    match value:
        case v.Ref(name) if name in lets:
            return lets.numbers(name, env)
        case v.Const(number) if not value.type.elem.is_float:
            return np.array([[int(number)]], dtype=np.int64)
        case v.Iota(base, step, type):
            return evaluate(base, env) + step * lane_numbers(type.lanes)
        case v.Splat(arg):
            return numbers(arg, lets, env)
        case v.Choose(mask, then, other):
            chosen = mask_of(mask, lets, env)
            if not np.array_equal(chosen.may, chosen.must):
                raise OnData
            return np.where(chosen.may, numbers(then, lets, env), numbers(other, lets, env))
        case v.Op(op, args) if not value.type.elem.is_float:
            return operation(op, [numbers(arg, lets, env) for arg in args])
        case _:
            raise OnData
