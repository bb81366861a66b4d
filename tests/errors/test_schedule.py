"""What is said about schedules that are not legal or name what is not there."""

from pathlib import Path

import pytest

from tests.errors.runner import cases, checked, hold, name_of


@pytest.mark.parametrize("case", cases("schedule"), ids=name_of)
def test_message(case: Path, pytestconfig: pytest.Config) -> None:
    hold(case, checked, update=pytestconfig.getoption("--update"))


def test_there_are_cases() -> None:
    assert len(cases("schedule")) >= 15
