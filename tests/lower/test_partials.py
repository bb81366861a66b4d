"""Partial results of a reduction: joined lane by lane, in pairs, and their lanes once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tdsl.driver import Compilation, Options, run
from tdsl.ir import vector as v
from tdsl.ir.walk_vector import item_values, items, values_in
from tdsl.lower.check_instances import check_instances
from tdsl.polyhedral.rebuild import Miscompiled
from tdsl.polyhedral.validate import Order
from tdsl.syntax.parser import parse
from tdsl.targets.target import TARGETS
from tests.lower.mutants import Mutation, mutants

TOTAL = """
kernel total(M, N) {
    in  x: f32[M, N]
    out s: f32[M]
    s[i] = sum[j](x[i, j])
}
schedule total for any {
    reassociate s
    split j by 3 * lanes(f32) -> jo, ji
    vectorize ji
}
"""


def made() -> Compilation:
    return run(parse(TOTAL, "t.tdsl"), Options("total", TARGETS["avx2"]))


def test_lanes_are_joined_once() -> None:
    all_items = items(made().lowered.function.body)
    found = (part for item in all_items for top in item_values(item) for part in values_in(top))
    (join,) = [part for part in found if isinstance(part, v.Reduce)]
    match join.arg:
        case v.Op("add", (v.Op("add", (v.Ref(a), v.Ref(b)), _), v.Ref(c)), _):
            assert len({a, b, c}) == 3
        case other:
            pytest.fail(f"{other}")


def left_out(op: v.Op) -> v.Value:
    return op.args[0]


def twice(op: v.Op) -> v.Value:
    return replace(op, args=(op.args[1], op.args[1]))


def by_another_operation(op: v.Op) -> v.Value:
    return replace(op, op="mul")


@pytest.mark.parametrize("change", [left_out, twice, by_another_operation])
def test_wrong_joins_are_refused(change: Callable[[v.Op], v.Value]) -> None:
    compilation = made()
    lowered, scheduled = compilation.lowered, compilation.scheduled

    def wrong(node: Any) -> Iterator[Mutation]:
        if isinstance(node, v.Reduce) and isinstance(node.arg, v.Op):
            yield change.__name__, replace(node, arg=change(node.arg))

    order = Order(scheduled.dependences, scheduled.reassociate)
    check_instances(lowered.program, lowered, order)
    (mutant,) = mutants(lowered.function.body, (wrong,))
    broken = replace(lowered, function=replace(lowered.function, body=mutant.tree))
    with pytest.raises(Miscompiled):
        check_instances(lowered.program, broken, order)
