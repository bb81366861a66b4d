"""What a kernel asks of its workspace, and `expect scratch <= ...` about it.

`scratch` is the bytes of the elements of all arrays in the workspace; what each thread has of its
own counts as often as the machine has processors. What holds, holds for all sizes.
"""

from __future__ import annotations

import itertools
import operator
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tdsl.diagnostics import IllegalSchedule, Note
from tdsl.ir.affine import number
from tdsl.ir.intervals import evaluate
from tdsl.ir.kernel import INDEX, Array, Expr, Kernel, Op, Size, walk
from tdsl.ir.polynomials import holds_always
from tdsl.ir.printer import print_expr
from tdsl.polyhedral.program import Program
from tdsl.schedule.directives import Expect
from tdsl.schedule.expects import SCRATCH, about_plan
from tdsl.schedule.hints import refusal
from tdsl.schedule.resolve import Step
from tdsl.syntax import tree
from tdsl.syntax.print_expr import print_expr as surface_text

SAMPLES = (1, 2, 3, 7, 8, 64, 100, 1000, 4096, 0)  # of sizes, for a counterexample
TRIES = 4096


@dataclass(frozen=True)
class Kept:
    """An array of the workspace, and how often it is there."""

    array: Array
    times: int

    @property
    def bytes(self) -> Expr:
        """Of its elements, all of them."""
        total: Expr = number(self.array.type.bytes * self.times)
        for extent in self.array.shape:
            total = _op("mul", total, extent)
        return total

    def __str__(self) -> str:
        shape = ", ".join(map(print_expr, self.array.shape))
        each = f", for each of {self.times} threads" if self.times > 1 else ""
        return f"{self.array.name}: {self.array.type}[{shape}]{each}"


def workspace(program: Program, of_threads: Collection[str]) -> tuple[Kept, ...]:
    """The arrays of the workspace, in order; `of_threads`: those of which each has its own."""
    threads = os.cpu_count() or 1
    return tuple(
        Kept(a, threads if a.role == "scratch" and a.name in of_threads else 1)
        for a in program.arrays.values()
        if a.role in ("temp", "scratch")
    )


def check(
    program: Program,
    of_threads: Collection[str],
    steps: Iterable[Step],
    conditions: Sequence[Expr],
    lets: Mapping[str, tree.Expr],
) -> None:
    """Raise IllegalSchedule for the first condition on `scratch` that does not hold, or cannot be
    proved. conditions: what is known of the sizes; lets: the kernel's names of expressions."""
    for step in steps:
        if isinstance(step.directive, Expect):
            for condition in filter(about_plan, step.directive.conditions):
                kept = workspace(program, of_threads)
                _Question(program.kernel, kept, conditions, lets, step, condition).ask()


@dataclass(frozen=True)
class _Question:
    kernel: Kernel
    kept: tuple[Kept, ...]
    conditions: Sequence[Expr]
    lets: Mapping[str, tree.Expr]
    step: Step
    condition: tree.Expr

    def ask(self) -> None:
        condition = self.condition
        if not isinstance(condition, tree.Compare):
            raise self._refused("a condition on scratch compares it")
        sides = [self._side(e) for e in (condition.first, *(e for _, e in condition.rest))]
        compared = list(zip(sides, (op for op, _ in condition.rest), sides[1:], strict=False))
        if all(holds_always(op, a, b) for a, op, b in compared):
            return
        sizes = self._counterexample(compared)
        if sizes is None:
            raise self._refused(
                "this cannot be decided for all sizes",
                help="bind the sizes that scratch depends on, or expect less",
            )
        taken = evaluate(self._scratch, sizes, {})
        asked = {s.name for e in sides for s in walk(e) if isinstance(s, Size)}
        found = ", ".join(f"{n}={v}" for n, v in sizes.items() if n in asked)
        where = f" with {found}" if found else ""
        raise self._refused(f"the workspace takes {taken} bytes{where}")

    def _refused(self, message: str, help: str | None = None) -> IllegalSchedule:
        notes = [Note(str(kept)) for kept in self.kept]
        place = self.condition.span or self.step.directive.span
        text = surface_text(self.condition)
        return refusal(place, f"expect {text}: {message}", *notes, help=help, via=self.step.via)

    @property
    def _scratch(self) -> Expr:
        total: Expr = number(0)
        for kept in self.kept:
            total = _op("add", total, kept.bytes)
        return total

    def _side(self, expr: tree.Expr) -> Expr:
        """The same in the words of the kernel."""
        match expr:
            case tree.Number(value, False):
                return number(int(value))
            case tree.Name(id) if id == SCRATCH:
                return self._scratch
            case tree.Name(id) if id in self.lets:
                return self._side(self.lets[id])
            case tree.Name(id) if id in self.kernel.sizes:
                return Size(id)
            case tree.Binary(op, a, b) if op in _OPS:
                return _op(_OPS[op], self._side(a), self._side(b))
            case tree.Call(("min" | "max") as which, (first, *rest)):
                found = self._side(first)
                for other in rest:
                    found = _op(which, found, self._side(other))
                return found
            case _:
                raise self._refused(f"scratch is not compared with {surface_text(expr)}")

    def _counterexample(self, compared: Sequence[tuple[Expr, str, Expr]]) -> dict[str, int] | None:
        """Sizes for which the condition does not hold; None where none was found."""
        names = self.kernel.sizes
        known = (*self.kernel.assumptions, *self.conditions)
        alike = ((value,) * len(names) for value in SAMPLES)
        tried = itertools.chain(alike, itertools.product(SAMPLES, repeat=len(names)))
        for values in itertools.islice(tried, TRIES):
            sizes = dict(zip(names, values, strict=True))
            if all(evaluate(c, sizes, {}) for c in known) and not all(
                _COMPARED[op](evaluate(a, sizes, {}), evaluate(b, sizes, {}))
                for a, op, b in compared
            ):
                return sizes
        return None


_OPS = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod"}
_COMPARED = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def _op(op: str, a: Expr, b: Expr) -> Expr:
    return Op(op, (a, b), INDEX)
