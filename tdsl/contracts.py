"""`expect` about code: what the C compiler made of a statement's innermost loop.

S's innermost loops are those of the assembly in which the lines of C that write for S stand: to
memory, or to the register that sums its terms. A loop is found by the line of its `for`, since
what intrinsics do stands under lines of headers. Where S is in no loop, all of its function counts.
Loops have versions for tails: a condition is about the full one, which computes on the widest and
most vectors and has the fewest instructions under a mask or for single lanes; among equals the
worst counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tdsl.codegen.module import CModule
from tdsl.diagnostics import Diagnostic, IllegalSchedule, Note, ToolchainError
from tdsl.driver import Compilation
from tdsl.listing import Listing
from tdsl.runtime.assembly import Loop
from tdsl.runtime.build import assembly
from tdsl.runtime.interface import BuildRequest
from tdsl.runtime.toolchain import find_compiler
from tdsl.schedule.directives import Expect
from tdsl.schedule.evaluate import Evaluator
from tdsl.schedule.expects import about_plan, answered, calls, instruction, statement
from tdsl.schedule.hints import refusal
from tdsl.schedule.literal import number
from tdsl.schedule.references import statement_names
from tdsl.schedule.resolve import Step
from tdsl.syntax.print_expr import print_expr
from tdsl.syntax.tree import Call, Expr, Name

SHOWN = 8  # instructions of a refusal
_OF = {
    "spills": "accesses to the stack for want of a register",
    "gathers": "loads of single lanes",
    "masks": "instructions under a mask",
    "uses": "its vector instructions",
}
KINDS = {"spills": "spill", "gathers": "gather", "masks": "mask"}


def check(parts: Sequence[Compilation], module: CModule, request: BuildRequest) -> None:
    """Raise IllegalSchedule for what does not hold. Where no compiler is found nothing is asked:
    see `unchecked`."""
    asked = list(_asked(parts))
    if not asked or _missing(request) is not None:
        return
    listing = Listing.of(module, assembly(request, marked=True))
    failed = [
        _Question(parts[place], listing, place, step, condition).refusal()
        for place, step, condition in asked
    ]
    found = [d for error in failed if error is not None for d in error.diagnostics]
    if found:
        raise IllegalSchedule(*found)


def unchecked(parts: Sequence[Compilation], request: BuildRequest) -> tuple[Diagnostic, ...]:
    """A warning where there are conditions and no compiler that could tell whether they hold."""
    asked = list(_asked(parts))
    missing = _missing(request) if asked else None
    if missing is None:
        return ()
    message = f"`expect` is not checked: {missing}"
    return (Diagnostic(message, asked[0][2].span, "schedule", severity="warning"),)


def _asked(parts: Sequence[Compilation]) -> Iterator[tuple[int, Step, Expr]]:
    """The conditions on code, each with the place of its function in the module."""
    for place, part in enumerate(parts):
        for step in part.resolved.steps:
            if isinstance(step.directive, Expect):
                for condition in step.directive.conditions:
                    if not about_plan(condition):
                        yield place, step, condition


def _missing(request: BuildRequest) -> str | None:
    try:
        find_compiler(request)
    except ToolchainError as missing:
        return missing.diagnostics[0].message
    return None


def full(versions: Sequence[Loop], worst: Callable[[Loop], int]) -> Loop:
    """The full one of the versions of a loop; among equals that with the most of something."""
    return max(versions, key=lambda loop: (*_work(loop), worst(loop)))


def _work(loop: Loop) -> tuple[int, int, int, int]:
    """By products where there are any: lanes that are put together one by one compute besides."""
    products = sum(i.width for i in loop.instructions if i.kinds & {"fma", "dot"})
    computed = 0 if products else sum(i.width for i in loop.instructions if i.computes)
    stored = sum(i.width for i in loop.of_kind("store"))
    return products, computed, -(loop.counts.masks + loop.counts.gathers), stored


@dataclass(frozen=True)
class _Question:
    part: Compilation
    listing: Listing
    place: int  # of its function in the module
    step: Step
    condition: Expr

    def refusal(self) -> IllegalSchedule | None:
        """Why the condition does not hold; None where it does."""
        answers = {call: self._answer(call) for call in calls(self.condition)}
        evaluator = Evaluator(self.part.kernel, self.part.options.target)
        value = evaluator.value(answered(self.condition, {c: a for c, (a, _) in answers.items()}))
        if value is None:
            return self._refused(f"the size {evaluator.unknown[0]} is not bound", ())
        if value is True:
            return None
        said = ", ".join(_said(call, answer) for call, (answer, _) in answers.items())
        notes = [n for call, (_, loop) in answers.items() for n in self._notes(call, loop)]
        spilt = any(
            c.func == "spills" and loop.of_kind("spill") for c, (_, loop) in answers.items()
        )
        return self._refused(said, list(dict.fromkeys(notes)), self._registers if spilt else None)

    def _refused(
        self, message: str, notes: Sequence[Note], help: str | None = None
    ) -> IllegalSchedule:
        place = self.condition.span or self.step.directive.span
        text = f"expect {print_expr(self.condition)}: {message}"
        return refusal(place, text, *notes, help=help, via=self.step.via)

    def _answer(self, call: Call) -> tuple[Expr, Loop]:
        names = statement_names(self.part.lowered.program, statement(call), call.span)
        versions = self.listing.innermost(self.place, names)
        if not versions:
            raise refusal(
                call.span, f"no code of {statement(call)} is left to look at", via=self.step.via
            )
        if call.func == "uses":
            name = instruction(call)
            loop = full(versions, lambda loop: not loop.uses(name))
            return Name("true" if loop.uses(name) else "false"), loop
        kind = KINDS[call.func]
        loop = full(versions, lambda loop: len(loop.of_kind(kind)))
        return number(len(loop.of_kind(kind)), call.span), loop

    def _notes(self, call: Call, loop: Loop) -> Iterator[Note]:
        yield Note(f"in the loop of {self.listing.head(loop)}")
        yield Note(f"a trip: {loop.counts}")
        if call.func in KINDS:
            rows = [i.text.strip().expandtabs() for i in loop.of_kind(KINDS[call.func])]
        else:
            rows = sorted({i.name for i in loop.instructions if i.width})
        more = len(rows) - SHOWN
        if rows:
            shown = rows[:SHOWN] + ([f"({more} more)"] if more > 0 else [])
            yield Note("\n".join([f"{_OF[call.func]}:", *shown]))

    @property
    def _registers(self) -> str:
        target = self.part.options.target
        return (
            f"{target.name} has {target.registers} vector registers: sums, a row of vectors and a "
            "broadcast have to fit"
        )


def _said(call: Call, answer: Expr) -> str:
    if call.func == "uses":
        does = "uses" if answer == Name("true") else "does not use"
        return f"the innermost loop of {statement(call)} {does} {instruction(call)}"
    return f"{print_expr(call)} is {print_expr(answer)}"
