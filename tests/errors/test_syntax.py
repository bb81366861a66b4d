"""What is said about texts that are not of the language."""

from pathlib import Path

import pytest

from tdsl.syntax.parser import parse
from tests.errors.runner import cases, hold, name_of


@pytest.mark.parametrize("case", cases("syntax"), ids=name_of)
def test_message(case: Path, pytestconfig: pytest.Config) -> None:
    hold(case, parse, update=pytestconfig.getoption("--update"))


def test_there_are_cases() -> None:
    assert len(cases("syntax")) >= 20
