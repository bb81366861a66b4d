"""Knobs: `let T = tune(...)`, and the first combination that satisfies every `require`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

from tdsl.diagnostics import Error, Note
from tdsl.schedule.directives import Let, Require
from tdsl.schedule.evaluate import Evaluator, Scope, is_knob
from tdsl.schedule.expand import Item
from tdsl.schedule.hints import closest, listing, refusal, with_via
from tdsl.syntax.tree import Binary, Call, Compare, Expr, Name, Unary

COMBINATIONS = 1 << 18  # of knobs that `require` asks about


def candidates(items: tuple[Item, ...], evaluator: Evaluator) -> dict[str, tuple[int, ...]]:
    """What each knob may be, in text order."""
    found: dict[str, tuple[int, ...]] = {}
    for item in items:
        d = item.directive
        if not isinstance(d, Let) or not is_knob(d.value):
            continue
        assert isinstance(d.value, Call)
        if not d.value.args:
            raise refusal(d.span, f"tune() of {d.name} offers no value", via=item.via)
        # No knob has a value yet: a candidate may use constants and the target, so that the space
        # is a plain product.
        values = tuple(
            evaluator.integer(a, item.scope, f"a value of {d.name}") for a in d.value.args
        )
        if found.setdefault(d.name, values) != values:
            raise refusal(d.span, f"the knob {d.name} is already there", via=item.via)
    return found


def choose(
    items: tuple[Item, ...],
    evaluator: Evaluator,
    offered: Mapping[str, tuple[int, ...]],
    given: Mapping[str, int],
) -> dict[str, int]:
    """The given values, and for the other knobs the first combination that satisfies `require`.

    Combinations are tried in the order written: the first knob runs fastest, so a later one
    leaves its first value last.
    """
    for name, value in given.items():
        if name not in offered:
            raise refusal(None, f"there is no knob {name}", help=closest(name, offered, "knobs"))
        if value not in offered[name]:
            values = listing([str(v) for v in offered[name]], "or")
            raise refusal(None, f"the knob {name} may be {values}, not {value}")
    requires = [
        (condition, item)
        for item in items
        if isinstance(item.directive, Require)
        for condition in item.directive.conditions
    ]
    used = {n for condition, item in requires for n in knobs_in(condition, item.scope)}
    choice = {n: given.get(n, values[0]) for n, values in offered.items()}
    free = [n for n in offered if n in used and n not in given]
    if prod(len(offered[n]) for n in free) > COMBINATIONS:
        raise refusal(
            requires[0][0].span, f"require asks about more than {COMBINATIONS} combinations"
        )
    reversed_values = [offered[n] for n in reversed(free)]
    for combination in itertools.product(*reversed_values):
        choice.update(zip(reversed(free), combination, strict=True))
        trial = replace(evaluator, knobs=choice, unknown=[])
        if all(_satisfied(c, item, trial) for c, item in requires):
            return choice
    raise _unsatisfied(requires, evaluator, offered, given, free)


def _satisfied(condition: Expr, item: Item, evaluator: Evaluator) -> bool:
    try:
        value = evaluator.value(condition, item.scope)
    except Error as error:
        raise with_via(error, item.via) from None
    if value is None:
        message = f"require asks about the size {evaluator.unknown[0]}, which is not bound"
        raise refusal(condition.span, message, help="write it as `when`", via=item.via)
    if not isinstance(value, bool):
        raise refusal(condition.span, "require wants a condition", via=item.via)
    return value


def _unsatisfied(
    requires: list[tuple[Expr, Item]],
    evaluator: Evaluator,
    offered: Mapping[str, tuple[int, ...]],
    given: Mapping[str, int],
    free: list[str],
) -> Error:
    choice = {n: given.get(n, values[0]) for n, values in offered.items()}
    first = replace(evaluator, knobs=choice, unknown=[])
    condition, item = next((c, i) for c, i in requires if not _satisfied(c, i, first))
    notes = [Note(f"{n} may be {listing([str(v) for v in offered[n]], 'or')}") for n in free]
    notes += [Note(f"{n} is {v}") for n, v in given.items()]
    if isinstance(condition, Compare) and len(condition.rest) == 1:
        op, right = condition.rest[0]
        a, b = (first.value(e, item.scope) for e in (condition.first, right))
        notes.insert(0, Note(f"with the first values it says {a} {op} {b}"))
    message = "no combination of knobs satisfies this" if free else "this does not hold"
    return refusal(condition.span, f"require: {message}", *notes, via=item.via)


def knobs_in(e: Expr, scope: Scope) -> Iterator[str]:
    for name in _names(e):
        binding = scope.bindings.get(name)
        if binding is None:
            continue
        if is_knob(binding.value):
            yield name
        else:
            yield from knobs_in(binding.value, binding.scope)


def _names(e: Expr) -> Iterator[str]:
    match e:
        case Name(id):
            yield id
        case Unary(_, operand):
            yield from _names(operand)
        case Binary(_, left, right):
            yield from _names(left)
            yield from _names(right)
        case Compare(first, rest):
            yield from _names(first)
            for _, x in rest:
                yield from _names(x)
        case Call(_, args):
            for a in args:
                yield from _names(a)
        case _:
            return
