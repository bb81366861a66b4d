"""`dot kk`: the terms of a group are added by one instruction.

before: for kg { vector j { for kk in 0..4 { S } } }
after:  for kg { vector j { dot kk { S } } }

Only what the loop is can be checked here. Which operands there are, and how they lie, is known
when everything is placed (`tdsl.lower.dots`).
"""

from __future__ import annotations

from dataclasses import replace

from tdsl.diagnostics import Note, Span
from tdsl.ir.dots import DOTS, factors, group
from tdsl.ir.kernel import Read
from tdsl.ir.types import I32, TYPES
from tdsl.polyhedral import edit, phantoms
from tdsl.polyhedral.extent import extent
from tdsl.polyhedral.inits import is_reduction_loop
from tdsl.polyhedral.tree import SplitInfo, loops, loops_of, statements
from tdsl.schedule import check, marks
from tdsl.schedule.directives import Dot
from tdsl.schedule.hints import refusal
from tdsl.schedule.references import one
from tdsl.schedule.state import LoopAt, State
from tdsl.syntax.print_directive import print_directive

GROUPS = (2, 4)
U32 = TYPES["u32"]
READABLE = ("temp", "scratch", "prepared", "stack")  # memory of our own, not its caller's


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
            help=f"reorder before: {at.name} comes last",
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


def is_sum(state: State, at: LoopAt) -> bool:
    """Whether a loop runs over the terms of one sum."""
    below = statements(at.loop.body)
    stmt = state.program.statements[below[0]]
    return len(below) == 1 and stmt.op == "add" and is_reduction_loop(at.loop, stmt)


def overruns(state: State, span: Span | None) -> State:
    """What `tail overrun` of terms comes to, when all is scheduled: nothing is masked where the
    terms behind the end add 0 and may be read. Refused where they do not add 0."""
    for loop in loops(state.tree):
        info = loop.inner_of
        if info is None or info.tail.mode != "overrun":
            continue
        at = LoopAt(statements(loop)[0], loop)
        if is_sum(state, at):
            state = _overrun(state, at, info, span)
    return state


def _overrun(state: State, at: LoopAt, info: SplitInfo, span: Span | None) -> State:
    stmt = state.program.statements[at.statement]
    reads = factors(stmt.value)
    if at.loop.mark != "dot" or reads is None:
        raise refusal(
            span,
            f"tail overrun of {at}: the terms of {stmt.name} end there",
            help=f"use `tail mask`, or let an instruction add them: dot {at.name}",
        )
    if any(r.type.is_float for r in reads):
        raise refusal(
            span,
            f"tail overrun of {at}: 0 times what lies behind the terms of {stmt.name} may be NaN",
            help="use `tail mask`",
        )
    if not phantoms.adds_nothing(state.program, state.tree, at.statement, at.loop, reads):
        raise refusal(
            span,
            f"tail overrun of {at}: nothing that {stmt.name} multiplies is 0 behind its terms",
            help=f"`pack` an operand: a copy is 0 there; or use `tail mask` for {at.name}",
        )
    own = all(state.program.arrays[r.array].role in READABLE for r in reads)
    if own:
        return state
    masked = replace(info, tail=replace(info.tail, mode="mask"))
    tree = edit.update(
        state.tree, at.statement, at.name, lambda loop: replace(loop, inner_of=masked)
    )
    return replace(state, tree=tree)


def complete(state: State, at: LoopAt, span: Span | None) -> None:
    """Refuse a group that no instruction adds in lanes, when all is scheduled and packed."""
    _lanes(state, at, span)
    stmt = state.program.statements[at.statement]
    reads = factors(stmt.value) if stmt.op == "add" else None
    if reads is None:
        raise refusal(
            span,
            f"dot {at.name}: {stmt.name} is no sum of products of two elements",
            help="write its terms like `i32(A[i, k]) * i32(B[k, j])`",
        )
    elem = state.program.arrays[stmt.write.array].type
    first, second = reads
    products = f"products of {first.type} and {second.type}"
    size = group(reads, elem)
    if size is None:
        known = ", ".join(f"{a} x {b} in {c}" for a, b, c in DOTS if c != "u32")
        raise refusal(
            span,
            f"dot {at.name}: no instruction adds {products} in {elem}",
            Note(f"there are {known}"),
            help=_other_types(stmt.name, reads, elem.name),
        )
    count = extent(state.program, state.tree, at.statement, at.name)
    if count != size:
        raise refusal(
            span,
            f"dot {at.name}: {size} {products} are added at once, and {at} has {count} iterations",
            help=f"split the loop over the terms by {size}",
        )


def _other_types(statement: str, reads: tuple[Read, Read], accumulator: str) -> str | None:
    """What other types an instruction would take."""
    names = {r.type.name for r in reads}
    if accumulator in ("i32", "u32") and names < {"i16", "u8", "i8"}:
        narrow = next(r for r in reads if r.type.name != "i16")
        return (
            f"`pack {statement}.{narrow.array}` as i16, which holds all its values, and split the "
            "terms by 2"
        )
    if accumulator in ("i64", "u64") and (group(reads, I32) or group(reads, U32)):
        return "add in i32: its sums wrap"
    return None


def _lanes(state: State, at: LoopAt, span: Span | None) -> None:
    around = loops_of(state.tree, at.statement)
    position = next(n for n, loop in enumerate(around) if loop.name == at.name)
    if position == 0 or around[position - 1].mark != "vector":
        outside = around[position - 1].name if position else "none"
        raise refusal(
            span,
            f"dot {at.name} wants a vector loop just outside, and there is {outside}",
            help="vectorize a loop whose elements the instruction is to add to, and reorder it "
            f"just outside {at.name}",
        )
