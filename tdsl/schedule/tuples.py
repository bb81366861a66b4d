"""`vectorize` over the terms of a tuple reduction: a state for each lane, and their join."""

from __future__ import annotations

from dataclasses import replace

from tdsl.diagnostics import Span
from tdsl.polyhedral.edit import EditError
from tdsl.polyhedral.inits import is_reduction_loop
from tdsl.polyhedral.tree import statements
from tdsl.polyhedral.tuplelanes import in_lanes
from tdsl.schedule.hints import refusal
from tdsl.schedule.replaced import rebased
from tdsl.schedule.state import LoopAt, State


def with_states(state: State, at: LoopAt, note: str, span: Span | None) -> State:
    """The state where a loop that was just marked becomes lanes with states of their own; the
    same where it runs over no terms of a tuple reduction, or these have an order."""
    head = next(
        (h for s in statements(at.loop) if (h := state.program.statements[s].tuple_of)), None
    )
    if head is None or not _may_join(state, head):
        return state
    if head not in at.loop.coords or not is_reduction_loop(at.loop, state.program.statements[head]):
        return state
    if state.base is not None:
        raise refusal(
            span,
            f"the terms of {head} come to lanes before anything is placed",
            help="put this directive before the first compute, store and pack",
            earlier=True,
        )
    try:
        made = in_lanes(state.program, state.tree, head, at.name)
    except EditError as error:
        raise refusal(span, str(error), help=error.help) from None
    home = made.home
    private = dict.fromkeys(made.private, home) if home is not None else {}
    hosts = () if home is None else ((*home, note),)
    state = replace(
        state,
        private={**state.private, **private},
        hosts=(*state.hosts, *hosts),
    )
    return rebased(state, made.program, made.tree, made.arrays)


def _may_join(state: State, head: str) -> bool:
    """Whether the terms may come in any order: exactly (`argmax`), by the word of the schedule.
    The states of lanes are joined one after the other, whatever their head."""
    written = next((s for s in state.program.kernel.statements if s.name == head), None)
    if written is None:
        return False
    if written.start is not None:
        return True
    parts = [s for s in state.program.statements.values() if s.tuple_of == head and s.reduction]
    floats = any(state.program.arrays[s.write.array].type.is_float for s in parts)
    return not floats or head in state.reassociate
