"""Arrays where schedules put them: the right results on every target, in the memory asked for."""

from __future__ import annotations

from typing import Any

import islpy as isl
import numpy as np
import pytest

import tdsl
from tdsl import driver
from tdsl.ir.kernel import Const
from tdsl.runtime.threads import max_threads, set_threads
from tdsl.targets import runnable, target
from tests.language.run import lowered


def targets() -> list[Any]:
    """Those that run here, and neon where it is emulated."""
    found = []
    for name in ("c", "avx2", "avx512", "neon"):
        reason = runnable(target(name))
        marks = [pytest.mark.neon] if name == "neon" and reason is not None else []
        if reason is None or marks:
            found.append(pytest.param(name, marks=marks))
    return found


def compiled(text: str, kernel: str, on: str, variant: str) -> Any:
    return tdsl.parse(text, name=f"{kernel}.tdsl")[kernel].compile(on, schedule=variant)


SIZES = (3, 4, 5, 63, 64, 65, 130)

BLUR = """
kernel blur(H, W) {
    assume H >= 3, W >= 3
    in  src: f32[H, W]
    out dst: f32[H - 2, W - 2]
    bx[i, j]  = src[i, j] + src[i, j + 1] + src[i, j + 2]
    dst[i, j] = bx[i, j] + bx[i + 1, j] + bx[i + 2, j]
}
schedule blur.ring for any when false {
    split dst.i by 64 -> io, ii
    compute bx at dst.ii
    store bx at dst.io fold i by 3
    vectorize dst.j
    vectorize bx.j
    parallel io
}
schedule blur.window for any when false {
    split dst.i by 64 -> io, ii
    compute bx at dst.ii
    store bx at dst.io in scratch
    vectorize dst.j
    vectorize bx.j
}
schedule blur.whole for any when false {
    compute bx at dst.i
    store bx at root fold i by 4
    vectorize dst.j
    vectorize bx.j
}
schedule blur.tiled for any when false {
    tile dst.i, dst.j by 32, 256 -> io, jo, ii, ji
    compute bx at dst.jo
    vectorize ji
    vectorize bx.j
    parallel io
}
schedule blur.large for any when false {
    tile dst.i, dst.j by 100, 256 -> io, jo, ii, ji
    compute bx at dst.jo
    vectorize ji
    vectorize bx.j
    parallel io
}
schedule blur.columns for any when false {
    tile dst.i, dst.j by 8, 16 -> io, jo, ii, ji
    compute bx at dst.jo
    store bx as [j, i]
    parallel io
}
schedule blur.tiles for any when false {
    store bx as [j // 16, i, j % 16]
    vectorize bx.j
    vectorize dst.j
}
"""


def blurred(src: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> object:
    rows = src[:, :-2] + src[:, 1:-1] + src[:, 2:]
    return rows[:-2] + rows[1:-1] + rows[2:]


@pytest.mark.parametrize("on", targets())
@pytest.mark.parametrize(
    "variant", ["ring", "window", "whole", "tiled", "large", "columns", "tiles"]
)
def test_blurs_are_right(variant: str, on: str) -> None:
    fast = compiled(BLUR, "blur", on, variant)
    for h in SIZES:
        for w in (3, 18, 67, 300):
            src = np.random.default_rng(h * w).integers(-99, 99, (h, w)).astype(np.float32)
            np.testing.assert_array_equal(fast(src=src), blurred(src))


def test_where_rows_are() -> None:
    def bx(variant: str) -> tuple[str, int | None]:
        array = lowered(BLUR, "blur", "c", variant).lowered.program.arrays["bx"]
        first = array.shape[0]
        return array.role, int(first.value) if isinstance(first, Const) else None

    assert bx("ring") == ("scratch", 3)
    assert bx("window") == ("scratch", 66)
    assert bx("whole") == ("temp", 4)
    assert bx("tiled") == ("stack", 34)
    assert bx("large") == ("scratch", 102)  # 102 * 256 elements are too many for the stack
    assert bx("columns") == ("stack", 16)


def test_what_slides_is_computed_once() -> None:
    """H + 2 * blocks rows of bx, not 3 * H."""
    program = lowered(BLUR, "blur", "c", "ring").lowered.program
    domain = program.statements["bx"].domain
    for param, size in zip(program.params.values(), (130, 3), strict=True):
        at = domain.find_dim_by_name(isl.dim_type.param, param)
        domain = domain.fix_val(isl.dim_type.param, at, size)
    assert domain.count_val().to_python() == 128 + 2 * 2


def test_each_thread_has_a_slice() -> None:
    c = lowered(BLUR, "blur", "c", "ring")
    source = driver.emit("blur", [c]).c_source
    run = source[source.index("static void blur_run") :]
    assert "num_threads(threads)" in run
    assert "bx_slices + tdsl_thread() * bx_slice" in run
    serial = driver.emit("blur", [lowered(BLUR, "blur", "c", "window")]).c_source
    assert "tdsl_thread" not in serial


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_workspace_has_room_for_all_threads(threads: int) -> None:
    fast = compiled(BLUR, "blur", "c", "ring")
    before, usual = fast.workspace_bytes(H=300, W=40), max_threads()
    src = np.random.default_rng(1).integers(-99, 99, (300, 40)).astype(np.float32)
    set_threads(threads)
    try:
        assert fast.workspace_bytes(H=300, W=40) == before
        np.testing.assert_array_equal(fast(src=src), blurred(src))
    finally:
        set_threads(usual)


SOFTMAX = """
kernel softmax(M, N) {
    assume N >= 1
    in   x: f32[M, N]
    temp e: f32[M, N]
    out  y: f32[M, N]
    m[i]    = max[j](x[i, j])
    e[i, j] = exp(x[i, j] - m[i])
    z[i]    = sum[j](e[i, j])
    r[i]    = 1.0 / z[i]
    y[i, j] = e[i, j] * r[i]
}
schedule softmax.rows for any when false {
    reassociate z
    fuse m.i, e.i, z.i, r.i, y.i -> row
    split j by 4 * lanes(f32) -> jo, ji
    vectorize ji
    fuse e.jo, z.jo -> jp
    store e in y
    parallel row
}
schedule softmax.plain for any when false { store e in y }
"""


@pytest.mark.parametrize("on", targets())
@pytest.mark.parametrize("variant", ["rows", "plain"])
def test_exponentials_in_the_memory_of_the_result(variant: str, on: str) -> None:
    fast = compiled(SOFTMAX, "softmax", on, variant)
    assert "e" not in lowered(SOFTMAX, "softmax", "c", variant).lowered.program.arrays
    for n in (1, *SIZES):
        x = np.random.default_rng(n).standard_normal((5, n)).astype(np.float32) * 4
        e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
        want = e / e.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(fast(x=x), want, rtol=4e-6, atol=1e-7)


STAGED = """
kernel product(M, N, K) {
    in  A: f32[M, K]
    in  B: f32[K, N]
    out C: f32[M, N]
    C[i, j] = sum[k](A[i, k] * B[k, j])
}
schedule product.symbolic for any when false {
    split j by 16 -> jo, ji
    reorder jo, i, k, ji
    stage B at jo
    vectorize ji
    parallel jo
}
schedule product.turned for any when false {
    tile i, k by 8, 4 -> io, ko, ii, ki
    reorder io, ko, ii, ki, j
    stage A at ko as [k, i]
    stage B at ko as [j // 16, k, j % 16]
    vectorize j
}
schedule product.named for any when false {
    split i by 8 -> io, ii
    stage A[row, term] at io as [term, row] in scratch
    stage C at io as [j, i]
}
"""


@pytest.mark.parametrize("on", targets())
@pytest.mark.parametrize("variant", ["symbolic", "turned", "named"])
def test_staged_products_are_right(variant: str, on: str) -> None:
    fast = compiled(STAGED, "product", on, variant)
    rng = np.random.default_rng(1)
    for m, n, k in ((0, 3, 2), (3, 4, 0), (1, 1, 1), (8, 16, 4), (9, 17, 5), (20, 67, 21)):
        a = rng.integers(-9, 9, (m, k)).astype(np.float32)
        b = rng.integers(-9, 9, (k, n)).astype(np.float32)
        np.testing.assert_array_equal(fast(A=a, B=b), a @ b)


def test_copies_are_where_they_fit() -> None:
    arrays = lowered(STAGED, "product", "c", "symbolic").lowered.program.arrays
    assert arrays["B_s"].role == "scratch" and len(arrays["B_s"].shape) == 2
    arrays = lowered(STAGED, "product", "c", "turned").lowered.program.arrays
    assert arrays["A_s"].role == "stack"
    assert [e.value for e in arrays["A_s"].shape if isinstance(e, Const)] == [4, 8]
    assert arrays["B_s"].role == "scratch" and len(arrays["B_s"].shape) == 3
