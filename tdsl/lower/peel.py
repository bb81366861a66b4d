"""Rows that are stored past the caches, peeled at run time so that whole vectors are aligned.

before: for jo in 0..(N + 15) // 16 { y[16 jo + lane] = ... where 16 jo + lane < N }
after:  s = y[0] misaligned to 64
        if s > 0 { y[lane - s] = ... where lane >= s and lane - s < N }
        for jo in min(s, 1)..(N + s) // 16 { stream y[16 jo - s + lane] = ... }
        for jo in max(min(s, 1), (N + s) // 16)..(N + s + 15) // 16 {
            y[16 jo - s + lane] = ... where lane < N + s - 16 jo
        }

The lanes of a row go to vectors in the same order as before; only where one vector ends and the
next begins changes. So no statement may be peeled that reads what it writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tdsl.ir import vector as v
from tdsl.ir.index import (
    add,
    compare,
    conjunction,
    const,
    maximum,
    minimum,
    scale,
    simplify,
    sub,
    substitute,
)
from tdsl.ir.kernel import INDEX, Expr, Op, Var
from tdsl.lower.builder import Code, written
from tdsl.lower.context import Context
from tdsl.lower.copies import Copy, write_copy
from tdsl.lower.memory import stored_type
from tdsl.lower.rows import Row, blocks


def write_row(
    context: Context, row: Row, env: Mapping[str, Expr], tests: tuple[Expr, ...], code: Code
) -> None:
    """Adds a row under conditions."""
    test = conjunction(tests)
    if test is None:
        _Writer(context, row, dict(env), code).run()
        return
    inner = code.inside()
    _Writer(context, row, dict(env), inner).run()
    code.forget_all(written(inner.items))
    code.add(v.If(test, v.Block(tuple(inner.items))))


@dataclass(frozen=True)
class _Writer:
    context: Context
    row: Row
    env: dict[str, Expr]
    code: Code

    def run(self) -> None:
        row, code = self.row, self.code
        stmt = self.context.program.statements[row.instance.statement]
        array = stmt.write.array
        start = {**self.env, row.dim.var: const(0)}
        index = {i: simplify(substitute(e, start)) for i, e in row.instance.index}
        place = self.context.places[array]
        offset = place.offset([simplify(substitute(e, index)) for e in stmt.write.subscript])
        bytes = stored_type(place.array.type).bytes * row.lanes
        skip = Var(code.names.fresh(f"{array}_skip"))
        code.add(v.Misaligned(skip.name, array, offset, bytes))
        end = add(row.length, skip)
        test = conjunction((compare("gt", skip, const(0)), compare("gt", row.length, const(0))))
        assert test is not None
        head = code.inside()
        self._vector(head, const(0), skip, end)
        code.forget_all(written(head.items))
        code.add(v.If(test, v.Block(tuple(head.items))))
        first = minimum(skip, const(1))
        whole = simplify(Op("floordiv", (end, const(row.lanes)), INDEX))
        self._loop(skip, first, whole, None, array)
        self._loop(skip, maximum(first, whole), blocks(end, row.lanes), end, array)

    def _loop(self, skip: Expr, lo: Expr, hi: Expr, end: Expr | None, array: str) -> None:
        """Whole vectors past the caches; with an end, those that it cuts."""
        row, code = self.row, self.code
        var = code.names.inside().claim(row.var)
        inner = code.inside(loop=var)
        block = sub(Var(var), row.lo)
        here = None if end is None else sub(end, scale(row.lanes, block))
        self._vector(inner, block, skip, here, head=False)
        body = tuple(inner.items)
        if end is None:
            body = tuple(_aligned(item, array) for item in body)
        code.forget_all(written(body))
        code.add(v.For(var, add(lo, row.lo), add(hi, row.lo), v.Block(body)))

    def _vector(
        self, code: Code, block: Expr, skip: Expr, count: Expr | None, *, head: bool = True
    ) -> None:
        row, lane = self.row, Var(v.LANE)
        here = add(scale(row.lanes, block), sub(lane, skip))
        guard = compare("ge", lane, skip) if head else None
        copy = Copy(lanes=row.lanes, count=count)
        env = {**self.env, row.dim.var: here}
        write_copy(self.context, row.instance, env, copy, guard, code)


def _aligned(item: v.Item, array: str) -> v.Item:
    if isinstance(item, v.Store) and item.buffer == array and item.mask is None:
        return replace(item, stream=True, aligned=True)
    return item
