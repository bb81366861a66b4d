"""Kernels fused by rows against PyTorch, and sweeps in place on two threads against one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tdsl
from benchmarks.cases import KERNELS, Array, Case, Differs, normal
from tdsl.runtime.memory import empty
from tdsl.runtime.threads import set_threads

try:
    import torch
except ImportError:  # PyTorch is large: the cases against it are left out without it
    torch = None


def row_cases(rows: int = 1024, columns: int = 1024) -> Iterator[Case]:
    """Softmax and layer normalisation; nothing where PyTorch is not installed."""
    if torch is None:
        return
    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    x, g, b = normal(rng, (rows, columns)), normal(rng, (columns,)), normal(rng, (columns,))
    y, theirs = empty(x.shape, x.dtype), empty(x.shape, x.dtype)
    sizes = {"M": rows, "N": columns}
    module = tdsl.load(KERNELS / "rows.tdsl")
    tx, tg, tb, ty = (torch.from_numpy(a) for a in (x, g, b, theirs))
    wide = x.astype(np.float64)

    softmax: Any = module["softmax"].compile(sizes=sizes)
    softmax(x, y)
    powers = np.exp(wide - wide.max(1, keepdims=True))
    error = _close(y, powers / powers.sum(1, keepdims=True))
    yield Case(
        f"softmax {rows}x{columns}", "torch", 1.0, 5 * x.size,
        lambda: softmax(x, y), lambda: torch.softmax(tx, 1, out=ty), error, str(softmax.schedule),
    )  # fmt: skip

    layernorm: Any = module["layernorm"].compile(sizes=sizes)
    eps = 1e-5
    layernorm(x, g, b, eps, y)
    centred = wide - wide.mean(1, keepdims=True)
    error = _close(y, centred / np.sqrt((centred**2).mean(1, keepdims=True) + eps) * g + b)
    yield Case(
        f"layernorm {rows}x{columns}", "torch", 1.0, 8 * x.size,
        lambda: layernorm(x, g, b, eps, y),
        lambda: torch.nn.functional.layer_norm(tx, (columns,), tg, tb, eps), error,
        str(layernorm.schedule),
    )  # fmt: skip


def sweep_cases() -> Iterator[Case]:
    """Built last: how many threads run is the process's, not the case's."""
    yield seidel()


def seidel(n: int = 1000, steps: int = 100) -> Case:
    """Skewed, tiled and on two threads, against the program's own order on one."""
    kernel = tdsl.load(KERNELS / "seidel2d.tdsl")["seidel2d"]
    tiled: Any = kernel.compile(schedule="tiled")
    plain: Any = kernel.compile(schedule="plain")
    start = np.random.default_rng(0).standard_normal((n, n))
    a, b = start.copy(), start.copy()
    set_threads(2)
    if torch is not None:
        torch.set_num_threads(2)  # its OpenMP is in this process too, and may serve the kernel
    tiled(A=a, T=steps)
    plain(A=b, T=steps)
    if not np.array_equal(a, b):
        raise Differs("the tiled sweeps differ from the sweeps in order")
    return Case(
        f"seidel2d {n}^2, {steps} sweeps, 2 threads", "1 thread, unscheduled", 1.7,
        9 * steps * (n - 2) ** 2, lambda: tiled(A=a, T=steps), lambda: plain(A=b, T=steps), 0.0,
        str(tiled.schedule), clock="wall",
    )  # fmt: skip


def _close(ours: Array, exact: Array) -> float:
    error = float(np.abs(ours - exact).max())
    if not error <= 1e-5 * float(np.abs(exact).max()):
        raise Differs(f"tdsl is off by {error:.1e}")
    return error
