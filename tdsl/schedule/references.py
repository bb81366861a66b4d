"""Which loops and statements a directive's names mean.

`S.i` is S's loop. A bare name belongs to the statements of the `on` block around it, else to
whatever statement has a loop of that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tdsl.diagnostics import IllegalSchedule, Span
from tdsl.polyhedral.program import Program
from tdsl.polyhedral.tree import Loop, loops, loops_of, statements
from tdsl.schedule.directives import LoopRef
from tdsl.schedule.hints import closest, listing, refusal
from tdsl.schedule.state import LoopAt, State


def statement_names(program: Program, name: str, span: Span | None) -> tuple[str, ...]:
    """The statement of that name, or all that write the array of that name."""
    known = [s for s, stmt in program.statements.items() if stmt.init_of is None]
    parts = tuple(s for s in known if program.statements[s].tuple_of == name)
    if parts:
        return parts
    if name in known:
        return (name,)
    writers = tuple(s for s in known if program.statements[s].write.array == name)
    if writers:
        return writers
    if name.endswith(".init") and name in program.statements:
        owner = name.removesuffix(".init")
        raise refusal(
            span, f"{name} follows {owner}: its loops cannot be named", help=f"name {owner}"
        )
    arrays = [program.statements[s].write.array for s in known]
    help = closest(name, [*known, *arrays], "statements")
    raise refusal(span, f"there is no statement {name}", help=help)


class Ambiguous(IllegalSchedule):
    """A name that several loops have, where a directive wants one."""

    found: tuple[LoopAt, ...] = ()
    ref: LoopRef


def _ambiguous(ref: LoopRef, found: tuple[LoopAt, ...]) -> Ambiguous:
    names = [str(f) for f in found]
    diagnostic = refusal(ref.span, f"{ref} may be {listing(names, 'or')}").diagnostics[0]
    error = Ambiguous(diagnostic)
    error.ref, error.found = ref, found
    return error


def candidates(state: State, ref: LoopRef, on: Sequence[str]) -> tuple[LoopAt, ...]:
    """Every loop that a reference may mean, in text order, each once; at least one."""
    if ref.statement is not None:
        owners: Iterable[str] = statement_names(state.program, ref.statement, ref.span)
    elif on:
        owners = [s for name in on for s in statement_names(state.program, name, ref.span)]
    else:
        owners = statements(state.tree)
    found: list[LoopAt] = []
    for owner in owners:
        wanted = state.aliases.get((owner, ref.loop), ref.loop)
        for loop in loops_of(state.tree, owner):
            if loop.name == wanted and not any(loop is f.loop for f in found):
                found.append(LoopAt(owner, loop))
    if not found:
        raise _unknown(state, ref, tuple(owners))
    return tuple(found)


def one(state: State, ref: LoopRef, on: Sequence[str]) -> LoopAt:
    """The one loop that a reference means."""
    found = candidates(state, ref, on)
    if len(found) > 1:
        raise _ambiguous(ref, found)  # which of them will do is tried out by `suggest`
    return found[0]


def every(state: State, refs: Sequence[LoopRef], on: Sequence[str]) -> tuple[LoopAt, ...]:
    """All loops that the references of a directive marked * mean; none twice."""
    found: list[LoopAt] = []
    for ref in refs:
        for loop in candidates(state, ref, on):
            if any(loop.loop is f.loop for f in found):
                raise refusal(ref.span, f"{loop} is named twice")
            found.append(loop)
    return tuple(found)


def distinct(state: State, refs: Sequence[LoopRef], on: Sequence[str]) -> tuple[LoopAt, ...]:
    """One loop for each reference; none twice."""
    found: list[LoopAt] = []
    for ref in refs:
        loop = one(state, ref, on)
        if any(loop.loop is f.loop for f in found):
            raise refusal(ref.span, f"{ref} is named twice")
        found.append(loop)
    return tuple(found)


def in_nest(
    state: State, at: LoopAt, host: Sequence[Loop], names: Sequence[str]
) -> tuple[State, list[str]]:
    """New names in a nest that was placed inside the loops `host`: one that a loop of those has
    is told apart from it, and means the nest's own loop where the nest is named."""
    taken = {loop.name for loop in host}
    aliases = dict(state.aliases)
    own = []
    for name in names:
        new = name
        while new in taken:
            new += f"_{at.statement}"
        own.append(new)
        if new != name:
            aliases |= {(s, name): new for s in statements(at.loop)}
    return replace(state, aliases=aliases), own


def _unknown(state: State, ref: LoopRef, owners: tuple[str, ...]) -> IllegalSchedule:
    names = [loop.name for owner in owners for loop in loops_of(state.tree, owner)]
    where = f"around {listing(owners, 'or')}" if ref.statement or len(owners) == 1 else ""
    message = f"there is no loop {ref.loop} {where}".rstrip()
    begun = [s for s in owners if f"{s}.init" in state.program.statements]
    if ref.statement and ref.loop == "init" and begun:
        return refusal(
            ref.span,
            f"{begun[0]}.init follows {begun[0]}: its loops cannot be named",
            help=f"name {begun[0]}",
        )
    elsewhere = [str(at) for at in _named(state, ref.loop)]
    if elsewhere and where:
        return refusal(ref.span, message, help=f"{listing(elsewhere, 'and')} is elsewhere")
    return refusal(ref.span, message, help=closest(ref.loop, names, "loops"))


def _named(state: State, name: str) -> list[LoopAt]:
    return [LoopAt(statements(x)[0], x) for x in loops(state.tree) if x.name == name]


def fresh(
    state: State,
    names: Sequence[str],
    below: Loop,
    replaced: Sequence[str],
    span: Span | None,
) -> None:
    """Refuse new names that are already on a path through `below`; `replaced` go away."""
    for position, name in enumerate(names):
        if name in names[:position]:
            raise refusal(span, f"two new loops are both called {name}")
    for statement in statements(below):
        for loop in loops_of(state.tree, statement):
            if loop.name in names and loop.name not in replaced:
                raise refusal(
                    span,
                    f"{loop.name} is already the name of a loop around {statement}",
                    help="choose a name that is new there",
                )
