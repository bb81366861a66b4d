"""What a kernel computes and moves, in numbers: for speeds in operations and bytes a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tdsl.ir.intervals import evaluate
from tdsl.ir.kernel import INDEX, MATH, Expr, Op, Read, Select, children
from tdsl.ir.types import BOOL
from tdsl.polyhedral.count import instances
from tdsl.polyhedral.program import Program, Stmt

COUNTED = frozenset(("add", "sub", "mul", "div", "neg", "min", "max", "abs", *MATH))


@dataclass(frozen=True)
class Work:
    """One call: `operations` by element type, and the `bytes` of all arguments, each once."""

    operations: Mapping[str, int]
    bytes: int

    @property
    def total(self) -> int:
        return sum(self.operations.values())

    @property
    def type(self) -> str | None:
        """The element type of most operations."""
        return max(self.operations, key=lambda t: self.operations[t], default=None)


def work(program: Program, sizes: Mapping[str, int]) -> Work:
    """For sizes that are not bound. Each + - * / and function of data counts one, and each term
    that an update adds; of a choice the longer arm; what the schedule repeats or leaves out does
    not matter."""
    found: dict[str, int] = {}
    times = instances(program, sizes)
    for name, statement in program.statements.items():
        for type, number in _of(program, statement).items():
            found[type] = found.get(type, 0) + number * times[name]
    moved = 0
    for array in program.kernel.arguments:
        elements = 1
        for extent in array.shape:
            elements *= evaluate(extent, sizes, {})
        moved += elements * array.type.bytes * (2 if array.role == "inout" else 1)
    return Work({t: n for t, n in found.items() if n}, moved)


def _of(program: Program, statement: Stmt) -> dict[str, int]:
    if statement.value is None or statement.init_of is not None:
        return {}
    found = _in(statement.value)
    if statement.is_update:
        type = program.arrays[statement.write.array].type.name
        found[type] = found.get(type, 0) + 1
    return found


def _in(expr: Expr) -> dict[str, int]:
    """Operations of one evaluation, by type."""
    match expr:
        case Select(_, then, other):
            arms = _in(then), _in(other)
            return max(arms, key=lambda arm: sum(arm.values()))
        case Read():
            return {}  # its indices are no data
        case _:
            found: dict[str, int] = {}
            for child in children(expr):
                for type, number in _in(child).items():
                    found[type] = found.get(type, 0) + number
            if isinstance(expr, Op) and expr.op in COUNTED and expr.type not in (INDEX, BOOL):
                found[expr.type.name] = found.get(expr.type.name, 0) + 1
            return found
