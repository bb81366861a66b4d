"""Concrete instances out of isl sets, at the smallest sizes that have one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import islpy as isl

from tdsl.polyhedral.program import Dependence, Program, Stmt, Witness


@dataclass(frozen=True, order=True)
class Point:
    """A point of a set or pair of a map: the sizes first, so that points compare by them."""

    sizes: tuple[int, ...]
    values: tuple[int, ...]


def smallest(points: isl.Set, context: isl.Set) -> Point | None:
    """The lexicographically least (sizes, dimensions) in a set, wrapped maps included."""
    flat = points.intersect_params(context).flatten()
    sizes = flat.dim(isl.dim_type.param)
    moved = flat.move_dims(isl.dim_type.set, 0, isl.dim_type.param, 0, sizes)
    if moved.is_empty():
        return None
    point = moved.lexmin().sample_point()
    values = tuple(
        point.get_coordinate_val(isl.dim_type.set, d).to_python()
        for d in range(moved.dim(isl.dim_type.set))
    )
    return Point(values[:sizes], values[sizes:])


def witness(program: Program, dependence: Dependence, pairs: isl.Map) -> Witness | None:
    """The smallest pair of a part of a dependence, with the element that both touch."""
    found = smallest(pairs.wrap(), program.context)
    if found is None:
        return None
    source = program.statements[dependence.source]
    sink = program.statements[dependence.sink]
    split = len(source.indices)
    first, second = found.values[:split], found.values[split:]
    elements = _touched(source, dependence, found.sizes, first, True).intersect(
        _touched(sink, dependence, found.sizes, second, False)
    )
    element = smallest(elements, program.context)
    names = list(program.params)
    return Witness(
        dict(zip(names, found.sizes, strict=True)),
        first,
        second,
        None if element is None else element.values,
    )


def _touched(
    stmt: Stmt, dependence: Dependence, sizes: Sequence[int], values: Sequence[int], source: bool
) -> isl.Set:
    """The elements of the dependence's array that one instance touches at its end of it."""
    writes = dependence.kind == "output" or (dependence.kind == "flow") == source
    maps = [a.map for a in stmt.reads if a.array == dependence.array and not writes]
    if stmt.write.array == dependence.array and (writes or stmt.is_update):
        maps.append(stmt.write.map)
    result = None
    for each in maps:
        fixed = fix(each, sizes, values).range()
        result = fixed if result is None else result.union(fixed)
    assert result is not None, "a dependence has an access at either end"
    return result


def fix(access: isl.Map, sizes: Sequence[int], values: Sequence[int]) -> isl.Map:
    """The access of one instance at given sizes."""
    for position, size in enumerate(sizes):
        access = access.fix_val(isl.dim_type.param, position, isl.Val(size))
    for position, value in enumerate(values):
        access = access.fix_val(isl.dim_type.in_, position, isl.Val(value))
    return access


def least_sizes(program: Program) -> tuple[int, ...] | None:
    """The lexicographically least sizes that the assumptions allow."""
    found = smallest(isl.Set.from_params(program.context), program.context)
    return None if found is None else found.sizes
