"""What would make a refused directive legal: tried out before it is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice, permutations

from tdsl.diagnostics import IllegalSchedule
from tdsl.polyhedral.program import Violation
from tdsl.schedule.directives import Reorder
from tdsl.schedule.hints import listing
from tdsl.schedule.resolve import Step
from tdsl.schedule.state import State
from tdsl.syntax.print_directive import print_directive

TRIES = 24

Legal = Callable[[State, Step], bool]


def helped(error: IllegalSchedule, state: State, step: Step, legal: Legal) -> IllegalSchedule:
    """The refusal with a help line, where a cheap try finds one."""
    help = _reassociation(error.violations, state, step, legal) or _other_order(state, step, legal)
    if help is None:
        return error
    first, *rest = error.diagnostics
    return IllegalSchedule(replace(first, help=help), *rest, violations=error.violations)


def _reassociation(
    violations: tuple[Violation, ...], state: State, step: Step, legal: Legal
) -> str | None:
    if state.strict_fp:
        return None
    sums = {
        s
        for v in violations
        if v.dependence is not None and v.dependence.relaxable is not None
        for s in (v.source, v.sink)
    } - state.reassociate
    if sums and legal(replace(state, reassociate=state.reassociate | sums), step):
        names = ", ".join(sorted(sums))
        return f"`reassociate {names}` before it lets the order of that sum change"
    return None


def _other_order(state: State, step: Step, legal: Legal) -> str | None:
    d = step.directive
    if not isinstance(d, Reorder) or len(d.loops) < 3:
        return None  # of two loops the other order is the one that is there
    found = []
    for order in islice(permutations(d.loops), 1, TRIES):
        other = replace(d, loops=order)
        if legal(state, replace(step, directive=other)):
            found.append(f"`{print_directive(other)}`")
        if len(found) == 2:
            break
    return f"{listing(found, 'and')} would be legal" if found else None
