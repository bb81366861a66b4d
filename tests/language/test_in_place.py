"""Definitions of an `inout` by its own elements, and indices as data."""

from __future__ import annotations

import numpy as np
import pytest

from tdsl.diagnostics import BoundsError, ParseError, TypeMismatch
from tests.language.run import compiled, everywhere, interpreted, lowered

SCALED = """
kernel scaled(M, N, K) {
    in    A: f32[M, K]
    in    B: f32[K, N]
    in    beta: f32
    inout C: f32[M, N]

    scale: C[i, j] = select(beta == 0.0, 0.0, beta * C[i, j])
    upd:   C[i, j] += sum[k](A[i, k] * B[k, j])
}
schedule scaled for any {
    vectorize scale.j by 8
    parallel upd.i
}
"""


@everywhere
@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_the_callers_values_are_read(on: str, beta: float) -> None:
    rng = np.random.default_rng(8)
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((5, 3), (3, 19)))
    c = rng.integers(-4, 5, (5, 19)).astype(np.float32)
    if beta == 0:
        c[0] = np.nan
    want = (0 if beta == 0 else beta * c) + a @ b
    oracle = interpreted(
        SCALED, "scaled", {"A": a, "B": b, "beta": np.asarray(beta, np.float32), "C": c}
    )["C"]
    compiled(SCALED, "scaled", on, "scaled")(A=a, B=b, beta=beta, C=c)
    np.testing.assert_array_equal(c, want)
    np.testing.assert_array_equal(oracle, want)


def test_with_a_reduction_beside_it() -> None:
    text = """
    kernel f(N, K) {
        in    A: f32[N, K]
        inout y: f32[N]
        inout s: f32
        y[i] = 3.0 * y[i] - sum[k](A[i, k])   where i % 2 == 0
        s = s * s + 1.0
    }"""
    a, y, s = np.ones((5, 4), np.float32), np.arange(5, dtype=np.float32), np.array(3, np.float32)
    compiled(text, "f", "c")(A=a, y=y, s=s)
    np.testing.assert_array_equal(y, [-4, 1, 2, 3, 8])
    assert s == 10


@pytest.mark.parametrize(
    "equation",
    [
        "y[i] = y[N - 1 - i]",
        "y[i] = y[i] + padded(y[i - 1], 0.0)",
        "y[i] = sum[k in 0..N](y[k])",
        "y[i] = sum[k in 0..N](y[i])",
        "y[i] = y[i] + sum[k in 0..N](y[k])",
    ],
)
def test_other_elements_are_not(equation: str) -> None:
    with pytest.raises(ParseError, match="so it cannot be read in it"):
        lowered(f"kernel f(N) {{ inout y: f32[N]  {equation} }}", "f")


def test_an_output_has_no_value_before() -> None:
    with pytest.raises(ParseError, match="so it cannot be read in it"):
        lowered("kernel f(N) { out y: f32[N]  y[i] = 2.0 * y[i] }", "f")


NEAREST = """
kernel nearest(N, M) {
    in  x: f32[N]
    in  scale: f32
    out y: f32[M]
    out at, left: i64[M]
    assume N >= 1

    low[p]  = clamp(i64(floor(f32(p) * scale)), 0, N - 1)
    at[p]   = low[p] + p
    left[p] = N - low[p]
    n[p]    = min(p, N - 1) - p // 2
    y[p]    = x[low[p]] + x[min(low[p] + 1, N - 1)] * f32(n[p])
}
"""


@everywhere
def test_indices_beside_i64(on: str) -> None:
    x = np.random.default_rng(9).integers(-9, 9, 5).astype(np.float32)
    p = np.arange(12)
    low = np.clip(np.floor(p.astype(np.float32) * np.float32(0.6)).astype(np.int64), 0, 4)
    n = np.minimum(p, 4) - p // 2
    want = x[low] + x[np.minimum(low + 1, 4)] * n
    y = np.empty(12, np.float32)
    for got in (
        compiled(NEAREST, "nearest", on)(x=x, scale=0.6, y=y),
        tuple(
            interpreted(
                NEAREST, "nearest", {"x": x, "scale": np.asarray(0.6, np.float32)}, M=12
            ).values()
        ),
    ):
        np.testing.assert_array_equal(got[0], want)
        np.testing.assert_array_equal(got[1], low + p)
        np.testing.assert_array_equal(got[2], 5 - low)


def test_a_temp_that_may_leave_the_array_is_no_index() -> None:
    text = NEAREST.replace("clamp(i64(floor(f32(p) * scale)), 0, N - 1)", "max(i64(scale), 0)")
    with pytest.raises(BoundsError, match="nothing bounds the index"):
        lowered(text, "nearest")
    updated = NEAREST.replace("    at[p]", "    low[p] += 1\n    at[p]")
    with pytest.raises(BoundsError, match="nothing bounds the index"):
        lowered(updated, "nearest")
    wide = NEAREST.replace(", 0, N - 1)", ", 0, N)")
    with pytest.raises(BoundsError, match="leaves x"):
        lowered(wide, "nearest")


def test_other_integers_are_converted() -> None:
    text = "kernel f(N) { in x: i32[N]  out y: i32[N]  y[i] = x[i] + i }"
    with pytest.raises(TypeMismatch, match="i32 and an index"):
        lowered(text, "f")
