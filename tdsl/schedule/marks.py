"""`vectorize`, `unroll` and `parallel`: a loop's extent, the split that it needs, the mark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count as numbers
from math import prod

from tdsl.diagnostics import Span
from tdsl.ir.kernel import INDEX, walk
from tdsl.ir.types import F32, ElemType
from tdsl.polyhedral import edit
from tdsl.polyhedral.extent import extent
from tdsl.polyhedral.tree import Tail, loops, loops_of, statements
from tdsl.schedule.directives import LoopRef, Unroll
from tdsl.schedule.hints import refusal
from tdsl.schedule.literal import number
from tdsl.schedule.places import host_of, hosted
from tdsl.schedule.state import LoopAt, State

MADE = {"vectorize": "vector", "unroll": "unroll"}
COPIES = 1024  # of a statement, in all unrolled loops around it
VECTORS = 16  # side by side for one loop; a longer one becomes a loop over vectors


def serial(at: LoopAt, span: Span | None, verb: str) -> None:
    """Refuse a loop that has a mark already."""
    words = {"vector": "vectorized", "unroll": "unrolled", "parallel": "parallel"}
    words |= {"dot": "the group of a `dot`", "transpose": "transposed"}
    word = words.get(at.loop.mark)
    if word is None:
        return
    if verb == word:
        raise refusal(span, f"{at} is {word} already", help="leave this directive out")
    if verb in words.values():
        raise refusal(
            span,
            f"{at} is {word} already and cannot be {verb}: a loop has one mark",
            help=f"split {at.name} before, and mark one of its two loops {word}, the other {verb}",
        )
    raise refusal(
        span,
        f"{at} is {word} already and cannot be {verb}",
        help=f"put this directive before the one that makes {at.name} {word}",
        earlier=True,
    )


def vectorize(
    state: State, at: LoopAt, width: int | None, note: str, span: Span | None
) -> tuple[State, LoopAt]:
    """The loop itself where a few vectors hold it, else an inner loop of `width` iterations."""
    serial(at, span, "vectorized")
    if width is not None and width < 1:
        raise refusal(span, f"vectorize {at.name} by {width}: a vector has at least 1 element")
    count = extent(state.program, state.tree, at.statement, at.name)
    lanes = width or state.lanes(_widest(state, at))
    name, tree = at.name, state.tree
    if count is None or count > VECTORS * lanes:
        _whole(state, at, span, "split into vectors")
        name = f"{at.name}_v"
        _part(state, at, name, lanes, "vectorize", span)
        tail = Tail("mask")
        tree = edit.split(
            state.program,
            tree,
            at.statement,
            at.name,
            lanes,
            at.name,
            name,
            tail,
            host_of(state, at),
        )
    tree = edit.mark(tree, at.statement, name, "vector", width=width)
    return _noted(replace(state, tree=tree), at.statement, name, note)


def _whole(state: State, at: LoopAt, span: Span | None, verb: str) -> None:
    """Refuse to split a loop that hosts something."""
    what = hosted(state, at)
    if what is not None:
        raise refusal(
            span,
            f"{at} cannot be {verb}: `{what}` stands on it",
            help="put this directive before it",
            earlier=True,
        )


def _part(state: State, at: LoopAt, name: str, by: int, verb: str, span: Span | None) -> None:
    """Refuse the name of the inner loop that a mark makes where it is taken: nobody chose it."""
    around = [loop for s in statements(at.loop) for loop in loops_of(state.tree, s)]
    taken = next((loop for loop in around if loop.name == name), None)
    if taken is None:
        return
    info, word = taken.inner_of, MADE[verb]
    if taken.mark == word and info is not None and info.outer == at.name:
        raise refusal(
            span,
            f"{at} runs over the iterations of {name}, which `{verb} {at.name}` has made",
            help="leave this directive out",
        )
    names = {loop.name for loop in around}
    new = next(n for k in numbers(2) if not {n := f"{at.name}{k}", f"{n}_i"} & names)
    raise refusal(
        span,
        f"`{verb} {at.name}` calls its inner loop {name}, and that is the name of a loop already",
        help=f"split it with names of your own: `split {at} by {by} -> {new}, {new}_i`, and "
        f"`{verb} {at.statement}.{new}_i`",
    )


def _widest(state: State, at: LoopAt) -> ElemType:
    """The widest element type that the statements below a loop compute with."""
    found: list[ElemType] = []
    for name in statements(at.loop.body):
        stmt = state.program.statements[name]
        found.append(state.program.arrays[stmt.write.array].type)
        found += [state.program.arrays[a.array].type for a in stmt.reads]
        if stmt.value is not None:
            found += [e.type for e in walk(stmt.value) if e.type != INDEX]
    return max(found, key=lambda t: t.bits, default=F32)


def unroll(
    state: State, at: LoopAt, by: int | None, plain: bool, note: str, span: Span | None
) -> tuple[State, LoopAt]:
    """The loop itself, or an inner loop of `by` iterations."""
    serial(at, span, "unrolled")
    if by is not None and by < 1:
        raise refusal(span, f"unroll {at.name} by {by}: there is at least 1 copy")
    count = extent(state.program, state.tree, at.statement, at.name)
    name, tree = at.name, state.tree
    if by is not None and (count is None or count > by):
        _whole(state, at, span, "split into copies")
        name, count = f"{at.name}_u", by
        _part(state, at, name, by, "unroll", span)
        tree = edit.split(
            state.program, tree, at.statement, at.name, by, at.name, name, host=host_of(state, at)
        )
    if count is None:
        raise refusal(
            span,
            f"{at} has no constant number of iterations and cannot be unrolled whole",
            help=f"unroll {at} by 4, or split it first and unroll the inner loop",
            instead=_by_four(at),
        )
    copies = count * _copies(state, at)
    if copies > COPIES:
        raise refusal(
            span,
            f"unrolling {at} would write its body {copies} times, and {COPIES} is the limit",
            help=f"unroll {at} by 4" if count > 4 else None,
            instead=_by_four(at) if count > 4 else None,
        )
    # Copies of what hosts something are whole: it belongs to one of them.
    plain = plain or hosted(state, at) is not None
    tree = edit.mark(tree, at.statement, name, "unroll", plain=plain)
    return _noted(replace(state, tree=tree), at.statement, name, note)


def _by_four(at: LoopAt) -> Unroll:
    return Unroll((LoopRef(at.statement, at.name),), number(4))


def _copies(state: State, at: LoopAt) -> int:
    """How often what is below a loop is written because of other unrolled loops."""
    most = 1
    for statement in statements(at.loop):
        counts = [
            extent(state.program, state.tree, statement, loop.name) or 1
            for loop in loops_of(state.tree, statement)
            if loop.mark == "unroll"
        ]
        most = max(most, prod(counts))
    return most


def parallel(state: State, at: LoopAt, note: str, span: Span | None) -> tuple[State, LoopAt]:
    """The loop on threads."""
    serial(at, span, "parallel")
    tree = edit.mark(state.tree, at.statement, at.name, "parallel")
    return _noted(replace(state, tree=tree), at.statement, at.name, note)


def _noted(state: State, statement: str, name: str, note: str) -> tuple[State, LoopAt]:
    tree = edit.update(
        state.tree, statement, name, lambda loop: replace(loop, notes=(*loop.notes, note))
    )
    return replace(state, tree=tree), LoopAt(statement, edit.find(tree, statement, name))


def refreshed(state: State, marked: Sequence[LoopAt]) -> tuple[LoopAt, ...]:
    """The same loops in a later tree."""
    return tuple(LoopAt(m.statement, edit.find(state.tree, m.statement, m.name)) for m in marked)


def all_marked(state: State) -> tuple[LoopAt, ...]:
    """Every loop that has a mark."""
    return tuple(
        LoopAt(statements(loop.body)[0], loop)
        for loop in loops(state.tree)
        if loop.mark != "serial"
    )
