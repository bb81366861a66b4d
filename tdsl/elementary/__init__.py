"""Elementary functions as formulas of the vector level: one for scalars, vectors and tails.

`FUNCTIONS` names them; docs/math.md says how exact they are.
"""

from __future__ import annotations

from tdsl.elementary.error_function import erf
from tdsl.elementary.exponential import exp, exp2, sigmoid, tanh
from tdsl.elementary.formula import ARGUMENT, RESULT, Formula
from tdsl.elementary.large_angles import TABLES, cos_far, sin_far
from tdsl.elementary.logarithm import log
from tdsl.elementary.trigonometric import cos, sin
from tdsl.ir.types import F32, F64, ElemType

FUNCTIONS = {
    "exp": exp, "exp2": exp2, "log": log, "tanh": tanh, "erf": erf, "sigmoid": sigmoid,
    "sin": sin, "cos": cos,
}  # fmt: skip
LARGE = {"sin_far": sin_far, "cos_far": cos_far}
"""What sin and cos do with large arguments: of one f64 alone."""


def is_elementary(op: str, elem: ElemType) -> bool:
    """Whether the operation on such elements is one of these functions."""
    return op.removesuffix("_strict") in FUNCTIONS and elem in (F32, F64)


def is_large(op: str) -> bool:
    """Whether the operation is one of those for large arguments."""
    return op.removesuffix("_strict") in LARGE


__all__ = [
    "ARGUMENT",
    "FUNCTIONS",
    "LARGE",
    "RESULT",
    "TABLES",
    "Formula",
    "is_elementary",
    "is_large",
]
