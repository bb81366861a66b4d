"""`dot i2, j2, kk`: the lanes of one register are a tile of rows and columns.

before: for kk < 8 { C[i2, j2] += i32(A[i2, kk]) * i32(B[j2, kk]) }   for rows i2 and columns j2
after:  C_0 = dot_2(C_0, A[..16], B[..16])      lane 2 * i2 + j2 of C_0 is C[i2, j2]

One operand lies as [row, kk] in memory, the other one as [column, kk]. Places are functions of
Var(ROW) and Var(LANE), the column, until what is written has a place for each lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tdsl.diagnostics import IllegalSchedule
from tdsl.ir import kernel as k
from tdsl.ir import loops as ir
from tdsl.ir import vector as v
from tdsl.ir.dots import TILE, factors
from tdsl.ir.index import (
    add,
    conjuncts,
    const,
    floor_of,
    linear_in,
    minimum,
    mul,
    scale,
    simplify,
    sub,
    substitute,
    variables,
)
from tdsl.ir.types import BOOL
from tdsl.lower.context import Context
from tdsl.lower.dots import OperandPlace, Terms, lane_mask, layout_refusal, not_packed, place_of
from tdsl.lower.registers import CannotKeep
from tdsl.lower.values import Values
from tdsl.polyhedral.program import Stmt
from tdsl.targets.dots import tile_row


@dataclass(frozen=True)
class Tile:
    """Rows and columns of lanes; how many of them run (None: all)."""

    rows: int
    columns: int
    row_count: k.Expr | None = None
    column_count: k.Expr | None = None

    @property
    def lanes(self) -> int:
        return self.rows * self.columns

    def mask(self, bits: int) -> v.Value | None:
        """The lanes that run."""
        type = v.VType(BOOL, self.lanes, bits)
        masks: list[v.Value] = []
        if self.row_count is not None:
            masks.append(v.FirstLanes(scale(self.columns, self.row_count), type))
        if self.column_count is not None:
            row = v.FirstLanes(self.column_count, v.VType(BOOL, self.columns, bits))
            masks.append(v.Repeat(row, type))
        return masks[0] if len(masks) == 1 else v.Op("and", tuple(masks), type) if masks else None

    def of_lanes(self, expr: k.Expr) -> k.Expr:
        """A function of row and column as one of the lane."""
        lane = k.Var(v.LANE)
        column = k.Op("mod", (lane, const(self.columns)), k.INDEX)
        return simplify(substitute(expr, {v.ROW: floor_of(lane, self.columns), v.LANE: column}))

    def offset(self, stmt: Stmt, offset: k.Expr) -> k.Expr:
        """The place of each lane, for a place that is a function of row and column."""
        by_row = linear_in(offset, v.ROW)
        by_column = None if by_row is None else linear_in(by_row[0], v.LANE)
        if by_row is None or by_column is None or by_row[1] != scale(self.columns, by_column[1]):
            array = stmt.write.array
            raise IllegalSchedule.at(
                stmt.span,
                f"the rows and columns that a `dot` adds to are not next to each other in {array}",
                help="let them be registers of a temp t: `compute t at` a loop of its reader, `in "
                "registers`",
            )
        return add(by_column[0], mul(by_column[1], k.Var(v.LANE)))


def tiled(context: Context, items: Iterable[ir.Instance]) -> frozenset[str]:
    """The statements of which a register holds rows and columns: those that an instruction adds
    to, and their first terms."""
    found = set()
    for instance in items:
        marks = tuple(d.mark for d in instance.dims[-3:])
        stmt = context.program.statements[instance.statement]
        reads = factors(stmt.value) if marks == ("vector", "vector", "dot") else None
        if reads is not None:
            first, second = (r.type.name for r in reads)
            if tile_row(context.target, first, second) is not None:
                found |= {stmt.name, f"{stmt.name}.init"}
    return frozenset(found)


def tile_of(context: Context, instance: ir.Instance, rows: ir.Dim, columns: ir.Dim) -> Tile:
    """The lanes of two dimensions. Refuses operands that do not lie as the instruction reads
    them."""
    stmt = context.program.statements[instance.statement]
    if instance.dims[-1].mark == "dot":
        _refuse_layout(context, instance, stmt, rows, columns)
    return Tile(*TILE, _count(rows, TILE[0]), _count(columns, TILE[1]))


def guarded(stmt: Stmt, tile: Tile, guard: k.Expr) -> tuple[Tile, tuple[k.Expr, ...]]:
    """The tile with what a guard says of its rows and columns, and what it says of all lanes.

    M > 8 * io + 2 + row leaves M - 8 * io - 2 rows.
    """
    tests: list[k.Expr] = []
    for part in conjuncts(guard):
        over = variables(part) & {v.ROW, v.LANE, v.TERM}
        if not over:
            tests.append(part)
            continue
        (name,) = over if len(over) == 1 else (v.TERM,)
        count = None if name == v.TERM else _upto(part, name)
        if count is None:
            raise IllegalSchedule.at(
                stmt.span,
                f"a condition chooses rows, columns or terms of {stmt.name} that a `dot` adds",
                help=f"leave out `dot` for {stmt.name}",
            )
        if name == v.ROW:
            tile = replace(tile, row_count=_least(tile.row_count, count))
        else:
            tile = replace(tile, column_count=_least(tile.column_count, count))
    return tile, tuple(tests)


def _least(one: k.Expr | None, other: k.Expr) -> k.Expr:
    return other if one is None else minimum(one, other)


def _upto(condition: k.Expr, name: str) -> k.Expr | None:
    """The count below which a variable has to be, where a condition says that and no more."""
    match condition:
        case k.Op("lt" | "le" | "gt" | "ge" as op, (left, right)):
            less = (left, right) if op in ("lt", "le") else (right, left)
            parts = linear_in(sub(*less), name)
        case _:
            return None
    if parts is None or not isinstance(parts[1], k.Const) or int(parts[1].value) <= 0:
        return None
    # stride * name + base is less than 0, or at most 0.
    base, stride = parts[0], int(parts[1].value)
    if op in ("lt", "gt"):
        return floor_of(sub(const(stride - 1), base), stride)
    return add(floor_of(sub(const(0), base), stride), const(1))


def _count(dim: ir.Dim, size: int) -> k.Expr | None:
    if dim.extent == size:
        return dim.count
    return const(dim.extent) if dim.count is None else minimum(dim.count, const(dim.extent))


def tile_value(context: Context, stmt: Stmt, values: Values, tile: Tile, terms: Terms) -> v.Dot:
    """The sum of a group in each lane."""
    first, second = _operands(context, stmt, values.index, terms.group)
    elem = context.program.arrays[stmt.write.array].type
    type = v.VType(elem, tile.lanes)
    zero = v.Const(0.0 if elem.is_float else 0, type)
    one = _loaded(context, *first, tile.rows, tile.row_count, terms, every=True)
    two = _loaded(context, *second, tile.columns, tile.column_count, terms, every=False)
    return v.Dot(zero, one, two, type, tile.columns)


def _loaded(
    context: Context,
    read: k.Read,
    found: OperandPlace,
    lanes: int,
    count: k.Expr | None,
    terms: Terms,
    *,
    every: bool,
) -> v.Value:
    """A group for each row or column. every: terms that do not run are 0 here, whatever the other
    operand is there."""
    type = v.VType(read.type, lanes * terms.group)
    of_all = lane_mask(read.type, type.lanes)
    masks: list[v.Value] = []
    if count is not None and not found.lanes:
        masks.append(v.FirstLanes(scale(terms.group, count), of_all))
    readable = found.terms or context.places[read.array].array.role in v.OWN
    left_out = terms.count is not None and not (terms.overrun and readable)
    if terms.count is not None and left_out and (every or read.type.is_float or not found.terms):
        some = v.FirstLanes(terms.count, lane_mask(read.type, terms.group))
        masks.append(v.Repeat(some, of_all))
    mask = masks[0] if len(masks) == 1 else v.Op("and", tuple(masks), of_all) if masks else None
    return v.Load(read.array, found.base, type, None, mask)


Operand = tuple[k.Read, OperandPlace]


def _operands(
    context: Context, stmt: Stmt, index: Mapping[str, k.Expr], group: int
) -> tuple[Operand, Operand]:
    """The operand of the rows and the one of the columns, which lie right."""
    reads = factors(stmt.value)
    assert reads is not None
    first, second = reads
    if v.ROW not in _used(first, index) and first.type == second.type:
        first, second = second, first
    found = []
    for read, lane, lanes in ((first, v.ROW, TILE[0]), (second, v.LANE, TILE[1])):
        other = v.LANE if lane == v.ROW else v.ROW
        there = place_of(context.places[read.array], read, index, lanes, group, lane)
        if there is None or there.stride != const(group) or other in _used(read, index):
            raise _Wrong(read, lane)
        found.append((read, there))
    return found[0], found[1]


class _Wrong(Exception):
    """An operand does not lie right."""

    def __init__(self, read: k.Read, lane: str) -> None:
        super().__init__(read.array)
        self.read = read
        self.lane = lane


def _used(read: k.Read, index: Mapping[str, k.Expr]) -> list[str]:
    """The variables of an element, in order."""
    return [x for i in read.indices for x in sorted(variables(simplify(substitute(i, index))))]


def _refuse_layout(
    context: Context, instance: ir.Instance, stmt: Stmt, rows: ir.Dim, columns: ir.Dim
) -> None:
    """Refuse operands that do not lie as an instruction reads them, or are in registers."""
    terms = instance.dims[-1]
    names = {rows.var: k.Var(v.ROW), columns.var: k.Var(v.LANE), terms.var: k.Var(v.TERM)}
    index = {i: simplify(substitute(e, names)) for i, e in instance.index}
    try:
        operands = _operands(context, stmt, index, terms.extent)
    except _Wrong as error:
        raise _refusal(stmt, error.read, error.lane, index, rows, columns, terms) from None
    for read, _ in operands:
        if context.scope(read.array) is not None:
            raise CannotKeep(read.array, "groups of rows and columns are read from memory")


def _refusal(
    stmt: Stmt,
    read: k.Read,
    lane: str,
    index: Mapping[str, k.Expr],
    rows: ir.Dim,
    columns: ir.Dim,
    terms: ir.Dim,
) -> Exception:
    used, what = _used(read, index), f"dot {rows.name}, {columns.name}, {terms.name}"
    own, other = (rows, columns) if lane == v.ROW else (columns, rows)
    moves = [name for name in (v.ROW, v.LANE) if name in used]
    if moves == [lane]:
        return not_packed(stmt, read, used, [own.name], terms.name)
    if len(moves) == 1:
        # Of bytes with and without a sign the instruction wants those without in the rows.
        order = f"{columns.name}, {rows.name}, {terms.name}"
        return layout_refusal(
            stmt,
            f"{what}: {read.array} is {read.type}, and it is indexed by {other.name}",
            help=f"the u8 operand is that of the first loop: reorder {order} and `dot {order}`",
        )
    has = f"does not depend on {own.name}" if not moves else f"depends on {other.name} too"
    return layout_refusal(
        stmt,
        f"{what}: what {stmt.name} reads of {read.array} {has}",
        help=f"each factor is to be indexed by one of {rows.name} and {columns.name}",
    )
