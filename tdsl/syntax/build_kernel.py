"""The nodes of kernels and of the other items of a file. See `tdsl.syntax.build`."""

from __future__ import annotations

from typing import Any

from tdsl.diagnostics import Note, ParseError, Span
from tdsl.syntax import tree as t
from tdsl.syntax.build import Handler, Word, declared, used


def _new(words: list[Any] | None) -> tuple[str, ...]:
    """The texts of names that are introduced here, each once."""
    seen: dict[str, Word] = {}
    for word in words or ():
        if word.text in seen:
            first = Note("it is first here", seen[word.text].span)
            raise ParseError.at(word.span, f"`{word.text}` stands in this list twice", first)
        seen[declared(word)] = word
    return tuple(seen)


def _new_names(_: Span, parts: list[Any]) -> tuple[str, ...]:
    return _new(parts)


# ---------------------------------------------------------------- kernels


def _kernel(span: Span, parts: list[Any]) -> t.Kernel:
    name, constants, sizes, *items = parts
    return t.Kernel(
        used(name), constants or (), sizes, tuple(items), span=span, name_span=name.span
    )


def _sizes(_: Span, parts: list[Any]) -> tuple[str, ...]:
    return _new([word for word in parts if word is not None])


def _constants(_: Span, parts: list[Any]) -> tuple[t.Param, ...]:
    return tuple(parts)


def _param(span: Span, parts: list[Any]) -> t.Param:
    name, is_type, default = parts
    return t.Param(declared(name), default, is_type is not None, span=span)


def _let(span: Span, parts: list[Any]) -> t.SizeLet:
    return t.SizeLet(declared(parts[0]), parts[1], span=span)


def _assume(span: Span, parts: list[Any]) -> t.Assume:
    return t.Assume(tuple(parts), span=span)


def _role(_: Span, parts: list[Any]) -> Word:
    word: Word = parts[0]
    return word


def _modifier(kind: str) -> Handler:
    return lambda span, parts: (kind, span, tuple(parts))


def _decl(span: Span, parts: list[Any]) -> t.ArrayDecl:
    role, names, element, shape, *modifiers, values = parts
    given: dict[str, Any] = {}
    for kind, place, value in modifiers:
        if kind in given:
            raise ParseError.at(place, f"`{kind}` is given twice")
        given[kind] = value
    if values is not None:
        if role.text != "const":
            raise ParseError.at(
                values.span,
                f"only a `const` can be given values; this array is `{role.text}`",
                help="declare the array, and define its elements by an equation",
            )
        if modifiers:
            raise ParseError.at(
                modifiers[0][1], f"a table has no `{modifiers[0][0]}`: the compiler places it"
            )
        return _table(span, [role, names, element, shape, values])
    align = given.get("align")
    return t.ArrayDecl(
        role.text,
        names,
        used(element),
        shape or (),
        strides=given.get("strides"),
        align=align[0] if align else None,
        range=given.get("range"),
        span=span,
    )


def _table(span: Span, parts: list[Any]) -> t.ArrayDecl:
    _, names, element, shape, values = parts
    if len(names) > 1:
        raise ParseError.at(
            span,
            "a table with values has one name",
            help="write one `const` for each of " + ", ".join(f"`{n}`" for n in names) + ".",
        )
    return t.ArrayDecl("table", names, used(element), shape or (), values, span=span)


def _shape(_: Span, parts: list[Any]) -> tuple[t.Expr | tuple[t.Expr, ...], ...]:
    return tuple(parts)


def _equation(span: Span, parts: list[Any]) -> t.Equation:
    label, targets, op, value, where = parts
    return t.Equation(declared(label) if label else None, targets, op, value, where, span=span)


def _target(span: Span, parts: list[Any]) -> t.Expr:
    name, indices, field, inner = parts
    target: t.Expr = t.Name(declared(name), span=name.span)
    if indices is not None:
        target = t.Subscript(target, indices, span=span)
    if field is not None:
        target = t.Field(target, used(field), span=span)
    return target if inner is None else t.Subscript(target, inner, span=span)


def _for(span: Span, parts: list[Any]) -> t.For:
    static, *rest = parts
    ranges = tuple(p for p in rest if isinstance(p, t.IndexRange))
    body = tuple(p for p in rest if not isinstance(p, t.IndexRange))
    return t.For(ranges, body, static is not None, span=span)


# ---------------------------------------------------------------- other items


def _file(span: Span, parts: list[Any]) -> t.File:
    return t.File(tuple(parts), span=Span(span.source, 0, len(span.source.text)))


def _def(span: Span, parts: list[Any]) -> t.Def:
    name, params, body = parts
    return t.Def(declared(name), params or (), body, span=span)


def _combine(span: Span, parts: list[Any]) -> t.Combine:
    name, left, right, (identity, identity_span), *lets, (give, give_span) = parts
    return t.Combine(
        declared(name),
        left,
        right,
        identity,
        tuple(lets),
        give,
        span=span,
        identity_span=identity_span,
        give_span=give_span,
    )


def _with_span(span: Span, parts: list[Any]) -> tuple[tuple[Any, ...], Span]:
    return tuple(parts), span


def _record(span: Span, parts: list[Any]) -> t.Record:
    fields = tuple(field for field, _ in parts[1:])
    return t.Record(
        declared(parts[0]), fields, span=span, field_spans=tuple(place for _, place in parts[1:])
    )


def _field_decl(span: Span, parts: list[Any]) -> Any:
    return (declared(parts[0]), used(parts[1]), parts[2]), span


def _import(span: Span, parts: list[Any]) -> t.Import:
    return t.Import(used(parts[0]), span=span)


def _graph(span: Span, parts: list[Any]) -> t.Graph:
    name, params, *items = parts
    return t.Graph(used(name), params or (), tuple(items), span=span)


def _graph_let(span: Span, parts: list[Any]) -> t.GraphLet:
    return t.GraphLet(parts[0], parts[1], span=span)


def _graph_out(span: Span, parts: list[Any]) -> t.GraphLet:
    return t.GraphLet(parts[1], parts[2], True, span=span)


def _select(span: Span, parts: list[Any]) -> t.Select:
    rules = tuple(rule for rule, _ in parts[1:])
    return t.Select(
        used(parts[0]), rules, span=span, rule_spans=tuple(place for _, place in parts[1:])
    )


def _rule(span: Span, parts: list[Any]) -> Any:
    return (used(parts[0]), parts[1] if len(parts) > 1 else None), span


def _plain(_: Span, parts: list[Any]) -> tuple[Any, ...]:
    return tuple(parts)


HANDLERS: dict[str, Handler] = {
    "file": _file,
    "kernel": _kernel,
    "sizes": _sizes,
    "constants": _constants,
    "param": _param,
    "let": _let,
    "assume": _assume,
    "decl": _decl,
    "role": _role,
    "shape": _shape,
    "group": _plain,
    "strides": _modifier("strides"),
    "align": _modifier("align"),
    "promise": _modifier("range"),
    "equation": _equation,
    "assign": lambda _, parts: parts[0].text,
    "targets": _plain,
    "target": _target,
    "for": _for,
    "new_names": _new_names,
    "table": _table,
    "def": _def,
    "combine": _combine,
    "identity": _with_span,
    "give": _with_span,
    "record": _record,
    "field_decl": _field_decl,
    "import": _import,
    "graph": _graph,
    "graph_let": _graph_let,
    "graph_out": _graph_out,
    "select": _select,
    "rule": _rule,
}
