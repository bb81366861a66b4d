"""Arrays in memory: where they lie, and new ones that begin at a cache line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cffi
import numpy as np

from tdsl.ir.steps import span

Array = np.ndarray[Any, Any]
ALIGNMENT = 64  # of what is allocated here: a cache line, and the widest register

_ffi = cffi.FFI()  # tells an array's address in a quarter of the time that NumPy takes
_pointer, _integer = _ffi.typeof("char *"), _ffi.typeof("uintptr_t")


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An uninitialized array at a cache line's start."""
    raw = np.empty(math.prod(shape) * dtype.itemsize + ALIGNMENT, np.uint8)
    start = int(_ffi.cast(_integer, _ffi.from_buffer(_pointer, raw)))
    return np.ndarray(shape, dtype, raw, -start % ALIGNMENT)


def empty_strided(shape: tuple[int, ...], dtype: np.dtype[Any], strides: Sequence[int]) -> Array:
    """An uninitialized array with these strides in elements; its first element lies at a cache
    line's start."""
    below, count = span(shape, strides)
    line = max(1, ALIGNMENT // dtype.itemsize)
    start = -(-below // line) * line
    raw = empty((start - below + count,), dtype)
    steps = tuple(s * dtype.itemsize for s in strides)
    return np.ndarray(shape, dtype, raw, start * dtype.itemsize if count else 0, steps)


def bytes_of(array: Array) -> tuple[int, int]:
    """The addresses of an array's lowest byte and behind its highest one."""
    start = address(array)
    below, count = span(array.shape, array.strides)  # in bytes
    return start - below, start - below + (count + array.itemsize - 1 if count else 0)


def address(array: Array) -> int:
    """Where the first element is."""
    place: int = array.__array_interface__["data"][0]
    return place
