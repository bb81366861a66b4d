"""Conditions that isl knows to hold: it writes them as numbers."""

from __future__ import annotations

import numpy as np

import tdsl

TRIANGLE = """
kernel tri(N, M) {
    in  L: f32[N, N]
    in  X: f32[N, M]
    out y: f32[N, M]
    out z: f32[N]
    y[i, c] = sum[j in 0..N where j <= i](L[i, j] * X[j, c])
    z[i] = sum[j in i..N](L[j, i])
}

schedule tri for any {
    order { y[i, c, j] -> [i, c, j]; z[i, j] -> [j, i + j] }
    wavefront z.t1, z.t2 -> l2, l3
    skew y.t0 by l3
    peel y.l3 first 1 last 1
    tile z_first.t0, z_first.l2 by lanes(f32), 2 -> l6, l7, l8, l9 tail mask
}
"""


def test_a_condition_that_always_holds() -> None:
    kernel = tdsl.parse(TRIANGLE, name="tri.tdsl")["tri"].compile("c")
    for n, m in ((1, 1), (2, 3), (9, 4), (19, 11)):
        rng = np.random.default_rng(n)
        low = rng.integers(-9, 9, (n, n)).astype(np.float32)
        x = rng.integers(-9, 9, (n, m)).astype(np.float32)
        y, z = kernel(L=low, X=x)
        np.testing.assert_array_equal(y, np.tril(low) @ x)
        np.testing.assert_array_equal(z, np.tril(low).sum(axis=0))
