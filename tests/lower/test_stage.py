"""Staged arrays: copies that give the right results, registers, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import tdsl
from tdsl.diagnostics import Error, IllegalSchedule
from tdsl.ir import vector as v
from tests.lower.test_lower import items, loads, loops, lowered

MATMUL = """
kernel matmul(M, N, K) {
    in  A: f32[M, K]
    in  B: f32[K, N]
    out C: f32[M, N]
    C[i, j] = sum[k](A[i, k] * B[k, j])
}
schedule matmul for any { DIRECTIVES }
"""
SIZES = ((0, 3, 2), (3, 0, 2), (3, 4, 0), (1, 1, 1), (8, 16, 4), (9, 17, 5), (13, 35, 11))
COPIES = (
    "tile i, j by 8, 16 -> io, jo, ii, ji  split k by 4 -> ko, ki  reorder io, jo, ko, ki, ii, ji"
    "  stage B at ko  stage A at ko  vectorize ji",
    "tile i, j by 4, 16 -> io, jo, ii, ji  reorder io, jo, k, ii, ji  stage C at jo  unroll ii"
    "  vectorize ji",
    "tile i, j by 4, 16 -> io, jo, ii, ji  split k by 4 -> ko, ki  reorder io, jo, ko, ki, ii, ji"
    "  stage C at jo in registers  unroll ii  vectorize ji",
    "split i by 4 -> io, ii  reorder io, k, j, ii  stage A at k in registers  unroll ii"
    "  vectorize j",
)


@pytest.mark.parametrize("target", ["native", "c"])
@pytest.mark.parametrize("directives", COPIES)
def test_staged_products_are_right(directives: str, target: str) -> None:
    module = tdsl.parse(MATMUL.replace("DIRECTIVES", directives), name="stage.tdsl")
    product = module["matmul"].compile(target)
    rng = np.random.default_rng(1)
    for m, n, k in SIZES:
        a = rng.integers(-9, 9, (m, k)).astype(np.float32)
        b = rng.integers(-9, 9, (k, n)).astype(np.float32)
        np.testing.assert_array_equal(product(A=a, B=b), a @ b)


def test_a_stage_in_registers_leaves_the_loop_without_loads_and_stores() -> None:
    part = lowered(MATMUL.replace("DIRECTIVES", COPIES[2]), "matmul")
    body = max(loops(part, "ki"), key=lambda f: len(list(items(f.body)))).body
    assert not loads(body, "C")
    assert not [i for i in items(body) if isinstance(i, v.Store)]


LU = """
kernel lu(N) {
    inout A: f64[N, N]
    for k in 0..N {
        for i in k+1..N { div: A[i, k] = A[i, k] / A[k, k] }
        for i in k+1..N, j in k+1..N { upd: A[i, j] -= A[i, k] * A[k, j] }
    }
}
schedule lu for any { DIRECTIVES }
"""


def test_a_tile_of_lu_in_registers_is_refused() -> None:
    """upd reads A[i, k] and A[k, j] of tiles that hold what upd writes."""
    text = LU.replace("DIRECTIVES", "tile upd.i, upd.j by 4, 8 -> io, jo, ii, ji  unroll ii"
                      "  vectorize ji  stage upd.A at k in registers")  # fmt: skip
    with pytest.raises(Error):
        tdsl.parse(text, name="lu.tdsl")["lu"].compile("c")


def test_a_tile_of_lu_at_its_own_loop_is_refused_or_right() -> None:
    text = LU.replace("DIRECTIVES", "tile upd.i, upd.j by 4, 8 -> io, jo, ii, ji"
                      "  stage upd.A at jo in registers  unroll ii  vectorize ji")  # fmt: skip
    try:
        lu = tdsl.parse(text, name="lu.tdsl")["lu"].compile("native", strict_fp=True)
    except IllegalSchedule:
        return
    for n in (1, 2, 7, 9, 17):
        a = np.random.default_rng(n).standard_normal((n, n)) + 4 * np.eye(n)
        want = a.copy()
        for k in range(n):
            want[k + 1 :, k] /= want[k, k]
            want[k + 1 :, k + 1 :] -= np.outer(want[k + 1 :, k], want[k, k + 1 :])
        np.testing.assert_array_equal(lu(A=a.copy()), want)


@pytest.mark.parametrize(
    ("directives", "word"),
    [
        ("stage B at i in stack", "B"),  # its rows have no constant length
        ("split k by 4 -> ko, ki  stage Z at ko", "Z"),
        ("split k by 4 -> ko, ki  stage A at nowhere", "nowhere"),
    ],
)
def test_refused(directives: str, word: str) -> None:
    text = MATMUL.replace("DIRECTIVES", directives)
    with pytest.raises(Error) as refused:
        tdsl.parse(text, name="stage.tdsl")["matmul"].compile("c")
    assert word in str(refused.value)


@pytest.mark.parametrize("target", ["c", "avx2"])
@pytest.mark.parametrize(
    "directives",
    ["unroll a.j by 3 stage y at a.j_u", "split a.j by 3 -> p, q unroll q stage y at q"],
)
def test_copies_of_a_sequence_stay_whole(directives: str, target: str) -> None:
    text = """
    kernel chain(M, N) {
        in    x: i32[M, N]
        inout y: i32[M]
        for i in 0..M {
            for j in 0..N {
                a: y[i] = y[i] * x[i, j]
                b: y[i] = y[i] + x[i, j]
            }
        }
    }
    schedule chain for any { %s }
    """
    kernel = tdsl.parse(text % directives)["chain"].compile(target=target)
    for m, n in ((1, 1), (3, 7), (2, 6)):
        x = np.random.default_rng(n).integers(-3, 4, (m, n), np.int32)
        y = np.arange(1, m + 1, dtype=np.int32)
        want = y.copy()
        for j in range(n):
            want = want * x[:, j] + x[:, j]
        kernel(x=x, y=y)
        np.testing.assert_array_equal(y, want)
