"""`dot`: the innermost loop's terms become one value that an instruction adds.

before: for kk < 4 { C[j] += i32(A[k + kk]) * i32(B[k, j, kk]) }   in lanes j
after:  C_0 = dot(C_0, B[k, j..][4 * lanes], repeat(A[k..][4]))

One operand lies as [lane, kk] in memory, the other one is the same for all lanes (or lies so
too). Where the group is incomplete, both operands are masked, so that what is left out adds 0;
an integer operand that exists beyond the end need not be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tdsl.diagnostics import Error, IllegalSchedule, Note
from tdsl.ir import kernel as k
from tdsl.ir import loops as ir
from tdsl.ir import vector as v
from tdsl.ir.index import (
    compare,
    const,
    linear_in,
    scale,
    simplify,
    substitute,
    variables,
    whole_blocks,
)
from tdsl.ir.types import BOOL, ElemType
from tdsl.lower.context import Context
from tdsl.lower.memory import Place
from tdsl.lower.registers import CannotKeep
from tdsl.lower.values import Values, has_data
from tdsl.polyhedral.program import Stmt
from tdsl.targets.dots import DOTS, dot_row


@dataclass(frozen=True)
class Terms:
    """The group of a copy: so many terms, of which `count` run (None: all)."""

    group: int
    count: k.Expr | None = None


@dataclass(frozen=True)
class _Place:
    """An operand's element at lane 0 and term 0, and what its subscripts say of the others.

    stride: elements from lane to lane. lanes, terms: whether all of a whole block lie inside the
    array, whatever runs. moves: another chunk may read elsewhere.
    """

    base: k.Expr
    stride: k.Expr
    lanes: bool
    terms: bool
    moves: bool


def in_groups(context: Context, instance: ir.Instance, dim: ir.Dim, lanes: int) -> bool:
    """Whether a chunk of lanes adds the terms of `dim` by an instruction; else one by one.

    Refuses what no chunk could do so: other statements than sums of products, other types,
    operands that lie in another way.
    """
    if lanes == 1:
        return False
    stmt = context.program.statements[instance.statement]
    reads = factors(stmt)
    names = [d.var for d in instance.dims if d.mark in ("vector", "dot")]
    if len(names) != 2 or instance.dims[-2].mark != "vector" or instance.dims[-1] != dim:
        raise _refusal(stmt, f"dot {dim.name} wants the vector loop just outside")
    first, second = (r.type.name for r in reads)
    elem = context.program.arrays[stmt.write.array].type
    group = DOTS.get((first, second, elem.name))
    if group is None:
        raise _no_instruction(stmt, dim, reads, elem)
    if group != dim.extent:
        raise _refusal(
            stmt,
            f"dot {dim.name}: {dim.name} has {dim.extent} iterations, and {group} products of "
            f"{first} and {second} are added at once",
            help=f"split the loop over the terms by {group} -> outer, {dim.name}",
        )
    here: dict[str, k.Expr] = {names[0]: k.Var(v.LANE), names[1]: k.Var(v.TERM)}
    _refuse_layout(context, instance, dim, reads, here)
    guard = None if instance.guard is None else variables(instance.guard)
    if guard is not None and guard & set(names):
        return False
    return dot_row(context.target, first, second, lanes) is not None


def factors(stmt: Stmt) -> tuple[k.Read, k.Read]:
    """The two elements that are multiplied, u8 before i8; refuses any other value."""
    match stmt.value:
        case k.Op("mul", (left, right)) if stmt.op == "add":
            reads = [_widened(side) for side in (left, right)]
        case _:
            reads = [None]
    found = [r for r in reads if r is not None]
    if len(found) != 2:
        raise _refusal(
            stmt,
            f"dot adds products of two elements, and {stmt.name} adds something else",
            help="write the terms like `i32(A[i, k]) * i32(B[k, j])`",
        )
    first, second = sorted(found, key=lambda r: r.type.kind != "uint")
    return first, second


def _widened(expr: k.Expr) -> k.Read | None:
    """The element of a conversion that keeps its value, modulo the width of the last one."""
    match expr:
        case k.Read():
            return expr
        case k.Cast("convert", arg, type):
            read = _widened(arg)
            steps = isinstance(arg, k.Cast) and read is not None and not _holds(arg.type, read.type)
            same = read is not None and read.type.is_float == type.is_float
            return read if same and not steps else None
        case _:
            return None


def _holds(wide: ElemType, narrow: ElemType) -> bool:
    """Whether a type has all values of another one."""
    if wide.is_float or narrow.is_float or wide.kind == narrow.kind:
        return wide.is_float == narrow.is_float and wide.bits >= narrow.bits
    return wide.kind == "int" and wide.bits > narrow.bits


# ---------------------------------------------------------------- operands


def dot_value(
    context: Context, stmt: Stmt, values: Values, terms: Terms, count: k.Expr | None
) -> v.Dot:
    """The sum of a group in each lane. `count`: the lanes that run (None: all)."""
    first, second = (_operand(context, r, values, terms, count) for r in factors(stmt))
    elem = context.program.arrays[stmt.write.array].type
    zero = v.Const(0.0 if elem.is_float else 0, values.type(elem))
    return v.Dot(zero, first, second, zero.type)


def _operand(
    context: Context, read: k.Read, values: Values, terms: Terms, count: k.Expr | None
) -> v.Value:
    if context.scope(read.array) is not None:
        raise CannotKeep(read.array, "`dot` reads it from memory")
    place = context.places[read.array]
    found = _place(place, read, values.index, values.lanes, terms.group)
    assert found is not None
    group, wide = terms.group, terms.group * values.lanes
    type = v.VType(read.type, wide)
    some = _mask(read.type, group)
    partial: v.Value | None = None
    if terms.count is not None:
        partial = v.FirstLanes(terms.count, some)
    if found.stride == const(0):
        if found.moves and count is not None:
            # No lane of this chunk may run.
            here = v.Condition(compare("gt", count, const(0)), some)
            partial = here if partial is None else v.Op("and", (partial, here), some)
        load = v.Load(read.array, found.base, v.VType(read.type, group), None, partial)
        return v.Repeat(load, type)
    every = _mask(read.type, wide)
    masks: list[v.Value] = []
    if count is not None and not found.lanes:
        masks.append(v.FirstLanes(scale(group, count), every))
    if partial is not None and (read.type.is_float or not found.terms):
        masks.append(v.Repeat(partial, every))
    mask = masks[0] if len(masks) == 1 else v.Op("and", tuple(masks), every) if masks else None
    return v.Load(read.array, found.base, type, None, mask)


def _mask(elem: ElemType, lanes: int) -> v.VType:
    return v.VType(BOOL, lanes, elem.bits)


def _place(
    place: Place, read: k.Read, index: Mapping[str, k.Expr], lanes: int, group: int
) -> _Place | None:
    """None where the terms are not next to each other, or lanes are neither so nor shared."""
    there = [simplify(substitute(i, index)) for i in read.indices]
    here = [whole_blocks(whole_blocks(i, v.LANE, lanes), v.TERM, group) for i in there]
    if any(has_data(i) for i in here):
        return None
    by_term = linear_in(place.offset(here), v.TERM)
    if by_term is None or by_term[1] != const(1):
        return None
    by_lane = linear_in(by_term[0], v.LANE)
    if by_lane is None or by_lane[1] not in (const(0), const(group)):
        return None
    shape = place.array.shape
    inside = {
        name: all(
            _within(i, extent, lanes, group)
            for i, extent in zip(here, shape, strict=True)
            if name in variables(i)
        )
        for name in (v.LANE, v.TERM)
    }
    moves = any(v.LANE in variables(i) for i in there)
    return _Place(by_lane[0], by_lane[1], inside[v.LANE], inside[v.TERM], moves)


def _within(index: k.Expr, extent: k.Expr, lanes: int, group: int) -> bool:
    """Whether a subscript is inside a constant extent for all lanes and terms of a block."""
    by_term = linear_in(index, v.TERM)
    by_lane = None if by_term is None else linear_in(by_term[0], v.LANE)
    if by_term is None or by_lane is None or not isinstance(extent, k.Const):
        return False
    parts = (by_lane[0], by_lane[1], by_term[1])
    numbers = [int(p.value) for p in parts if isinstance(p, k.Const)]
    if len(numbers) != 3:
        return False
    reach = [numbers[1] * (lanes - 1), numbers[2] * (group - 1)]
    least = numbers[0] + sum(min(0, r) for r in reach)
    return least >= 0 and numbers[0] + sum(max(0, r) for r in reach) < int(extent.value)


# ---------------------------------------------------------------- refusals


def _refusal(stmt: Stmt, message: str, *notes: Note, help: str | None = None) -> Error:
    return IllegalSchedule.at(stmt.span, message, *notes, help=help)


def _no_instruction(stmt: Stmt, dim: ir.Dim, reads: tuple[k.Read, k.Read], elem: ElemType) -> Error:
    first, second = reads
    known = ", ".join(f"{a} x {b} in {c}" for a, b, c in DOTS if c != "u32")
    types = (first.type.name, second.type.name)
    help = None
    if elem.name in ("i32", "u32") and {"i16", "u8", "i8"} >= set(types):
        # i16 holds every u8 and every i8.
        narrow = first if first.type.bits == 8 else second
        help = f"pack {stmt.name}.{narrow.array} as i16, and split the terms by 2"
    elif elem.name == "i64" and (*types, "i32") in DOTS:
        help = "add in i32: the sums wrap there"
    return _refusal(
        stmt,
        f"dot {dim.name}: no instruction adds products of {types[0]} and {types[1]} in {elem}",
        Note(f"there are {known}"),
        help=help,
    )


def _refuse_layout(
    context: Context,
    instance: ir.Instance,
    dim: ir.Dim,
    reads: Iterable[k.Read],
    here: Mapping[str, k.Expr],
) -> None:
    """Refuse operands that do not lie as an instruction reads them."""
    stmt = context.program.statements[instance.statement]
    lane, group = instance.dims[-2], dim.extent
    index = {name: simplify(substitute(e, here)) for name, e in instance.index}
    places = {}
    for read in reads:
        found = _place(context.places[read.array], read, index, 2, group)
        if found is None:
            raise _not_packed(stmt, instance, read, index, (lane.name, dim.name))
        places[read.array] = found
    if all(p.stride == const(0) for p in places.values()):
        raise _refusal(
            stmt,
            f"dot {dim.name}: nothing that {stmt.name} multiplies differs between the lanes of "
            f"{lane.name}",
            help="vectorize a loop that an operand is indexed by",
        )


def _not_packed(
    stmt: Stmt,
    instance: ir.Instance,
    read: k.Read,
    index: Mapping[str, k.Expr],
    names: tuple[str, str],
) -> Error:
    lane, term = names
    used = [x for i in read.indices for x in sorted(variables(simplify(substitute(i, index))))]
    moves = v.LANE in used
    outer = [x.split("'")[0] for x in dict.fromkeys(used) if x not in (v.LANE, v.TERM)]
    order = ", ".join([*outer, *([lane] if moves else []), term])
    wanted = f"[{lane}, {term}]" if moves else term
    array = read.array
    return _refusal(
        stmt,
        f"dot {term}: what {stmt.name} reads of {array} is not contiguous over {wanted}",
        help=f"pack {stmt.name}.{array} as {array}p[{order}], at a loop outside those",
    )
