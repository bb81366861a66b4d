"""The nodes of schedules and recipes. See `tdsl.syntax.build`."""

from __future__ import annotations

import difflib
from typing import Any

from tdsl.diagnostics import ParseError, Span
from tdsl.schedule import directives as d
from tdsl.syntax import tree as t
from tdsl.syntax.build import Handler, Word, declared, used

TAILS = ("guard", "mask", "peel", "cases", "narrow", "balanced", "shift", "overrun")
MEMORIES = ("registers", "stack", "scratch", "heap")
PLACES = ("root", "prepare")


def one_of(word: Word, allowed: tuple[str, ...], what: str) -> str:
    """The word, which must be one of a few; the closest of them is offered."""
    if word.text in allowed:
        return word.text
    close = difflib.get_close_matches(word.text, allowed, 1)
    raise ParseError.at(
        word.span,
        f"`{word.text}` is no {what}",
        help=f"did you mean `{close[0]}`?" if close else f"write one of {', '.join(allowed)}",
    )


def _schedule(span: Span, parts: list[Any]) -> t.Schedule:
    kernel, variant, *targets, condition, body = parts
    return t.Schedule(
        used(kernel),
        used(variant) if variant else None,
        tuple(targets),
        condition,
        body,
        span=span,
    )


def _target_name(_: Span, parts: list[Any]) -> str:
    return "".join(word.text for word in parts)


def _recipe(span: Span, parts: list[Any]) -> t.Recipe:
    name, params, body = parts
    return t.Recipe(used(name), params or (), body, span=span)


def _ref(span: Span, parts: list[Any]) -> d.LoopRef:
    first, second = parts
    if second is None:
        return d.LoopRef(None, used(first), span=span)
    return d.LoopRef(used(first), used(second), span=span)


def _place(ref: d.LoopRef) -> d.LoopRef | str:
    return ref.loop if ref.statement is None and ref.loop in PLACES else ref


def _loop(ref: d.LoopRef, directive: str) -> d.LoopRef:
    if isinstance(_place(ref), str):
        raise ParseError.at(ref.span, f"`{directive}` takes place at a loop, not at {ref.loop}")
    return ref


def _array(span: Span, parts: list[Any]) -> d.ArrayRef:
    first, second, dims = parts
    statement, array = (None, first) if second is None else (used(first), second)
    return d.ArrayRef(used(array), statement, dims or (), span=span)


def _plain(_: Span, parts: list[Any]) -> tuple[Any, ...]:
    return tuple(parts)


def _split(span: Span, parts: list[Any]) -> d.Split:
    refs, factor, outer, inner, tail = parts
    return d.Split(refs, factor, declared(outer), declared(inner), tail or (), span=span)


def _tile(span: Span, parts: list[Any]) -> d.Tile:
    refs, factors, names, tail = parts
    count = len(refs)
    if len(factors) != count or len(names) != 2 * count:
        raise ParseError.at(
            span,
            f"`tile` of {count} loops takes {count} factors and {2 * count} new names: first all "
            f"outer loops, then all inner ones; here are {len(factors)} and {len(names)}",
            help="write for example `tile i, j by 32, 64 -> io, jo, ii, ji`",
        )
    return d.Tile(refs, factors, names, tail or (), span=span)


def _tail(_: Span, parts: list[Any]) -> tuple[str, ...]:
    return tuple(one_of(word, TAILS, "way to treat a tail") for word in parts)


def _wavefront(span: Span, parts: list[Any]) -> d.Wavefront:
    first, second, front, cell = parts
    return d.Wavefront(first, second, declared(front), declared(cell), span=span)


def _peel(span: Span, parts: list[Any]) -> d.Peel:
    loop, first, last = parts
    if first is None and last is None:
        raise ParseError.at(
            span,
            "`peel` says how many iterations are split off, and where",
            help=f"write `peel {loop} first 1` or `peel {loop} last 1`",
        )
    return d.Peel(loop, first, last, span=span)


def _extend(span: Span, parts: list[Any]) -> d.Extend:
    statement, name, value = parts
    return d.Extend(used(statement), declared(name), value, span=span)


def _order(span: Span, parts: list[Any]) -> d.Order:
    *entries, names = parts
    return d.Order(tuple(entries), names or (), span=span)


def _order_entry(_: Span, parts: list[Any]) -> tuple[str, tuple[str, ...], tuple[t.Expr, ...]]:
    statement, indices, time = parts
    return used(statement), indices or (), time


def _unroll(span: Span, parts: list[Any]) -> d.Unroll:
    refs, by, plain = parts
    return d.Unroll(refs, by, plain is not None, span=span)


def _memory(_: Span, parts: list[Any]) -> str:
    return one_of(parts[0], MEMORIES, "kind of memory")


def _compute(span: Span, parts: list[Any]) -> d.Compute:
    statement, at, memory = parts
    return d.Compute(used(statement), _place(at), memory, span=span)


def _finish(span: Span, parts: list[Any]) -> d.Finish:
    return d.Finish(used(parts[0]), _loop(parts[1], "finish"), span=span)


def _store_at(span: Span, parts: list[Any]) -> d.Store:
    statement, at, memory, fold = parts
    return d.Store(used(statement), _place(at), memory, fold or (), span=span)


def _store_fold_in(span: Span, parts: list[Any]) -> d.Store:
    statement, at, fold, memory = parts
    return d.Store(used(statement), _place(at), memory, fold, span=span)


def _store_as(span: Span, parts: list[Any]) -> d.Store:
    return d.Store(used(parts[0]), layout=parts[1], span=span)


def _store_in(span: Span, parts: list[Any]) -> d.Store:
    statement, inside = parts
    if inside.text in MEMORIES:
        raise ParseError.at(
            inside.span,
            f"`store {statement.text} in {inside.text}` does not say at which loop",
            help=f"write `store {statement.text} at S.l in {inside.text}`",
        )
    return d.Store(used(statement), inside=used(inside), span=span)


def _fold_item(_: Span, parts: list[Any]) -> tuple[str, t.Expr]:
    return used(parts[0]), parts[1]


def _stage(span: Span, parts: list[Any]) -> d.Stage:
    array, at, layout, memory = parts
    return d.Stage(array, _loop(at, "stage"), layout, memory, span=span)


def _pack(span: Span, parts: list[Any]) -> d.Pack:
    array, at, name, element, order, memory = parts
    return d.Pack(
        array,
        _place(at),
        order,
        declared(name) if name else None,
        used(element) if element else None,
        memory,
        span=span,
    )


def _layout(span: Span, parts: list[Any]) -> d.Layout:
    return d.Layout(used(parts[0]), parts[1], parts[2], span=span)


def _prefetch(span: Span, parts: list[Any]) -> d.Prefetch:
    return d.Prefetch(parts[0], _loop(parts[1], "prefetch"), parts[2], span=span)


def _use(span: Span, parts: list[Any]) -> d.Use:
    args, kwargs = parts[1] or ((), ())
    return d.Use(used(parts[0]), args, kwargs, span=span)


HANDLERS: dict[str, Handler] = {
    "schedule": _schedule,
    "target_name": _target_name,
    "recipe": _recipe,
    "recipe_params": _plain,
    "directives": _plain,
    "block": _plain,
    "refs": _plain,
    "ref": _ref,
    "array": _array,
    "split": _split,
    "tile": _tile,
    "tail": _tail,
    "reorder": lambda span, p: d.Reorder(p[0], span=span),
    "collapse": lambda span, p: d.Collapse(p[0], declared(p[1]), span=span),
    "fuse": lambda span, p: d.Fuse(p[0], declared(p[1]), span=span),
    "distribute": lambda span, p: d.Distribute(p[0], span=span),
    "skew": lambda span, p: d.Skew(p[0], p[1], span=span),
    "shift": lambda span, p: d.Shift(p[0], p[1], span=span),
    "reverse": lambda span, p: d.Reverse(p[0], span=span),
    "wavefront": _wavefront,
    "peel": _peel,
    "extend": _extend,
    "sequence": lambda span, p: d.Sequence(p[0], span=span),
    "order": _order,
    "order_entry": _order_entry,
    "vectorize": lambda span, p: d.Vectorize(p[0], p[1], span=span),
    "unroll": _unroll,
    "parallel": lambda span, p: d.Parallel(p[0], span=span),
    "dot": lambda span, p: d.Dot(p[0], span=span),
    "inline": lambda span, p: d.Inline(p[0], span=span),
    "compute": _compute,
    "finish": _finish,
    "store_at": _store_at,
    "store_fold_in": _store_fold_in,
    "store_as": _store_as,
    "store_in": _store_in,
    "memory": _memory,
    "fold": _plain,
    "fold_item": _fold_item,
    "stage": _stage,
    "pack": _pack,
    "transpose": lambda span, p: d.Transpose(p[0], p[1], span=span),
    "layout": _layout,
    "prefetch": _prefetch,
    "stream": lambda span, p: d.Stream(used(p[0]), span=span),
    "reassociate": lambda span, p: d.Reassociate(p[0], span=span),
    "factor": lambda span, p: d.Factor(p[0], declared(p[1]), span=span),
    "expect": lambda span, p: d.Expect(tuple(p), span=span),
    "directive_let": lambda span, p: d.Let(declared(p[0]), p[1], span=span),
    "require": lambda span, p: d.Require(tuple(p), span=span),
    "use": _use,
    "on": lambda span, p: d.On(p[0], p[1], span=span),
}
