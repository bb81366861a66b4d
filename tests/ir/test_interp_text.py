"""The oracle on kernels that were written as text."""

from __future__ import annotations

import numpy as np

from tdsl.ir.interp import reference
from tdsl.ir.kernel import Kernel
from tdsl.syntax.elaborate import elaborate
from tdsl.syntax.parser import parse

RNG = np.random.default_rng(5)


def compiled(text: str, **constants: int) -> Kernel:
    file = parse(text)
    return elaborate(file, "k", constants)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def test_a_strided_padded_convolution_with_an_epilogue() -> None:
    k = compiled(
        """
        def relu(v) = max(v, 0.0)
        kernel k<stride = 1, pad = 0>(H, W, C, K) {
            let OH = (H + 2 * pad - 3) // stride + 1
            let OW = (W + 2 * pad - 3) // stride + 1
            assume OH >= 1, OW >= 1
            in    x: f32[H, W, C]
            const w: f32[3, 3, C, K]
            const b: f32[K]
            out   y: f32[OH, OW, K]
            xp[h, v, c]  = padded(x[h - pad, v - pad, c], 0.0)
            acc[p, q, k] = sum[r, s, c](xp[p * stride + r, q * stride + s, c] * w[r, s, c, k])
            y[p, q, k]   = relu(acc[p, q, k] + b[k])
        }
        """,
        stride=2,
        pad=1,
    )
    x, w, b = floats(9, 6, 3), floats(3, 3, 3, 4), floats(4)
    got = reference(k, {}, {"x": x, "w": w, "b": b})["y"]
    wide = np.pad(x, ((1, 1), (1, 1), (0, 0)))
    want = np.zeros((5, 3, 4), np.float32)
    for r in range(3):
        for s in range(3):
            for c in range(3):
                want += wide[r : r + 9 : 2, s : s + 6 : 2, c, None] * w[r, s, c]
    np.testing.assert_array_equal(got, np.maximum(want + b, 0))


def test_an_in_place_stencil() -> None:
    k = compiled(
        """
        kernel k(T, N) {
            assume T >= 1, N >= 3
            inout A: f64[N, N]
            for t in 0..T, i in 1..N-1, j in 1..N-1 {
                A[i, j] = (A[i-1, j] + A[i, j-1] + A[i, j] + A[i, j+1] + A[i+1, j]) / 5.0
            }
        }
        """
    )
    start = RNG.random((9, 9))
    want = start.copy()
    for _ in range(2):
        for i in range(1, 8):
            for j in range(1, 8):
                total = want[i - 1, j] + want[i, j - 1] + want[i, j] + want[i, j + 1]
                want[i, j] = (total + want[i + 1, j]) / 5.0
    np.testing.assert_array_equal(reference(k, {"T": 2}, {"A": start})["A"], want)


def test_a_quantized_product_with_saturation() -> None:
    k = compiled(
        """
        kernel k(M, N, K) {
            in  A: u8[M, K]
            in  B: i8[K, N]
            in  scale: f32
            out C: i8[M, N]
            acc[i, j] = sum[k](i32(A[i, k]) * i32(B[k, j]))
            C[i, j] = saturate<i8>(round(f32(acc[i, j]) * scale))
        }
        """
    )
    a = RNG.integers(0, 256, (7, 33)).astype(np.uint8)
    b = RNG.integers(-128, 128, (33, 5)).astype(np.int8)
    scale = np.array(0.0078125, np.float32)  # a power of two: the product is exact, with ties
    got = reference(k, {}, {"A": a, "B": b, "scale": scale})["C"]
    exact = (a.astype(int) @ b.astype(int)) / 128
    np.testing.assert_array_equal(got, np.clip(np.rint(exact), -128, 127).astype(np.int8))


def test_softmax_of_rows() -> None:
    k = compiled(
        """
        kernel k(M, N) {
            assume N >= 1
            in  x: f32[M, N]
            out y: f32[M, N]
            m[i]    = max[j](x[i, j])
            e[i, j] = exp(x[i, j] - m[i])
            z[i]    = sum[j](e[i, j])
            y[i, j] = e[i, j] / z[i]
        }
        """
    )
    x = 10 * floats(5, 17)
    wide = np.exp(x.astype(float) - x.astype(float).max(axis=1, keepdims=True))
    want = wide / wide.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(reference(k, {}, {"x": x})["y"], want, rtol=5e-6)


def test_a_loop_that_runs_down_over_a_triangle() -> None:
    """Back substitution: x[i] takes what is right of the diagonal."""
    k = compiled(
        """
        kernel k(N) {
            in    U: f64[N, N]
            inout x: f64[N]
            for i in N-1 downto 0 {
                for j in i+1..N {
                    R: x[i] -= U[i, j] * x[j]
                }
                D: x[i] = x[i] / U[i, i]
            }
        }
        """
    )
    upper = np.triu(RNG.random((12, 12))) + 3 * np.eye(12)
    b = RNG.random(12)
    got = reference(k, {}, {"U": upper, "x": b})["x"]
    np.testing.assert_allclose(upper @ got, b, rtol=1e-12)
    assert reference(k, {}, {"U": upper[:0, :0], "x": b[:0]})["x"].shape == (0,)
