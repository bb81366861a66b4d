"""Tiles over collapsed loops: one dimension of a computed array for the two that they run over."""

from __future__ import annotations

import numpy as np
import pytest

import tdsl
from tests.language.run import lowered

TARGETS = ["native", "c", "avx2", pytest.param("neon", marks=pytest.mark.neon)]

IMAGES = """
kernel images(K, C) {
    in  x: f32[C, 5, 7]
    in  w: f32[K, C]
    out y: f32[K, 5, 7]

    acc[k, p, q] = sum[c](w[k, c] * x[c, p, q])
    y[k, p, q]   = acc[k, p, q]
}

schedule images for any {
    on acc, y { collapse p, q -> pq }
    on y {
        split pq by 12 -> jo, ji  tail cases
        split k by 3 -> ko, ki  tail cases
        reorder jo, ko, ki, ji
        unroll ki
        vectorize ji
    }
    compute acc at y.ko in registers
    on acc {
        reorder c, k, pq
        unroll k
        vectorize pq
    }
}
"""

TURNED = """
kernel turned(K) {
    in  w: f32[K, 4, 6]
    out y: f32[K]

    y[k] = sum[c, r](w[k, c, r])
}

schedule turned for any {
    collapse c, r -> cr
    split k by 8 -> ko, ki
    reorder ko, cr, ki
    vectorize ki
    pack w at ko as p[cr, ki]
    on p {
        tile ki, cr by 4, 4 -> ao, bo, ai, bi
        transpose ai, bi
    }
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_a_tile_in_registers(target: str) -> None:
    run = tdsl.parse(IMAGES, name="images.tdsl")["images"].compile(target)
    rng = np.random.default_rng(0)
    for k, c in [(1, 1), (3, 4), (7, 2), (4, 0)]:
        x = rng.standard_normal((c, 5, 7)).astype(np.float32)
        w = rng.standard_normal((k, c)).astype(np.float32)
        want = np.einsum("kc,cpq->kpq", w.astype(float), x.astype(float))
        np.testing.assert_allclose(run(x=x, w=w), want, rtol=1e-5, atol=1e-5)


def test_the_tile_has_the_extents_of_the_block() -> None:
    stored = lowered(IMAGES, "images", "avx2").stored
    assert stored is not None
    extents = [e.value for e in stored.program.arrays["acc"].shape]  # type: ignore[union-attr]
    assert extents == [3, 12]


def test_arrays_keep_their_dimensions_where_no_loop_joins_them() -> None:
    plain = (
        IMAGES.replace("on acc, y { collapse p, q -> pq }", "")
        .replace("split pq by 12", "split q by 4")
        .replace("reorder c, k, pq", "reorder c, k, p, q")
        .replace("vectorize pq", "vectorize q")
    )
    stored = lowered(plain.replace(" in registers", ""), "images", "avx2").stored
    assert stored is not None
    assert len(stored.program.arrays["acc"].shape) == 3


@pytest.mark.parametrize("target", TARGETS)
def test_rows_of_collapsed_loops_are_transposed(target: str) -> None:
    run = tdsl.parse(TURNED, name="turned.tdsl")["turned"].compile(target)
    for k in (1, 8, 13):
        w = np.random.default_rng(k).standard_normal((k, 4, 6)).astype(np.float32)
        want = w.astype(float).sum((1, 2))
        np.testing.assert_allclose(run(w=w), want, rtol=1e-5, atol=1e-5)


COLUMNS = """
recipe packed(A, MR = 8) {
    split y.i by MR -> io, ii
    reorder y.io, y.k, y.ii
    vectorize y.ii
    pack A at y.io as Ap[k, ii]
    on Ap {
        tile k, ii by 4, 4 -> ko, ao, ki, ai
        transpose ki, ai
    }
}

kernel columns(M, K) {
    in  a: f32[K, M]
    out y: f32[M]

    y[i] = sum[k](a[k, i])
}

schedule columns for any { use packed(a) }
"""


@pytest.mark.parametrize("target", TARGETS)
def test_a_recipe_serves_operands_in_either_order(target: str) -> None:
    run = tdsl.parse(COLUMNS, name="columns.tdsl")["columns"].compile(target)
    for m, k in [(1, 1), (8, 4), (13, 7)]:
        a = np.random.default_rng(m).standard_normal((k, m)).astype(np.float32)
        np.testing.assert_allclose(run(a=a), a.astype(float).sum(0), rtol=1e-5, atol=1e-5)
