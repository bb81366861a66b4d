"""From lark's tree to ours: the walk, names, and expressions.

A handler makes one node of `tdsl.syntax.tree` from the finished parts of one grammar rule. The
walk keeps its own stack, so that no text makes Python recurse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from lark import Token, Tree

from tdsl.diagnostics import ParseError, Source, Span
from tdsl.syntax import tree as t
from tdsl.syntax.vocabulary import REDUCTIONS

MAX_DEPTH = 200  # nested nodes; later passes recurse over them
MAX_NAME = 100
MAX_NUMBER = 60
MAX_EXPONENT = 400

# Reductions and values are recognized by their words, so nothing else may bear them.
VALUES = frozenset(("true", "false", "inf"))


class Word(NamedTuple):
    """A token that a rule keeps: a name, number or keyword, with its place."""

    text: str
    span: Span


Handler = Callable[[Span, list[Any]], Any]
_NESTING = frozenset(
    "binary unary compare subscript reduce field call typed_call list for on".split()  # noqa: SIM905
)


def build(source: Source, root: Tree[Token], handlers: Mapping[str, Handler]) -> Any:
    """Apply the handlers bottom-up."""
    # Entries are (node, None) on the way down and (node, number of parts) on the way up.
    todo: list[tuple[Any, int | None]] = [(root, None)]
    done: list[tuple[Any, int]] = []
    while todo:
        node, parts = todo.pop()
        if isinstance(node, Token):
            start = node.start_pos or 0
            done.append((Word(str(node), Span(source, start, start + len(node))), 0))
        elif node is None:
            done.append((None, 0))
        elif parts is None:
            todo.append((node, len(node.children)))
            todo.extend((child, None) for child in reversed(node.children))
        else:
            cut = len(done) - parts
            children = [value for value, _ in done[cut:]]
            depth = max((d for _, d in done[cut:]), default=0) + (node.data in _NESTING)
            del done[cut:]
            span = _span(source, node)
            if depth > MAX_DEPTH:
                raise ParseError.at(
                    Span(source, span.start, min(span.end, span.start + 1)),
                    f"this is nested more than {MAX_DEPTH} levels deep",
                    help="give parts of it a name: a further definition, a `let` or a `def`",
                )
            done.append((handlers[node.data](span, children), depth))
    return done[0][0]


def _span(source: Source, node: Tree[Token]) -> Span:
    if node.meta.empty:
        return Span(source, 0, 0)
    return Span(source, node.meta.start_pos, node.meta.end_pos)


def declared(word: Word) -> str:
    """The text of a name that is given here to something new."""
    if word.text in REDUCTIONS or word.text in VALUES:
        what = "a reduction" if word.text in REDUCTIONS else "a value"
        raise ParseError.at(
            word.span,
            f"`{word.text}` is {what} of the language and cannot be the name of something else",
            help=f"choose another name, such as `{word.text}_`",
        )
    return used(word)


def used(word: Word) -> str:
    """The text of a name that refers to something."""
    if len(word.text) > MAX_NAME:
        raise ParseError.at(word.span, f"a name has at most {MAX_NAME} characters")
    return word.text


def name_list(_: Span, parts: list[Any]) -> tuple[str, ...]:
    """Names that refer to something."""
    return tuple(used(word) for word in parts)


# ---------------------------------------------------------------- expressions


def _number(span: Span, parts: list[Any]) -> t.Number:
    text = parts[0].text
    if len(text) > MAX_NUMBER:
        raise ParseError.at(span, f"a number has at most {MAX_NUMBER} characters")
    digits = text.replace("_", "")
    if digits[:2] in ("0x", "0X"):
        if len(digits) == 2:
            raise ParseError.at(span, "a hexadecimal number needs digits behind `0x`")
        return t.Number(Fraction(int(digits, 16)), False, text, span=span)
    exponent = re.search(r"[eE]([+-]?\d+)", digits)
    if exponent and abs(int(exponent.group(1))) > MAX_EXPONENT:
        raise ParseError.at(
            span,
            f"the exponent of a number lies between -{MAX_EXPONENT} and {MAX_EXPONENT}",
            help="write `inf` for infinity",
        )
    return t.Number(Fraction(digits), "." in digits or exponent is not None, text, span=span)


def _text(span: Span, parts: list[Any]) -> t.Text:
    return t.Text(parts[0].text[1:-1], span=span)


def _name(span: Span, parts: list[Any]) -> t.Name:
    return t.Name(used(parts[0]), span=span)


def _binary(span: Span, parts: list[Any]) -> t.Binary:
    left, op, right = parts
    return t.Binary(op.text, left, right, span=span)


def _unary(span: Span, parts: list[Any]) -> t.Unary:
    op, operand = parts
    return t.Unary(op.text, operand, span=span)


def _compare(span: Span, parts: list[Any]) -> t.Compare:
    first = parts[0]
    if isinstance(first, t.Name) and first.id in ("saturate", "bitcast"):
        raise ParseError.at(
            span,
            f"the type behind `{first.id}` touches it, and the argument touches the type",
            help=f"write `{first.id}<u8>(x)`",
        )
    return t.Compare(parts[0], tuple(zip(parts[1::2], parts[2::2], strict=True)), span=span)


def _comparator(_: Span, parts: list[Any]) -> str:
    return str(parts[0].text)


class _Bracket(NamedTuple):
    """What stands in `[...]` before it is known whether a reduction follows."""

    items: tuple[t.Expr | t.IndexRange, ...]
    where: t.Expr | None
    span: Span


def _bracket(span: Span, parts: list[Any]) -> _Bracket:
    return _Bracket(tuple(parts[:-1]), parts[-1], span)


def _subscript(span: Span, parts: list[Any]) -> t.Subscript:
    base, bracket = parts
    indices = tuple(i for i in bracket.items if not isinstance(i, t.IndexRange))
    if len(indices) < len(bracket.items) or bracket.where is not None:
        raise ParseError.at(
            span,
            "a reduction needs its term in parentheses behind `[...]`",
            help="write for example `sum[k in 0..N where k != i](A[i, k] * x[k])`",
        )
    if isinstance(base, t.Subscript):
        raise ParseError.at(
            span,
            "all indices of an array stand in one pair of brackets",
            help="write `x[i, j]` for `x[i][j]`",
        )
    return t.Subscript(base, indices, span=span)


def _reduce(span: Span, parts: list[Any]) -> t.Reduce:
    base, bracket, (args, kwargs) = parts
    if not isinstance(base, t.Name):
        raise ParseError.at(
            span,
            "only a reduction takes both `[...]` and `(...)`",
            help="write for example `sum[k](A[i, k] * x[k])`",
        )
    if kwargs:
        raise ParseError.at(kwargs[0][1].span, "a reduction takes no `name = value`")
    ranges = []
    for item in bracket.items:
        if isinstance(item, t.Name):
            item = t.IndexRange(declared(Word(item.id, item.span or span)), span=item.span)
        elif not isinstance(item, t.IndexRange):
            raise ParseError.at(
                item.span,
                f"`{base.id}[...]` lists the indices it runs over; this is no index",
                help="write a name, `k`, or a name with its range, `k in 0..N`",
            )
        ranges.append(item)
    return t.Reduce(base.id, tuple(ranges), bracket.where, args, span=span)


def range_up(span: Span, parts: list[Any]) -> t.IndexRange:
    """`k in lo..hi`, in a `for` with an optional step."""
    name, lo, hi, *step = parts
    return t.IndexRange(declared(name), lo, hi, step=step[0] if step else None, span=span)


def _range_down(span: Span, parts: list[Any]) -> t.IndexRange:
    name, hi, lo, step = parts
    return t.IndexRange(declared(name), lo, hi, down=True, step=step, span=span)


def _field(span: Span, parts: list[Any]) -> t.Field:
    return t.Field(parts[0], used(parts[1]), span=span)


def _call(span: Span, parts: list[Any]) -> t.Call:
    func, arguments = parts
    args, kwargs = arguments or ((), ())
    return t.Call(used(func), args, kwargs=kwargs, span=span)


def _typed_call(span: Span, parts: list[Any]) -> t.Call:
    func, element = parts[0].text.rstrip(">").split("<")
    args, kwargs = parts[1]
    return t.Call(func, args, (element,), kwargs, span=span)


def _keyword(_: Span, parts: list[Any]) -> tuple[Word, t.Expr]:
    return parts[0], parts[1]


def _args(_: Span, parts: list[Any]) -> tuple[tuple[t.Expr, ...], tuple[tuple[str, t.Expr], ...]]:
    args: list[t.Expr] = []
    kwargs: dict[str, t.Expr] = {}
    for part in parts:
        if isinstance(part, tuple):
            word, value = part
            if word.text in kwargs:
                raise ParseError.at(word.span, f"`{word.text}` is given twice")
            kwargs[used(word)] = value
        elif kwargs:
            raise ParseError.at(
                part.span, "an argument without a name stands before those with names"
            )
        else:
            args.append(part)
    return tuple(args), tuple(kwargs.items())


def _list(span: Span, parts: list[Any]) -> t.ListLit:
    return t.ListLit(tuple(parts), span=span)


HANDLERS: dict[str, Handler] = {
    "expression": lambda _, parts: parts[0],
    "names": name_list,
    "exprs": lambda _, parts: tuple(parts),
    "number": _number,
    "text": _text,
    "name": _name,
    "binary": _binary,
    "unary": _unary,
    "compare": _compare,
    "comparator": _comparator,
    "bracket": _bracket,
    "subscript": _subscript,
    "reduce": _reduce,
    "range_up": range_up,
    "range_down": _range_down,
    "field": _field,
    "call": _call,
    "typed_call": _typed_call,
    "keyword": _keyword,
    "args": _args,
    "list": _list,
}
