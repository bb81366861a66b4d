"""`compute` and `finish`: stages at their uses, by value against NumPy, for bound sizes too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tdsl
from tdsl.built import GeneratedKernel
from tdsl.diagnostics import Error
from tests.language.run import everywhere, lowered

Array = np.ndarray[Any, Any]

BLUR = """
kernel blur(H, W) {
    assume H >= 3, W >= 3
    in  x: f32[H, W]
    out y: f32[H - 2, W - 2]

    b[i, j] = x[i, j] + x[i, j + 1] + x[i, j + 2]
    y[i, j] = b[i, j] + b[i + 1, j] + b[i + 2, j]
}
schedule blur for any {
    DIRECTIVES
}
"""
DENSE = """
kernel dense(M, N, K) {
    in  A: f32[M, K]
    in  B: f32[K, N]
    in  bias: f32[N]
    out Y: f32[M, N]

    C[i, j] = sum[k](A[i, k] * B[k, j])
    Y[i, j] = max(C[i, j] + bias[j], 0.0)
}
schedule dense for any {
    DIRECTIVES
}
"""
TILE = """
    tile Y.i, Y.j by 2, lanes(f32) -> io, jo, ii, ji
    unroll ii
    vectorize ji
    compute C at Y.jo in registers
    on C {
        reorder k, i, j
        unroll i
        vectorize j
    }
"""
BLOCKS = "split C.k by 4 -> ko, ki  reorder ko, C.i, C.j, ki  finish Y at C.i  store C in Y"

MIRRORED = """
kernel mirrored(M, N) {
    assume M >= 1, N >= 1
    in x: i16[M, N]
    out y: i16[N, M]
    temp t: i16[N, M]
    t[j, i] = x[i, j] + 1
    y[j, i] = t[j, i] * 2 + select(i > j, t[j, 0], t[0, i])
}
schedule mirrored for any {
    DIRECTIVES
}
"""


def whole(rng: np.random.Generator, *shape: int) -> Array:
    """Small integers, whose sums are exact in every order."""
    return rng.integers(-4, 5, shape).astype(np.float32)


def compiled(text: str, directives: str, on: str, sizes: Mapping[str, int] | None = None) -> Any:
    module = tdsl.parse(text.replace("DIRECTIVES", directives))
    (name,) = module.kernels
    return module[name].compile(target=on, sizes=sizes or {})


@everywhere
@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize(
    "directives",
    [
        "compute b at y.i",
        "compute b at y.j",
        "compute b at y.i  vectorize b.j  vectorize y.j",
        "split y.i by 4 -> io, ii  compute b at y.io  parallel io  vectorize b.j",
        "tile y.i, y.j by 4, 8 -> io, jo, ii, ji  compute b at y.jo in stack  vectorize ji",
    ],
)
def test_halos(on: str, directives: str, bound: bool) -> None:
    for h, w in [(7, 10)] if bound else [(3, 3), (4, 5), (7, 10), (6, 18), (11, 27)]:
        x = whole(np.random.default_rng(h), h, w)
        b = x[:, :-2] + x[:, 1:-1] + x[:, 2:]
        blur = compiled(BLUR, directives, on, {"H": h, "W": w} if bound else None)
        np.testing.assert_array_equal(blur(x=x), b[:-2] + b[1:-1] + b[2:])


@everywhere
@pytest.mark.parametrize("directives", [TILE, BLOCKS])
@pytest.mark.parametrize("bound", ["", "N", "MNK"])
def test_epilogues(on: str, directives: str, bound: str) -> None:
    """Bound sizes are such that a loop has one iteration."""
    shapes = [(5, 9, 7), (2, 8, 5), (0, 9, 3), (1, 1, 1), (4, 16, 0), (3, 33, 4)]
    for m, n, k in shapes[:2] if bound else shapes:
        rng = np.random.default_rng(m)
        a, b, bias = whole(rng, m, k), whole(rng, k, n), whole(rng, n)
        sizes = {name: {"M": m, "N": n, "K": k}[name] for name in bound}
        dense = compiled(DENSE, directives, on, sizes)
        np.testing.assert_array_equal(dense(A=a, B=b, bias=bias), np.maximum(a @ b + bias, 0))


@everywhere
@pytest.mark.parametrize(
    "directives",
    [
        "compute t at y.j  finish y at t.i",
        "split y.i by 16 -> io, ii  compute t at y.io  vectorize y.ii",
        "tile y.i, y.j by 3, 16 -> io, jo, ii, ji  compute t at y.jo",
    ],
)
def test_what_is_computed_again(on: str, directives: str) -> None:
    """An epilogue reads what its own iteration computed; a value is the same wherever it is."""
    kernel = compiled(MIRRORED, directives, on)
    for m, n in [(1, 1), (3, 2), (17, 5), (2, 37), (33, 19)]:
        x = np.random.default_rng(m).integers(-99, 99, (m, n)).astype(np.int16)
        t = x.T + 1
        i, j = np.arange(m)[None, :], np.arange(n)[:, None]
        expected = 2 * t + np.where(i > j, t[:, :1], t[:1, :])
        np.testing.assert_array_equal(kernel(x=x), expected.astype(np.int16))


def test_a_tile_is_one_scope_where_its_loop_runs_once() -> None:
    module = tdsl.parse(DENSE.replace("DIRECTIVES", TILE))
    code = module["dense"].compile(target="avx2", sizes={"N": 8}).c_source
    assert "C[" not in code
    assert code.count("C_r0 = _mm256_set1_ps(0.0f)") == 2  # two rows, and the last one alone


def test_a_tile_that_leaves_its_operands_no_registers_is_refused() -> None:
    tile = TILE.replace("by 2, lanes(f32)", "by 8, 4 * lanes(f32)")
    module = tdsl.parse(DENSE.replace("DIRECTIVES", tile), name="dense")
    with pytest.raises(tdsl.IllegalSchedule, match=r"takes 32 of the 32 vector registers"):
        module["dense"].compile(target="avx512")


def test_a_tile_leaves_registers_to_its_operands() -> None:
    """While a loop runs; what is straight-line code is ordered by the C compiler."""
    large = TILE.replace("by 2, lanes(f32)", "by 8, 2 * lanes(f32)")
    with pytest.raises(tdsl.IllegalSchedule, match="16 of the 16 vector registers of avx2"):
        compiled(DENSE, large, "avx2")
    straight = large.replace("unroll i\n", "unroll i, k\n").replace("reorder k, i, j", "")
    dense = compiled(DENSE, straight, "avx2", {"K": 3})
    if isinstance(dense, GeneratedKernel):
        return
    rng = np.random.default_rng(3)
    a, b, bias = whole(rng, 9, 3), whole(rng, 3, 17), whole(rng, 17)
    np.testing.assert_array_equal(dense(A=a, B=b, bias=bias), np.maximum(a @ b + bias, 0))


@everywhere
@pytest.mark.parametrize("known", ["when K == 1", ""])
def test_a_loop_of_one_iteration_may_be_named(on: str, known: str) -> None:
    """Where sizes leave k one value its loop stays: `reorder` and packs find it."""
    text = DENSE.replace("DIRECTIVES", TILE + "pack B at Y.jo as [k, j]")
    if known:
        text = text.replace("for any", f"for any {known}") + "schedule dense.rest for any { }"
    sizes = {} if known else {"K": 1}
    kernel = tdsl.parse(text)["dense"].compile(target=on, sizes=sizes)
    rng = np.random.default_rng(5)
    for m, n, k in ((3, 21, 1), (1, 1, 1), (0, 5, 1), *([(3, 21, 4)] if known else [])):
        a, b, bias = whole(rng, m, k), whole(rng, k, n), whole(rng, n)
        np.testing.assert_array_equal(kernel(a, b, bias), np.maximum(a @ b + bias, 0))


def test_no_epilogue_where_many_instances_wait_for_one_iteration() -> None:
    """A temp of a `for` body: its elements are written last in the last iteration."""
    text = """
kernel rowtemp(H, W) {
    assume W >= 2
    in  x: f32[H, W]
    out y: f32[H, W]
    for i in 0..H {
        temp row: f32[W]
        row[j]  = 2.0 * x[i, j]
        y[i, j] = row[j] + row[mirror(j + 1, W)] - row[W - 1 - j]
    }
}

schedule rowtemp for any {
    finish y at row.j
}
"""
    with pytest.raises(Error, match="many of its instances wait for the same iteration") as caught:
        lowered(text, "rowtemp")
    assert "finish y at row.j\n" in str(caught.value)
    assert "help: leave out `finish y at row.j`" in str(caught.value)
    lowered(text.replace("finish y at row.j", ""), "rowtemp")
