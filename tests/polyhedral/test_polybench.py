"""The verdicts of `cases/legality.json`, which come from enumeration without isl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tdsl.polyhedral import dependences, legality, model
from tdsl.polyhedral.order import tree_from_order
from tdsl.polyhedral.program import Violation
from tdsl.polyhedral.tree import loops
from tests.polyhedral import brute
from tests.polyhedral.build import expr
from tests.polyhedral.orders import Places
from tests.polyhedral.polybench import KERNELS

CASES = Path(__file__).parents[3] / "shared" / "cases" / "legality.json"


def cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(CASES.read_text()) if CASES.exists() else []
    return found


@pytest.mark.skipif(not CASES.exists(), reason="the legality cases are not beside the checkout")
def test_there_are_cases() -> None:
    assert len(cases()) == 70
    assert {c["kernel"] for c in cases()} == set(KERNELS)


@pytest.mark.parametrize("case", cases(), ids=lambda c: c["id"])
def test_verdict(case: dict[str, Any]) -> None:
    k = KERNELS[case["kernel"]]()
    program = model.build(k)
    times = {}
    for name, text in case["time"].items():
        indices, _, time = text.partition(":")
        assert k.statement(name).indices == tuple(i.strip() for i in indices.split(","))
        times[name] = [expr(e) for e in time.split(",")]
    tree = tree_from_order(program, times)
    found = dependences.compute(program)
    everything = frozenset(times)

    violations = legality.check(program, tree, found)
    assert (not violations) == case["order_legal"]
    relaxed = dependences.relaxed(found, program, everything)
    assert (not legality.check(program, tree, relaxed)) == case["order_legal_if_reassoc"]
    for violation in violations[:2]:
        assert_reversed(k, program, tree, violation)

    if case["parallel_dim"] is not None:
        carried = [
            v
            for loop in loops(tree)
            if loop.name == f"t{case['parallel_dim']}"
            for v in legality.check_parallel(program, tree, found, loop)
        ]
        assert bool(carried) == case["race"]
    once = legality.check_once(program, tree)
    assert not once


def assert_reversed(k: Any, program: Any, tree: Any, violation: Violation) -> None:
    """The witness is a dependence by enumeration, and the tree runs it backward."""
    w = violation.witness
    assert w is not None
    bound = range(max(w.sizes.values()) + 1)
    ends = {(violation.source, w.source), (violation.sink, w.sink)}
    pair = [i for i in brute.instances(k, w.sizes, bound) if (i.statement, i.point) in ends]
    (found,) = brute.dependences(pair)
    assert (found.source.statement, found.source.point) == (violation.source, w.source)
    time = Places(tree, program, w.sizes)
    assert time(found.source) >= time(found.sink)
