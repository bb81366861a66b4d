"""Variants, their targets and conditions."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tdsl.diagnostics import IllegalSchedule
from tdsl.schedule.choose import Choice, choose, holds, size_lets
from tdsl.syntax.parser import parse_expr
from tdsl.targets.target import target
from tests.schedule.run import MATMUL, front

TABLE = """
schedule matmul.row for avx512, neon when M == 1 { }
schedule matmul.dots for avx512+vnni { }
schedule matmul.small for any when M <= 16 or M * N <= 1000 { }
schedule matmul.named for any when false { }
schedule matmul.big for any { }
"""


def picked(
    sizes: Mapping[str, int],
    on: str = "avx2",
    variant: str | None = None,
    table: str = TABLE,
    bound: Mapping[str, int] | None = None,
) -> Choice:
    made = front(MATMUL + table, sizes=bound)
    return choose(made.file, made.kernel, target(on), sizes, variant)


def name(choice: Choice) -> str | None:
    return choice.schedule.variant if choice.schedule is not None else None


def test_the_first_that_holds_is_taken() -> None:
    assert name(picked({"M": 1, "N": 8, "K": 8}, "avx512")) == "row"
    assert name(picked({"M": 1, "N": 8, "K": 8}, "avx2")) == "small"
    assert name(picked({"M": 100, "N": 8, "K": 8})) == "small"
    assert name(picked({"M": 100, "N": 100, "K": 8})) == "big"


def test_features_are_those_of_the_target() -> None:
    sizes = {"M": 100, "N": 100, "K": 8}
    assert name(picked(sizes, "avx512")) == "big"
    assert name(picked(sizes, "avx512+vnni")) == "dots"
    assert name(picked({"M": 1, "N": 1, "K": 8}, "avx512+vnni")) == "row"


def test_unbound_sizes_leave_variants_undecided() -> None:
    choice = picked({}, "neon")
    assert name(choice) == "big"
    assert [s.variant for s in choice.undecided] == ["row", "small"]
    # One bound size may be enough: M <= 16 decides the disjunction.
    assert name(picked({}, "avx2", bound={"M": 4})) == "small"
    choice = picked({"M": 20}, "neon")
    assert [s.variant for s in choice.undecided] == ["small"]


def test_a_name_overrides_the_condition() -> None:
    assert name(picked({"M": 7, "N": 7, "K": 7}, variant="named")) == "named"
    with pytest.raises(IllegalSchedule, match="did you mean small"):
        picked({}, variant="smal")
    with pytest.raises(IllegalSchedule, match="is for avx512, neon, not for avx2"):
        picked({}, variant="row")


def test_none_holds() -> None:
    table = "schedule matmul for neon { }"
    assert picked({}, table=table).schedule is None
    unnamed = picked({}, "neon", variant="matmul", table=table)
    assert unnamed.schedule is not None and unnamed.schedule.variant is None


def test_an_unreachable_variant_is_a_warning() -> None:
    table = """
    schedule matmul.a for avx512, avx2 { }
    schedule matmul.b for avx2 when M == 1 { }
    schedule matmul.c for avx512+vnni { }
    schedule matmul.d for neon { }
    schedule matmul.e for any when false { }
    """
    said = [w.message.split()[2] for w in picked({}, table=table).warnings]
    assert said == ["b", "c"]
    assert picked({}).warnings == ()


def test_one_name_for_two_variants_of_a_target_is_a_warning() -> None:
    table = """
    schedule matmul.a for avx512 when M == 1 { }
    schedule matmul.a for neon { }
    schedule matmul.a for any when M == 2 { }
    """
    said = [w.message for w in picked({}, table=table).warnings]
    assert said == ["two schedules of matmul are called a: the name takes the first one"]


def test_conditions_see_constants_types_and_lets() -> None:
    text = """
    kernel scale<pad = 2, T: type = f32>(N) {
        let P = N + 2 * pad
        in  x: T[N]
        out y: T[P]
        y[i] = 1.0
    }
    """
    made = front(text)
    lets = size_lets(made.file, "scale")

    def answer(condition: str, **sizes: int) -> bool | None:
        return holds(parse_expr(condition), made.kernel, sizes, lets=lets)

    assert answer("pad == 2 and T == f32") is True
    assert answer("T == f64") is False
    assert answer("P >= 10", N=6) is True
    assert answer("P >= 10", N=5) is False
    assert answer("P >= 10") is None
    assert answer("N > 3 or pad == 2") is True
    assert answer("N > 3 and pad == 1") is False
    assert holds(None, made.kernel) is True
    with pytest.raises(IllegalSchedule, match="wants a condition"):
        answer("pad")
    with pytest.raises(IllegalSchedule, match="Q is no value"):
        answer("Q > 1")
