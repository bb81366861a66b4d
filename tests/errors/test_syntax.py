"""What is said about texts that are not of the language."""

from pathlib import Path

import pytest

from tests.errors.runner import cases, checked, hold, name_of


@pytest.mark.parametrize("case", cases("syntax"), ids=name_of)
def test_message(case: Path, pytestconfig: pytest.Config) -> None:
    hold(case, checked, update=pytestconfig.getoption("--update"))


def test_there_are_cases() -> None:
    assert len(cases("syntax")) >= 20
