"""Bug reports about arithmetic: division, wrapping, NaN, rounding, saturation, cancellation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.cases.harness import case, same, tails

Run = Callable[..., Any]
NAN, INF = np.nan, np.inf
LANES = ("vectorize y.i", *tails("split y.i by 16 -> o, l TAIL  vectorize l", ("mask", "narrow")))


@case(
    """kernel NAME(M, K, N) {
        in x: i32[M, K]
        out add, mul: i32[M]
        add[i] = sum[k](x[i, k])
        mul[i] = prod[k](x[i, k])
    }""",
    "vectorize add.k, mul.k",
    "vectorize add.i, mul.i",
    "on add, mul { split k by 4 -> o, l  unroll l }",
)
def b10_sums_and_products_over_nothing(run: Run) -> None:
    add, mul = run(x=np.zeros((5, 0), np.int32), N=0)
    same(add, [0] * 5)
    same(mul, [1] * 5)


@case(
    """kernel NAME(M, N, K) {
        in A: f32[M, K]
        in B: f32[K, N]
        out C: f32[M, N]
        C[i, j] = sum[k](A[i, k] * B[k, j])
    }""",
    "vectorize j",
    "tile i, j by 4, 16 -> a, b, c, d  reorder a, b, k, c, d  unroll c  vectorize d",
    "reorder k, i, j  vectorize j",
    "split k by 8 -> o, l  unroll l plain",
    neon=True,
)
def b10_products_of_empty_matrices(run: Run) -> None:
    same(run(A=np.ones((4, 0), np.float32), B=np.ones((0, 4), np.float32)), np.zeros((4, 4)))
    for m, n in ((0, 5), (5, 0), (0, 0)):
        a, b = np.ones((m, 3), np.float32), np.ones((3, n), np.float32)
        assert run(A=a, B=b).shape == (m, n)


@case(
    """kernel NAME(N, H, W, C, K) {
        assume H >= 3, W >= 3
        in x: f32[N, H, W, C]
        in w: f32[3, 3, C, K]
        out y: f32[N, H - 2, W - 2, K]
        y[n, p, q, k] = sum[r, s, c](x[n, p + r, q + s, c] * w[r, s, c, k])
    }""",
    "vectorize k",
    "split q by 4 -> qo, qi  reorder qo, r, s, c, qi, k  unroll qi  vectorize k",
)
def b10_convolutions_of_nothing(run: Run) -> None:
    x, w = np.ones((2, 5, 6, 0), np.float32), np.ones((3, 3, 0, 7), np.float32)
    same(run(x=x, w=w), np.zeros((2, 3, 4, 7)))
    x, w = np.ones((0, 5, 6, 2), np.float32), np.ones((3, 3, 2, 7), np.float32)
    assert run(x=x, w=w).shape == (0, 3, 4, 7)


@case(
    """kernel NAME(M, N) {
        in x: f32[M, N]
        out y: f32[M, N]
        y[i, j] = x[i, j] + 1.0
    }""",
    "vectorize j",
    "collapse i, j -> ij",
    "tile i, j by 4, 8 -> a, b, c, d  vectorize d",
)
def b10_elementwise_on_nothing(run: Run) -> None:
    for shape in ((0, 5), (5, 0), (0, 0), (1, 1)):
        same(run(x=np.zeros(shape, np.float32)), np.ones(shape))


@case(
    """kernel NAME(N) {
        in x: i32[N]
        in a, b: i32[N]
        out f, t, big, three, m: i32[N]
        f[i] = (10 * x[i] + 5) // 10
        t[i] = (48 * x[i] + 241) // 16
        big[i] = (-8040 * (a[i] - 73)) // 69
        three[i] = (3 * a[i] + b[i]) // 3
        m[i] = b[i] % 3
    }""",
    "vectorize f.i, t.i, big.i, three.i, m.i",
    "on f, t, big, three, m { split i by 8 -> o, l tail mask  vectorize l }",
    neon=True,
)
def b24_division_of_negative_values(run: Run) -> None:
    x = np.arange(-40, 40, dtype=np.int32)
    a = np.full(80, -85, np.int32)
    a[1], b = 1, np.full(80, -1, np.int32)
    f, t, big, three, m = run(x=x, a=a, b=b)
    assert (f[30], t[30], big[0], three[1], m[0]) == (-10, -15, 18410, 0, 2)
    same(f, (10 * x + 5) // 10)
    same(t, (48 * x + 241) // 16)


@case(
    """kernel NAME(N) {
        assume N >= 1
        in x: i32[N + 12]
        out y: i32[N]
        out z: i32[N, 4]
        y[i] = x[(10 * (i - 10) + 5) // 10 + 10]
        z[b, lane] = i32((b + 3 * lane) % 8)
    }""",
    "vectorize y.i  vectorize z.lane",
    "vectorize y.i  vectorize z.b",
    "split y.i by 8 -> o, l tail mask  vectorize l  unroll z.lane",
    neon=True,
)
def b24_division_in_subscripts(run: Run) -> None:
    x = np.arange(100, 132, dtype=np.int32)
    y, z = run(x=x)
    same(y, [x[(10 * (i - 10) + 5) // 10 + 10] for i in range(20)])
    same(z, [[(b + 3 * lane) % 8 for lane in range(4)] for b in range(20)])
    same(z[4:8], [[4, 7, 2, 5], [5, 0, 3, 6], [6, 1, 4, 7], [7, 2, 5, 0]])


@case(
    """kernel NAME(M, N) {
        in c, d: u8[M, N]
        out wrapped, avg, half: u8[M, N]
        out dif: i16[M, N]
        wrapped[i, j] = max(d[i, j], max(c[i, j], d[i, j]) + 87)
        avg[i, j] = (c[i, j] + d[i, j]) // 2
        half[i, j] = u8((u16(c[i, j]) + u16(d[i, j])) // 2)
        dif[i, j] = i16(d[i, j]) - i16(c[i, j])
    }""",
    "vectorize wrapped.j, avg.j, half.j, dif.j",
    "on wrapped, avg, half, dif { split j by 24 -> o, l tail mask  vectorize l }",
    "on wrapped, avg, half, dif { split j by 5 -> o, l  unroll l }",
    neon=True,
)
def b25_narrow_integers_wrap(run: Run) -> None:
    c, d = (a.astype(np.uint8) for a in np.meshgrid(range(256), range(256), indexing="ij"))
    wrapped, avg, half, dif = run(c=c, d=d)
    wide_c, wide_d = c.astype(int), d.astype(int)
    same(wrapped, np.maximum(wide_d, (np.maximum(wide_c, wide_d) + 87) % 256))
    same(avg, (wide_c + wide_d) % 256 // 2)
    same(half, (wide_c + wide_d) // 2)
    same(dif, wide_d - wide_c)
    assert (wrapped[247, 95], dif[65, 0], avg[246, 246], half[246, 246]) == (95, -65, 118, 246)


@case(
    """kernel NAME(N) {
        in x: i8[N]
        out y: i8[N]
        out z: u8[N]
        y[i] = abs(x[i])
        z[i] = u8(abs(x[i]))
    }""",
    "vectorize y.i, z.i",
    neon=True,
)
def b25_the_absolute_value_of_the_least_integer(run: Run) -> None:
    y, z = run(x=np.arange(-128, 128, dtype=np.int8))
    same(y, [-128, *range(127, 0, -1), *range(128)])
    same(z, [*range(128, 0, -1), *range(128)])


@case(
    """kernel NAME(N) {
        in x, z: f32[N]
        out y, b, c: f32[N]
        y[i] = max(x[i], 0.0)
        b[i] = max(x[i], z[i])
        c[i] = min(x[i], z[i])
    }""",
    "vectorize y.i, b.i, c.i",
    "on y, b, c { split i by 16 -> o, l tail mask  vectorize l }",
    "on y, b, c { split i by 16 -> o, l tail narrow  vectorize l }",
    neon=True,
)
def b52_nan_goes_through_max_and_min(run: Run) -> None:
    x = np.array([NAN, 1, NAN, -2, 0] * 5, np.float32)
    z = np.array([1, NAN, NAN, 0, -0.0] * 5, np.float32)
    y, b, c = run(x=x, z=z)
    same(y, [NAN, 1, NAN, 0, 0] * 5)
    same(b, [NAN, NAN, NAN, 0, 0] * 5)
    same(c, [NAN, NAN, NAN, -2, -0.0] * 5)


@case(
    """kernel NAME(M, N) {
        assume N >= 1
        in x: f32[M, N]
        out hi, lo: f32[M]
        hi[i] = max[k](x[i, k])
        lo[i] = min[k](x[i, k])
    }""",
    "vectorize hi.k, lo.k",
    "vectorize hi.i, lo.i",
    "on hi, lo { split k by 16 -> o, l tail mask  vectorize l }",
    "on hi, lo { split k by 4 -> o, l tail cases  unroll l }",
    strict=False,
    neon=True,
)
def b52_nan_at_every_place_of_a_reduction(run: Run) -> None:
    x = np.tile(np.array([1, 2, 0], np.float32), (34, 11))
    x[np.arange(33), np.arange(33)] = NAN
    hi, lo = run(x=x)
    np.testing.assert_array_equal(hi, [NAN] * 33 + [2])
    np.testing.assert_array_equal(lo, [NAN] * 33 + [0])


@case(
    """kernel NAME(N) {
        in x: f32[N]
        out y, a, b, c: f32[N]
        y[i] = inf * x[i] - inf * x[i]
        a[i] = x[i] * 0.0
        b[i] = x[i] - x[i]
        c[i] = x[i] / x[i]
    }""",
    "vectorize y.i, a.i, b.i, c.i",
    neon=True,
)
def b54_nothing_is_folded(run: Run) -> None:
    y, a, b, c = run(x=np.array([INF, NAN, 0, -1], np.float32))
    same(y, [NAN] * 4)
    same(a, [NAN, NAN, 0.0, -0.0])
    same(b, [NAN, NAN, 0.0, 0.0])
    same(c, [NAN, NAN, NAN, 1.0])
    same(run(x=np.array([1, 2, 3, 4], np.float32))[0], [NAN] * 4)


@case(
    """kernel NAME(N) {
        in x: f32[N]
        out h, k, e: f32[N]
        h[i] = x[i] * 0.5
        k[i] = x[i] + 0.0
        e[i] = exp(x[i])
    }""",
    "vectorize h.i, k.i, e.i",
    neon=True,
)
def b56_subnormal_numbers_stay(run: Run) -> None:
    least = np.float32(2.0**-126)
    h, k, e = run(x=np.array([least, 1e-40, -100, 0] * 5, np.float32))
    same(h[:2], [2.0**-127, np.float32(1e-40) / 2])
    assert k[1] == np.float32(1e-40)
    assert abs(float(e[2]) - 3.783505853677006e-44) <= 2 * 2.0**-149
    # The caller's arithmetic flushes nothing afterwards.
    assert np.float32(1e-40) * np.float32(1) != 0


LAYER_NORM = """
kernel NAME(M, N) {
    assume N >= 1
    in x: f32[M, N]
    out y: f32[M, N]
    total[i] = sum[j](x[i, j])
    mean[i] = total[i] / f32(N)
    square[i] = sum[j]((x[i, j] - mean[i]) * (x[i, j] - mean[i]))
    scale[i] = 1.0 / sqrt(square[i] / f32(N) + 0.00001)
    y[i, j] = (x[i, j] - mean[i]) * scale[i]
}
"""


@case(
    LAYER_NORM,
    "reassociate total, square  vectorize total.j, square.j, y.j",
    "reassociate total, square  split total.j by 16 -> a, b  split square.j by 16 -> c, d"
    "  vectorize b, d  fuse total.i, mean.i, square.i, scale.i, y.i -> row",
    strict=False,
    neon=True,
)
def b57_layer_norm_of_rows_far_from_zero(run: Run) -> None:
    unit = [-1.341635, -0.447212, 0.447212, 1.341635]
    for start in (40000, 80000):
        row = np.arange(start, start + 4, dtype=np.float32)[None]
        np.testing.assert_allclose(run(x=row)[0], unit, 1e-5)
    same(run(x=np.full((1, 256), 1234, np.float32)), np.zeros((1, 256)))
    x = (1000 + np.arange(16) * 1e-3).astype(np.float32)
    wide = x.astype(np.float64)
    want = (wide - wide.mean()) / np.sqrt(wide.var() + 1e-5)
    # A sum of 16 in f32 puts the mean up to 16 half units of 16000 off, over 16: all values move.
    got = run(x=x[None])[0].astype(np.float64)
    np.testing.assert_allclose(got - got.mean(), want, rtol=0, atol=1e-2)
    assert abs(got.mean()) <= np.spacing(np.float32(16000)) / 2 / np.sqrt(wide.var() + 1e-5)


@case(
    """kernel NAME(M, N, K) {
        in A: u8[M, K]
        in B: i8[K, N]
        out C: i32[M, N]
        C[i, j] = sum[k](i32(A[i, k]) * i32(B[k, j]))
    }""",
    "vectorize j",
    "vectorize k",
    "split k by 4 -> o, l  reorder o, j, l  unroll l  vectorize j",
    "tile i, j by 4, 16 -> a, b, c, d  reorder a, b, k, c, d  unroll c  vectorize d",
    neon=True,
)
def b59_products_of_bytes_are_exact(run: Run) -> None:
    a = np.full((1, 4), 255, np.uint8)
    assert run(A=a, B=np.full((4, 1), 127, np.int8)) == 129540
    assert run(A=a, B=np.full((4, 1), -128, np.int8)) == -130560
    rng = np.random.default_rng(3)
    a = rng.integers(0, 256, (5, 64), np.uint8)
    b = rng.integers(-128, 128, (64, 19), np.int8)
    same(run(A=a, B=b), a.astype(np.int32) @ b.astype(np.int32))


@case(
    """kernel NAME(N) {
        in x: f32[N]
        out s: i8[N]
        out u: u8[N]
        s[i] = saturate<i8>(round(x[i]))
        u[i] = saturate<u8>(round(x[i]))
    }""",
    "vectorize s.i, u.i",
    "on s, u { split i by 8 -> o, l tail mask  vectorize l }",
    neon=True,
)
def b62_saturation_to_the_type_that_is_asked_for(run: Run) -> None:
    s, u = run(
        x=np.array([300, 127.5, -129, -128.5, 126.5, NAN, -1, 255.5, 256, 254.5], np.float32)
    )
    same(s, [127, 127, -128, -128, 126, 0, -1, 127, 127, 127])
    same(u, [255, 128, 0, 0, 126, 0, 0, 255, 255, 254])


@case(
    """kernel NAME(N) {
        in x: f32[N]
        out y, q: f32[N]
        y[i] = round(x[i])
        q[i] = round(x[i] / 0.5)
    }""",
    "vectorize y.i, q.i",
    "on y, q { split i by 16 -> o, l tail narrow  vectorize l }",
    neon=True,
)
def b63_ties_go_to_even(run: Run) -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 8388609.0, 0.25, 0.75, 1.25, 1.75, -0.25, -0.75] * 2,
                 np.float32)  # fmt: skip
    y, q = run(x=x)
    same(y[:6], [0.0, 2.0, 2.0, -0.0, -2.0, 8388609.0])
    same(q[18:], [0.0, 2.0, 2.0, 4.0, -0.0, -2.0])
    same(y, np.rint(x))


@case(
    """kernel NAME(M, N) {
        assume N >= 1
        in x: f32[M, N]
        temp e: f32[M, N]
        out y: f32[M, N]
        m[i] = max[j](x[i, j])
        e[i, j] = select(m[i] == -inf, 0.0, exp(x[i, j] - m[i]))
        z[i] = sum[j](e[i, j])
        y[i, j] = select(z[i] == 0.0, 0.0, e[i, j] / z[i])
    }""",
    "reassociate z  vectorize m.j, e.j, z.j, y.j",
    strict=False,
    neon=True,
)
def b58_rows_that_are_masked_wholly(run: Run) -> None:
    x = np.array([[-INF] * 4, [-INF, 0, -INF, 0], [88.8] * 4, [1000, 1001, 1002, -INF]], np.float32)
    want = [[0] * 4, [0, 0.5, 0, 0.5], [0.25] * 4, [0.09003057, 0.24472847, 0.66524096, 0]]
    np.testing.assert_allclose(run(x=x), np.array(want), 1e-5)
