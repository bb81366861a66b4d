"""Every case under every schedule, on the machine's targets and, in part, on neon."""

from __future__ import annotations

import re

import pytest

from tdsl.targets.target import TARGETS
from tests.cases import bugs_numbers, bugs_order, bugs_tails
from tests.cases.harness import CASES, HERE, Case, built, runner

MODULES = (bugs_numbers, bugs_order, bugs_tails)


def _check(one: Case, target: str) -> None:
    for number, function in enumerate(built(target)[one.name]):
        if isinstance(function, Exception):
            raise function
        kernel = one.compiled(number, TARGETS["c"]).kernel
        try:
            one.check(runner(kernel, function))
        except AssertionError as error:
            raise AssertionError(f"under {one.schedules[number]!r}: {error}") from error


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("one", CASES, ids=str)
def test_case(one: Case, target: str) -> None:
    _check(one, target)


@pytest.mark.neon
@pytest.mark.parametrize("one", [c for c in CASES if c.neon], ids=str)
def test_case_on_neon(one: Case) -> None:
    _check(one, "neon")


def test_cases_are_named_after_their_reports() -> None:
    assert all(re.match(r"b\d\d_", one.name) for one in CASES)
    assert {f.__name__ for m in MODULES for f in vars(m).values() if callable(f)} >= {
        one.name for one in CASES
    }
