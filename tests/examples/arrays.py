"""Arguments of example kernels: deterministic, awkward in places, between forbidden pages."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tdsl.ir.arguments import ArgumentPlan
from tdsl.ir.dtypes import storage_dtype
from tdsl.ir.kernel import Kernel
from tdsl.runtime.guard import guarded, guarded_copy

Array = np.ndarray[Any, Any]
POISON = 0xAB


def inputs(
    kernel: Kernel, sizes: Mapping[str, int], scale: Mapping[str, float]
) -> dict[str, Array]:
    """Every argument but outputs. The same sizes give the same values."""
    plan = ArgumentPlan(kernel)
    rng = np.random.default_rng(zlib.crc32(repr((kernel.name, sorted(sizes.items()))).encode()))
    made = {}
    for argument in kernel.arguments:
        if argument.role == "out":
            continue
        shape, dtype = plan.shape(argument.name, sizes), storage_dtype(argument.type)
        if dtype.kind == "f":
            made[argument.name] = rng.standard_normal(shape).astype(dtype)
            made[argument.name] *= dtype.type(scale.get(argument.name, 1.0))
        else:
            limits = np.iinfo(dtype)
            made[argument.name] = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return made


def call(
    kernel: Kernel,
    compiled: Callable[..., Any],
    sizes: Mapping[str, int],
    arrays: Mapping[str, Array],
    *,
    end: bool,
) -> dict[str, Array]:
    """Run, with every array at a forbidden page and outputs poisoned; what was written."""
    plan = ArgumentPlan(kernel)
    passed = {name: guarded_copy(array, end=end) for name, array in arrays.items()}
    for argument in kernel.arguments:
        if argument.role == "out":
            dtype = storage_dtype(argument.type)
            passed[argument.name] = guarded(plan.shape(argument.name, sizes), dtype, end=end)
            poison(passed[argument.name])
    compiled(**passed)
    for argument in kernel.arguments:
        if argument.role in ("in", "const"):
            before, after = arrays[argument.name], passed[argument.name]
            assert before.tobytes() == after.tobytes(), f"{argument.name} was written"
    return {a.name: passed[a.name] for a in kernel.arguments if a.is_written}


def poison(array: Array) -> None:
    """What no kernel computes: NaN, or bytes 0xAB."""
    array.fill(np.nan if array.dtype.kind == "f" else int.from_bytes(
        bytes([POISON]) * array.dtype.itemsize, "little", signed=array.dtype.kind == "i"
    ))  # fmt: skip


def same(left: Array, right: Array) -> bool:
    """Equal bit for bit; every NaN equals every other."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.kind != "f":
        return bool(np.array_equal(left, right))
    numbers = ~np.isnan(left)
    return bool(
        np.array_equal(left, right, equal_nan=True)
        and np.array_equal(np.signbit(left[numbers]), np.signbit(right[numbers]))
    )
