"""What is proved of index expressions for all sizes holds at each of many sizes."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tdsl.ir.affine import number
from tdsl.ir.intervals import evaluate
from tdsl.ir.kernel import INDEX, Expr, Op, Size
from tdsl.ir.polynomials import Polynomial, bounds, holds_always

SIZES = [{"M": m, "N": n} for m in (0, 1, 2, 5, 16, 33) for n in (0, 1, 3, 8, 17)]
M, N = Size("M"), Size("N")


def op(name: str, a: Expr, b: Expr) -> Expr:
    return Op(name, (a, b), INDEX)


def add(a: Expr, b: Expr) -> Expr:
    return op("add", a, b)


def mul(a: Expr, b: Expr) -> Expr:
    return op("mul", a, b)


def value(p: Polynomial, sizes: dict[str, int]) -> Fraction:
    total = Fraction(0)
    for monomial, coefficient in p.items():
        term = coefficient
        for size in monomial:
            term *= sizes[size]
        total += term
    return total


ATOMS = st.one_of(st.sampled_from([M, N]), st.integers(-9, 9).map(number))


def _grown(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    both = st.builds(op, st.sampled_from(["add", "sub", "mul", "min", "max"]), inner, inner)
    by_number = st.builds(
        op, st.sampled_from(["floordiv", "mod"]), inner, st.integers(1, 9).map(number)
    )
    return st.one_of(both, by_number)


EXPRESSIONS = st.recursive(ATOMS, _grown, max_leaves=8)


@given(EXPRESSIONS)
def test_values_lie_between_the_bounds(expr: Expr) -> None:
    found = bounds(expr)
    if found is None:
        return
    for sizes in SIZES:
        exact = evaluate(expr, sizes, {})
        assert value(found.low, sizes) <= exact <= value(found.high, sizes), sizes


@given(EXPRESSIONS, EXPRESSIONS, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
def test_what_always_holds_does(a: Expr, b: Expr, which: str) -> None:
    if not holds_always(which, a, b):
        return
    for sizes in SIZES:
        x, y = evaluate(a, sizes, {}), evaluate(b, sizes, {})
        assert {
            "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "==": x == y, "!=": x != y
        }[which], sizes  # fmt: skip


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (mul(number(4), mul(M, N)), mul(mul(M, number(4)), N)),
        (mul(M, N), mul(M, add(N, number(2)))),
        # Whole tiles: (M + 5) // 6 * 6 <= M + 5
        (mul(op("floordiv", add(M, number(5)), number(6)), number(6)), add(M, number(5))),
        (op("min", M, number(64)), number(64)),
        (op("min", number(64), M), M),
        (op("mod", M, number(8)), number(7)),
        (op("max", M, N), add(M, N)),
    ],
)
def test_what_schedules_compare_is_decided(a: Expr, b: Expr) -> None:
    assert holds_always("<=", a, b)
    assert not holds_always("<", b, a)


def test_neither_size_is_known_to_be_larger() -> None:
    assert not any(holds_always(which, M, N) for which in ("<", "<=", "==", "!=", ">=", ">"))
