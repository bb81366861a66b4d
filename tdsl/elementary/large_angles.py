"""sin and cos of large f64 numbers, one at a time.

Payne and Hanek, Radian Reduction for Trigonometric Functions (1983): x = m 2^e with an integer m.
x 2/pi matters modulo 4 alone, so that of the digits of 2/pi those are left out with which m 2^e
makes multiples of 4; the 192 that follow are enough, since no f64 is nearer to a multiple of
pi/2 than about 2^-60. They are multiplied by m in integers.
"""

from __future__ import annotations

import math
from itertools import pairwise

from tdsl.elementary.coefficients import HALF_PI_FUSED, TWO_OVER_PI_WORDS
from tdsl.elementary.formula import Formula, Term
from tdsl.elementary.trigonometric import FAR, finish
from tdsl.ir.types import I64
from tdsl.ir.vector import Block, Cast, VType

_LOW_WORD = (1 << 32) - 1
_WORD = 64
_ALL = (1 << _WORD) - 1
_BEYOND = (1 << 10) - 1  # digits of a number below 2^63 that a float does not hold
# The first of the 192 digits is number exponent - _FIRST of the table, which starts with zeros.
_FIRST = 1013


def sin_far(f: Formula) -> Block:
    """sin x for a scalar x beyond FAR."""
    return _far(f, quarters=0, odd=True)


def cos_far(f: Formula) -> Block:
    """cos x for a scalar x beyond FAR."""
    return _far(f, quarters=1, odd=False)


def _far(f: Formula, *, quarters: int, odd: bool) -> Block:
    # Lanes that are not asked for may hold any number: digits of it are not in the table.
    size = f.let("size", abs(f.x).at_least(min(FAR.values())))
    high, low, quadrant = _fraction(f, f.let("bits", f.bits(size)))
    # The fraction lies in [-1/2, 1/2): its size, less one unit of 2^-128, and its sign.
    negative = f.let("negative", high >> (_WORD - 1))
    flip = f.let("flip", high.like(0) - negative)
    high, low = f.let("top", high ^ flip), f.let("rest", low ^ flip)
    first = f.let("first", _number(f, high & (_ALL - _BEYOND)))
    tail = ((high & _BEYOND) << 53) | (low >> 11)
    second = f.let("second", _number(f, tail) * 2.0**-53)
    one, more, _ = (part * 2.0**-_WORD for part in HALF_PI_FUSED[f.name])
    product = f.let("product", first * one)
    lost = f.exact_fma(first, one, -product)
    lost = f.let("lost", f.fma(second, one, f.fma(first, more, lost)))
    sign = f.let("side", negative << (_WORD - 1))
    r = f.let("r_plus", product + lost)
    r_low = f.let("r_plus_low", (product - r) + lost)
    r = f.let("r", f.from_bits(f.bits(r) ^ sign))
    r_low = f.let("r_low", f.from_bits(f.bits(r_low) ^ sign))
    turns = f.let("turns", quadrant + negative)
    found = finish(f, r, r_low, turns, quarters=quarters, odd=odd)
    return f.result(f.choose(size < math.inf, found, math.nan))


def _number(f: Formula, integer: Term) -> Term:
    """An integer below 2^63 as a float."""
    signed = Cast("bitcast", integer.value, VType(I64))
    return Term(Cast("convert", signed, f.type))


def _fraction(f: Formula, bits: Term) -> tuple[Term, Term, Term]:
    """x 2/pi modulo 4: 128 binary digits behind the point as two words, and the whole part."""
    m = f.let("m", (bits & ((1 << f.mantissa) - 1)) | (1 << f.mantissa))
    place = f.let("place", (bits >> f.mantissa) - _FIRST)
    index, shift = f.let("index", place >> 6), f.let("shift", place & 63)
    words = [f.let(f"word_{n}", f.element("two_over_pi", index + n)) for n in range(4)]
    digits = [
        f.let(f"digits_{n}", a.shifted_left(shift) | b.shifted_right(_WORD - shift))
        for n, (a, b) in enumerate(pairwise(words))
    ]
    low = f.let("low", m * digits[1])
    middle = f.let("middle", low + _upper(f, "carry_2", m, digits[2]))
    carry = f.choose_like(middle < low, middle.like(1), 0)
    top = f.let("high", m * digits[0] + _upper(f, "carry_1", m, digits[1]) + carry)
    return (
        f.let("fraction", (top << 2) | (middle >> 62)),
        f.let("fraction_low", middle << 2),
        f.let("whole", top >> 62),
    )


def _upper(f: Formula, name: str, a: Term, b: Term) -> Term:
    """The upper word of a product of two words, the first below 2^53."""
    a_low, a_high = f.let(f"{name}_a", a & _LOW_WORD), f.let(f"{name}_b", a >> 32)
    b_low, b_high = f.let(f"{name}_c", b & _LOW_WORD), f.let(f"{name}_d", b >> 32)
    one = f.let(f"{name}_e", a_high * b_low + ((a_low * b_low) >> 32))
    other = f.let(f"{name}_f", a_low * b_high + (one & _LOW_WORD))
    return a_high * b_high + (one >> 32) + (other >> 32)


TABLES = {"two_over_pi": TWO_OVER_PI_WORDS}
"""Words that the formulas read."""
