"""`dot`: the innermost loop's terms become one value that an instruction adds.

before: for kk < 4 { C[j] += i32(A[k + kk]) * i32(B[k, j, kk]) }   in lanes j
after:  C_0 = dot(C_0, B[k, j..][4 * lanes], repeat(A[k..][4]))

One operand lies as [lane, kk] in memory, the other one is the same for all lanes (or lies so
too). Where the group is incomplete, both operands are masked, so that what is left out adds 0;
an integer operand that exists beyond the end need not be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tdsl.diagnostics import Error, IllegalSchedule
from tdsl.ir import kernel as k
from tdsl.ir import loops as ir
from tdsl.ir import vector as v
from tdsl.ir.dots import factors
from tdsl.ir.index import (
    add,
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
from tdsl.lower.keep import register_for
from tdsl.lower.memory import Place
from tdsl.lower.registers import CannotKeep
from tdsl.lower.values import Values, has_data
from tdsl.polyhedral.program import Stmt
from tdsl.targets.dots import dot_row


@dataclass(frozen=True)
class Terms:
    """The group of a copy: so many terms, of which `count` run (None: all). overrun: the others
    add 0, since one operand is 0 there (`tdsl.polyhedral.phantoms`)."""

    group: int
    count: k.Expr | None = None
    overrun: bool = False


@dataclass(frozen=True)
class OperandPlace:
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

    Refuses operands that do not lie as an instruction reads them. What they are was checked when
    the schedule was complete (`tdsl.schedule.dots`).
    """
    if lanes == 1:
        return False
    stmt = context.program.statements[instance.statement]
    reads = factors(stmt.value)
    lane = next((d for d in instance.dims if d.mark == "vector"), None)
    if reads is None or lane is None or dim != instance.dims[-1]:
        raise AssertionError(f"{stmt.name} is no sum of products in lanes")
    names = [lane.var, dim.var]
    here: dict[str, k.Expr] = {names[0]: k.Var(v.LANE), names[1]: k.Var(v.TERM)}
    _refuse_layout(context, instance, dim, reads, here)
    guard = None if instance.guard is None else variables(instance.guard)
    if guard is not None and guard & set(names):
        return False
    first, second = reads
    return dot_row(context.target, first.type.name, second.type.name, lanes) is not None


# ---------------------------------------------------------------- operands


def dot_value(
    context: Context, stmt: Stmt, values: Values, terms: Terms, count: k.Expr | None
) -> v.Dot:
    """The sum of a group in each lane. `count`: the lanes that run (None: all)."""
    reads = factors(stmt.value)
    assert reads is not None
    first, second = (_operand(context, r, values, terms, count) for r in reads)
    elem = context.program.arrays[stmt.write.array].type
    zero = v.Const(0.0 if elem.is_float else 0, values.type(elem))
    return v.Dot(zero, first, second, zero.type)


def _operand(
    context: Context, read: k.Read, values: Values, terms: Terms, count: k.Expr | None
) -> v.Value:
    place = context.places[read.array]
    found = place_of(place, read, values.index, values.lanes, terms.group)
    assert found is not None
    group, wide = terms.group, terms.group * values.lanes
    type = v.VType(read.type, wide)
    if context.scope(read.array) is not None:
        if found.stride == const(0) or terms.count is not None:
            raise CannotKeep(read.array, "groups that all lanes share are read from memory")
        return _kept(context, read, values, found.base, wide)
    some = lane_mask(read.type, group)
    partial: v.Value | None = None
    readable = found.terms or place.array.role in v.OWN
    if terms.count is not None and not (terms.overrun and readable):
        partial = v.FirstLanes(terms.count, some)
    if found.stride == const(0):
        if found.moves and count is not None:
            # No lane of this chunk may run.
            here = v.Condition(compare("gt", count, const(0)), some)
            partial = here if partial is None else v.Op("and", (partial, here), some)
        load = v.Load(read.array, found.base, v.VType(read.type, group), None, partial)
        return v.Repeat(load, type)
    every = lane_mask(read.type, wide)
    masks: list[v.Value] = []
    if count is not None and not found.lanes:
        masks.append(v.FirstLanes(scale(group, count), every))
    if partial is not None and (read.type.is_float or not found.terms):
        masks.append(v.Repeat(partial, every))
    mask = masks[0] if len(masks) == 1 else v.Op("and", tuple(masks), every) if masks else None
    return v.Load(read.array, found.base, type, None, mask)


def _kept(context: Context, read: k.Read, values: Values, base: k.Expr, wide: int) -> v.Value:
    """Elements that are in registers: in one of that width, or in both halves."""
    scope = context.scope(read.array)
    assert scope is not None
    lanes = wide
    while lanes > 1 and (base, lanes) not in scope.registers:
        lanes //= 2
    size = lanes * read.type.bytes
    if (lanes < wide and not {size, 2 * size} <= set(context.target.widths)) or lanes == 1:
        raise CannotKeep(read.array, "`dot` reads it in other lanes than those that write it")
    narrow = replace(values, lanes=lanes, tail=None)
    parts: list[v.Value] = []
    for start in range(0, wide, lanes):
        offset = add(base, const(start), k.Var(v.LANE))
        register = register_for(context, read.array, offset, narrow, writer=None, mask=None)
        register.touched = True
        parts.append(v.Ref(register.name, register.type))
    while len(parts) > 1:
        joined = v.VType(read.type, 2 * parts[0].type.lanes)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [v.Join(low, high, joined) for low, high in pairs]
    return parts[0]


def lane_mask(elem: ElemType, lanes: int) -> v.VType:
    """The type of a mask for so many elements."""
    return v.VType(BOOL, lanes, elem.bits)


def place_of(
    place: Place,
    read: k.Read,
    index: Mapping[str, k.Expr],
    lanes: int,
    group: int,
    lane: str = v.LANE,
) -> OperandPlace | None:
    """None where the terms are not next to each other, or lanes are neither so nor shared. lane:
    the variable over the lanes."""
    there = [simplify(substitute(i, index)) for i in read.indices]
    here = [whole_blocks(whole_blocks(i, lane, lanes), v.TERM, group) for i in there]
    if any(has_data(i) for i in here):
        return None
    by_term = linear_in(place.offset(here), v.TERM)
    if by_term is None or by_term[1] != const(1):
        return None
    by_lane = linear_in(by_term[0], lane)
    if by_lane is None or by_lane[1] not in (const(0), const(group)):
        return None
    shape = place.array.shape
    inside = {
        name: all(
            _within(i, extent, lane, lanes, group)
            for i, extent in zip(here, shape, strict=True)
            if name in variables(i)
        )
        for name in (lane, v.TERM)
    }
    moves = any(lane in variables(i) for i in there)
    return OperandPlace(by_lane[0], by_lane[1], inside[lane], inside[v.TERM], moves)


def _within(index: k.Expr, extent: k.Expr, lane: str, lanes: int, group: int) -> bool:
    """Whether a subscript is inside a constant extent for all lanes and terms of a block."""
    by_term = linear_in(index, v.TERM)
    by_lane = None if by_term is None else linear_in(by_term[0], lane)
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


def layout_refusal(stmt: Stmt, message: str, help: str) -> Error:
    """Of operands that do not lie as an instruction reads them."""
    return IllegalSchedule.at(stmt.span, message, help=help)


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
        found = place_of(context.places[read.array], read, index, 2, group)
        if found is None:
            raise _not_packed(stmt, instance, read, index, (lane.name, dim.name))
        places[read.array] = found
    if all(p.stride == const(0) for p in places.values()):
        raise layout_refusal(
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
    return not_packed(stmt, read, used, [lane] if moves else [], term)


def not_packed(
    stmt: Stmt, read: k.Read, used: Sequence[str], lanes: Sequence[str], term: str
) -> Error:
    """The refusal that names the copy that would lie right. used: the variables of the element;
    lanes: the loops that are to be just outside the terms."""
    outer = [x.split("'")[0] for x in dict.fromkeys(used) if x not in (v.LANE, v.ROW, v.TERM)]
    order = ", ".join([*outer, *lanes, term])
    wanted = f"[{', '.join([*lanes, term])}]" if lanes else term
    array = read.array
    return layout_refusal(
        stmt,
        f"dot {term}: what {stmt.name} reads of {array} is not contiguous over {wanted}",
        help=f"pack {stmt.name}.{array} as {array}p[{order}], at a loop outside those",
    )
