"""The same text for all sizes and for one; two threads; sweeps in place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import tdsl
from benchmarks.case import (
    KERNELS,
    Array,
    Benchmark,
    Call,
    Case,
    Differs,
    checked,
    compiled,
    normal,
    output,
)
from benchmarks.convolutions import onnx_layer, reference
from benchmarks.peers import node, onnx_run
from tdsl.runtime.threads import set_threads

PAUSE = 0.03  # seconds after which the idle threads of a library sleep


def generic() -> Iterator[Benchmark]:
    """The peer is the kernel compiled once for all sizes."""
    yield Benchmark("generic_matmul_100", generic_matmul)
    yield Benchmark("generic_conv3x3_64", partial(generic_conv, 56, 64))
    yield Benchmark("generic_depthwise_19", partial(generic_depthwise, 112, 19))


def generic_matmul(n: int = 100) -> Case:
    """All variants in one entry, against the sizes bound."""
    rng = np.random.default_rng(1)
    a, b, y, other = normal(rng, n, n), normal(rng, n, n), output(n, n), output(n, n)
    bound = compiled("gemm", "matmul", {"M": n, "N": n, "K": n})
    free = compiled("gemm", "matmul", {})
    return against_itself(
        2.0 * n**3, bound, free, (a, b), y, other, a.astype(np.float64) @ b.astype(np.float64)
    )  # fmt: skip


def against_itself(
    work: float, bound: Any, free: Any, arguments: Any, y: Any, other: Any, exact: Any
) -> Case:
    """The kernel with its sizes bound, and for any sizes."""
    bound(*arguments, y)
    free(*arguments, other)
    error = checked(exact, y, 1e-5, generic=other)
    return Case(
        1.0, work, lambda: bound(*arguments, y),
        {"generic": lambda: free(*arguments, other)}, error, str(bound.schedule),
    )  # fmt: skip


def generic_conv(side: int, c: int) -> Case:
    """A 3x3 layer."""
    (x, w, b), exact, bound = layer(2, side, c)
    free = compiled("conv2d", "conv2d", {}, constants={"pad": 1}, schedule="halo")
    free = free.prepare(w=w, b=b)
    y, other = output(*exact.shape), output(*exact.shape)
    return against_itself(18.0 * c * exact.size, bound, free, (x,), y, other, exact)


def layer(seed: int, side: int, c: int) -> tuple[tuple[Array, Array, Array], Array, Any]:
    """Image, weights and bias of a 3x3 layer; its exact result; the kernel, prepared."""
    rng = np.random.default_rng(seed)
    x, w, b = normal(rng, 1, side, side, c), normal(rng, 3, 3, c, c), normal(rng, c)
    sizes = {"N": 1, "H": side, "W": side, "C": c, "K": c, "R": 3, "S": 3}
    kernel = compiled("conv2d", "conv2d", sizes, constants={"pad": 1}).prepare(w=w, b=b)
    return (x, w, b), reference(x, w, b, 1, 1), kernel


def generic_depthwise(side: int, c: int) -> Case:
    """3x3, channel by channel."""
    rng = np.random.default_rng(3)
    x, w = normal(rng, 1, side, side, c), normal(rng, 3, 3, c)
    wide = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (1, 2))
    exact = np.einsum("npqcrs,rsc->npqc", windows, w.astype(np.float64))
    sizes = {"N": 1, "H": side, "W": side, "C": c}
    bound = compiled("depthwise", "depthwise", sizes).prepare(w=w)
    free = compiled("depthwise", "depthwise", {}).prepare(w=w)
    y, other = output(*exact.shape), output(*exact.shape)
    return against_itself(18.0 * exact.size, bound, free, (x,), y, other, exact)


def threaded() -> Iterator[Benchmark]:
    """Built last: how many threads run is the process's, not the case's."""
    yield Benchmark("threads_sgemm_1024", partial(two_sgemm, 1024))
    yield Benchmark("threads_conv3x3_64_56", partial(two_conv, 56, 64))
    yield Benchmark("threads_seidel", seidel)


def on(threads: int, call: Call) -> Call:
    """The call on so many threads."""

    def run() -> None:
        set_threads(threads)
        call()

    return run


def two_sgemm(n: int) -> Case:
    """C = A B, neither factor known before."""
    rng = np.random.default_rng(4)
    a, b, y, other = normal(rng, n, n), normal(rng, n, n), output(n, n), output(n, n)
    kernel = compiled("gemm", "matmul", {"M": n, "N": n, "K": n})

    def onnx(threads: int) -> Call:
        return onnx_run([node("MatMul", "a b", "y")], {"a": a, "b": b}, {}, {"y": other}, threads)

    kernel(a, b, y)
    theirs = onnx(2)
    error = checked(a.astype(np.float64) @ b.astype(np.float64), y, 1e-5, onnxruntime=other)
    work = 2.0 * n**3
    return scaling(work, lambda: kernel(a, b, y), theirs, onnx(1), error, str(kernel.schedule))


def two_conv(side: int, c: int) -> Case:
    """A 3x3 layer."""
    (x, w, b), exact, kernel = layer(5, side, c)
    y = output(*exact.shape)
    kernel(x, y)
    theirs, result = onnx_layer(x, w, b, exact, 1, 1, threads=2)
    error = checked(exact, y, 1e-5, onnxruntime=result)
    single, _ = onnx_layer(x, w, b, exact, 1, 1)
    work = 18.0 * c * exact.size
    return scaling(work, lambda: kernel(x, y), theirs, single, error, str(kernel.schedule))


def scaling(
    work: float, ours: Call, theirs: Call, single: Call, error: float, schedule: str
) -> Case:
    """Our speedup by a second thread over onnxruntime's; `single` is its call on one thread."""
    return Case(
        0.97, work, on(2, ours), {"onnxruntime": theirs}, error, schedule, clock="wall",
        alone={"tdsl": on(1, ours), "onnxruntime": single}, pause=PAUSE,
    )  # fmt: skip


def seidel(n: int = 1000, steps: int = 100) -> Case:
    """Skewed, tiled and on two threads, against the program's own order on one."""
    module = tdsl.load(KERNELS / "seidel2d.tdsl")["seidel2d"]
    tiled: Any = module.compile(schedule="tiled")
    plain: Any = module.compile(schedule="plain")
    start = np.random.default_rng(0).standard_normal((n, n))
    a, b = start.copy(), start.copy()
    ours = on(2, lambda: tiled(A=a, T=steps))
    ours()
    plain(A=b, T=steps)
    if not np.array_equal(a, b):
        raise Differs("the tiled sweeps differ from the sweeps in order")
    return Case(
        1.7, 9.0 * steps * (n - 2) ** 2, ours,
        {"one thread, unscheduled": lambda: plain(A=b, T=steps)}, 0.0, str(tiled.schedule),
        clock="wall", pause=PAUSE,
    )  # fmt: skip
