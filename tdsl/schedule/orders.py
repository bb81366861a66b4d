"""`wavefront`, `extend`, `sequence` and `order`: names, then the edit. Legality is the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tdsl.diagnostics import ParseError
from tdsl.ir.kernel import Var
from tdsl.polyhedral import edit, legality
from tdsl.polyhedral.affine import NotAffine, pw_aff
from tdsl.polyhedral.model import scope_of
from tdsl.polyhedral.order import tree_from_order
from tdsl.polyhedral.tree import loops, loops_of, statements
from tdsl.schedule import check
from tdsl.schedule.directives import Extend, Order, Wavefront
from tdsl.schedule.directives import Sequence as SequenceOf
from tdsl.schedule.hints import listing, refusal
from tdsl.schedule.marks import serial
from tdsl.schedule.references import distinct, fresh, statement_names
from tdsl.schedule.state import LoopAt, State
from tdsl.schedule.structure import movable
from tdsl.schedule.times import NOT_AFFINE, loop_names, scheduled, size_expr, times
from tdsl.syntax.print_directive import print_directive


def wavefront(state: State, d: Wavefront, on: Sequence[str]) -> State:
    """Of an adjacent chain a, b: a becomes a + b."""
    first, second = distinct(state, (d.first, d.second), on)
    for at in (first, second):
        serial(at, d.span, "made a wavefront")
        movable(state, at, d.span, "made a wavefront")
    if first.loop.body is not second.loop:
        raise refusal(
            d.span,
            f"{second.name} does not stand directly inside {first.name}",
            help="name the outer loop first, and reorder the two side by side",
        )
    fresh(state, [d.front, d.cell], first.loop, [first.name, second.name], d.span)
    tree = edit.wavefront(
        state.tree, first.statement, first.name, second.name, d.front, d.cell, print_directive(d)
    )
    return replace(state, tree=tree)


def extend(state: State, d: Extend) -> State:
    """A new innermost loop of one iteration around one statement."""
    found = statement_names(state.program, d.statement, d.span)
    if len(found) > 1:
        raise refusal(d.span, f"{d.statement} may be {listing(found, 'or')}")
    (name,) = found
    around = loops_of(state.tree, name)
    if any(loop.name == d.name for loop in around):
        raise refusal(
            d.span,
            f"{d.name} is already the name of a loop around {name}",
            help="choose a name that is new there",
        )
    value = size_expr(state.program, d.value, {loop.name: Var(loop.name) for loop in around})
    where = scope_of(state.program, name)
    try:
        coordinate = pw_aff(value, replace(where, loops={x.name: x.coords[name] for x in around}))
    except NotAffine as error:
        raise ParseError.at(
            error.expr.span or d.value.span, "a loop of one iteration stands at a sum of constants "
            "times sizes and loops",
        ) from None  # fmt: skip
    return replace(
        state, tree=edit.extend(state.tree, name, d.name, coordinate, print_directive(d))
    )


def sequence(state: State, d: SequenceOf) -> State:
    """Branches of one sequence take the order named."""
    names: list[str] = []
    for each in d.statements:
        found = statement_names(state.program, each, d.span)
        if len(found) > 1:
            raise refusal(d.span, f"{each} may be {listing(found, 'or')}")
        if found[0] in names:
            raise refusal(d.span, f"{each} is named twice")
        names.append(found[0])
    if len(names) < 2:
        raise refusal(d.span, "sequence orders two statements or more")
    return replace(state, tree=edit.reorder_branches(state.tree, names))


def order(state: State, d: Order) -> State:
    """All statements at once, in the lexicographic order of the times given."""
    program = state.program
    every = scheduled(program)
    found = times(program, d.entries, d.span)
    missing = [name for name in every if name not in found]
    if missing:
        raise refusal(
            d.span,
            f"this order gives no time to {listing(missing)}",
            help="an order is of all statements at once: add "
            + "; ".join(
                f"{s}[{', '.join(program.statements[s].indices)}] -> [...]" for s in missing
            ),
        )
    for loop in loops(state.tree):
        if loop.mark != "serial":
            serial(LoopAt(statements(loop)[0], loop), d.span, "given another order")
        movable(state, LoopAt(statements(loop)[0], loop), d.span, "given another order")
    try:
        tree = tree_from_order(program, found)
        used = sorted({int(loop.name[1:]) for loop in loops(tree)})
        depth = max(len(time) for time in found.values())
        names = loop_names(depth, used, d.names, d.span)
        tree = tree_from_order(program, found, names)
    except NotAffine as error:
        raise ParseError.at(error.expr.span or d.span, NOT_AFFINE) from None
    for name in every:
        around = [loop.name for loop in loops_of(tree, name)]
        if len(set(around)) < len(around):
            raise refusal(d.span, f"two loops around {name} would have one name")
    if broken := legality.check_once(program, tree, every):
        raise check.illegal(state, broken, d.span, "order")
    return replace(state, tree=tree)
