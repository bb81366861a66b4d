"""Exact arithmetic on numbers and constants; the constants of a kernel; `const` tables."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from tdsl.diagnostics import ParseError, TypeMismatch
from tdsl.ir.affine import number
from tdsl.ir.kernel import Array, Const
from tdsl.ir.types import BOOL, TYPES, ElemType
from tdsl.syntax import tree
from tdsl.syntax.literals import Exact, constant
from tdsl.syntax.scope import Scope, exact_of, suggest


def exact(expr: tree.Expr, known: Mapping[str, Exact]) -> Exact | None:
    """The value of an expression of numbers and constants alone, else None. Rounds nothing."""
    match expr:
        case tree.Number(value, is_float):
            return Exact(value, is_float)
        case tree.Name("inf"):
            return Exact(Fraction(0), True, 1)
        case tree.Name(name):
            return known.get(name)
        case tree.Unary("-", operand):
            inner = exact(operand, known)
            if inner is None:
                return None
            return replace(inner, value=-inner.value, infinite=-inner.infinite)
        case tree.Binary(op, left, right):
            a, b = exact(left, known), exact(right, known)
            if a is None or b is None or a.infinite or b.infinite:
                return None
            return _binary(op, a, b)
        case tree.Call(("min" | "max") as op, args) if args:
            values = [exact(a, known) for a in args]
            found = [v for v in values if v is not None and not v.infinite]
            if len(found) != len(values):
                return None
            pick = min if op == "min" else max
            return Exact(pick(v.value for v in found), any(v.is_float for v in found))
        case _:
            return None


def _binary(op: str, a: Exact, b: Exact) -> Exact | None:
    is_float, divided = a.is_float or b.is_float, a.divided or b.divided
    match op:
        case "+":
            return Exact(a.value + b.value, is_float, 0, divided)
        case "-":
            return Exact(a.value - b.value, is_float, 0, divided)
        case "*":
            return Exact(a.value * b.value, is_float, 0, divided)
        case "/" if b.value != 0:
            return Exact(a.value / b.value, is_float, 0, True)
        case "//" | "%" if not is_float:
            if b.value == 0:
                return Exact(Fraction(0))
            quotient = a.value // b.value
            return Exact(Fraction(quotient) if op == "//" else a.value - quotient * b.value)
        case _:
            return None


@dataclass
class Constants:
    """What the names between `<` and `>` stand for."""

    exact: dict[str, Exact] = field(default_factory=dict)
    defs: dict[str, str] = field(default_factory=dict)  # name -> def of the file
    tables: dict[str, str] = field(default_factory=dict)  # name -> table of the file
    types: dict[str, ElemType] = field(default_factory=dict)
    given: list[tuple[str, int | float | str]] = field(default_factory=list)


def kernel_constants(
    kernel: tree.Kernel,
    values: Mapping[str, int | float | str],
    defs: Iterable[str],
    tables: Iterable[str],
) -> Constants:
    """The constants of a kernel: as given, else their defaults."""
    names = [p.name for p in kernel.constants]
    for name in values:
        if name not in names:
            raise ParseError.at(
                kernel.name_span,
                f"kernel `{kernel.name}` has no constant `{name}`",
                help=suggest(name, names)
                or (f"its constants are {', '.join(names)}" if names else "it has no constants"),
            )
    out = Constants()
    for param in kernel.constants:
        _one(param, values.get(param.name), out, set(defs), set(tables))
    return out


def _one(
    param: tree.Param,
    value: int | float | str | None,
    out: Constants,
    defs: set[str],
    tables: set[str],
) -> None:
    if value is None and param.default is None:
        raise ParseError.at(
            param.span,
            f"constant `{param.name}` has no default and was not given",
            help=f'give it: `--const {param.name}=...`, or `constants={{"{param.name}": ...}}`',
        )
    word = value if isinstance(value, str) else None
    if value is None and isinstance(param.default, tree.Name):
        word = param.default.id
    if param.is_type:
        if word not in TYPES:
            raise ParseError.at(
                param.span,
                f"`{param.name}` is an element type, and `{word or value}` is none",
                help=f"one of {', '.join(TYPES)}",
            )
        out.types[param.name] = TYPES[word]
        out.given.append((param.name, word))
    elif word in defs and word is not None:
        out.defs[param.name] = word
        out.given.append((param.name, word))
    elif word in tables and word is not None:
        out.tables[param.name] = word
        out.given.append((param.name, word))
    else:
        found = _number(param, value, out)
        if found is None:
            shown = f"`{word}`" if word is not None else "its default"
            raise ParseError.at(
                param.span,
                f"{shown} is no value for the constant `{param.name}`",
                help=suggest(word or "", (*defs, *tables))
                or "a constant is a number, a `def`, a table or an element type",
            )
        out.exact[param.name] = found
        whole = found.value.denominator == 1 and not found.is_float
        plain = int(found.value) if whole else float(found.value)
        out.given.append((param.name, plain))


def _number(param: tree.Param, value: int | float | str | None, out: Constants) -> Exact | None:
    if isinstance(value, str):
        return out.exact.get(value) or _read_number(value)
    if value is not None:
        return exact_of(value)
    return exact(param.default, out.exact) if param.default is not None else None


def _read_number(text: str) -> Exact | None:
    """A number written out, as the command line gives it; `1/6` is exact."""
    try:
        return Exact(Fraction(text), not re.fullmatch(r"[+-]?\d+", text))
    except (ValueError, ZeroDivisionError):
        return None


# ---------------------------------------------------------------- tables


def table(decl: tree.ArrayDecl, name: str, scope: Scope, shape: tuple[int, ...]) -> Array:
    """`const G: f32[2, 2] = [[1/2, 0], [0, 1]]`: exact values, each rounded to the type once."""
    type_ = scope.element_type(decl.type, decl.span)
    assert decl.values is not None
    values: list[int | float | bool] = []
    _fill(decl.values, shape, 0, type_, scope, values, name)
    extents = tuple(number(n) for n in shape)
    return Array(name, type_, extents, "table", values=tuple(values), span=decl.span)


def _fill(
    expr: tree.Expr,
    shape: tuple[int, ...],
    depth: int,
    type_: ElemType,
    scope: Scope,
    out: list[int | float | bool],
    name: str,
) -> None:
    if depth == len(shape):
        out.append(_entry(expr, type_, scope))
        return
    items = expr.items if isinstance(expr, tree.ListLit) else None
    if items is not None and depth == 0 and _is_flat(items, shape):
        out += [_entry(item, type_, scope) for item in items]
        return
    if items is None or len(items) != shape[depth]:
        came = "a single number" if items is None else _entries(len(items))
        raise TypeMismatch.at(
            expr.span,
            f"dimension {depth} of table `{name}` has {_entries(shape[depth])}, and {came} came",
        )
    for item in items:
        _fill(item, shape, depth + 1, type_, scope, out, name)


def _entries(n: int) -> str:
    return f"{n} entry" if n == 1 else f"{n} entries"


def _is_flat(items: tuple[tree.Expr, ...], shape: tuple[int, ...]) -> bool:
    """All entries in one list, row by row."""
    plain = not any(isinstance(i, tree.ListLit) for i in items)
    return len(shape) > 1 and plain and len(items) == math.prod(shape)


def _entry(expr: tree.Expr, type_: ElemType, scope: Scope) -> int | float | bool:
    if type_ == BOOL and isinstance(expr, tree.Name) and expr.id in ("true", "false"):
        return expr.id == "true"
    if isinstance(expr, tree.ListLit):
        raise TypeMismatch.at(expr.span, "a number is wanted here, and a list came")
    value = exact(expr, scope.exact)
    if value is None:
        raise ParseError.at(expr.span, "the entries of a table are numbers and constants")
    entry: Const = constant(value, type_, expr.span)
    return entry.value
