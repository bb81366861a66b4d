"""`inline`: readers get the expression, the array is gone, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

import tdsl
from tdsl.diagnostics import IllegalSchedule
from tdsl.polyhedral.program import Program
from tdsl.polyhedral.tree import statements
from tests.schedule.run import scheduled

RNG = np.random.default_rng(7)

CONV = """
kernel conv<pad = 1, stride = 1>(H, W, C, K, R, S) {
    let OH = (H + 2 * pad - R) // stride + 1
    let OW = (W + 2 * pad - S) // stride + 1
    assume OH >= 1, OW >= 1
    in  x: f32[H, W, C]
    in  w: f32[R, S, C, K]
    in  b: f32[K]
    out y: f32[OH, OW, K]
    xp[h, v, c]  = padded(x[h - pad, v - pad, c], 0.0)
    acc[p, q, k] = sum[r, s, c](xp[p * stride + r, q * stride + s, c] * w[r, s, c, k])
    y[p, q, k]   = max(acc[p, q, k] + b[k], 0.0)
}
schedule conv for any { inline xp }
"""

CHAIN = """
kernel chain(N) {
    in  x: f32[N]
    out y: f32[N]
    out s: f32
    assume N >= 1
    a[i] = 2.0 * x[i]
    b[i] = a[i] + x[N - 1 - i]
    s    = sum[i](b[i] * a[i])
    y[i] = b[i] - s
}
schedule chain for any { inline DIRECTIVE }
"""

PARTS = """
kernel parts(N) {
    in  x: f32[N]
    out y: f32[N]
    assume N >= 4
    lo: w[i]     = 2.0 * x[i]           where i < 2
    hi: w[i + 2] = x[i] - x[i + 1]      where 0 <= i < N - 2
    y[i] = w[i] + w[N - 1 - i]
}
schedule parts for any { inline w  vectorize y.i }
"""

LOCAL = """
kernel local(T, N) {
    in  x: f32[T, N]
    out y: f32[T, N]
    for t in 0..T {
        temp a: f32[N]
        a[i] = 2.0 * x[t, i]
        y[t, i] = a[i] + a[N - 1 - i]
    }
}
schedule local for any { inline a  vectorize y.i  parallel y.t }
"""

LOOKUP = """
kernel lookup(M, N) {
    in  x: f32[M]
    in  table: f32[N]
    out y: f32[M]
    assume N >= 1
    at[i] = i64(floor(x[i]))
    t[j]  = table[j] * table[j]
    y[i]  = t[clamp(at[i], 0, N - 1)]
}
schedule lookup for any { inline at, t }
"""


def program(text: str) -> Program:
    return scheduled(text).program


def convolved(x: np.ndarray, w: np.ndarray, pad: int, stride: int) -> np.ndarray:
    """In double precision."""
    xp = np.pad(x.astype(np.float64), ((pad, pad), (pad, pad), (0, 0)))
    R, S = w.shape[:2]
    windows = np.lib.stride_tricks.sliding_window_view(xp, (R, S), axis=(0, 1))
    w64 = w.astype(np.float64)
    result: np.ndarray = np.einsum("pqcrs,rsck->pqk", windows[::stride, ::stride], w64)
    return result


def test_the_statement_its_loops_and_its_array_are_gone() -> None:
    made = scheduled(CONV)
    assert set(statements(made.tree)) == {"acc", "y"}
    assert set(made.program.statements) == {"acc.init", "acc", "y"}
    assert "xp" not in made.program.arrays
    assert {a.array for a in made.program.statements["acc"].reads} == {"x", "w"}
    assert all("xp" not in (d.source, d.sink, d.array) for d in made.dependences)


def test_reads_are_restricted_to_the_arms_that_are_chosen() -> None:
    acc = program(CONV).statements["acc"]
    (read,) = [a for a in acc.reads if a.array == "x"]
    assert read.exact
    extent = program(CONV).extents["x"]
    assert read.map.range().is_subset(extent)
    # Every element of x has a reader where the window covers the picture.
    assert not read.map.is_empty()
    # At the border there are terms that read nothing.
    assert not acc.domain.is_subset(read.map.domain())


@pytest.mark.parametrize(("pad", "stride"), [(0, 1), (1, 1), (1, 2), (2, 1)])
def test_a_padded_convolution(pad: int, stride: int) -> None:
    kernel = tdsl.parse(CONV)["conv"]
    x = RNG.standard_normal((6, 5, 3)).astype(np.float32)
    w = RNG.standard_normal((3, 3, 3, 4)).astype(np.float32)
    b = RNG.standard_normal(4).astype(np.float32)
    constants = {"pad": pad, "stride": stride}
    y = kernel.compile(target="c", constants=constants)(x=x, w=w, b=b)
    want = np.maximum(convolved(x, w, pad, stride) + b, 0)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("names", ["a", "b", "a, b", "b, a"])
def test_chains_in_any_order_and_into_sums(names: str) -> None:
    kernel = tdsl.parse(CHAIN.replace("DIRECTIVE", names))["chain"]
    x = RNG.standard_normal(19).astype(np.float32)
    strict = kernel.compile(target="c", strict_fp=True)(x=x)
    x64 = x.astype(np.float64)
    b = 2 * x64 + x64[::-1]
    np.testing.assert_allclose(strict.s, (b * 2 * x64).sum(), rtol=1e-5)
    np.testing.assert_allclose(strict.y, b - (b * 2 * x64).sum(), rtol=1e-4, atol=1e-5)
    same = kernel.reference(x=x)
    assert strict.s == same.s
    np.testing.assert_array_equal(strict.y, same.y)


def test_several_definitions_of_one_array_become_selects() -> None:
    kernel = tdsl.parse(PARTS)["parts"]
    for n in (4, 5, 23):
        x = RNG.standard_normal(n).astype(np.float32)
        w = np.concatenate([2 * x[:2], x[: n - 2] - x[1 : n - 1]])
        y = kernel.compile(target="avx2", strict_fp=True)(x=x)
        np.testing.assert_array_equal(y, w + w[::-1])


def test_a_temp_of_a_for_body() -> None:
    x = RNG.standard_normal((3, 11)).astype(np.float32)
    y = tdsl.parse(LOCAL)["local"].compile(target="avx2")(x=x)
    np.testing.assert_array_equal(y, 2 * x + 2 * x[:, ::-1])
    assert "a" not in program(LOCAL).arrays


def test_an_index_that_is_data() -> None:
    x = np.array([-1.5, 0.5, 2.25, 9.0], dtype=np.float32)
    table = RNG.standard_normal(5).astype(np.float32)
    y = tdsl.parse(LOOKUP)["lookup"].compile(target="c")(x=x, table=table)
    np.testing.assert_array_equal(y, (table * table)[[0, 0, 2, 4]])


def test_behind_a_placement_it_comes_before_it() -> None:
    late = CHAIN.replace("inline DIRECTIVE", "stage x at s.i  inline a  inline b")
    early = CHAIN.replace("inline DIRECTIVE", "inline a  inline b  stage x at s.i")
    assert scheduled(late).tree == scheduled(early).tree
    assert set(statements(scheduled(late).tree)) == {"s", "y"}


def test_methods_and_text_are_the_same() -> None:
    kernel = tdsl.parse(CHAIN.replace("schedule chain for any { inline DIRECTIVE }", ""))["chain"]
    schedule = kernel.schedule(target="c")
    schedule.inline("a", "b")
    assert "inline a, b" in str(schedule)
    assert set(statements(schedule.tree)) == {"s", "y"}


REFUSED = [
    ("y[i] = x[i]  z[i] = y[i]", "y is an argument"),
    ("a[i] = sum[j](x[j] * x[i])  y[i] = a[i]  z[i] = a[i]", "a is a reduction"),
]


@pytest.mark.parametrize(("body", "why"), REFUSED)
def test_refusals(body: str, why: str) -> None:
    name = "y" if body.startswith("y") else "a"
    text = f"kernel k(N) {{ in x: f32[N]  out y, z: f32[N]  {body} }}"
    with pytest.raises(IllegalSchedule, match=why):
        scheduled(f"{text} schedule k for any {{ inline {name} }}")


BESIDE = """
kernel beside(M, N) {
    in  x: f32[M, N]
    out y: f32[M, N]
    out at: i64[M]
    assume N >= 1
    e[i, j] = 2.0 * x[i, j]
    y[i, j] = e[i, j] + e[i, N - 1 - j]
    at[i] = argmax[j](x[i, j])
}
schedule beside for any { inline e  DIRECTIVES }
"""


@pytest.mark.parametrize("more", ["", "vectorize at.j by 4", "vectorize y.j  parallel at.i"])
def test_beside_what_lives_in_one_iteration(more: str) -> None:
    """The memory of an `argmax`'s temps is chosen when a statement of the kernel is gone."""
    kernel = tdsl.parse(BESIDE.replace("DIRECTIVES", more))["beside"].compile(target="avx2")
    for m, n in ((1, 1), (3, 11), (2, 16)):
        x = RNG.standard_normal((m, n)).astype(np.float32)
        made = kernel(x=x)
        np.testing.assert_array_equal(made.y, 2 * x + 2 * x[:, ::-1])
        np.testing.assert_array_equal(made.at, x.argmax(1))


def test_a_definition_that_a_for_reads() -> None:
    text = LOCAL.replace("    for t", "    g[t, i] = 3.0 * x[t, i]\n    for t")
    text = text.replace("a[i] = 2.0 * x[t, i]", "a[i] = g[t, i] - x[t, i]")
    x = RNG.integers(-9, 9, (3, 11)).astype(np.float32)
    y = tdsl.parse(text.replace("inline a", "inline g"))["local"].compile(target="avx2")(x=x)
    np.testing.assert_array_equal(y, 2 * x + 2 * x[:, ::-1])
