"""Golden tests of refusals: a case is NAME.tdsl, what is said about it is in NAME.expect.

A test module lists its folder and says what is run on a text:

    @pytest.mark.parametrize("case", cases("syntax"), ids=name_of)
    def test_message(case, pytestconfig):
        hold(case, checked, update=pytestconfig.getoption("--update"))
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tdsl.checking import check_text
from tdsl.diagnostics import Error, render

HERE = Path(__file__).resolve().parent


def cases(folder: str) -> list[Path]:
    """The .tdsl files of a folder of tests/errors, in the order of their names."""
    return sorted((HERE / folder).glob("*.tdsl"))


def name_of(case: Path) -> str:
    return case.stem


def checked(text: str, name: str) -> None:
    """All that `tdsl check` says, as one error."""
    check_text(text, name).raise_errors()


def refusal(case: Path, run: Callable[[str, str], object]) -> str:
    """What `run(text, name)` says against the case; it must refuse it."""
    with case.open(encoding="utf-8", newline="") as file:  # \r is part of a case
        text = file.read()
    try:
        run(text, case.name)
    except Error as error:
        return "\n".join(render(d) for d in error.diagnostics) + "\n"
    pytest.fail(f"{case.name} was accepted")


def hold(case: Path, run: Callable[[str, str], object], update: bool) -> None:
    """The refusal is the one in the .expect file, which `update` writes anew."""
    said = refusal(case, run)
    expect = case.with_suffix(".expect")
    if update:
        expect.write_text(said, encoding="utf-8")
    assert expect.exists(), f"{expect.name} is missing: run pytest --update and read it"
    assert said == expect.read_text(encoding="utf-8")
