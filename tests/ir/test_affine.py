"""Index arithmetic: its simple form means the same, and bounds hold, on all small values."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tdsl.ir.affine import expression, linear, non_affine, number, simplify, substitute, variables
from tdsl.ir.facts import Candidates, Facts, bounds
from tdsl.ir.kernel import INDEX, Const, Expr, Op, Size, Var
from tdsl.ir.printer import print_expr
from tdsl.ir.types import BOOL

N, M = Size("N"), Size("M")
i, j = Var("i"), Var("j")


def op(name: str, *args: Expr) -> Expr:
    return Op(name, args, INDEX)


def evaluate(expr: Expr, env: dict[str, int]) -> int:
    """Python's own arithmetic; division by zero gives 0 as in the language."""
    match expr:
        case Const(value):
            return int(value)
        case Var(name) | Size(name):
            return env[name]
        case Op(name, args):
            a = [evaluate(e, env) for e in args]
            match name:
                case "add":
                    return a[0] + a[1]
                case "sub":
                    return a[0] - a[1]
                case "mul":
                    return a[0] * a[1]
                case "neg":
                    return -a[0]
                case "abs":
                    return abs(a[0])
                case "floordiv":
                    return a[0] // a[1] if a[1] else 0
                case "mod":
                    return a[0] % a[1] if a[1] else 0
                case "min":
                    return min(a)
                case "max":
                    return max(a)
    raise AssertionError(expr)


LEAVES = st.one_of(st.sampled_from([i, j, N, M]), st.integers(-6, 6).map(number))


def _grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    names = st.sampled_from(["add", "sub", "mul", "min", "max"])
    divisions = st.builds(
        lambda name, a, d: op(name, a, number(d)),
        st.sampled_from(["floordiv", "mod"]), inner, st.integers(-5, 5),
    )  # fmt: skip
    unary = st.builds(lambda name, a: op(name, a), st.sampled_from(["neg", "abs"]), inner)
    return st.one_of(st.builds(op, names, inner, inner), divisions, unary)


EXPRESSIONS = st.recursive(LEAVES, _grow, max_leaves=8)
VALUES = st.fixed_dictionaries({n: st.integers(-9, 9) for n in ("i", "j", "N", "M")})


@given(EXPRESSIONS, VALUES)
def test_the_simple_form_means_the_same(expr: Expr, env: dict[str, int]) -> None:
    assert evaluate(simplify(expr), env) == evaluate(expr, env)


@given(EXPRESSIONS)
def test_simplifying_twice_changes_nothing(expr: Expr) -> None:
    once = simplify(expr)
    assert simplify(once) == once


@pytest.mark.parametrize(
    ("expr", "printed"),
    [
        (op("sub", i, number(0)), "i"),
        (op("add", op("mul", i, number(1)), op("mul", j, number(1))), "i + j"),
        (op("sub", op("neg", i), op("neg", N)), "N - i"),
        (op("sub", number(5), i), "5 - i"),
        (op("neg", i), "-i"),
        (op("floordiv", op("add", op("mul", number(4), i), number(9)), number(4)), "i + 2"),
        (op("mod", op("add", op("mul", number(4), i), number(9)), number(4)), "1"),
        (op("floordiv", op("sub", N, number(1)), number(2)), "(N + 1) // 2 - 1"),
        (op("min", N, op("add", N, number(2))), "N"),
        (op("max", op("sub", i, number(1)), number(0)), "max(i - 1, 0)"),
        (op("floordiv", i, number(0)), "0"),
    ],
)
def test_how_it_reads(expr: Expr, printed: str) -> None:
    assert print_expr(simplify(expr)) == printed


def test_what_is_not_affine_is_found() -> None:
    assert non_affine(op("add", i, N)) is None
    assert non_affine(op("mul", i, number(2))) is None
    product = op("mul", i, N)
    assert non_affine(op("add", j, product)) == product
    assert non_affine(op("mod", i, N)) is not None


def test_substitution() -> None:
    expr = op("add", op("mul", number(2), i), N)
    assert print_expr(simplify(substitute(expr, {i: j, N: number(3)}))) == "2 * j + 3"
    assert variables(expr) == {"i"}
    assert expression(linear(expr)) == expr


# ---------------------------------------------------------------- facts


def test_facts_prove_what_follows() -> None:
    facts = Facts([
        Op("ge", (N, number(3)), BOOL), Op("eq", (M, op("add", N, number(1))), BOOL),
        Op("le", (M, Size("K")), BOOL),
    ])  # fmt: skip
    assert facts.less_equal(number(3), N)
    assert not facts.less_equal(number(4), N)
    assert facts.equal(M, op("add", N, number(1)))
    assert not facts.equal(N, Size("K"))
    assert facts.less_equal(M, Size("K"))
    assert facts.less_equal(N, Size("K"))
    assert not facts.less_equal(Size("K"), M)
    assert facts.less_equal(number(0), op("floordiv", N, number(2)))
    assert facts.best("max", [N, op("sub", N, number(1)), number(2)]) == N


TERMS = st.recursive(
    st.one_of(st.sampled_from([i, j, N]), st.integers(-4, 4).map(number)),
    lambda inner: st.one_of(
        st.builds(op, st.sampled_from(["add", "sub", "min", "max"]), inner, inner),
        st.builds(lambda a, k: op("mul", number(k), a), inner, st.integers(-3, 3)),
        st.builds(
            lambda name, a, d: op(name, a, number(d)),
            st.sampled_from(["floordiv", "mod"]), inner, st.integers(1, 4),
        ),
    ),
    max_leaves=6,
)  # fmt: skip


@given(TERMS)
def test_bounds_hold(expr: Expr) -> None:
    """i in 0..N, j in 0..i+1: every value lies between the bounds, for every N >= 1."""
    ranges: dict[str, Candidates] = {
        "i": ([number(0)], [op("sub", N, number(1))]),
        "j": ([number(0)], [i, op("sub", N, number(1))]),
    }
    facts = Facts([Op("ge", (N, number(1)), BOOL)])
    low, high = bounds(expr, ["i", "j"], ranges.__getitem__, facts)
    assert low is not None
    assert high is not None
    assert not variables(low)
    assert not variables(high)
    for n in range(1, 6):
        for x, y in itertools.product(range(n), repeat=2):
            if y <= x:
                got = evaluate(expr, {"i": x, "j": y, "N": n})
                assert evaluate(low, {"N": n}) <= got <= evaluate(high, {"N": n})


def test_bounds_are_tight_where_the_index_is_simple() -> None:
    ranges: dict[str, Candidates] = {"i": ([number(0)], [op("sub", N, number(1))])}
    low, high = bounds(
        op("add", op("mul", number(2), i), number(1)), ["i"], ranges.__getitem__, Facts([])
    )
    assert low is not None
    assert high is not None
    assert (print_expr(low), print_expr(high)) == ("1", "2 * N - 1")
