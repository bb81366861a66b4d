"""What is said about schedules that are not legal or name what is not there."""

from pathlib import Path

import pytest

from tests.errors.runner import cases, hold, name_of
from tests.schedule.run import scheduled


@pytest.mark.parametrize("case", cases("schedule"), ids=name_of)
def test_message(case: Path, pytestconfig: pytest.Config) -> None:
    hold(case, scheduled, update=pytestconfig.getoption("--update"))


def test_there_are_cases() -> None:
    assert len(cases("schedule")) >= 15
