"""Validation: what it accepts, what it says, and that no C is made of what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tdsl import driver
from tdsl.diagnostics import BudgetExceeded
from tdsl.driver import Options, run
from tdsl.ir import loops as ir
from tdsl.lower.lower import Lowered, lower
from tdsl.polyhedral.budget import limit
from tdsl.polyhedral.rebuild import Miscompiled
from tdsl.polyhedral.validate import Order, validate
from tdsl.syntax.parser import parse
from tdsl.targets.target import TARGETS
from tests.lower.kernels import KERNELS, compiled

PREFIX = """
kernel prefix(N) {
    inout x: f32[N]
    for i in 1..N { x[i] = x[i] + x[i - 1] }
}
"""


def made(text: str, kernel: str, sizes: dict[str, int] | None = None) -> driver.Compilation:
    return run(parse(text, "t.tdsl"), Options(kernel, TARGETS["avx512"], sizes=sizes or {}))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("target", ["c", "avx512", "avx2", "neon"])
def test_what_is_lowered_passes(kernel: str, target: str) -> None:
    compiled(kernel, target)


@pytest.mark.parametrize(
    ("kernel", "name", "sizes"),
    [
        ("tile", "matmul", {"M": 256, "N": 250, "K": 300}),
        ("blocked", "matmul", {"M": 100, "N": 101, "K": 102}),
        ("conv2d", "conv2d", {"H": 58, "W": 59}),
        ("shift", "shift", {"N": 50_000}),
        ("copies", "scale", {"N": 12_345}),
        ("triangle", "trmv", {"N": 1000}),
    ],
)
def test_bound_sizes_pass(kernel: str, name: str, sizes: dict[str, int]) -> None:
    """Too many instances to look at all: the ends of the loops are looked at."""
    made(KERNELS[kernel], name, sizes)


def test_message_names_two_iterations() -> None:
    c = made(PREFIX, "prefix")
    (loop,) = c.lowered.loops.items
    assert isinstance(loop, ir.For)
    block = ir.Block((replace(loop, mark="parallel"),))
    with pytest.raises(Miscompiled) as error:
        validate(c.scheduled.program, block, Order(c.dependences))
    assert str(error.value) == (
        "x(i=1) runs in parallel with x(i=2) at N=3, against the flow dependence through x"
    )


def test_missing_instance_is_named() -> None:
    c = made(PREFIX, "prefix")
    with pytest.raises(Miscompiled, match=r"^x\(i=1\) does not run at N=2$"):
        validate(c.scheduled.program, ir.Block(()), Order(c.dependences))


def test_driver_fails_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lowering that loses its loops makes no C."""

    def wrong(*args: Any, **more: Any) -> Lowered:
        lowered = lower(*args, **more)
        body = replace(lowered.function.body, items=())
        return replace(lowered, function=replace(lowered.function, body=body))

    monkeypatch.setattr(driver, "lower", wrong)
    with pytest.raises(Miscompiled, match="is not written on the vector level"):
        made(KERNELS["tile"], "matmul")


def test_over_budget_is_refused() -> None:
    c = compiled("tile")
    with limit(1000), pytest.raises(BudgetExceeded, match="the loops run what the program says"):
        validate(c.scheduled.program, c.lowered.loops, Order(c.dependences))
