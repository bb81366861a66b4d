"""`dot kk`: the terms of a group are added by one instruction.

before: for kg { vector j { for kk in 0..4 { S } } }
after:  for kg { vector j { dot kk { S } } }

With `dot i2, j2, kk` the lanes are a tile of two rows and two columns: vector i2 { vector j2 { dot
kk { S } } }.

Only what the loop is can be checked here. Which operands there are, and how they lie, is known
when everything is placed (`tdsl.lower.dots`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tdsl.diagnostics import IllegalSchedule, Note, Span
from tdsl.ir.dots import DOTS, TILE, TILES, factors, group
from tdsl.ir.index import const, variables
from tdsl.ir.kernel import INDEX, Expr, Op, Read, Var
from tdsl.ir.types import I32, TYPES, ElemType
from tdsl.polyhedral import edit, phantoms
from tdsl.polyhedral.box import Layout
from tdsl.polyhedral.extent import extent
from tdsl.polyhedral.inits import is_reduction_loop, runs_over
from tdsl.polyhedral.program import Stmt
from tdsl.polyhedral.tree import Loop, SplitInfo, loops, loops_of, statements
from tdsl.schedule import check, marks
from tdsl.schedule.directives import Dot
from tdsl.schedule.hints import refusal
from tdsl.schedule.references import one
from tdsl.schedule.replaced import with_lanes
from tdsl.schedule.state import LoopAt, State
from tdsl.syntax.print_directive import print_directive

GROUPS = (2, 4)
TILE_GROUPS = (4, 8)
U32 = TYPES["u32"]
READABLE = ("temp", "scratch", "prepared", "stack")  # memory of our own, not its caller's


def dot(state: State, d: Dot, on: tuple[str, ...]) -> State:
    """Marks the loop whose iterations are one group; of several loops, the ones before it become
    the rows and columns of a register. Raises IllegalSchedule."""
    if len(d.loops) not in (1, 3):
        raise refusal(
            d.span,
            f"`dot` of {len(d.loops)} loops: it takes those over the terms, or those over rows, "
            "columns and terms",
            help="write `dot kk`, or `dot i2, j2, kk`",
        )
    *tile, at = (one(state, ref, on) for ref in d.loops)
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
    if count not in (TILE_GROUPS if tile else GROUPS):
        has = "no constant number of" if count is None else str(count)
        sizes = (
            "8 products of bytes for each row and column, or 4 of bf16"
            if tile
            else "4 products of bytes, or 2 of i16 or bf16"
        )
        wanted = 8 if tile else 4
        named = ", ".join([*(t.name for t in tile), f"{at.name}k"])
        raise refusal(
            d.span,
            f"{at} has {has} iterations: instructions add {sizes}",
            help=f"split {at.name} by {wanted} -> {at.name}g, {at.name}k and `dot {named}`",
        )
    if tile:
        _refuse_tile(state, tile[0], tile[1], at, d.span)
    note = print_directive(d)
    tree = state.tree
    for lanes in tile:
        tree = edit.mark(tree, at.statement, lanes.name, "vector")
    tree = edit.mark(tree, at.statement, at.name, "dot")
    for loop in (*tile, at):
        tree = edit.update(
            tree, at.statement, loop.name, lambda old: replace(old, notes=(*old.notes, note))
        )
    state = replace(state, tree=tree)
    check.shape(state, d.span)
    state = with_lanes(state)
    for name in [loop.name for loop in (*tile, at)]:
        now = LoopAt(at.statement, edit.find(state.tree, at.statement, name))
        if broken := check.mark(state, now):
            _refuse_floats(state, at, bool(tile), d.span)
            raise check.illegal(state, broken, d.span, note)
    marked = tuple((at.statement, loop.name, d.span) for loop in (*tile, at))
    return replace(state, marked=state.marked + marked)


def _refuse_floats(state: State, at: LoopAt, tile: bool, span: Span | None) -> None:
    """Say what no order of the sum changes: that no instruction adds products of these floats."""
    stmt = state.program.statements[at.statement]
    reads = factors(stmt.value) if stmt.op == "add" else None
    if reads is None or not any(r.type.is_float for r in reads):
        return
    elem = state.program.arrays[stmt.write.array].type
    if group(reads, elem, tile=tile) is None:
        raise _no_instruction(at, reads, elem, tile, span)


def _no_instruction(
    at: LoopAt,
    reads: tuple[Read, Read],
    elem: ElemType,
    tile: bool,
    span: Span | None,
) -> IllegalSchedule:
    first, second = reads
    known = ", ".join(f"{a} x {b} in {c}" for a, b, c in (TILES if tile else DOTS) if c != "u32")
    return refusal(
        span,
        f"dot {at.name}: no instruction adds products of {first.type} and {second.type} in {elem}",
        Note(f"of rows and columns there are {known}" if tile else f"there are {known}"),
        help=None if tile else _other_types(at.statement, reads, elem.name),
    )


def _refuse_tile(
    state: State, rows: LoopAt, columns: LoopAt, at: LoopAt, span: Span | None
) -> None:
    """Refuse what is not two rows and two columns directly outside the terms."""
    for lanes in (rows, columns):
        marks.serial(lanes, span, "vectorized")
        count = extent(state.program, state.tree, at.statement, lanes.name)
        if count != 2:
            has = "no constant number of" if count is None else str(count)
            raise refusal(
                span,
                f"{lanes} has {has} iterations: instructions add to 2 rows and 2 columns",
                help=f"split {lanes.name} by 2 -> {lanes.name}o, {lanes.name}i, and name the inner "
                "loop",
            )
    if rows.loop.body is not columns.loop or columns.loop.body is not at.loop:
        names = f"{rows.name}, {columns.name}, {at.name}"
        raise refusal(
            span,
            f"{names} are not the innermost loops of {at.statement} in this order",
            help=f"reorder before: {names} come last",
        )


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
    tile = _lanes(state, at, span)
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
    size = group(reads, elem, tile=tile)
    if size is None:
        raise _no_instruction(at, reads, elem, tile, span)
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


def _lanes(state: State, at: LoopAt, span: Span | None) -> bool:
    """Whether the lanes are rows and columns; refuses a group without lanes."""
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
    return is_tile(around, position)


def is_tile(around: Sequence[Loop], position: int) -> bool:
    """Whether the group at a position of a path has two vector loops just outside."""
    return position > 1 and all(loop.mark == "vector" for loop in around[position - 2 : position])


def tile_layout(state: State, array: str) -> Layout | None:
    """The order in which a tile of sums lies in registers, so that rows and columns of one are
    next to each other: [i // 2, j // 2, i % 2, j % 2] for `dot i2, j2, kk`. None for an array that
    no such group adds to."""
    for name, stmt in state.program.statements.items():
        if stmt.write.array != array or not stmt.is_update:
            continue
        around = loops_of(state.tree, name)
        position = next((n for n, loop in enumerate(around) if loop.mark == "dot"), 0)
        if not is_tile(around, position):
            continue
        names = tuple(f"dimension {n}" for n in range(len(stmt.write.subscript)))
        outer: list[Expr] = [Var(n) for n in names]
        inner: list[Expr] = []
        for loop, size in zip(around[position - 2 : position], TILE, strict=True):
            d = _dimension_of(stmt, loop)
            if d is None:
                return None
            outer[d] = Op("floordiv", (Var(names[d]), const(size)), INDEX)
            inner.append(Op("mod", (Var(names[d]), const(size)), INDEX))
        return Layout(names, (*outer, *inner))
    return None


def _dimension_of(stmt: Stmt, loop: Loop) -> int | None:
    """The dimension of what a statement writes that a loop runs over, where it is one alone."""
    moved = {i for k, i in enumerate(stmt.indices) if runs_over(loop, stmt.name, k)}
    found = [d for d, e in enumerate(stmt.write.subscript) if variables(e) & moved]
    return found[0] if len(found) == 1 else None
