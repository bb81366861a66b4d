"""Random kernels under random schedules: accepted means equal to the interpreter.

Refusals are errors of the language; anything else that is raised fails the test.
"""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tdsl.diagnostics import Error
from tdsl.targets import native
from tdsl.targets import target as find_target
from tdsl.targets.target import TARGETS, Target
from tests.cases.harness import functions
from tests.fuzz.execute import Example, differences, example

HERE = tuple(dict.fromkeys((native().base, "c")))
_names = itertools.count()


def _batch(seed: int, target: Target, count: int) -> list[Example]:
    drawn = (example(Random(seed + n), f"f{seed + n}", target, 2.0) for n in range(count))
    return [one for one in drawn if one is not None]


def _compare(examples: list[Example], target: Target, calls: int) -> None:
    pairs = []
    for one in examples:
        try:
            pairs.append((one, one.compiled(target)))
        except Error:
            continue
        except Exception as error:
            raise AssertionError(f"{error!r} on {target.name}\n{one}") from error
    if not pairs:
        return
    made = functions([part for _, part in pairs], target, f"random{next(_names)}")
    for (one, part), function in zip(pairs, made, strict=True):
        wrong = differences(part.kernel, function, one.calls(calls), one.strict, one.seed)
        assert not wrong, f"{wrong} on {target.name}\n{one}"


@pytest.mark.parametrize("target", HERE)
@settings(max_examples=2)
@given(st.integers(0, 10**6))
def test_accepted_schedules_equal_the_interpreter(target: str, seed: int) -> None:
    machine = TARGETS[target]
    _compare(_batch(seed, machine, 8), machine, 4)


@pytest.mark.neon
def test_a_handful_on_neon() -> None:
    neon = find_target("neon")
    _compare(_batch(77, neon, 5), neon, 1)
