"""Integers in resolved directives."""

from __future__ import annotations

from fractions import Fraction

from tdsl.diagnostics import Span
from tdsl.syntax.tree import Expr, Number, Unary


def number(value: int, span: Span | None = None) -> Expr:
    """An integer as an expression."""
    literal = Number(Fraction(abs(value)), False, str(abs(value)), span=span)
    return Unary("-", literal, span=span) if value < 0 else literal


def integer(expr: object) -> int:
    """The integer that `resolve` left; anything else is a defect of the compiler."""
    match expr:
        case Number(value, False):
            return int(value)
        case Unary("-", Number(value, False)):
            return -int(value)
        case _:
            raise TypeError(f"this directive is not resolved: {expr}")
