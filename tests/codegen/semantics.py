"""What each operation means, in NumPy and exact arithmetic; edge values of every type."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from tdsl.ir.types import ElemType

Array = np.ndarray[Any, np.dtype[Any]]

FLOAT_OPS = (
    "add", "sub", "mul", "div", "neg", "abs", "min", "max", "min_strict", "max_strict", "sqrt",
    "floor", "ceil", "trunc", "round", "fma", "fnma",
)  # fmt: skip
MATH_OPS = ("rsqrt", "exp", "exp2", "log", "log2", "sin", "cos", "tanh", "sigmoid", "pow", "erf")
INTEGER_OPS = (
    "add", "sub", "mul", "neg", "abs", "min", "max", "floordiv", "mod", "band", "bor", "bxor",
    "bnot", "shl", "shr",
)  # fmt: skip
COMPARE_OPS = ("eq", "ne", "lt", "le", "gt", "ge")
OPERANDS = {
    "neg": 1, "abs": 1, "sqrt": 1, "floor": 1, "ceil": 1, "trunc": 1, "round": 1, "bnot": 1,
    "rsqrt": 1, "exp": 1, "exp2": 1, "log": 1, "log2": 1, "sin": 1, "cos": 1, "tanh": 1,
    "sigmoid": 1, "erf": 1, "fma": 3, "fnma": 3,
}  # fmt: skip


def edge_values(elem: ElemType) -> Array:
    """Values at which implementations differ."""
    if elem.is_float:
        kind = np.dtype({"f16": "float16", "f32": "float32", "f64": "float64"}[elem.name])
        info = np.finfo(kind)
        some = [
            np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, 0.1, -0.7,
            info.max, -info.max, info.tiny, info.tiny / 4, 100.25, -126.5, 127.5, 255.5, 256.0,
        ]  # fmt: skip
        if elem.bits > 16:
            some += [32768.0, -32769.0, 2.0**31, -(2.0**31), 2.0**32, 4294967040.0, 2147483520.0]
            some += [2.0**63, -(2.0**63), 2.0**64, 9.2e18, -3e9, 65535.5]
        return np.array(some, kind)
    info_i = np.iinfo(elem.name.replace("i", "int").replace("u", "uint"))
    wanted = [
        info_i.min, info_i.min + 1, -129, -128, -100, -7, -2, -1, 0, 1, 2, 3, 7, 8, 9, 15, 16, 31,
        32, 33, 63, 64, 65, 100, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 2**31 - 1, 2**31,
        2**32 - 1, 2**53 + 1, info_i.max // 3, info_i.max - 1, info_i.max,
    ]  # fmt: skip
    return np.array([w for w in wanted if info_i.min <= w <= info_i.max], info_i.dtype)


def operand_triples(elem: ElemType, multiple: int = 64) -> tuple[Array, Array, Array]:
    """All pairs of edge values and a third beside them, padded to a multiple of the lanes."""
    values = edge_values(elem)
    a, b = (x.ravel() for x in np.meshgrid(values, values))
    c = np.roll(np.resize(values, a.size), 5)
    whole = -(-a.size // multiple) * multiple
    return np.resize(a, whole), np.resize(b, whole), np.resize(c, whole)


def expected(op: str, elem: ElemType, args: tuple[Array, ...]) -> Array:
    """`op` lane by lane."""
    with np.errstate(all="ignore"):
        if op in COMPARE_OPS:
            return np.asarray(_COMPARE[op](args[0], args[1])).astype(np.uint8)
        rules: dict[str, Any] = _FLOAT if elem.is_float else _INTEGER
        result = rules[op](*args)
        return np.asarray(result).astype(args[0].dtype)


_COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip


def _fused(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once."""
    out = np.asarray(a.astype(np.float64) * b + c).astype(a.dtype)  # right where not finite
    for i, (x, y, z) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
        if np.isfinite([x, y, z]).all():
            exact = Fraction(x) * Fraction(y) + Fraction(z)
            if exact != 0:
                out[i] = nearest(exact, a.dtype)
    return out


def nearest(exact: Fraction, kind: np.dtype[Any]) -> Any:
    """A fraction rounded to a float type, ties to even."""
    info = np.finfo(kind)
    bits = info.nmant + 1
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, info.minexp) - bits + 1)
    rounded = round(exact / unit) * unit
    if abs(rounded) > Fraction(float(info.max)):
        return kind.type(np.inf if exact > 0 else -np.inf)
    return kind.type(float(rounded))


def _strict(a: Array, b: Array, greater: bool) -> Array:
    pick = np.maximum(a, b) if greater else np.minimum(a, b)
    zeros = (a == 0) & (b == 0)
    negative = np.signbit(a) & np.signbit(b) if greater else np.signbit(a) | np.signbit(b)
    return np.where(zeros, np.where(negative, -0.0, 0.0), pick)


def _erf(x: Array) -> Array:
    of_each = np.vectorize(math.erf, otypes=[np.float64])
    return np.asarray(of_each(x.astype(np.float64)))


_FLOAT = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "abs": np.abs, "min": np.minimum, "max": np.maximum, "sqrt": np.sqrt, "floor": np.floor,
    "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "fma": _fused,
    "fnma": lambda a, b, c: _fused(-a, b, c),
    "min_strict": lambda a, b: _strict(a, b, False),
    "max_strict": lambda a, b: _strict(a, b, True),
    "rsqrt": lambda a: 1.0 / np.sqrt(a.astype(np.float64)),
    "exp": lambda a: np.exp(a.astype(np.float64)),
    "exp2": lambda a: np.exp2(a.astype(np.float64)),
    "log": lambda a: np.log(a.astype(np.float64)),
    "log2": lambda a: np.log2(a.astype(np.float64)),
    "sin": lambda a: np.sin(a.astype(np.float64)),
    "cos": lambda a: np.cos(a.astype(np.float64)),
    "tanh": lambda a: np.tanh(a.astype(np.float64)),
    "erf": _erf,
    "sigmoid": lambda a: 1.0 / (1.0 + np.exp(-a.astype(np.float64))),
    "pow": lambda a, b: np.power(a.astype(np.float64), b.astype(np.float64)),
}  # fmt: skip


def _python(rule: Any) -> Any:
    """A rule on Python integers, wrapped to the type."""

    def apply(*args: Array) -> Array:
        bits = args[0].dtype.itemsize * 8
        signed = args[0].dtype.kind == "i"
        out = []
        for values in zip(*(a.tolist() for a in args), strict=True):
            value = rule(*values, bits) & ((1 << bits) - 1)
            out.append(value - (1 << bits) if signed and value >> (bits - 1) else value)
        return np.array(out, args[0].dtype)

    return apply


def _beyond(n: int, bits: int) -> bool:
    return not 0 <= n < bits


_INTEGER = {
    "add": _python(lambda a, b, w: a + b),
    "sub": _python(lambda a, b, w: a - b),
    "mul": _python(lambda a, b, w: a * b),
    "neg": _python(lambda a, w: -a),
    "abs": _python(lambda a, w: abs(a)),
    "min": np.minimum,
    "max": np.maximum,
    "floordiv": _python(lambda a, b, w: a // b if b else 0),
    "mod": _python(lambda a, b, w: a % b if b else 0),
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
    "bnot": np.invert,
    "shl": _python(lambda a, n, w: 0 if _beyond(n, w) else a << n),
    "shr": _python(lambda a, n, w: (-1 if a < 0 else 0) if _beyond(n, w) else a >> n),
}


def agree(got: Array, want: Array, *, signed_zeros: bool = True) -> bool:
    """Equal bits, save that all NaN are one, and zeros too where their sign is unspecified."""
    if got.dtype.kind != "f":
        return np.array_equal(got, want)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    if signed_zeros:
        same &= np.isnan(want) | (np.signbit(got) == np.signbit(want))
    return bool(same.all())
