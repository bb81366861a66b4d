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


# ---------------------------------------------------------------- some kernels


def matmul(type: ElemType = F32) -> Kernel:
    return kernel(
        "N, M, K",
        {"A": "in N, K", "B": "in K, M", "C": "out N, M"},
        [
            stmt(
                "C", "C[i, j]", "i, j, k", "0 <= i < N and 0 <= j < M and 0 <= k < K",
                ["A[i, k]", "B[k, j]"], "add", "k", True, type, "0 <= i < N and 0 <= j < M",
            )
        ],
        type=type,
    )  # fmt: skip


def conv2d(pad: int = 1) -> Kernel:
    inside = f"0 <= y + r - {pad} < H and 0 <= x + s - {pad} < W"
    outer = "0 <= n < N and 0 <= y < H and 0 <= x < W and 0 <= o < O"
    return kernel(
        "N, H, W, C, O",
        {"x": "in N, H, W, C", "w": "in 3, 3, C, O", "y": "out N, H, W, O"},
        [
            stmt(
                "y", "y[n, y, x, o]", "n, y, x, o, r, s, c",
                f"{outer} and 0 <= r < 3 and 0 <= s < 3 and 0 <= c < C and {inside}",
                [f"x[n, y + r - {pad}, x + s - {pad}, c]", "w[r, s, c, o]"],
                "add", "r, s, c", True, outer=outer,
            )
        ],
        "N >= 1 and H >= 1 and W >= 1 and C >= 1 and O >= 1",
    )  # fmt: skip


def seidel() -> Kernel:
    return kernel(
        "T, N",
        {"A": "inout N, N"},
        [
            nest("t", "0", "T", nest("i", "1", "N - 1", nest("j", "1", "N - 1", stmt(
                "S", "A[i, j]", "t, i, j", "0 <= t < T and 1 <= i < N - 1 and 1 <= j < N - 1",
                [f"A[i + {a}, j + {b}]" for a in (-1, 0, 1) for b in (-1, 0, 1)],
            ))))
        ],
    )  # fmt: skip


def lu() -> Kernel:
    return kernel(
        "N",
        {"A": "inout N, N"},
        [
            nest("k", "0", "N",
                 stmt("S", "A[i, k]", "k, i", "0 <= k < i and i < N", ["A[i, k]", "A[k, k]"]),
                 stmt("T", "A[i, j]", "k, i, j", "0 <= k < i and k < j and i < N and j < N",
                      ["A[i, k]", "A[k, j]"], "sub"))
        ],
    )  # fmt: skip
