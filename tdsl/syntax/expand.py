"""Substitution of `def`s in the surface tree: `relu(a + b)` becomes `max(a + b, 0.0)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from tdsl.diagnostics import Note, ParseError, Span
from tdsl.syntax import tree

_LIMIT = 20_000  # nodes of one expression; a def used twice in itself, forty deep, has 2^40


def children(expr: tree.Expr) -> tuple[tree.Expr, ...]:
    """The operands of a surface expression, left to right."""
    match expr:
        case tree.Subscript(base, indices):
            return (base, *indices)
        case tree.Field(base):
            return (base,)
        case tree.Call(_, args, _, kwargs):
            return (*args, *(v for _, v in kwargs))
        case tree.Unary(_, operand):
            return (operand,)
        case tree.Binary(_, left, right):
            return (left, right)
        case tree.Compare(first, rest):
            return (first, *(e for _, e in rest))
        case tree.Reduce(_, ranges, where, args):
            ends = tuple(e for r in ranges for e in (r.lo, r.hi) if e is not None)
            return (*ends, *((where,) if where is not None else ()), *args)
        case tree.ListLit(items):
            return items
        case _:
            return ()


def walk(expr: tree.Expr) -> Iterator[tree.Expr]:
    """The expression and everything below it, parents first."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def rebuild(expr: tree.Expr, change: Callable[[tree.Expr], tree.Expr]) -> tree.Expr:
    """The expression with `change` applied to each operand."""
    match expr:
        case tree.Subscript(base, indices):
            return replace(expr, base=change(base), indices=tuple(change(i) for i in indices))
        case tree.Field(base):
            return replace(expr, base=change(base))
        case tree.Call(_, args, _, kwargs):
            pairs = tuple((k, change(v)) for k, v in kwargs)
            return replace(expr, args=tuple(change(a) for a in args), kwargs=pairs)
        case tree.Unary(_, operand):
            return replace(expr, operand=change(operand))
        case tree.Binary(_, left, right):
            return replace(expr, left=change(left), right=change(right))
        case tree.Compare(first, rest):
            return replace(expr, first=change(first), rest=tuple((o, change(e)) for o, e in rest))
        case tree.Reduce(_, ranges, where, args):
            return replace(
                expr,
                ranges=tuple(_range(r, change) for r in ranges),
                where=None if where is None else change(where),
                args=tuple(change(a) for a in args),
            )
        case _:
            return expr


def _range(r: tree.IndexRange, change: Callable[[tree.Expr], tree.Expr]) -> tree.IndexRange:
    return replace(
        r,
        lo=None if r.lo is None else change(r.lo),
        hi=None if r.hi is None else change(r.hi),
    )


def expand(expr: tree.Expr, defs: Mapping[str, tree.Def]) -> tree.Expr:
    """The expression without calls of defs."""
    return _Expander(defs).run(expr, ())


class _Expander:
    def __init__(self, defs: Mapping[str, tree.Def]) -> None:
        self.defs = defs
        self.nodes = 0

    def run(self, expr: tree.Expr, inside: tuple[str, ...]) -> tree.Expr:
        self._count(expr)
        if isinstance(expr, tree.Call) and expr.func in self.defs:
            return self._call(expr, self.defs[expr.func], inside)
        return rebuild(expr, lambda e: self.run(e, inside))

    def _count(self, expr: tree.Expr) -> None:
        self.nodes += 1
        if self.nodes > _LIMIT:
            raise ParseError.at(
                expr.span,
                f"this expression has more than {_LIMIT} operations once its defs are written out",
                help="give the value that is used several times a name: an array of its own",
            )

    def _call(self, call: tree.Call, f: tree.Def, inside: tuple[str, ...]) -> tree.Expr:
        if f.name in inside:
            raise ParseError.at(
                call.span, f"`{f.name}` calls itself: a def is written out, so it cannot"
            )
        if len(call.args) != len(f.params) or call.kwargs or call.type_args:
            raise ParseError.at(
                call.span,
                f"`{call.func}` takes {_count(len(f.params), 'argument')}, and {len(call.args)} "
                "came",
                Note(f"`{f.name}` is defined here", f.span),
            )
        args = [self.run(a, inside) for a in call.args]
        body = self.run(f.body, (*inside, f.name))
        return self._place(body, dict(zip(f.params, args, strict=True)), call.span)

    def _place(
        self, body: tree.Expr, values: Mapping[str, tree.Expr], span: Span | None
    ) -> tree.Expr:
        """The body with arguments for parameters. Its parts stand where the call stands, so that
        messages point into the kernel."""
        if isinstance(body, tree.Name) and body.id in values:
            self.nodes += sum(1 for _ in walk(values[body.id]))
            self._count(body)
            return values[body.id]
        moved = rebuild(body, lambda e: self._place(e, values, span))
        return replace(moved, span=span)


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
