"""Kernels for these tests, from text of index expressions, without the front end."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from tdsl.ir.kernel import (
    INDEX,
    Array,
    BodyItem,
    Const,
    Expr,
    Kernel,
    Nest,
    Op,
    Read,
    Size,
    Statement,
    Var,
)
from tdsl.ir.types import BOOL, F32, ElemType

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip


def expr(text: str) -> Expr:
    """An index expression or condition; names with a capital are sizes, `x[...]` reads an f32."""
    return _convert(ast.parse(text.strip(), mode="eval").body)


def _convert(node: ast.expr) -> Expr:
    match node:
        case ast.Constant(bool() as value):
            return Const(value, BOOL)
        case ast.Constant(int() as value):
            return Const(value, INDEX)
        case ast.Name(name):
            return Size(name) if name[0].isupper() else Var(name)
        case ast.UnaryOp(ast.USub(), operand):
            return Op("neg", (_convert(operand),), INDEX)
        case ast.UnaryOp(ast.Not(), operand):
            return Op("not", (_convert(operand),), BOOL)
        case ast.BinOp(left, op, right):
            return Op(_BINARY[type(op)], (_convert(left), _convert(right)), INDEX)
        case ast.BoolOp(op, values):
            name = "and" if isinstance(op, ast.And) else "or"
            return reduce(lambda a, b: Op(name, (a, b), BOOL), map(_convert, values))
        case ast.Compare(left, ops, rest):
            terms = [_convert(e) for e in (left, *rest)]
            parts: list[Expr] = [
                Op(_COMPARE[type(op)], (terms[n], terms[n + 1]), BOOL) for n, op in enumerate(ops)
            ]
            return reduce(lambda a, b: Op("and", (a, b), BOOL), parts)
        case ast.Call(ast.Name(name), args):
            return Op(name, tuple(_convert(a) for a in args), INDEX)
    raise ValueError(ast.dump(node))


def names(text: str) -> tuple[str, ...]:
    return tuple(t.strip() for t in text.split(",") if t.strip())


def element(text: str) -> tuple[str, tuple[Expr, ...]]:
    """`A[i, j + 1]` -> the array and its subscript."""
    array, _, rest = text.partition("[")
    if not rest:
        return array.strip(), ()
    parsed = ast.parse(f"({rest.rstrip().removesuffix(']')},)", mode="eval").body
    assert isinstance(parsed, ast.Tuple)
    return array.strip(), tuple(_convert(e) for e in parsed.elts)


def read(text: str, type: ElemType = F32) -> Read:
    array, subscript = element(text)
    return Read(array, subscript, type)


def stmt(
    name: str,
    left: str,
    indices: str,
    domain: str,
    reads: Iterable[str | Expr] = (),
    op: str = "define",
    reduction: str = "",
    init: bool = False,
    type: ElemType = F32,
    outer: str = "True",
) -> Statement:
    """A statement whose value is the sum of what it reads."""
    array, subscript = element(left)
    terms = [read(r, type) if isinstance(r, str) else r for r in reads]
    value: Expr = Const(0, type)
    for term in terms:
        value = Op("add", (value, term), type)
    return Statement(
        name,
        array,
        subscript,
        names(indices),
        (expr(domain),),
        op,
        value,
        names(reduction),
        Const(0, type) if init else None,
        (expr(outer),) if init else (),
    )


def nest(index: str, lo: str, hi: str, *body: BodyItem, down: bool = False, step: int = 1) -> Nest:
    return Nest(index, expr(lo), expr(hi), down, step, body)


def kernel(
    sizes: str,
    arrays: Mapping[str, str],
    body: Sequence[BodyItem],
    assume: str = "True",
    type: ElemType = F32,
) -> Kernel:
    """`arrays`: name -> "role N, M" (the shape behind the role)."""
    declared = []
    for name, text in arrays.items():
        role, _, shape = text.partition(" ")
        _, extents = element(f"{name}[{shape}]") if shape.strip() else ("", ())
        declared.append(Array(name, type, extents, role))
    return Kernel("test", names(sizes), (expr(assume),), tuple(declared), tuple(body))
