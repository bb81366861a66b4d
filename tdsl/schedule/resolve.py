"""Expressions of a schedule become integers, for one target, one kernel and one choice of knobs.

before: let NV = tune(4, 2)   require 6 * NV <= registers   split j by NV * lanes(f32) -> jo, ji
after:  split j by 64 -> jo, ji
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tdsl.diagnostics import Error, Span
from tdsl.ir.kernel import Kernel
from tdsl.schedule.directives import (
    Compute,
    Directive,
    Finish,
    Inline,
    Let,
    On,
    Pack,
    Reassociate,
    Require,
    Stage,
    Store,
)
from tdsl.schedule.evaluate import EMPTY, Evaluator, Scope, is_knob
from tdsl.schedule.expand import Item, expand, rewrite
from tdsl.schedule.hints import refusal, with_via
from tdsl.schedule.knobs import candidates, choose
from tdsl.schedule.literal import number
from tdsl.schedule.target import Target
from tdsl.syntax.tree import Binary, Call, Compare, Expr, Name, Number, Recipe, Subscript, Unary

PLACES = {
    "factor": "the factor of a split",
    "factors": "the factor of a tile",
    "width": "the width of a vector",
    "first": "the number of iterations",
    "last": "the number of iterations",
    "ahead": "the distance of a prefetch",
    "fold": "the length of a ring",
}
"""Fields that hold one integer. The other expressions of directives speak of loops and indices."""

PLACING = (Compute, Finish, Pack, Stage, Store)


@dataclass(frozen=True)
class Step:
    """One directive with integers; `on`: the statements whose loops its bare names mean; `via`:
    the uses of recipes that it comes from, outermost first."""

    directive: Directive
    on: tuple[str, ...] = ()
    via: tuple[Span, ...] = ()

    @property
    def written(self) -> Directive:
        """As a directive alone."""
        d = self.directive
        return On(self.on, (d,), span=d.span) if self.on else d


@dataclass(frozen=True)
class Resolved:
    """What reaches the tree. `knobs`: the values chosen; `candidates`: what each may be."""

    steps: tuple[Step, ...]
    knobs: Mapping[str, int] = field(default_factory=dict)
    candidates: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def directives(self) -> tuple[Directive, ...]:
        return tuple(step.written for step in self.steps)


def resolve(
    directives: tuple[Directive, ...],
    target: Target,
    kernel: Kernel,
    recipes: Mapping[str, Recipe] | None = None,
    knobs: Mapping[str, int] | None = None,
    strict_fp: bool = False,
    lets: Mapping[str, Expr] | None = None,
) -> Resolved:
    """The same directives with integers; `lets` are the kernel's names of size expressions."""
    items = expand(directives, recipes or {}, EMPTY)
    evaluator = Evaluator(kernel, target, lets=lets or {})
    offered = candidates(items, evaluator)
    chosen = choose(items, evaluator, offered, knobs or {})
    evaluator = replace(evaluator, knobs=chosen, unknown=[])
    steps = []
    for item in items:
        if isinstance(item.directive, Let):
            if not is_knob(item.directive.value):
                _checked(item, evaluator)
            continue
        if isinstance(item.directive, Require):
            continue
        if strict_fp and isinstance(item.directive, Reassociate):
            raise refusal(
                item.directive.span,
                "strict_fp keeps the order of floating-point sums: reassociate is not allowed",
                help="choose a schedule without reassociate, or compile without strict_fp",
                via=item.via,
            )
        steps.append(Step(_directive(item, evaluator), item.on, item.via))
    return Resolved(_inlined_early(steps), chosen, offered)


def _inlined_early(steps: Sequence[Step]) -> tuple[Step, ...]:
    """An `inline` that was written behind a placement comes before the first one: what is placed
    is what is left when definitions are substituted."""
    first = next((n for n, s in enumerate(steps) if isinstance(s.directive, PLACING)), len(steps))
    late = [s for s in steps[first:] if isinstance(s.directive, Inline)]
    rest = [s for s in steps[first:] if not isinstance(s.directive, Inline)]
    return (*steps[:first], *late, *rest)


def offered(
    directives: tuple[Directive, ...],
    target: Target,
    kernel: Kernel,
    recipes: Mapping[str, Recipe],
    lets: Mapping[str, Expr],
) -> dict[str, tuple[int, ...]]:
    """The knobs of a schedule, and what each may be."""
    items = expand(directives, recipes, EMPTY)
    return candidates(items, Evaluator(kernel, target, lets=lets))


# ---------------------------------------------------------------- directives


def _checked(item: Item, evaluator: Evaluator) -> None:
    """A `let` must make sense even where nothing uses it."""
    assert isinstance(item.directive, Let)
    try:
        evaluator.value(item.directive.value, item.scope)
    except Error as error:
        raise with_via(error, item.via) from None


def _directive(item: Item, evaluator: Evaluator) -> Directive:
    def expr(where: str, e: Expr) -> Expr:
        what = PLACES.get(where)
        if where == "by" and type(item.directive).__name__ == "Unroll":
            what = "the number of copies"
        try:
            if what is not None:
                return number(evaluator.integer(e, item.scope, what), e.span)
            return _partial(e, item.scope, evaluator)
        except Error as error:
            raise with_via(error, item.via) from None

    return rewrite(item, expr)


def _partial(e: Expr, scope: Scope, evaluator: Evaluator) -> Expr:
    """An expression over loops or indices with the values in it replaced by numbers."""
    match e:
        case Name(id):
            binding = scope.bindings.get(id)
            if binding is not None and not is_knob(binding.value):
                return _partial(binding.value, binding.scope, evaluator)
            if not evaluator.has_value(id, scope):
                return e
            value = evaluator.value(e, scope)
            if isinstance(value, int) and not isinstance(value, bool):
                return number(value, e.span)
            return e
        case Unary(_, operand):
            return replace(e, operand=_partial(operand, scope, evaluator))
        case Binary(_, left, right):
            left, right = _partial(left, scope, evaluator), _partial(right, scope, evaluator)
            return _folded(replace(e, left=left, right=right), evaluator)
        case Compare(first, rest):
            first = _partial(first, scope, evaluator)
            return replace(
                e,
                first=first,
                rest=tuple((op, _partial(x, scope, evaluator)) for op, x in rest),
            )
        case Subscript(base, indices):
            return replace(
                e,
                base=_partial(base, scope, evaluator),
                indices=tuple(_partial(x, scope, evaluator) for x in indices),
            )
        case Call(func, args) if func == "lanes":
            value = evaluator.value(e, scope)
            assert isinstance(value, int)
            return number(value, e.span)
        case Call(_, args):
            return replace(e, args=tuple(_partial(a, scope, evaluator) for a in args))
        case _:
            return e


def _folded(e: Binary, evaluator: Evaluator) -> Expr:
    if isinstance(e.left, Number) and isinstance(e.right, Number):
        value = evaluator.value(e)
        if isinstance(value, int) and not isinstance(value, bool):
            return number(value, e.span)
    return e
