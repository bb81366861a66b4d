"""`combine` and `argmax`, `argmin`: reductions that keep several values."""

import numpy as np
import pytest

from tdsl import driver
from tdsl.diagnostics import BoundsError, ParseError, TypeMismatch
from tdsl.ir.interp import reference
from tdsl.syntax.elaborate import elaborate
from tdsl.syntax.parser import parse
from tdsl.targets import target
from tests.language.run import Array, compiled, everywhere, interpreted, lowered

ONLINE = """
combine online(m, z; m2, z2) {
    identity -inf, 0.0
    let n = max(m, m2)
    let g = select(n == -inf, 0.0, n)
    give n, z * exp(m - g) + z2 * exp(m2 - g)
}
"""

SOFTMAX = (
    ONLINE
    + """
kernel softmax(M, N) {
    in  x: f64[M, N]
    out y: f64[M, N]
    out m: f64[M]
    temp z: f64[M]
    m[i], z[i] = online[j](x[i, j], 1.0)
    y[i, j] = exp(x[i, j] - m[i]) / z[i]
}
schedule softmax.none for any when false { }
schedule softmax.rows for any when false { split m.i by 8 -> io, ii  reorder ii, m.j  vectorize ii }
schedule softmax.threads for any when false { parallel m.i }
"""
)

# The state of a set of keys: greatest score, sum, weighted values; the last has one index more.
MERGE = """
combine merge(m, z, a; m2, z2, a2) {
    identity -inf, 0.0, 0.0
    let n = max(m, m2)
    let g = select(n == -inf, 0.0, n)
    give n, z * exp(m - g) + z2 * exp(m2 - g), a * exp(m - g) + a2 * exp(m2 - g)
}
kernel attend(L, T, E) {
    in  s: f64[L, T]
    in  v: f64[T, E]
    out o: f64[L, E]
    temp m: f64[L]
    temp z: f64[L]
    temp a: f64[L, E]
    m[i], z[i], a[i, d] = merge[t in 0..T where t <= i](s[i, t], 1.0, v[t, d])
    o[i, d] = a[i, d] / z[i]
}
"""

# Every component sees the old state, or the sum of squares would use the new mean.
WELFORD = """
combine welford(n, mean, m2; k, other, o2) {
    identity 0.0, 0.0, 0.0
    let both = n + k
    let d = other - mean
    let w = select(both == 0.0, 0.0, k / both)
    give both, mean + d * w, m2 + o2 + d * d * n * w
}
kernel variance(M, N) {
    in  x: f64[M, N]
    out mean: f64[M]
    out var: f64[M]
    temp n: f64[M]
    temp q: f64[M]
    n[i], mean[i], q[i] = welford[j](1.0, x[i, j], 0.0)
    var[i] = q[i] / max(n[i], 1.0)
}
"""

PLACES = """
kernel places<T: type = f32>(M, N) {
    assume N >= 1
    in  x: T[M, N]
    out low: i64[M]
    out high: i64[M]
    out apart: i64
    low[i] = argmin[j](x[i, j])
    high[i] = argmax[j](x[i, j])
    apart = argmax[i in 0..M](x[i, 0]) - argmin[j](x[0, j])
    assume M >= 1
}
schedule places.none for any when false { }
schedule places.lanes for any when false { split low.i by 4 -> o, l  reorder l, low.j  vectorize l }
schedule places.threads for any when false { parallel low.i }
"""
PLACES = PLACES.replace("    assume M >= 1\n", "").replace("N >= 1", "N >= 1, M >= 1")
NUMPY = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "u16": np.uint16, "i64": np.int64}


@everywhere
@pytest.mark.parametrize("variant", ["none", "rows", "threads"])
def test_a_softmax_in_one_pass(on: str, variant: str) -> None:
    fast = compiled(SOFTMAX, "softmax", on, variant)
    rng = np.random.default_rng(1)
    for m, n in ((5, 40), (1, 1), (0, 3), (17, 9)):
        x = rng.standard_normal((m, n)) * 20
        greatest = x.max(axis=1, keepdims=True)
        e = np.exp(x - greatest)
        want = e / e.sum(axis=1, keepdims=True)
        got = fast(x=x)
        assert (got.m == greatest[:, 0]).all()
        np.testing.assert_allclose(got.y, want, rtol=1e-13)
        np.testing.assert_allclose(interpreted(SOFTMAX, "softmax", {"x": x})["y"], want, rtol=1e-13)


@everywhere
def test_an_empty_one_is_the_identity(on: str) -> None:
    fast = compiled(SOFTMAX, "softmax", on, "none")
    assert (fast(x=np.zeros((3, 0))).m == -np.inf).all()
    assert (interpreted(SOFTMAX, "softmax", {"x": np.zeros((3, 0))})["m"] == -np.inf).all()


@everywhere
def test_a_component_with_one_index_more(on: str) -> None:
    fast = compiled(MERGE, "attend", on)
    rng = np.random.default_rng(2)
    for n, e in ((7, 5), (1, 1), (12, 16), (3, 0)):
        s, v = rng.standard_normal((n, n)) * 9, rng.standard_normal((n, e))
        masked = np.where(np.tri(n, dtype=bool), s, -np.inf)
        p = np.exp(masked - masked.max(axis=1, keepdims=True))
        want = p @ v / p.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(fast(s=s, v=v), want, rtol=1e-12, atol=1e-13)
        oracle = interpreted(MERGE, "attend", {"s": s, "v": v})["o"]
        np.testing.assert_allclose(oracle, want, rtol=1e-12, atol=1e-13)


@everywhere
def test_every_component_sees_the_old_state(on: str) -> None:
    fast = compiled(WELFORD, "variance", on)
    x = np.random.default_rng(3).standard_normal((9, 50)) + 100
    got, oracle = fast(x=x), interpreted(WELFORD, "variance", {"x": x})
    for mean, var in ((got.mean, got.var), (oracle["mean"], oracle["var"])):
        np.testing.assert_allclose(mean, x.mean(axis=1), rtol=1e-12)
        np.testing.assert_allclose(var, x.var(axis=1), rtol=1e-10)


@everywhere
@pytest.mark.parametrize("variant", ["none", "lanes", "threads"])
@pytest.mark.parametrize("elem", sorted(NUMPY))
def test_argmax_is_that_of_numpy(on: str, variant: str, elem: str) -> None:
    """Lowest index on ties, and the first NaN: NumPy does the same."""
    if variant != "none" and elem not in ("f32", "i8"):
        return
    fast = compiled(PLACES, "places", on, variant, constants={"T": elem})
    rng = np.random.default_rng(4)
    kernel = elaborate(parse(PLACES, "t.tdsl"), "places", {"T": elem})
    for m, n in ((9, 30), (1, 1), (20, 3)):
        x = rng.integers(0, 5, (m, n)).astype(NUMPY[elem])
        if elem.startswith("f"):
            x[rng.random((m, n)) < 0.05] = np.nan
            x[rng.random((m, n)) < 0.1] = np.inf
        if elem.startswith("f") and m > 2:
            x[1], x[2] = -np.inf, np.nan
        _check_places(fast(x=x)._asdict(), x)
        _check_places(reference(kernel, {}, {"x": x}), x)


def _check_places(got: dict[str, Array], x: Array) -> None:
    assert (got["low"] == x.argmin(axis=1)).all()
    assert (got["high"] == x.argmax(axis=1)).all()
    assert got["apart"] == x[:, 0].argmax() - x[0].argmin()


def test_an_empty_argmax_wants_an_assumption() -> None:
    text = """
kernel places(M, N) {
    in  x: f32[M, N]
    out low: i64[M]
    low[i] = argmin[j](x[i, j])
}
"""
    with pytest.raises(BoundsError, match=r"argmin\[j\] may be empty: with M=1, N=0") as caught:
        driver.run(parse(text, "t.tdsl"), driver.Options("places", target("c")))
    assert "assume N >= 1" in str(caught.value)


def test_the_kernel_level_shows_the_state() -> None:
    kernel = elaborate(parse(MERGE, "t.tdsl"), "attend")
    names = [s.name for s in kernel.statements]
    assert names == [
        "m.init", "m_2.init", "m_3.init", "m_next", "m_2_next", "m_3", "m", "m_2",
        "o",
    ]  # fmt: skip
    assert kernel.statement("m_2").indices == ("i", "t")
    assert kernel.statement("m_3").indices == ("i", "t", "d")


@pytest.mark.parametrize(
    ("old", "new", "error", "said"),
    [
        ("m[i], z[i] =", "m[i] =", ParseError, "`online` gives 2 values at once"),
        ("(x[i, j], 1.0)", "(x[i, j])", ParseError, "joins 2 values: 2 arrays .* 1 terms"),
        ("m[i], z[i] = online[j](x[i, j], 1.0)", "m[i], z[i] = x[i, 0]", ParseError, "only a `com"),
        ("temp z: f64", "temp z: f32", TypeMismatch, "is f32, and its value f64|f64"),
        ("identity -inf, 0.0", "identity -inf", ParseError, "joins 2 values and has 1"),
    ],
)
def test_refusals(old: str, new: str, error: type[Exception], said: str) -> None:
    assert old in SOFTMAX
    with pytest.raises(error, match=said):
        lowered(SOFTMAX.replace(old, new), "softmax", "c", "none")


def test_a_component_may_not_use_more_indices_than_its_own() -> None:
    text = MERGE.replace("give n, z * exp(m - g)", "give n, a + z * exp(m - g)")
    with pytest.raises(ParseError, match="`z` would need `a` for every `d`"):
        lowered(text, "attend", "c")
