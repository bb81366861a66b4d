"""What the tests of data movement share: targets that run here, and outputs at odd addresses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tdsl
from tdsl.runtime.guard import guarded
from tdsl.targets import native, runnable, target

Array = np.ndarray[Any, Any]
HERE = [
    name
    for name in dict.fromkeys(("c", "avx2", native().name, "avx512"))
    if runnable(target(name)) is None
]
EVERYWHERE = [*HERE, pytest.param("neon", marks=pytest.mark.neon)]
X86 = [name for name in HERE if name != "c"]


def compiled(text: str, kernel: str, on: str, **options: Any) -> Any:
    return tdsl.parse(text, name=f"{kernel}.tdsl")[kernel].compile(on, **options)


def at_offset(shape: tuple[int, ...], dtype: Any, elements: int) -> tuple[Array, Array]:
    """An array so many elements behind a multiple of 64 bytes, and the memory around it."""
    size = int(np.prod(shape))
    kind = np.dtype(dtype)
    raw = np.full(size * kind.itemsize + 512, 0x7F, np.uint8)
    start = -raw.ctypes.data % 64 + 64 + elements * kind.itemsize
    inner = raw[start : start + size * kind.itemsize]
    return inner.view(kind).reshape(shape), raw


def untouched(inner: Array, raw: Array) -> bool:
    """Whether the memory around an array still holds what it held."""
    start = inner.ctypes.data - raw.ctypes.data
    return bool((raw[:start] == 0x7F).all() and (raw[start + inner.nbytes :] == 0x7F).all())


def poisoned(shape: tuple[int, ...], dtype: Any, *, end: bool) -> Array:
    """An array against a guard page that holds what no kernel writes by accident."""
    made = guarded(shape, np.dtype(dtype), end=end)
    made.view(np.uint8).reshape(-1)[...] = 0x7F
    return made
