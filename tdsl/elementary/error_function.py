"""erf.

Up to 1 it is x times a polynomial in x^2. Beyond, 1 - e^p with a polynomial p for ln(1 - erf x):
there the subtrahend is below 0.16, so that its error hardly counts.
"""

from __future__ import annotations

from tdsl.elementary.coefficients import ERF, ERF_END, ERFC
from tdsl.elementary.exponential import factors, scale_normal
from tdsl.elementary.formula import Formula
from tdsl.ir.vector import Block


def erf(f: Formula) -> Block:
    """The error function."""
    size = f.let("size", abs(f.x))
    z = f.let("z", f.x * f.x)
    near = f.let("near", f.fma(f.x, f.polynomial(z, ERF[f.name]), f.x))
    u = f.let("u", size.at_most(ERF_END[f.name]) - 1.0)
    complement = scale_normal(f, *factors(f, f.let("p", f.polynomial(u, ERFC[f.name]))))
    beyond = f.with_sign(1.0 - complement, f.x)
    return f.result(f.choose(size < 1.0, near, beyond))
