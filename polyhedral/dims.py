"""The dimensions at a leaf: where lanes and jammed copies start, how many there are, which run.

Everything is a function of the coordinates `c0, c1, ...` of the loops that stay loops. A
dimension counts from 0; its coordinate is start(c0, ...) + dimension. In a block of a split it
starts at the block's first coordinate, so that all full blocks look alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import islpy as isl

from tdsl.ir import loops as ir
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
from tdsl.ir.kernel import INDEX, Expr, Select, Size, Var
from tdsl.polyhedral.bounds import in_one_piece, largest_spread, plain_start
from tdsl.polyhedral.from_isl import from_aff, from_constraint, from_pw_aff, from_set
from tdsl.polyhedral.leaves import Point, is_reduced
from tdsl.polyhedral.packed_reads import reading
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Program, Stmt
from tdsl.polyhedral.starts import start
from tdsl.polyhedral.tree import Loop

SET = isl.dim_type.set
MOST_CASES = 8  # of a count: a condition of each iteration is cheaper than a choice of more
MOST_ITERATIONS = 1 << 16  # of one dimension; sizes have a bound too, which is no extent


class CannotScan(Exception):
    """A loop that is to be unrolled or to become lanes has no constant extent."""

    def __init__(self, statement: str, loop: str) -> None:
        super().__init__(f"{statement}.{loop} has no constant extent")
        self.statement = statement
        self.loop = loop


@dataclass(frozen=True)
class Leaf:
    """One statement ready for the scan, over Var("c0"), Var("c1"), ...

    domain: the tuples of outer coordinates; index: each index of the statement, over the
    dimensions' variables too; guard: what the dimensions' counts cannot say; always: where it
    holds in all iterations of the dimensions; plain: where a copy reads in all of them.
    """

    statement: str
    domain: isl.Set
    index: tuple[tuple[str, Expr], ...]
    dims: tuple[ir.Dim, ...]
    guard: Expr | None
    always: Expr | None
    plain: Expr | None = None


@dataclass(frozen=True)
class _Range:
    """start: as a function of the outer coordinates; values: they -> coordinates taken.

    text: start and count as expressions, where isl's pieces would be long.
    block: an earlier dimension whose coordinate numbers this one's blocks; then the start is that
    times the factor of the split, and `start` is that of block 0.
    """

    start: isl.PwAff
    extent: int
    values: isl.Map
    text: tuple[Expr, Expr] | None = None
    block: int | None = None
    factor: int = 1


def leaf(
    program: Program, point: Point, outer: tuple[Loop, ...], around: int | None = None
) -> Leaf:
    """Describes a statement below the loops `outer`. Raises CannotScan.

    around: how many of these loops are outside the scope that keeps elements of the statement in
    registers. Its dimensions then start where those loops alone say, if they have constant extents
    from there: each copy has one register while the others run.
    """
    stmt = program.statements[point.statement]
    domain = stmt.domain.intersect_params(program.context)
    key = _together(stmt.domain, [loop.coords[stmt.name] for loop in outer])
    sizes: list[Expr] = [Size(s) for s in program.params]
    ranges = [
        _range(stmt, dim, outer, point.dims[:k], key, domain, sizes, around)
        for k, dim in enumerate(point.dims)
    ]
    placed = key
    for dim in point.dims:
        placed = placed.flat_range_product(dim.coords[stmt.name].as_map())
    placed = coalesced(placed.intersect_domain(domain))
    absolute = coalesced(placed.range())
    depth = len(outer)
    scanned = coalesced(absolute.apply(_from_start(absolute, depth, ranges)))
    outside = _in_one_piece(coalesced(scanned.project_out(SET, depth, len(ranges))))

    coordinates: list[Expr] = [Var(f"c{k}") for k in range(depth)]
    inner = [Var(f"{dim.name}'{k}") for k, dim in enumerate(point.dims)]
    at: dict[str, Expr] = {}
    for k, r in enumerate(ranges):
        if r.block is not None:
            anchor = start(r.start, r.values.domain()).text(coordinates, sizes)
            begin = add(scale(r.factor, at[f"x{r.block}"]), anchor)
        else:
            first = start(r.start, r.values.domain())
            begin = r.text[0] if r.text else first.text(coordinates, sizes)
        at[f"x{k}"] = add(begin, inner[k])
    back = isl.PwMultiAff.from_map(placed.reverse()).gist(absolute)
    names: list[Expr] = [*coordinates, *(Var(x) for x in at)]
    index = tuple(
        (i, simplify(substitute(from_pw_aff(back.get_pw_aff(k), names, sizes), at)))
        for k, i in enumerate(stmt.indices)
    )
    counts, guard, always = _counts(scanned, outside, ranges, [*coordinates, *inner], sizes)
    dims = tuple(
        ir.Dim(
            loop.name,
            inner[k].name,
            ranges[k].extent,
            loop.mark,
            counts[k],
            loop.inner_of.tail.mode if loop.inner_of is not None else "",
            loop.width,
        )
        for k, loop in enumerate(point.dims)
    )
    plain = _plain(program, stmt, key, outside, coordinates, sizes)
    return Leaf(stmt.name, outside, index, dims, guard, always, plain)


def _plain(
    program: Program,
    stmt: Stmt,
    key: isl.Map,
    outside: isl.Set,
    names: Sequence[Expr],
    sizes: Sequence[Expr],
) -> Expr | None:
    """Where a copy reads in all iterations of the dimensions, if that can be told in one piece."""
    reads = reading(program, stmt)
    if reads is None:
        return None
    others = key.intersect_domain(stmt.domain.subtract(reads)).intersect_params(program.context)
    where = _in_one_piece(coalesced(outside.subtract(others.range())))
    if where.is_empty() or len(where.get_basic_sets()) > 1:
        return None
    return from_set(where.gist(outside), names, sizes)


def _in_one_piece(points: isl.Set) -> isl.Set:
    """One piece stays as isl has it."""
    return points if len(points.get_basic_sets()) < 2 else in_one_piece(points)


def _together(domain: isl.Set, coordinates: Sequence[isl.PwAff]) -> isl.Map:
    """Instance -> the tuple of these coordinates."""
    result = isl.Map.from_domain(isl.Set.universe(domain.get_space()))
    for coordinate in coordinates:
        result = result.flat_range_product(coordinate.as_map())
    return result


def _range(
    stmt: Stmt,
    dim: Loop,
    outer: tuple[Loop, ...],
    before: tuple[Loop, ...],
    key: isl.Map,
    domain: isl.Set,
    sizes: Sequence[Expr],
    around: int | None,
) -> _Range:
    statement = stmt.name
    coordinate = dim.coords[statement]
    fixed = None if is_reduced(stmt, dim) else around
    values = coalesced(key.intersect_domain(domain).reverse().apply_range(coordinate.as_map()))
    info = dim.inner_of
    block = [k for k, p in enumerate(outer) if info is not None and p.name == info.outer]
    regular = info is not None and not info.tail.balanced and info.tail.mode != "shift"
    if info is not None and block and regular:
        anchor = _anchor(outer[block[0]].coords[statement], coordinate, info.factor)
        if anchor is not None:
            space = isl.LocalSpace.from_space(values.domain().get_space())
            number = isl.PwAff.from_aff(isl.Aff.var_on_domain(space, SET, block[0]))
            start = number.scale_val(isl.Val(info.factor))
            start = start.add(anchor.insert_domain(values.domain().get_space()))
            return _Range(start, info.factor, values)
    within = [k for k, p in enumerate(before) if info is not None and p.name == info.outer]
    if info is not None and within and not info.tail.balanced:
        # Blocks of a dimension: unrolled vectors, say.
        number = before[within[0]].coords[statement]
        anchor = _anchor(number, coordinate, info.factor)
        if anchor is not None:
            begin: isl.PwAff | None = anchor.insert_domain(values.domain().get_space())
        else:
            here = key.intersect_domain(domain)
            begin = _first_of_blocks(number, coordinate, info.factor, here)
        if begin is not None:
            # A phase, say, takes one of the places in each block.
            block_of = number.scale_val(isl.Val(info.factor))
            taken = key.intersect_domain(domain).reverse()
            taken = coalesced(taken.apply_range(coordinate.sub(block_of).as_map()))
            room = largest_spread(taken)
            few = room is not None and room < info.factor
            if few and room is not None:
                _, first = _steady(taken, fixed, room)
                return _Range(first, room, values, None, within[0], info.factor)
            return _Range(begin, info.factor, values, None, within[0], info.factor)
    extent = largest_spread(values)
    if extent is None or extent > MOST_ITERATIONS:
        raise CannotScan(statement, dim.name)
    text = None
    if info is not None and block and info.tail.balanced:
        text = _balanced(values, block[0], info.factor, sizes)
    if info is not None and block and info.tail.mode == "shift":
        text = _shifted(values, block[0], info.factor, sizes)
    if text is not None:
        return _Range(plain_start(values), extent, values, text)
    steady, first = _steady(values, fixed, MOST_ITERATIONS)
    return _Range(first, extent if steady is values else largest_spread(steady) or extent, values)


def _steady(values: isl.Map, fixed: int | None, most: int) -> tuple[isl.Map, isl.PwAff]:
    """The values that any iteration of the loops behind the first `fixed` takes, where they spread
    over no more than `most`, else those of each iteration; and where they start."""
    start = plain_start(values)
    depth = values.dim(isl.dim_type.in_)
    if fixed is None or not start.involves_dims(isl.dim_type.in_, fixed, depth - fixed):
        return values, start
    every = coalesced(values.project_out(isl.dim_type.in_, fixed, depth - fixed))
    spread = largest_spread(every)
    if spread is None or spread > most:
        return values, start
    every = every.insert_dims(isl.dim_type.in_, fixed, depth - fixed)
    return every, plain_start(every)


def _balanced(
    values: isl.Map, block: int, factor: int, sizes: Sequence[Expr]
) -> tuple[Expr, Expr] | None:
    """Start and count of a block, where the last two blocks share the rest.

    All blocks but the last start at anchor + factor * block, the last one at or before that.
    None where that is not so: the blocks were shifted, or depend on other loops.
    """
    depth = values.dim(isl.dim_type.in_)
    blocks = (
        values.domain().project_out(SET, block + 1, depth - block - 1).project_out(SET, 0, block)
    )
    taken = values.range()
    first, last = taken.dim_min(0), taken.dim_max(0)
    final = values.lexmin().range().dim_max(0)  # where the last block starts
    if not _is_balanced(values, block, factor, (first, last, final, blocks.dim_max(0))):
        return None

    known = values.params()

    def text(value: isl.PwAff) -> Expr:
        return from_pw_aff(value.gist_params(known), (), sizes)

    number, anchor, end = Var(f"c{block}"), text(first), text(final)
    regular = add(anchor, scale(factor, number))
    rest = minimum(const(factor), sub(end, regular))
    is_last = compare("ge", number, text(blocks.dim_max(0)))
    count = simplify(Select(is_last, add(sub(text(last), end), const(1)), rest, INDEX))
    return minimum(regular, end), count


def _shifted(
    values: isl.Map, block: int, factor: int, sizes: Sequence[Expr]
) -> tuple[Expr, Expr] | None:
    """Start and count of a block, where the last one starts early; None where that is not so."""
    space, known = values.domain().get_space(), values.params()
    taken = values.range()
    first, last = taken.dim_min(0), taken.dim_max(0)
    low, high = first.insert_domain(space), last.insert_domain(space)
    number = isl.PwAff.from_aff(isl.Aff.var_on_domain(isl.LocalSpace.from_space(space), SET, block))
    final = high.add_constant_val(isl.Val(1 - factor))
    start = low.add(number.scale_val(isl.Val(factor))).min(final).max(low)
    end = start.add_constant_val(isl.Val(factor - 1)).min(high)
    said = isl.Map.universe(values.get_space())
    said = said.lower_bound_multi_pw_aff(isl.MultiPwAff.from_pw_aff(start))
    said = said.upper_bound_multi_pw_aff(isl.MultiPwAff.from_pw_aff(end))
    if not said.intersect_domain(values.domain()).is_equal(values):
        return None
    lo = from_pw_aff(first.gist_params(known), (), sizes)
    hi = from_pw_aff(last.gist_params(known), (), sizes)
    regular = add(lo, scale(factor, Var(f"c{block}")))
    count = minimum(const(factor), add(sub(hi, lo), const(1)))
    return maximum(lo, minimum(regular, sub(hi, const(factor - 1)))), count


def _is_balanced(values: isl.Map, block: int, factor: int, ends: tuple[isl.PwAff, ...]) -> bool:
    """Whether each block holds what the expressions of `_balanced` say, and without gaps."""
    space = values.domain().get_space()
    first, last, final, top = (end.insert_domain(space) for end in ends)
    number = isl.PwAff.from_aff(isl.Aff.var_on_domain(isl.LocalSpace.from_space(space), SET, block))
    regular = first.add(number.scale_val(isl.Val(factor)))
    low = regular.min(final)
    usual = regular.add_constant_val(isl.Val(factor - 1)).min(final.add_constant_val(isl.Val(-1)))
    in_last = number.ge_set(top)
    high = last.intersect_domain(in_last).union_add(usual.intersect_domain(in_last.complement()))
    said = isl.Map.universe(values.get_space())
    said = said.lower_bound_multi_pw_aff(isl.MultiPwAff.from_pw_aff(low))
    said = said.upper_bound_multi_pw_aff(isl.MultiPwAff.from_pw_aff(high))
    return bool(said.intersect_domain(values.domain()).is_equal(values))


def _first_of_blocks(
    block: isl.PwAff, coordinate: isl.PwAff, factor: int, key: isl.Map
) -> isl.PwAff | None:
    """As `_anchor`, where the blocks are counted from a coordinate that the outer loops choose."""
    offset = coordinate.sub(block.scale_val(isl.Val(factor)))
    found = coalesced(key.reverse().apply_range(offset.as_map()))
    spread = largest_spread(found)
    return plain_start(found) if spread is not None and spread <= factor else None


def _anchor(block: isl.PwAff, coordinate: isl.PwAff, factor: int) -> isl.PwAff | None:
    """The first coordinate of block 0: coordinate - factor * block spans anchor..+factor."""
    offset = coordinate.sub(block.scale_val(isl.Val(factor)))
    seen = offset.as_map().range()
    spread = isl.Map.from_domain_and_range(seen, seen).deltas()
    most = spread.dim_max_val(0)
    if spread.is_empty() or not most.is_int() or most.to_python() >= factor:
        return None  # the block was reversed, say
    pieces = coalesced(seen.dim_min(0)).get_pieces()
    return isl.PwAff.from_aff(pieces[0][1]) if len(pieces) == 1 else None


def _from_start(absolute: isl.Set, depth: int, ranges: Sequence[_Range]) -> isl.Map:
    """{ [c, x] -> [c, x - start(c)] }"""
    space = absolute.get_space()
    local = isl.LocalSpace.from_space(space)
    result = isl.Map.from_domain(isl.Set.universe(space))
    outer = isl.Map.identity(space.map_from_set()).project_out(isl.dim_type.out, depth, len(ranges))
    for position in range(depth + len(ranges)):
        value = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, position))
        if position >= depth:
            r = ranges[position - depth]
            if r.block is None:
                value = value.sub(_after(outer, r.start))
            else:
                number = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, depth + r.block))
                value = value.sub(number.scale_val(isl.Val(r.factor)))
                value = value.sub(_after(outer, r.start))
        result = result.flat_range_product(value.as_map())
    return result


def _after(outer: isl.Map, function: isl.PwAff) -> isl.PwAff:
    """The function of outer coordinates as one of all coordinates."""
    return function.pullback_pw_multi_aff(isl.PwMultiAff.from_map(outer))


# ---------------------------------------------------------------- which iterations run


def _counts(
    scanned: isl.Set,
    outside: isl.Set,
    ranges: Sequence[_Range],
    names: Sequence[Expr],
    sizes: Sequence[Expr],
) -> tuple[list[Expr | None], Expr | None, Expr | None]:
    """For each dimension how many iterations run (None: all), a guard for the rest, and where
    the guard always holds."""
    depth = len(names) - len(ranges)
    known = outside.insert_dims(SET, depth, len(ranges))
    for k, r in enumerate(ranges):
        known = known.lower_bound_val(SET, depth + k, isl.Val(0))
        known = known.upper_bound_val(SET, depth + k, isl.Val(r.extent - 1))
    rest = coalesced(scanned.gist(known))
    if rest.plain_is_universe():
        return [None] * len(ranges), None, None
    basics = rest.get_basic_sets()
    if len(basics) > 1:
        # Parts that differ in what is known alone: their common bounds say all.
        hull = rest.simple_hull().to_set()
        if hull.intersect(known).is_equal(scanned.intersect(known)):
            rest = coalesced(hull.gist(known))
            basics = rest.get_basic_sets()
    single = None
    if len(basics) == 1 and not any(r.text for r in ranges):
        single = _read_off(basics[0], ranges, depth, names, sizes)
    if single is not None and not single[1]:
        return single[0], None, None
    box = _box(scanned, outside, ranges, depth, names, sizes)
    if box is not None:
        return box, None, None
    if single is not None:
        guards, always = zip(*single[1], strict=True)
        everywhere = None if None in always else conjunction(tuple(a for a in always if a))
        return single[0], conjunction(guards), everywhere
    return [None] * len(ranges), from_set(rest, names, sizes), None


def _read_off(
    rest: isl.BasicSet,
    ranges: Sequence[_Range],
    depth: int,
    names: Sequence[Expr],
    sizes: Sequence[Expr],
) -> tuple[list[Expr | None], list[tuple[Expr, Expr | None]]]:
    """Upper bounds of one dimension become its count; what else there is comes second, each
    condition with the one under which it holds in all iterations."""
    bounds: list[list[Expr]] = [[] for _ in ranges]
    others: list[tuple[Expr, Expr | None]] = []
    for constraint in rest.get_constraints():
        where = _bounded_dim(constraint, depth, len(ranges))
        if where is None:
            condition = from_constraint(constraint, names, sizes)
            others.append((condition, _always(constraint, ranges, depth, names, sizes)))
        else:
            bound = constraint.get_bound(SET, depth + where).floor()
            bounds[where].append(add(from_aff(bound, names, sizes), const(1)))
    counts = [
        minimum(const(r.extent), *b) if b else None for r, b in zip(ranges, bounds, strict=True)
    ]
    return counts, others


def _always(
    constraint: isl.Constraint,
    ranges: Sequence[_Range],
    depth: int,
    names: Sequence[Expr],
    sizes: Sequence[Expr],
) -> Expr | None:
    """The constraint at its worst over all iterations, where that has one form."""
    if constraint.is_equality() or constraint.dim(isl.dim_type.div) > 0:
        return None
    worst = constraint.get_aff()
    for k, r in enumerate(ranges):
        factor = int(worst.get_coefficient_val(isl.dim_type.in_, depth + k).to_python())
        worst = worst.set_coefficient_val(isl.dim_type.in_, depth + k, isl.Val(0))
        worst = worst.add_constant_val(isl.Val(min(0, factor * (r.extent - 1))))
    return compare("ge", from_aff(worst, names, sizes), const(0))


def _bounded_dim(constraint: isl.Constraint, depth: int, dims: int) -> int | None:
    """The one dimension that a constraint bounds above by outer coordinates, if it does that."""
    involved = [k for k in range(dims) if constraint.involves_dims(SET, depth + k, 1)]
    if len(involved) != 1 or constraint.dim(isl.dim_type.div) > 0:
        return None
    (dim,) = involved
    if constraint.is_equality():
        # Only the first iteration: the same as a count of one.
        return dim if constraint.get_bound(SET, depth + dim).plain_is_zero() else None
    return dim if constraint.is_upper_bound(SET, depth + dim) else None


def _box(
    scanned: isl.Set,
    outside: isl.Set,
    ranges: Sequence[_Range],
    depth: int,
    names: Sequence[Expr],
    sizes: Sequence[Expr],
) -> list[Expr | None] | None:
    """Counts as piecewise functions, where what runs is the product of 0..count."""
    if any(r.block is not None for r in ranges):
        return None
    product = outside.insert_dims(SET, depth, len(ranges))
    space = product.get_space()
    local = isl.LocalSpace.from_space(space)
    outer = isl.Map.identity(space.map_from_set()).project_out(isl.dim_type.out, depth, len(ranges))
    counts: list[Expr | None] = []
    for k, r in enumerate(ranges):
        last = r.values.lexmax_pw_multi_aff().get_at(0)
        length = coalesced(last.sub(r.start).gist(outside))  # one less than the count
        if length.n_piece() > MOST_CASES:
            return None
        here = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, depth + k))
        product = product.lower_bound_val(SET, depth + k, isl.Val(0))
        product = product.intersect(here.le_set(_after(outer, last.sub(r.start))))
        if r.text is not None:
            count = r.text[1]
        else:
            count = add(from_pw_aff(length, names[:depth], sizes), const(1))
        counts.append(minimum(const(r.extent), count))
    return counts if product.is_equal(scanned) else None
