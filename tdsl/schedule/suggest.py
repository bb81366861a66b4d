"""What would make a refused directive legal: tried out before it is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, permutations

from tdsl.diagnostics import Error, IllegalSchedule
from tdsl.polyhedral.program import Violation
from tdsl.polyhedral.tree import loops_of
from tdsl.schedule.directives import LoopRef, Parallel, Reorder, Skew, Tile, Unroll, Vectorize
from tdsl.schedule.references import candidates, every
from tdsl.schedule.resolve import Step
from tdsl.schedule.state import State
from tdsl.syntax.print_directive import print_directive
from tdsl.syntax.tree import Name

TRIES = 24

Attempt = Callable[[State, Step], State]
"""Applies a step, or raises."""


def helped(error: IllegalSchedule, state: State, step: Step, attempt: Attempt) -> IllegalSchedule:
    """The refusal with a help line, where a cheap try finds one."""

    def works(trial: State, *steps: Step) -> bool:
        try:
            for each in steps:
                trial = attempt(trial, each)
        except Error:
            return False
        return True

    tries = (
        _reassociation(error.violations, state, step, works),
        _skew(state, step, works),
        _other_order(state, step, works),
        _other_loop(state, step, works),
        _plain(state, step, works),
    )
    help = next((found for each in tries for found in each), None)
    if help is None:
        return error
    first, *rest = error.diagnostics
    return IllegalSchedule(replace(first, help=help), *rest, violations=error.violations)


Works = Callable[..., bool]


def _reassociation(
    violations: tuple[Violation, ...], state: State, step: Step, works: Works
) -> Iterator[str]:
    if state.strict_fp:
        return
    sums = {
        s
        for v in violations
        if v.dependence is not None and v.dependence.relaxable is not None
        for s in (v.source, v.sink)
    } - state.reassociate
    if sums and works(replace(state, reassociate=state.reassociate | sums), step):
        names = ", ".join(sorted(sums))
        yield f"put `reassociate {names}` before it: the sum may then be added in another order"


def _skew(state: State, step: Step, works: Works) -> Iterator[str]:
    """One skew of a named loop by another one outside it."""
    d = step.directive
    if not isinstance(d, Tile | Reorder):
        return
    found = [candidates(state, ref, step.on)[0] for ref in d.loops]
    path = [loop.name for loop in loops_of(state.tree, found[0].statement)]
    by_depth = sorted(zip(d.loops, found, strict=True), key=lambda pair: path.index(pair[1].name))
    for inner in range(1, len(by_depth)):
        for outer in range(inner):
            skew = Skew(by_depth[inner][0], Name(by_depth[outer][1].name))
            if works(state, replace(step, directive=skew), step):
                yield f"put `{print_directive(skew)}` before it"


def _other_order(state: State, step: Step, works: Works) -> Iterator[str]:
    d = step.directive
    if not isinstance(d, Reorder) or len(d.loops) < 3:
        return  # of two loops the other order is the one that is there
    for order in islice(permutations(d.loops), 1, TRIES):
        other = replace(d, loops=order)
        if not _is_present(state, other, step.on) and works(state, replace(step, directive=other)):
            yield f"`{print_directive(other)}` would be legal"


def _is_present(state: State, d: Reorder, on: tuple[str, ...]) -> bool:
    found = [candidates(state, ref, on)[0] for ref in d.loops]
    path = [loop.name for loop in loops_of(state.tree, found[0].statement)]
    places = [path.index(at.name) for at in found]
    return places == sorted(places)


def _other_loop(state: State, step: Step, works: Works) -> Iterator[str]:
    d = step.directive
    if not isinstance(d, Parallel | Vectorize):
        return
    at = every(state, d.loops, step.on)[0]
    around = loops_of(state.tree, at.statement)
    # Threads pay outside, lanes inside.
    for loop in around if isinstance(d, Parallel) else reversed(around):
        other = replace(d, loops=(LoopRef(at.statement, loop.name),))
        if loop is not at.loop and works(state, Step(other)):
            yield f"`{print_directive(other)}` would be legal"


def _plain(state: State, step: Step, works: Works) -> Iterator[str]:
    d = step.directive
    if isinstance(d, Unroll) and not d.plain:
        other = replace(d, plain=True)
        if works(state, replace(step, directive=other)):
            yield f"`{print_directive(other)}` keeps the order: copies one after the other"
