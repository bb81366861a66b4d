"""Exact numbers, and how one is written in an element type: rounded once, or refused."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from tdsl.diagnostics import Span, TypeMismatch
from tdsl.ir.kernel import INDEX, Const
from tdsl.ir.types import ElemType

# Bits of the significand, exponent of the least normal number, exponent of the greatest.
_FORMATS = {
    "f64": (53, -1022, 1023), "f32": (24, -126, 127), "f16": (11, -14, 15), "bf16": (8, -126, 127),
}  # fmt: skip


@dataclass(frozen=True)
class Exact:
    """A number without a type. `infinite` is 1 or -1 for inf and -inf (value is 0 then).

    `is_float`: written with a point or an exponent somewhere; `divided`: by `/`.
    """

    value: Fraction
    is_float: bool = False
    infinite: int = 0
    divided: bool = False

    def __str__(self) -> str:
        if self.infinite:
            return "inf" if self.infinite > 0 else "-inf"
        if self.is_float:
            return str(float(self.value))
        return str(self.value)


def limits(type_: ElemType) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    if type_.kind == "int":
        return -(1 << (type_.bits - 1)), (1 << (type_.bits - 1)) - 1
    return 0, (1 << type_.bits) - 1


def rounded(value: Fraction, type_: ElemType) -> float | None:
    """The nearest number of a floating-point type, ties to even; None where it overflows."""
    precision, least, greatest = _FORMATS[type_.name]
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, least) - precision + 1)
    result = round(size / unit) * unit
    if result >= Fraction(2) ** (greatest + 1):
        return None
    return math.copysign(float(result), value)


def constant(number: Exact, type_: ElemType, span: Span | None) -> Const:
    """The literal in the type of its context."""
    if type_.is_float:
        if number.infinite:
            return Const(number.infinite * math.inf, type_, span=span)
        nearest = rounded(number.value, type_)
        if nearest is None:
            raise TypeMismatch.at(span, f"{number} is beyond the largest number of {type_}")
        return Const(nearest, type_, span=span)
    if type_.kind == "bool":
        raise TypeMismatch.at(
            span,
            f"a truth value is wanted here, not the number {number}",
            help="write `true` or `false`",
        )
    what = "an index or a size" if type_ == INDEX else f"of type {type_}"
    if number.infinite or number.is_float:
        if number.infinite:
            low, high = limits(type_) if type_.is_integer and type_ != INDEX else (None, None)
            end = high if number.infinite > 0 else low
            help = "write a whole number" if end is None else f"the last of {type_} is `{end}`"
        elif number.value.denominator == 1:
            help = f"write `{number.value}`"
        else:
            help = "write a whole number"
        raise TypeMismatch.at(
            span,
            f"{number} is a floating-point number, and the context is {what}",
            help=help,
        )
    if number.divided and number.value.denominator == 1:
        raise TypeMismatch.at(span, "`/` divides floats only", help="write `//`")
    if number.value.denominator != 1:
        raise TypeMismatch.at(
            span,
            f"{number} is no whole number, and the context is {what}",
            help="`//` divides integers",
        )
    value = int(number.value)
    low, high = limits(type_)
    if not low <= value <= high:
        raise TypeMismatch.at(
            span,
            f"{value} does not fit into {type_} ({low} to {high})",
            help="convert what stands beside it to a wider type, for example `i64(...)`",
        )
    return Const(value, type_, span=span)
