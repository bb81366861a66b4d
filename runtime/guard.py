"""Arrays that end, or begin, at memory that may not be touched.

A kernel that reads or writes one element too far is ended by SIGSEGV instead of going unnoticed.
"""

from __future__ import annotations

import math
import mmap
import os
from typing import Any

import cffi
import numpy as np
import numpy.typing as npt

PAGE = mmap.PAGESIZE

_ffi = cffi.FFI()
_ffi.cdef("int mprotect(void *start, size_t length, int protection);")
_libc = _ffi.dlopen(None)


def guarded(
    shape: int | tuple[int, ...], dtype: npt.DTypeLike, *, end: bool = True
) -> np.ndarray[Any, Any]:
    """An array of zeros with forbidden pages on both sides.

    With `end` its last byte is the last before a forbidden page, otherwise its first byte is the
    first after one. The memory goes with the array.
    """
    dimensions = (shape,) if isinstance(shape, int) else tuple(shape)
    kind = np.dtype(dtype)
    size = math.prod(dimensions) * kind.itemsize
    inside = max(1, -(-size // PAGE)) * PAGE
    memory = mmap.mmap(-1, inside + 2 * PAGE)
    _forbid(memory, 0)
    _forbid(memory, PAGE + inside)
    offset = PAGE + (inside - size if end else 0)
    return np.ndarray(dimensions, kind, memory, offset)


def _forbid(memory: mmap.mmap, offset: int) -> None:
    start = _ffi.from_buffer("char *", memory) + offset
    if _libc.mprotect(start, PAGE, 0) != 0:
        raise OSError(_ffi.errno, os.strerror(_ffi.errno))


def guarded_copy(array: np.ndarray[Any, Any], *, end: bool = True) -> np.ndarray[Any, Any]:
    """The values of `array` between forbidden pages."""
    copied = guarded(array.shape, array.dtype, end=end)
    copied[...] = array
    return copied
