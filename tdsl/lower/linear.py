"""Linear forms: sums of values with constant coefficients, and the sub-sums that they share.

before: r1 = -4 d1 - 4 d2 + d3 + d4      r2 = 4 d1 - 4 d2 - d3 + d4
after:  t0 = d3 - 4 d1    t1 = d4 - 4 d2    r1 = t0 + t1    r2 = t1 - t0

Coefficients are exact; where one is not a number of the element type, nothing is changed.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from tdsl.ir import vector as v
from tdsl.ir.types import F32, ElemType
from tdsl.ir.walk_vector import values_in

Form = dict[v.Value, Fraction]
"""Coefficients by value; that of the constant 1 (`unit`) is a number that is added."""

MOST_TERMS = 1024  # of all forms that are searched together


class NotLinear(Exception):
    """A value is more than a sum, or a coefficient no number of its type."""


def unit(type: v.VType) -> v.Const:
    """The value whose coefficient is a form's constant."""
    return v.Const(1.0, type)


def linear(value: v.Value, known: Mapping[str, Form]) -> Form:
    """A value as a form; `known`: of variables, all others stand for themselves."""
    match value:
        case v.Ref(name) if name in known:
            return dict(known[name])
        case v.Const(number) if math.isfinite(number):
            return {unit(value.type): Fraction(number)} if number else {}
        case v.Op("add", (a, b)):
            return _sum(linear(a, known), linear(b, known), Fraction(1))
        case v.Op("sub", (a, b)):
            return _sum(linear(a, known), linear(b, known), Fraction(-1))
        case v.Op("neg", (a,)):
            return _sum({}, linear(a, known), Fraction(-1))
        case v.Op("mul", (v.Const() as c, a)) | v.Op("mul", (a, v.Const() as c)):
            return _sum({}, linear(a, known), _coefficient(c))
        case v.Op("fma" | "fnma" as op, (a, b, rest)):
            sign = Fraction(1 if op == "fma" else -1)
            product = linear(v.Op("mul", (a, b), value.type), known)
            return _sum(linear(rest, known), product, sign)
        case _:
            if any(isinstance(x, v.Ref) and x.name in known for x in values_in(value)):
                raise NotLinear
            return {value: Fraction(1)}


def has_coefficient(value: v.Value) -> bool:
    """Whether a constant is a factor somewhere in a sum."""
    match value:
        case v.Op("add" | "sub" | "neg", args):
            return any(has_coefficient(a) for a in args)
        case v.Op("mul", args):
            return any(isinstance(a, v.Const) for a in args)
        case v.Op("fma" | "fnma", (a, b, rest)):
            return isinstance(a, v.Const) or isinstance(b, v.Const) or has_coefficient(rest)
        case _:
            return False


def _coefficient(constant: v.Const) -> Fraction:
    if not math.isfinite(constant.value):
        raise NotLinear
    return Fraction(constant.value)


def _sum(left: Form, right: Form, factor: Fraction) -> Form:
    result = dict(left)
    for value, coefficient in right.items():
        total = result.get(value, Fraction(0)) + factor * coefficient
        if total:
            result[value] = total
        else:
            result.pop(value, None)
    return result


def representable(number: Fraction, elem: ElemType) -> bool:
    """Whether a coefficient is a number of the element type."""
    try:
        rounded = float(number)
        if elem == F32:
            (rounded,) = struct.unpack("f", struct.pack("f", rounded))
    except OverflowError:
        return False
    return abs(rounded) != math.inf and Fraction(rounded) == number


# ---------------------------------------------------------------- shared sub-sums


def shared(
    forms: Sequence[Form], elem: ElemType, fresh: Callable[[], v.Ref]
) -> tuple[list[tuple[v.Ref, Form]], list[Form]]:
    """New names for pairs of terms that several forms have up to a factor, the most frequent
    first, and the forms that use them."""
    rows = [dict(f) for f in forms]
    made: list[tuple[v.Ref, Form]] = []
    if sum(map(len, rows)) > MOST_TERMS:
        return made, rows
    order: dict[v.Value, int] = {}
    for row in rows:
        for value in row:
            order.setdefault(value, len(order))
    while True:
        counts: Counter[tuple[int, int, Fraction]] = Counter()
        for row in rows:
            counts.update(_pairs(row, order))
        if not counts:
            return made, rows
        (key, count) = max(counts.items(), key=lambda c: (c[1], -c[0][0], -c[0][1], c[0][2]))
        if count < 2:
            return made, rows
        values = list(order)
        first, second, ratio = values[key[0]], values[key[1]], key[2]
        # The smaller coefficient of the two becomes 1.
        pair = {first: Fraction(1), second: ratio}
        if abs(ratio) < 1:
            pair = {first: 1 / ratio, second: Fraction(1)}
        using = [row for row in rows if key in _pairs(row, order)]
        if sum(1 if row[first] / pair[first] > 0 else -1 for row in using) < 0:
            pair = {x: -c for x, c in pair.items()}  # most of them add it
        if not all(representable(c, elem) for c in pair.values()):
            return made, rows
        ref = fresh()
        made.append((ref, pair))
        order[ref] = len(order)
        for row in using:
            row[ref] = row.pop(first) / pair[first]
            del row[second]


def _pairs(row: Form, order: Mapping[v.Value, int]) -> list[tuple[int, int, Fraction]]:
    """Every two terms with the ratio of their coefficients."""
    terms = sorted((order[x], c) for x, c in row.items() if not isinstance(x, v.Const))
    return [(a, b, d / c) for n, (a, c) in enumerate(terms) for b, d in terms[n + 1 :]]


# ---------------------------------------------------------------- forms as values


def value_of(form: Form, type: v.VType, *, fma: bool) -> v.Value:
    """The sum: terms without a product first, 1 and -1 added and subtracted."""
    one = Fraction(1)
    terms = sorted(form.items(), key=lambda t: (t[1] != one, t[1] == -one))
    result: v.Value | None = None
    for value, c in terms:
        if isinstance(value, v.Const):
            value, c = v.Const(float(c), type), one
        if result is None:
            result = _product(value, c, type)
        elif abs(c) == 1 and fma and isinstance(value, v.Op) and value.op == "mul":
            result = v.Op("fma" if c > 0 else "fnma", (*value.args, result), type)
        elif abs(c) == 1:
            result = v.Op("add" if c > 0 else "sub", (result, value), type)
        elif fma:
            factor = v.Const(float(abs(c)), type)
            result = v.Op("fma" if c > 0 else "fnma", (factor, value, result), type)
        else:
            product = _product(value, abs(c), type)
            result = v.Op("add" if c > 0 else "sub", (result, product), type)
    return v.Const(0.0, type) if result is None else result


def _product(value: v.Value, c: Fraction, type: v.VType) -> v.Value:
    if c == 1:
        return value
    if c == -1:
        return v.Op("neg", (value,), type)
    return v.Op("mul", (v.Const(float(c), type), value), type)
