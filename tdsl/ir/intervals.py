"""Index expressions in numbers: exact evaluation, and a box around a domain.

The box is found by propagating intervals through the conditions; it may be larger than the
domain (whoever uses it applies the conditions as well), never smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tdsl.ir.interp_ops import apply
from tdsl.ir.kernel import Cast, Const, Expr, Op, Read, Select, Size, Var

Number = int | float  # a float is an infinity
Interval = tuple[Number, Number]  # both ends inside
Box = dict[str, tuple[int, int]]  # index -> first, end (exclusive)

EVERYTHING: Interval = (-math.inf, math.inf)


def evaluate(expr: Expr, sizes: Mapping[str, int], indices: Mapping[str, int]) -> int:
    """The value of an index expression or condition without reads."""
    match expr:
        case Const(value):
            return int(value)
        case Size(name):
            return sizes[name]
        case Var(name):
            return indices[name]
        case Op(op, args):
            operands = tuple(evaluate(a, sizes, indices) for a in args)
            return int(apply(op, args[0].type, operands))
        case Select(condition, then, other):
            chosen = then if evaluate(condition, sizes, indices) else other
            return evaluate(chosen, sizes, indices)
        case Cast() | Read():
            raise ValueError(f"not an index expression: {expr}")


@dataclass
class _Propagation:
    """The intervals of the indices so far; `empty` when a condition cannot hold."""

    sizes: Mapping[str, int]
    ranges: dict[str, Interval]
    empty: bool = False

    def range(self, expr: Expr) -> Interval:
        """What `expr` can be while the indices are in their intervals."""
        match expr:
            case Const(value):
                return int(value), int(value)
            case Size(name):
                return self.sizes[name], self.sizes[name]
            case Var(name):
                return self.ranges[name]
            case Select(_, then, other):
                (a, b), (c, d) = self.range(then), self.range(other)
                return min(a, c), max(b, d)
            case Op(op, args):
                return _forward(op, tuple(self.range(a) for a in args))
            case _:
                return EVERYTHING

    def restrict(self, expr: Expr, low: Number, high: Number) -> None:
        """Learn that low <= expr <= high."""
        if low > high:
            self.empty = True
        match expr:
            case Var(name):
                was = self.ranges[name]
                self.ranges[name] = (max(was[0], low), min(was[1], high))
                self.empty |= self.ranges[name][0] > self.ranges[name][1]
            case Op("add", (a, b)):
                (a0, a1), (b0, b1) = self.range(a), self.range(b)
                self.restrict(a, low - b1, high - b0)
                self.restrict(b, low - a1, high - a0)
            case Op("sub", (a, b)):
                (a0, a1), (b0, b1) = self.range(a), self.range(b)
                self.restrict(a, low + b0, high + b1)
                self.restrict(b, a0 - high, a1 - low)
            case Op("neg", (a,)):
                self.restrict(a, -high, -low)
            case Op("mul", (a, b)):
                for one, other in ((a, b), (b, a)):
                    c0, c1 = self.range(other)
                    if c0 == c1 and c0 != 0 and isinstance(c0, int):
                        self._restrict_multiple(one, c0, low, high)
            case Op("floordiv", (a, b)):
                c0, c1 = self.range(b)
                if c0 == c1 and c0 > 0 and isinstance(c0, int):
                    self.restrict(a, low * c0, high * c0 + (c0 - 1))
            case Op("min", args):
                for arg in args:
                    self.restrict(arg, low, math.inf)
            case Op("max", args):
                for arg in args:
                    self.restrict(arg, -math.inf, high)
            case _:
                pass

    def _restrict_multiple(self, expr: Expr, factor: int, low: Number, high: Number) -> None:
        if factor < 0:
            factor, low, high = -factor, -high, -low
        ends = [
            end if isinstance(end, float) else rounded
            for end, rounded in ((low, _ceil_div(low, factor)), (high, _floor_div(high, factor)))
        ]
        self.restrict(expr, ends[0], ends[1])

    def require(self, condition: Expr) -> None:
        """Learn that `condition` holds."""
        match condition:
            case Op("and", args):
                for arg in args:
                    self.require(arg)
            case Op("le", (a, b)):
                self._ordered(a, b, 0)
            case Op("lt", (a, b)):
                self._ordered(a, b, 1)
            case Op("ge", (a, b)):
                self._ordered(b, a, 0)
            case Op("gt", (a, b)):
                self._ordered(b, a, 1)
            case Op("eq", (a, b)):
                self._ordered(a, b, 0)
                self._ordered(b, a, 0)
            case _:
                pass

    def _ordered(self, a: Expr, b: Expr, gap: int) -> None:
        """a + gap <= b."""
        if self.range(a)[0] + gap > self.range(b)[1]:
            self.empty = True
        self.restrict(a, -math.inf, self.range(b)[1] - gap)
        self.restrict(b, self.range(a)[0] + gap, math.inf)


def _floor_div(a: Number, b: Number) -> Number:
    return a if isinstance(a, float) else a // b


def _ceil_div(a: Number, b: Number) -> Number:
    return a if isinstance(a, float) else -(-a // b)


def _forward(op: str, args: tuple[Interval, ...]) -> Interval:
    match op, args:
        case "add", ((a0, a1), (b0, b1)):
            return a0 + b0, a1 + b1
        case "sub", ((a0, a1), (b0, b1)):
            return a0 - b1, a1 - b0
        case "neg", ((a0, a1),):
            return -a1, -a0
        case "mul", (a, b):
            ends = [0 if x == 0 or y == 0 else x * y for x in a for y in b]
            return min(ends), max(ends)
        case "floordiv", ((a0, a1), (b0, b1)) if b0 == b1 and b0 > 0:
            return _floor_div(a0, b0), _floor_div(a1, b0)
        case "mod", (_, (b0, b1)) if b0 > 0:
            return 0, b1 - 1
        case "min" | "max" as name, _:
            best = min if name == "min" else max
            return best(low for low, _ in args), best(high for _, high in args)
        case _:
            return EVERYTHING


def bounding_box(
    conditions: Iterable[Expr],
    indices: Iterable[str],
    sizes: Mapping[str, int],
    fixed: Mapping[str, int],
) -> Box | None:
    """Ranges of `indices` that hold every point of the domain; None when there is no point.

    `fixed` are the indices around them that have a value.
    """
    names = tuple(indices)
    state = _Propagation(sizes, {name: (value, value) for name, value in fixed.items()})
    state.ranges.update((name, EVERYTHING) for name in names)
    conditions = tuple(conditions)
    # Each round carries a bound one dependence further; more rounds only shrink the box.
    for _ in range(2 * len(names) + 2):
        before = dict(state.ranges)
        for condition in conditions:
            state.require(condition)
            if state.empty:
                return None
        if state.ranges == before:
            break
    box: Box = {}
    for name in names:
        low, high = state.ranges[name]
        if isinstance(low, float) or isinstance(high, float):
            raise ValueError(f"the domain does not bound the index {name}")
        box[name] = (low, high + 1)
    return box
