"""What elaborated kernels compute, run by the interpreter, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tdsl.ir.interp import reference
from tdsl.ir.verify_kernel import verify_kernel
from tdsl.syntax.elaborate import elaborate, kernels
from tdsl.syntax.parser import parse

Array = npt.NDArray[Any]
RNG = np.random.default_rng(7)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def run(
    text: str, arrays: dict[str, Array], sizes: dict[str, int] | None = None, **constants: int | str
) -> Array:
    """The only output of the only kernel."""
    file = parse(text)
    kernel = elaborate(file, kernels(file)[0], constants)
    verify_kernel(kernel)
    (out,) = reference(kernel, sizes or {}, arrays).values()
    return out


CONV = """
def relu(v) = max(v, 0.0)
kernel conv<stride = 1, dilation = 1, pad = 0, act = relu>(H, W, C, K, R, S) {
    let OH = (H + 2 * pad - dilation * (R - 1) - 1) // stride + 1
    let OW = (W + 2 * pad - dilation * (S - 1) - 1) // stride + 1
    assume OH >= 1, OW >= 1
    in    x: f32[H, W, C]
    const w: f32[R, S, C, K]
    const b: f32[K]
    out   y: f32[OH, OW, K]
    xp[h, v, c]  = padded(x[h - pad, v - pad, c], 0.0)
    acc[p, q, k] = sum[r, s, c](xp[p * stride + r * dilation, q * stride + s * dilation, c]
                                * w[r, s, c, k])
    y[p, q, k]   = act(acc[p, q, k] + b[k])
}
"""


@pytest.mark.parametrize(
    ("stride", "dilation", "pad"), [(1, 1, 0), (1, 1, 1), (2, 1, 1), (1, 2, 2), (3, 2, 0)]
)
def test_convolution(stride: int, dilation: int, pad: int) -> None:
    x, w, b = floats(9, 8, 3), floats(3, 2, 3, 4), floats(4)
    y = run(CONV, {"x": x, "w": w, "b": b}, stride=stride, dilation=dilation, pad=pad)
    xp = np.pad(x.astype(np.float64), ((pad, pad), (pad, pad), (0, 0)))
    wanted = np.zeros(y.shape)
    for p in range(y.shape[0]):
        for q in range(y.shape[1]):
            for r in range(3):
                for s in range(2):
                    row = xp[p * stride + r * dilation, q * stride + s * dilation]
                    wanted[p, q] += row @ w[r, s].astype(np.float64)
    np.testing.assert_allclose(y, np.maximum(wanted + b, 0), rtol=1e-5, atol=1e-5)


def test_softmax_without_a_declared_temp() -> None:
    text = """
    kernel softmax(M, N) {
        assume N >= 1
        in x: f32[M, N]
        out y: f32[M, N]
        m[i] = max[j](x[i, j])
        e[i, j] = exp(x[i, j] - m[i])
        y[i, j] = e[i, j] / sum[k](e[i, k])
    }"""
    x = floats(4, 7)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(run(text, {"x": x}), e / e.sum(1, keepdims=True), rtol=1e-5)


def test_nested_reductions() -> None:
    text = """kernel f(N, M) { in A: f64[N, M]
        out s: f64[N]
        s[i] = sum[a in 0..N](A[a, 0] * sum[b](A[a, b] * A[i, b])) }"""
    a = RNG.standard_normal((5, 3))
    np.testing.assert_allclose(run(text, {"A": a}), (a @ a.T) @ a[:, 0])


def test_triangular_terms() -> None:
    text = """kernel f(N) { in x: f64[N]
        out y: f64[N]
        y[i] = sum[j in 0..N where j <= i](x[j]) }"""
    x = RNG.standard_normal(9)
    np.testing.assert_allclose(run(text, {"x": x}), np.cumsum(x))


def test_average_of_what_lies_inside() -> None:
    text = """kernel f(N) { in x: f64[N]
        out y: f64[N]
        y[i] = sum[r in 0..3 where inside(x[i + r - 1])](x[i + r - 1])
             / sum[r in 0..3 where inside(x[i + r - 1])](1.0) }"""
    x = RNG.standard_normal(6)
    wanted = [x[max(0, i - 1) : i + 2].mean() for i in range(6)]
    np.testing.assert_allclose(run(text, {"x": x}), wanted)


@pytest.mark.parametrize("count", ["1", "sum[l in 0..2](0.5)"])
def test_a_reduction_of_numbers_takes_the_type_beside_it(count: str) -> None:
    text = f"""kernel f(N) {{ in x: f64[N]
        out y: i32[N]
        t[i] = x[i] * sum[k in 0..3]({count})
        y[i] = i32(t[i] + sum[k in 0..2](1)) + sum[k in 0..4](1) }}"""
    got = run(text, {"x": np.array([0.0, 1.0, 5.0])})
    np.testing.assert_array_equal(got, [6, 9, 21])


def test_back_substitution_downward() -> None:
    text = """kernel f(N) { in U: f64[N, N]
        in b: f64[N]
        inout x: f64[N]
        for i in N-1 downto 0 {
            x[i] = (b[i] - sum[j in i+1..N](U[i, j] * x[j])) / U[i, i]
        } }"""
    u = np.triu(RNG.standard_normal((6, 6))) + 4 * np.eye(6)
    b = RNG.standard_normal(6)
    got = run(text, {"U": u, "b": b, "x": np.zeros(6)})
    np.testing.assert_allclose(got, np.linalg.solve(u, b))


@pytest.mark.parametrize(("head", "touched"), [
    ("i in 1..N step 3", range(1, 10, 3)), ("i in N-1 downto 2 step 2", range(9, 1, -2)),
])  # fmt: skip
def test_steps(head: str, touched: range) -> None:
    text = f"kernel f(N) {{ inout A: i32[N]\n for {head} {{ A[i] += 1 }} }}"
    wanted = np.zeros(10, np.int32)
    wanted[list(touched)] = 1
    np.testing.assert_array_equal(run(text, {"A": np.zeros(10, np.int32)}), wanted)


def test_data_choose_the_element() -> None:
    text = """kernel f(N, V) { assume V >= 1
        in idx: i32[N]
        in code: u8[N]
        in t: f32[V]
        in g: f32[256]
        out y: f32[N]
        y[i] = t[clamp(idx[i], 0, V - 1)] + g[code[i]] + t[clamp(i - 1, 0, V - 1)] }"""
    idx = np.array([-3, 0, 4, 99, 2], np.int32)
    code = np.array([0, 255, 7, 128, 3], np.uint8)
    t, g = floats(5), floats(256)
    wanted = t[np.clip(idx, 0, 4)] + g[code] + t[np.clip(np.arange(5) - 1, 0, 4)]
    np.testing.assert_array_equal(run(text, {"idx": idx, "code": code, "t": t, "g": g}), wanted)


@pytest.mark.parametrize("mode", ["mirror", "clamp", "wrap"])
def test_borders_are_numpys(mode: str) -> None:
    index = {"mirror": "mirror(i - 3, 8)", "clamp": "clamp(i - 3, 0, 7)", "wrap": "wrap(i - 3, 8)"}
    pad: Any = {"mirror": "reflect", "clamp": "edge", "wrap": "wrap"}[mode]
    x = floats(8)
    got = run(f"kernel f() {{ in x: f32[8]\n out y: f32[14]\n y[i] = x[{index[mode]}] }}", {"x": x})
    np.testing.assert_array_equal(got, np.pad(x, 3, mode=pad))


def test_mirror_of_an_unknown_size() -> None:
    text = """kernel f(N) { assume N >= 4
        in x: f32[N]
        out y: f32[N + 6]
        y[i] = x[mirror(i - 3, N)] }"""
    x = floats(5)
    np.testing.assert_array_equal(run(text, {"x": x}), np.pad(x, 3, mode="reflect"))


def test_tables_and_quasi_affine_indices() -> None:
    text = """
    const w: f64[2, 3] = [[1/2, -1, 2], [1/3, 0.25, 1e-1]]
    kernel f(N) { in x: f64[N]
        out y: f64[N]
        y[i] = w[i % 2, i // 2 % 3] * x[N - 1 - i] }"""
    w = np.array([[0.5, -1, 2], [1 / 3, 0.25, 0.1]])
    x = RNG.standard_normal(8)
    i = np.arange(8)
    np.testing.assert_array_equal(run(text, {"x": x}), w[i % 2, i // 2 % 3] * x[::-1])


def test_interleaved_definitions() -> None:
    text = """kernel rope(L, E) { assume E % 2 == 0
        in x: f64[L, E]
        in c: f64[L, E // 2]
        in s: f64[L, E // 2]
        out y: f64[L, E]
        even: y[t, 2 * i] = x[t, 2 * i] * c[t, i] - x[t, 2 * i + 1] * s[t, i]
        odd: y[t, 2 * i + 1] = x[t, 2 * i] * s[t, i] + x[t, 2 * i + 1] * c[t, i] }"""
    x, angle = RNG.standard_normal((3, 8)), RNG.standard_normal((3, 4))
    z = (x[:, ::2] + 1j * x[:, 1::2]) * np.exp(1j * angle)
    wanted = np.stack([z.real, z.imag], 2).reshape(3, 8)
    got = run(text, {"x": x, "c": np.cos(angle), "s": np.sin(angle)})
    np.testing.assert_allclose(got, wanted)


def test_quantized_product() -> None:
    text = """kernel q(M, N, K) { in A: u8[M, K]
        in B: i8[K, N]
        in scale: f32
        out C: u8[M, N]
        acc[i, j] = sum[k](i32(A[i, k]) * i32(B[k, j]))
        C[i, j] = saturate<u8>(round(f32(acc[i, j]) * scale) + 128.0) }"""
    a = RNG.integers(0, 256, (4, 9)).astype(np.uint8)
    b = RNG.integers(-128, 128, (9, 5)).astype(np.int8)
    scale = np.float32(0.003)
    acc = a.astype(np.int32) @ b.astype(np.int32)
    wanted = np.clip(np.rint(acc.astype(np.float32) * scale) + np.float32(128), 0, 255)
    got = run(text, {"A": a, "B": b, "scale": np.array(scale)})
    np.testing.assert_array_equal(got, wanted.astype(np.uint8))


def test_a_time_loop_with_a_stage_inside() -> None:
    text = """kernel f(T, N) { in R: f64[N, N]
        in h0: f64[N]
        out h: f64[T, N]
        assume T >= 1
        h[0, n] = h0[n]
        for t in 1..T {
            r[n] = sum[k](h[t - 1, k] * R[k, n])
            h[t, n] = tanh(r[n])
        } }"""
    r, h0 = RNG.standard_normal((4, 4)), RNG.standard_normal(4)
    rows = [h0]
    for _ in range(4):
        rows.append(np.tanh(rows[-1] @ r))
    got = run(text, {"R": r, "h0": h0}, {"T": 5})
    np.testing.assert_allclose(got, np.array(rows))


def test_empty_sizes() -> None:
    text = "kernel f(M, K) { in A: f32[M, K]\n out y: f32[M]\n y[i] = 1.0 + sum[k](A[i, k]) }"
    np.testing.assert_array_equal(run(text, {"A": floats(3, 0)}), np.ones(3, np.float32))
    assert run(text, {"A": floats(0, 3)}).shape == (0,)


def test_disjoint_conditions() -> None:
    text = """kernel f<c = 1>(N) { in x: f64[N]
        out y: f64[N]
        y[i] = x[i] where c == 0 or i % 3 == 0 or i > 5
        y[i] = -x[i] where not (c == 0 or i % 3 == 0 or i > 5) }"""
    x = RNG.standard_normal(9)
    i = np.arange(9)
    wanted = np.where((i % 3 == 0) | (i > 5), x, -x)
    np.testing.assert_array_equal(run(text, {"x": x}), wanted)
    np.testing.assert_array_equal(run(text, {"x": x}, c=0), x)


def test_blocks_of_a_prefix_sum() -> None:
    text = """kernel f<T = 4>(L) { in x: f64[L]
        out y: f64[L]
        s[i, t, u] = x[t * T + u] where t * T + u <= i and u < T
        b[i, t] = sum[u in 0..T where t * T + u <= i](s[i, t, u])
        y[i] = sum[t in 0..i // T + 1](b[i, t]) }"""
    for n in (0, 1, 3, 4, 5, 13):
        x = RNG.standard_normal(n)
        np.testing.assert_allclose(run(text, {"x": x}), np.cumsum(x))


def test_a_name_in_a_nest_and_a_reduction_in_it() -> None:
    text = """kernel f(N) { inout A: f64[N]
        for i in N-1 downto 0 step 3 {
            let q = i // 2
            A[i] = A[q] + sum[j in 0..min(i, 4)](A[j])
        } }"""
    a = RNG.standard_normal(11)
    wanted = a.copy()
    for i in range(10, -1, -3):
        wanted[i] = wanted[i // 2] + wanted[: min(i, 4)].sum()
    np.testing.assert_allclose(run(text, {"A": a}), wanted)


@pytest.mark.parametrize(("word", "numpys"), [("any", np.any), ("all", np.all)])
def test_truth(word: str, numpys: Any) -> None:
    text = f"""kernel f(M, N) {{ in x: f32[M, N]
        out y: bool[M]
        y[i] = {word}[j](x[i, j] > 0.5 or x[i, j] != x[i, j]) }}"""
    x = np.array([[0.6, 0.7], [0.1, 0.9], [0.2, 0.3], [np.nan, 1.0]], np.float32)
    wanted = numpys((x > 0.5) | np.isnan(x), axis=1)
    np.testing.assert_array_equal(run(text, {"x": x}), wanted)


def test_updates_in_the_order_of_the_text() -> None:
    text = """kernel f(N) { in x: f64[N, N]
        inout y: f64[N]
        y[i] *= 2.0
        y[i] -= sum[k](x[i, k])
        y[i] max= max[k](x[i, k])
        y[i] min= 1.5 }"""
    x, y = RNG.standard_normal((4, 4)), RNG.standard_normal(4)
    wanted = np.minimum(np.maximum(2 * y - x.sum(1), x.max(1)), 1.5)
    np.testing.assert_allclose(run(text, {"x": x, "y": y}), wanted)
