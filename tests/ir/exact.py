"""Arithmetic of the element types by exact integers and fractions, to compare with."""

from __future__ import annotations

import math
from fractions import Fraction

from tdsl.ir.types import BF16, F16, F32, F64, ElemType

# Digits of the significand, greatest and least exponent of a normal number.
FORMATS = {F64: (53, 1023, -1022), F32: (24, 127, -126), F16: (11, 15, -14), BF16: (8, 127, -126)}


def limits(type_: ElemType) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    if type_.kind == "uint":
        return 0, (1 << type_.bits) - 1
    return -(1 << (type_.bits - 1)), (1 << (type_.bits - 1)) - 1


def wrap(value: int, type_: ElemType) -> int:
    """The integer that `type_` keeps of `value`."""
    low, _ = limits(type_)
    return (value - low) % (1 << type_.bits) + low


def clamp(value: int, type_: ElemType) -> int:
    low, high = limits(type_)
    return max(low, min(high, value))


def integer_op(op: str, type_: ElemType, a: int, b: int) -> int:
    """A binary operation on integers, by the language's rules."""
    bits = type_.bits
    far = not 0 <= b < bits
    results = {
        "add": lambda: a + b,
        "sub": lambda: a - b,
        "mul": lambda: a * b,
        "floordiv": lambda: a // b if b else 0,
        "mod": lambda: a % b if b else 0,
        "min": lambda: min(a, b),
        "max": lambda: max(a, b),
        "band": lambda: a & b,
        "bor": lambda: a | b,
        "bxor": lambda: a ^ b,
        "shl": lambda: 0 if far else a << b,
        "shr": lambda: (-1 if a < 0 else 0) if far else a >> b,
    }
    return wrap(results[op](), type_)


def nearest(value: Fraction, type_: ElemType) -> float:
    """The number of a float type that is nearest, ties to even; beyond the range an infinity."""
    if value == 0:
        return 0.0
    digits, most, least = FORMATS[type_]
    sign = 1.0 if value > 0 else -1.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, least) - digits + 1)
    rounded = round(size / unit) * unit  # Python rounds a fraction half to even
    if rounded >= Fraction(2) ** (most + 1):
        return sign * math.inf
    return sign * float(rounded)
