"""The parts of a program that value flow is asked about: which arrays hold the same elements, and
which may be left to the order of accesses.

Two arrays hold the same elements where a copy moves some from one to the other (`pack`, `stage`):
C and C_s make one group. A group is asked about as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from tdsl.polyhedral.dependences import compute, relaxed
from tdsl.polyhedral.legality import check
from tdsl.polyhedral.model import nest_indices
from tdsl.polyhedral.program import Access, Program, Stmt
from tdsl.polyhedral.tree import Loop, Node

SET, IN, OUT = isl.dim_type.set, isl.dim_type.in_, isl.dim_type.out
INITIAL = ("in", "inout", "const", "table")  # have content before the first write


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
        fronts = self._fronts(stmt, array)
        if not fronts:
            return map_
        result = isl.Map.from_domain(isl.Set.universe(stmt.domain.get_space()))
        for front in fronts:
            result = result.flat_range_product(front.as_map())
        name = map_.get_tuple_name(OUT)
        return result.flat_range_product(map_.reset_tuple_id(OUT)).set_tuple_name(OUT, name)

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


def accesses(stmt: Stmt, array: str) -> list[Access]:
    """The reads and writes of one array, the write first."""
    return [a for a in (stmt.write, *stmt.reads) if a.array == array]


def unmoved(base: Program, final: Side, array: str) -> bool:
    """Whether all statements that touch the array are those of the base, with the same instances
    and elements, and its memory is what it was."""
    if array not in base.arrays or base.arrays[array].local is not None or final.homes.get(array):
        return False
    program = final.program
    if program.arrays[array].role != base.arrays[array].role:
        return False
    names = dict.fromkeys((*base.statements, *program.statements))
    return all(_same(base.statements.get(n), program.statements.get(n), array) for n in names)


def _same(was: Stmt | None, now: Stmt | None, array: str) -> bool:
    mine = [] if now is None else accesses(now, array)
    others = [] if was is None else accesses(was, array)
    if not mine and not others:
        return True
    if was is None or now is None or len(mine) != len(others):
        return False
    if now.origin is not None or now.copies is not None or now.op != was.op:
        return False
    writes = [now.write.array == array, was.write.array == array]
    return len(set(writes)) == 1 and all(map(_equal, mine, others))


def _equal(one: Access, other: Access) -> bool:
    return one.map is other.map or bool(
        one.map.has_equal_space(other.map) and one.map.is_equal(other.map)
    )


def in_order(
    base: Program,
    base_tree: Node,
    final: Program,
    final_tree: Node,
    array: str,
    reassociate: frozenset[str],
    strict_fp: bool,
) -> bool:
    """Whether everything that touches an unmoved array keeps its order.

    Then all its reads see what they saw: of any two accesses to one element, one a write, the
    first is still first, but for terms of one reduction that may change theirs. So no value flow
    has to be computed, and it does not matter which elements data decide.
    """
    found = relaxed(compute(base, base_tree, [array]), base, reassociate, strict_fp)
    return not check(final, final_tree, found)
