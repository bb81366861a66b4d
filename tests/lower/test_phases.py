"""Tiles in registers whose elements lie a stride apart, and of which a term adds to some.

Every tap of a transposed convolution adds to one phase of the output alone, and near the border to
a part of a block. Expected values are those of the definition: each input element is scattered.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tdsl
from tdsl.built import GeneratedKernel

TRANSPOSED = """
kernel scatter<stride = 2>(H, W, C, K, R, S) {
    let OH = (H - 1) * stride + R
    let OW = (W - 1) * stride + S
    assume OH >= 1, OW >= 1

    in    x: f32[H, W, C]
    const w: f32[R, S, C, K]
    out   y: f32[OH, OW, K]

    acc[p, q, k] = sum[r in 0..R, s in 0..S, c
        where (p - r) % stride == 0 and 0 <= p - r < H * stride
          and (q - s) % stride == 0 and 0 <= q - s < W * stride](
        x[(p - r) // stride, (q - s) // stride, c] * w[r, s, c, k])
    y[p, q, k] = acc[p, q, k]
}

schedule scatter for avx512, avx2, neon {
    on y {
        split p by stride -> po, pi
        split q by stride -> q1, qp
        split q1 by 3 -> qo, qi  tail cases
        split k by 2 * lanes(f32) -> ko, ki
        reorder ko, po, pi, qp, qo, qi, ki
        unroll pi, qp, qi
        vectorize ki
    }
    compute acc at y.qo in registers
    on acc {
        split q by stride -> qi, qz
        reorder r, s, c, qi, qz, k
        unroll qi, qz
        vectorize k
    }
}
"""


def scattered(x: Any, w: Any, stride: int) -> Any:
    """Each input element times the window, added where the window lies."""
    (h, v, _), (r, s, _, k) = x.shape, w.shape
    y = np.zeros(((h - 1) * stride + r, (v - 1) * stride + s, k), np.float64)
    for i in range(h):
        for j in range(v):
            part = np.einsum("c,rsck->rsk", x[i, j].astype(np.float64), w.astype(np.float64))
            y[i * stride : i * stride + r, j * stride : j * stride + s] += part
    return y


def check(run: Any, sizes: tuple[int, ...], stride: int) -> None:
    h, v, c, k, r, s = sizes
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (h, v, c)).astype(np.float32)
    w = rng.uniform(-1, 1, (r, s, c, k)).astype(np.float32)
    np.testing.assert_allclose(run(x=x, w=w), scattered(x, w, stride), rtol=1e-4, atol=1e-5)


# H, W, C, K, R, S: a block or less and several of them, with rests; a window less than the stride,
# so that nothing is added to some phases; one tap; no input, channel or output at all.
CASES = [
    (2, (4, 3, 2, 17, 3, 3)),
    (2, (3, 11, 2, 5, 5, 4)),
    (2, (1, 1, 1, 1, 1, 1)),
    (2, (0, 2, 3, 4, 3, 2)),
    (2, (3, 2, 0, 4, 2, 3)),
    (2, (3, 2, 2, 0, 2, 3)),
    (1, (3, 8, 2, 20, 3, 4)),
    (1, (2, 1, 1, 3, 1, 1)),
    (3, (3, 4, 2, 9, 2, 2)),
    (3, (2, 5, 2, 33, 1, 1)),
    (3, (2, 4, 1, 6, 7, 4)),
]


@pytest.mark.parametrize("target", ["avx512", "avx2", pytest.param("neon", marks=pytest.mark.neon)])
@pytest.mark.parametrize(("stride", "sizes"), CASES)
def test_bound_sizes(target: str, stride: int, sizes: tuple[int, ...]) -> None:
    kernel = tdsl.parse(TRANSPOSED, name="scatter.tdsl")["scatter"]
    bound = dict(zip(("H", "W", "C", "K", "R", "S"), sizes, strict=True))
    run = kernel.compile(target, sizes=bound, constants={"stride": stride})
    assert not isinstance(run, GeneratedKernel)
    check(run, sizes, stride)


@pytest.mark.parametrize("stride", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_symbolic_sizes(stride: int) -> None:
    kernel = tdsl.parse(TRANSPOSED, name="scatter.tdsl")["scatter"]
    run = kernel.compile("avx2", constants={"stride": stride})
    assert not isinstance(run, GeneratedKernel)
    for _, sizes in CASES:
        if (sizes[0] - 1) * stride + sizes[4] >= 1 and (sizes[1] - 1) * stride + sizes[5] >= 1:
            check(run, sizes, stride)
