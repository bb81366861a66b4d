"""Reductions over temps that are defined in a part of their dimensions."""

from __future__ import annotations

import numpy as np
import pytest

from tdsl.diagnostics import BoundsError
from tdsl.ir.interp import reference
from tdsl.syntax.elaborate import elaborate
from tdsl.syntax.parser import parse
from tests.language.run import compiled, everywhere, interpreted, lowered

TRIANGLE = """
kernel rows(N) {
    in  x: f32[N, N]
    out least, most, total: f32[N]
    assume N >= 1

    s[i, j]  = x[i, j] + 1.0   where j <= i
    least[i] = min[j](s[i, j])
    most[i]  = max[j](s[i, j])
    total[i] = sum[j](s[i, j] * x[j, i])
}
"""


@everywhere
def test_the_terms_of_a_triangle(on: str) -> None:
    x = np.random.default_rng(6).integers(-9, 9, (7, 7)).astype(np.float32)
    rows = [x[i, : i + 1] + 1 for i in range(7)]
    for results in (
        compiled(TRIANGLE, "rows", on)(x=x),
        tuple(interpreted(TRIANGLE, "rows", {"x": x}).values()),
    ):
        least, most, total = results
        np.testing.assert_array_equal(least, [r.min() for r in rows])
        np.testing.assert_array_equal(most, [r.max() for r in rows])
        np.testing.assert_array_equal(total, [r @ x[: i + 1, i] for i, r in enumerate(rows)])


BANDS = """
kernel bands(N) {
    in  x, y: f32[N, N]
    out z: f32[N]

    a[i, j] = x[i, j]          where j <= i
    b[i, j] = y[i, j]          where i <= j + 2
    z[i]    = sum[j in 0..N](a[i, j] * b[i, j])
}
"""


@everywhere
def test_all_temps_of_a_term_are_defined(on: str) -> None:
    rng = np.random.default_rng(7)
    x, y = (rng.integers(-9, 9, (6, 6)).astype(np.float32) for _ in range(2))
    i, j = np.indices((6, 6))
    band = (j <= i) & (i <= j + 2)
    got = compiled(BANDS, "bands", on)(x=x, y=y)
    np.testing.assert_array_equal(got, np.where(band, x * y, 0).sum(1))


def test_what_is_chosen_is_no_reason_to_leave_a_term_out() -> None:
    """The other arm of a `select` is a term of its own: the maximum has it."""
    text = TRIANGLE.replace("max[j](s[i, j])", "max[j in 0..N](select(j <= i, s[i, j], 50.0))")
    x = np.zeros((4, 4), np.float32)
    _, most, _ = compiled(text, "rows", "c")(x=x)
    np.testing.assert_array_equal(most, [50, 50, 50, 1])


@pytest.mark.parametrize(
    "term",
    [
        "sum[j in 0..N](s[j, i])",
        "sum[j in 0..N](s[i, j] * s[j, i])",
    ],
)
def test_conditions_follow_the_names(term: str) -> None:
    text = TRIANGLE.replace("sum[j](s[i, j] * x[j, i])", term)
    kernel = elaborate(parse(text), "rows")
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    s = np.tril(x + 1)
    want = s.sum(0) if "*" not in term else np.diag(s) ** 2  # j <= i and i <= j
    got = reference(kernel, {}, {"x": x})["total"]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "equation",
    [
        "total[i] = s[i, N - 1]",  # no reduction
        "total[i] = sum[j](s[i, j] + s[i, N - 1 - j])",  # no plain index
        "total[i] = sum[j](x[i, j] * s[0, i])",  # nothing of it is reduced
    ],
)
def test_other_reads_are_of_what_was_written(equation: str) -> None:
    text = TRIANGLE.replace("total[i] = sum[j](s[i, j] * x[j, i])", equation)
    with pytest.raises(BoundsError, match="read before it is written"):
        lowered(text, "rows")


@everywhere
def test_an_inout_has_values_where_nothing_defines_it(on: str) -> None:
    text = """
    kernel f(N) {
        in    x: f32[N]
        inout y: f32[N]
        out   total: f32
        y[i]  = x[i]   where i < 3
        total = sum[i](y[i])
    }"""
    y = np.arange(10, 16, dtype=np.float32)
    assert compiled(text, "f", on)(x=np.zeros(6, np.float32), y=y) == 13 + 14 + 15
