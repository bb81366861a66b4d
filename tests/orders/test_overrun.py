"""`tail overrun`: a temp in whole blocks, what lies beyond its end read by nobody."""

from __future__ import annotations

from typing import Any

import pytest

import tdsl
from tests.orders.oracle import TARGETS, held
from tests.orders.test_directives import with_schedule

BLUR = (
    "kernel blur(N) { in x: f32[N] temp p: f32[N] out y: f32[N]"
    "  p[i] = padded(x[i - 1], 0.0) + padded(x[i + 1], 0.0)  y[i] = p[i] * 0.5 }"
)
SUMS = (
    "kernel sums(N, M) { in x: i32[N, M] temp z: i32[N] out y: i32[N]"
    "  z[i] = sum[k](x[i, k])  y[i] = z[i] + 1 }"
)
CALLS: list[Any] = [{"N": n, "M": 3} for n in (0, 1, 2, 7, 8, 9, 31, 32, 33, 40)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("text", "name", "directives"),
    [
        (BLUR, "blur", "split p.i by 16 -> o, l tail overrun  vectorize l  vectorize y.i"),
        (BLUR, "blur", "split p.i by 4 -> o, l tail overrun  unroll l"),
        (SUMS, "sums", "split z.i by 8 -> o, l tail overrun  reorder z.o, z.k, z.l  unroll z.l"),
        (SUMS, "sums", "split z.i by 16 -> o, l tail overrun  reorder z.o, z.k, z.l  vectorize l"),
    ],
)
def test_overrun(text: str, name: str, directives: str, target: str) -> None:
    calls: list[Any] = [{s: c[s] for s in ("N", "M") if f"{s}]" in text} for c in CALLS]
    held(with_schedule(text, name, directives), name, calls, target=target)


def test_all_blocks_are_whole() -> None:
    """Blocks of p at the borders of x and between them, stored without a test: only loads of the
    first and of the last block ask whether they are inside."""
    module = with_schedule(BLUR, "blur", "split p.i by 16 -> o, l tail overrun  unroll l")
    code = module["blur"].compile("c").c_source.split("blur_run")[1]
    first, middle, last = code.split("for (int64_t i")[0].split("for (int64_t o")[1:]
    assert all(part.count("p[") == 16 and "if (" not in part for part in (first, middle, last))
    assert ["?" in part for part in (first, middle, last)] == [True, False, True]


@pytest.mark.parametrize(
    ("text", "name", "directives", "said"),
    [
        (BLUR, "blur", "split y.i by 4 -> a, b tail overrun", "y is an argument"),
        (SUMS, "sums", "split z.k by 4 -> a, b tail overrun", "the terms of z end there"),
        (BLUR, "blur", "fuse p.i, y.i -> i  split i by 4 -> a, b tail overrun", "several"),
        ("kernel part(N) { in x: i32[N, N] temp t: i32[N, N] out y: i32[N, N]"
         "  t[i, j] = x[i, j] where j <= i  t[i, j] = 0 where j > i  y[i, j] = t[i, j] }",
         "part", "split t_1.j by 4 -> a, b tail overrun", "depends on other loops"),
    ],
)  # fmt: skip
def test_refusals(text: str, name: str, directives: str, said: str) -> None:
    with pytest.raises(tdsl.IllegalSchedule, match=said):
        schedule = tdsl.parse(text)[name].schedule("c")
        schedule.add(directives)
        schedule.complete()
