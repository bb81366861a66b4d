"""What is said about programs that parse and mean nothing: names, types, ranks, ranges."""

from pathlib import Path

import pytest

from tdsl.syntax.elaborate import check_file, elaborate, kernels
from tdsl.syntax.later import LATER
from tdsl.syntax.parser import parse
from tests.errors.runner import HERE, cases, hold, name_of, refusal


def check(text: str, name: str) -> None:
    """Everything that can be said without a schedule or a proof."""
    file = parse(text, name)
    check_file(file)
    for kernel in kernels(file):
        elaborate(file, kernel)


@pytest.mark.parametrize("case", cases("types"), ids=name_of)
def test_message(case: Path, pytestconfig: pytest.Config) -> None:
    hold(case, check, update=pytestconfig.getoption("--update"))


def test_there_are_cases() -> None:
    assert len(cases("types")) >= 60


@pytest.mark.parametrize("feature", sorted(LATER))
def test_every_refusal_of_the_table_is_reached(feature: str) -> None:
    said = "".join(refusal(case, check) for case in (HERE / "types").glob("later_*.tdsl"))
    assert LATER[feature].what in said
