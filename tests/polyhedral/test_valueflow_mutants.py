"""Small wrong changes of placed programs are caught, but for those that change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest

from tdsl.diagnostics import BudgetExceeded
from tdsl.polyhedral.valueflow import FlowChanged
from tests.polyhedral.flowmutants import Mutant, mutants
from tests.polyhedral.flowrun import Case, case, is_right, wanted

MOST = 40  # mutants of one program, spread over their kinds

BLUR = """
kernel blur(N, M) {
    in  x: f32[N + 2, M + 2]
    temp p: f32[N + 2, M]
    out y: f32[N, M]
    p[i, j] = x[i, j] + 2.0 * x[i, j + 1] + x[i, j + 2]
    y[i, j] = p[i, j] + 3.0 * p[i + 1, j] + p[i + 2, j]
}
schedule blur for any { DIRECTIVES }
"""
MATMUL = """
kernel matmul(M, N, K) {
    in  A: f32[M, K]
    in  B: f32[K, N]
    out C: f32[M, N]
    C[i, j] = sum[k](A[i, k] * B[k, j])
}
schedule matmul for any { DIRECTIVES }
"""
CONV = """
kernel conv(H, W) {
    in  x: f32[H, W]
    in  w: f32[3, 3]
    out y: f32[H, W]
    y[h, v] = sum[r in 0..3, s in 0..3](padded(x[h + r - 1, v + s - 1], 2.0) * w[r, s])
}
schedule conv for any { DIRECTIVES }
"""
NORM = """
kernel norm(N, M) {
    in  x: f32[N, M]
    temp e: f32[N, M]
    out y: f32[N, M]
    e[i, j] = 2.0 * x[i, j]
    s[i] = sum[j](e[i, j])
    y[i, j] = e[i, j] * s[i]
}
schedule norm for any { DIRECTIVES }
"""
SUMS = """
kernel sums(N) {
    in  x: f32[N + 2, 3]
    temp p: f32[N + 2]
    out y: f32[N]
    p[i] = sum[k in 0..3](x[i, k])
    y[i] = p[i] + 2.0 * p[i + 1] + p[i + 2]
}
schedule sums for any { DIRECTIVES }
"""
CHAIN = """
kernel chain(N) {
    in  x: f32[N + 4]
    temp p: f32[N + 4]
    temp q: f32[N + 2]
    out y: f32[N]
    p[i] = 2.0 * x[i]
    q[i] = p[i] + 3.0 * p[i + 1] + p[i + 2]
    y[i] = q[i] + 3.0 * q[i + 1] + q[i + 2]
}
schedule chain for any { DIRECTIVES }
"""

CASES: Mapping[str, tuple[str, str, str]] = {
    "halo": (BLUR, "tile y.i, y.j by 3, 4 -> io, jo, ii, ji  compute p at y.jo", "NM"),
    "ring": (BLUR, "compute p at y.i  store p at root fold i by 3", "NM"),
    "window": (BLUR, "split y.j by 4 -> jo, ji  reorder jo, y.i, ji  compute p at y.i"
               "  store p at y.jo", "NM"),
    "packs": (MATMUL, "tile i, j by 2, 4 -> io, jo, ii, ji  split k by 3 -> ko, ki"
              "  reorder jo, ko, io, ki, ii, ji  pack B at ko as Q[ki, ji]"
              "  pack A at io as P[ki, ii]", "MNK"),
    "stages": (MATMUL, "tile i, j by 2, 3 -> io, jo, ii, ji  split k by 2 -> ko, ki"
               "  reorder io, jo, ko, ki, ii, ji  stage C at ko  stage B at ko", "MNK"),
    "padded": (CONV, "split v by 4 -> vo, vi  reorder h, vo, r, s, vi  pack x at vo as Q[r, s, vi]",
               "HW"),
    "inside": (NORM, "compute s at y.i  compute e at y.i  store e in y", "NM"),
    "inside whole": (NORM, "store e in y", "NM"),
    "sums": (SUMS, "split y.i by 3 -> io, ii  compute p at y.io", "N"),
    "sliding sums": (SUMS, "compute p at y.i  store p at root fold i by 3", "N"),
    "chain": (CHAIN, "split y.i by 3 -> io, ii  compute q at y.io  compute p at y.io", "N"),
}  # fmt: skip
SIZES: Mapping[str, list[tuple[int, ...]]] = {
    "N": [(n,) for n in (0, 1, 2, 3, 4, 5, 7)],
    "NM": [(0, 3), (1, 1), (3, 5), (4, 4), (5, 7), (2, 9)],
    "HW": [(1, 1), (2, 5), (4, 4), (3, 7)],
    "MNK": [(0, 2, 1), (1, 1, 0), (1, 1, 1), (3, 5, 4), (2, 4, 3), (4, 3, 5), (5, 7, 2)],
}

# What gets through though it is wrong, and why that is known.
SURVIVORS: Mapping[str, Mapping[str, str]] = {}


@cache
def made(name: str) -> Case:
    text, directives, _ = CASES[name]
    return case(text, directives)


@cache
def due(name: str) -> list[tuple[Mapping[str, int], Mapping[str, list[int]]]]:
    *_, letters = CASES[name]
    sizes = [dict(zip(letters, s, strict=True)) for s in SIZES[letters]]
    return [(s, wanted(made(name).base, s)) for s in sizes]


def right(name: str, what: Case) -> bool:
    return all(is_right(what, sizes, values) for sizes, values in due(name))


def caught(mutant: Mutant) -> bool:
    try:
        mutant.case.check()
    except (FlowChanged, BudgetExceeded):
        return True
    return False


def some(found: list[Mutant]) -> list[Mutant]:
    """At most so many, spread evenly over the kinds."""
    kinds: dict[str, list[Mutant]] = {}
    for mutant in found:
        kinds.setdefault(mutant.name.split(" ")[0], []).append(mutant)
    share = max(1, MOST // max(1, len(kinds)))
    return [m for kind in kinds.values() for m in kind[:: -(-len(kind) // share)]]


@pytest.mark.parametrize("name", CASES)
def test_what_is_made_is_right_and_seen_to_be(name: str) -> None:
    assert right(name, made(name))
    made(name).check()


@pytest.mark.parametrize("name", CASES)
def test_mutants_are_caught(name: str) -> None:
    _all_caught(name, some(list(mutants(made(name)))))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_all_mutants_are_caught(name: str) -> None:
    _all_caught(name, list(mutants(made(name))))


def _all_caught(name: str, tried: list[Mutant]) -> None:
    left = [m for m in tried if not caught(m)]
    wrong = [m for m in left if not right(name, m.case)]
    known = SURVIVORS.get(name, {})
    assert {m.where for m in wrong if m.name not in known} == set()
    assert len(wrong) <= 0.05 * len(tried)
