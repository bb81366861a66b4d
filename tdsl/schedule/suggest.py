"""What would make a refused directive legal: tried out before it is said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import islice, permutations
from typing import Any

from tdsl.diagnostics import Error, Fix, IllegalSchedule, Note
from tdsl.polyhedral.program import Violation
from tdsl.polyhedral.tree import Seq, loops_of, statements
from tdsl.schedule.directives import (
    Collapse,
    Directive,
    Distribute,
    Factor,
    Fuse,
    LoopRef,
    Parallel,
    Reassociate,
    Reorder,
    Shift,
    Skew,
    Split,
    Tile,
    Transpose,
    Unroll,
    Vectorize,
    Wavefront,
)
from tdsl.schedule.literal import number
from tdsl.schedule.references import Ambiguous, candidates, every
from tdsl.schedule.resolve import Step
from tdsl.schedule.state import LoopAt, State
from tdsl.schedule.temps import Suggestion, Works, local_temp
from tdsl.syntax.print_directive import print_directive
from tdsl.syntax.tree import Binary, Expr, Name

TRIES = 24
MOVES = 48  # directives that are applied again to find an earlier place for one
SHIFTS = (1, 2, -1, -2)
TURNED = 8  # rows and columns of a block that is transposed
BLOCK = 1024  # terms that are added at a time where threads share a sum

Attempt = Callable[[State, Step], State]
"""Applies a step, or raises."""


def helped(error: IllegalSchedule, state: State, step: Step, attempt: Attempt) -> IllegalSchedule:
    """The refusal with a help line, where one of a few tries finds one."""
    left = TRIES

    def works(trial: State, *steps: Step) -> bool:
        nonlocal left
        if left <= 0:
            return False
        left -= 1
        try:
            for each in steps:
                trial = attempt(trial, each)
        except Error:
            return False
        return True

    tries = (
        _reassociation(error.violations, state, step, works),
        _shift(state, step, works),
        _skew(state, step, works),
        _distribution(state, step, works),
        _other_order(state, step, works),
        _other_loop(state, step, works),
        local_temp(error.violations, state, step, works),
        _factor(error.violations, state, step, works),
        _plain(state, step, works),
        _turnable(state, step, works),
    )
    found = next((found for each in tries for found in each), None)
    if found is None:
        return error
    first, *rest = error.diagnostics
    fix = None
    if found.before and first.span is not None and not step.via:
        fix = Fix(first.span, tuple(print_directive(d) for d in found.before))
    first = replace(first, help=found.text, fix=fix)
    return IllegalSchedule(first, *rest, violations=error.violations)


def told_apart(error: Ambiguous, state: State, step: Step, attempt: Attempt) -> IllegalSchedule:
    """The refusal of a name that several loops have, with those that do; else why none does."""
    found = error.found[:TRIES]
    plain = not error.ref.statement and not step.on
    written = [
        (str(at), replace(step, directive=_naming(step.directive, error.ref, at))) for at in found
    ]
    blocks = [(f"on {s}", replace(step, on=(s,))) for s in _names(found)] if plain else []
    refused: dict[str, str] = {}
    for name, trial in (*written, *blocks):
        try:
            attempt(state, trial)
        except Error as other:
            refused[name] = other.diagnostics[0].message
    first, *rest = error.diagnostics
    legal = [name for name, _ in written if name not in refused]
    block = next((name for name, _ in blocks if name not in refused), None)
    helps = [f"write {legal[0]}"] if legal else []
    if block is not None:
        helps.append(f"put the directive in `{block} {{ ... }}`")
    if helps:
        first = replace(first, help=", or ".join(helps))
    else:
        notes = tuple(Note(f"{name} will not do: {refused[name]}") for name, _ in written)
        first = replace(first, notes=first.notes + notes)
    return IllegalSchedule(first, *rest)


def does(instead: Directive, state: State, step: Step, attempt: Attempt) -> bool:
    """Whether another directive is legal in place of a refused one."""
    try:
        attempt(state, Step(instead))
    except Error:
        return False
    return True


def earlier(
    states: Sequence[State], steps: Sequence[Step], step: Step, attempt: Attempt
) -> Mapping[str, str] | None:
    """Whether a refused directive is legal before one of the steps, and they after it: then what
    its loops are called in those; {} where they are as they were, None where it is not."""
    left = MOVES
    for position in reversed(range(len(steps))):
        for names in ({}, *_new_names(step.directive)):
            later = [replace(s, directive=_renamed(s.directive, names)) for s in steps[position:]]
            trial = states[position]
            try:
                for each in (step, *later):
                    if left <= 0:
                        return None
                    left -= 1
                    trial = attempt(trial, each)
            except Error:
                continue
            return names
    return None


def _new_names(d: Directive) -> list[dict[str, str]]:
    """What the loops may be called behind a directive that makes others of them."""
    match d:
        case Split(loops=refs):
            return [{r.loop: new for r in refs} for new in (d.outer, d.inner)]
        case Tile(loops=refs):
            count = len(refs)
            parts = (d.names[:count], d.names[count:])
            return [{r.loop: n for r, n in zip(refs, new, strict=False)} for new in parts]
        case Collapse(loops=refs) | Fuse(loops=refs):
            return [{r.loop: d.name for r in refs}]
        case _:
            return []


def _renamed(d: Directive, names: Mapping[str, str]) -> Directive:
    def named(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(named, value))
        if isinstance(value, LoopRef) and value.loop in names:
            return replace(value, loop=names[value.loop])
        return value

    return replace(d, **{f.name: named(getattr(d, f.name)) for f in fields(d)}) if names else d


def _names(found: Iterable[LoopAt]) -> list[str]:
    return list(dict.fromkeys(at.statement for at in found))


def _naming(d: Directive, ref: LoopRef, at: LoopAt) -> Directive:
    """The directive with a loop's full name in place of a reference."""
    full = LoopRef(at.statement, ref.loop, span=ref.span)

    def named(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(named, value))
        return full if value is ref else value

    changes = {f.name: named(getattr(d, f.name)) for f in fields(d)}
    return replace(d, **changes)


def _before(ds: Iterable[Directive], why: str = "") -> Suggestion:
    directives = tuple(ds)
    listed = ", ".join(f"`{print_directive(d)}`" for d in directives)
    return Suggestion(f"put {listed} before it{why}", directives)


def _all(state: State, step: Step, works: Works, ds: Iterable[Directive]) -> bool:
    """Whether the directives are legal one by one, and the refused one after them."""
    return works(state, *(replace(step, directive=d) for d in ds), step)


def _reassociation(
    violations: tuple[Violation, ...], state: State, step: Step, works: Works
) -> Iterator[Suggestion]:
    if state.strict_fp:
        return
    sums = {
        s
        for v in violations
        if v.dependence is not None and v.dependence.relaxable is not None
        for s in (v.source, v.sink)
    } - state.reassociate
    if sums and works(replace(state, reassociate=state.reassociate | sums), step):
        why = ": the sum may then be added in another order"
        yield _before([Reassociate(tuple(sorted(sums)))], why)


def _shift(state: State, step: Step, works: Works) -> Iterator[Suggestion]:
    """Of two loops that are to be one: the statements of the later one run some iterations on."""
    d = step.directive
    if not isinstance(d, Fuse):
        return
    for ref in d.loops[1:]:
        at = candidates(state, ref, step.on)[0]
        for by in SHIFTS:
            below = [LoopRef(s, at.name) for s in statements(at.loop)]
            shifts = [Shift(r, number(by)) for r in below]
            if _all(state, step, works, shifts):
                yield _before(shifts)


def _skew(state: State, step: Step, works: Works) -> Iterator[Suggestion]:
    """Skews of named loops by those outside them: one of one, then all of all."""
    d = step.directive
    if isinstance(d, Wavefront):
        refs: tuple[LoopRef, ...] = (d.first, d.second)
    elif isinstance(d, Tile | Reorder):
        refs = d.loops
    else:
        return
    found = [candidates(state, ref, step.on)[0] for ref in refs]
    path = [loop.name for loop in loops_of(state.tree, found[0].statement)]
    if any(at.name not in path for at in found):
        return
    by_depth = sorted(zip(refs, found, strict=True), key=lambda pair: path.index(pair[1].name))
    names = [at.name for _, at in by_depth]
    for inner in range(1, len(by_depth)):
        for outer in range(inner):
            for factor in (1, 2):
                by = Name(names[outer])
                skew = Skew(
                    by_depth[inner][0], by if factor == 1 else Binary("*", number(factor), by)
                )
                if _all(state, step, works, [skew]):
                    yield _before([skew])
    for width in (1, len(names)):
        # By the outermost one alone, then by all outside: what skews came before counts already.
        many = [Skew(by_depth[k][0], _sum(names[: min(k, width)])) for k in range(1, len(names))]
        if len(many) > 1 and _all(state, step, works, many):
            yield _before(many)


def _sum(names: list[str]) -> Expr:
    total: Expr = Name(names[0])
    for name in names[1:]:
        total = Binary("+", total, Name(name))
    return total


def _distribution(state: State, step: Step, works: Works) -> Iterator[Suggestion]:
    """Lanes or threads for each statement of a sequence on its own."""
    d = step.directive
    if not isinstance(d, Parallel | Vectorize):
        return
    for ref in d.loops:
        at = candidates(state, ref, step.on)[0]
        if isinstance(at.loop.body, Seq):
            apart = Distribute(LoopRef(None, at.name) if ref.statement is None else ref)
            if _all(state, step, works, [apart]):
                yield _before([apart])


def _other_order(state: State, step: Step, works: Works) -> Iterator[Suggestion]:
    d = step.directive
    if not isinstance(d, Reorder) or len(d.loops) < 3:
        return  # of two loops the other order is the one that is there
    for order in islice(permutations(d.loops), 1, TRIES):
        other = replace(d, loops=order)
        if not _is_present(state, other, step.on) and works(state, replace(step, directive=other)):
            yield Suggestion(f"`{print_directive(other)}` would be legal")


def _is_present(state: State, d: Reorder, on: tuple[str, ...]) -> bool:
    found = [candidates(state, ref, on)[0] for ref in d.loops]
    path = [loop.name for loop in loops_of(state.tree, found[0].statement)]
    if not {at.name for at in found} <= set(path):
        return False  # loops of several nests
    places = [path.index(at.name) for at in found]
    return places == sorted(places)


def _other_loop(state: State, step: Step, works: Works) -> Iterator[Suggestion]:
    d = step.directive
    if not isinstance(d, Parallel | Vectorize):
        return
    at = every(state, d.loops, step.on)[0]
    around = loops_of(state.tree, at.statement)
    # Threads pay outside, lanes inside.
    for loop in around if isinstance(d, Parallel) else reversed(around):
        other = replace(d, loops=(LoopRef(at.statement, loop.name),))
        if loop is not at.loop and works(state, Step(other)):
            yield Suggestion(f"`{print_directive(other)}` would be legal")


def _factor(
    violations: tuple[Violation, ...], state: State, step: Step, works: Works
) -> Iterator[Suggestion]:
    """Threads over a reduction: each sums a block."""
    d = step.directive
    if not isinstance(d, Parallel) or state.strict_fp or len(d.loops) != 1:
        return
    if not any(v.dependence is not None and v.dependence.relaxable for v in violations):
        return
    at = every(state, d.loops, step.on)[0]
    name, blocks = f"{at.statement}_part", f"{at.name}o"
    within = LoopRef(at.statement, at.name)
    apart = Split((within,), number(BLOCK), blocks, f"{at.name}i")
    for steps in (
        (Factor(within, name), Parallel((LoopRef(name, at.name),))),
        (
            apart,
            Factor(LoopRef(at.statement, blocks), name),
            Parallel((LoopRef(name, blocks),)),
        ),
    ):
        if works(state, *(Step(each) for each in steps)):
            listed = ", ".join(f"`{print_directive(each)}`" for each in steps)
            yield Suggestion(f"write {listed}: each thread sums a part of its own")


def _plain(state: State, step: Step, works: Works) -> Iterator[Suggestion]:
    d = step.directive
    if isinstance(d, Unroll) and not d.plain:
        other = replace(d, plain=True)
        if works(state, replace(step, directive=other)):
            text = f"`{print_directive(other)}` keeps the order: copies one after the other"
            yield Suggestion(text)


def _turnable(state: State, step: Step, works: Works) -> Iterator[Suggestion]:
    """Two loops of few iterations, innermost, in place of those of a transpose."""
    d = step.directive
    if not isinstance(d, Transpose):
        return
    found = [candidates(state, ref, step.on)[0] for ref in (d.first, d.second)]
    path = [loop.name for loop in loops_of(state.tree, found[0].statement)]
    names = [at.name for at in found]
    if not set(names) <= set(path):
        return
    rest = [name for name in path if name not in names]

    def order(*inner: str) -> list[Directive]:
        return [Reorder(tuple(LoopRef(found[0].statement, n) for n in (*rest, *inner)))]

    if rest:
        before = order(*names)
        if _all(state, step, works, before):
            yield _before(before)
    turned = [LoopRef(found[0].statement, name) for name in path[-2:]]
    other = replace(d, first=turned[0], second=turned[1])
    if works(state, replace(step, directive=other)):
        yield Suggestion(f"`{print_directive(other)}` would be legal")
    blocks, inner = [f"{n}o" for n in names], [f"{n}i" for n in names]
    refs = [LoopRef(found[0].statement, n) for n in (*names, *inner)]
    splits = [
        Split((ref,), number(TURNED), o, i)
        for ref, o, i in zip(refs[:2], blocks, inner, strict=True)
    ]
    steps: list[Directive] = [*splits, *order(*blocks, *inner)]
    steps.append(replace(d, first=refs[2], second=refs[3]))
    if works(state, *(Step(each) for each in steps)):
        listed = ", ".join(f"`{print_directive(each)}`" for each in steps)
        yield Suggestion(f"write {listed}")
