"""Divisions of a loop variable that stays in one block."""

from __future__ import annotations

import random

import pytest

from tdsl.ir.index import add, const, in_block, mul, simplify, variables
from tdsl.ir.intervals import evaluate
from tdsl.ir.kernel import INDEX, Expr, Op, Size, Var, walk

OUTER, INNER, M = Var("j"), Var("i"), Size("M")


def divided(op: str, e: Expr, n: int) -> Expr:
    return Op(op, (e, const(n)), INDEX)


def has_division(expr: Expr) -> bool:
    return any(isinstance(e, Op) and e.op in ("floordiv", "mod") for e in walk(expr))


@pytest.mark.parametrize(("start", "count", "n"), [(8, 8, 8), (16, 8, 8), (8, 4, 8), (6, 6, 3)])
def test_of_one_block_nothing_is_left(start: int, count: int, n: int) -> None:
    lo = mul(const(start), OUTER)
    for op in ("floordiv", "mod"):
        there = in_block(simplify(divided(op, INNER, n)), "i", lo, count)
        assert has_division(there) == (count > n)
        for j in range(4):
            for i in range(start * j, start * j + count):
                want = i // n if op == "floordiv" else i % n
                assert evaluate(there, {}, {"i": i, "j": j}) == want


def random_index(rng: random.Random, depth: int) -> Expr:
    if depth == 0:
        leaves: list[Expr] = [INNER, INNER, OUTER, M, const(rng.randint(-9, 9))]
        return rng.choice(leaves)
    left = random_index(rng, depth - 1)
    match rng.randrange(5):
        case 0:
            return divided("floordiv", left, rng.choice([2, 3, 4, 8, 16]))
        case 1:
            return divided("mod", left, rng.choice([2, 3, 4, 8, 16]))
        case 2:
            return Op("min", (left, random_index(rng, depth - 1)), INDEX)
        case 3:
            return mul(const(rng.randint(-8, 8)), left)
        case _:
            return add(left, random_index(rng, depth - 1))


@pytest.mark.parametrize("seed", range(60))
def test_values_stay(seed: int) -> None:
    rng = random.Random(seed)
    expr = simplify(random_index(rng, 4))
    lo = simplify(
        add(mul(const(rng.choice([1, 2, 4, 8, 16])), OUTER), const(rng.choice([0, 0, 4])))
    )
    count = rng.choice([1, 2, 3, 4, 8])
    there = in_block(expr, "i", lo, count)
    assert variables(there) <= variables(expr) | {"j"}
    for j in range(-3, 4):
        for m in (0, 5, 17):
            first = evaluate(lo, {"M": m}, {"j": j})
            for i in range(first, first + count):
                names = {"i": i, "j": j}
                assert evaluate(there, {"M": m}, names) == evaluate(expr, {"M": m}, names)
