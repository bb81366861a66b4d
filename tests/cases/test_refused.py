"""Bug reports whose right answer is a refusal, with words that tell why; and bad arguments."""

from __future__ import annotations

import time

import numpy as np
import pytest

import tdsl
from tdsl.diagnostics import BoundsError, Error, IllegalSchedule

MIRRORED = """
kernel k() {
    out g: i32[48, 48]
    f[y, x] = i32(x) + i32(y)
    g[y, x] = f[y, 47 - x]
}
"""
SHIFTED = """
kernel k() {
    inout A: i32[5, 5]
    for i in 0..4, j in 1..5 { S: A[i, j] = A[i + 1, j - 1] }
}
"""
REPEATED = "kernel k() { inout A: i32[5]  for m in 0..3, i in 0..4 { S: A[i] = A[i + 1] + 3 } }"
PRODUCTS = """
kernel k() {
    in c: i32[3]
    inout a: i32[3]
    temp s: i32[3]
    for p in 1..3 { S: s[p] = a[1] * c[p] }
    for p in 1..3 { T: a[p] = s[p] }
}
"""
WAVE = """
kernel k(T, c) {
    inout u: f64[T + 2, 14]
    for t in 0..T, x in 1..13 {
        S: u[t + 2, x] = 2.0 * u[t + 1, x] + 0.5 * (u[t + 1, x + 1] - 2.0 * u[t + 1, x]
            + u[t + 1, x - 1]) - u[t, x]
    }
}
""".replace("T, c", "T")
SUMS = """
kernel k(N) {
    inout A: i64[N, N]
    for i in 1..N, j in 1..N { S: A[i, j] = (A[i, j - 1] + A[i - 1, j]) % 1000 }
}
"""
SUFFIX = """
kernel k(N) {
    in a: f64[N]
    inout s: f64[N + 1]
    for i in N - 1 downto 0 { S: s[i] = s[i + 1] + a[i] }
}
"""


@pytest.mark.parametrize(
    ("kernel", "directives"),
    [
        pytest.param(MIRRORED, "fuse f.y, g.y -> y  fuse f.x, g.x -> x", id="b12"),
        pytest.param(PRODUCTS, "fuse S.p, T.p -> p", id="b26"),
        pytest.param(SHIFTED, "tile i, j by 2, 2 -> a, b, c, d", id="b27-tile"),
        pytest.param(SHIFTED, "reorder j, i", id="b27-interchange"),
        pytest.param(SHIFTED, "parallel i", id="b27-parallel"),
        pytest.param(REPEATED, "reorder i, m", id="b29-interchange"),
        pytest.param(REPEATED, "parallel m", id="b29-parallel"),
        pytest.param(WAVE, "reorder x, t", id="b40-outer"),
        pytest.param(WAVE, "tile t, x by 2, 4 -> a, b, c, d", id="b40-tile"),
        pytest.param(SUMS, "parallel i", id="b47-rows"),
        pytest.param(SUMS, "parallel j", id="b47-columns"),
        pytest.param(SUFFIX, "reverse i", id="b51"),
    ],
)
def test_illegal_orders_name_two_iterations(kernel: str, directives: str) -> None:
    text = f"{kernel}\nschedule k for any {{ {directives} }}"
    with pytest.raises(IllegalSchedule) as refused:
        tdsl.parse(text, name="k.tdsl")["k"].compile("c")
    assert refused.value.violations


@pytest.mark.parametrize(
    "directives", ["parallel x", "skew x by t  tile t, x by 2, 4 -> a, b, c, d"]
)
def test_b40_what_is_legal(directives: str) -> None:
    text = f"{WAVE}\nschedule k for any {{ {directives} }}"
    wave = tdsl.parse(text, name="k.tdsl")["k"].compile("c", strict_fp=True)
    u = np.random.default_rng(0).standard_normal((7, 14))
    want = u.copy()
    for t in range(5):
        one, two = want[t + 1], want[t]
        new = 2.0 * one[1:13] + 0.5 * (one[2:] - 2.0 * one[1:13] + one[:12]) - two[1:13]
        want[t + 2, 1:13] = new
    np.testing.assert_array_equal(wave(u=u), want)


def test_b22_a_read_beyond_the_table() -> None:
    text = "const t: f32[3] = [1, 2, 3]  kernel k() { out B: f32  B = sum[k in 0..64](t[k]) }"
    with pytest.raises(BoundsError) as refused:
        tdsl.parse(text, name="k.tdsl")["k"].compile("c")
    assert "t" in str(refused.value) and "3" in str(refused.value)


def test_b28_products_of_sizes_in_subscripts() -> None:
    text = "kernel k(P, Q) { in A: f32[P, P]  out B: f32[P]  B[i] = A[P * Q, i] }"
    with pytest.raises(Error):
        tdsl.parse(text, name="k.tdsl")["k"].compile("c")


SQUARE = "kernel k(M, N) { in x: f32[M, N]  out y: f32[M]  y[i] = sum[j](x[i, j]) }"


@pytest.mark.parametrize(
    ("directives", "words"),
    [
        ("split i by 0 -> a, b", "0"),
        ("split i by -3 -> a, b", "-3"),
        ("vectorize i by -1", "-1"),
        ("tile i, q by 2, 2 -> a, b, c, d", "q"),
        ("reorder j, j", "j"),
        ("vectorize j", "reassociate"),
        ("unroll i plain", "i"),
    ],
)
def test_b83_bad_arguments_are_named(directives: str, words: str) -> None:
    text = f"{SQUARE}\nschedule k for any {{ {directives} }}"
    with pytest.raises(Error) as refused:
        tdsl.parse(text, name="k.tdsl")["k"].compile("c")
    assert words in str(refused.value)


@pytest.mark.parametrize("directives", ["split i by 1 -> a, b", "split i by 500 -> a, b"])
def test_b83_odd_factors_are_legal(directives: str) -> None:
    text = f"{SQUARE}\nschedule k for any {{ {directives} }}"
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    np.testing.assert_array_equal(tdsl.parse(text)["k"].compile("c")(x=x), x.sum(1))


def test_b17_a_chain_of_choices() -> None:
    steps = "v0[i] = x[i]\n" + "".join(
        f"v{n + 1}[i] = select(p[i] > {n}, v{n}[i] + 1, v{n}[i])\n" for n in range(24)
    )
    text = f"kernel k(N) {{ in x, p: i32[N]  out y: i32[N]\n{steps} y[i] = v24[i] }}"
    start = time.perf_counter()
    chain = tdsl.parse(text)["k"].compile("c")
    assert time.perf_counter() - start < 30
    p = np.arange(40, dtype=np.int32)
    np.testing.assert_array_equal(chain(x=p, p=p), p + np.minimum(p, 24))
