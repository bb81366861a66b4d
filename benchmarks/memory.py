"""Rows that memory bounds: normalisations, transposition, blur, element-wise chains, Jacobi."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks import pipelines
from benchmarks.case import Benchmark, Case, aligned, checked, compiled, normal, output
from benchmarks.peers import node, numba, onnx_run, present, torch, torch_call


def benchmarks() -> Iterator[Benchmark]:
    """All of them at the sizes of the table."""
    yield Benchmark("softmax_1024", partial(softmax, 1024))
    yield Benchmark("layernorm_1024", partial(layernorm, 1024))
    yield Benchmark("transpose_2048", partial(transpose, 2048))
    yield Benchmark("blur_4096", partial(blur, 4096))
    yield Benchmark("chain_1e7", partial(chain, 10**7))
    yield Benchmark("jacobi_1000", partial(jacobi, 1000, 100))


def softmax(n: int, **options: Any) -> Case:
    """Of each row."""
    x, y, other = normal(np.random.default_rng(1), n, n), output(n, n), output(n, n)
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    exact = powers / powers.sum(1, keepdims=True)
    kernel = compiled("norm", "softmax", {"M": n, "N": n}, **options)
    kernel(x, y)
    peers = {
        "onnxruntime": onnx_run([node("Softmax", "x", "y", axis=1)], {"x": x}, {}, {"y": other})
    }
    checked(exact, other, 1e-5)
    if torch is not None:
        torch.set_num_threads(1)
        tx, ty = torch.from_numpy(x), torch.from_numpy(other)
        peers["torch"] = torch_call(lambda: torch.softmax(tx, 1, out=ty))
    if numba is not None:
        peers["numba"] = numba_rows(SOFTMAX, x, other)
        checked(exact, other, 1e-5)
    if (pipeline := pipelines.softmax(x, other)) is not None:
        peers["halide"] = pipeline
        checked(exact, other, 1e-5)
    error = checked(exact, y, 1e-5)
    case = bytes_case(0.97, 2 * x.nbytes, lambda: kernel(x, y), peers, error, kernel)
    return replace(case, absent=pipelines.ABSENT)


def bytes_case(goal: float, moved: int, ours: Any, peers: Any, error: float, kernel: Any) -> Case:
    """A row that is measured in bytes moved."""
    return Case(goal, float(moved), ours, peers, error, str(kernel.schedule), unit="GB/s")


def layernorm(n: int, **options: Any) -> Case:
    """Mean first, then squares of differences."""
    rng = np.random.default_rng(2)
    x, g, b, eps = normal(rng, n, n), normal(rng, n), normal(rng, n), 1e-5
    y, other = output(n, n), output(n, n)
    wide = x.astype(np.float64)
    d = wide - wide.mean(1, keepdims=True)
    exact = d / np.sqrt((d * d).mean(1, keepdims=True) + eps) * g + b
    kernel = compiled("norm", "layernorm", {"M": n, "N": n}, **options)
    kernel(x, g, b, eps, y)
    norm = node("LayerNormalization", "x g b", "y", axis=1, epsilon=eps)
    peers = {"onnxruntime": onnx_run([norm], {"x": x}, {"g": g, "b": b}, {"y": other})}
    checked(exact, other, 1e-5)
    if torch is not None:
        torch.set_num_threads(1)
        tx, tg, tb = map(torch.from_numpy, (x, g, b))
        peers["torch"] = torch_call(lambda: torch.nn.functional.layer_norm(tx, (n,), tg, tb, eps))
    if numba is not None:
        peers["numba"] = numba_rows(LAYERNORM, x, g, b, np.float32(eps), other)
        checked(exact, other, 1e-5)
    error = checked(exact, y, 1e-5)
    return bytes_case(0.97, 2 * x.nbytes, lambda: kernel(x, g, b, eps, y), peers, error, kernel)


def numba_rows(source: str, *arguments: Any, **options: Any) -> Any:
    """The function `run` of a source text, compiled, on these arguments. Sums may be reordered
    where the text is safe under that; nothing else of fast-math."""
    scope: dict[str, Any] = {"np": np}
    exec(source, scope)
    run = numba.njit(fastmath={"reassoc", "contract"}, **options)(scope["run"])
    run(*arguments)
    return lambda: run(*arguments)


SOFTMAX = """
def run(x, y):
    for i in range(x.shape[0]):
        m = np.float32(-np.inf)
        for j in range(x.shape[1]):
            m = max(m, x[i, j])
        z = np.float32(0)
        for j in range(x.shape[1]):
            y[i, j] = np.exp(x[i, j] - m)
            z += y[i, j]
        r = np.float32(1) / z
        for j in range(x.shape[1]):
            y[i, j] *= r
"""
LAYERNORM = """
def run(x, g, b, eps, y):
    n = np.float32(x.shape[1])
    for i in range(x.shape[0]):
        s = np.float32(0)
        for j in range(x.shape[1]):
            s += x[i, j]
        m = s / n
        v = np.float32(0)
        for j in range(x.shape[1]):
            v += (x[i, j] - m) * (x[i, j] - m)
        r = np.float32(1) / np.sqrt(v / n + eps)
        for j in range(x.shape[1]):
            y[i, j] = (x[i, j] - m) * r * g[j] + b[j]
"""
BLUR = """
def run(s, d):
    third = np.float32(1 / 3)
    row = np.empty((3, d.shape[1]), np.float32)
    for i in range(s.shape[0]):
        r = row[i % 3]
        for j in range(d.shape[1]):
            r[j] = (s[i, j] + s[i, j + 1] + s[i, j + 2]) * third
        if i >= 2:
            for j in range(d.shape[1]):
                d[i - 2, j] = (row[0, j] + row[1, j] + row[2, j]) * third
"""
CHAIN = """
def run(x, a, b, c, y):
    for i in range(x.shape[0]):
        y[i] = max(x[i] * a + b, np.float32(0)) + c[i]
"""
JACOBI = """
def run(a, b, steps):
    for t in range(steps):
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                b[i, j] = 0.2 * (a[i, j] + a[i, j - 1] + a[i, j + 1] + a[i + 1, j] + a[i - 1, j])
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                a[i, j] = 0.2 * (b[i, j] + b[i, j - 1] + b[i, j + 1] + b[i + 1, j] + b[i - 1, j])
"""
TRANSPOSE = """
def run(x, y):
    for io in range(0, x.shape[0], 16):
        for jo in range(0, x.shape[1], 16):
            for j in range(jo, jo + 16):
                for i in range(io, io + 16):
                    y[j, i] = x[i, j]
"""


def transpose(n: int, **options: Any) -> Case:
    """y = x^T."""
    x, y, other = normal(np.random.default_rng(3), n, n), output(n, n), output(n, n)
    kernel = compiled("image", "transpose", {"M": n, "N": n}, **options)
    kernel(x, y)
    turned = x.T
    peers = {"numpy": lambda: np.copyto(other, turned)}
    node_ = node("Transpose", "x", "y", perm=[1, 0])
    peers["onnxruntime"] = onnx_run([node_], {"x": x}, {}, {"y": other})
    if torch is not None:
        torch.set_num_threads(1)
        tx, ty = torch.from_numpy(x).T, torch.from_numpy(other)
        peers["torch"] = torch_call(lambda: ty.copy_(tx))
    if numba is not None:
        peers["numba"] = numba_rows(TRANSPOSE, x, other)
    error = checked(x.T.astype(np.float64), y, 0.0, peers=other)
    return bytes_case(0.97, 2 * x.nbytes, lambda: kernel(x, y), peers, error, kernel)


def blur(n: int, **options: Any) -> Case:
    """Means of three across, then of three down."""
    x = normal(np.random.default_rng(4), n, n)
    y, other = output(n - 2, n - 2), output(n - 2, n - 2)
    across = (x[:, :-2].astype(np.float64) + x[:, 1:-1] + x[:, 2:]) / 3
    exact = (across[:-2] + across[1:-1] + across[2:]) / 3
    kernel = compiled("image", "blur", {"H": n, "W": n}, **options)
    kernel(x, y)
    peers = {}
    if numba is not None:
        peers["numba"] = numba_rows(BLUR, x, other)
        checked(exact, other, 1e-5)
    if torch is not None:
        torch.set_num_threads(1)
        image = torch.from_numpy(x)[None, None]
        peers["torch"] = torch_call(lambda: torch.nn.functional.avg_pool2d(image, 3, 1))
        checked(exact, peers["torch"]().numpy()[0, 0], 1e-5)
    if (pipeline := pipelines.blur(x, other)) is not None:
        peers["halide"] = pipeline
        checked(exact, other, 1e-5)
    error = checked(exact, y, 1e-5)
    case = bytes_case(0.97, 2 * x.nbytes, lambda: kernel(x, y), peers, error, kernel)
    return replace(case, absent=pipelines.ABSENT)


def chain(n: int, **options: Any) -> Case:
    """relu(x * a + b) + c in one pass; a peer may take several."""
    rng = np.random.default_rng(5)
    x, c, y, other = normal(rng, n), normal(rng, n), output(n), output(n)
    a, b = np.float32(1.25), np.float32(-0.5)
    exact = np.maximum(x.astype(np.float64) * a + b, 0) + c
    kernel = compiled("elementwise", "scale_shift_relu_add", {"N": n}, **options)
    kernel(x, c, a, b, y)
    peers = {}
    if numba is not None:
        peers["numba"] = numba_rows(CHAIN, x, a, b, c, other)
        checked(exact, other, 1e-5)

    def in_numpy() -> None:
        np.multiply(x, a, other)
        np.add(other, b, other)
        np.maximum(other, 0, other)
        np.add(other, c, other)

    peers["numpy"] = in_numpy
    if (pipeline := pipelines.chain(x, a, b, c, other)) is not None:
        peers["halide"] = pipeline
        checked(exact, other, 1e-5)
    error = checked(exact, y, 1e-5)
    case = bytes_case(0.97, 3 * x.nbytes, lambda: kernel(x, c, a, b, y), peers, error, kernel)
    return replace(case, absent=pipelines.ABSENT)


def jacobi(n: int, steps: int, **options: Any) -> Case:
    """Both halves of 2 * T sweeps, against Numba's plain nest of the same."""
    start = np.random.default_rng(6).standard_normal((n, n))
    a, b = aligned(start, np.float64), aligned(start, np.float64)
    c, d = a.copy(), b.copy()
    half = steps // 2
    kernel = compiled("image", "jacobi", {"N": n}, **options)
    kernel(A=a, B=b, T=half)
    peers = present(numba=numba_rows(JACOBI, c, d, half) if numba is not None else None)
    error = checked(c, a, 1e-12) if peers else 0.0
    return Case(
        2.0, 5.0 * steps * (n - 2) ** 2, lambda: kernel(A=a, B=b, T=half), peers, error,
        str(kernel.schedule),
    )  # fmt: skip
