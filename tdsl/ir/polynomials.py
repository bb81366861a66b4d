"""Comparing index expressions of sizes, for all sizes: they are bounded by polynomials.

Sizes are never negative, so that no product of them is: a polynomial without negative coefficients
is never negative either. That decides what sums and products of sizes, `//`, `min` and `max` come
to in practice; what it does not decide is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from tdsl.ir.kernel import Const, Expr, Op, Select, Size

Polynomial = Mapping[tuple[str, ...], Fraction]  # product of sizes -> coefficient


@dataclass(frozen=True)
class Bounds:
    """Polynomials that an expression is never below and never above."""

    low: Polynomial
    high: Polynomial

    @property
    def is_exact(self) -> bool:
        return self.low == self.high


def holds_always(op: str, a: Expr, b: Expr) -> bool:
    """Whether `a op b` is proved for all sizes."""
    left, right = bounds(a), bounds(b)
    if left is None or right is None:
        return False
    low, high = _sum(left.low, right.high, -1), _sum(left.high, right.low, -1)
    below, above = _least(_sum({}, high, -1)), _least(low)
    match op:
        case "<=":
            return below is not None
        case "<":
            return below is not None and below > 0
        case ">=":
            return above is not None
        case ">":
            return above is not None and above > 0
        case "==":
            return not low and not high
        case _:  # !=
            return bool(below or above)


def _least(p: Polynomial) -> Fraction | None:
    """A number that it is never below, of those from 0 on; None where none is known."""
    if any(c < 0 for c in p.values()):
        return None
    return p.get((), Fraction(0))


def bounds(expr: Expr) -> Bounds | None:
    """None for what has no such bounds."""
    match expr:
        case Const(value):
            return _exact({(): Fraction(int(value))})
        case Size(name):
            return _exact({(name,): Fraction(1)})
        case Op("neg", (a,)):
            found = bounds(a)
            return found and Bounds(_sum({}, found.high, -1), _sum({}, found.low, -1))
        case Op("floordiv", (a, Const(value))) if value > 0:
            found, n = bounds(a), int(value)
            if found is None:
                return None
            low = _sum(found.low, {(): Fraction(n - 1)}, -1)
            return Bounds(_scaled(low, Fraction(1, n)), _scaled(found.high, Fraction(1, n)))
        case Op("mod", (_, Const(value))) if value > 0:
            return Bounds({}, _sum({}, {(): Fraction(int(value) - 1)}, 1))
        case Op(("add" | "sub" | "mul" | "min" | "max") as op, (a, b)):
            left, right = bounds(a), bounds(b)
            return None if left is None or right is None else _joined(op, left, right)
        case Select(_, then, other):
            left, right = bounds(then), bounds(other)
            if left is None or right is None:
                return None
            return Bounds(_each(left.low, right.low, min), _each(left.high, right.high, max))
        case _:
            return None


def _joined(op: str, a: Bounds, b: Bounds) -> Bounds | None:
    match op:
        case "add":
            return Bounds(_sum(a.low, b.low, 1), _sum(a.high, b.high, 1))
        case "sub":
            return Bounds(_sum(a.low, b.high, -1), _sum(a.high, b.low, -1))
        case "max":
            return Bounds(a.low, _each(a.high, b.high, max))
        case "min":
            smaller = a if _least(_sum(b.high, a.high, -1)) is not None else b
            return Bounds(_each(a.low, b.low, min), smaller.high)
    if a.is_exact and b.is_exact:
        return _exact(_product(a.low, b.low))
    if _least(a.low) is None or _least(b.low) is None:
        return None
    return Bounds(_product(a.low, b.low), _product(a.high, b.high))


def _exact(p: Polynomial) -> Bounds:
    return Bounds(_sum({}, p, 1), _sum({}, p, 1))


def _sum(a: Polynomial, b: Polynomial, factor: int) -> Polynomial:
    """a + factor * b."""
    total = dict(a)
    for monomial, c in b.items():
        total[monomial] = total.get(monomial, Fraction(0)) + factor * c
    return {m: c for m, c in total.items() if c}


def _scaled(p: Polynomial, factor: Fraction) -> Polynomial:
    return {m: c * factor for m, c in p.items()}


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    total: dict[tuple[str, ...], Fraction] = {}
    for m, c in a.items():
        for n, d in b.items():
            both = tuple(sorted(m + n))
            total[both] = total.get(both, Fraction(0)) + c * d
    return {m: c for m, c in total.items() if c}


def _each(
    a: Polynomial, b: Polynomial, choose: Callable[[Fraction, Fraction], Fraction]
) -> Polynomial:
    """Coefficient by coefficient: their products of sizes are not negative."""
    zero = Fraction(0)
    found = {m: choose(a.get(m, zero), b.get(m, zero)) for m in {*a, *b}}
    return {m: c for m, c in found.items() if c}
