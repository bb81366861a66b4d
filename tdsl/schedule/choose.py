"""Which variant of a kernel's schedules runs: the first whose target and condition hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tdsl.diagnostics import Diagnostic, Note, Span
from tdsl.ir.kernel import Kernel
from tdsl.schedule.conditions import WIDEST
from tdsl.schedule.evaluate import Evaluator
from tdsl.schedule.hints import closest, refusal
from tdsl.schedule.target import Target, serves
from tdsl.syntax import tree as surface
from tdsl.syntax.tree import Expr, File, Schedule, SizeLet


@dataclass(frozen=True)
class Choice:
    """`schedule`: the variant to run, or None where the program's own order runs. `undecided`:
    variants before it whose conditions ask about sizes that are not bound; with the sizes of a
    call, `choose` again."""

    schedule: Schedule | None
    undecided: tuple[Schedule, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()


def size_lets(file: File, kernel: str) -> dict[str, Expr]:
    """The names that a kernel's `let`s give to size expressions."""
    for item in file.items:
        if isinstance(item, surface.Kernel) and item.name == kernel:
            return {i.name: i.value for i in item.items if isinstance(i, SizeLet)}
    return {}


def holds(
    condition: Expr | None,
    kernel: Kernel,
    sizes: Mapping[str, int] | None = None,
    target: Target | None = None,
    lets: Mapping[str, Expr] | None = None,
) -> bool | None:
    """Whether a `when` holds; None where that depends on sizes that are not bound."""
    if condition is None:
        return True
    evaluator = Evaluator(kernel, target, sizes=sizes or {}, lets=lets or {}, limit=WIDEST)
    value = evaluator.value(condition)
    number = value is None and _is_number(condition)
    if number or (value is not None and not isinstance(value, bool)):
        raise refusal(
            condition.span, "`when` wants a condition", help="compare, for example `N >= 64`"
        )
    return value


def _is_number(condition: Expr) -> bool:
    """Whether an expression of unbound sizes cannot be a condition."""
    arithmetic = isinstance(condition, surface.Binary) and condition.op not in ("and", "or")
    return arithmetic or isinstance(condition, surface.Name)


def variants(file: File, kernel: str) -> tuple[Schedule, ...]:
    """The schedules of a kernel in the order of the file."""
    return tuple(i for i in file.items if isinstance(i, Schedule) and i.kernel == kernel)


def choose(
    file: File,
    kernel: Kernel,
    target: Target,
    sizes: Mapping[str, int] | None = None,
    variant: str | None = None,
) -> Choice:
    """The variant for a target and sizes. `variant` names one and overrides its `when`; an
    unnamed schedule goes by the name of its kernel."""
    every = variants(file, kernel.name)
    warnings = unreachable(every)
    if variant is not None:
        return Choice(_named(every, kernel.name, target, variant), (), warnings)
    undecided: list[Schedule] = []
    lets = size_lets(file, kernel.name)
    for schedule in every:
        if not any(serves(target, t) for t in schedule.targets):
            continue
        answer = holds(schedule.condition, kernel, sizes, target, lets)
        if answer is True:
            return Choice(schedule, tuple(undecided), warnings)
        if answer is None:
            undecided.append(schedule)
    return Choice(None, tuple(undecided), warnings)


def _label(schedule: Schedule) -> str:
    return schedule.variant or schedule.kernel


def _named(every: tuple[Schedule, ...], kernel: str, target: Target, variant: str) -> Schedule:
    named = [s for s in every if _label(s) == variant]
    if not named:
        raise refusal(
            None,
            f"{kernel} has no schedule named {variant}",
            help=closest(variant, (_label(s) for s in every), "schedules"),
        )
    for schedule in named:
        if any(serves(target, t) for t in schedule.targets):
            return schedule
    written = ", ".join(t for s in named for t in s.targets)
    raise refusal(
        _span(named[0]), f"the schedule {kernel}.{variant} is for {written}, not for {target.name}"
    )


def unreachable(every: tuple[Schedule, ...]) -> tuple[Diagnostic, ...]:
    """Warnings for variants that an earlier one without a condition always precedes."""
    found = []
    for position, schedule in enumerate(every):
        same = [s for s in every[:position] if _label(s) == _label(schedule) and _meet(s, schedule)]
        if same:
            found.append(
                Diagnostic(
                    f"two schedules of {schedule.kernel} are called {_label(schedule)}: the name "
                    "takes the first one",
                    _span(schedule),
                    "schedule",
                    (Note("the first one is here", _span(same[0])),),
                    help=f"give it a name of its own: `schedule {schedule.kernel}.NAME for ...`",
                    severity="warning",
                )
            )
        if _by_name_only(schedule):
            continue
        for earlier in every[:position]:
            if earlier.condition is None and all(
                any(_covers(t, u) for t in earlier.targets) for u in schedule.targets
            ):
                found.append(
                    Diagnostic(
                        f"the schedule {_label(schedule)} is never taken: {_label(earlier)}, "
                        f"above it, has no condition and serves the same targets",
                        _span(schedule),
                        "schedule",
                        help="put it first, give the other one a `when`, or write `when false`",
                        severity="warning",
                    )
                )
                break
    return tuple(found)


def _by_name_only(schedule: Schedule) -> bool:
    c = schedule.condition
    return isinstance(c, surface.Name) and c.id == "false"


def _meet(one: Schedule, other: Schedule) -> bool:
    """Whether both serve some target."""
    return any(_covers(t, u) or _covers(u, t) for t in one.targets for u in other.targets)


def _covers(general: str, special: str) -> bool:
    """Whether every target that `special` serves is served by `general`."""
    if general == "any":
        return True
    base, *features = general.split("+")
    other, *more = special.split("+")
    return base == other and set(features) <= set(more)


def _span(schedule: Schedule) -> Span | None:
    """The schedule's first line: all of it would underline a page."""
    span = schedule.span
    if span is None:
        return None
    brace = span.text.find("{")
    return Span(span.source, span.start, span.start + brace) if brace > 0 else span
