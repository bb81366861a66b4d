"""What the examples compute, by the interpreter and compiled, is what NumPy computes by itself.

Floating-point values are small integers, so that every order of every sum gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tdsl
from tests.examples.cases import EXAMPLES

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

rng = np.random.default_rng(5)


def whole(*shape: int) -> Array:
    return rng.integers(-4, 5, shape).astype(np.float32)


def windows(x: Array, rows: int, columns: int, stride: int) -> Array:
    """[n, p, q, c, r, s]"""
    view = np.lib.stride_tricks.sliding_window_view(x, (rows, columns), axis=(1, 2))
    return view[:, ::stride, ::stride]


def padded(x: Array, pad: int) -> Array:
    return np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))


def convolution(arrays: Arrays) -> Any:
    found = np.einsum("npqcrs,rsck->npqk", windows(arrays["x"], 3, 2, 2), arrays["w"])
    return np.maximum(found + arrays["b"], 0)


def depthwise(arrays: Arrays) -> Any:
    return np.einsum("npqcrs,rsc->npqc", windows(padded(arrays["x"], 1), 3, 3, 1), arrays["w"])


def sobel(arrays: Arrays) -> Any:
    x = windows(arrays["img"].astype(np.int64)[None, :, :, None], 3, 3, 1)[0, :, :, 0]
    across = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    gx, gy = ((x * taps).sum((2, 3)) for taps in (across, across.T))
    return np.minimum(np.floor(np.sqrt(np.float32(gx * gx + gy * gy))), 255).astype(np.uint8)


def blurred(arrays: Arrays) -> Any:
    """Sums of small integers are exact; the one division is rounded as the kernel's is."""
    return windows(arrays["x"][None, :, :, None], 3, 3, 1)[0, :, :, 0].sum((2, 3)) / np.float32(9)


def quantized(arrays: Arrays) -> Any:
    sums = arrays["A"].astype(np.int32) @ arrays["B"].astype(np.int32)
    scaled = np.rint(sums.astype(np.float32) * arrays["scale"]) + 128
    return np.clip(scaled, 0, 255).astype(np.uint8)


def bytes_(low: int, high: int, dtype: Any, *shape: int) -> Array:
    return rng.integers(low, high, shape).astype(dtype)


EXPECTED: list[tuple[str, str, dict[str, Any], Arrays, Callable[[Arrays], Any]]] = [
    ("matmul", "matmul", {}, {"A": whole(13, 9), "B": whole(9, 35)}, lambda a: a["A"] @ a["B"]),
    ("conv2d", "pad2d", {"pad": 2}, {"x": whole(2, 3, 4, 5)}, lambda a: padded(a["x"], 2)),
    (
        "conv2d",
        "conv2d",
        {"stride": 2, "act": "relu"},
        {"x": whole(2, 9, 33, 3), "w": whole(3, 2, 3, 33), "b": whole(33)},
        convolution,
    ),
    ("depthwise", "depthwise", {}, {"x": whole(2, 5, 6, 19), "w": whole(3, 3, 19)}, depthwise),
    ("sobel", "sobel", {}, {"img": bytes_(0, 256, np.uint8, 19, 70)}, sobel),
    ("blur", "blur", {}, {"x": whole(41, 70)}, blurred),
    (
        "bias_relu",
        "bias_relu",
        {},
        {"x": whole(5, 37), "b": whole(37)},
        lambda a: np.maximum(a["x"] + a["b"], 0),
    ),
    (
        "qmatmul",
        "qmatmul",
        {},
        {
            "A": bytes_(0, 256, np.uint8, 9, 31),
            "B": bytes_(-128, 128, np.int8, 31, 37),
            "scale": np.exp2(rng.integers(-12, -5, 37)).astype(np.float32),
        },
        quantized,
    ),
]


@pytest.mark.parametrize(
    ("file", "name", "constants", "arrays", "numpy"), EXPECTED, ids=[e[1] for e in EXPECTED]
)
def test_equals_numpy(
    file: str, name: str, constants: Any, arrays: Arrays, numpy: Callable[[Arrays], Any]
) -> None:
    kernel = tdsl.load(EXAMPLES / f"{file}.tdsl")[name]
    expected = numpy(arrays)
    assert expected.size > 0 and (expected != expected.flat[0]).any()
    np.testing.assert_array_equal(kernel.reference(constants, **arrays), expected)
    np.testing.assert_array_equal(kernel.compile(constants=constants)(**arrays), expected)


def test_lu_gives_the_factors() -> None:
    kernel = tdsl.load(EXAMPLES / "lu.tdsl")["lu"]
    n = 37
    a = (rng.standard_normal((n, n)) + n * np.eye(n)).astype(np.float32)
    for run in (kernel.reference, kernel.compile()):
        factors = run(A=a.copy()).astype(np.float64)
        product = (np.tril(factors, -1) + np.eye(n)) @ np.triu(factors)
        np.testing.assert_allclose(product, a, atol=1e-4)


@pytest.mark.parametrize(("name", "const"), [("conv2d", "w b"), ("qmatmul", "B scale")])
def test_what_is_constant_is_prepared_once(name: str, const: str) -> None:
    file, kernel, constants, arrays, numpy = next(e for e in EXPECTED if e[1] == name)
    fast: Any = tdsl.load(EXAMPLES / f"{file}.tdsl")[kernel].compile(constants=constants)
    ready = fast.prepare(**{n: arrays[n] for n in const.split()})
    calls = {n: a for n, a in arrays.items() if n not in const.split()}
    for _ in range(2):
        np.testing.assert_array_equal(ready(**calls), numpy(arrays))


@pytest.mark.parametrize(
    ("shape", "variant"),
    [((7, 16, 5), "narrow"), ((32, 500, 500), "packed"), ((31, 500, 500), "tiled")],
)
def test_a_product_chooses_by_its_sizes(shape: tuple[int, int, int], variant: str) -> None:
    fast: Any = tdsl.load(EXAMPLES / "matmul.tdsl")["matmul"].compile("avx2")
    m, n, k = shape
    a, b = whole(m, k), whole(k, n)
    assert fast.variant(M=m, N=n, K=k) == variant
    np.testing.assert_array_equal(fast(A=a, B=b), a @ b)
