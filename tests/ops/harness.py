"""What tests of operators share: kernels of the library, arrays, convolution by its definition."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tdsl
from tdsl.api import CompileWarning
from tdsl.targets import runnable, target

OPS = Path(tdsl.__file__).resolve().parent / "ops"
Array = np.ndarray[Any, Any]


def here(names: tuple[str, ...]) -> list[str]:
    """Those of the targets that run on this machine."""
    return [name for name in names if runnable(target(name)) is None]


everywhere = pytest.mark.parametrize("on", here(("c", "avx512", "avx2")))


def compiled(file: str, kernel: str, on: str, **options: Any) -> Any:
    """A kernel of the library; that a target has no schedule is no matter here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        return tdsl.load(OPS / f"{file}.tdsl")[kernel].compile(target=on, **options)


def floats(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def close(got: Array, want: Array, tolerance: float = 3e-6) -> None:
    """Equal up to a part of the largest value; NumPy's double precision is `want`."""
    want = np.asarray(want, np.float64)
    assert got.shape == want.shape
    scale = max(1.0, np.abs(want).max(initial=0.0))
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * scale)


def conv(
    x: Array, w: Array, stride: int = 1, pad: int = 0, fill: float = 0, dilation: int = 1
) -> Array:
    """x[n, h, w, c] and w[r, s, c, k], in double precision."""
    margins = ((0, 0), (pad, pad), (pad, pad), (0, 0))
    wide = np.pad(x.astype(np.float64), margins, constant_values=fill)
    reach = [dilation * (taps - 1) + 1 for taps in w.shape[:2]]
    windows = np.lib.stride_tricks.sliding_window_view(wide, reach, (1, 2))
    windows = windows[:, ::stride, ::stride, :, ::dilation, ::dilation]
    return np.tensordot(windows, w.astype(np.float64), ((4, 5, 3), (0, 1, 2)))
