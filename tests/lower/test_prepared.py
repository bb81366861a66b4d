"""What is prepared is a block of its own, and validated like what runs in each call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tdsl import driver
from tdsl.ir import vector as v
from tdsl.ir.interp import reference
from tdsl.ir.walk_vector import buffers_used
from tdsl.lower.check_instances import check_instances
from tdsl.polyhedral.rebuild import Miscompiled
from tdsl.polyhedral.validate import Order
from tdsl.syntax.parser import parse
from tdsl.targets import target
from tests.lower.brute import Memory, Wrong, run_vector
from tests.lower.mutants import VECTOR, mutants
from tests.lower.test_validate_mutants import some

MOST = 400
TEXT = """
kernel dense(M, N, K) {
    assume M >= 1, K <= M
    in x: f32[M, K]
    const w: f32[K, N]
    out y: f32[M, N]

    t[j] = sum[k](w[k, j])
    u[k, j] = 2.0 * w[k, j] + t[j]
    y[i, j] = sum[k](x[i, k] * u[k, j])
}

schedule dense for any {
    compute t at prepare
    compute u at prepare
    vectorize u.j by 8
    reorder y.k, y.j
    vectorize y.j
}
"""
SIZES = [
    dict(zip("MNK", s, strict=True))
    for s in [
        (1, 0, 0), (1, 1, 1), (2, 9, 2), (4, 8, 3), (3, 17, 3), (5, 16, 0), (4, 7, 4), (2, 24, 1),
    ]
]  # fmt: skip


@cache
def made() -> driver.Compilation:
    return driver.run(parse(TEXT, "dense.tdsl"), driver.Options("dense", target("avx2")))


def test_it_is_apart_from_the_calls() -> None:
    function = made().lowered.function
    assert function.prepare is not None
    assert function.const_sizes == ("N", "K")
    assert buffers_used(function.prepare) == {"w", "t", "u"}
    assert buffers_used(function.body) == {"x", "u", "y"}
    roles = {b.name: b.role for b in function.buffers}
    assert roles["t"] == roles["u"] == "prepared"


def test_other_sizes_are_not_asked_for() -> None:
    """K <= M holds in every call, but M is not known when w is prepared."""
    text = v.Block(made().lowered.function.blocks[:1])
    assert "Size(name='M'" not in repr(text) and "Size(name='K'" in repr(text)


def right(prepare: v.Block) -> bool:
    """Whether what is prepared, then the call, compute what the oracle does."""
    lowered = made().lowered
    for sizes in SIZES:
        start = Memory.of(lowered.program, sizes)
        inputs = {
            name: np.array(start.data[name], np.float32).reshape(start.shapes[name])
            for name in ("x", "w")
        }
        wanted = reference(made().kernel, sizes, inputs)["y"]
        try:
            memory = run_vector(lowered.program, v.Block((prepare, lowered.function.body)), sizes)
        except (Wrong, KeyError, TypeError):
            return False
        if memory.data["y"] != [int(x) for x in wanted.reshape(-1)]:
            return False
    return True


def caught(prepare: Any) -> bool:
    c = made()
    function = replace(c.lowered.function, prepare=prepare)
    order = Order(c.dependences, c.scheduled.reassociate)
    try:
        check_instances(c.lowered.program, replace(c.lowered, function=function), order)
    except Miscompiled:
        return True
    return False


def test_mutants_are_caught() -> None:
    prepare = made().lowered.function.prepare
    assert prepare is not None and right(prepare) and not caught(prepare)
    tried = some(mutants(prepare, VECTOR), MOST)
    assert len(tried) > 20
    wrong = [m for m in tried if not caught(m.tree) and not right(m.tree)]
    assert [(m.name, m.where) for m in wrong] == []


@pytest.mark.parametrize("body", [True, False])
def test_neither_part_may_be_missing(body: bool) -> None:
    c = made()
    empty: Mapping[str, Any] = {"body" if body else "prepare": v.Block(())}
    lowered = replace(c.lowered, function=replace(c.lowered.function, **empty))
    with pytest.raises(Miscompiled):
        check_instances(c.lowered.program, lowered, Order(c.dependences, frozenset()))
