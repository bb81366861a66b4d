"""exp, exp2 and what follows from them: sigmoid, tanh.

Cody and Waite, Software Manual for the Elementary Functions (1980): x = k ln 2 + r with a whole k
and |r| <= ln(2) / 2; ln 2 is the sum of two numbers, the first short enough for k times it to be
exact. Then e^x = 2^k e^r, and e^r is a polynomial.
"""

from __future__ import annotations

from dataclasses import dataclass

from tdsl.elementary.coefficients import EXP, EXP2, LN2, LOG2E, TANH
from tdsl.elementary.formula import Formula, Term
from tdsl.ir.vector import Block

# Beyond these e^x and 2^x are 0 and infinity after rounding, and 2^k can be made in two steps.
_EXP_RANGE = {"f32": (-104.0, 89.0), "f64": (-746.0, 710.0)}
_EXP2_RANGE = {"f32": (-150.0, 128.0), "f64": (-1075.0, 1024.0)}
_TANH_END = {"f32": 10.0, "f64": 20.0}  # from here on tanh x rounds to 1


@dataclass(frozen=True)
class Reduced:
    """x = count * ln 2 + r; `minus_one` is e^r - 1, relatively exact to about an ulp; `low` is
    what it lost when it was rounded."""

    count: Term
    minus_one: Term
    low: Term


def whole(f: Formula, scaled: Term, name: str = "k") -> Term:
    """The nearest whole number, as a float."""
    return f.let(name, scaled - f.shifter)


def power_of_two(f: Formula, k: Term) -> Term:
    """2^k for a whole k as a float, if that is a normal number. The sum holds k plus the bias
    of the exponent in its low bits; the shift drops all above."""
    if f.scales:
        return f.scaled(k.like(1.0), k)
    return f.from_bits(f.bits(k + (f.shifter + f.bias)) << f.mantissa)


def scale_normal(f: Formula, value: Term, k: Term) -> Term:
    """value * 2^k, if 2^k is a normal number."""
    return f.scaled(value, k) if f.scales else value * power_of_two(f, k)


def scale(f: Formula, value: Term, k: Term) -> Term:
    """value * 2^k, rounded once, also where 2^k alone overflows or is subnormal: by an instruction,
    or in two steps, the first of which is exact."""
    if f.scales:
        return f.scaled(value, k)
    half = f.let("half", f.fma(k, 0.5, f.shifter) - f.shifter)
    first = f.let("first", value * power_of_two(f, half))
    return first * power_of_two(f, k - half)


def _parts(f: Formula, x: Term) -> tuple[Term, Term]:
    """k and r."""
    high, low = LN2[f.name]
    k = whole(f, f.fma(x, LOG2E[f.name], f.shifter))
    return k, f.let("r", f.fnma(k, low, f.fnma(k, high, x)))


def factors(f: Formula, x: Term) -> tuple[Term, Term]:
    """e^r, within an ulp, and k, for an x in the range of e^x."""
    k, r = _parts(f, x)
    return f.polynomial(r, (1.0, 1.0, *EXP[f.name])), k


def reduce(f: Formula, x: Term) -> Reduced:
    """For an x in the range of e^x."""
    k, r = _parts(f, x)
    curve = f.let("curve", f.polynomial(r, EXP[f.name]) * (r * r))
    t = f.let("t", r + curve)
    return Reduced(k, t, (r - t) + curve)


def exp(f: Formula) -> Block:
    """e^x for any x."""
    low, high = _EXP_RANGE[f.name]
    p, k = factors(f, f.let("inside", f.x.at_least(low).at_most(high)))
    return f.result(scale(f, p, k))


def exp2(f: Formula) -> Block:
    """2^x = 2^k 2^r with a whole k and |r| <= 1/2."""
    low, high = _EXP2_RANGE[f.name]
    inside = f.let("inside", f.x.at_least(low).at_most(high))
    k = whole(f, inside + f.shifter)
    r = f.let("r", inside - k)
    return f.result(scale(f, f.fma(r, f.polynomial(r, EXP2[f.name]), 1.0), k))


def _quotient(f: Formula, n: Term, n_low: Term, d: Term, d_low: Term) -> Term:
    """(n + n_low) / (d + d_low) for 1 <= d <= 2: one division and the first-order correction, in
    which 1 / d may be a straight line."""
    q = f.let("q", n / d)
    error = f.fnma(q, d_low, n_low)
    return f.fma(error, f.fnma(d, 0.5, 1.453125), q)


def sigmoid(f: Formula) -> Block:
    """1 / (1 + e^-x) for x >= 0, e^x / (1 + e^x) below: with e = e^-|x| nothing overflows."""
    reduced = reduce(f, f.let("inside", (-abs(f.x)).at_least(_EXP_RANGE[f.name][0])))
    k, t = reduced.count, reduced.minus_one
    p = f.let("p", t + 1.0)
    p_low = f.let("p_low", (1.0 - p) + t + reduced.low)
    # In the denominator powers that are no normal numbers do not count.
    power = f.let("power", power_of_two(f, k.at_least(float(1 - f.bias))))
    e = f.let("e", p * power)
    d = f.let("d", e + 1.0)
    d_low = f.let("d_low", f.fma(p_low, power, (1.0 - d) + e))
    positive = f.let("positive", f.x >= 0.0)
    n, n_low = f.choose(positive, 1.0, p), f.choose(positive, 0.0, p_low)
    q = f.let("quotient", _quotient(f, n, n_low, d, d_low))
    return f.result(scale(f, q, f.let("places", f.choose(positive, 0.0, k))))


def tanh(f: Formula) -> Block:
    """Near 0 an odd polynomial. From 13/16 on 1 - 2 / (1 + e^(2 |x|)), where the error of the
    quotient, which is below a third, hardly counts."""
    size = f.let("size", abs(f.x).at_most(_TANH_END[f.name]))
    z = f.let("z", size * size)
    near = f.let("near", f.fma(z * size, f.polynomial(z, TANH[f.name]), size))
    e = scale_normal(f, *factors(f, f.let("double", size + size)))
    beyond = f.let("beyond", 1.0 - 2.0 / (e + 1.0))
    return f.result(f.with_sign(f.choose(size < 13 / 16, near, beyond), f.x))
