"""`dot kk`: the terms of a group are added by one instruction.

before: for kg { vector j { for kk in 0..4 { S } } }
after:  for kg { vector j { dot kk { S } } }

Only what the loop is can be checked here. Which operands there are, and how they lie, is known
when everything is placed (`tdsl.lower.dots`).
"""

from __future__ import annotations

from dataclasses import replace

from tdsl.diagnostics import Span
from tdsl.polyhedral import edit
from tdsl.polyhedral.extent import extent
from tdsl.polyhedral.inits import is_reduction_loop
from tdsl.polyhedral.tree import loops, loops_of
from tdsl.schedule import check, marks
from tdsl.schedule.directives import Dot
from tdsl.schedule.hints import refusal
from tdsl.schedule.references import one
from tdsl.schedule.state import LoopAt, State
from tdsl.syntax.print_directive import print_directive

GROUPS = (2, 4)


def dot(state: State, d: Dot, on: tuple[str, ...]) -> State:
    """Marks the loop whose iterations are one group. Raises IllegalSchedule."""
    if len(d.loops) != 1:
        raise refusal(
            d.span,
            "`dot` of several loops is not applied yet",
            help="name the loop over the terms alone, with one vector loop just outside",
        )
    at = one(state, d.loops[0], on)
    marks.serial(at, d.span, "the group of a `dot`")
    inside = [loop.name for loop in loops(at.loop.body)]
    if inside:
        raise refusal(
            d.span,
            f"{at} is not innermost: {inside[0]} is inside it",
            help=f"reorder {', '.join([*inside, at.name])} before",
        )
    stmt = state.program.statements[at.statement]
    if not stmt.is_update or not is_reduction_loop(at.loop, stmt):
        raise refusal(d.span, f"{at} is no loop over the terms of a sum")
    count = extent(state.program, state.tree, at.statement, at.name)
    if count not in GROUPS:
        has = "no constant number of" if count is None else str(count)
        raise refusal(
            d.span,
            f"{at} has {has} iterations: instructions add 4 products of bytes, or 2 of i16 or bf16",
            help=f"split {at.name} by 4 -> {at.name}g, {at.name}k and `dot {at.name}k`",
        )
    note = print_directive(d)
    tree = edit.mark(state.tree, at.statement, at.name, "dot")
    tree = edit.update(
        tree, at.statement, at.name, lambda loop: replace(loop, notes=(*loop.notes, note))
    )
    state = replace(state, tree=tree)
    now = LoopAt(at.statement, edit.find(tree, at.statement, at.name))
    if broken := check.mark(state, now):
        raise check.illegal(state, broken, d.span, note)
    return replace(state, marked=(*state.marked, (at.statement, at.name, d.span)))


def in_lanes(state: State, at: LoopAt, span: Span | None) -> None:
    """Refuse a group that no vector loop is just outside of, when all is scheduled."""
    around = loops_of(state.tree, at.statement)
    position = next(n for n, loop in enumerate(around) if loop is at.loop)
    if position == 0 or around[position - 1].mark != "vector":
        outside = around[position - 1].name if position else "none"
        raise refusal(
            span,
            f"dot {at.name} wants a vector loop just outside, and there is {outside}",
            help="vectorize a loop whose elements the instruction is to add to, and reorder it "
            f"just outside {at.name}",
        )
