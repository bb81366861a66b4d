"""References for the elementary functions, points to ask at, and errors in ulp."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np

from tdsl.ir.types import F32, F64, ElemType

Array = np.ndarray[Any, np.dtype[Any]]
BITS = 110  # of mpmath's results: twice those of a double

NAMES = ("exp", "exp2", "log", "tanh", "erf", "sigmoid", "sin", "cos")
ULP = 2.0  # what is promised
FOUND = 1.5  # what none exceeds so far (docs/math.md): a formula that does has lost something
KINDS = {"f32": np.float32, "f64": np.float64}


# ---------------------------------------------------------------- references


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + e), e / (1 + e)))


_DOUBLE: dict[str, Callable[[Array], Any]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "tanh": np.tanh, "sigmoid": _sigmoid,
    "sin": np.sin, "cos": np.cos, "erf": np.vectorize(math.erf, otypes=[np.float64]),
}  # fmt: skip
_EXACT: dict[str, Callable[[Any], Any]] = {
    "exp": mp.exp, "exp2": lambda x: mp.power(2, x), "log": mp.log, "tanh": mp.tanh,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)), "sin": mp.sin, "cos": mp.cos, "erf": mp.erf,
}  # fmt: skip


@dataclass(frozen=True)
class Exact:
    """Results as sums of two doubles; the second is 0 where a double is precise enough."""

    high: Array
    low: Array


def of_f32(op: str, x: Array) -> Exact:
    """In double: right to about 2^-29 of an ulp of f32."""
    with np.errstate(all="ignore"):
        high = np.asarray(_DOUBLE[op](x.astype(np.float64)))
    return Exact(high, np.zeros_like(high))


def of_f64(op: str, x: Array) -> Exact:
    """By mpmath, for finite arguments of which the result is a real number."""
    high, low = np.empty_like(x), np.zeros_like(x)
    with mp.workprec(BITS):
        for i, value in enumerate(x.tolist()):
            exact = _EXACT[op](mp.mpf(value))
            high[i] = float(exact)
            if math.isfinite(high[i]):
                low[i] = float(exact - high[i])
    return Exact(high, low)


def ulps(got: Array, want: Exact) -> Array:
    """Errors in units of the last place that the type has at the exact value.

    Equal infinities and NaN have none; nor has an infinity where the value rounds to it.
    """
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(want.high)
        last = np.ldexp(1.0, np.maximum(exponent - 1, info.minexp) - info.nmant)
        error = np.abs((got.astype(np.float64) - want.high) - want.low) / last
        rounded = want.high.astype(got.dtype)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        # A result is an infinity if and only if the reference is; both or neither are NaN.
        apart = (np.isinf(got) != np.isinf(rounded)) | (np.isnan(got) != np.isnan(rounded))
    error = np.where(same & ~np.isfinite(rounded), 0.0, error)
    return np.where(apart, np.inf, error)


# ---------------------------------------------------------------- points

_EDGES = {
    # Where results overflow, underflow, round to 1, or a formula changes.
    "f32": (88.72284, -87.33655, -103.27893, -103.97208, 128.0, -126.0, -149.0, -150.0, 9.01, 4.0,
            16.63, 1.0, 0.3465736, 0.5, 1.5, 0.70710677, 1.4142135, 2.0**-126, 12288.0, 12867.0,
            0.7853982, 1.5707964, 3.1415927, 355.0, 11011.0, 10.0, 20.0, 1e-38, 1e-45),
    "f64": (709.782712893384, -708.3964185322641, -744.4400719213812, -745.1332191019411, 1024.0,
            -1022.0, -1074.0, -1075.0, 19.06, 5.92, 36.74, 1.0, 0.34657359027997264, 0.5, 1.5,
            0.7071067811865476, 1.4142135623730951, 2.0**-1022, 1572864.0, 1647099.0,
            0.7853981633974483, 1.5707963267948966, 3.141592653589793, 355.0, 1146408.0, 20.0,
            40.0, 6.0, 1e-308, 5e-324),
}  # fmt: skip


def edges(elem: ElemType) -> Array:
    """Values around each edge, of both signs."""
    kind = KINDS[elem.name]
    unsigned = np.uint32 if elem == F32 else np.uint64
    bits = np.abs(np.array(_EDGES[elem.name], kind)).view(unsigned).astype(np.int64)
    near = (bits[:, None] + np.arange(-40, 41)).clip(0).ravel().astype(unsigned).view(kind)
    return np.concatenate([near, -near])


def near_quarter_turns(elem: ElemType) -> Array:
    """Numbers close to multiples of pi/2, at last the f64 that is closest of all."""
    count = np.unique(np.geomspace(1, 1e6, 4000).round())
    closest = 6381956970095103 * 2.0**797 if elem == F64 else 16367173 * 2.0**72
    return np.append(count * (np.pi / 2), closest).astype(KINDS[elem.name])


def every_f32(stride: int, start: int = 1, stop: int = 2**32) -> Array:
    """Every `stride`-th bit pattern."""
    bits = np.arange(start, stop, stride, dtype=np.uint64).astype(np.uint32)
    return np.asarray(bits.view(np.float32))


@cache
def points_f32(stride: int) -> Array:
    """Strided over all bit patterns, and the edges."""
    return np.concatenate([every_f32(stride), edges(F32), near_quarter_turns(F32)])


@cache
def points_f64(op: str, count: int) -> Array:
    """All exponents, and densely where the function neither vanishes nor saturates."""
    rng = np.random.default_rng(NAMES.index(op))
    anywhere = rng.integers(0, 2**64, count // 4, np.uint64).view(np.float64)
    scale = {"exp": 760.0, "exp2": 1100.0, "sigmoid": 760.0, "tanh": 22.0, "erf": 6.5}
    inside = rng.uniform(-1, 1, count // 4) * scale.get(op, 1600000.0)
    small = rng.uniform(-2, 2, count // 4)
    signs = rng.choice([-1.0, 1.0], count // 4)
    steps = signs * 2.0 ** rng.uniform(-40, 10, count // 4)
    x = np.concatenate([anywhere, inside, small, steps, edges(F64), near_quarter_turns(F64)])
    x = x[np.isfinite(x)]
    if op == "log":
        x = np.abs(x[x != 0])
    if op in ("exp", "exp2", "sigmoid"):
        x = x[np.abs(x) < 2000]  # mpmath would give numbers of thousands of digits
    return np.asarray(x)


@cache
def exact(op: str, elem: ElemType, amount: int) -> Exact:
    """The reference at points_f32(stride) or points_f64(op, count)."""
    return of_f32(op, points_f32(amount)) if elem == F32 else of_f64(op, points_f64(op, amount))


SPECIAL: dict[str, tuple[tuple[float, float], ...]] = {
    "exp": ((-math.inf, 0.0), (math.inf, math.inf), (0.0, 1.0), (-0.0, 1.0), (1e30, math.inf),
            (-1e30, 0.0)),
    "exp2": ((-math.inf, 0.0), (math.inf, math.inf), (0.0, 1.0), (-0.0, 1.0), (3.0, 8.0),
             (-5.0, 0.03125), (1e30, math.inf), (-1e30, 0.0)),
    "log": ((-math.inf, math.nan), (math.inf, math.inf), (0.0, -math.inf), (-0.0, -math.inf),
            (-1.0, math.nan), (1.0, 0.0), (-1e-40, math.nan)),
    "tanh": ((-math.inf, -1.0), (math.inf, 1.0), (0.0, 0.0), (-0.0, -0.0), (1e30, 1.0)),
    "erf": ((-math.inf, -1.0), (math.inf, 1.0), (0.0, 0.0), (-0.0, -0.0), (1e30, 1.0)),
    "sigmoid": ((-math.inf, 0.0), (math.inf, 1.0), (0.0, 0.5), (-0.0, 0.5), (1e30, 1.0),
                (-1e30, 0.0)),
    "sin": ((-math.inf, math.nan), (math.inf, math.nan), (0.0, 0.0), (-0.0, -0.0)),
    "cos": ((-math.inf, math.nan), (math.inf, math.nan), (0.0, 1.0), (-0.0, 1.0)),
}  # fmt: skip
"""Arguments and results that are exact, the sign of a zero included."""
