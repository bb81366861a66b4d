"""What runs once and is not needed where it is computed stays where it was."""

from __future__ import annotations

import numpy as np
import pytest

import tdsl
from tests.language.run import lowered

TARGETS = ["native", "c", "avx2", pytest.param("neon", marks=pytest.mark.neon)]

IN_PLACE = """
kernel gemm(M, N, K) {
    in    A: f32[M, K]
    in    B: f32[K, N]
    in    beta: f32
    inout C: f32[M, N]

    scale: C[i, j] = select(beta == 0.0, 0.0, beta * C[i, j])
    upd: C[i, j] += sum[k](A[i, k] * B[k, j])
}

schedule gemm for any {
    split upd.k by 8 -> kc, k1
    on upd {
        split i by 4 -> ic, i1
        reorder kc, ic, i1, k1, j
        vectorize j
    }
    compute scale at upd.ic
    on scale { vectorize j }
}
"""

EVERY_OTHER = """
kernel pairs(N) {
    in  x: f32[2 * N]
    out p: f32[2 * N]
    out y: f32[N]

    p[i] = x[i] * 2.0
    y[i] = p[2 * i] + 1.0
}

schedule pairs for any { compute p at y.i }
"""


@pytest.mark.parametrize("target", TARGETS)
def test_a_product_without_terms_is_still_scaled(target: str) -> None:
    run = tdsl.parse(IN_PLACE, name="gemm.tdsl")["gemm"].compile(target)
    rng = np.random.default_rng(0)
    for m, n, k in [(5, 9, 17), (1, 1, 1), (3, 5, 0), (0, 2, 3), (2, 0, 3)]:
        a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
        for beta in (0.0, 0.5):
            c = rng.standard_normal((m, n)) if beta else np.full((m, n), np.nan)
            want = a @ b + (beta * c if beta else 0)
            got = c.astype(np.float32)
            run(A=a.astype(np.float32), B=b.astype(np.float32), C=got, beta=np.float32(beta))
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_instances_that_nobody_reads(target: str) -> None:
    run = tdsl.parse(EVERY_OTHER, name="pairs.tdsl")["pairs"].compile(target)
    for n in (0, 1, 6):
        x = np.arange(2 * n, dtype=np.float32)
        p, y = run(x=x)
        np.testing.assert_array_equal(p, 2 * x)
        np.testing.assert_array_equal(y, 2 * x[::2] + 1)


def test_they_are_a_statement_of_their_own() -> None:
    scheduled = lowered(IN_PLACE, "gemm").scheduled
    assert scheduled is not None
    rest, scale = (scheduled.program.statements[s] for s in ("scale_rest", "scale"))
    assert rest.domain.is_disjoint(scale.domain.set_tuple_name(rest.tuple_name))
    assert scale.origin is not None and rest.origin is not None
    assert rest.origin.statement == scale.origin.statement == "scale"
