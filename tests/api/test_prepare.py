"""What is made of const arguments once: the same results, checked calls, any sizes of the rest."""

import re
from typing import Any

import numpy as np
import pytest

import tdsl
from tdsl.built import Built
from tdsl.runtime.arguments import Checker
from tdsl.runtime.toolchain import find_emulator

DENSE = """
kernel dense(M, N, K) {
    in x: f32[M, K]
    const w: f32[K, N]
    const b: f32[N]
    const s: f32
    out y: f32[M, N]

    u[k, j] = s * w[k, j] + 1.0
    y[i, j] = sum[k](x[i, k] * u[k, j]) + b[j]
}
"""
ONCE = "schedule dense.once for any { compute u at prepare }"
SEVERAL = """
schedule dense.first for any when M == 1 and N >= 4 { compute u at prepare  vectorize y_r1.j by 4 }
schedule dense.none for any when M == 2 { }
schedule dense.wide for any when K >= 3 { compute u at prepare  vectorize u.j by 4 }
schedule dense.rest for any { compute u at prepare }
"""


def arrays(m: int, n: int, k: int) -> dict[str, Any]:
    rng = np.random.default_rng(m + 10 * n + 100 * k)
    return {
        "x": rng.integers(-4, 5, (m, k)).astype(np.float32),
        "w": rng.integers(-4, 5, (k, n)).astype(np.float32),
        "b": rng.integers(-4, 5, n).astype(np.float32),
        "s": np.float32(2.0),
    }


def expected(a: dict[str, Any]) -> Any:
    return a["x"] @ (a["s"] * a["w"] + 1) + a["b"]


def const(a: dict[str, Any]) -> dict[str, Any]:
    return {n: a[n] for n in ("w", "b", "s")}


@pytest.fixture(scope="module", params=["c", "native"])
def once(request: pytest.FixtureRequest) -> Built:
    return tdsl.parse(DENSE + ONCE, "dense.tdsl")["dense"].compile(target=request.param)


@pytest.fixture(scope="module")
def several() -> Built:
    return tdsl.parse(DENSE + SEVERAL, "dense.tdsl")["dense"].compile(target="native")


SHAPES = [(m, n, k) for m in (0, 1, 5) for n in (0, 1, 7) for k in (0, 1, 8)]


@pytest.mark.parametrize("shape", SHAPES)
def test_prepared_and_plain_calls_give_the_same(once: Built, shape: tuple[int, int, int]) -> None:
    a = arrays(*shape)
    np.testing.assert_array_equal(once(**a), expected(a))
    ready = once.prepare(**const(a))
    for _ in range(3):  # the first call is checked in full, the others go the short way
        np.testing.assert_array_equal(ready(x=a["x"]), expected(a))
    out = np.empty(shape[:2], np.float32)
    for _ in range(2):
        assert ready(a["x"], out) is out
    np.testing.assert_array_equal(out, expected(a))


def test_one_preparation_serves_every_size_of_the_rest(several: Built) -> None:
    reached = set()
    for n, k in ((0, 0), (1, 1), (3, 2), (4, 2), (9, 3), (5, 7)):
        a = arrays(1, n, k)
        ready = several.prepare(**const(a))
        for m in (0, 1, 2, 3, 1, 2, 3):
            given = {**a, "x": arrays(m, n, k)["x"]}
            np.testing.assert_array_equal(ready(x=given["x"]), expected(given))
            np.testing.assert_array_equal(several(**given), expected(given))
            reached.add(several.variant(m, n, k))
    assert reached == {"first", "none", "wide", "rest"}


def test_the_buffer_holds_what_the_const_sizes_can_reach(several: Built) -> None:
    # With K >= 3 the variant `rest` cannot run, with N < 4 `first` cannot; M does not matter.
    def bytes_of(n: int, k: int) -> int:
        found = {several.prepared_bytes(m, n, k) for m in (0, 1, 2, 50)}
        assert len(found) == 1
        return found.pop()

    def room(variants: int, n: int, k: int) -> range:
        return range(variants * 4 * n * k, variants * (4 * n * k + 128))

    assert bytes_of(40, 2) in room(2, 40, 2)
    assert bytes_of(40, 5) in room(2, 40, 5)
    assert bytes_of(3, 20) in room(1, 3, 20)
    assert bytes_of(3, 2) in room(1, 3, 2)


def test_the_kernel_itself_stays_as_it_was(once: Built) -> None:
    a, other = arrays(2, 3, 4), arrays(3, 3, 4)
    ready, second = once.prepare(**const(a)), once.prepare(**const(other))
    np.testing.assert_array_equal(once(**other), expected(other))
    np.testing.assert_array_equal(ready(x=a["x"]), expected(a))
    np.testing.assert_array_equal(second(x=other["x"]), expected(other))
    assert "x, y" in repr(ready) and "w" not in repr(ready).split("(")[1]
    assert ready.workspace_bytes(2, 3, 4) == once.workspace_bytes(2, 3, 4)


def test_const_arrays_that_do_not_lie_in_a_row_are_copied(once: Built) -> None:
    a = arrays(2, 3, 4)
    a["w"] = np.asfortranarray(a["w"])
    ready = once.prepare(**const(a))
    for _ in range(2):
        np.testing.assert_array_equal(ready(x=a["x"]), expected(a))


def wrong(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_wrong_preparations_are_refused(once: Built) -> None:
    a = arrays(2, 3, 4)
    given = const(a)
    wrong(lambda: once.prepare(w=a["w"], b=a["b"]), TypeError, "missing argument 's'")
    wrong(lambda: once.prepare(**given, x=a["x"]), TypeError, "'x' belongs to each call")
    wrong(lambda: once.prepare(**given, v=1), TypeError, "there is no argument 'v'")
    changed = {**given, "w": a["w"].astype(np.float64)}
    wrong(lambda: once.prepare(**changed), TypeError, "argument 'w': expected float32 array")
    changed = {**given, "b": a["b"][:2]}
    wrong(lambda: once.prepare(**changed), ValueError, "argument 'b': expected shape (3,)")


def test_wrong_calls_of_what_is_prepared_are_refused(once: Built) -> None:
    a = arrays(2, 3, 4)
    ready = once.prepare(**const(a))
    out = a["w"][:2, :3]
    for _ in range(2):
        wrong(lambda: ready(x=a["x"], w=a["w"]), TypeError, "argument 'w' was prepared")
        wrong(lambda: ready(), TypeError, "missing argument 'x'")
        wrong(lambda: ready(a["x"], None, a["x"]), TypeError, "takes 2 arguments (x, y)")
        wrong(lambda: ready(x=a["x"][:, :3]), ValueError, "expected shape")
        wrong(lambda: ready(x=a["x"].astype(np.float64)), TypeError, "argument 'x'")
        wrong(lambda: ready(x=a["x"], y=out), ValueError, "arguments 'y' and 'w'")
        np.testing.assert_array_equal(ready(x=a["x"]), expected(a))


def test_prepared_calls_go_through_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """No check in Python once shapes are known: the slow way would be seen."""
    text = """
    kernel k(M, N) {
        in x: f32[M]
        const w: f32[N]
        out y: f32[M, N]
        u[j] = 2.0 * w[j]
        y[i, j] = x[i] * u[j]
    }
    schedule k for any { compute u at prepare }
    """
    kernel = tdsl.parse(text)["k"]
    x, w = np.arange(3, dtype=np.float32), np.arange(5, dtype=np.float32)
    y = np.empty((3, 5), np.float32)
    ready = kernel.compile(target="c").prepare(w=w)
    ready(x=x, y=y)
    monkeypatch.setattr(type(ready), "_checked_call", None, raising=False)
    monkeypatch.setattr(Checker, "bind", None)
    y[...] = 0
    assert ready(x=x, y=y) is y
    np.testing.assert_array_equal(y, np.outer(x, 2 * w))


def test_outputs_may_not_lie_in_a_const_array() -> None:
    text = "kernel k(N) { const w: f32[N] out y: f32[N] u[i] = 2.0 * w[i] y[i] = u[i] + 1.0 }"
    kernel = tdsl.parse(text + " schedule k for any { compute u at prepare }")["k"]
    w = np.ones(8, np.float32)
    ready = kernel.compile(target="c").prepare(w=w)
    wrong(lambda: ready(y=w), ValueError, "expected arrays apart in memory")
    np.testing.assert_array_equal(ready(), 3 * np.ones(8))
    np.testing.assert_array_equal(ready(), 3 * np.ones(8))


def test_kernels_with_const_arguments_are_prepared_even_where_nothing_is_made() -> None:
    kernel = tdsl.parse(DENSE + "schedule dense for any { vectorize y.j }")["dense"]
    fast, a = kernel.compile(target="native"), arrays(3, 9, 2)
    assert fast.prepared_bytes(3, 9, 2) == 0
    np.testing.assert_array_equal(fast.prepare(**const(a))(x=a["x"]), expected(a))


def test_kernels_without_const_arguments_have_nothing_to_prepare() -> None:
    kernel = tdsl.parse("kernel k(N) { in x: f32[N] out y: f32[N] y[i] = x[i] }")["k"]
    fast = kernel.compile(target="c", schedule=kernel.schedule("c"))
    assert fast.prepared_bytes(4) == 0
    assert "prepare" not in fast.header
    wrong(lambda: fast.prepare(), TypeError, "it has no const arguments")


def test_assumptions_and_promises_of_const_arguments_are_checked() -> None:
    text = """
    kernel k(N, M) {
        assume N % 2 == 0, M >= N
        const t: i32[N] range 0..N
        in x: f32[M]
        out y: f32[N]
        u[i] = t[N - 1 - i] + 1
        y[i] = x[t[i]] * f32(u[i])
    }
    schedule k for any { compute u at prepare }
    """
    fast = tdsl.parse(text)["k"].compile(target="c")
    wrong(lambda: fast.prepare(t=np.zeros(3, np.int32)), ValueError, "assumptions")
    wrong(
        lambda: fast.prepare(t=np.array([0, 4, 1, 1], np.int32)),
        ValueError,
        "values in 0..4, got 4",
    )
    t = np.array([3, 1, 0, 2], np.int32)
    ready, x = fast.prepare(t=t), np.arange(6, dtype=np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(ready(x=x), x[t] * (t[::-1] + 1))
        wrong(lambda: ready(x=x[:3]), ValueError, "assumes M >= N")


def test_what_other_sizes_decide_cannot_be_prepared() -> None:
    text = DENSE.replace("+ 1.0", "+ f32(M)") + ONCE
    with pytest.raises(tdsl.IllegalSchedule, match="u computes with M"):
        tdsl.parse(text)["dense"].compile(target="c")


def test_a_reduction_is_prepared_with_its_start() -> None:
    text = """
    kernel k(M, N) {
        in x: f32[M]
        const w: f32[N, N]
        out y: f32[M, N]
        t[j] = sum[k](w[j, k])
        y[i, j] = x[i] * t[j]
    }
    schedule k for any { compute t at prepare }
    """
    fast = tdsl.parse(text)["k"].compile(target="native")
    for n in (0, 1, 9):
        w = np.arange(n * n, dtype=np.float32).reshape(n, n)
        ready, x = fast.prepare(w=w), np.arange(3, dtype=np.float32)
        np.testing.assert_array_equal(ready(x=x), np.outer(x, w.sum(1)))
    run = fast.c_source.split("void k_run(")[1].split("{")[0]
    assert "float *restrict w" not in run
    assert "const float *restrict t" in run


@pytest.mark.neon
def test_under_the_emulator() -> None:
    try:
        find_emulator("aarch64")
    except tdsl.ToolchainError as error:
        pytest.skip(error.diagnostics[0].message)
    fast = tdsl.parse(DENSE + SEVERAL, "dense.tdsl")["dense"].compile(target="neon")
    a = arrays(3, 5, 4)
    ready = fast.prepare(**const(a))
    np.testing.assert_array_equal(ready(x=a["x"]), expected(a))
    np.testing.assert_array_equal(fast(**a), expected(a))
    assert fast.prepared_bytes(3, 5, 4) > 0
    wrong(lambda: ready(x=a["x"], w=a["w"]), TypeError, "argument 'w' was prepared")
