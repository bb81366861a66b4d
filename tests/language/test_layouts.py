"""`layout`: arguments stored in an order of the schedule's, which callers then pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tdsl
from tdsl.built import GeneratedKernel
from tdsl.runtime.callable import CompiledKernel
from tdsl.runtime.emulate import EmulatedKernel
from tests.language.run import everywhere

Stored = CompiledKernel | EmulatedKernel

TEXT = """
kernel pointwise(N, C, H, W, K) {
    in  x: f32[N, C, H, W]
    in  w: f32[K, C]
    out y: f32[N, K, H, W]

    acc[n, k, h, v] = sum[c](x[n, c, h, v] * w[k, c])
    y[n, k, h, v] = acc[n, k, h, v] + 1.0
}
schedule pointwise.blocked for any when false {
    layout x[n, c, h, v] as [n, c // 8, h, v, c % 8]
    layout y[n, k, h, v] as [n, k // 8, h, v, k % 8]
    on y {
        split k by 8 -> ko, ki
        reorder n, ko, h, v, ki
        vectorize ki
    }
}
schedule pointwise.turned for any when false {
    layout w[k, c] as [c, k]
    layout x[n, c, h, v] as [n, h, v, c]
    layout y[n, k, h, v] as [n, h, v, k]
    vectorize y.k by 8
}
schedule pointwise.plain for any { }
"""


def kernel_of(text: str, name: str, on: str, schedule: str | None = None) -> Stored:
    """A compiled kernel, which may store its arguments in orders of its own."""
    made = tdsl.parse(text)[name].compile(target=on, schedule=schedule)
    assert not isinstance(made, GeneratedKernel)
    return made


def arrays(c: int = 11, k: int = 13) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, (2, c, 3, 4)).astype(np.float32)
    w = rng.uniform(-1, 1, (k, c)).astype(np.float32)
    return x, w, np.einsum("nchv,kc->nkhv", x, w, dtype=float) + 1


def blocked(x: np.ndarray) -> np.ndarray:
    """By NumPy alone; NaN between the elements, for they may not be read."""
    n, c, h, w = x.shape
    stored = np.full((n, -(-c // 8) * 8, h, w), np.nan, x.dtype)
    stored[:, :c] = x
    return np.ascontiguousarray(stored.reshape(n, -1, 8, h, w).transpose(0, 1, 3, 4, 2))


@everywhere
@pytest.mark.parametrize(("c", "k"), [(11, 13), (8, 16), (1, 1), (3, 17)])
def test_blocks_of_channels(on: str, c: int, k: int) -> None:
    x, w, want = arrays(c, k)
    kernel = kernel_of(TEXT, "pointwise", on, "blocked")
    y = kernel(x=blocked(x), w=w)
    assert y.shape == (2, -(-k // 8), 3, 4, 8)
    channels = y.transpose(0, 1, 4, 2, 3).reshape(2, -1, 3, 4)
    np.testing.assert_allclose(channels[:, :k], want, rtol=1e-5, atol=1e-5)
    assert not channels[:, k:].any()  # of an array that the call makes
    given = np.full(y.shape, 7, np.float32)
    assert kernel(x=blocked(x), w=w, y=given) is given
    assert (given.transpose(0, 1, 4, 2, 3).reshape(2, -1, 3, 4)[:, k:] == 7).all()


@everywhere
def test_another_order_of_dimensions(on: str) -> None:
    x, w, want = arrays()
    kernel = kernel_of(TEXT, "pointwise", on, "turned")
    y = kernel(x=np.ascontiguousarray(x.transpose(0, 2, 3, 1)), w=np.ascontiguousarray(w.T))
    np.testing.assert_allclose(y.transpose(0, 3, 1, 2), want, rtol=1e-5, atol=1e-5)


def test_to_and_from_the_storage() -> None:
    x, w, want = arrays()
    kernel = kernel_of(TEXT, "pointwise", "c", "blocked")
    assert kernel.layouts == {
        "x": "[n, c, h, v] as [n, c // 8, h, v, c % 8]",
        "y": "[n, k, h, v] as [n, k // 8, h, v, k % 8]",
    }
    stored = kernel.laid_out("x", x)
    np.testing.assert_array_equal(stored, np.nan_to_num(blocked(x)))
    np.testing.assert_array_equal(kernel.natural("x", stored, x.shape), x)
    assert kernel.laid_out("w", w) is w
    y = kernel.natural("y", kernel(x=stored, w=w), want.shape)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)
    assert tdsl.parse(TEXT)["pointwise"].compile(target="c", schedule="plain").layouts == {}


def test_messages_speak_of_the_storage() -> None:
    x, w, _ = arrays()
    kernel = kernel_of(TEXT, "pointwise", "c", "blocked")
    with pytest.raises(ValueError, match=r"5 dimensions, stored \[n, c, h, v\] as \[n, c // 8"):
        kernel(x=x, w=w)
    with pytest.raises(ValueError, match=r"expected shape \[2, 2, 3, 4, 8\]"):
        kernel(x=np.zeros((2, 1, 3, 4, 8), np.float32), w=w)
    assert "element [n, c, h, v] at [n, c // 8, h, v, c % 8]" in kernel.header


def test_a_size_that_only_blocks_tell_is_given() -> None:
    text = TEXT.replace("schedule pointwise.blocked for any when false {", """
schedule pointwise.all for any when false {
    layout w[k, c] as [k // 8, c, k % 8]""")  # fmt: skip
    x, w, want = arrays()
    kernel = kernel_of(text, "pointwise", "c", "all")
    with pytest.raises(TypeError, match="no shape determines the size K"):
        kernel(x=blocked(x), w=kernel.laid_out("w", w))
    y = kernel(x=blocked(x), w=kernel.laid_out("w", w), K=13)
    np.testing.assert_allclose(kernel.natural("y", y, want.shape), want, rtol=1e-5, atol=1e-5)


def test_lanes_are_contiguous_in_blocks() -> None:
    kernel = kernel_of(TEXT, "pointwise", "avx2", "blocked")
    assert "_mm256_storeu_ps(&y[" in kernel.c_source


def test_a_loop_inside_a_block_has_no_division() -> None:
    text = TEXT.replace(
        "    on y {\n        split k", "    split acc.c by 8 -> co, ci\n    on y {\n        split k"
    )
    source = tdsl.parse(text)["pointwise"].compile(target="c", schedule="blocked").c_source
    assert "ci - 8 * co" in source and "ci % 8" not in source and "ci / 8" not in source


def test_by_method() -> None:
    x, w, want = arrays()
    s = tdsl.parse(TEXT)["pointwise"].schedule(target="c")
    s.layout("x", ("n", "c", "h", "v"), ("n", "c // 8", "h", "v", "c % 8"))
    assert "layout x[n, c, h, v] as [n, c // 8, h, v, c % 8]" in str(s)
    y = tdsl.parse(TEXT)["pointwise"].compile(schedule=s)(x=blocked(x), w=w)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)


def test_variants_of_one_entry_have_one_interface() -> None:
    text = TEXT.replace(
        "pointwise.blocked for any when false {", "pointwise.blocked for any when C >= 8 {"
    )
    with pytest.raises(tdsl.IllegalSchedule, match="lays x out in another way"):
        tdsl.parse(text)["pointwise"].compile(target="c")


GATHER = """
kernel gather(N, V, D) {
    in    t: f32[V, D]
    in    at: i32[N] range 0..V
    inout count: i64[V]
    out   y: f32[N, D]

    y[n, d] = t[at[n], d]
    count[at[n]] += 1
}
schedule gather for any {
    layout t[v, d] as [v // 4, d, v % 4]
    layout count[v] as [v % 4, v // 4]
    layout y[n, d] as [d // 8, n, d % 8]
    vectorize y.d by 8
    parallel y.n
}
"""


@everywhere
def test_data_choose_the_element(on: str) -> None:
    rng = np.random.default_rng(11)
    table, at = rng.uniform(-1, 1, (7, 13)).astype(np.float32), rng.integers(0, 7, 9)
    kernel = kernel_of(GATHER, "gather", on)
    count = kernel.laid_out("count", np.arange(7))
    y = kernel(t=kernel.laid_out("t", table), at=at.astype(np.int32), count=count, V=7, D=13)
    np.testing.assert_array_equal(kernel.natural("y", y, (9, 13)), table[at])
    counted = kernel.natural("count", count, (7,))
    np.testing.assert_array_equal(counted, np.arange(7) + np.bincount(at, minlength=7))


def test_what_is_laid_out_is_an_argument() -> None:
    text = """
kernel f(M, N) {
    in  x: f32[M, N]
    out y: f32[M, N]
    y[i, j] = x[i, j]
}
schedule f for any {
    layout x[i, j] as [i // 8, j, i % 8]
}
"""
    kernel = tdsl.parse(text)["f"].compile(target="c")
    assert isinstance(kernel, CompiledKernel)
    x = np.zeros((3, 4), np.float32)
    with pytest.raises(TypeError, match=r"f has no argument 'Q' \(it has x, y\)"):
        kernel.laid_out("Q", x)
    with pytest.raises(ValueError, match="argument 'x': expected 2 dimensions, got 1"):
        kernel.laid_out("x", x[0])
    with pytest.raises(TypeError, match="argument 'x': expected a NumPy array, got list"):
        kernel.laid_out("x", [[1.0]])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="argument 'x': expected 3 dimensions, got 2"):
        kernel.natural("x", x, (3, 4))


PLAIN = """
kernel copied(M, N) {
    in  x: f32[M, N]
    out y: f32[M, N]
    y[i, j] = x[i, j]
}
schedule copied for any {
    layout x[i, j] as %s
    layout y[i, j] as [i // 8, j, i %% 8]
}
"""


@pytest.mark.parametrize(
    "order",
    ["[i // 8, j, i % 8]", "[j, i]", "[i + 1, j]", "[(i + j) // 4, (i + j) % 4, j]"],
)
@pytest.mark.parametrize("bound", [(), ("M",), ("N",), ("M", "N")])
def test_what_a_kernel_lays_out_it_takes_for_empty_arrays_too(
    order: str, bound: tuple[str, ...]
) -> None:
    for sizes in ({"M": 0, "N": 4}, {"M": 3, "N": 0}, {"M": 0, "N": 0}, {"M": 9, "N": 1}):
        known = {n: v for n, v in sizes.items() if n in bound}
        given = {n: v for n, v in sizes.items() if n not in bound}
        kernel: Any = tdsl.parse(PLAIN % order)["copied"].compile(target="c", sizes=known)
        shape = (sizes["M"], sizes["N"])
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        y = kernel(x=kernel.laid_out("x", x), **given)
        assert y.shape == (-(-shape[0] // 8), shape[1], 8)
        np.testing.assert_array_equal(kernel.natural("y", y, shape), x)
