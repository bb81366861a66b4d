"""Random schedules of all directives that change orders: what is accepted equals the oracle."""

from __future__ import annotations

import random

import pytest

import tdsl
from tdsl.polyhedral.tree import loops_of
from tdsl.schedule.builder import Schedule
from tests.orders.oracle import TARGETS, held
from tests.orders.test_directives import CALLS, CHAIN_CALLS, SEIDEL, STAGES
from tests.orders.test_parts import COUNTS, GEMV, GEMV_CALLS, TRIANGLE

KERNELS = [
    (GEMV, "gemv", GEMV_CALLS[2:7:2]),
    (TRIANGLE, "triangle", COUNTS[1:7:2]),
    (STAGES, "stages", CHAIN_CALLS[1:5]),
    (SEIDEL, "seidel", CALLS[2:5]),
]


def directive(rng: random.Random, s: Schedule, statements: list[str], number: int) -> str:
    statement = rng.choice(statements)
    around = [loop.name for loop in loops_of(s.tree, statement)]
    outer, name = (rng.choice(around) for _ in range(2))
    a, b, f = f"{statement}.{outer}", f"{statement}.{name}", rng.randint(1, 4)
    into = f"a{number}, b{number}"
    return rng.choice(
        [
            f"split {a} by {f} -> {into}",
            f"split {a} by {f} -> {into} tail shift",
            f"wavefront {a}, {b} -> {into}",
            f"peel {a} first {f - 1} last {rng.randint(0, 2)}",
            f"factor {a} -> P{number}",
            f"extend {statement} by {f'e{number}'} = {rng.choice(['0', 'N - 1', outer])}",
            f"skew {a} by {name}",
            f"shift {a} by {f - 2}",
            f"reverse {a}",
            f"reorder {a}, {b}",
            f"distribute {a}",
            f"sequence {', '.join(rng.sample(statements, min(2, len(statements))))}",
            f"vectorize {a}",
            f"unroll {a} by {f}",
            f"parallel {a}",
        ]
    )


@pytest.mark.parametrize("seed", range(10))
def test_accepted_schedules_equal_the_interpreter(seed: int) -> None:
    rng = random.Random(seed)
    text, name, calls = KERNELS[seed % len(KERNELS)]
    target = rng.choice(TARGETS)
    s = tdsl.parse(text)[name].schedule(target)
    statements = list(tdsl.parse(text)[name].statements)
    for number in range(4):
        line = directive(rng, s, statements, number)
        try:
            s.add(line)
        except tdsl.Error:
            continue
        if line.startswith("factor"):
            statements.append(line.split()[-1])
    assert s.complete()
    module = tdsl.parse(text + str(s)) if s.directives else tdsl.parse(text)
    held(module, name, calls, target=target, strict_fp=False, tolerance=1e-12)
