"""Arguments with strides: views as they lie in memory, and what is refused of them."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import pytest

import tdsl
from tdsl.runtime.guard import guarded
from tdsl.runtime.memory import address
from tests.language.run import compiled, everywhere, interpreted

Array = np.ndarray[Any, Any]

PITCH = """
kernel product(M, N, K, lda, ldc) {
    in  A: f32[M, K] strides [lda, 1]
    in  B: f32[K, N]
    out C: f32[M, N] strides [ldc, 1] align 64
    assume lda >= K, ldc >= N

    C[i, j] = sum[k](A[i, k] * B[k, j])
}
schedule product for any {
    split j by 8 -> jo, ji
    reorder i, jo, k, ji
    vectorize ji
}
"""
AFFINE = """
kernel affine(M, N) {
    in  x: f32[M, N] strides [free, free]
    out y: f32[M, N] strides [rows, cols]

    y[i, j] = 2.0 * x[i, j] + 1.0
}
schedule affine for any {
    split j by 4 -> jo, ji
    vectorize ji
}
"""


def values(*shape: int) -> Array:
    return np.random.default_rng(5).uniform(-1, 1, shape).astype(np.float32)


@everywhere
@pytest.mark.parametrize("columns", [1, 7, 8, 19])
def test_rows_with_a_pitch(on: str, columns: int) -> None:
    a, b = values(5, 40)[:, 3:9], values(6, columns)
    c = np.full((5, 64), 9, np.float32)
    c = c[:, (-address(c) % 64) // 4 :][:, :columns]
    kernel = compiled(PITCH, "product", on)
    assert kernel(A=a, B=b, C=c) is c
    want = a.astype(float) @ b
    np.testing.assert_allclose(c, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(interpreted(PITCH, "product", {"A": a, "B": b})["C"], want, 1e-5)
    assert (c.base[:, columns + 20 :] == 9).all()  # what lies between rows stays


def test_stride_one_is_contiguous_lanes() -> None:
    source = compiled(PITCH, "product", "avx2").c_source
    assert "_mm256_storeu_ps(&C[" in source or "_mm256_store_ps(&C[" in source
    assert "strided" not in source.split("product_run")[1].split("product_workspace")[0]


def views() -> dict[str, Array]:
    x = values(12, 30)
    return {
        "whole": x,
        "columns": x[:, ::2],
        "rows": x[::3],
        "reversed": x[::-1, ::-1],
        "turned": x.T,
        "one row twice": np.broadcast_to(x[:1], (5, 30)),
        "one number": np.broadcast_to(x[:1, :1], (5, 6)),
        "one column": x[:, 3:4],
        "empty": x[:0, ::2],
    }


@everywhere
@pytest.mark.parametrize("name", views())
def test_any_view_is_read_where_it_lies(on: str, name: str) -> None:
    x = views()[name]
    got = compiled(AFFINE, "affine", on)(x=x)
    np.testing.assert_array_equal(got, 2 * x + 1)


@everywhere
@pytest.mark.parametrize("name", ["whole", "columns", "rows", "reversed", "turned", "one column"])
def test_any_view_is_written_where_it_lies(on: str, name: str) -> None:
    y = views()[name]
    around = y.base if y.base is not None else y
    before, x = around.copy(), values(*y.shape)
    assert compiled(AFFINE, "affine", on)(x=x, y=y) is y
    np.testing.assert_array_equal(y, 2 * x + 1)
    y[...] = 0  # all else is as it was
    inside = np.zeros_like(around, bool)
    same = np.ndarray(y.shape, bool, inside, (address(y) - address(around)) // 4,
                      tuple(s // 4 for s in y.strides))  # fmt: skip
    same[...] = True
    np.testing.assert_array_equal(around[~inside], before[~inside])


def test_a_view_at_the_edge_of_memory() -> None:
    """The last row ends where memory does: nothing behind a view is touched."""
    memory = guarded(5 * 32, np.float32)
    x = memory.reshape(5, 32)[:, 27:]  # 5 columns, the last at the forbidden page
    x[...] = values(5, 5)
    np.testing.assert_array_equal(compiled(AFFINE, "affine", "avx2")(x=x), 2 * x + 1)
    first = guarded(5 * 32, np.float32, end=False).reshape(5, 32)[:, 4::-1]
    first[...] = values(5, 5)
    np.testing.assert_array_equal(compiled(AFFINE, "affine", "avx2")(x=first), 2 * first + 1)


REVERSED = """
kernel flip(N) {
    in  x: f64[N] strides [-1]
    out y: f64[N] strides [3]

    y[i] = x[i]
}
"""


@everywhere
def test_strides_that_are_numbers(on: str) -> None:
    kernel, x = compiled(REVERSED, "flip", on), np.arange(7.0)
    y = kernel(x=x[::-1])
    assert y.strides == (24,)
    np.testing.assert_array_equal(y, x[::-1])
    with pytest.raises(ValueError, match=r"'x': expected a stride of -1 elements .* got 1"):
        kernel(x=x)
    with pytest.raises(ValueError, match=r"'y': expected a stride of 3 elements .* got 1"):
        kernel(x=x[::-1], y=np.empty(7))
    one = kernel(x=x[:1])  # one element has any stride
    np.testing.assert_array_equal(one, [0.0])


NHWC = """
kernel planes(N, C, H, W) {
    in  x: f32[N, C, H, W] strides [H * W * C, 1, W * C, C]
    out y: f32[N, C, H, W]

    y[n, c, h, w] = x[n, c, h, w]
}
"""


@everywhere
def test_strides_that_are_products_of_sizes(on: str) -> None:
    x = values(2, 3, 4, 5)
    kernel = compiled(NHWC, "planes", on)
    np.testing.assert_array_equal(kernel(x=x.transpose(0, 3, 1, 2)), x.transpose(0, 3, 1, 2))
    with pytest.raises(ValueError, match="expected a stride of"):
        kernel(x=x)


def test_what_a_call_refuses() -> None:
    kernel = compiled(PITCH, "product", "c")
    a, b = values(4, 6), values(6, 3)
    with pytest.raises(ValueError, match=r"a stride of 1 elements in dimension 1, got 2"):
        kernel(A=values(4, 12)[:, ::2], B=b)
    with pytest.raises(ValueError, match=r"whole elements of 4 bytes"):
        packed = np.zeros((4, 50), np.uint8)
        kernel(A=np.ndarray((4, 6), np.float32, packed, 0, (50, 4)), B=b)
    with pytest.raises(ValueError, match=r"stride of 7 elements in dimension 0, got 6"):
        kernel(A=a, B=b, lda=7)
    memory = np.zeros(4 * 8 + 16, np.float32)
    start = (-address(memory) % 64) // 4
    whole = memory[start:][:32].reshape(4, 8)
    with pytest.raises(ValueError, match=r"'C' and 'A': expected arrays apart in memory"):
        kernel(A=whole[:, 3:8], B=values(5, 3), C=whole[:, :3])
    with pytest.raises(ValueError, match="multiple of 64"):
        kernel(A=a, B=b, C=memory[start + 1 :][:24].reshape(4, 6)[:, :3])


def test_overlapping_rows_of_an_output_are_refused() -> None:
    kernel = compiled(AFFINE, "affine", "c")
    memory = np.zeros(30, np.float32)
    for strides in ((4, 4), (0, 4), (8, 4)):
        y = np.ndarray((4, 5), np.float32, memory, 0, strides)
        with pytest.raises(ValueError, match="'y': expected elements apart in memory"):
            kernel(x=values(4, 5), y=y)
    assert not memory.any()


def status(kernel: Any, sizes: tuple[int, ...], x: Array, xs: tuple[int, ...], y: Array,
           ys: tuple[int, ...]) -> int:  # fmt: skip
    """The entry's own answer, past the checks of Python."""
    library = ctypes.CDLL(kernel.library_path)
    numbers = [ctypes.c_int64(n) for n in sizes]
    arguments: list[Any] = []
    for array, strides in ((x, xs), (y, ys)):
        arguments.append(ctypes.c_void_p(address(array)))
        arguments += [ctypes.c_int64(s) for s in strides]
    result: int = library.affine(*numbers, *arguments, None)
    return result


def test_the_entry_checks_for_itself() -> None:
    kernel = compiled(AFFINE, "affine", "c")
    x, y = np.ones((4, 8), np.float32), np.zeros((4, 8), np.float32)
    assert status(kernel, (4, 8), x, (8, 1), y, (8, 1)) == 0
    assert (y == 3).all()
    assert status(kernel, (4, 8), x, (0, 0), y, (8, 1)) == 0
    assert status(kernel, (4, 8), x, (8, 1), y, (7, 1)) == 4  # rows of y overlap
    assert status(kernel, (4, 8), x, (8, 1), y, (8, 0)) == 4
    assert status(kernel, (4, 8), x, (1 << 40, 1), y, (8, 1)) == 1
    assert status(kernel, (1 << 39, 8), x, (1 << 39, 1), y, (8, 1)) == 1  # 2^80 bytes
    assert status(kernel, (4, 8), y[1:], (8, 1), y[2:], (-8, 1)) == 4  # below its first element
    assert status(kernel, (1, 1), x, (1 << 39, -5), y, (0, 0)) == 0  # one element: any strides
    assert status(kernel, (0, 8), x, (0, 0), y, (0, 0)) == 0


RANGE = """
kernel take(N, V) {
    in  at: i32[N] strides [2] range 0..V
    in  t: f32[V]
    out y: f32[N]

    y[i] = t[at[i]]
}
"""


def test_a_range_is_promised_of_the_elements_alone() -> None:
    kernel = compiled(RANGE, "take", "c")
    t, mixed = values(4), np.full(10, 99, np.int32)
    mixed[::2] = [0, 3, 1, 2, 3]
    np.testing.assert_array_equal(kernel(at=mixed[::2], t=t), t[mixed[::2]])
    mixed[8] = 4
    with pytest.raises(ValueError, match=r"expected values in 0\.\.4, got 4 at \[4\]"):
        kernel(at=mixed[::2], t=t)


WIDE = """
kernel rows(N) {
    in  x: u8[2, N] strides [free, 1]
    out y: u8[N]

    y[i] = x[0, i] + x[1, i]
}
"""


def test_offsets_beyond_four_gigabytes() -> None:
    step = (1 << 32) + 64
    with mmap.mmap(-1, step + 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
                   | getattr(mmap, "MAP_NORESERVE", 0)) as memory:  # fmt: skip
        x = np.ndarray((2, 100), np.uint8, memory, 0, (step, 1))
        x[0], x[1] = np.arange(100), 7
        y = compiled(WIDE, "rows", "c")(x=x)
        np.testing.assert_array_equal(y, np.arange(100) + 7)
        del x


@pytest.mark.neon
def test_on_neon() -> None:
    x = values(12, 30)[::-2, ::3]
    y = np.full((12, 50), 9, np.float32)[::2, 49::-5][:, : x.shape[1]]
    kernel = tdsl.parse(AFFINE, name="t.tdsl")["affine"].compile(target="neon")
    assert kernel(x=x, y=y) is y
    np.testing.assert_array_equal(y, 2 * x + 1)


PLAIN = """
kernel plain(M, N) {
    in  x: f32[M, N]
    out y: f32[M, N]

    y[i, j] = 2.0 * x[i, j] + 1.0
}
"""


def b69_inputs() -> dict[str, Array]:
    bytes_ = np.zeros(4 * 12 + 1, np.uint8)
    odd = np.ndarray((3, 4), np.float32, bytes_, 1)
    odd[...] = values(3, 4)
    one = values(5, 7)[2:3, ::-1]
    return {**views(), "misaligned": odd, "behind": values(6, 5)[1:], "size 1, odd stride": one}


@pytest.mark.parametrize("name", b69_inputs())
def test_b69_without_strides_inputs_are_copied(name: str) -> None:
    x = b69_inputs()[name]
    np.testing.assert_array_equal(compiled(PLAIN, "plain", "c")(x=x), 2 * x + 1)


def test_b69_without_strides_outputs_are_contiguous() -> None:
    kernel, x = compiled(PLAIN, "plain", "c"), values(4, 6)
    memory = np.zeros((8, 12), np.float32)
    repeated = np.ndarray((4, 6), np.float32, memory, 0, (0, 4))
    for y in (memory[:4, :6][::-1], memory[:4, ::2], memory[:4, :6], repeated):
        with pytest.raises(ValueError, match="C-contiguous"):
            kernel(x=x, y=y)
    with pytest.raises(ValueError, match="read-only"):
        kernel(x=x, y=np.broadcast_to(np.float32(0), (4, 6)))
    assert not memory.any()
