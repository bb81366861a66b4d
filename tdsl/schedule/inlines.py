"""`inline P`: names, then the program without P."""

from __future__ import annotations

from dataclasses import replace

from tdsl.polyhedral.edit import find
from tdsl.polyhedral.inline import heir, inline, without
from tdsl.schedule.directives import Inline
from tdsl.schedule.hints import listing, refusal
from tdsl.schedule.references import statement_names
from tdsl.schedule.replaced import rebased
from tdsl.schedule.state import State


def inlined(state: State, d: Inline) -> State:
    """Each definition substituted in turn; the readers read what it reads."""
    if state.base is not None or state.stages:
        raise refusal(
            d.span,
            "inline comes before everything that is placed",
            help="put it before compute, pack and stage",
            earlier=True,
        )
    for name in d.statements:
        state = _without(state, d, name)
    return state


def _without(state: State, d: Inline, name: str) -> State:
    program = state.program
    gone = frozenset(statement_names(program, name, d.span))
    array = program.statements[next(iter(gone))].write.array
    others = [
        s.name for s in program.statements.values() if s.write.array == array and s.name not in gone
    ]
    if others and not any(program.statements[s].init_of in gone for s in others):
        raise refusal(
            d.span,
            f"{listing(others)} {'write' if len(others) > 1 else 'writes'} {array} too",
            help=f"inline {array}",
        )
    made, touched = inline(program, array, state.dependences)
    tree = without(state.tree, gone)
    assert tree is not None  # somebody reads it

    def named(statement: str, loop: str) -> str | None:
        if statement not in gone:
            return statement
        return heir(find(state.tree, statement, loop), gone)

    return replace(
        rebased(state, made, tree, {array, *touched}),
        marked=tuple((s, n, x) for old, n, x in state.marked if (s := named(old, n)) is not None),
        collapsed=tuple(
            (s, o, i) for old, o, i in state.collapsed if (s := named(old, o)) is not None
        ),
    )
