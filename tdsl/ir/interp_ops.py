"""The arithmetic of the language on NumPy values, one rounding an operation.

A value is held in `compute_dtype(type)`: f16 and bf16 numbers as f32 that the narrow type can
represent, indices as Python integers or int64 arrays. Where NumPy's own rule differs from the
language's (division by zero, shifts, NaN to integer, -0 < +0) the rule is written out.
Shift counts are read as unsigned, so that a negative count shifts everything out.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tdsl.ir.dtypes import compute_dtype, storage_dtype
from tdsl.ir.kernel import INDEX, Const
from tdsl.ir.lowfloat import from_bf16, round_bf16, to_bf16
from tdsl.ir.types import BF16, BOOL, F16, F64, ElemType

# NumPy arrays, NumPy scalars, and Python's int and bool for indices and what is made of them:
# unions of these say less than they cost.
Value = Any


def constant(expr: Const) -> Value:
    """The value of a literal."""
    if expr.type == INDEX:
        return int(expr.value)
    return compute_dtype(expr.type).type(expr.value)


def narrow(value: Value, type_: ElemType) -> Value:
    """A float value of any precision rounded to `type_`."""
    if type_ == BF16:
        return round_bf16(value)
    if type_ == F16:
        return np.asarray(value).astype(np.float16).astype(np.float32)
    return np.asarray(value).astype(compute_dtype(type_), copy=False)


def apply(op: str, operand: ElemType, args: tuple[Value, ...]) -> Value:
    """`op` on values of type `operand`; of more than two, from left to right."""
    if len(args) > 2:
        if op not in _FOLDED:
            raise ValueError(f"the operation {op} does not take {len(args)} operands")
        return apply(op, operand, (apply(op, operand, args[:-1]), args[-1]))
    if operand.name == INDEX.name and op in _PYTHON and all(isinstance(a, int) for a in args):
        return _PYTHON[op](*args)
    if op in _COMPARE:
        return _COMPARE[op](*args)
    if operand == BOOL and op in _LOGIC:
        return _LOGIC[op](*args)
    if operand.is_float:
        if op in _ROUNDED:
            result = _ROUNDED[op](*args)
            return result if operand.bits > 16 else narrow(result, operand)
        if op in _EXACT:
            return _EXACT[op](*args)
        if op in _DOUBLE:
            return narrow(_DOUBLE[op](*(np.asarray(a, dtype=np.float64) for a in args)), operand)
    elif operand.is_integer and op in _INTEGER:
        dtype = compute_dtype(operand)
        return _INTEGER[op](*(np.asarray(a, dtype=dtype) for a in args))
    raise ValueError(f"the operation {op} is not defined on {operand}")


# Operations that may have more than two operands.
_FOLDED = ("add", "mul", "min", "max", "and", "or", "band", "bor", "bxor")

# ---------------------------------------------------------------- floats


def _maximum(a: Value, b: Value) -> Value:
    return np.where(a == b, np.where(np.signbit(a), b, a), np.maximum(a, b))


def _minimum(a: Value, b: Value) -> Value:
    return np.where(a == b, np.where(np.signbit(a), a, b), np.minimum(a, b))


def _sigmoid(x: Value) -> Value:
    small = np.exp(-np.abs(x))  # never overflows
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


_erf = np.frompyfunc(math.erf, 1, 1)

_ROUNDED: dict[str, Callable[..., Value]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
}
_EXACT: dict[str, Callable[..., Value]] = {
    "neg": np.negative,
    "abs": np.abs,
    "min": _minimum,
    "max": _maximum,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
}
_DOUBLE: dict[str, Callable[..., Value]] = {
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": lambda x: np.asarray(_erf(x)).astype(np.float64),
    "sigmoid": _sigmoid,
    "pow": np.power,
}

# ---------------------------------------------------------------- integers


def _floordiv(a: Value, b: Value) -> Value:
    # By -1 it is a negation, which wraps; NumPy warns and some machines trap.
    minus = b == -1 if b.dtype.kind == "i" else np.False_
    safe = np.where((b == 0) | minus, b.dtype.type(1), b)
    quotient = np.where(minus, np.negative(a), np.floor_divide(a, safe))
    return np.where(b == 0, a.dtype.type(0), quotient)


def _mod(a: Value, b: Value) -> Value:
    minus = b == -1 if b.dtype.kind == "i" else np.False_
    trivial = (b == 0) | minus
    safe = np.where(trivial, b.dtype.type(1), b)
    return np.where(trivial, a.dtype.type(0), np.remainder(a, safe))


def _beyond(count: Value) -> Value:
    return (count < 0) | (count >= 8 * count.dtype.itemsize)


def _shl(a: Value, count: Value) -> Value:
    far = _beyond(count)
    moved = np.left_shift(a, np.where(far, count.dtype.type(0), count))
    return np.where(far, a.dtype.type(0), moved)


def _shr(a: Value, count: Value) -> Value:
    far = _beyond(count)
    last = count.dtype.type(8 * count.dtype.itemsize - 1)
    moved = np.right_shift(a, np.where(far, last, count))
    return np.where(far & (a >= 0), a.dtype.type(0), moved)


_INTEGER: dict[str, Callable[..., Value]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "floordiv": _floordiv,
    "mod": _mod,
    "neg": np.negative,
    "abs": np.abs,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
    "bnot": np.invert,
    "shl": _shl,
    "shr": _shr,
}
_COMPARE: dict[str, Callable[..., Value]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_LOGIC: dict[str, Callable[..., Value]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "any": np.logical_or,
    "all": np.logical_and,
    "band": np.logical_and,
    "bor": np.logical_or,
    "bxor": np.logical_xor,
    "bnot": np.logical_not,
}
# Indices that are one number: Python's integers, exact.
_PYTHON: dict[str, Callable[..., int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "neg": operator.neg,
    "abs": abs,
    "min": min,
    "max": max,
    **_COMPARE,
}

# ---------------------------------------------------------------- conversions


def cast(mode: str, value: Value, source: ElemType, target: ElemType) -> Value:
    """A `Cast` of a value of type `source`.

    To a float type "saturate" gives the largest finite number of the sign on overflow, also for
    an infinity; a NaN stays one. To bool every mode says whether the value differs from 0.
    """
    if source == target:
        return value
    if mode == "bitcast":
        return _bitcast(value, source, target)
    if target == BOOL:
        return np.asarray(value) != 0
    if target.is_float:
        wide = np.asarray(value) if source.is_float else _integer_to_float(value, source, target)
        return _finite(wide, target) if mode == "saturate" else narrow(wide, target)
    if source.is_float:
        return _index(_float_to_integer(value, target), target)
    integers = np.asarray(value, dtype=compute_dtype(source))
    if mode == "saturate" and source != BOOL:
        return _index(_clamp(integers, target), target)
    return _index(integers.astype(compute_dtype(target)), target)


def _index(value: Value, target: ElemType) -> Value:
    return int(value) if target == INDEX and np.ndim(value) == 0 else value


def _limits(target: ElemType) -> tuple[int, int]:
    info = np.iinfo(compute_dtype(target))
    return int(info.min), int(info.max)


def _float_to_integer(value: Value, target: ElemType) -> Value:
    dtype = compute_dtype(target)
    low, high = _limits(target)
    whole = np.trunc(np.asarray(value, dtype=np.float64))
    below = whole < float(low)
    above = whole >= float(high + 1)  # a power of two: exact, unlike the limit of i64 itself
    inside = np.where(below | above | np.isnan(whole), 0.0, whole).astype(dtype)
    return np.where(below, dtype.type(low), np.where(above, dtype.type(high), inside))


def _clamp(value: Value, target: ElemType) -> Value:
    dtype = compute_dtype(target)
    low, high = _limits(target)
    own = np.iinfo(value.dtype)
    result = value.astype(dtype)
    if low > own.min:
        result = np.where(value < value.dtype.type(low), dtype.type(low), result)
    if high < own.max:
        result = np.where(value > value.dtype.type(high), dtype.type(high), result)
    return result


def _integer_to_float(value: Value, source: ElemType, target: ElemType) -> Value:
    """In a type from which one further rounding to `target` is the right one."""
    exact = np.asarray(value, dtype=compute_dtype(source))
    if target == BF16 and source.bits == 64:
        # Low bits of a large number are gathered in one, so that f64 holds what is left.
        large = np.abs(exact.astype(np.float64)) >= 2.0**32
        unit = exact.dtype.type(1 << 16)
        sticky = np.where(exact % unit != 0, unit, exact.dtype.type(0))
        exact = np.where(large, (exact // unit * unit) | sticky, exact)
    if target in (F64, F16, BF16):
        return exact.astype(np.float64)
    return exact.astype(np.float32)


def _finite(value: Value, target: ElemType) -> Value:
    if target == BF16:
        largest = float.fromhex("0x1.FEp127")
    else:
        largest = float(np.finfo(np.float16 if target == F16 else compute_dtype(target)).max)
    rounded = narrow(value, target)
    limit = np.copysign(rounded.dtype.type(largest), rounded)
    return np.where(np.isinf(rounded), limit, rounded)


def store(value: Value, type_: ElemType) -> Value:
    """The value as it lies in an array of `type_`."""
    if type_ == BF16:
        return to_bf16(value)
    return np.asarray(value).astype(np.float16) if type_ == F16 else value


def load(stored: Value, type_: ElemType) -> Value:
    """The value of what lies in an array of `type_`."""
    if type_ == BF16:
        return from_bf16(stored)
    return np.asarray(stored).astype(np.float32) if type_ == F16 else stored


def _bitcast(value: Value, source: ElemType, target: ElemType) -> Value:
    stored = np.asarray(store(value, source))
    if target == BOOL:
        return stored != 0
    return load(stored.view(storage_dtype(target)), target)
