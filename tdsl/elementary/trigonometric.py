"""sin and cos.

Cody and Waite: |x| = k pi/2 + r with a whole k and |r| <= pi/4. pi/2 is a sum of numbers so short
that k times each is exact, or of whole ones where a fused operation gives what a product loses; r
is a sum of two, relatively exact even where x is nearly a multiple of pi/2. Then sin r or cos r is
a polynomial, k says which and its sign. Beyond the range of k `large_angles` takes over.
"""

from __future__ import annotations

import functools

from tdsl.elementary.coefficients import COS, HALF_PI, HALF_PI_FUSED, SIN, TWO_OVER_PI
from tdsl.elementary.formula import Formula, Term
from tdsl.ir.vector import Block

FAR = {"f32": 12288.0, "f64": 1572864.0}
"""Up to here k has at most 13 bits (f64: 20), for which the parts of pi/2 are cut."""


def _reduced(f: Formula, size: Term, k: Term) -> tuple[Term, Term]:
    """size - k pi/2 as a sum."""
    first, *middle, last = (HALF_PI_FUSED if f.fused else HALF_PI)[f.name]
    high = f.let("r_0", f.fnma(k, first, size))  # exact: what is left has few digits
    lost: list[Term] = []
    for number, part in enumerate(middle, 1):
        product = f.let(f"part_{number}", k * -part)
        high, low = f.two_sum(f"r_{number}", high, product)
        lost.append(low)
        if f.fused:  # without, products are exact
            lost.append(f.fma(k, -part, -product))
    rest = f.let("rest", f.fnma(k, last, functools.reduce(Term.__add__, lost)))
    r = f.let("r", high + rest)
    return r, f.let("r_low", (high - r) + rest)


def _circular(f: Formula, *, quarters: int, odd: bool) -> Block:
    """sin(x + quarters * pi/2); `odd`: the result takes the sign of x."""
    size = f.let("size", abs(f.x))
    turns = f.let("turns", f.fma(size, TWO_OVER_PI[f.name], f.shifter))
    k = f.let("k", turns - f.shifter)
    r, low = _reduced(f, size, k)
    found = finish(f, r, low, f.bits(turns), quarters=quarters, odd=odd)
    far = f.let("far", size > FAR[f.name])
    return f.result_unless(far, found, f.call("cos_far" if quarters else "sin_far", f.x))


def finish(
    f: Formula, r: Term, low: Term, turns: Term, *, quarters: int, odd: bool
) -> Term:  # fmt: skip
    """sin(r + low + (turns + quarters) * pi/2) for |r| <= pi/4."""
    z = f.let("z", r * r)
    sine = f.let("sine", f.fma(z * r, f.polynomial(z, SIN[f.name]), low) + r)
    half = f.let("half", z * 0.5)
    most = f.let("most", 1.0 - half)
    small = f.fma(z * z, f.polynomial(z, COS[f.name]), (1.0 - most) - half)
    cosine = f.let("cosine", f.fnma(r, low, small) + most)
    quadrant = f.let("quadrant", turns + quarters if quarters else turns)
    chosen = f.choose((quadrant & 1).differs(0), cosine, sine)
    sign = f.let("sign", (quadrant & 2) << (f.elem.bits - 2))
    if odd:
        sign = sign ^ (f.bits(f.x) & f.sign_bit)
    return f.from_bits(f.bits(chosen) ^ sign)


def sin(f: Formula) -> Block:
    """sin x."""
    return _circular(f, quarters=0, odd=True)


def cos(f: Formula) -> Block:
    """cos x."""
    return _circular(f, quarters=1, odd=False)
