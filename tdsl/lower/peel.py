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
from tdsl.lower.rows import LINE, Row, blocks


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
        """Vectors are numbered from the line that the row begins in."""
        row, code = self.row, self.code
        stmt = self.context.program.statements[row.instance.statement]
        array = stmt.write.array
        start = {**self.env, row.dim.var: const(0)}
        index = {i: simplify(substitute(e, start)) for i, e in row.instance.index}
        place = self.context.places[array]
        offset = place.offset([simplify(substitute(e, index)) for e in stmt.write.subscript])
        in_line = LINE // (stored_type(place.array.type).bytes * row.lanes)
        skip = Var(code.names.fresh(f"{array}_skip"))
        code.add(v.Misaligned(skip.name, array, offset, LINE))
        end = add(row.length, skip)
        test = conjunction((compare("gt", skip, const(0)), compare("gt", row.length, const(0))))
        assert test is not None
        head = replace(self, code=code.inside())
        if row.block == row.lanes and in_line > 1:
            last = minimum(const(in_line), blocks(end, row.lanes))
            head._loop(skip, _over(skip, row.lanes), last, end, head=True)
        else:
            for number in range(row.block // row.lanes):
                head._vector(const(0), number, skip, end, head=number < in_line)
        items = tuple(head.code.items)
        code.forget_all(written(items))
        code.add(v.If(test, v.Block(items)))
        unit = in_line if row.block == row.lanes else 1  # blocks that are whole lines together
        first = scale(unit, minimum(skip, const(1)))
        whole = scale(unit, _over(end, row.block * unit))
        self._loop(skip, first, whole, None)
        self._loop(skip, maximum(first, whole), blocks(end, row.block), end)

    def _loop(
        self, skip: Expr, lo: Expr, hi: Expr, end: Expr | None, *, head: bool = False
    ) -> None:
        """Whole blocks past the caches; with an end, those that it or the row's start cuts."""
        row, code = self.row, self.code
        var = code.names.inside().claim(row.var)
        inner = replace(self, code=code.inside(loop=var))
        for number in range(row.block // row.lanes):
            inner._vector(sub(Var(var), row.lo), number, skip, end, head=head)
        body = tuple(inner.code.items)
        parallel, notes = False, tuple[str, ...]()
        if end is None:
            array = self.context.program.statements[row.instance.statement].write.array
            body = tuple(_aligned(item, array) for item in body)
            parallel, notes = row.parallel, row.notes
        code.forget_all(written(body))
        lo, hi = add(lo, row.lo), add(hi, row.lo)
        code.add(v.For(var, lo, hi, v.Block(body), 1, parallel, notes))

    def _vector(
        self, block: Expr, number: int, skip: Expr, end: Expr | None, *, head: bool
    ) -> None:
        """One vector of a block; head: without the lanes before the row."""
        row, lane = self.row, Var(v.LANE)
        start = row.lanes * number
        before = add(scale(row.block, block), const(start))
        here = add(before, sub(lane, skip))
        guard = compare("ge", lane, sub(skip, before)) if head else None
        count = None if end is None else sub(end, before)
        copy = Copy(lanes=row.lanes, count=count, chunk=start)
        env = {**self.env, row.dim.var: here}
        write_copy(self.context, row.instance, env, copy, guard, self.code)


def _over(value: Expr, divisor: int) -> Expr:
    return simplify(Op("floordiv", (value, const(divisor)), INDEX))


def _aligned(item: v.Item, array: str) -> v.Item:
    if isinstance(item, v.Store) and item.buffer == array and item.mask is None:
        return replace(item, stream=True, aligned=True)
    return item
