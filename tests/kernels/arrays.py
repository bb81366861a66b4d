"""Random arguments for a kernel, from its declarations alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdsl.ir.dtypes import storage_dtype
from tdsl.ir.index import simplify
from tdsl.ir.kernel import Array, Const, Expr, Kernel
from tdsl.ir.types import ElemType

POSITIVE = frozenset({"var", "eps", "scale", "sy", "sx", "xs", "ws"})  # divided by, or a root of


def arguments(kernel: Kernel, seed: int = 0) -> dict[str, Any]:
    """What callers pass; all sizes are bound in `kernel`."""
    rng = np.random.default_rng(seed)
    return {a.name: _values(rng, a) for a in kernel.arguments if a.role in ("in", "const", "inout")}


def _number(extent: Expr) -> int:
    value = simplify(extent)
    assert isinstance(value, Const)
    return int(value.value)


def _values(rng: np.random.Generator, array: Array) -> Any:
    shape = tuple(map(_number, array.shape))
    groups, place = [], 0
    for count in array.groups:
        groups.append(int(np.prod(shape[place : place + count])))
        place += count
    shape = tuple(groups) if groups else shape
    if array.type.fields:
        made = np.zeros(shape, storage_dtype(array.type))
        for field in array.type.fields:
            own = made[field.name]
            made[field.name] = _random(rng, field.type, own.shape, True)
        return made
    if array.range is not None:
        low, high = map(_number, array.range)
        return rng.integers(low, high, shape).astype(storage_dtype(array.type))
    values = _random(rng, array.type, shape, array.name in POSITIVE)
    return values if shape else values[()]


def _random(
    rng: np.random.Generator, type_: ElemType, shape: tuple[int, ...], positive: bool
) -> np.ndarray[Any, Any]:
    dtype = storage_dtype(type_)
    if type_.name == "bool":
        return rng.integers(0, 2, shape).astype(dtype)
    if not type_.is_float:
        bounds = np.iinfo(dtype)
        return rng.integers(max(bounds.min, -50), min(bounds.max, 99), shape).astype(dtype)
    values = rng.uniform(0.25 if positive else -1, 1, shape).astype(np.float32)
    if type_.name == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(dtype)
