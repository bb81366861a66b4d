"""Declarations of a kernel: sizes, constants, lets, assumptions, arrays and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tdsl.diagnostics import BoundsError, Note, ParseError, TypeMismatch
from tdsl.ir.affine import variables
from tdsl.ir.kernel import Array, Const, Expr, Op
from tdsl.ir.types import ElemType
from tdsl.syntax import tree
from tdsl.syntax.constants import Constants, exact, table
from tdsl.syntax.exprs import Values
from tdsl.syntax.reads import Context, no_data
from tdsl.syntax.records import record, with_fields
from tdsl.syntax.scope import Scope
from tdsl.syntax.strides import groups, strides


def size_values(scope: Scope) -> Values:
    """Builds expressions of sizes and constants alone."""

    hint = "a size is declared behind the kernel's name: `kernel f(N, {})`"
    return Values(
        Context(scope, frozenset(), no_data, lambda name: 0, lambda name, span: (), sum_hint=hint)
    )


def let(scope: Scope, item: tree.SizeLet) -> Scope:
    """`let OH = ...`: a name for a size expression."""
    value = size_values(scope).bound(item.value, "size")
    return replace(scope, lets={**scope.lets, item.name: value})


def assumption(scope: Scope, item: tree.Assume) -> list[Expr]:
    """The conditions that are not true anyway; one that is false for the bound sizes is refused."""
    out: list[Expr] = []
    for surface in item.conditions:
        built = size_values(scope).condition(surface)
        if not isinstance(built, Const):
            out += built.args if isinstance(built, Op) and built.op == "and" else [built]
        elif not built.value:
            raise BoundsError.at(
                surface.span, "this assumption does not hold for the constants and sizes given"
            )
    return out


def arrays(scope: Scope, item: tree.ArrayDecl) -> list[Array]:
    """The arrays of one declaration."""
    grouped = groups(item)
    if item.type in scope.records:
        _of_records(scope, item)
    shape: list[Expr] = []
    for extent in (e for dim in item.shape for e in (dim if isinstance(dim, tuple) else (dim,))):
        built = size_values(scope).bound(extent, "extent")
        assert not variables(built)
        if isinstance(built, Const) and built.value < 0:
            raise BoundsError.at(
                extent.span, f"this extent is {built.value}, and an array has none below 0"
            )
        shape.append(built)
    if item.role == "table" or item.values is not None:
        return [_table(scope, item, name, tuple(shape)) for name in item.names]
    type_ = scope.records.get(item.type) or scope.element_type(item.type, item.span)
    align = None if item.align is None else _alignment(scope, item.align)
    promised = None if item.range is None else _range(scope, item, type_)
    values = size_values(scope)
    made = [
        Array(
            name, type_, tuple(shape), item.role, align=align,
            strides=strides(scope, item, name, shape, values), range=promised, groups=grouped,
            span=item.span,
        )
        for name in item.names
    ]  # fmt: skip
    return [f for array in made for f in (with_fields(array) if type_.fields else [array])]


def _of_records(scope: Scope, item: tree.ArrayDecl) -> None:
    """Only arguments hold records: they are the caller's."""
    if item.role not in ("in", "const", "out", "inout") or item.values is not None:
        raise ParseError.at(
            item.span, f"`{item.type}` is a record, and only arguments hold records",
            help="a temp for each field is as good: "
            f"`temp {item.names[0]}_{scope.records[item.type].fields[0].name}: ...`",
        )  # fmt: skip
    if item.range is not None:
        raise ParseError.at(item.span, "`range` promises the values of numbers, not of records")
    if any(isinstance(dim, tuple) for dim in item.shape):
        raise ParseError.at(item.span, "dimensions of records are not grouped")


def _range(scope: Scope, item: tree.ArrayDecl, type_: ElemType) -> tuple[Expr, Expr]:
    """The promised values; they are checked on entry, so nothing may change them after."""
    assert item.range is not None
    if item.role not in ("in", "const"):
        what = {"temp": "a temp holds what the kernel computes", "out": "an output is not read"}
        raise ParseError.at(
            item.span,
            "`range` promises the values of an argument that is only read: "
            + what.get(item.role, f"an `{item.role}` argument is written by the kernel"),
            help="clamp where the value is used as an index: `clamp(x[i], 0, N - 1)`",
        )
    if not type_.is_integer:
        raise TypeMismatch.at(
            item.span, f"`range` promises integers, and these are {type_}",
            help="convert and clamp where the value is used: `clamp(i32(x[i]), 0, N - 1)`",
        )  # fmt: skip
    lo, hi = (size_values(scope).bound(end, "range") for end in item.range)
    return lo, hi


def _table(scope: Scope, item: tree.ArrayDecl, name: str, shape: tuple[Expr, ...]) -> Array:
    extents: list[int] = []
    for extent, surface in zip(shape, item.shape, strict=True):
        if not isinstance(extent, Const):
            span = surface.span if not isinstance(surface, tuple) else item.span
            raise ParseError.at(
                span, f"the extents of table `{name}` are numbers, known at compile time"
            )
        extents.append(int(extent.value))
    return table(item, name, scope, tuple(extents))


def _alignment(scope: Scope, expr: tree.Expr) -> int:
    value = exact(expr, scope.exact)
    if value is None or value.value.denominator != 1 or value.value < 1:
        raise ParseError.at(expr.span, "an alignment is a number of bytes, a power of two")
    number = int(value.value)
    if number & (number - 1):
        raise ParseError.at(expr.span, f"an alignment is a power of two, and {number} is none")
    return number


def file_scope(
    file: tree.File, kernel: tree.Kernel, constants: Constants, sizes: Mapping[str, Expr]
) -> Scope:
    """The names that a kernel sees before its own declarations. A constant that names a def or
    a table is a second name for it."""
    defs = {i.name: i for i in file.items if isinstance(i, tree.Def)}
    combines = {i.name: i for i in file.items if isinstance(i, tree.Combine)}
    records = {i.name: record(i) for i in file.items if isinstance(i, tree.Record)}
    scope = Scope(
        exact=constants.exact,
        defs={**defs, **{name: defs[target] for name, target in constants.defs.items()}},
        types=constants.types,
        sizes=sizes,
        combines=combines,
        records=records,
    )
    plain = replace(scope, exact={}, sizes={}, types={})
    tables: dict[str, Array] = {}
    for item in file.items:
        if isinstance(item, tree.ArrayDecl):
            tables |= {a.name: a for a in arrays(plain, item)}
    named = {n: replace(tables[target], name=n) for n, target in constants.tables.items()}
    _hidden(kernel, {**defs, **tables}, scope)
    return replace(scope, arrays={**tables, **named})


def _hidden(kernel: tree.Kernel, items: Mapping[str, object], scope: Scope) -> None:
    """A size with the name of a def would change what a formula means, so it is refused."""
    for name in kernel.sizes:
        if name in items:
            other = items[name]
            span = other.span if isinstance(other, tree.Def | Array) else None
            raise ParseError.at(
                kernel.name_span, f"size `{name}` has the name of another item of the file",
                Note(f"`{name}` is defined here", span),
            )  # fmt: skip
