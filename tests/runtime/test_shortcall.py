"""The call written in C: it serves what it may, gives up on the rest, and keeps no references."""

import gc
import sys
import sysconfig
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tdsl.runtime.build import python_headers
from tdsl.runtime.callable import CompiledKernel
from tests.runtime.support import Shapes, compiled, entry, module

pytestmark = pytest.mark.skipif(
    python_headers() is None
    or sys.implementation.name != "cpython"
    or bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="the call in C needs CPython's headers and its lock",
)

SCALE = module(
    "scale",
    "int scale(int64_t M, int64_t N, const float *x, const double *type, float *y, void *w);\n",
    """\
int scale(int64_t M, int64_t N, const float *x, const double *type, float *y, void *w) {
  (void)w;
  if (M > 100) return 2;
  if (((uintptr_t)x | (uintptr_t)y) % 4) return 3;
  if (SHARED(x, 4 * M * N, y, 4 * M * N)) return 4;
  for (int64_t i = 0; i < M; i++)
    for (int64_t j = 0; j < N; j++) y[i * N + j] = (float)(x[i * N + j] * type[j]);
  return 0;
}
""",
)
# An argument is called `type`: a name that Python's own code uses.
ENTRY = entry("scale", "M N", "in x: f32[2]", "in type: f64[1]", "out y: f32[2]")
SHAPES = Shapes(x=("M", "N"), type=("N",), y=("M", "N"))


def scale() -> CompiledKernel:
    return compiled(SCALE, ENTRY, SHAPES)


def arrays(m: int = 2, n: int = 3) -> dict[str, Any]:
    x = np.arange(m * n, dtype=np.float32).reshape(m, n)
    return {"x": x, "type": np.full(n, 2.0), "y": np.zeros((m, n), np.float32)}


def short(kernel: CompiledKernel) -> Any:
    call = type(kernel).__dict__["__call__"]
    assert type(call).__name__ == "ShortCall"
    return call


def counted(kernel: CompiledKernel, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many calls the full check has seen since."""
    seen: list[int] = []
    check = kernel._checker.bind

    def bind(*given: Any) -> Any:
        seen.append(1)
        return check(*given)

    monkeypatch.setattr(kernel._checker, "bind", bind)
    return lambda: len(seen)


def test_shapes_seen_before_are_not_checked_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = scale()
    given = arrays()
    kernel(**given)
    kernel(given["x"], given["type"])
    full = counted(kernel, monkeypatch)
    given["y"][...] = 0
    assert kernel(**given) is given["y"]
    np.testing.assert_array_equal(given["y"], given["x"] * 2)
    given["y"][...] = 0
    assert kernel(given["x"], type=given["type"], y=given["y"]) is given["y"]
    np.testing.assert_array_equal(given["y"], given["x"] * 2)
    np.testing.assert_array_equal(kernel(given["x"], given["type"]), given["x"] * 2)
    assert full() == 0
    other = arrays(4, 1)
    np.testing.assert_array_equal(kernel(**other), other["x"] * 2)
    assert full() == 1
    np.testing.assert_array_equal(kernel(**given), given["x"] * 2)
    assert full() == 1


@pytest.mark.parametrize("m, n", [(0, 3), (3, 0), (1, 1)])
def test_empty_arrays(m: int, n: int) -> None:
    kernel = scale()
    for _ in range(3):
        given = arrays(m, n)
        np.testing.assert_array_equal(kernel(**given), given["x"] * 2)


class Sub(np.ndarray[Any, Any]):
    """No plain array."""


def test_what_is_unlike_is_checked_or_converted() -> None:
    kernel = scale()
    good = arrays()
    kernel(**good)
    twice = good["x"] * 2
    wide = np.zeros((2, 6), np.float32)
    wide[:, ::2] = good["x"]
    off = np.zeros(25, np.uint8)[1:].view(np.float32).reshape(2, 3)
    off[...] = good["x"]
    for x in (wide[:, ::2], np.asfortranarray(good["x"]), good["x"].view(Sub), off):
        good["y"][...] = 0
        np.testing.assert_array_equal(kernel(**{**good, "x": x}), twice)
    read_only = np.zeros((2, 3), np.float32)
    read_only.flags.writeable = False
    wrong: list[tuple[str, Any, type[Exception], str]] = [
        ("x", good["x"].astype(np.float64), TypeError, "expected float32 array"),
        ("x", good["x"].astype(">f4"), TypeError, "expected float32 array"),
        ("x", good["x"].view(np.int32), TypeError, "expected float32 array"),
        ("x", np.ma.array(good["x"], mask=True), TypeError, "a masked array"),
        ("x", good["x"][0], ValueError, "expected 2 dimensions"),
        ("x", good["y"], ValueError, "expected arrays apart"),
        ("x", [1.0], TypeError, "a value of type list"),
        ("type", np.ones(4), ValueError, "expected N = 3, got 4"),
        ("y", read_only, ValueError, "read-only"),
        ("y", off, ValueError, "multiple of 4"),
        ("y", wide[:, ::2], ValueError, "C-contiguous"),
    ]
    for name, value, error, words in wrong:
        with pytest.raises(error, match=words):
            kernel(**{**good, name: value})
    with pytest.raises(TypeError, match="no argument 'z'"):
        kernel(good["x"], good["type"], z=good["y"])
    with pytest.raises(TypeError, match="takes 3 arguments"):
        kernel(*good.values(), None)
    with pytest.raises(TypeError, match="multiple values for argument 'x'"):
        kernel(good["x"], x=good["x"], y=good["y"])
    with pytest.raises(TypeError, match="missing argument 'type'"):
        kernel(x=good["x"], y=good["y"])
    np.testing.assert_array_equal(kernel(**good), twice)


def test_sizes_by_keyword_are_compared() -> None:
    kernel = scale()
    for _ in range(3):
        kernel(**arrays(), M=2)
        with pytest.raises(ValueError, match="M = 5"):
            kernel(**arrays(), M=5)
        kernel(**arrays())


def test_a_size_that_only_a_keyword_gives_is_never_remembered_without_it() -> None:
    prototype = "int fill(int64_t N, int64_t T, float *y, void *workspace)"
    body = "{ (void)workspace; for (int64_t i = 0; i < N; i++) y[i] = (float)T; return 0; }\n"
    request = module("fill_times", f"{prototype};\n", f"{prototype} {body}")
    which = entry("fill", "N T", "out y: f32[1]")
    kernel = compiled(request, which, Shapes(y=("N",), t=("T",)))
    y = np.zeros(3, np.float32)
    for times in (5, 5, 7):
        np.testing.assert_array_equal(kernel(y=y, T=times), [times] * 3)
        with pytest.raises(ValueError, match="'T' is not determined"):
            kernel(y=y)


def test_a_status_is_told() -> None:
    kernel = scale()
    for _ in range(2):
        with pytest.raises(ValueError, match="assumptions"):
            kernel(**arrays(101, 1))


def test_calls_keep_no_references() -> None:
    kernel = scale()
    given = arrays()
    result = kernel(**given)
    before = [sys.getrefcount(a) for a in (*given.values(), short(kernel))]
    for _ in range(100):
        result = kernel(**given)
        result = kernel(*given.values())
        with pytest.raises(TypeError):
            kernel(given["x"], given["type"].astype(np.float32), given["y"])
    assert [sys.getrefcount(a) for a in (*given.values(), short(kernel))] == before
    assert result is given["y"]


def test_a_kernel_that_nobody_has_goes() -> None:
    kernel = scale()
    kernel(**arrays())
    gone = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert gone() is None


def test_threads_may_call_it_with_shapes_of_their_own() -> None:
    kernel = scale()
    failed: list[int] = []

    def work(n: int) -> None:
        given = arrays(3, n)
        for _ in range(300):
            given["y"][...] = -1
            if not (kernel(**given) == given["x"] * 2).all():
                failed.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 5, 64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_bound_sizes_are_served_from_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    prototype = "int twice(const float *x, float *y, void *workspace)"
    body = "{ (void)workspace; for (int i = 0; i < 4; i++) y[i] = 2 * x[i]; return 0; }\n"
    request = module("twice", f"{prototype};\n", f"{prototype} {body}")
    which = entry("twice", "", "in x: f32[1]", "out y: f32[1]", bound=(("N", 4),))
    kernel = compiled(request, which, Shapes(x=(4,), y=(4,)))
    full = counted(kernel, monkeypatch)
    x = np.arange(4, dtype=np.float32)
    y = np.zeros_like(x)
    np.testing.assert_array_equal(kernel(x, y), x * 2)
    np.testing.assert_array_equal(kernel(x=x), x * 2)
    assert full() == 0
    kernel(x, N=4)
    assert full() == 1
