"""Index expressions and conditions against Python's own arithmetic, and back to text."""

from __future__ import annotations

import random

import pytest

from tdsl.ir.kernel import INDEX, Const, Expr, Op, Select, Size, Var
from tdsl.ir.types import BOOL, F32
from tdsl.polyhedral.affine import NotAffine, Scope, points, pw_aff, region, scope
from tdsl.polyhedral.text import expr_text, sizes_condition
from tests.polyhedral import brute
from tests.polyhedral.build import expr, read
from tests.polyhedral.orders import evaluate

PARAMS = {"N": "p0", "M": "p1"}


def where() -> Scope:
    return scope(("i", "j"), PARAMS, "S0")


def random_index(rng: random.Random, depth: int) -> Expr:
    if depth == 0:
        leaves: list[Expr] = [Var("i"), Var("j"), Size("N"), Const(rng.randint(-3, 3), INDEX)]
        return rng.choice(leaves)

    def below() -> Expr:
        return random_index(rng, depth - 1)

    op = rng.choice(["add", "sub", "neg", "mul", "floordiv", "mod", "min", "max", "abs", "select"])
    match op:
        case "neg" | "abs":
            return Op(op, (below(),), INDEX)
        case "mul":
            factors = (Const(rng.randint(-3, 3), INDEX), below())
            return Op(op, factors if rng.random() < 0.5 else factors[::-1], INDEX)
        case "floordiv" | "mod":
            return Op(op, (below(), Const(rng.choice([-3, -2, 0, 1, 2, 5]), INDEX)), INDEX)
        case "select":
            return Select(random_condition(rng, 0), below(), below(), INDEX)
        case _:
            return Op(op, (below(), below()), INDEX)


def random_condition(rng: random.Random, depth: int) -> Expr:
    if depth == 0:
        op = rng.choice(["eq", "ne", "lt", "le", "gt", "ge"])
        return Op(op, (random_index(rng, rng.randint(0, 1)), random_index(rng, 0)), BOOL)
    op = rng.choice(["and", "or", "not"])
    args = tuple(random_condition(rng, depth - 1) for _ in range(1 if op == "not" else 2))
    return Op(op, args, BOOL)


CORNERS = [(i, j, n) for i in (-4, 0, 3) for j in (-1, 2) for n in (0, 1, 5)]


def test_functions_agree_with_python() -> None:
    rng = random.Random(11)
    for _ in range(100):
        e = random_index(rng, rng.randint(1, 3))
        function = pw_aff(e, where())
        for i, j, n in CORNERS:
            expected = brute.value(e, {"i": i, "j": j, "N": n, "M": 0})
            assert evaluate(function, (i, j), (n, 0)) == expected, expr_text(e)


def test_conditions_agree_with_python() -> None:
    rng = random.Random(12)
    for _ in range(100):
        e = random_condition(rng, rng.randint(0, 2))
        found = region(e, where())
        assert found.exact and found.may.is_equal(found.must)
        inside = found.may.indicator_function()
        for i, j, n in CORNERS:
            expected = brute.value(e, {"i": i, "j": j, "N": n, "M": 0})
            assert evaluate(inside, (i, j), (n, 0)) == expected, expr_text(e)


def test_what_data_decide_widens_one_side_only() -> None:
    unknown = Op("gt", (read("x[i]"), Const(0.0, F32)), BOOL)
    near = expr("i >= 1")
    both = region(Op("and", (near, unknown), BOOL), where())
    either = region(Op("or", (near, unknown), BOOL), where())
    exact = region(near, where()).may
    assert both.may.is_equal(exact) and both.must.is_empty() and not both.exact
    assert either.must.is_equal(exact) and either.may.is_equal(where().universe)
    negated = both.negated()
    assert negated.must.is_equal(exact.complement()) and negated.may.is_equal(where().universe)


@pytest.mark.parametrize("text", ["i * j", "N * i", "i // j", "i % N", "q"])
def test_what_is_not_quasi_affine_is_refused(text: str) -> None:
    with pytest.raises(NotAffine):
        pw_aff(expr(text), where())


@pytest.mark.parametrize(
    "text",
    [
        "N >= 1", "N <= 3", "N == M", "N % 8 == 0", "N % 8 >= 3", "(N + 1) % 4 == 2",
        "N // 8 >= M", "N >= M + 2 and M % 2 == 1", "2 * N >= 3 * M + 1", "N == 3 or M == 4",
        "(N + 2 * M) % 4 == 1", "N % 8 <= M", "-N >= M - 7",
    ],
)  # fmt: skip
def test_conditions_on_sizes_survive_printing(text: str) -> None:
    sizes = scope((), PARAMS, None)
    first = points([expr(text)], sizes).params()
    printed = sizes_condition(first, {"p0": "N", "p1": "M"})
    assert printed is not None
    again = points([expr(part) for part in printed.split(", ")], sizes).params()
    assert again.is_equal(first), printed


def test_no_condition_is_made_up() -> None:
    sizes = scope((), PARAMS, None)
    names = {"p0": "N", "p1": "M"}
    assert sizes_condition(points([expr("N < 0 and N > 0")], sizes).params(), names) is None
    assert sizes_condition(sizes.universe.params(), names) is None
