"""Boxes around domains: they hold every point, and are tight where the bounds are plain."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tdsl.ir.intervals import bounding_box, evaluate
from tdsl.ir.kernel import Expr
from tests.ir.build import add, between, iop, ix, mul, op

SIZES = {"N": 10, "M": 3, "Z": 0}


def box(*domain: Expr, names: str = "i", **fixed: int) -> dict[str, tuple[int, int]] | None:
    return bounding_box(domain, names.split(), SIZES, fixed)


def test_plain_and_dependent_bounds() -> None:
    assert box(*between("i", 0, "N")) == {"i": (0, 10)}
    triangle = (*between("i", 0, "N"), *between("j", "i", "N"))
    assert box(*triangle, names="i j") == {"i": (0, 10), "j": (0, 10)}
    assert box(*between("j", "i", "N"), names="j", i=4) == {"j": (4, 10)}
    backwards = (*between("j", 0, "i"), *between("i", 0, "M"))
    assert box(*backwards, names="j i") == {"j": (0, 2), "i": (1, 3)}


def test_forms_of_bounds() -> None:
    assert box(iop("ge", "i", 2), iop("gt", "N", "i")) == {"i": (2, 10)}
    assert box(iop("eq", mul(3, "i"), 9)) == {"i": (3, 4)}
    assert box(*between(mul(-2, "i"), -7, 6)) == {"i": (-2, 4)}
    assert box(*between(iop("floordiv", "i", 4), 1, 3)) == {"i": (4, 12)}
    assert box(*between("i", iop("max", "M", 1), iop("min", "N", 7))) == {"i": (3, 7)}
    assert box(*between(iop("sub", 5, "i"), 0, "M")) == {"i": (3, 6)}
    assert box(*between(iop("neg", "i"), 0, "M")) == {"i": (-2, 1)}
    together = op("and", *between("i", 1, 4), iop("ge", "i", 2))
    assert box(together) == {"i": (2, 4)}
    assert box(*between("i", iop("max", "M", 1, 5), iop("min", "N", 7, 9))) == {"i": (5, 7)}
    assert box(iop("le", iop("max", "i", 2), 5), iop("ge", iop("min", "i", 4), 1)) == {"i": (1, 6)}


def test_domains_without_points() -> None:
    assert box(*between("i", 0, "Z")) is None
    assert box(*between("i", 5, "M")) is None
    assert box(iop("lt", "Z", 0), *between("i", 0, 3)) is None
    assert (
        box(*between("i", 0, "N"), *between("j", 0, "M"), iop("lt", "N", "j"), names="i j") is None
    )


def test_an_index_without_bound() -> None:
    with pytest.raises(ValueError, match="does not bound the index i"):
        box(iop("le", "i", "N"))
    with pytest.raises(ValueError, match="does not bound the index i"):
        box(iop("eq", iop("mod", "i", 2), 0))


@st.composite
def terms(draw: st.DrawFn) -> Expr:
    total: Expr = ix(draw(st.integers(-4, 4)))
    for name in ("i", "j"):
        total = add(total, mul(draw(st.integers(-3, 3)), name))
    name = draw(st.sampled_from(["", "", "floordiv", "mod", "min", "max", "neg"]))
    if name in ("floordiv", "mod"):
        return iop(name, total, draw(st.integers(-3, 4)))
    if name == "neg":
        return iop("neg", total)
    return iop(name, total, ix(draw(st.integers(-4, 4)))) if name else total


CONDITIONS = st.builds(
    lambda name, a, b: iop(name, a, b),
    st.sampled_from(["le", "lt", "ge", "gt", "eq"]),
    terms(),
    terms(),
)


@given(st.lists(CONDITIONS, max_size=4))
def test_a_box_holds_every_point(conditions: list[Expr]) -> None:
    domain = (*between("i", -5, 6), *between("j", -5, 6), *conditions)
    points = [
        (i, j)
        for i, j in itertools.product(range(-8, 9), repeat=2)
        if all(evaluate(c, SIZES, {"i": i, "j": j}) for c in domain)
    ]
    found = box(*domain, names="i j")
    if found is None:
        assert points == []
    else:
        for i, j in points:
            assert found["i"][0] <= i < found["i"][1]
            assert found["j"][0] <= j < found["j"][1]
