"""Temps that are declared in the body of a `for`: fresh in every iteration."""

import numpy as np
import pytest

from tdsl import driver
from tdsl.diagnostics import BoundsError, IllegalSchedule
from tdsl.syntax.elaborate import elaborate
from tdsl.syntax.parser import parse
from tdsl.targets import target
from tests.language.run import compiled, everywhere, interpreted, lowered

DOITGEN = """
kernel doitgen(NR, NQ, NP) {
    in    C4: f64[NP, NP]
    inout A: f64[NR, NQ, NP]
    for r in 0..NR, q in 0..NQ {
        temp s: f64[NP]
        s[p] = sum[k](A[r, q, k] * C4[k, p])
        A[r, q, p] = s[p]
    }
}
schedule doitgen.none for any when false { }
schedule doitgen.threads for any when false { parallel r }
schedule doitgen.swapped for any when false { reorder q, r }
schedule doitgen.rows8 for any when false {
    split q by 8 -> qo, qi
    distribute qi
    split p by 4 * lanes(f64) -> po, pl
    reorder s.po, s.k, s.qi, s.pl
    unroll s.qi
    vectorize pl
    parallel r
}
"""

ROWS = """
kernel rows(M, N) {
    in  x: f32[M, N]
    out y: f32[M, N]
    assume N >= 1
    for i in 0..M {
        temp t: f32[16]
        temp least: f32
        least = min[j](x[i, j])
        t[c] = f32(c) + least
        y[i, j] = x[i, j] * t[j % 16] + least
    }
}
schedule rows.none for any when false { }
schedule rows.threads for any when false { parallel i }
schedule rows.wide for any when false { vectorize y.j }
schedule rows.apart for any when false { distribute i }
schedule rows.both for any when false { parallel i  vectorize y.j }
schedule rows.copies for any when false { split i by 4 -> io, ii  unroll ii }
"""

SHIFTED = """
kernel shifted(N) {
    in  x: f32[N]
    out y: f32[N]
    assume N >= 6
    y[i] = 0.0 where i < 3 or i >= N - 2
    for i in N - 3 downto 3 {
        temp t: f32
        temp u: f32[2]
        t = x[i] * x[i]
        u[c] = t + f32(c)
        y[i] = u[1] * x[i - 1] + u[0]
    }
}
schedule shifted.lanes for any when false { vectorize t.i }
schedule shifted.apart for any when false { distribute t.i }
schedule shifted.none for any when false { }
"""


def _names(text: str) -> list[str]:
    return [line.split()[1].split(".")[1] for line in text.splitlines() if "schedule" in line]


@everywhere
@pytest.mark.parametrize("variant", _names(DOITGEN))
def test_every_iteration_has_its_own_row(on: str, variant: str) -> None:
    fast = compiled(DOITGEN, "doitgen", on, variant)
    rng = np.random.default_rng(1)
    for r, q, p in ((3, 4, 5), (1, 17, 33), (0, 2, 2), (2, 9, 1), (4, 8, 16)):
        a, c = rng.standard_normal((r, q, p)), rng.standard_normal((p, p))
        np.testing.assert_allclose(fast(A=a.copy(), C4=c), a @ c, rtol=1e-12, atol=1e-12)
        oracle = interpreted(DOITGEN, "doitgen", {"A": a, "C4": c})["A"]
        np.testing.assert_allclose(oracle, a @ c, rtol=1e-12, atol=1e-12)


@everywhere
@pytest.mark.parametrize("variant", _names(ROWS))
def test_small_temps_in_every_order(on: str, variant: str) -> None:
    fast = compiled(ROWS, "rows", on, variant)
    rng = np.random.default_rng(2)
    for m, n in ((5, 40), (1, 1), (0, 3), (9, 17), (64, 16)):
        x = rng.integers(-50, 50, (m, n)).astype(np.float32)
        least = x.min(axis=1, keepdims=True)
        want = x * (np.arange(n) % 16 + least) + least
        assert (fast(x=x) == want).all()
        assert (interpreted(ROWS, "rows", {"x": x})["y"] == want).all()


@everywhere
@pytest.mark.parametrize("variant", _names(SHIFTED))
def test_a_range_that_does_not_start_at_zero(on: str, variant: str) -> None:
    fast = compiled(SHIFTED, "shifted", on, variant)
    for n in (6, 7, 20, 67):
        x = np.random.default_rng(n).integers(-9, 9, n).astype(np.float32)
        want = np.zeros(n, np.float32)
        for i in range(3, n - 2):
            want[i] = (x[i] * x[i] + 1) * x[i - 1] + x[i] * x[i]
        assert (fast(x=x) == want).all()
        assert (interpreted(SHIFTED, "shifted", {"x": x})["y"] == want).all()


def _array(text: str, kernel: str, variant: str, name: str) -> tuple[str, int]:
    made = lowered(text, kernel, "c", variant).scheduled.program.arrays[name]
    return made.role, len(made.shape)


def test_memory_is_as_small_as_the_order_allows() -> None:
    assert _array(DOITGEN, "doitgen", "none", "s") == ("temp", 1)
    assert _array(DOITGEN, "doitgen", "swapped", "s") == ("temp", 1)
    assert _array(DOITGEN, "doitgen", "threads", "s") == ("scratch", 1)
    assert _array(DOITGEN, "doitgen", "rows8", "s") == ("temp", 3)
    assert _array(ROWS, "rows", "none", "t") == ("stack", 1)
    assert _array(ROWS, "rows", "threads", "t") == ("stack", 1)
    assert _array(ROWS, "rows", "apart", "t") == ("temp", 2)
    assert _array(SHIFTED, "shifted", "lanes", "t") == ("temp", 1)


def test_threads_have_arrays_of_their_own() -> None:
    c = lowered(ROWS, "rows", "c", "threads")
    source = driver.emit("rows", [c]).c_source
    run = source[source.index("static void rows_run") :]
    assert run.index("#pragma omp parallel") < run.index("float t[")


@everywhere
def test_threads_share_what_one_loop_leaves_for_the_next(on: str) -> None:
    text = """
kernel turned(T) {
    in  x: f32[T, 64]
    out y: f32[T, 64]
    for t in 0..T {
        temp row: f32[64]
        row[c]  = x[t, c] + 1.0
        y[t, c] = row[63 - c]
    }
}
schedule turned for any { parallel row.c  parallel y.c }
"""
    fast = compiled(text, "turned", on)
    assert lowered(text, "turned").scheduled.program.arrays["row"].role == "stack"
    x = np.arange(50 * 64, dtype=np.float32).reshape(50, 64)
    for _ in range(3):
        np.testing.assert_array_equal(fast(x=x), x[:, ::-1] + 1)


def test_values_of_another_iteration_are_refused() -> None:
    text = """
kernel f(N) {
    in  x: f32[N]
    out y: f32[N]
    for i in 0..N {
        temp t: f32[2]
        t[0] = x[i]                     where i == 0
        y[i] = t[0]
    }
}
"""
    with pytest.raises(BoundsError, match=r"read before it is written.*i=1"):
        driver.run(parse(text, "t.tdsl"), driver.Options("f", target("c")))


def test_a_loop_through_a_shared_temp_stays_ordered() -> None:
    text = SHIFTED.replace("    for i", "    temp t: f32\n    for i").replace(
        "        temp t: f32\n", ""
    )
    with pytest.raises(IllegalSchedule, match="through t"):
        lowered(text, "shifted", "c", "lanes")


def test_the_declaration_names_its_loop() -> None:
    kernel = elaborate(parse(DOITGEN, "t.tdsl"), "doitgen")
    assert kernel.array("s").local == "q"


TRIANGLE = """
kernel triangle(N, M) {
    in    x: f32[N, M]
    inout z: f32[N, N]
    out   y: f32[N, M]
    y[i, j] = 0.0
    for i in 0..N {
        temp row: f32[M]
        row[m] = x[i, m] * 2.0
        for j in N - 1 downto i step 2 {
            temp t: f32[3]
            temp s: f32
            s = sum[m](row[m] * x[j, m])
            t[c] = s + f32(c)
            z[i, j] += t[2] - t[1]
            z[i, j] += t[0]
        }
        y[i, m] += row[m]
    }
}
schedule triangle for any { DIRECTIVES }
"""


@everywhere
@pytest.mark.parametrize(
    "directives",
    [
        "parallel s.i  vectorize row.m",
        "unroll s.i by 3",
        "distribute s.i",
        "skew s.j by i",
        "distribute s.j  vectorize t.j",
        "vectorize s.j",
    ],
)
def test_nests_in_nests(on: str, directives: str) -> None:
    text = TRIANGLE.replace("DIRECTIVES", directives)
    fast = compiled(text, "triangle", on)
    for n, m in ((0, 0), (1, 1), (3, 2), (7, 5), (12, 17)):
        rng = np.random.default_rng(n)
        x = rng.integers(-5, 5, (n, m)).astype(np.float32)
        z = rng.integers(-5, 5, (n, n)).astype(np.float32)
        want = z.copy()
        for i in range(n):
            for j in range(n - 1, i - 1, -2):
                want[i, j] += 1 + 2 * (x[i] * x[j]).sum()
        got = z.copy()
        assert (fast(x=x, z=got) == 2 * x).all() and (got == want).all()
        assert (interpreted(text, "triangle", {"x": x, "z": z})["z"] == want).all()
