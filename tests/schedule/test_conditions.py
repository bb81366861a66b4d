"""A `when` over sizes that calls bring says the same as one over sizes that are bound."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tdsl.diagnostics import IllegalSchedule
from tdsl.ir.index import conjuncts
from tdsl.ir.intervals import evaluate
from tdsl.ir.kernel import Const, Expr
from tdsl.ir.printer import print_expr
from tdsl.schedule.choose import holds, size_lets
from tdsl.schedule.conditions import size_condition
from tdsl.syntax.parser import parse_expr
from tdsl.targets.target import target
from tests.schedule.run import front

KERNEL = """
kernel k<r = 3>(M, N, K) {
    let H = N - r + 1
    let W = max(M, 2 * H)
    assume N >= 3, M >= 1
    in x: f32[N, K]
    out y: f32[H, M]
    y[i, j] = x[i, 0] where K >= 1
    y[i, j] = 0.0 where K < 1
}
"""


def translated(text: str, bound: dict[str, int] | None = None) -> Expr:
    made = front(KERNEL, sizes=bound)
    lets = size_lets(made.file, "k")
    return size_condition(parse_expr(text), made.kernel, target("avx2"), lets)


CONDITIONS = [
    "M == 1",
    "4 <= M < 8 <= N",
    "not (M < N or K == 2)",
    "M % 4 == 0 and N // 3 > 1",
    "M * N * K <= 60",
    "H >= 5 and W < 20",
    "min(M, N, K) > 1 and max(M, N) < 9",
    "abs(M - N) <= 2",
    "select(M > N, K, N) > 4",
    "select(M > N, K > 1, N > 4)",
    "select(r == 3, M, N) > lanes(f32)",
    "-M + N > 2 and true",
    "M // K == 2 or M % K == 1",
    "lanes(f32) == 8 and M > 3",
    "lanes(f32) == 4 or M > 3",
    "M != N != K",
]


@pytest.mark.parametrize("text", CONDITIONS)
def test_it_says_what_bound_sizes_say(text: str) -> None:
    made = front(KERNEL)
    lets = size_lets(made.file, "k")
    condition = translated(text)
    answers = set()
    for m, n, k in itertools.product((1, 2, 3, 7, 8, 12), (3, 4, 8, 9), (0, 1, 2, 5)):
        sizes = {"M": m, "N": n, "K": k}
        wanted = holds(parse_expr(text), made.kernel, sizes, target("avx2"), lets)
        assert bool(evaluate(condition, sizes, {})) is wanted, sizes
        answers.add(wanted)
    assert answers == {True, False}


@pytest.mark.parametrize(
    ("text", "bound", "shown"),
    [
        ("lanes(f32) == 8 and M > 3", {}, "M > 3"),
        ("M * r >= 2 and true", {}, "M * 3 >= 2"),
        ("M > 3 and N > 3", {"N": 4}, "M > 3"),
        ("M > 3 or N > 3", {"N": 3}, "M > 3"),
        ("3 < M and N < K < 9", {"N": 3}, "3 < M and (3 < K and K < 9)"),
    ],
)
def test_what_is_known_is_worked_out(text: str, bound: dict[str, int], shown: str) -> None:
    assert print_expr(translated(text, bound)) == shown


@pytest.mark.parametrize("text", ["M > 3 or N > 3", "false", "lanes(f32) == 4 and M > 3"])
def test_what_asks_about_no_size_is_a_constant(text: str) -> None:
    assert isinstance(translated(text, {"N": 4}), Const)


@pytest.mark.parametrize("text", ["(M > 2) == (N > 2)", "M > 1.5", "M > f32"])
def test_sizes_are_compared_with_integers_alone(text: str) -> None:
    with pytest.raises(IllegalSchedule, match="compares sizes with integers"):
        translated(text)


def test_conjuncts() -> None:
    parts: list[Any] = [print_expr(c) for c in conjuncts(translated("M > 1 and (N > 2 and K < 3)"))]
    assert parts == ["M > 1", "N > 2", "K < 3"]
    assert len(conjuncts(translated("M > 1 or N > 2"))) == 1
