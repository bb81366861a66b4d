"""Bug reports about incomplete blocks: tails, guards, lanes and memory beyond the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.cases.harness import TAILS, case, product, same, tails

Run = Callable[..., Any]
rng = np.random.default_rng(7)

COPY_TWICE = """
kernel NAME(N) {
    temp f: i32[N]
    out g: i32[N]
    f[x] = i32(x)
    g[x] = f[x]
}
"""


@case(
    COPY_TWICE,
    *[
        f"split g.x by {outer} -> o, i tail guard  split i by {inner} -> a, b tail {tail}"
        f"  reorder {order}  {mark}"
        for outer, inner in ((2, 4), (3, 8), (8, 3))
        for tail, order, mark in (
            ("guard", "o, a, b", "vectorize b"),
            ("mask", "a, o, b", "vectorize b"),
            ("peel", "a, b, o", ""),
            ("cases", "o, a, b", "unroll b"),
        )
    ],
    neon=True,
)
def b01_inner_split_larger_than_the_outer_factor(run: Run) -> None:
    for n in (0, 1, 15, 16, 17):
        same(run(N=n), np.arange(n))


SUM = "kernel NAME(N) { in x: i32[N]  out s: i32  s = sum[k](x[k]) }"


@case(
    SUM,
    *tails("split k by 8 -> ko, ki TAIL"),
    *tails("split k by 8 -> ko, ki TAIL  vectorize ki", ("guard", "mask", "peel", "narrow")),
    *tails("split k by 8 -> ko, ki TAIL  unroll ki", ("guard", "peel", "cases", "balanced")),
    neon=True,
)
def b05_sum_of_fifteen_in_blocks_of_eight(run: Run) -> None:
    assert run(x=np.arange(15, dtype=np.int32)) == 105


@case(
    """kernel NAME(X, Y) {
        out y: u8[X, Y, 4]
        s[i, j] = sum[r in 1..3](i32(r))
        y[i, j, c] = select(c == 3, 255, u8(s[i, j]))
    }""",
    "vectorize y.c by 4",
    "vectorize y.c",
    "fuse s.i, y.i -> i  fuse s.j, y.j -> j  vectorize y.c by 4",
    neon=True,
)
def b08_select_over_an_inner_reduction(run: Run) -> None:
    same(run(X=2, Y=2), np.broadcast_to([3, 3, 3, 255], (2, 2, 4)))


@case(
    """kernel NAME(X, Y) {
        out y: i32[X, Y, 4]
        y[i, j, c] = select(c == 3, 255, sum[r in 1..3](i32(r)))
    }""",
    "vectorize y.c by 4",
)
def b08_with_the_sum_in_place(run: Run) -> None:
    same(run(X=2, Y=2), np.broadcast_to([3, 3, 3, 255], (2, 2, 4)))


DIVIDE = """
kernel NAME(N) {
    in idx: i32[N]
    in table: i32[4]
    out q, r, g: i32[N]
    q[x] = 100 // (27 - i32(x))
    r[x] = 100 % (27 - i32(x))
    g[x] = table[clamp(i64(idx[x]), 0, 3)]
}
"""


@case(
    DIVIDE,
    *[
        text + more
        for text in tails("on q, r, g { split x by 8 -> o, i TAIL  MARK }")
        for more in ("",)
        for text in (text.replace("MARK", "vectorize i"),)
    ],
    "on q, r, g { split x by 8 -> o, i tail cases  unroll i }",
    "vectorize q.x, r.x, g.x",
    neon=True,
)
def b09_lanes_beyond_the_end_divide_by_zero(run: Run) -> None:
    want = [3, 3, 4, 4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 7, 7, 8, 9, 10, 11, 12, 14, 16, 20, 25, 33]
    idx = np.arange(25, dtype=np.int32) % 4
    q, r, g = run(idx=idx, table=np.array([5, 6, 7, 8], np.int32))
    same(q, want)
    same(r, [100 % (27 - x) for x in range(25)])
    same(g, idx + 5)


@case(
    """kernel NAME(X, Y) {
        out g: i32[X, Y]
        g[x, y] = sum[rx in -2..3, ry in -2..3](i32(1))
    }""",
    *product("split ry by 2 -> a, b tail TAIL", TAIL=TAILS),
    *product("split ry by 2 -> a, b tail TAIL  unroll b", TAIL=("guard", "peel", "cases")),
    "split ry by 2 -> a, b  vectorize b",
    "vectorize y  unroll rx, ry plain",
    neon=True,
)
def b13_a_split_reduction_adds_no_further_terms(run: Run) -> None:
    same(run(X=3, Y=5), np.full((3, 5), 25))


@case(
    "kernel NAME() { inout m: i32[8]  for j in 0..6 { m[j] *= 2 } }",
    *product("vectorize j by W", W=("4", "8", "16")),
    *product("split j by W -> o, i tail T  vectorize i", W=("4", "8", "16"), T=TAILS),
    neon=True,
)
def b37_a_vector_tail_writes_nothing_beyond_the_domain(run: Run) -> None:
    same(run(m=np.arange(1, 9, dtype=np.int32)), [2, 4, 6, 8, 10, 12, 7, 8])


@case(
    """kernel NAME(M, N, K) {
        in A: f32[M, K]
        in B: f32[K, N]
        in C: f32[M, N]
        in alpha, beta: f32
        out Y: f32[M, N]
        P[i, j] = sum[k](A[i, k] * B[k, j])
        Y[i, j] = select(alpha == 0.0, 0.0, alpha * P[i, j])
            + select(beta == 0.0, 0.0, beta * C[i, j])
    }""",
    *product("tile P.i, P.j by 4, 4 -> a, b, c, d tail T  reorder P.k, c, d", T=TAILS),
    "on P, Y { tile i, j by 4, 4 -> a, b, c, d  unroll c  vectorize d }",
    strict=False,
    neon=True,
)
def b66_beta_zero_reads_no_nan(run: Run) -> None:
    a = rng.integers(-5, 5, (5, 7)).astype(np.float32)
    b = rng.integers(-5, 5, (7, 6)).astype(np.float32)
    nan = np.full((5, 6), np.nan, np.float32)
    two, none = np.float32(2), np.float32(0)
    np.testing.assert_array_equal(run(A=a, B=b, C=nan, alpha=two, beta=none), 2 * (a @ b))
    a[2, 3] = np.nan
    ones = np.ones((5, 6), np.float32)
    np.testing.assert_array_equal(run(A=a, B=b, C=ones, alpha=none, beta=two), 2 * ones)


@case(
    """kernel NAME(N) {
        in x: f32[N]
        in u: i8[N]
        out y: f32[N]
        out v: i8[N]
        y[i] = x[i] * 2.0 + 1.0
        v[i] = max(u[i], 0)
    }""",
    "vectorize y.i, v.i",
    *tails("on y, v { split i by 16 -> o, l TAIL  vectorize l }"),
    *tails("on y, v { split i by 5 -> o, l TAIL  unroll l }", ("guard", "cases", "peel")),
    neon=True,
)
def b68_every_size_from_one_to_forty_between_forbidden_pages(run: Run) -> None:
    for n in range(1, 41):
        x = rng.integers(-99, 99, n).astype(np.float32)
        u = rng.integers(-128, 128, n, dtype=np.int8)
        y, v = run(x=x, u=u)
        same(y, x * 2 + 1)
        same(v, np.maximum(u, 0))


@case(
    """kernel NAME(M, N) {
        assume N >= 1
        in x: f32[M, N]
        temp e: f32[M, N]
        out y: f32[M, N]
        m[i] = max[j](x[i, j])
        e[i, j] = exp(x[i, j] - m[i])
        z[i] = sum[j](e[i, j])
        y[i, j] = e[i, j] / z[i]
    }""",
    *product("reassociate z  vectorize m.j, e.j, z.j, y.j by W", W=("4", "8", "16")),
    "reassociate z  fuse m.i, e.i, z.i, y.i -> row  on e, y { split j by 16 -> o, l  vectorize l }",
    strict=False,
    neon=True,
)
def b68_softmax_over_three_channels(run: Run) -> None:
    x = np.array([[1000, 1001, 1002], [0, 0, 0], [-1, 0, 1]], np.float32)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(run(x=x), e / e.sum(1, keepdims=True), 1e-5)
