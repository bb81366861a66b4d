"""Directives as text: what `print(schedule)` shows and `tdsl fmt` writes."""

from __future__ import annotations

from typing import assert_never

from tdsl.schedule import directives as d
from tdsl.syntax.layout import fit
from tdsl.syntax.print_expr import print_args, print_expr, print_exprs
from tdsl.syntax.tree import Expr

INDENT = 4


def print_directive(directive: d.Directive) -> str:
    """The text of one directive; an `on` of several takes several lines."""
    return print_directives((directive,), 0)


def print_directives(directives: tuple[d.Directive, ...], indent: int = 0) -> str:
    """One directive a line, `indent` columns from the left."""
    lines: list[str] = []
    for directive in directives:
        if isinstance(directive, d.On):
            lines += _block(directive, indent)
        else:
            lines += fit(print_line(directive), indent)
    return "\n".join(lines)


def _block(on: d.On, indent: int) -> list[str]:
    pad = " " * indent
    if len(on.body) == 1 and not isinstance(on.body[0], d.On):
        lines = fit(f"{on_header(on)} {{ {print_line(on.body[0])} }}", indent)
        if len(lines) == 1:
            return lines
    body = [print_directives(on.body, indent + INDENT)] if on.body else []
    return [f"{pad}{on_header(on)} {{", *body, f"{pad}}}"]


def on_header(on: d.On) -> str:
    """`on a, b`, without the block."""
    return f"on {', '.join(on.statements)}"


def print_line(directive: d.Directive) -> str:
    """A directive that is no block, on one line."""
    match directive:
        case d.Split(loops, factor, outer, inner, tail):
            return f"split {_refs(loops)} by {print_expr(factor)} -> {outer}, {inner}{_tail(tail)}"
        case d.Tile(loops, factors, names, tail):
            by = print_exprs(factors)
            return f"tile {_refs(loops)} by {by} -> {', '.join(names)}{_tail(tail)}"
        case d.Reorder(loops):
            return f"reorder {_refs(loops)}"
        case d.Collapse(loops, name):
            return f"collapse {_refs(loops)} -> {name}"
        case d.Fuse(loops, name):
            return f"fuse {_refs(loops)} -> {name}"
        case d.Distribute(loop):
            return f"distribute {loop}"
        case d.Skew(loop, by):
            return f"skew {loop} by {print_expr(by)}"
        case d.Shift(loop, by):
            return f"shift {loop} by {print_expr(by)}"
        case d.Reverse(loops):
            return f"reverse {_refs(loops)}"
        case d.Wavefront(first, second, front, cell):
            return f"wavefront {first}, {second} -> {front}, {cell}"
        case d.Peel(loop, first_count, last_count):
            return f"peel {loop}{_option('first', first_count)}{_option('last', last_count)}"
        case d.Extend(statement, name, value):
            return f"extend {statement} by {name} = {print_expr(value)}"
        case d.Sequence(statements):
            return f"sequence {', '.join(statements)}"
        case d.Order():
            return _order(directive)
        case d.Vectorize(loops, width):
            return f"vectorize {_refs(loops)}{_option('by', width)}"
        case d.Unroll(loops, count, plain):
            return f"unroll {_refs(loops)}{_option('by', count)}{' plain' if plain else ''}"
        case d.Parallel(loops):
            return f"parallel {_refs(loops)}"
        case d.Dot(loops):
            return f"dot {_refs(loops)}"
        case d.Inline(statements):
            return f"inline {', '.join(statements)}"
        case d.Compute(statement, at, memory):
            return f"compute {statement} at {at}{_memory(memory)}"
        case d.Finish(statement, at):
            return f"finish {statement} at {at}"
        case d.Store():
            return _store(directive)
        case d.Stage(array, at, layout, memory):
            where = "" if layout is None else f" as [{print_exprs(layout)}]"
            return f"stage {_array(array)} at {at}{where}{_memory(memory)}"
        case d.Pack():
            return _pack(directive)
        case d.Transpose(first, second):
            return f"transpose {first}, {second}"
        case d.Layout(name, indices, storage):
            return f"layout {name}[{', '.join(indices)}] as [{print_exprs(storage)}]"
        case d.Prefetch(array, at, ahead):
            return f"prefetch {_array(array)} at {at}{_option('ahead', ahead)}"
        case d.Stream(name):
            return f"stream {name}"
        case d.Reassociate(statements):
            return f"reassociate {', '.join(statements)}"
        case d.Factor(loop, name):
            return f"factor {loop} -> {name}"
        case d.Expect(conditions):
            return f"expect {print_exprs(conditions)}"
        case d.Let(name, value):
            return f"let {name} = {print_expr(value)}"
        case d.Require(conditions):
            return f"require {print_exprs(conditions)}"
        case d.Use(recipe, args, kwargs):
            return f"use {recipe}({print_args(args, kwargs)})"
        case d.On(body=body):
            return f"{on_header(directive)} {{ {'  '.join(print_line(b) for b in body)} }}"
        case _:
            assert_never(directive)


def _refs(loops: tuple[d.LoopRef, ...]) -> str:
    return ", ".join(str(loop) for loop in loops)


def _option(word: str, value: Expr | None) -> str:
    return "" if value is None else f" {word} {print_expr(value)}"


def _tail(tail: tuple[str, ...]) -> str:
    return f" tail {', '.join(tail)}" if tail else ""


def _memory(memory: str | None) -> str:
    return f" in {memory}" if memory else ""


def _array(array: d.ArrayRef) -> str:
    name = array.array if array.statement is None else f"{array.statement}.{array.array}"
    return f"{name}[{print_exprs(array.dims)}]" if array.dims else name


def _order(order: d.Order) -> str:
    entries = [
        f"{statement}[{', '.join(indices)}] -> [{print_exprs(time)}]"
        for statement, indices, time in order.entries
    ]
    names = f" -> {', '.join(order.names)}" if order.names else ""
    return f"order {{ {'; '.join(entries)} }}{names}"


def _store(store: d.Store) -> str:
    if store.layout is not None:
        return f"store {store.statement} as [{print_exprs(store.layout)}]"
    if store.inside is not None:
        return f"store {store.statement} in {store.inside}"
    fold = ", ".join(f"{name} by {print_expr(n)}" for name, n in store.fold)
    text = f"store {store.statement} at {store.at}{_memory(store.memory)}"
    return f"{text} fold {fold}" if fold else text


def _pack(pack: d.Pack) -> str:
    name = pack.name or ""
    if pack.type is not None:
        name = f"{name}: {pack.type}"
    text = f"pack {_array(pack.array)} at {pack.at} as {name}[{print_exprs(pack.order)}]"
    return text + _memory(pack.memory)
