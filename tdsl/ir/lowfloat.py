"""Conversions to and from bf16, the upper half of an f32, all round to nearest, ties to even."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_QUIET = np.uint32(0x0040)


def from_bf16(bits: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """The f32 values of bf16 bit patterns (`uint16`); exact."""
    wide = np.asarray(bits, dtype=np.uint16).astype(np.uint32) << np.uint32(16)
    return np.asarray(wide, dtype=np.uint32).view(np.float32)


def to_bf16(values: npt.NDArray[Any] | np.generic | float) -> npt.NDArray[np.uint16]:
    """The bf16 bit patterns nearest to f16, f32 or f64 values, in one rounding."""
    array = np.asarray(values)
    narrow = _odd_f32(array) if array.dtype == np.float64 else array.astype(np.float32)
    pattern = narrow.view(np.uint32)
    nan = np.isnan(narrow)
    finite = np.where(nan, np.uint32(0), pattern)
    tie = (finite >> np.uint32(16)) & np.uint32(1)
    rounded = (finite + np.uint32(0x7FFF) + tie) >> np.uint32(16)
    # A NaN whose payload lies in the lower half alone must not become an infinity.
    kept = (pattern >> np.uint32(16)) | _QUIET
    return np.asarray(np.where(nan, kept, rounded).astype(np.uint16))


def round_bf16(values: npt.NDArray[Any] | np.generic | float) -> npt.NDArray[np.float32]:
    """f32 values of the bf16 numbers nearest to `values`."""
    return from_bf16(to_bf16(values))


def _odd_f32(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """f32 rounded to odd: a second rounding to at most 22 bits then gives what one would."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        near = np.asarray(values.astype(np.float32))
        outward = np.abs(near.astype(np.float64)) > np.abs(values)
        near = np.where(outward, np.nextafter(near, np.float32(0)), near)
        inexact = (near.astype(np.float64) != values) & ~np.isnan(values)
    pattern = np.asarray(near, dtype=np.float32).view(np.uint32)
    return np.asarray(pattern | inexact.astype(np.uint32)).view(np.float32)
