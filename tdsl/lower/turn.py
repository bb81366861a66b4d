"""Copies that are transposed in registers, block by block.

before: for ii in 0..8, ji in 0..8 { t[ji, ii] = x[ii, ji] }
after:  r0 = x[0, 0..8]; ... r7; c0 = column 0 of r0..r7; ... c7; t[0, 0..8] = c0; ...

What is no square that the target has a network for, and the incomplete block of a split, is
copied element by element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tdsl.diagnostics import IllegalSchedule
from tdsl.ir import loops as ir
from tdsl.ir import vector as v
from tdsl.ir.index import add, const, linear_in, minimum, simplify, substitute, whole_blocks
from tdsl.ir.kernel import Expr, Var
from tdsl.lower.builder import Code, written
from tdsl.lower.context import Context
from tdsl.lower.copies import Copy, decide, memory_value
from tdsl.lower.lanes import widest_bytes
from tdsl.lower.memory import stored_type
from tdsl.lower.registers import CannotKeep
from tdsl.lower.values import Values
from tdsl.polyhedral.packed_reads import read_alone
from tdsl.polyhedral.program import Stmt
from tdsl.targets import instructions

Scalar = Callable[[dict[str, Expr], Code], None]


def write_turned(
    context: Context,
    instance: ir.Instance,
    env: dict[str, Expr],
    copy: Copy,
    code: Code,
    scalar: Scalar,
) -> None:
    """Adds all copies of the last two dimensions of an instance. `scalar` adds one element."""
    stmt = context.program.statements[instance.statement]
    if instance.decided and stmt.value is not None:
        stmt = replace(stmt, value=read_alone(stmt.value))
    for access in (stmt.write, *stmt.reads):
        if context.scope(access.array) is not None:
            raise CannotKeep(access.array, "its elements are transposed")
    turned = _Turned(context, instance, stmt, env, code, scalar)
    if instance.guard is None and not copy.tests and all(d.count is None for d in turned.dims):
        turned.area(0, turned.down.extent, 0, turned.across.extent)
    else:
        turned.elements(*((const(0), _end(d)) for d in (turned.down, turned.across)))


def _end(dim: ir.Dim) -> Expr:
    whole = const(dim.extent)
    return whole if dim.count is None else minimum(whole, dim.count)


@dataclass(frozen=True)
class _Turned:
    context: Context
    instance: ir.Instance
    stmt: Stmt
    env: dict[str, Expr]
    code: Code
    scalar: Scalar

    @property
    def dims(self) -> tuple[ir.Dim, ir.Dim]:
        first, second = self.instance.dims[-2:]
        return first, second

    @property
    def across(self) -> ir.Dim:
        """The dimension along which what is written lies in memory."""
        index = {i: simplify(substitute(e, self.env)) for i, e in self.instance.index}
        place = self.context.places[self.stmt.write.array]
        subscript = [simplify(substitute(e, index)) for e in self.stmt.write.subscript]
        for dim in self.dims:
            subscript = [whole_blocks(e, dim.var, dim.extent) for e in subscript]
        offset = place.offset(subscript)
        for dim in self.dims:
            parts = linear_in(offset, dim.var)
            if parts is not None and parts[1] == const(1):
                return dim
        raise IllegalSchedule.at(
            self.stmt.span, f"neither loop of {self.stmt.name} goes along {self.stmt.write.array}"
        )

    @property
    def down(self) -> ir.Dim:
        """The other one, along which what is read lies in memory."""
        across = self.across
        return next(dim for dim in self.dims if dim.var != across.var)

    def area(self, top: int, bottom: int, left: int, right: int) -> None:
        """The elements top..bottom of `down` and left..right of `across`: the largest squares,
        then what is left beside and below them."""
        height, width = bottom - top, right - left
        if not height or not width:
            return
        side = self._side(min(height, width))
        if side is None:
            ends = ((const(top), const(bottom)), (const(left), const(right)))
            self.elements(*ends)
            return
        low, wide = top + height // side * side, left + width // side * side
        for first in range(top, low, side):
            for second in range(left, wide, side):
                self._square(first, second, side)
        self.area(top, low, wide, right)
        self.area(low, bottom, left, right)

    def _side(self, most: int) -> int | None:
        """The largest square of the target's networks that fits."""
        elem = stored_type(self.context.program.arrays[self.stmt.write.array].type)
        if widest_bytes(self.stmt, elem.bytes, frozenset()) > elem.bytes:
            return None
        known = instructions(self.context.target)
        sides = [w // elem.bytes for w in self.context.target.widths]
        fitting = [n for n in sides if 1 < n <= most and ("zip.low", elem.name, n) in known]
        return max(fitting, default=None)

    def _values(self, top: Expr, left: Expr, lanes: int) -> Values:
        env = {**self.env, self.down.var: top, self.across.var: left}
        index = {i: simplify(substitute(e, env)) for i, e in self.instance.index}
        context = self.context
        return Values(
            context.places, index, lanes, context.numerics, lambda *_: None,
            decide(context, Copy(lanes=lanes)), loops=context.loops,
        )  # fmt: skip

    def _square(self, top: int, left: int, side: int) -> None:
        stmt, code, lane = self.stmt, self.code, Var(v.LANE)
        array, place = stmt.write.array, self.context.places[stmt.write.array]
        assert stmt.value is not None
        rows: list[v.Value] = []
        for number in range(side):
            values = self._values(add(const(top), lane), const(left + number), side)
            row = code.bind(memory_value(values.value(stmt.value), values))
            rows.append(row if isinstance(row, v.Ref) else code.name(f"{array}_row", row))
        type = v.VType(rows[0].type.elem, side)
        columns = [
            code.name(f"{array}_col", v.Column(tuple(rows), number, type)) for number in range(side)
        ]
        for number, ref in enumerate(columns):
            values = self._values(const(top + number), add(const(left), lane), side)
            offset = place.offset([values.here(i) for i in stmt.write.subscript])
            parts = linear_in(offset, v.LANE)
            assert parts is not None and parts[1] == const(1)
            origin = v.Origin(stmt.name, tuple(values.index.values()))
            code.store(v.Store(array, parts[0], ref, None, None, origin))

    def elements(self, down: tuple[Expr, Expr], across: tuple[Expr, Expr]) -> None:
        """A loop along each dimension."""
        env, code = dict(self.env), self.code
        levels: list[tuple[str, Expr, Expr, Code]] = []
        for dim, (lo, hi) in ((self.down, down), (self.across, across)):
            var = code.names.inside().claim(f"{dim.name}_one")
            inner = code.inside(loop=var)
            inner.names.claim(var)
            levels.append((var, lo, hi, inner))
            env[dim.var], code = Var(var), inner
        self.scalar(env, code)
        for var, lo, hi, inner in reversed(levels):
            body = v.Block(tuple(inner.items))
            around = self.code if inner is levels[0][3] else levels[0][3]
            around.forget_all(written(body.items))
            around.add(v.For(var, lo, hi, body))
