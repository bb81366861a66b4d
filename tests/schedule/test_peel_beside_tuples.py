"""`peel` and `tail shift` beside a reduction of several values, or temps of a `for` body."""

import itertools

import numpy as np
import pytest

import tdsl

ARGMAX = """
    am[i] = argmax[j](x[i, j])
"""
TEMPS = """
    for i in 0..M {
        temp t: i64[4]
        t[q] = i64(q)
        am[i] = sum[q](t[q])
    }
"""
TEXT = """
kernel f(M, N) {
    assume N >= 1
    in  x: f32[M, N]
    out y: f32[M, N]
    out s: f32[M]
    out am: i64[M]
    y[i, j] = x[i, j] * 2.0
    s[i] = sum[j](x[i, j])
    REST
}
schedule f for any {
    DIRECTIVES
}
"""
DIRECTIVES = (
    "peel y.j first 1 last 2",
    "peel s.i last 3\nvectorize s.i by 4",
    "split y.j by 8 -> jo, ji tail shift\nvectorize ji",
    "fuse y.i, s.i -> i2\npeel i2 last 2",
)


@pytest.mark.parametrize("rest", [ARGMAX, TEMPS], ids=["argmax", "temps"])
@pytest.mark.parametrize("directives", DIRECTIVES)
def test_values(rest: str, directives: str) -> None:
    text = TEXT.replace("REST", rest).replace("DIRECTIVES", directives)
    fast = tdsl.parse(text)["f"].compile(target="c")
    rng = np.random.default_rng(1)
    for m, n in itertools.product((0, 1, 2, 7), (1, 2, 3, 17)):
        x = rng.integers(-5, 5, (m, n)).astype(np.float32)
        result = fast(x=x)
        np.testing.assert_array_equal(result.y, 2 * x)
        np.testing.assert_array_equal(result.s, x.sum(1))
        want = x.argmax(1) if rest is ARGMAX else np.full(m, 6)
        np.testing.assert_array_equal(result.am, want)
