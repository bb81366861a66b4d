"""The verdicts of the 70 legality cases, which come from enumeration: by `check_order`, by the
directive `order`, and by running what is accepted against the interpreter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tdsl
from tests.polybench.kernels import load, run, sizes

CASES = Path(__file__).parents[3] / "shared" / "cases" / "legality.json"

Case = dict[str, Any]


def cases() -> list[Case]:
    return json.loads(CASES.read_text()) if CASES.exists() else []


def name(case: Case) -> str:
    return str(case["kernel"]).replace("-", "_")


def times(case: Case) -> dict[str, str]:
    """`i,j: 0,j,i` as `[i, j] -> [0, j, i]`."""
    parts = {s: text.split(":") for s, text in case["time"].items()}
    return {s: f"[{left}] -> [{right.strip()}]" for s, (left, right) in parts.items()}


def directives(case: Case) -> str:
    order = "; ".join(f"{s}{time}" for s, time in times(case).items())
    dim = case["parallel_dim"]
    return f"order {{ {order} }}" + ("" if dim is None else f"\nparallel t{dim}")


def test_there_are_cases() -> None:
    if not CASES.exists():
        pytest.skip("the legality cases are not beside the checkout")
    assert len(cases()) == 70


@pytest.mark.parametrize("case", cases(), ids=lambda c: c["id"])
def test_check_order(case: Case) -> None:
    kernel, order = load(name(case)), times(case)
    assert (not tdsl.check_order(kernel, order)) == case["order_legal"]
    relaxed = tdsl.check_order(kernel, order, reassociate=order)
    assert (not relaxed) == case["order_legal_if_reassoc"]
    if case["parallel_dim"] is not None:
        found = tdsl.check_order(kernel, order, case["parallel_dim"])
        assert any(v.kind == "parallel" for v in found) == case["race"]
        assert (not found) == case["accept"]


@pytest.mark.parametrize("case", cases(), ids=lambda c: c["id"])
def test_the_directive_order(case: Case) -> None:
    kernel = load(name(case), directives(case))
    if not case["accept"]:
        with pytest.raises(tdsl.IllegalSchedule) as refused:
            kernel.compile("c", schedule="given", strict_fp=True)
        assert refused.value.violations
        return
    function = kernel.compile("c", schedule="given", strict_fp=True)
    for seed, base in enumerate((3, 5, 7)):
        at = sizes(kernel, base)
        want, got = (run(kernel, f, at, seed) for f in (kernel.reference, function))
        for array, values in want.items():
            np.testing.assert_array_equal(got[array], values, err_msg=f"{array} at {at}")
