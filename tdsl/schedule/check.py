"""Directives ask `tdsl.polyhedral.legality`; what is not legal becomes an `IllegalSchedule`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tdsl.diagnostics import IllegalSchedule, Note, Span
from tdsl.polyhedral import dependences, legality
from tdsl.polyhedral.edit import find, jammed
from tdsl.polyhedral.explain import describe_violation
from tdsl.polyhedral.extent import extent
from tdsl.polyhedral.leaves import is_dim
from tdsl.polyhedral.program import Dependence, Violation
from tdsl.polyhedral.tree import Loop, Node, loops, loops_of, statements
from tdsl.schedule.hints import refusal
from tdsl.schedule.state import LoopAt, State

WIDEST = 64  # bytes of the largest register of any target


def order(state: State) -> tuple[Violation, ...]:
    """The dependences that the tree runs backward."""
    tree = legality.with_inits(state.program, state.tree)
    return legality.check(state.program, tree, _relaxed(state))


def _relaxed(state: State) -> tuple[Dependence, ...]:
    return dependences.relaxed(state.dependences, state.program, state.reassociate, state.strict_fp)


def mark(state: State, at: LoopAt) -> tuple[Violation, ...]:
    """The dependences that a loop's mark breaks; none for a serial loop."""
    tree = legality.with_inits(state.program, state.tree)
    loop = find(tree, at.statement, at.name)
    match loop.mark:
        case "vector" | "dot":
            return legality.check_vector(
                state.program,
                tree,
                state.dependences,
                loop,
                reassociate=state.reassociate,
                strict_fp=state.strict_fp,
            )
        case "parallel":
            carried = _parallel(state, tree, loop)
            for statement, outer, inner in state.collapsed:
                if statement not in statements(loop) or outer != at.name:
                    continue
                for found in loops_of(tree, statement):
                    if found.name == inner:  # else merged with one around, where the nest moved
                        carried += _parallel(state, tree, found)
            return carried
        case "unroll" if jams(loop):
            # Loops unrolled together keep their own order: ask the tree after the jam.
            return legality.check(state.program, jammed(tree), _relaxed(state))
        case _:
            return ()


def _parallel(state: State, tree: Node, loop: Loop) -> tuple[Violation, ...]:
    return legality.check_parallel(state.program, tree, state.dependences, loop)


def jams(loop: Loop) -> bool:
    """Whether an unrolled loop moves inside others."""
    return is_dim(loop) and any(not is_dim(inner) for inner in loops(loop.body))


def shape(state: State, span: Span | None) -> None:
    """Refuse lanes inside lanes and threads inside threads."""
    for name in statements(state.tree):
        _shape(state, name, span)


def _shape(state: State, statement: str, span: Span | None) -> None:
    seen: dict[str, Loop] = {}
    for loop in loops_of(state.tree, statement):
        if loop.mark not in ("vector", "parallel"):
            continue
        outer = seen.get(loop.mark)
        if outer is not None and not (loop.mark == "vector" and is_tile(state, outer, loop)):
            words = {"vector": "vectorized", "parallel": "parallel"}[loop.mark]
            pair = ", or its two innermost ones where a register holds both"
            raise refusal(
                span,
                f"{outer.name} and {loop.name} around {statement} would both be {words}",
                help=f"one loop on a path may be {words}{pair if loop.mark == 'vector' else ''}",
            )
        seen[loop.mark] = loop


def is_tile(state: State, rows: Loop, columns: Loop) -> bool:
    """Whether two vector loops are the rows and columns of one register: innermost, one directly
    inside the other, and few iterations together. Terms that an instruction adds may be inside."""
    if rows.body is not columns or any(inner.mark != "dot" for inner in loops(columns.body)):
        return False
    at = statements(columns)[0]
    counts = [extent(state.program, state.tree, at, loop.name) for loop in (rows, columns)]
    size = max(state.program.arrays[state.program.statements[s].write.array].type.bytes
               for s in statements(columns))  # fmt: skip
    return all(counts) and prod(n or 0 for n in counts) * size <= WIDEST


def illegal(
    state: State, violations: Sequence[Violation], span: Span | None, directive: str | None
) -> IllegalSchedule:
    """The refusal of a directive: the dependence and two iterations that show it."""
    shown = describe_violation(state.program, violations[0], directive=directive, span=span)
    if state.strict_fp and _is_float_reduction(state, violations[0]):
        kept = Note("strict_fp keeps the order of every reduction of floats")
        shown = replace(shown, notes=(*shown.notes, kept))
    more = len(violations) - 1
    if more:
        rest = Note(f"{more} more dependence{'s' if more > 1 else ''} would be broken")
        shown = replace(shown, notes=(*shown.notes, rest))
    return IllegalSchedule(shown, violations=tuple(violations))


def _is_float_reduction(state: State, violation: Violation) -> bool:
    found = violation.dependence
    array = state.program.arrays[violation.array]
    return found is not None and found.relaxable is not None and array.type.is_float
