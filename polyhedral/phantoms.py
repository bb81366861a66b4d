"""`tail overrun` on the terms of a sum: what lies behind the last one adds 0.

before: for kk in 0..min(4, K - 4 * kg) { S(kk) }        after: for kk in 0..4 { S(kk) }

The terms of the last group that are no instances read a packed copy, which holds 0 where no
instance reads it, so that their products are 0 whatever the other operand is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import islpy as isl

from tdsl.ir.kernel import Cast, Const, Expr, Read, Select
from tdsl.polyhedral.affine import NotAffine, pw_aff, region
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.model import scope_of
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Program, Stmt
from tdsl.polyhedral.tree import Loop, Node, loops_of

SET = isl.dim_type.set


@bounded("whether what lies behind a sum adds 0")
def adds_nothing(
    program: Program, tree: Node, statement: str, loop: Loop, reads: Sequence[Read]
) -> bool:
    """Whether one of the reads is 0 at all terms behind the end of the loop's last block."""
    assert loop.inner_of is not None
    stmt = program.statements[statement]
    around = loops_of(tree, statement)
    others = [x.coords[statement] for x in around if x is not loop]
    behind = _behind(program, stmt, loop, others, loop.inner_of.factor)
    if behind is None:
        return False
    return any(_is_zero(program, tree, stmt, read, behind) for read in reads)


def _behind(
    program: Program, stmt: Stmt, loop: Loop, others: Sequence[isl.PwAff], factor: int
) -> isl.Set | None:
    """The terms that complete each block and are no instances; None where that is no one index."""
    domain = stmt.domain.intersect_params(program.context)
    local = isl.LocalSpace.from_space(domain.get_space())
    variables = [
        isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, d)) for d in range(len(stmt.indices))
    ]
    coordinate = loop.coords[stmt.name]
    moving = [d for d, x in enumerate(variables) if coordinate.is_equal(x)]
    if len(moving) != 1:
        return None
    fixed = [x for d, x in enumerate(variables) if d != moving[0]]
    # (what else there is) -> the first term of the block -> all its terms.
    key = reduce(isl.Map.flat_range_product, (x.as_map() for x in (*fixed, *others)))
    key = key.intersect_domain(domain)
    first = key.reverse().apply_range(coordinate.as_map()).lexmin()
    block = isl.Map(f"{{ [s] -> [v] : s <= v < s + {factor} }}")
    terms = key.apply_range(first).apply_range(block)
    parts = [terms if d == moving[0] else x.as_map() for d, x in enumerate(variables)]
    points = reduce(isl.Map.flat_range_product, parts).intersect_domain(domain).range()
    return coalesced(points.set_tuple_name(domain.get_tuple_name()).subtract(domain))


def _is_zero(program: Program, tree: Node, stmt: Stmt, read: Read, behind: isl.Set) -> bool:
    """Whether a read is 0 at some points: a copy holds a constant 0 there."""
    writers = [s for s in program.statements.values() if s.write.array == read.array]
    if len(writers) != 1 or writers[0].copies is None or writers[0].is_update:
        return False
    (copy,) = writers
    elements = isl.Map.from_domain(behind)
    try:
        for index in read.indices:
            place = pw_aff(index, scope_of(program, stmt.name))
            elements = elements.flat_range_product(place.as_map())
    except NotAffine:
        return False
    elements = elements.intersect_domain(behind)
    elements = elements.set_tuple_name(
        isl.dim_type.out, copy.write.map.get_tuple_name(isl.dim_type.out)
    )
    filled = elements.apply_range(copy.write.map.reverse())
    for loop in loops_of(tree, stmt.name):
        if copy.name in loop.coords:
            mine, other = loop.coords[stmt.name], loop.coords[copy.name]
            filled = filled.intersect(mine.eq_map(other))
    if not behind.is_subset(filled.domain()):
        return False
    where = filled.range()
    return all(
        _zero(leaf) or where.is_disjoint(points)
        for leaf, points in _leaves(program, copy, copy.value, copy.domain)
    )


def _zero(leaf: Expr | None) -> bool:
    return isinstance(leaf, Const) and leaf.value == 0


def _leaves(
    program: Program, stmt: Stmt, value: Expr | None, points: isl.Set
) -> Iterator[tuple[Expr | None, isl.Set]]:
    """The arms of a value, each with the points that may take it."""
    match value:
        case Cast("convert", arg):
            yield from _leaves(program, stmt, arg, points)
        case Select(condition, then, other):
            chosen = region(condition, scope_of(program, stmt.name))
            yield from _leaves(program, stmt, then, points.intersect(chosen.may))
            yield from _leaves(program, stmt, other, points.subtract(chosen.must))
        case _:
            yield value, points
