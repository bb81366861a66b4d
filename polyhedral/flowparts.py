"""The parts of a program that value flow is asked about: which arrays hold the same elements, and
which may be left to the order of accesses.

Two arrays hold the same elements where a copy moves some from one to the other (`pack`, `stage`):
C and C_s make one group. A group is asked about as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from tdsl.polyhedral.dependences import compute, relaxed
from tdsl.polyhedral.flowmatch import Origins
from tdsl.polyhedral.legality import check
from tdsl.polyhedral.model import nest_indices
from tdsl.polyhedral.program import Access, Program, Stmt, accesses_to
from tdsl.polyhedral.tree import Loop, Node

SET, IN, OUT = isl.dim_type.set, isl.dim_type.in_, isl.dim_type.out


class Elsewhere(Exception):
    """A statement uses an array outside the loop in whose iterations it is new."""


@dataclass(frozen=True)
class Side:
    """One of the two programs. homes: array -> loops in each of whose iterations it is new."""

    program: Program
    homes: Mapping[str, Sequence[Loop]]

    def place(self, stmt: Stmt, access: Access, map_: isl.Map | None = None) -> isl.Map:
        """Instance -> element, preceded by the numbers of the iteration that it is private to."""
        return self.at(stmt, access.array, access.map if map_ is None else map_)

    def at(self, stmt: Stmt, array: str, map_: isl.Map) -> isl.Map:
        """The same for any map from instances to elements of the array."""
        front = self.front(stmt, array)
        if front is None:
            return map_
        name = map_.get_tuple_name(OUT)
        return front.flat_range_product(map_.reset_tuple_id(OUT)).set_tuple_name(OUT, name)

    def front(self, stmt: Stmt, array: str) -> isl.Map | None:
        """Instance -> the numbers of the iteration that the array is new in; None: in none."""
        fronts = self._fronts(stmt, array)
        if not fronts:
            return None
        result = isl.Map.from_domain(isl.Set.universe(stmt.domain.get_space()))
        for front in fronts:
            result = result.flat_range_product(front.as_map())
        return result

    def _fronts(self, stmt: Stmt, array: str) -> list[isl.PwAff]:
        homes = self.homes.get(array, ())
        if any(stmt.name not in loop.coords for loop in homes):
            raise Elsewhere(f"{stmt.name} uses {array} outside the loop that it is new in")
        result = [loop.coords[stmt.name] for loop in homes]
        local = self.program.arrays[array].local
        if local is not None:
            names = nest_indices(self.program.kernel).get(stmt.init_of or stmt.name, ())
            if local not in names or not set(names) <= set(stmt.indices):
                raise Elsewhere(f"{stmt.name} uses {array} outside the loop that it is new in")
            space = isl.LocalSpace.from_space(stmt.domain.get_space())
            for name in names[: names.index(local) + 1]:
                column = stmt.indices.index(name)
                aff = isl.Aff.var_on_domain(space, SET, column)
                result.append(isl.PwAff.from_aff(aff))
        return result


# ---------------------------------------------------------------- groups of arrays


def groups(final: Program) -> tuple[frozenset[str], ...]:
    """The arrays of the final program by what copies connect, in order of their first one."""
    leader = {name: name for name in final.arrays}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for stmt in final.statements.values():
        if stmt.copies is not None:
            leader[find(stmt.write.array)] = find(stmt.copies)
    found: dict[str, set[str]] = {}
    for name in final.arrays:
        found.setdefault(find(name), set()).add(name)
    return tuple(frozenset(g) for g in found.values())


def unmoved(base: Program, final: Side, origins: Origins, array: str) -> dict[str, str] | None:
    """The statements that touch an array, base -> final, where they are one to one, with the same
    elements in each instance, and the array's memory is what it was. Else None."""
    program = final.program
    if array not in base.arrays or base.arrays[array].local is not None or final.homes.get(array):
        return None
    if program.arrays[array].role != base.arrays[array].role:
        return None
    result: dict[str, str] = {}
    for now in program.statements.values():
        if accesses_to(now, array):
            if now.copies is not None:
                return None
            was, origin = origins[now.name]
            if was.name in result or not _same(was, now, origin, array):
                return None
            result[was.name] = now.name
    touching = {s.name for s in base.statements.values() if accesses_to(s, array)}
    return result if touching == result.keys() else None


def _same(was: Stmt, now: Stmt, origin: isl.Map, array: str) -> bool:
    mine, others = accesses_to(now, array), accesses_to(was, array)
    if now is was:
        return True
    if len(mine) != len(others) or (now.write.array == array) != (was.write.array == array):
        return False
    whole = now.origin is None or was.domain.is_subset(origin.range())
    return (
        whole
        and origin.is_injective()
        and all(_equal(a, b, origin) for a, b in zip(mine, others, strict=True))
    )


def _equal(now: Access, was: Access, origin: isl.Map) -> bool:
    if now.map is was.map:
        return True
    there = origin.apply_range(was.map)
    return bool(now.map.has_equal_space(there) and now.map.is_equal(there))


def in_order(
    base: Program,
    base_tree: Node,
    final: Program,
    final_tree: Node,
    array: str,
    names: Mapping[str, str],
    origins: Origins,
    reassociate: frozenset[str],
    strict_fp: bool,
) -> bool:
    """Whether everything that touches an unmoved array keeps its order. names: as by `unmoved`.

    Then all its reads see what they saw: of any two accesses to one element, one a write, the
    first is still first, but for terms of one reduction that may change theirs. So no value flow
    has to be computed, and it does not matter which elements data decide.
    """
    found = relaxed(compute(base, base_tree, [array]), base, reassociate, strict_fp)
    moved = []
    for d in found:
        source, sink = names[d.source], names[d.sink]
        map_ = origins[source][1].apply_range(d.map).apply_range(origins[sink][1].reverse())
        moved.append(replace(d, source=source, sink=sink, map=map_))
    return not check(final, final_tree, moved)
