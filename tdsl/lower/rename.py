"""Loop variables replaced by expressions at the loops level."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tdsl.ir import loops as ir
from tdsl.ir.index import simplify, substitute
from tdsl.ir.kernel import Expr


def rename(block: ir.Block, var: str, value: Expr) -> ir.Block:
    """The block with a loop variable replaced by an expression."""
    return ir.Block(tuple(_renamed(item, {var: value}) for item in block.items))


def renamed_hints(hints: tuple[ir.Prefetch, ...], var: str, value: Expr) -> tuple[ir.Prefetch, ...]:
    """Hints with a loop variable replaced by an expression."""
    return tuple(_hint(h, lambda e: simplify(substitute(e, {var: value}))) for h in hints)


def _hint(hint: ir.Prefetch, expr: Callable[[Expr], Expr]) -> ir.Prefetch:
    return replace(hint, lo=tuple(map(expr, hint.lo)), extents=tuple(map(expr, hint.extents)))


def _renamed(item: ir.Item, env: Mapping[str, Expr]) -> ir.Item:
    def expr(e: Expr) -> Expr:
        return simplify(substitute(e, env))

    def block(b: ir.Block) -> ir.Block:
        return ir.Block(tuple(_renamed(i, env) for i in b.items))

    match item:
        case ir.For():
            hints = tuple(_hint(h, expr) for h in item.hints)
            lo, hi = expr(item.lo), expr(item.hi)
            return replace(item, lo=lo, hi=hi, body=block(item.body), hints=hints)
        case ir.If(condition, then, other):
            return ir.If(expr(condition), block(then), None if other is None else block(other))
        case ir.Switch(on, cases, default):
            rest = None if default is None else block(default)
            return ir.Switch(expr(on), tuple((n, block(b)) for n, b in cases), rest)
        case ir.Scope():
            return replace(item, body=block(item.body))
        case ir.Block():
            return block(item)
        case ir.Instance():
            dims = tuple(
                replace(d, count=None if d.count is None else expr(d.count)) for d in item.dims
            )
            index = tuple((name, expr(e)) for name, e in item.index)
            guard = None if item.guard is None else expr(item.guard)
            always = None if item.always is None else expr(item.always)
            plain = None if item.plain is None else expr(item.plain)
            return replace(item, index=index, dims=dims, guard=guard, always=always, plain=plain)
