"""`peel` and `factor`: new statements that together are the old one."""

from __future__ import annotations

from typing import Any

import pytest

import tdsl
from tests.orders.oracle import TARGETS, held
from tests.orders.test_directives import (
    CALLS,
    CHAIN_CALLS,
    SEIDEL,
    STAGES,
    outline,
    with_schedule,
)

GEMV = """
kernel gemv(M, N) {
    in  A: f64[M, N]
    in  x: f64[N]
    out y: f64[M]
    y[i] = sum[j](A[i, j] * x[j])
}
"""
GEMV_CALLS: list[Any] = [
    {"M": m, "N": n} for m, n in ((0, 0), (1, 0), (0, 3), (1, 1), (3, 8), (5, 17), (4, 33), (9, 64))
]
TRIANGLE = """
kernel triangle(N) {
    in  A: i32[N, N]
    out y: i32[N]
    out m: i32[N]
    y[i] = sum[j in 0..i + 1](A[i, j])
    m[i] = max[j in 0..i + 1](A[i, j])
}
"""
COUNTS: list[Any] = [{"N": n} for n in (0, 1, 2, 3, 4, 5, 9, 17)]
DOWN = """
kernel down(N) {
    inout y: f64[N]
    in    x: f64[N, N]
    for i in N-1 downto 0, k in 0..N step 2 { S: y[i] -= x[i, k] }
}
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("text", "name", "directives", "calls"),
    [
        (GEMV, "gemv", "peel y.j first 1", GEMV_CALLS),
        (GEMV, "gemv", "peel y.j first 1 last 1  vectorize y_first.i", GEMV_CALLS),
        (GEMV, "gemv", "peel y.i first 1 last 2  vectorize y.i", GEMV_CALLS),
        (GEMV, "gemv", "reorder j, i  peel y.j last 3", GEMV_CALLS),
        (GEMV, "gemv", "split j by 4 -> jo, ji  peel jo first 1 last 1  unroll y.ji", GEMV_CALLS),
        (TRIANGLE, "triangle", "peel y.j first 2  peel m.j last 1  reverse m_last.i", COUNTS),
        (SEIDEL, "seidel", "peel i first 1 last 1", CALLS),
        (SEIDEL, "seidel", "peel t first 2", CALLS),
        (STAGES, "stages",
         "fuse P.i, Q.i, R.i -> i  peel i first 1 last 2  vectorize P.i", CHAIN_CALLS),
        (DOWN, "down", "peel i first 1  peel S.k last 1", COUNTS),
    ],
)  # fmt: skip
def test_peel(text: str, name: str, directives: str, calls: list[Any], target: str) -> None:
    held(with_schedule(text, name, directives), name, calls, target=target)


def test_the_parts_are_statements() -> None:
    s = tdsl.parse(STAGES)["stages"].schedule("c")
    s.fuse("P.i", "Q.i", into="i")
    s.peel("P.i", first=1, last=2)
    assert outline(s.tree) == "i(P_first Q_first) i(P Q) i(P_last Q_last) i(R)"
    assert "peel P.i first 1 last 2" in str(s)
    s.distribute("P_last.i")
    assert outline(s.tree) == "i(P_first Q_first) i(P Q) i(P_last) i(Q_last) i(R)"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "directives",
    [
        "split j by 8 -> jo, ji  factor ji -> P  vectorize P.ji",
        "split j by 8 -> jo, ji  factor ji -> P  reorder P.jo, P.i",
        "split j by 8 -> jo, ji  factor jo -> P  parallel P.jo",
        "split j by 8 -> jo, ji  factor jo -> P  reorder P.jo, P.i  parallel P.jo",
        "split j by 3 -> jo, ji  reorder jo, i, ji  factor y.jo -> P  unroll P.ji",
    ],
)
def test_factor_of_floats(directives: str, target: str) -> None:
    module = with_schedule(GEMV, "gemv", directives)
    held(module, "gemv", GEMV_CALLS, target=target, strict_fp=False, tolerance=1e-12)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "directives",
    [
        "split y.j by 4 -> jo, ji  factor y.jo -> P",
        "split m.j by 4 -> jo, ji  factor m.ji -> P  reverse P.jo",
        "split y.j by 4 -> jo, ji  factor y.jo -> P  split m.j by 2 -> a, b  factor m.a -> Q",
    ],
)
def test_factor_of_integers_is_exact(directives: str, target: str) -> None:
    held(with_schedule(TRIANGLE, "triangle", directives), "triangle", COUNTS, target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_factor_of_an_update_in_a_nest(target: str) -> None:
    text = "kernel sub(N) { inout y: f64[N] in x: f64[N, N] for k in 0..N, i in 0..N "
    text += "{ S: y[i] -= x[i, k] } }"
    module = with_schedule(text, "sub", "split k by 3 -> ko, ki  factor ki -> P")
    held(module, "sub", COUNTS, target=target, strict_fp=False, tolerance=1e-12)


@pytest.mark.parametrize(
    ("text", "name", "directives", "said"),
    [
        (GEMV, "gemv", "factor y.j -> P", "the only loop of the reduction"),
        (GEMV, "gemv", "factor y.i -> P", "no loop of a reduction"),
        (GEMV, "gemv", "split j by 4 -> a, b  factor y.a -> x", "already something called x"),
        (GEMV, "gemv", "peel y.j first 0", "takes no iteration off"),
        (GEMV, "gemv", "parallel y.i  peel y.i first 1", "parallel already"),
        (SEIDEL, "seidel", "factor S.i -> P", "no reduction"),
    ],
)
def test_refusals(text: str, name: str, directives: str, said: str) -> None:
    with pytest.raises(tdsl.IllegalSchedule, match=said):
        tdsl.parse(text)[name].schedule("native").add(directives)


def test_strict_fp_refuses_factor() -> None:
    s = tdsl.parse(GEMV)["gemv"].schedule("native", strict_fp=True)
    s.split("y.j", by=4, into=("jo", "ji"))
    with pytest.raises(tdsl.IllegalSchedule, match="strict_fp keeps the order"):
        s.factor("y.jo", into="P")
