"""Copies at the loops of nests that move: they stay at what these loops have become."""

from __future__ import annotations

import numpy as np
import pytest

from tests.language.run import compiled, everywhere

ROWS = """
kernel rows(M, N) {
    in  x: f32[M + 1, N + 1]
    out y: f32[M, N]

    t[i, j] = x[i, j] * 2.0 + x[i, j + 1]
    y[j, q] = t[j, q] + t[j + 1, q]
}
schedule rows for any {
    DIRECTIVES
}
"""


@everywhere
@pytest.mark.parametrize(
    "directives",
    [
        "stage x at t.j  compute t at y.j",  # t.j has the name of the loop around
        "stage x at t.i  compute t at y.q",  # two rows
        "stage x at t.j  compute t at y.q",  # merges with q
        "split t.j by 4 -> jo, ji  split y.q by 4 -> jo, qi  stage x at t.jo  compute t at y.jo",
        "stage y at y.q  compute t at y.j",
        "compute t at y.j  stage t at y.j as [j, i]",
        "split y.j by 4 -> jo, ji tail shift  stage y at y.jo",
        "split y.j by 4 -> jo, ji tail shift  compute t at y.jo  stage y at y.jo  vectorize y.q",
        "collapse y.j, y.q -> jq  parallel jq  compute t at y.jq",
    ],
)
def test_values(on: str, directives: str) -> None:
    rows = compiled(ROWS.replace("DIRECTIVES", directives), "rows", on)
    for m, n in [(0, 3), (1, 1), (2, 17), (5, 7), (13, 19)]:
        x = np.random.default_rng(n).integers(-9, 9, (m + 1, n + 1)).astype(np.float32)
        t = 2 * x[:, :-1] + x[:, 1:]
        np.testing.assert_array_equal(rows(x=x), t[:-1] + t[1:])


@everywhere
@pytest.mark.parametrize("directives", ["stage y at y.p", "stage y at y.q"])
def test_an_epilogue_keeps_its_copies(on: str, directives: str) -> None:
    text = """
    kernel scaled(M, N) {
        in  x: f32[M, N]
        out y: f32[M, N]
        t[i, j] = x[i, j] * 2.0
        y[p, q] = t[p, q] + 1.0
    }
    schedule scaled for any { DIRECTIVES  finish y at t.j }
    """
    scaled = compiled(text.replace("DIRECTIVES", directives), "scaled", on)
    for m, n in [(0, 2), (1, 1), (3, 17)]:
        x = np.random.default_rng(m).integers(-9, 9, (m, n)).astype(np.float32)
        np.testing.assert_array_equal(scaled(x=x), 2 * x + 1)
