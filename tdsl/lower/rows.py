"""Which rows of an array lie behind one another in memory and are written by whole vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tdsl.ir import kernel as k
from tdsl.ir import loops as ir
from tdsl.ir.index import (
    add,
    const,
    constant_difference,
    linear_in,
    minimum,
    simplify,
    sub,
    substitute,
    variables,
)
from tdsl.ir.kernel import INDEX, Const, Expr, Op, Var
from tdsl.lower.lanes import not_linear, widest_bytes, widths
from tdsl.lower.memory import Place, stored_type
from tdsl.polyhedral.program import Program
from tdsl.targets import instructions
from tdsl.targets.target import Target

LINE = 64  # bytes of a cache line
FEWEST = 8  # lines of a block that is peeled by itself: two of them may be incomplete
MOST_VECTORS = 8  # of one block of a row, which are written out three times


@dataclass(frozen=True)
class Row:
    """The elements 0..length of one dimension of a statement, one behind the other in memory.

    instance: without the loop over blocks of the dimension; var: what that loop's variable is
    called, lo its least value, and whether it is parallel.
    """

    instance: ir.Instance
    dim: ir.Dim
    length: Expr
    lanes: int
    block: int
    var: str
    lo: Expr
    parallel: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rows:
    """Finds the rows of the arrays `streams`."""

    program: Program
    places: Mapping[str, Place]
    target: Target
    streams: frozenset[str]

    def of_loop(self, loop: ir.For) -> Row | None:
        """A loop over the vectors of a row, and nothing else."""
        item: ir.Item = loop.body
        while isinstance(item, ir.Block) and len(item.items) == 1:
            item = item.items[0]
        if loop.mark not in ("serial", "parallel") or loop.step != 1 or loop.hints:
            return None
        if not isinstance(item, ir.Instance):
            return None
        if len(item.dims) != 1 or not self._in_lines(item, item.dims[0]):
            return None
        dim, size = item.dims[0], const(item.dims[0].extent)

        def together(expr: Expr, step: Expr) -> bool:
            """Whether one block further is `step` further along."""
            further = substitute(expr, {loop.var: add(Var(loop.var), const(1))})
            return constant_difference(further, step) == 0

        along = {dim.var: add(Var(dim.var), size)}
        if not all(together(e, substitute(e, along)) for _, e in item.index):
            return None
        whole = simplify(Op("mul", (size, sub(loop.hi, loop.lo)), INDEX))
        first, length = {loop.var: loop.lo}, whole
        if dim.count is not None:
            counts = [c for c in _least_of(dim.count) if not isinstance(c, Const)]
            if not counts or not all(together(c, sub(c, size)) for c in counts):
                return None
            length = minimum(*(simplify(substitute(c, first)) for c in counts))
            if blocks(length, dim.extent) != sub(loop.hi, loop.lo):
                length = minimum(length, whole)
        index = tuple((i, simplify(substitute(e, first))) for i, e in item.index)
        found = replace(item, index=index, always=None)
        lanes, parallel = self._lanes(item, dim), loop.mark == "parallel"
        row = Row(
            found, dim, length, lanes, dim.extent, loop.var, loop.lo, parallel, loop.notes
        )  # fmt: skip
        return row if self._is_row(row, {}) else None

    def of_dim(self, instance: ir.Instance, dim: ir.Dim, env: Mapping[str, Expr]) -> Row | None:
        """Several vectors side by side."""
        lanes = self._lanes(instance, dim)
        elem = stored_type(self.program.arrays[self._array(instance)].type)
        if dim.extent * elem.bytes < FEWEST * LINE:
            return None
        length: Expr = const(dim.extent)
        if dim.count is not None:
            length = minimum(length, dim.count)
        row = Row(instance, dim, length, lanes, lanes, f"{dim.name}_line", const(0))
        return row if self._is_row(row, env) else None

    def _array(self, instance: ir.Instance) -> str:
        return self.program.statements[instance.statement].write.array

    def _in_lines(self, instance: ir.Instance, dim: ir.Dim) -> bool:
        """Whether a block is one vector, or several that are whole lines together."""
        elem = stored_type(self.program.arrays[self._array(instance)].type)
        lanes = self._lanes(instance, dim)
        several = dim.extent * elem.bytes % LINE == 0 and dim.extent % lanes == 0
        return dim.extent == lanes or (several and dim.extent <= MOST_VECTORS * lanes)

    def _lanes(self, instance: ir.Instance, dim: ir.Dim) -> int:
        stmt = self.program.statements[instance.statement]
        varying = frozenset(i for i, e in instance.index if dim.var in variables(e))
        elem = stored_type(self.program.arrays[stmt.write.array].type)
        return widths(self.target, widest_bytes(stmt, elem.bytes, varying), dim.width)[0]

    def _is_row(self, row: Row, env: Mapping[str, Expr]) -> bool:
        stmt = self.program.statements[row.instance.statement]
        array, var = stmt.write.array, row.dim.var
        if array not in self.streams or row.dim.mark != "vector" or stmt.value is None:
            return False
        if stmt.is_update or stmt.init_of is not None or row.instance.guard is not None:
            return False
        if any(read.array == array for read in stmt.reads):
            return False
        index = {i: simplify(substitute(e, env)) for i, e in row.instance.index}
        subscript = [substitute(e, index) for e in stmt.write.subscript]
        parts = linear_in(self.places[array].offset(subscript), var)
        elem = stored_type(self.program.arrays[array].type).name
        if ("stream", elem, row.lanes) not in instructions(self.target):
            return False
        return parts is not None and parts[1] == const(1) and _grows(stmt.value, index, var)


def _least_of(count: Expr) -> tuple[Expr, ...]:
    """The expressions that a count is the least of."""
    if isinstance(count, Op) and count.op == "min":
        return tuple(bound for arg in count.args for bound in _least_of(arg))
    return (count,)


def blocks(length: Expr, size: int) -> Expr:
    return simplify(Op("floordiv", (add(length, const(size - 1)), const(size)), INDEX))


def _grows(value: Expr, index: Mapping[str, Expr], var: str) -> bool:
    """Whether all index arithmetic of a value grows by constants along a dimension."""
    for expr in k.walk(value):
        compared = isinstance(expr, Op) and expr.op in k.COMPARISONS and expr.args[0].type
        if INDEX not in (expr.type, compared):
            continue
        here = simplify(substitute(expr, index))
        if any(not_linear(part) and var in variables(part) for part in k.walk(here)):
            return False
        if any(isinstance(part, k.Read) for part in k.walk(here)):
            return False
    return True
