"""log.

As in FreeBSD's msun (e_log.c, after K. C. Ng): x = 2^k m with 1/sqrt(2) <= m < sqrt(2), and with
f = m - 1, s = f / (2 + f): ln m = ln((1 + s) / (1 - s)) = 2 s + s R(s^2). Written with f in front,
which is exact, the rest is small and its rounding hardly counts.
"""

from __future__ import annotations

import math

from tdsl.elementary.coefficients import LN2, LOG
from tdsl.elementary.formula import Formula
from tdsl.ir.vector import Block

_SMALLEST_NORMAL = {"f32": 2.0**-126, "f64": 2.0**-1022}
_ROOT_BITS = {"f32": 0x3F3504F3, "f64": 0x3FE6A09E667F3BCD}  # of 1 / sqrt(2), rounded down or up


def log(f: Formula) -> Block:
    """ln x; NaN below 0, -inf at 0."""
    x, places = f.x, f.mantissa + 1
    tiny = f.let("tiny", x < _SMALLEST_NORMAL[f.name])
    normal = f.choose(tiny, x * 2.0**places, x)
    # Moved so that the exponent's field steps at m = 1/sqrt(2); what lies below is m's.
    root, one = _ROOT_BITS[f.name], f.bias << f.mantissa
    moved = f.let("moved", f.bits(normal) + (one - root))
    m = f.from_bits((moved & ((1 << f.mantissa) - 1)) + root)
    g = f.let("g", m - 1.0)
    # The field in the low bits of 2^mantissa is that number plus the field.
    anchor = 2.0**f.mantissa
    field = f.from_bits((moved >> f.mantissa) | (f.bias + f.mantissa << f.mantissa)) - anchor
    k = f.let("k", field - f.choose(tiny, float(f.bias + places), float(f.bias)))
    s = f.let("s", g / (g + 2.0))
    z = f.let("z", s * s)
    half = f.let("half", g * 0.5 * g)
    high, low = LN2[f.name]
    rest = f.fma(k, low, s * f.fma(z, f.polynomial(z, LOG[f.name]), half))
    found = f.fma(k, high, g - (half - rest))
    finite = f.choose(x < math.inf, found, x)  # infinity and NaN are their own
    below = f.choose(x.equals(0.0), -math.inf, math.nan)
    return f.result(f.choose(x <= 0.0, below, finite))
