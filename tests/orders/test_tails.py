"""`tail shift`: full blocks, some iterations twice, the same values."""

from __future__ import annotations

from typing import Any

import pytest

import tdsl
from tests.orders.oracle import TARGETS, held
from tests.orders.test_directives import CHAIN_CALLS, SEIDEL, STAGES, with_schedule

COPY = "kernel copy(N, M) { in x: f32[N, M] out y: f32[N, M] S: y[i, j] = 2.0 * x[i, j] }"
CALLS: list[Any] = [
    {"N": n, "M": m} for n, m in ((0, 0), (1, 1), (2, 5), (5, 16), (3, 17), (4, 31), (2, 33))
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "directives",
    [
        "split j by 16 -> jo, ji tail shift",
        "split j by 16 -> jo, ji tail shift  vectorize ji",
        "split i by 4 -> io, ii tail shift  unroll ii",
        "tile i, j by 4, 8 -> io, jo, ii, ji tail shift  unroll ii  vectorize ji",
    ],
)
def test_shift(directives: str, target: str) -> None:
    held(with_schedule(COPY, "copy", directives), "copy", CALLS, target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_shift_of_two_statements(target: str) -> None:
    directives = "fuse P.i, Q.i -> i  split P.i by 4 -> io, ii tail shift  vectorize ii"
    held(with_schedule(STAGES, "stages", directives), "stages", CHAIN_CALLS, target=target)


def test_the_last_block_is_full() -> None:
    """No masks where there is at least one block: all blocks are whole vectors."""
    text = COPY.replace("{ in", "{ assume M >= 16  in", 1)
    module = with_schedule(text, "copy", "split j by 16 -> jo, ji tail shift  vectorize ji")
    assert "mask" not in module["copy"].compile("avx512").c_source.split("copy_run")[1]


@pytest.mark.parametrize(
    ("text", "name", "directives", "said"),
    [
        (SEIDEL, "seidel", "split j by 4 -> a, b tail shift", "reads A, which it overwrites"),
        (STAGES, "stages", "split P.i by 4 -> a, b tail shift  parallel P.a", "at the same time"),
        ("kernel sums(N) { in x: i32[N, N] out y: i32[N] y[i] = sum[j](x[i, j]) }", "sums",
         "split i by 4 -> a, b tail shift", "cannot run twice"),
        ("kernel part(N) { inout x: i32[N, N] for i in 0..N, j in 0..i { S: x[i, j] = 0 } }",
         "part", "split j by 4 -> a, b tail shift", "depends on other loops"),
    ],
)  # fmt: skip
def test_refusals(text: str, name: str, directives: str, said: str) -> None:
    with pytest.raises(tdsl.IllegalSchedule, match=said):
        tdsl.parse(text)[name].schedule("c").add(directives)
