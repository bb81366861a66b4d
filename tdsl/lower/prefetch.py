"""Hints of a loop as rows of elements, each asked for line by line.

before: prefetch C[6 * io..+6, 64 * jo..+64]
after:  prefetch 64 of C[6 * io * N + 64 * jo]; prefetch 64 of C[(6 * io + 1) * N + 64 * jo]; ...
"""

from __future__ import annotations

from tdsl.ir import loops as ir
from tdsl.ir import vector as v
from tdsl.ir.index import add, const
from tdsl.ir.kernel import Const, Expr, Var
from tdsl.lower.builder import Code
from tdsl.lower.context import Context

MOST_ROWS = 16  # written out; more are a loop


def prefetch(context: Context, hint: ir.Prefetch, code: Code) -> None:
    """Adds the hints of one box."""
    place = context.places[hint.array]
    rows, count = list(hint.extents), const(1)
    length: Expr = count
    if rows and place.strides[-1] == const(1):
        length = rows[-1]
        rows[-1] = count
    _rows(context, hint, rows, length, [], 1, code)


def _rows(
    context: Context,
    hint: ir.Prefetch,
    rows: list[Expr],
    length: Expr,
    at: list[Expr],
    copies: int,
    code: Code,
) -> None:
    dim = len(at)
    if dim == len(rows):
        subscript = [add(lo, i) for lo, i in zip(hint.lo, at, strict=True)]
        offset = context.places[hint.array].offset(subscript)
        code.add(v.Prefetch(hint.array, offset, length, hint.write))
        return
    extent = rows[dim]
    if isinstance(extent, Const) and copies * int(extent.value) <= MOST_ROWS:
        for number in range(int(extent.value)):
            here = [*at, const(number)]
            _rows(context, hint, rows, length, here, copies * int(extent.value), code)
        return
    var = code.names.inside().claim(f"{hint.array}_row")
    inner = code.inside(loop=var)
    inner.names.claim(var)
    _rows(context, hint, rows, length, [*at, Var(var)], copies, inner)
    code.add(v.For(var, const(0), extent, v.Block(tuple(inner.items))))
