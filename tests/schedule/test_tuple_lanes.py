"""The terms of a tuple reduction in lanes: a state for each lane, joined as the terms are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tdsl
from tdsl.diagnostics import IllegalSchedule

TARGETS = ["native", "c", "avx2", pytest.param("neon", marks=pytest.mark.neon)]

ARGMAX = """
kernel best(M, N) {
    in  x: f32[M, N]
    out y: i64[M]
    assume N >= 1

    y[i] = argmax[j](x[i, j])
}
schedule best for any { %s }
"""

ONLINE = """
combine online(m, z; m2, z2) {
    identity -inf, 0.0
    let n = max(m, m2)
    give n, z * exp(m - n) + z2 * exp(m2 - n)
}

kernel softmax(M, N) {
    in  x: f32[M, N]
    out y: f32[M, N]
    temp z: f32[M]
    assume N >= 1

    m[i], z[i] = online[j](x[i, j], 1.0)
    y[i, j] = exp(x[i, j] - m[i]) / z[i]
}
schedule softmax for any { %s }
"""


def _compiled(text: str, directives: str, target: str) -> Any:
    module = tdsl.parse(text % directives, name="lanes.tdsl")
    return next(iter(module.kernels.values())).compile(target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "directives",
    [
        "vectorize y.j",
        "vectorize y.j by 3 parallel y.i",
        "split y.j by 16 -> jo, ji vectorize ji",
        "split y.i by 4 -> io, ii vectorize y.j",
    ],
)
def test_argmax(directives: str, target: str) -> None:
    run = _compiled(ARGMAX, directives, target)
    rng = np.random.default_rng(3)
    for rows, columns in [(0, 1), (1, 1), (3, 5), (5, 16), (2, 17), (2, 70)]:
        x = rng.integers(-2, 3, (rows, columns)).astype(np.float32)  # many ties
        np.testing.assert_array_equal(run(x=x), np.argmax(x, axis=1))
        x[rng.random(x.shape) < 0.2] = np.nan
        np.testing.assert_array_equal(run(x=x), np.argmax(x, axis=1))
        x[:] = -np.inf
        np.testing.assert_array_equal(run(x=x), np.zeros(rows, np.int64))


@pytest.mark.parametrize("target", TARGETS)
def test_argmin_of_integers(target: str) -> None:
    text = """
    kernel least(N) {
        in  x: i32[N]
        out y: i64
        assume N >= 1
        y = argmin[j](x[j])
    }
    schedule least for any { %s }
    """
    run = _compiled(text, "vectorize y.j", target)
    rng = np.random.default_rng(4)
    for n in (1, 2, 7, 8, 9, 33):
        x = rng.integers(-3, 3, n).astype(np.int32)
        assert run(x=x) == np.argmin(x)
        x[:] = np.iinfo(np.int32).max
        assert run(x=x) == 0


@pytest.mark.parametrize("target", TARGETS)
def test_a_combine_joins_lanes(target: str) -> None:
    run = _compiled(ONLINE, "reassociate m vectorize m.j vectorize y.j", target)
    rng = np.random.default_rng(5)
    for rows, columns in [(2, 1), (3, 16), (3, 37)]:
        x = rng.standard_normal((rows, columns)).astype(np.float32)
        e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
        np.testing.assert_allclose(run(x=x), e / e.sum(axis=1, keepdims=True), rtol=2e-6)


@pytest.mark.parametrize(
    ("text", "directives", "message"),
    [
        (ONLINE, "vectorize m.j", "in lanes of one vector"),
        (ARGMAX, "unroll y.i by 2 vectorize y.j", "unrolled or vectorized, around the lanes"),
        (ARGMAX, "reorder y.j, y.i vectorize y.j", "over other indices inside the reduction"),
        (ARGMAX, "vectorize y.j split y.i by 4 -> io, ii", "vectorize y.j"),
    ],
)
def test_refused(text: str, directives: str, message: str) -> None:
    with pytest.raises(IllegalSchedule, match=message):
        _compiled(text, directives, "avx2")


def test_strict_order_of_a_combine_of_floats() -> None:
    module = tdsl.parse(ONLINE % "reassociate m vectorize m.j", name="lanes.tdsl")
    with pytest.raises(IllegalSchedule, match="reassociate is not allowed"):
        module["softmax"].compile("avx2", strict_fp=True)


@pytest.mark.parametrize(
    "directives",
    [
        "unroll y_join.j_v_lane",
        "split y_join.j_v_lane by 3 -> p, q",
        "peel y_join.j_v_lane first 1 last 2",
        "skew y_join.j_v_lane by 1",
    ],
)
def test_the_loop_that_joins_is_one_like_others(directives: str) -> None:
    kernel = _compiled(ARGMAX, f"vectorize y.j by 4 {directives}", "c")
    for m, n in ((1, 1), (3, 7), (2, 16)):
        x = np.random.default_rng(n).integers(-5, 5, (m, n)).astype(np.float32)
        np.testing.assert_array_equal(kernel(x=x), x.argmax(1))


JOINT = """
combine both(m, c; m2, c2) {
    identity -inf, 0.0
    give max(m, m2), c + c2
}

kernel comb(M, N) {
    in  x: f32[M, N]
    out y: f32[M]
    temp z: f32[M]

    z[i], y[i] = both[j](x[i, j], 1.0)
}
schedule comb for any { %s }
"""


def test_a_loop_of_terms_and_other_indices_gives_no_lanes() -> None:
    with pytest.raises(IllegalSchedule, match="runs over i beside the terms") as caught:
        _compiled(JOINT, "reassociate z\n skew z.i by j\n vectorize z.j by 4", "avx2")
    assert "16 |  vectorize z.j by 4" in str(caught.value)
    assert "help: leave out what joins the two, the skew of i, say" in str(caught.value)


@pytest.mark.parametrize("target", TARGETS)
def test_without_the_skew_it_has_lanes(target: str) -> None:
    run = _compiled(JOINT, "reassociate z\n vectorize z.j by 4", target)
    for n in (0, 3, 4, 11):
        np.testing.assert_array_equal(run(x=np.ones((5, n), np.float32)), np.full(5, n))
