"""Recipes are written out and `on` blocks taken apart: one step a directive, still unresolved.

before: on C { split i by MR -> io, ii  unroll ii }
after:  on C { split i by MR -> io, ii }   on C { unroll ii }
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from tdsl.diagnostics import Span
from tdsl.schedule.directives import ArrayRef, Directive, Let, LoopRef, On, Use
from tdsl.schedule.evaluate import Binding, Scope
from tdsl.schedule.hints import closest, listing, refusal
from tdsl.syntax.tree import (
    Binary,
    Call,
    Compare,
    Expr,
    Field,
    ListLit,
    Name,
    Number,
    Recipe,
    Reduce,
    Subscript,
    Text,
    Unary,
)

EXPRESSIONS = (
    Number,
    Text,
    Name,
    Subscript,
    Field,
    Call,
    Unary,
    Binary,
    Compare,
    Reduce,
    ListLit,
)
WORDS = frozenset({"span", "tail", "memory", "plain"})  # fields that hold no names of the user
STEPS = 10_000  # of one schedule
DEPTH = 32  # of recipes that use recipes


@dataclass(frozen=True)
class Item:
    """A directive with the scope of its names and values, the statements of its `on` (innermost
    block), and the uses of recipes that led to it."""

    directive: Directive
    scope: Scope
    on: tuple[str, ...] = ()
    via: tuple[Span, ...] = ()


def expand(
    directives: tuple[Directive, ...], recipes: Mapping[str, Recipe], scope: Scope
) -> tuple[Item, ...]:
    """All directives in text order. A `let` is seen by what follows it in its block."""
    items: list[Item] = []
    for item in _block(directives, recipes, scope, (), (), ()):
        items.append(item)
        if len(items) > STEPS:
            raise refusal(item.directive.span, f"this schedule has more than {STEPS} directives")
    return tuple(items)


def _block(
    directives: tuple[Directive, ...],
    recipes: Mapping[str, Recipe],
    scope: Scope,
    on: tuple[str, ...],
    via: tuple[Span, ...],
    inside: tuple[str, ...],
) -> Iterator[Item]:
    own: set[str] = set()
    for directive in directives:
        match directive:
            case Let(name, value):
                if name in own:
                    raise refusal(
                        directive.span,
                        f"{name} already has a value here",
                        help="a let is not assigned again: choose another name",
                        via=via,
                    )
                own.add(name)
                scope = scope.bind(name, Binding(value, scope))
                yield Item(directive, scope, on, via)
            case On(statements, body):
                names = tuple(renamed(s, scope, directive.span, via) for s in statements)
                yield from _block(body, recipes, scope, names, via, inside)
            case Use():
                recipe = _recipe(directive, recipes, via, inside)
                here = via if directive.span is None else (*via, directive.span)
                bound = _arguments(directive, recipe, scope, via)
                nested = (*inside, recipe.name)
                yield from _block(recipe.directives, recipes, bound, on, here, nested)
            case _:
                yield Item(directive, scope, on, via)


def _recipe(
    use: Use, recipes: Mapping[str, Recipe], via: tuple[Span, ...], inside: tuple[str, ...]
) -> Recipe:
    recipe = recipes.get(use.recipe)
    if recipe is None:
        message = f"there is no recipe {use.recipe}"
        raise refusal(
            use.span, message, help=closest(use.recipe, recipes, "recipes in this file"), via=via
        )
    if use.recipe in inside or len(inside) >= DEPTH:
        raise refusal(use.span, f"recipe {use.recipe} would use itself without end", via=via)
    return recipe


def _arguments(use: Use, recipe: Recipe, scope: Scope, via: tuple[Span, ...]) -> Scope:
    params = [p.name for p in recipe.params]
    if len(use.args) > len(params):
        raise refusal(
            use.span,
            f"recipe {recipe.name} takes {len(params)} arguments, not {len(use.args)}",
            help=f"its parameters are {listing(params)}" if params else None,
            via=via,
        )
    given = dict(zip(params, use.args, strict=False))
    for name, value in use.kwargs:
        if name not in params:
            message = f"recipe {recipe.name} has no parameter {name}"
            raise refusal(use.span, message, help=closest(name, params, "parameters"), via=via)
        if name in given:
            raise refusal(use.span, f"{name} is given twice to recipe {recipe.name}", via=via)
        given[name] = value
    bound = Scope()
    for param in recipe.params:
        if param.name in given:
            bound = bound.bind(param.name, Binding(given[param.name], scope, is_param=True))
        elif param.default is not None:
            bound = bound.bind(param.name, Binding(param.default, bound, is_param=True))
        else:
            raise refusal(
                use.span,
                f"recipe {recipe.name} wants a value for {param.name}",
                help=f"{param.name} = ...",
                via=via,
            )
    return bound


# ---------------------------------------------------------------- names


def reference(
    statement: str | None, name: str, scope: Scope, span: Span | None, via: tuple[Span, ...]
) -> tuple[str | None, str]:
    """`S.name` where either may be a recipe's parameter; an argument may be `S.name` itself."""
    if statement is not None:
        statement = renamed(statement, scope, span, via)
    binding = scope.bindings.get(name)
    if binding is None or not binding.is_param:
        return statement, name
    match binding.value:
        case Name(id):
            return reference(statement, id, binding.scope, span, via)
        case Field(Name(of), id) if statement is None:
            return reference(of, id, binding.scope, span, via)
        case _:
            raise refusal(span, f"{name} stands for a value here, and a name is wanted", via=via)


def renamed(name: str, scope: Scope, span: Span | None, via: tuple[Span, ...]) -> str:
    """A name, or what the argument of a recipe calls it."""
    statement, plain = reference(None, name, scope, span, via)
    if statement is not None:
        message = f"{name} stands for {statement}.{plain} here, and a plain name is wanted"
        raise refusal(span, message, via=via)
    return plain


def rewrite(item: Item, expr: Callable[[str, Expr], Expr]) -> Directive:
    """The directive with a recipe's names replaced; `expr(field, e)` rewrites expressions."""
    scope, via, span = item.scope, item.via, item.directive.span

    def walk(field: str, value: Any) -> Any:
        if field in WORDS or value is None or isinstance(value, bool):
            return value
        if isinstance(value, LoopRef):
            statement, loop = reference(value.statement, value.loop, scope, value.span, via)
            return replace(value, statement=statement, loop=loop)
        if isinstance(value, ArrayRef):
            statement, array = reference(value.statement, value.array, scope, value.span, via)
            dims = tuple(expr("dims", d) for d in value.dims)
            return replace(value, statement=statement, array=array, dims=dims)
        if isinstance(value, EXPRESSIONS):
            return expr(field, value)
        if isinstance(value, tuple):
            return tuple(walk(field, v) for v in value)
        if isinstance(value, str):
            return value if field == "at" else renamed(value, scope, span, via)
        raise TypeError(f"a directive holds a {type(value).__name__}")

    d = item.directive
    changes = {f.name: walk(f.name, getattr(d, f.name)) for f in fields(d)}
    return replace(d, **changes)
