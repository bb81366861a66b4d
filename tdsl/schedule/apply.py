"""Directives edit the loop tree, each one checked: name its loops, check, edit.

Only resolved directives come here (`tdsl.schedule.resolve`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tdsl.diagnostics import BudgetExceeded, Diagnostic, Error, IllegalSchedule, Span
from tdsl.ir.types import ElemType
from tdsl.polyhedral import dependences
from tdsl.polyhedral.edit import EditError
from tdsl.polyhedral.model import initial_tree
from tdsl.polyhedral.program import Dependence, Program
from tdsl.polyhedral.tree import Node, statements
from tdsl.schedule import (
    arguments,
    check,
    computes,
    dots,
    expects,
    fresh,
    inlines,
    marks,
    moves,
    orders,
    packs,
    parts,
    places,
    stores,
    structure,
    suggest,
    tuples,
)
from tdsl.schedule.directives import (
    Collapse,
    Compute,
    Directive,
    Distribute,
    Dot,
    Expect,
    Extend,
    Factor,
    Finish,
    Fuse,
    Inline,
    Layout,
    LoopRef,
    Order,
    Pack,
    Parallel,
    Peel,
    Prefetch,
    Reassociate,
    Reorder,
    Reverse,
    Sequence,
    Shift,
    Skew,
    Split,
    Stage,
    Store,
    Stream,
    Tile,
    Transpose,
    Unroll,
    Vectorize,
    Wavefront,
)
from tdsl.schedule.hints import refusal, with_names, with_via, without_help
from tdsl.schedule.literal import integer
from tdsl.schedule.references import Ambiguous, candidates, every, statement_names
from tdsl.schedule.replaced import with_lanes
from tdsl.schedule.resolve import Resolved, Step
from tdsl.schedule.state import LoopAt, Scheduled, State
from tdsl.schedule.target import Target
from tdsl.syntax.print_directive import print_directive

STARRED = (Split, Reverse, Vectorize, Unroll, Parallel)  # act on every loop of a bare name


def begin(
    program: Program,
    lanes: Callable[[ElemType], int],
    *,
    strict_fp: bool = False,
    known: tuple[Dependence, ...] | None = None,
) -> State:
    """The program in its own order. `known`: its dependences, where they were computed before."""
    found = dependences.compute(program) if known is None else known
    return State(program, initial_tree(program), found, lanes, strict_fp=strict_fp)


def schedule(
    program: Program,
    resolved: Resolved,
    target: Target,
    *,
    strict_fp: bool = False,
    known: tuple[Dependence, ...] | None = None,
) -> Scheduled:
    """All directives in text order, then what only the complete schedule can show."""
    states = [begin(program, target.lanes, strict_fp=strict_fp, known=known)]
    for n, step in enumerate(resolved.steps):
        states.append(after(states, resolved.steps[:n], step))
    trail = [
        (step.written, state.tree) for step, state in zip(resolved.steps, states[1:], strict=True)
    ]
    return complete(states[-1], trail)


def complete(state: State, trail: Iterable[tuple[Directive, Node]] = ()) -> Scheduled:
    """The checks of a finished schedule: order, since first terms follow the marks, and marks."""
    spans = {(s, name): span for s, name, span in state.marked}
    last = state.marked[-1][2] if state.marked else None
    if broken := check.order(state):
        raise check.illegal(state, broken, last, None)
    moves.check_streams(state)
    arguments.complete(state)
    state = dots.overruns(state, last)
    for at in marks.all_marked(state):
        if at.loop.mark == "dot":
            dots.complete(state, at, _span_of(at, spans, last))
        if broken := check.mark(state, at):
            raise check.illegal(state, broken, _span_of(at, spans, last), at.loop.notes[-1])
    computes.check_prepared(state)
    state, private = fresh.placed(state)
    state, homes = stores.placed(state)
    return Scheduled(
        state.program, state.tree, state.reassociate, state.stages, state.warnings, tuple(trail),
        state.dependences, {**private, **homes}, state.computed, state.base,
        frozenset(s.array for s in state.streams), state.prefetches, state.layouts,
    )  # fmt: skip


def _span_of(
    at: LoopAt, spans: dict[tuple[str, str], Span | None], last: Span | None
) -> Span | None:
    found = [spans[s, at.name] for s in statements(at.loop) if (s, at.name) in spans]
    return found[0] if found else last


def apply(state: State, step: Step) -> State:
    """The state after one directive. Raises IllegalSchedule, and then nothing has changed."""
    try:
        return _stepped(state, step)
    except Ambiguous as error:
        raise with_via(suggest.told_apart(error, state, step, _stepped), step.via) from None
    except IllegalSchedule as error:
        may_help = error.violations or isinstance(error, moves.Unready)
        if may_help and error.diagnostics[0].help is None:
            error = suggest.helped(error, state, step, _stepped)
        if error.instead is not None and not suggest.does(error.instead, state, step, _stepped):
            error = without_help(error)
        raise with_via(error, step.via) from None
    except BudgetExceeded as error:
        raise with_via(error.within(step.directive.span), step.via) from None
    except Error as error:
        raise with_via(error, step.via) from None


def after(states: list[State], steps: tuple[Step, ...], step: Step) -> State:
    """`apply` to the last of the states, which the steps made of the first one by one. That the
    directive would do earlier is said only where it does."""
    try:
        return apply(states[-1], step)
    except IllegalSchedule as error:
        if not error.earlier:
            raise
        names = suggest.earlier(states, steps, step, _stepped)
        raise without_help(error) if names is None else with_names(error, names) from None


def _stepped(state: State, step: Step) -> State:
    """One directive for each of the statements of its `on`; what they share is one thing."""
    d = step.directive
    owners = [owner for name in step.on for owner in _owners(state, name, d.span)]
    if not owners or isinstance(d, STARRED):
        return _directive(state, step, tuple(s for owner in owners for s in owner))
    seen: list[list[int]] = []
    turns: list[tuple[str, ...]] = []
    for owner in owners:
        refs = [r for r in getattr(d, "loops", ()) if isinstance(r, LoopRef)]
        refs = [ref for ref in refs if not structure.settled(state, ref, owner)]
        key = [id(at.loop) for ref in refs for at in candidates(state, ref, owner)]
        if not key or key not in seen:
            seen.append(key)
            turns.append(owner)
    for owner in turns:
        state = _directive(state, step, owner)
    return state


def _owners(state: State, name: str, span: Span | None) -> list[tuple[str, ...]]:
    """The statements that a name of an `on` stands for, one by one; a tuple reduction is one."""
    names = statement_names(state.program, name, span)
    if state.program.statements[names[0]].tuple_of is not None:
        return [names]
    return [(s,) for s in names]


def _directive(state: State, step: Step, on: tuple[str, ...]) -> State:
    d = step.directive
    try:
        if isinstance(d, Transpose):
            return moves.transpose(state, d, on, in_recipe=bool(step.via))
        return _edited(state, d, on)
    except EditError as error:
        raise refusal(d.span, str(error), help=error.help) from None


def _edited(state: State, d: Directive, on: tuple[str, ...]) -> State:
    match d:
        case Split():
            # A tail may run instances twice; all else that a split does is legal.
            split = structure.split(state, d, on)
            return _ordered(split, d) if "shift" in d.tail else split
        case Tile():
            return _ordered(structure.tile(state, d, on), d)
        case Reorder():
            return _ordered(structure.reorder(state, d, on), d)
        case Collapse():
            return structure.collapse(state, d, on)
        case Fuse():
            return _ordered(structure.fuse(state, d, on), d)
        case Distribute():
            return _ordered(structure.distribute(state, d, on), d)
        case Skew():
            return _ordered(structure.skew(state, d, on), d)
        case Shift():
            return _ordered(structure.shift(state, d, on), d)
        case Reverse():
            return _ordered(structure.reverse(state, d, on), d)
        case Wavefront():
            return _ordered(orders.wavefront(state, d, on), d)
        case Extend():
            return _ordered(orders.extend(state, d), d)
        case Sequence():
            return _ordered(orders.sequence(state, d), d)
        case Order():
            return _ordered(orders.order(state, d), d)
        case Peel():
            return _ordered(parts.peel(state, d, on), d)
        case Factor():
            return _ordered(parts.factor(state, d, on), d)
        case Vectorize() | Unroll() | Parallel():
            return _marked(state, d, on)
        case Dot():
            return dots.dot(state, d, on)
        case Reassociate():
            return _reassociated(state, d)
        case Prefetch():
            return moves.prefetch(state, d, on)
        case Stream():
            return moves.stream(state, d)
        case Inline():
            return inlines.inlined(state, d)
        case Stage():
            return places.stage(state, d, on)
        case Store():
            return stores.store(state, d, on)
        case Layout():
            return arguments.layout(state, d)
        case Expect():
            expects.check(state.program, d)
            return state  # asked of the complete plan, and of the assembly
        case Compute():
            return computes.compute(state, d, on)
        case Finish():
            return computes.finish(state, d, on)
        case Pack():
            return packs.pack(state, d, on)
        case _:
            raise AssertionError(f"a directive that is not resolved: {d!r}")


def _ordered(state: State, d: Directive) -> State:
    if broken := check.order(state):
        raise check.illegal(state, broken, d.span, print_directive(d))
    return state


def _marked(state: State, d: Vectorize | Unroll | Parallel, on: tuple[str, ...]) -> State:
    """All loops get their mark first: loops that are unrolled together do not jam each other."""
    note = print_directive(d)
    made: list[LoopAt] = []
    for found in every(state, d.loops, on):
        at = marks.refreshed(state, [found])[0]
        match d:
            case Vectorize(_, width):
                state, now = marks.vectorize(state, at, _optional(width), note, d.span)
                state = tuples.with_states(state, now, note, d.span)
                now = marks.refreshed(state, [now])[0]
            case Unroll(_, by, plain):
                state, now = marks.unroll(state, at, _optional(by), plain, note, d.span)
            case _:
                state, now = marks.parallel(state, at, note, d.span)
        made.append(now)
    check.shape(state, d.span)
    state = with_lanes(state)
    for at in made:
        if broken := check.mark(state, at):
            raise check.illegal(state, broken, d.span, note)
    marked = tuple((m.statement, m.name, d.span) for m in made)
    return replace(state, marked=state.marked + marked)


def _optional(expr: object) -> int | None:
    return None if expr is None else integer(expr)


def _reassociated(state: State, d: Reassociate) -> State:
    names = [s for name in d.statements for s in statement_names(state.program, name, d.span)]
    warnings = list(state.warnings)
    for name in names:
        stmt = state.program.statements[name]
        if stmt.tuple_of is not None:
            continue  # their join says in which order they may come
        if not stmt.is_update:
            raise refusal(d.span, f"{name} is no reduction: its terms have no order to change")
        if not state.program.arrays[stmt.write.array].type.is_float:
            message = f"reassociate {name} changes nothing: sums of integers are exact"
            warnings.append(Diagnostic(message, d.span, "schedule", severity="warning"))
    return replace(
        state, reassociate=state.reassociate | frozenset(names), warnings=tuple(warnings)
    )
