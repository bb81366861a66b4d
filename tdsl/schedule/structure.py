"""Directives that change loops: their names, then the edit. Legality is asked by the caller."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tdsl.diagnostics import Diagnostic, IllegalSchedule, Note, Span
from tdsl.polyhedral import dependences, edit
from tdsl.polyhedral.extent import extent, rectangular
from tdsl.polyhedral.overrun import overrun
from tdsl.polyhedral.tails import shifted
from tdsl.polyhedral.tree import SplitInfo, Tail, loops_of, statements
from tdsl.schedule import dots
from tdsl.schedule.directives import (
    Collapse,
    Distribute,
    Fuse,
    LoopRef,
    Reorder,
    Reverse,
    Shift,
    Skew,
    Split,
    Tile,
)
from tdsl.schedule.fresh import refuse_undecided
from tdsl.schedule.hints import closest, listing, refusal
from tdsl.schedule.literal import integer
from tdsl.schedule.marks import refreshed, serial
from tdsl.schedule.places import host_of, hosted
from tdsl.schedule.references import (
    candidates,
    distinct,
    every,
    fresh,
    in_nest,
    one,
    statement_names,
)
from tdsl.schedule.state import LoopAt, State
from tdsl.syntax.print_directive import print_directive
from tdsl.syntax.tree import Binary, Expr, Name, Number, Unary

MODES = ("guard", "mask", "peel", "cases", "narrow", "shift", "overrun")
FACTOR = 1 << 40  # sizes end there


def movable(state: State, at: LoopAt, span: Span | None, verb: str) -> None:
    """Refuse a loop that hosts something or that `collapse` made of a symbolic pair."""
    what = hosted(state, at)
    if what is not None:
        raise refusal(
            span,
            f"{at} cannot be {verb}: `{what}` stands on it",
            help="put this directive before it",
            earlier=True,
        )
    for statement, outer, inner in state.collapsed:
        if at.name in (outer, inner) and statement in statements(at.loop):
            raise refusal(
                span,
                f"{at} cannot be {verb}: it is collapsed with a loop of symbolic extent",
                help=f"put this directive before the collapse that makes {outer}",
                earlier=True,
            )


def _tail(words: Sequence[str], span: Span | None) -> Tail:
    modes = [w for w in words if w != "balanced"]
    for word in modes:
        if word not in MODES:
            help = closest(word, [*MODES, "balanced"], "tails")
            raise refusal(span, f"there is no tail {word}", help=help)
    if len(modes) > 1:
        raise refusal(span, f"a loop has one tail, not {listing(modes)}")
    return Tail(modes[0] if modes else "", balanced="balanced" in words)


def _factor(value: int, verb: str, at: LoopAt, span: Span | None) -> int:
    if not 1 <= value < FACTOR:
        least = "at least 1" if value < 1 else "below 2^40"
        raise refusal(span, f"{verb} {at} by {value}: the factor must be {least}")
    return value


def split(state: State, d: Split, on: Sequence[str]) -> State:
    """Each of the loops on its own; never illegal."""
    tail = _tail(d.tail, d.span)
    for at in every(state, d.loops, on):
        factor = _factor(integer(d.factor), "split", at, d.factor.span or d.span)
        state = _split(state, at, factor, d.outer, d.inner, tail, d.span, print_directive(d))
    return state


def _split(
    state: State,
    found: LoopAt,
    factor: int,
    outer: str,
    inner: str,
    tail: Tail,
    span: Span | None,
    note: str,
) -> State:
    at = refreshed(state, [found])[0]
    if at.loop.mark == "vector" and state.program.statements[at.statement].copies is not None:
        # A recipe made lanes of a loop of its copy, and who uses it says how it runs instead.
        state = replace(state, tree=edit.mark(state.tree, at.statement, at.name, "serial"))
        at = refreshed(state, [at])[0]
    serial(at, span, "split")
    movable(state, at, span, "split")
    state, (outer, inner) = in_nest(state, at, host_of(state, at), [outer, inner])
    fresh(state, [outer, inner], at.loop, [at.name], span)
    if tail.mode == "shift":
        state = _shifted(state, at, SplitInfo(outer, inner, factor, tail), span)
        tree = state.tree
    else:
        if tail.mode == "overrun":
            state = _overrun(state, at, factor, span)
        tree = edit.split(
            state.program, state.tree, at.statement, at.name, factor, outer, inner, tail,
            host_of(state, at),
        )  # fmt: skip
    tree = edit.update(
        tree, at.statement, outer, lambda loop: replace(loop, notes=(*loop.notes, note))
    )
    return replace(state, tree=tree)


def _shifted(state: State, at: LoopAt, info: SplitInfo, span: Span | None) -> State:
    """A split whose last block is full: some instances run twice."""
    refuse_undecided(state, statements(at.loop), f"tail shift of {at}", span)
    program, tree, known = shifted(
        state.program, state.tree, state.dependences, (at.statement, at.name), info,
        origins=state.base is not None,
    )  # fmt: skip
    return replace(state, program=program, tree=tree, dependences=known)


def _overrun(state: State, at: LoopAt, factor: int, span: Span | None) -> State:
    """A temp computed to the end of its last block, where it has a value there. Terms of a sum
    stay as they are: what `dot` adds behind them is 0 (`tdsl.schedule.dots`)."""
    if dots.is_sum(state, at):
        return state
    if state.base is not None:
        raise refusal(
            span,
            f"tail overrun of {at} comes after a directive that places something",
            help="put this split before `compute`, `finish`, `pack` and `store`",
            earlier=True,
        )
    program, wrong = overrun(state.program, at.loop, factor)
    if wrong:
        raise IllegalSchedule(
            Diagnostic(
                f"tail overrun of {at}: {wrong[0].message}",
                span,
                IllegalSchedule.code,
                (Note("so it has no value beyond its end", wrong[0].span), *wrong[0].notes),
            )
        )
    return replace(state, program=program, dependences=dependences.compute(program))


def tile(state: State, d: Tile, on: Sequence[str]) -> State:
    """Split each loop; all outer loops, then all inner ones, in the order named."""
    count = len(d.loops)
    if len(d.factors) != count or len(d.names) != 2 * count:
        raise refusal(
            d.span,
            f"tile of {count} loops wants {count} factors and {2 * count} names, not "
            f"{len(d.factors)} and {len(d.names)}",
            help="tile i, j by 8, 32 -> io, jo, ii, ji",
        )
    tail = _tail(d.tail, d.span)
    found = distinct(state, d.loops, on)
    _together(state, found, d.span)
    for position, at in enumerate(found):
        expr = d.factors[position]
        factor = _factor(integer(expr), "tile", at, expr.span or d.span)
        outer, inner = d.names[position], d.names[count + position]
        state = _split(state, at, factor, outer, inner, tail, d.span, print_directive(d))
    names = [state.aliases.get((found[0].statement, n), n) for n in d.names]
    return replace(state, tree=edit.permute(state.tree, found[0].statement, names))


def _together(state: State, found: Sequence[LoopAt], span: Span | None) -> None:
    """Refuse loops that are not on one path."""
    path = loops_of(state.tree, found[0].statement)
    for at in found[1:]:
        if not any(at.loop is loop for loop in path):
            raise refusal(
                span,
                f"{found[0]} and {at} are not loops around one statement",
                help=f"the loops around {found[0].statement} are "
                f"{listing([loop.name for loop in path])}",
            )


def reorder(state: State, d: Reorder, on: Sequence[str]) -> State:
    """The named loops take this order within their own places on one chain.

    A last name may stand for loops that are in a sequence inside all others: they stay.
    """
    refs = tuple(ref for ref in d.loops if not settled(state, ref, on))
    if len(refs) < 2:
        return state
    while len(refs) > 1 and _all_inside(state, refs[-1], refs[:-1], on):
        refs = refs[:-1]
    found = distinct(state, refs, on)
    _together(state, found, d.span)
    for at in found:
        movable(state, at, d.span, "reordered")
    if len(found) < 2:
        return state
    names = [at.name for at in found]
    return replace(state, tree=edit.permute(state.tree, found[0].statement, names))


def settled(state: State, ref: LoopRef, on: Sequence[str]) -> bool:
    """Whether a loop of a placed nest is gone or merged with one outside: it has its place."""
    owners = [ref.statement] if ref.statement is not None else list(on)
    names = [s for o in owners for s in statement_names(state.program, o, ref.span)]
    return bool(names) and all((s, ref.loop) in state.merged for s in names)


def _all_inside(state: State, ref: LoopRef, others: Sequence[LoopRef], on: Sequence[str]) -> bool:
    mine = candidates(state, ref, on)
    around = [at.loop for other in others for at in candidates(state, other, on)]
    beside = {s for loop in around for s in statements(loop)}
    if beside <= {s for at in mine for s in statements(at.loop)}:
        return False  # on the chain of all of them
    return all(
        any(loop is x for x in loops_of(state.tree, at.statement)) for at in mine for loop in around
    )


def collapse(state: State, d: Collapse, on: Sequence[str]) -> State:
    """One loop over adjacent rectangular ones: two, and the result with the next one."""
    if len(d.loops) < 2:
        raise refusal(d.span, f"collapse joins two loops or more, not {len(d.loops)}")
    if len(d.loops) > 2:
        first_two = replace(d, loops=d.loops[:2])
        joined = LoopRef(d.loops[0].statement, d.name, span=d.loops[0].span)
        state = collapse(state, first_two, on)
        return collapse(state, replace(d, loops=(joined, *d.loops[2:])), on)
    found = distinct(state, d.loops, on)
    _together(state, found, d.span)
    first, second = found
    for at in found:
        serial(at, d.span, "collapsed")
        movable(state, at, d.span, "collapsed")
    if first.loop.body is not second.loop:
        raise refusal(
            d.span,
            f"{second.name} does not stand directly inside {first.name}",
            help="name the outer loop first, and reorder the two side by side",
        )
    path = loops_of(state.tree, first.statement)
    outside = path[: next(k for k, loop in enumerate(path) if loop is first.loop)]
    if not rectangular(state.program, outside, first.loop, second.loop):
        raise refusal(
            d.span,
            f"the range of {second.name} depends on {first.name}: only rectangular loops collapse",
        )
    fresh(state, [d.name], first.loop, [first.name, second.name], d.span)
    count = extent(state.program, state.tree, second.statement, second.name)
    note = print_directive(d)
    if count is not None:
        tree = edit.collapse(
            state.program, state.tree, first.statement, first.name, second.name, d.name, count
        )
        return replace(state, tree=tree)
    # i * N + j is not affine: the pair stays two loops, and `parallel` takes both.
    tree = edit.rename(state.tree, first.statement, first.name, d.name, note)
    pair = (first.statement, d.name, second.name)
    return replace(state, tree=tree, collapsed=(*state.collapsed, pair))


def fuse(state: State, d: Fuse, on: Sequence[str]) -> State:
    """Children of one sequence become one loop by equal coordinate."""
    found = distinct(state, d.loops, on)
    if len(found) < 2:
        raise refusal(d.span, "fuse joins two loops or more")
    around = {loop.name for loop in loops_of(state.tree, found[0].statement)}
    if {at.statement for at in found} == {found[0].statement} and {a.name for a in found} <= around:
        named = ", ".join(at.name for at in found)
        raise refusal(
            d.span,
            f"{named} stand one inside the other, and fuse joins loops that follow each other",
            help=f"to make one loop of a nest, write `collapse {named} -> {d.name}`",
        )
    for at in found:
        serial(at, d.span, "fused")
        movable(state, at, d.span, "fused")
        fresh(state, [d.name], at.loop, [f.name for f in found], d.span)
    tree = edit.fuse(state.tree, [(at.statement, at.name) for at in found], d.name)
    return replace(state, tree=tree)


def distribute(state: State, d: Distribute, on: Sequence[str]) -> State:
    """The nearest sequence below moves above the loop."""
    at = one(state, d.loop, on)
    movable(state, at, d.span, "distributed")
    alone = d.loop.statement is not None
    tree = edit.distribute(state.tree, at.statement, at.name, alone=alone)
    return replace(state, tree=tree)


def skew(state: State, d: Skew, on: Sequence[str]) -> State:
    """c += a sum of constants times coordinates on the path."""
    at = one(state, d.loop, on)
    movable(state, at, d.span, "skewed")
    names = [loop.name for loop in loops_of(state.tree, at.statement)]
    terms, constant = _linear(d.by, names, state.program.params)
    if at.name in terms:
        raise refusal(
            d.by.span or d.span,
            f"{at.name} cannot be skewed by itself",
            help=f"name a loop outside it, or turn its direction with `reverse {at.name}`",
        )
    for name in terms:
        for s in statements(at.loop):
            if all(loop.name != name for loop in loops_of(state.tree, s)):
                raise refusal(d.by.span or d.span, f"{name} is no loop around {s}")
    pairs = [(factor, name) for name, factor in terms.items() if factor]
    return replace(state, tree=edit.skew(state.tree, at.statement, at.name, pairs, constant))


def shift(state: State, d: Shift, on: Sequence[str]) -> State:
    """c += a constant, for one statement alone."""
    at = one(state, d.loop, on)
    if d.loop.statement is None and len(statements(at.loop)) > 1:
        names = listing([f"{s}.{at.name}" for s in statements(at.loop)], "or")
        raise refusal(d.span, f"shift moves one statement against the others: write {names}")
    movable(state, at, d.span, "shifted")
    path = [loop.name for loop in loops_of(state.tree, at.statement)]
    terms, constant = _linear(d.by, path, state.program.params)
    if any(terms.values()):
        raise refusal(d.by.span or d.span, "a shift is by a constant", help="use skew")
    return replace(state, tree=edit.shift(state.tree, at.statement, at.name, constant))


def reverse(state: State, d: Reverse, on: Sequence[str]) -> State:
    """c = -c"""
    for found in every(state, d.loops, on):
        at = refreshed(state, [found])[0]
        movable(state, at, d.span, "reversed")
        state = replace(state, tree=edit.reverse(state.tree, at.statement, at.name))
    return state


def _linear(e: Expr, names: Sequence[str], sizes: Collection[str]) -> tuple[dict[str, int], int]:
    """Factors of loops and a constant."""
    match e:
        case Number(value, False):
            return {}, int(value)
        case Name(id):
            if id not in names and id in sizes:
                raise refusal(
                    e.span,
                    f"coordinates move by constants, and the size {id} is not bound",
                    help=f"write a number, or bind the size: --size {id}=...",
                )
            if id not in names:
                raise refusal(
                    e.span, f"{id} is no loop here", help=closest(id, names, "loops on the path")
                )
            return {id: 1}, 0
        case Unary("-", operand):
            terms, constant = _linear(operand, names, sizes)
            return {n: -f for n, f in terms.items()}, -constant
        case Binary("+" | "-" as op, left, right):
            sign = 1 if op == "+" else -1
            (a, m), (b, n) = _linear(left, names, sizes), _linear(right, names, sizes)
            return {k: a.get(k, 0) + sign * b.get(k, 0) for k in {**a, **b}}, m + sign * n
        case Binary("*", left, right):
            (a, m), (b, n) = _linear(left, names, sizes), _linear(right, names, sizes)
            if a and b:
                raise refusal(e.span, "a skew is a sum of constants times loops")
            terms, factor = (a, n) if a else (b, m)
            return {k: f * factor for k, f in terms.items()}, m * n
        case _:
            raise refusal(e.span, "a skew is a sum of constants times loops")
