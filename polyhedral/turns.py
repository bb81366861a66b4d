"""Whether a copy's two innermost loops may be transposed in registers.

Rows of the source are loaded as vectors along one loop and stored, transposed, along the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from tdsl.ir.kernel import Array, Const
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.inits import coordinate_map
from tdsl.polyhedral.program import Access, Program, Stmt
from tdsl.polyhedral.tree import Loop


class CannotTurn(Exception):
    """Why the copy cannot be transposed, in words for the user, and what would help. along: the
    one of the two loops that goes along the rows of both arrays, so that there is nothing to do."""

    def __init__(self, reason: str, help: str | None = None, along: str | None = None) -> None:
        super().__init__(reason)
        self.help = help
        self.along = along


def check_copy(stmt: Stmt) -> None:
    """What is asked of the statement, whatever its loops. Raises CannotTurn."""
    if stmt.op != "define" or stmt.reduction:
        raise CannotTurn(f"{stmt.name} is no plain copy")
    if not stmt.reads:
        raise CannotTurn(f"{stmt.name} reads no array")
    if any(read.array == stmt.write.array for read in stmt.reads):
        raise CannotTurn(f"{stmt.name} reads {stmt.write.array}, which it writes")


@bounded("whether a copy can be transposed in registers")
def check_turn(program: Program, stmt: Stmt, path: Sequence[Loop]) -> None:
    """`path`: the loops around the statement; the two innermost ones are transposed.

    Raises CannotTurn.
    """
    check_copy(stmt)
    inner = [loop.name for loop in path[-2:]]
    written = [name for name in inner if _follows(program, stmt, stmt.write, path, name)]
    if len(written) != 1:
        raise CannotTurn(
            f"neither {inner[0]} nor {inner[1]} goes along the last dimension of "
            f"{stmt.write.array}, element by element"
        )
    along = next(name for name in inner if name not in written)
    for read in stmt.reads:
        if _follows(program, stmt, read, path, along):
            continue
        help = None
        if _follows(program, stmt, read, path, written[0]):
            help = f"both go along {written[0]}: vectorize {written[0]}"
        every = all(_follows(program, stmt, r, path, written[0]) for r in stmt.reads)
        raise CannotTurn(
            f"{along} does not go along the last dimension of {read.array}, element by element",
            help,
            written[0] if every else None,
        )
    outer = [loop.coords[stmt.name] for loop in path[:-2]]
    place = stmt.write.map.intersect_domain(stmt.domain)
    if outer:
        place = (
            coordinate_map(outer)
            .intersect_domain(stmt.domain)
            .flat_range_product(place.reset_tuple_id(isl.dim_type.out))
        )
    if not place.is_injective():
        raise CannotTurn(f"{stmt.name} writes an element more than once there")


def _follows(program: Program, stmt: Stmt, access: Access, path: Sequence[Loop], name: str) -> bool:
    """Whether the next iteration of a loop touches the next element in memory."""
    array = program.arrays[access.array]
    if not array.shape or not access.exact:
        return False
    pairs = isl.Map.universe(stmt.domain.get_space().map_from_set())
    for loop in path:
        here = loop.coords[stmt.name]
        there = here.add_constant_val(isl.Val(1)) if loop.name == name else here
        pairs = pairs.intersect(there.eq_map(here))
    pairs = pairs.intersect_domain(stmt.domain).intersect_range(stmt.domain)
    steps = pairs.apply_domain(access.map).apply_range(access.map).deltas()
    return bool(steps.is_subset(_next_in_memory(array, steps.get_space())))


def _next_in_memory(array: Array, space: isl.Space) -> isl.Set:
    """Differences of indices between an element and the next one in memory, as far as the extents
    are constants."""
    local = isl.LocalSpace.from_space(space)
    distance = isl.Constraint.alloc_equality(local).set_constant_val(isl.Val(-1))
    result = isl.Set.universe(space)
    stride: int | None = 1
    for dim in reversed(range(len(array.shape))):
        step = stride
        if array.strides is not None:
            given = array.strides[dim]
            step = int(given.value) if isinstance(given, Const) else None
        if step is None:
            result = result.fix_val(isl.dim_type.set, dim, isl.Val(0))
        else:
            distance = distance.set_coefficient_val(isl.dim_type.set, dim, isl.Val(step))
        match array.shape[dim]:
            case Const(value=extent) if stride is not None:
                stride *= int(extent)
            case _:
                stride = None
    return result.add_constraint(distance)
