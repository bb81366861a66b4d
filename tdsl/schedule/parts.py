"""`peel` and `factor`, which make new statements: names, then the new program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tdsl.diagnostics import Span
from tdsl.polyhedral import dependences, legality
from tdsl.polyhedral.edit import find
from tdsl.polyhedral.factor import factor as in_two_stages
from tdsl.polyhedral.parts import peel as in_parts
from tdsl.polyhedral.parts import with_origins
from tdsl.polyhedral.tree import Loop, loops, loops_of, statements
from tdsl.schedule.directives import Factor, Peel
from tdsl.schedule.fresh import refuse_undecided
from tdsl.schedule.hints import listing, refusal
from tdsl.schedule.literal import integer
from tdsl.schedule.marks import serial
from tdsl.schedule.references import one
from tdsl.schedule.state import LoopAt, State
from tdsl.schedule.structure import movable
from tdsl.syntax.print_directive import print_directive
from tdsl.syntax.statements import identity

REDUCTIONS = {"add": "sum", "sub": "sum", "mul": "prod"}  # the others have the operator's name


def peel(state: State, d: Peel, on: Sequence[str]) -> State:
    """The first and last iterations of a loop become statements of their own; always legal."""
    at = one(state, d.loop, on)
    serial(at, d.span, "peeled")
    _whole(state, at, d.span, "peeled", (at.loop, *loops(at.loop.body)))
    refuse_undecided(state, statements(at.loop), f"{at} cannot be peeled", d.span)
    first, last = (0 if e is None else integer(e) for e in (d.first, d.last))
    for count, word in ((first, "first"), (last, "last")):
        if count < 0:
            raise refusal(d.span, f"peel {at} {word} {count}: the number must be at least 0")
    if first + last == 0:
        raise refusal(d.span, f"peel {at} takes no iteration off", help=f"peel {at} first 1")
    made = in_parts(
        state.program, state.tree, state.dependences, (at.statement, at.name), first, last,
        print_directive(d),
    )  # fmt: skip
    named = made.names

    def parts(s: str) -> tuple[str, ...]:
        return named.get(s, (s,))

    return replace(
        state,
        program=made.program if state.base is None else with_origins(made, state.program),
        tree=made.tree,
        dependences=made.dependences,
        reassociate=frozenset(p for s in state.reassociate for p in parts(s)),
        collapsed=tuple((p, o, i) for s, o, i in state.collapsed for p in parts(s)),
        marked=tuple((p, name, span) for s, name, span in state.marked for p in parts(s)),
    )


def factor(state: State, d: Factor, on: Sequence[str]) -> State:
    """A reduction first within the iterations of a loop, then over the loop."""
    if state.base is not None:
        raise refusal(
            d.span,
            "factor comes before everything that is placed",
            help="put it before the first compute, store and pack",
            earlier=True,
        )
    at = one(state, d.loop, on)
    below = statements(at.loop)
    name = at.statement if d.loop.statement is not None or len(below) == 1 else None
    if name is None:
        raise refusal(d.span, f"{at.name} belongs to {listing(below)}: write {below[0]}.{at.name}")
    around = loops_of(state.tree, name)
    own = [loop for loop in around if statements(loop) == (name,)]
    _whole(state, at, d.span, "factored", own)
    # Their memory is found in the order of the kernel, which does not have the new loops.
    every = state.program.statements
    refuse_undecided(state, every, "no loop of this kernel can be factored", d.span)
    for loop in own:
        serial(LoopAt(name, loop), d.span, "factored")
    if (
        state.strict_fp
        and state.program.arrays[state.program.statements[name].write.array].type.is_float
    ):
        raise refusal(
            d.span,
            "strict_fp keeps the order of floating-point sums: factor is not allowed",
            help="choose a schedule without factor, or compile without strict_fp",
        )
    taken = {*state.program.arrays, *state.program.statements, *state.program.params}
    if d.name in taken:
        raise refusal(d.span, f"there is already something called {d.name}")
    stmt = state.program.statements[name]
    kind = state.program.arrays[stmt.write.array].type
    start = identity(REDUCTIONS.get(stmt.op, stmt.op), kind)
    program, tree = in_two_stages(
        state.program, state.tree, (name, at.name), d.name, start, print_directive(d)
    )
    placed = legality.with_inits(program, tree)
    return replace(
        state,
        program=program,
        tree=tree,
        dependences=dependences.compute(program, placed),
        reassociate=state.reassociate | {name, d.name},
    )


def _whole(state: State, at: LoopAt, span: Span | None, verb: str, touched: Sequence[Loop]) -> None:
    """Refuse where copies of loops would lose what stands on them."""
    for loop in touched:
        movable(state, LoopAt(statements(loop)[0], loop), span, verb)
    for request in state.stages:
        where = find(state.tree, *request.loop)
        if request.statement in statements(at.loop) or any(where is x for x in touched):
            raise refusal(
                span,
                f"{at} cannot be {verb}: `stage {request.array}` stands below it",
                help="put this directive before it",
                earlier=True,
            )
