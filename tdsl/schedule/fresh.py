"""Memory for the temps of `for` bodies, when the order is final: the least that keeps it legal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tdsl.diagnostics import IllegalSchedule, Span
from tdsl.polyhedral import dependences, fresh, legality
from tdsl.polyhedral.program import Dependence, Program
from tdsl.schedule import check, marks
from tdsl.schedule.hints import listing, refusal
from tdsl.schedule.state import Private, State


def placed(state: State) -> tuple[State, Private]:
    """The state with memory for every array, and the loops in whose iterations each is new."""
    private: Private = {}
    for array in fresh.fresh_arrays(state.program):
        state, homes = _placed(state, array)
        if homes:
            private[array] = homes
    return state, private


def _placed(state: State, array: str) -> tuple[State, tuple[tuple[str, str], ...]]:
    others = tuple(d for d in state.dependences if d.array != array)
    placed_tree = legality.with_inits(state.program, state.tree)
    for choice in fresh.choices(state.program, state.tree, array):
        found: tuple[Dependence, ...] = dependences.compute(choice.program, arrays=[array])
        if choice.private:
            found = fresh.only_private(found, placed_tree, array, choice.private)
        trial = replace(state, program=choice.program, dependences=found)
        if _holds(trial):
            return replace(trial, dependences=(*others, *found)), choice.private
    span = state.program.arrays[array].span
    head = term_of(state.program, array)
    if head is not None:
        raise IllegalSchedule.at(
            span,
            f"no order is found for the terms of {head} where this schedule puts them: what they "
            "make of the state would overlap in time",
            help=f"compute {head} at root",
        )
    raise IllegalSchedule.at(
        span,
        f"no memory for {array} is found in this order: its iterations overlap in time",
        help=f"declare it outside the `for`, with a dimension for each index that {array} needs",
    )


def term_of(program: Program, array: str) -> str | None:
    """The tuple reduction (`argmax`, `combine`) whose terms keep something in an array of a `for`
    body, which no text declares."""
    heads = {s.tuple_of for s in program.statements.values() if s.write.array == array}
    return heads.pop() if len(heads) == 1 else None


def _holds(state: State) -> bool:
    """Whether the final order keeps what the memory of one array adds."""
    if check.order(state):
        return False
    return not any(check.mark(state, at) for at in marks.all_marked(state))


def refuse_undecided(state: State, below: Iterable[str], what: str, span: Span | None) -> None:
    """Refuse to make new statements of those below a loop where they touch arrays whose memory is
    decided when the order is final."""
    program = state.program
    found = [program.statements[s] for s in below]
    used = {a for s in found for a in (s.write.array, *(r.array for r in s.reads))}
    local = [name for name in fresh.fresh_arrays(program) if name in used]
    if not local:
        return
    heads = [s.tuple_of for s in program.statements.values() if s.write.array in local]
    head = next((h for h in heads if h is not None), None)
    if head is not None:
        raise refusal(
            span,
            f"{what}: {head} keeps several values in one loop, and the next ones go into "
            f"{listing(local)} first",
        )
    raise refusal(
        span,
        f"{what}: `for` bodies declare temps ({listing(local)})",
        help="declare them outside, with a dimension for each index of the `for`",
    )
