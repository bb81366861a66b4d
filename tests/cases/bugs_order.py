"""Bug reports about the order of loops: fusion, tiling, interchange, reversal, stencils."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.cases.harness import case, product, same, tails

Run = Callable[..., Any]


@case(
    """kernel NAME() {
        out g: i32[48, 48]
        f[y, x] = i32(x) + i32(y)
        g[y, x] = f[y, 47 - x]
    }""",
    "fuse f.y, g.y -> y",
    "fuse f.y, g.y -> y  vectorize f.x, g.x",
    "fuse f.y, g.y -> y  parallel y  split g.x by 20 -> o, l  vectorize l",
    neon=True,
)
def b12_rows_of_producer_and_consumer_together(run: Run) -> None:
    y, x = np.mgrid[0:48, 0:48]
    same(run(), 47 - x + y)


@case(
    """kernel NAME(N) {
        in A, B: f64[N]
        out E: f64[N]
        C[i] = A[i] + B[i]
        D[i] = 2.0 * C[i]
        E[i] = D[i] + A[i]
    }""",
    "on D, E { split i by 32 -> o, l }  fuse D.o, E.o -> o  fuse D.l, E.l -> l",
    "on C, D, E { split i by 32 -> o, l tail guard }  fuse C.o, D.o, E.o -> o",
    "fuse C.i, D.i, E.i -> i  split i by 32 -> o, l  vectorize l",
)
def b19_a_middle_stage_is_computed_wholly(run: Run) -> None:
    for n in (1024, 1000, 33):
        i = np.arange(n, dtype=np.float64)
        same(run(A=i, B=i), 5 * i)


@case(
    """kernel NAME() {
        in c: i32[3]
        inout a: i32[3]
        temp s: i32[3]
        for p in 1..3 { S: s[p] = a[1] * c[p] }
        for p in 1..3 { T: a[p] = s[p] }
    }""",
    "unroll S.p  unroll T.p",
    "vectorize S.p, T.p",
)
def b26_all_products_before_the_first_write(run: Run) -> None:
    same(run(a=np.array([1, 2, 3], np.int32), c=np.array([1, 5, 7], np.int32)), [1, 10, 14])


@case(
    """kernel NAME() {
        inout A: i32[5, 5]
        for i in 0..4, j in 1..5 { S: A[i, j] = A[i + 1, j - 1] }
    }""",
    "parallel j",
    "vectorize j",
    "skew j by i  tile i, j by 2, 2 -> a, b, c, d",
    *product("skew j by i  tile i, j by 2, 3 -> a, b, c, d tail T", T=("guard", "peel")),
    "unroll i plain",
    "unroll j",
    neon=True,
)
def b27_a_dependence_that_runs_back(run: Run) -> None:
    want = [[0, 5, 6, 7, 8], [5, 10, 11, 12, 13], [10, 15, 16, 17, 18], [15, 20, 21, 22, 23],
            [20, 21, 22, 23, 24]]  # fmt: skip
    same(run(A=np.arange(25, dtype=np.int32).reshape(5, 5)), want)


@case(
    """kernel NAME() {
        inout A: i32[5]
        for m in 0..3, i in 0..4 { S: A[i] = A[i + 1] + 3 }
    }""",
    "vectorize i",
    "unroll i",
    "unroll m plain",
    "split i by 3 -> o, l  unroll l",
)
def b29_repeated_shifts(run: Run) -> None:
    same(run(A=np.array([1, 2, 3, 4, 5], np.int32)), [13, 14, 11, 8, 5])


@case(
    """kernel NAME(M, N, D) {
        in I: i32[N, M, D]
        in s: i32[N, D]
        out O: i32[M, N, D]
        T[i, j, d] = I[j, i, d]
        O[i, j, d] = T[i, j, d] * s[j, d]
    }""",
    "fuse T.i, O.i -> i  fuse T.j, O.j -> j  fuse T.d, O.d -> d",
    "fuse T.i, O.i -> i  fuse T.j, O.j -> j  vectorize T.d, O.d",
    "vectorize T.j, O.i",
)
def b35_transposed_then_scaled(run: Run) -> None:
    i = np.arange(24, dtype=np.int32).reshape(4, 3, 2)
    s = 1 + np.arange(8, dtype=np.int32).reshape(4, 2)
    got = run(I=i, s=s)
    assert (got.sum(), got[2, 3, 1]) == (1608, 184)
    same(got, i.transpose(1, 0, 2) * s)


@case(
    """kernel NAME(N) {
        in x: f32[N, N]
        temp p: f32[N + 2, N + 2]
        out y: f32[N + 2, N + 2]
        p[i, j] = padded(x[i - 1, j - 1], 0.0)
        y[i, j] = p[i, j] + 1.0
    }""",
    "fuse p.i, y.i -> i  fuse p.j, y.j -> j  vectorize j",
    "vectorize p.j, y.j",
    "tile p.i, p.j by 3, 16 -> a, b, c, d  unroll c  vectorize d",
    neon=True,
)
def b36_a_border_of_zeros(run: Run) -> None:
    y = run(x=np.ones((8, 8), np.float32))
    assert (y.sum(), y[0, 0], y[9, 3], y[1, 1], y[8, 8]) == (164, 1, 1, 2, 2)


@case(
    """kernel NAME(M, K) {
        in A, B: i32[M, K]
        inout C: i32[M, M]
        for i in 0..M, j in 0..i + 1, k in 0..K { S: C[i, j] += A[i, k] * B[j, k] }
    }""",
    "split i by 4 -> io, ii  split j by 4 -> jo, ji  reorder io, jo, ii, ji, k",
    *tails(
        "split i by 4 -> io, ii TAIL  split j by 4 -> jo, ji TAIL  reorder io, jo, ii, ji, k",
        ("guard", "peel", "mask"),
    ),
    "split i by 4 -> io, ii  split j by 4 -> jo, ji  reorder io, jo, k, ii, ji  unroll ii",
    "split i by 4 -> io, ii  reorder io, j, k, ii  vectorize ii",
    "split j by 8 -> jo, ji  reorder jo, k, ji  vectorize ji",
    neon=True,
)
def b46_a_triangle_in_tiles(run: Run) -> None:
    i, k = np.mgrid[0:10, 0:3]
    a, b = ((2 * i + k) % 5).astype(np.int32), ((i + 3 * k) % 4).astype(np.int32)
    got = run(A=a, B=b, C=np.full((10, 10), -1, np.int32))
    assert got[np.triu_indices(10, 1)].tolist() == [-1] * 45
    same(got, np.where(np.tri(10, dtype=bool), a @ b.T - 1, -1))
    assert got.sum() == 411


@case(
    """kernel NAME(N) {
        inout A: i64[N, N]
        for i in 1..N, j in 1..N { S: A[i, j] = (A[i, j - 1] + A[i - 1, j]) % 1000 }
    }""",
    "tile i, j by 8, 8 -> a, b, c, d",
    *tails("tile i, j by 8, 16 -> a, b, c, d TAIL", ("guard", "peel", "balanced")),
    "reorder j, i",
    "skew j by i  reorder j, i  parallel i",
    "skew j by i  reorder j, i  vectorize i",
    neon=True,
)
def b47_tiles_that_are_legal(run: Run) -> None:
    want = [[1] * 64 for _ in range(64)]
    for i in range(1, 64):
        for j in range(1, 64):
            want[i][j] = (want[i][j - 1] + want[i - 1][j]) % 1000
    got = run(A=np.ones((64, 64), np.int64))
    same(got, want)
    assert got[63, 63] == 0


@case(
    """kernel NAME(N) {
        in U: f64[N, N]
        in b: f64[N]
        inout x: f64[N]
        for i in N - 1 downto 0 {
            S: x[i] = b[i]
            for j in i + 1..N { T: x[i] -= U[i, j] * x[j] }
            R: x[i] = x[i] / U[i, i]
        }
    }""",
    "unroll T.j by 2",
    "split T.j by 2 -> o, l",
)
def b51_back_substitution(run: Run) -> None:
    x = run(U=np.triu(np.ones((5, 5))), b=np.array([5.0, 4, 3, 2, 1]), x=np.full(5, np.nan))
    same(x, np.ones(5))


@case(
    """kernel NAME(N) {
        in a: f64[N]
        inout s: f64[N + 1]
        for i in N - 1 downto 0 { S: s[i] = s[i + 1] + a[i] }
    }""",
    *tails("split i by 4 -> o, l TAIL  unroll l", ("guard", "peel", "cases")),
)
def b51_suffix_sums(run: Run) -> None:
    a = np.arange(11.0)
    same(run(a=a, s=np.zeros(12)), [*np.cumsum(a[::-1])[::-1], 0])


@case(
    """kernel NAME(H, W) {
        in x: f32[H, W]
        out y: f32[2, 2]
        s[p, q] = sum[r in 0..3, t in 0..3 where inside(x[2 * p + r, 2 * q + t])](
            x[2 * p + r, 2 * q + t])
        n[p, q] = sum[r in 0..3, t in 0..3 where inside(x[2 * p + r, 2 * q + t])](f32(1))
        y[p, q] = s[p, q] / n[p, q]
    }""",
    "vectorize s.q, n.q, y.q",
    "unroll s.r, s.t, n.r, n.t plain",
)
def b72_mean_of_windows_that_leave_the_array(run: Run) -> None:
    x = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
    same(run(x=x), [[6.0, 7.5], [12.0, 13.5]])


@case(
    """kernel NAME<dilation = 2, pad = 2>(H, W, C) {
        assume H >= 1, W >= 1
        in x: f32[H, W, C]
        in w: f32[3, 3, C]
        in b: f32[C]
        out y: f32[H, W, C]
        y[p, q, c] = b[c] + sum[r in 0..3, s in 0..3](
            padded(x[p + r * dilation - pad, q + s * dilation - pad, c], 0.0) * w[r, s, c])
    }""",
    "vectorize y.c",
    "vectorize y_r1.c, y.c  unroll y_r1.r, y_r1.s plain",
    "on y_r1 { split q by 4 -> qo, qi  reorder qo, r, s, qi, c  unroll qi  vectorize c }",
    strict=False,
    neon=True,
)
def b76_dilated_depthwise(run: Run) -> None:
    x, w = np.ones((5, 5, 4), np.float32), np.full((3, 3, 4), 1 / 9, np.float32)
    outer = [1.4444, 1.4444, 1.6667, 1.4444, 1.4444]
    middle = [1.6667, 1.6667, 2.0, 1.6667, 1.6667]
    want = np.array([outer, outer, middle, outer, outer])[:, :, None]
    got = run(x=x, w=w, b=np.ones(4, np.float32))
    np.testing.assert_allclose(got, np.broadcast_to(want, (5, 5, 4)), 1e-4)
