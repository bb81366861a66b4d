"""What one row of the comparison is, and what all rows share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tdsl
from tdsl.runtime.memory import empty

OPS = Path(tdsl.__file__).resolve().parent / "ops"
HERE = Path(__file__).resolve().parent
KERNELS = HERE / "kernels"
EXAMPLES = HERE.parent / "examples"
Array = np.ndarray[Any, Any]
Call = Callable[[], object]
F32 = np.dtype(np.float32)


@dataclass(frozen=True)
class Case:
    """One comparison. `goal`: the best peer's time over ours that is wanted. `work`: operations
    that count, of floating point or not; bytes moved where `unit` is "GB/s". `alone`: the same
    calls, "tdsl" among them, on one thread; then what counts is our speedup over the peer's.
    `bound_by`: the kind of multiply-adds that bound it, if they do; then 0.96 of their peak will do
    for the goal, and `share` of it is wanted besides."""

    goal: float
    work: float
    ours: Call
    peers: Mapping[str, Call]
    error: float  # the largest difference from the exact result, relative to its largest value
    schedule: str
    clock: str = "cpu"  # "wall" where threads are started
    unit: str = "GFLOP/s"
    alone: Mapping[str, Call] = field(default_factory=dict)
    pause: float = 0.0  # seconds between sides, where threads of one would disturb the other
    absent: tuple[str, ...] = ()  # peers that are not installed
    bound_by: str | None = None
    share: float = 0.0


@dataclass(frozen=True)
class Benchmark:
    """A row by name. Its case is built when it is asked for, since that takes a while."""

    name: str
    build: Callable[[], Case]


class Absent(Exception):
    """The one peer of a row is not installed."""


class Differs(Exception):
    """Our result, or a peer's, is not what it should be."""


def compiled(file: str, kernel: str, sizes: Mapping[str, int] | None = None, **options: Any) -> Any:
    """A kernel of the operator library for this machine, with its sizes bound."""
    return tdsl.load(OPS / f"{file}.tdsl")[kernel].compile(sizes=dict(sizes or {}), **options)


def normal(rng: np.random.Generator, *shape: int) -> Array:
    """Normal numbers in an aligned buffer."""
    return aligned(rng.standard_normal(shape), np.float32)


def aligned(values: Any, dtype: Any) -> Array:
    """A copy in a buffer that starts at a cache line."""
    values = np.asarray(values)
    made = empty(values.shape, np.dtype(dtype))
    made[...] = values
    return made


def output(*shape: int, dtype: Any = np.float32) -> Array:
    """Room for a result, filled with what no result is."""
    made = empty(shape, np.dtype(dtype))
    made[...] = 77
    return made


def checked(exact: Array, ours: Array, tolerance: float, **peers: Array) -> float:
    """Our relative error; `Differs` if it, or a peer's, is beyond the tolerance."""
    scale = float(np.abs(exact).max()) or 1.0
    found = {
        who: float(np.abs(np.asarray(y, exact.dtype) - exact).max()) / scale
        for who, y in {"tdsl": ours, **peers}.items()
    }
    for who, error in found.items():
        if not error <= tolerance:
            raise Differs(f"{who} is off by {error:.1e} of the largest value, not {tolerance:.0e}")
    return found["tdsl"]
