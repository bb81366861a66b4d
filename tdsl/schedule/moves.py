"""`transpose`, `prefetch` and `stream`: how elements move, which changes no value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tdsl.diagnostics import IllegalSchedule, Note, Span
from tdsl.polyhedral import edit
from tdsl.polyhedral.extent import extent
from tdsl.polyhedral.leaves import is_dim
from tdsl.polyhedral.prefetch import users
from tdsl.polyhedral.program import Dependence, Program, Stmt
from tdsl.polyhedral.tree import Leaf, Loop, loops_of, statements
from tdsl.polyhedral.turns import CannotTurn, check_copy, check_turn
from tdsl.schedule.directives import Prefetch, Stream, Transpose
from tdsl.schedule.hints import closest, listing, refusal
from tdsl.schedule.literal import integer
from tdsl.schedule.marks import serial
from tdsl.schedule.references import distinct, one, statement_names
from tdsl.schedule.state import LoopAt, PrefetchRequest, State
from tdsl.syntax.print_directive import print_directive

MOST_AHEAD = 4096  # iterations
MOST_TURNED = 64  # of one loop of a transpose


def _array(program: Program, name: str, span: Span | None) -> None:
    if name not in program.arrays:
        raise refusal(
            span,
            f"there is no array {name}",
            help=closest(name, program.arrays, "arrays"),
        )


# ---------------------------------------------------------------- transpose


def transpose(state: State, d: Transpose, on: Sequence[str], *, in_recipe: bool = False) -> State:
    """Marks the two innermost loops of a copy. A recipe serves operands in either order: where the
    rows of both arrays go along one of the loops, it copies them as they are."""
    first, second = found = distinct(state, (d.first, d.second), on)
    for at in found:
        serial(at, d.span, "transposed")
    name = first.statement
    try:
        for s in dict.fromkeys(s for at in found for s in statements(at.loop)):
            check_copy(state.program.statements[s])
    except CannotTurn as error:
        raise _cannot(d, found, error) from None
    outer, inner = _nested(first, second), _nested(second, first)
    if outer is None and inner is None:
        raise _unready(d, f"{first} and {second} are not the two innermost loops of one statement")
    for at in found:
        count = extent(state.program, state.tree, name, at.name)
        if count == 1:
            raise refusal(d.span, f"{at} has one iteration: there is nothing to transpose")
        if count is None or count > MOST_TURNED:
            raise _unready(d, f"{at} has no constant number of iterations, {MOST_TURNED} at most")
    try:
        check_turn(state.program, state.program.statements[name], loops_of(state.tree, name))
    except CannotTurn as error:
        if error.along is None or not in_recipe:
            raise _cannot(d, found, error) from None
        return _rows(state, d, name, found, error.along)
    return _turned(state, d, name, dict.fromkeys((at.name for at in found), "transpose"))


class Unready(IllegalSchedule):
    """Loops that other directives may make ready for a transpose: `suggest` tries some."""


def _unready(d: Transpose, message: str) -> Unready:
    return Unready(*refusal(d.span, message).diagnostics)


def _cannot(d: Transpose, found: Sequence[LoopAt], error: CannotTurn) -> IllegalSchedule:
    names = listing(map(str, found))
    return refusal(d.span, f"{names} cannot be transposed: {error}", help=error.help)


def _rows(state: State, d: Transpose, name: str, found: Sequence[LoopAt], along: str) -> State:
    """The copy of rows: vectors along one loop, one row after the other."""
    marks = {at.name: "vector" if at.name == along else "unroll" for at in found}
    marked = (*state.marked, *((name, at.name, d.span) for at in found))
    return _turned(replace(state, marked=marked), d, name, marks)


def _turned(state: State, d: Transpose, name: str, marks: Mapping[str, str]) -> State:
    tree, note = state.tree, print_directive(d)
    for loop, mark in marks.items():
        tree = edit.mark(tree, name, loop, mark)
        tree = edit.update(tree, name, loop, lambda x: replace(x, notes=(*x.notes, note)))
    return replace(state, tree=tree)


def _nested(outer: LoopAt, inner: LoopAt) -> Loop | None:
    """The inner loop, where it stands directly inside the outer one, around a statement."""
    below = outer.loop.body
    alone = below is inner.loop and isinstance(inner.loop.body, Leaf)
    return inner.loop if alone else None


# ---------------------------------------------------------------- prefetch


def prefetch(state: State, d: Prefetch, on: Sequence[str]) -> State:
    """Record a request; the lines are known when the schedule is complete."""
    program, array = state.program, d.array.array
    _array(program, array, d.array.span or d.span)
    if not program.arrays[array].shape:
        raise refusal(d.span, f"{array} is a scalar: it is in no line of memory")
    ahead = 0 if d.ahead is None else integer(d.ahead)
    if not 0 <= ahead <= MOST_AHEAD:
        raise refusal(d.span, f"prefetch {array} ahead {ahead}: it must be 0 to {MOST_AHEAD}")
    at = one(state, d.at, on)
    if is_dim(at.loop):
        raise refusal(
            d.span,
            f"{at} is unrolled or vectorized: it has no place for a prefetch",
            help="name a loop around it",
        )
    user = None
    if d.array.statement is not None:
        names = statement_names(program, d.array.statement, d.array.span)
        if len(names) > 1:
            raise refusal(d.span, f"{d.array.statement} may be {listing(names, 'or')}")
        user = names[0]
    found = users(program, at.loop, array, user)
    if not found:
        who = user or f"the body of {at}"
        raise refusal(d.span, f"{who} does not touch {array}: there is nothing to prefetch at {at}")
    for stmt, access in found:
        if not access.exact:
            raise refusal(
                d.span, f"data choose which elements of {array} are touched by {stmt.name}"
            )
    request = PrefetchRequest(array, user, (at.statement, at.name), ahead, d.span)
    host = (at.statement, at.name, print_directive(d))
    return replace(state, prefetches=(*state.prefetches, request), hosts=(*state.hosts, host))


# ---------------------------------------------------------------- stream


def stream(state: State, d: Stream) -> State:
    """Record that an argument is stored past the caches, where nothing reads it again."""
    program = state.program
    _array(program, d.array, d.span)
    if d.array in {s.array for s in state.streams}:
        raise refusal(d.span, f"{d.array} is streamed already", help="leave this directive out")
    role = program.arrays[d.array].role
    if role not in ("out", "inout"):
        words = {"in": "an input", "const": "an input", "table": "a table"}
        what = words.get(role, "read again by this kernel")
        raise refusal(d.span, f"{d.array} is {what}: only what leaves the kernel is streamed")
    state = replace(state, streams=(*state.streams, d))
    check_streams(state)
    return state


def check_streams(state: State) -> None:
    """Refuse what is read after it was stored: it would come back from memory."""
    for d in state.streams:
        for found in state.dependences:
            if found.array == d.array and found.kind == "flow" and not _sums(state, found):
                raise refusal(
                    d.span,
                    f"{d.array} cannot be streamed: {found.sink} reads what {found.source} has "
                    "stored",
                    Note("it is stored here", found.source_span),
                    Note("and read here", found.sink_span),
                )
        for stmt in state.program.statements.values():
            if stmt.write.array == d.array and stmt.is_update:
                _whole_sums(state, d, stmt)


def _sums(state: State, d: Dependence) -> bool:
    """Whether a dependence is that of a sum on its own terms: they may be added in registers."""
    source, sink = state.program.statements[d.source], state.program.statements[d.sink]
    own = source is sink or source.init_of == sink.name
    return own and sink.is_update and not any(r.array == d.array for r in sink.reads)


def _whole_sums(state: State, d: Stream, stmt: Stmt) -> None:
    """Refuse sums whose elements go to memory and come back: a loop over terms is outside one over
    elements."""
    terms: Loop | None = None
    for loop in loops_of(state.tree, stmt.name):
        if is_dim(loop):
            continue
        coordinate = loop.coords[stmt.name].as_map()
        place = stmt.write.map.intersect_domain(stmt.domain).reverse()
        if not place.apply_range(coordinate).is_single_valued():
            terms = loop
        elif terms is not None:
            raise refusal(
                d.span,
                f"{d.array} cannot be streamed: its sums come back from memory in every iteration "
                f"of {stmt.name}.{terms.name}",
                help=f"put {loop.name} outside {terms.name}, or unroll or vectorize it, so that "
                "they are added in registers",
            )
