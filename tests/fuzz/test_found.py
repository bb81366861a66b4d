"""Kernels under schedules that were compiled wrongly, or not at all, when they were drawn."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from tdsl import driver
from tdsl.syntax.parser import parse
from tdsl.targets import native
from tdsl.targets.target import TARGETS
from tests.cases.harness import functions
from tests.fuzz.execute import differences

# name: text, bound sizes, sizes of calls
FOUND: dict[str, tuple[str, dict[str, int], list[str]]] = {
    # S.init and S name one element by other expressions: y[k] where l2 == k, and y[l2].
    "one_element_by_two_names": (
        """kernel NAME(M, N, K) {
            assume M >= 1, N >= 1, K >= 1
            in x3: i32[M]
            out y: i32[M]
            S: y[i] = max[k in 0..K, j in 0..N](x3[i] % 7 + i32(k))
        }
        schedule NAME for any {
            split S.i by 16 -> l1, l2  reorder l2, j  reorder k, l2  skew k by l2  unroll j by 3
        }""",
        {},
        ["M 1 N 1 K 1", "M 19 N 4 K 3"],
    ),
    # The loops run S at i = 0 apart: its element has another name there.
    "one_statement_at_two_places": (
        """kernel NAME(M, N, K) {
            in x: i32[M, N, K]
            out y: i32[M, K]
            S: y[i, k] = sum[j in 0..min(2, N) where j != i](x[i, j, k])
        }
        schedule NAME for any { }""",
        {},
        ["M 3 N 2 K 4", "M 5 N 1 K 3", "M 1 N 3 K 1"],
    ),
    "balanced_blocks_that_were_shifted": (
        """kernel NAME(M, N) {
            in x: f64[N]
            out y: f64[M, N]
            S: y[i, j] = x[j]
        }
        schedule NAME for any { split i by 4 -> o, l tail balanced  unroll l  shift o by 1 }""",
        {"M": 17},
        ["N 1", "N 5"],
    ),
    "balanced_blocks_of_a_triangle": (
        """kernel NAME(M, K) {
            in x: i32[K]
            out y: i32[M]
            S: y[i] = sum[k in 0..min(i + 1, K)](x[k])
        }
        schedule NAME for any { split k by 4 -> o, l tail balanced  unroll l by 3 }""",
        {"M": 3, "K": 3},
        [""],
    ),
    "blocks_that_were_reversed": (
        """kernel NAME(M, N) {
            in x: u64[M]
            out y: u64[M, N]
            S: y[i, j] = x[i] where i == j
            T: y[i, j] = 1 where i != j
        }
        schedule NAME for any { vectorize T.i  reverse T.i }""",
        {},
        ["M 9 N 5", "M 17 N 17"],
    ),
    # Bounds and guards with a stride, of elements that are narrower than int64.
    "a_bound_on_every_second_lane": (
        """kernel NAME(M) {
            in x: i16[M]
            out y: i16[M]
            y[i] = padded(x[2 * i - 1], 1) + padded(x[M - 3 * i], 2)
        }
        schedule NAME for any { vectorize i }""",
        {},
        ["M 1", "M 31", "M 33", "M 40"],
    ),
    "a_guard_on_every_second_lane": (
        """kernel NAME(M) {
            in x: u8[M]
            inout A: u8[M + 2, 5]
            for i in 0..M step 2, j in 0..3 { S: A[i + 1, j + 1] -= A[i + 2, j + 1] }
        }
        schedule NAME for any {
            vectorize S.i by lanes(f32)  split i by 5 -> o, l  reorder l, j, o
        }""",
        {},
        ["M 1", "M 40"],
    ),
    # A register must not be loaded where its element lies outside.
    "a_padded_read_staged_in_registers": (
        """kernel NAME(M, N) {
            in x: u8[M, N]
            out y: u8[M, N]
            S: y[i, j] = padded(x[i, j - 1], 1)
        }
        schedule NAME for any { split j by 4 -> o, l  unroll l }""",
        {},
        ["M 2 N 9"],
    ),
    "rows_of_a_tile_that_end_in_the_loop": (
        """kernel NAME(M, N) {
            in x: i32[N]
            out y: i32[M]
            S: y[i] = sum[j in 0..min(i + 1, N)](x[j])
        }
        schedule NAME for any { reverse i  tile j, i by 4, 5 -> a, b, c, d  vectorize d by 4 }""",
        {},
        ["M 7 N 9", "M 21 N 8"],
    ),
    # The terms stand at two places, and a reduction of integers may take them in any order.
    "terms_of_two_places_reversed": (
        """kernel NAME(M, N) {
            in x: i32[M]
            out y: i32[N]
            S: y[j] = sum[i in 0..M where i != j](x[i])
        }
        schedule NAME for any { split i by 3 -> o, l  reverse o }""",
        {},
        ["M 7 N 9", "M 4 N 2", "M 0 N 1"],
    ),
    "partial_sums_of_narrow_vectors": (
        """kernel NAME(N) {
            in x: i32[N]
            out s: i32
            s = sum[k](x[k])
        }
        schedule NAME for any { split k by 8 -> o, l tail narrow  vectorize l }""",
        {},
        ["N 3", "N 15", "N 16"],
    ),
    # What is computed inside a vector loop is shared by its lanes.
    "lanes_share_what_is_computed_there": (
        """kernel NAME(N, M) {
            in x: u8[N + 2, M]
            out y: u8[N, M]
            t[i, j] = x[i, j] + x[i, j]
            y[i, j] = t[i, j] + t[i + 2, j]
        }
        schedule NAME for any { vectorize y.j by 16  compute t at y.j }""",
        {"M": 3},
        ["N 21", "N 1"],
    ),
    "lanes_around_the_loop_of_a_stage": (
        """kernel NAME(N, C) {
            in x: i32[N, C]
            const w: i32[3, C]
            out y: i32[N, C]
            a[i, c] = sum[r](w[r, c] * padded(x[i + r - 1, c], 1))
            y[i, c] = max(a[i, c], 0)
        }
        schedule NAME for any { reorder y.c, y.i  vectorize y.c  compute a at y.i in registers }""",
        {},
        ["N 21 C 19", "N 1 C 3"],
    ),
    # Outside of its instances a coordinate has several values.
    "a_stage_in_balanced_blocks": (
        """kernel NAME(N, M) {
            in x: i16[M, 2 * N + 4]
            out y: i16[M, N]
            temp t: i16[M, 2 * N + 4]
            t[i, j] = x[i, j] * 2 + 1
            y[i, j] = t[i, 2 * j] + x[i, j]
        }
        schedule NAME for any {
            tile y.j, y.i by 16, 2 -> l1, l2, l3, l4 tail balanced
            compute t at y.l2
        }""",
        {},
        ["N 21 M 3", "N 33 M 1", "N 1 M 2"],
    ),
    "blocks_that_overlap_around_a_stage": (
        """kernel NAME(H, W) {
            in x: i32[H + 2, W + 2]
            out y: i32[H, W]
            b[i, j] = x[i, j] + x[i, j + 1] * x[i, j + 2]
            y[i, j] = b[i, j] + b[i + 1, j] + b[i + 2, j]
        }
        schedule NAME for any {
            compute b at y.i
            split b.j by 5 -> bo, bi tail shift
            split y.j by 4 -> yo, yi tail shift
            vectorize bi, yi
        }""",
        {},
        ["H 21 W 19", "H 3 W 3", "H 1 W 1"],
    ),
    "a_copy_of_a_copy": (
        """kernel NAME(N) {
            in x: i32[N + 2]
            out y: i32[N]
            y[i] = x[i] + x[i + 2]
        }
        schedule NAME for any {
            pack x[i] at root as P[i]
            pack x[i] at root as Q[i]
            split y.i by 8 -> io, ii
            stage P at io
        }""",
        {},
        ["N 21", "N 1"],
    ),
}
HERE = tuple(dict.fromkeys((native().base, "c")))


@functools.cache
def built(target: str) -> dict[str, Any]:
    """All of them as one C file; the errors of those that are refused."""
    parts: dict[str, Any] = {}
    for name, (text, bound, _) in FOUND.items():
        options = driver.Options(name, TARGETS[target], bound, strict_fp=True)
        try:
            parts[name] = driver.run(parse(text.replace("NAME", name), "found.tdsl"), options)
        except Exception as error:  # it fails its own test
            parts[name] = error
    good = {n: p for n, p in parts.items() if isinstance(p, driver.Compilation)}
    made = functions(list(good.values()), TARGETS[target], "found")
    calls = dict(zip(good, made, strict=True))
    return {name: (part, calls.get(name)) for name, part in parts.items()}


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("name", FOUND)
def test_found(name: str, target: str) -> None:
    part, function = built(target)[name]
    if isinstance(part, Exception):
        raise part
    bound, calls = FOUND[name][1:]
    sizes = []
    for words in (call.split() for call in calls):
        sizes.append({**dict(zip(words[::2], map(int, words[1::2]), strict=True)), **bound})
    assert not differences(part.kernel, function, sizes, True, 1)
