"""Records: `record q4_0 { d: f16  q: u8[16] }` and the arrays that their fields are.

in x: q4_0[NB]      x is the memory; x.d: f16[NB] strides [9], x.q: u8[NB, 16] strides [18, 1]
x[b].q[i]           is x.q[b, i]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tdsl.diagnostics import Note, ParseError, TypeMismatch
from tdsl.ir.affine import expression, linear, number
from tdsl.ir.kernel import INDEX, Array, Expr, Op, Size
from tdsl.ir.types import TYPES, ElemType, record_type
from tdsl.syntax import tree
from tdsl.syntax.constants import exact
from tdsl.syntax.expand import rebuild
from tdsl.syntax.scope import suggest

MOST_BYTES = 1 << 20  # of one record


def record(item: tree.Record) -> ElemType:
    """The element type that a `record` declares."""
    fields: list[tuple[str, ElemType, int | None]] = []
    for n, (name, type_, length) in enumerate(item.fields):
        span = item.field_spans[n] if n < len(item.field_spans) else item.span
        if name in (f for f, _, _ in fields):
            raise ParseError.at(span, f"`{item.name}` has two fields `{name}`")
        if type_ not in TYPES:
            raise ParseError.at(
                span, f"`{type_}` is no type of a field: fields are numbers, or rows of them",
                help=suggest(type_, TYPES) or f"one of {', '.join(TYPES)}",
            )  # fmt: skip
        count = None if length is None else _length(length)
        fields.append((name, TYPES[type_], count))
    made = record_type(item.name, fields)
    if made.bytes > MOST_BYTES:
        raise ParseError.at(item.span, f"`{item.name}` has {made.bytes} bytes, more than 2^20")
    return made


def _length(expr: tree.Expr) -> int:
    value = exact(expr, {})
    if value is None or value.is_float or value.value.denominator != 1 or value.value < 1:
        raise ParseError.at(expr.span, "the length of a field is a number, 1 or more")
    return min(int(value.value), MOST_BYTES + 1)


def with_fields(array: Array) -> list[Array]:
    """An argument of records, and the array of each field."""
    return [array, *(_field(array, n) for n in range(len(array.type.fields)))]


def _field(array: Array, n: int) -> Array:
    member = array.type.fields[n]
    factor = array.type.bytes // member.type.bytes
    strides = [_times(s, factor) for s in array.strides or _row_major(array.shape)]
    shape = array.shape
    if member.count is not None:
        shape, strides = (*shape, number(member.count)), [*strides, number(1)]
    return Array(
        f"{array.name}.{member.name}", member.type, shape, array.role, strides=tuple(strides),
        field=(array.name, member.offset), span=array.span,
    )  # fmt: skip


def _row_major(shape: Sequence[Expr]) -> list[Expr]:
    out: list[Expr] = []
    step: Expr = number(1)
    for extent in reversed(shape):
        out.insert(0, step)
        step = _times(extent, 1) if step == number(1) else Op("mul", (step, extent), INDEX)
    return out


def _times(stride: Expr | str, factor: int) -> Expr:
    step = Size(stride) if isinstance(stride, str) else stride
    return expression(linear(Op("mul", (step, number(factor)), INDEX)))


def flat(expr: tree.Expr, arrays: Mapping[str, Array]) -> tree.Expr:
    """The expression with `x[b].q[i]` written as an element of the array `x.q`."""
    match expr:
        case tree.Subscript(tree.Field() as field, indices):
            name, outer = _member(field, arrays)
            inner = tuple(flat(i, arrays) for i in indices)
            return replace(expr, base=name, indices=(*(flat(i, arrays) for i in outer), *inner))
        case tree.Field():
            name, outer = _member(expr, arrays)
            if not outer:
                return name
            indices = tuple(flat(i, arrays) for i in outer)
            return tree.Subscript(name, indices, span=expr.span)
        case _:
            return rebuild(expr, lambda e: flat(e, arrays))


def _member(
    field: tree.Field, arrays: Mapping[str, Array]
) -> tuple[tree.Name, tuple[tree.Expr, ...]]:
    base = field.base
    outer: tuple[tree.Expr, ...] = ()
    if isinstance(base, tree.Subscript):
        outer, base = base.indices, base.base
    array = arrays.get(base.id) if isinstance(base, tree.Name) else None
    if array is None or not array.type.fields:
        raise TypeMismatch.at(
            field.span, f"there is no field `{field.name}` here: only arguments of a `record` "
            "type have fields",
        )  # fmt: skip
    if len(outer) != len(array.shape):
        rank = len(array.shape)
        raise TypeMismatch.at(
            field.span,
            f"`{array.name}` has {rank} dimension{'' if rank == 1 else 's'}, and "
            f"{len(outer) or 'no'} ind{'ex' if len(outer) < 2 else 'ices'} came before the field",
            Note("declared here", array.span),
        )
    names = [f.name for f in array.type.fields]
    if field.name not in names:
        raise TypeMismatch.at(
            field.span, f"`{array.type}` has no field `{field.name}`",
            help=suggest(field.name, names) or f"its fields are {', '.join(names)}",
        )  # fmt: skip
    return tree.Name(f"{array.name}.{field.name}", span=field.span), outer


def no_number(array: Array) -> str:
    """What is said where a whole record is used as a number."""
    first = array.type.fields[0]
    index = "[...]" if array.shape else ""
    inner = "[i]" if first.count is not None else ""
    return f"name a field: `{array.name}{index}.{first.name}{inner}`"
