"""The statements of a final program, each with what it stands for in the base.

Shown on the way: instances stand for instances of the base, values are the same but for where they
are read from, copies only copy, and subscripts say what their maps say and stay inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import islpy as isl

from tdsl.ir.kernel import Expr
from tdsl.polyhedral.lastwrites import Clock
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Access, Program, Stmt
from tdsl.polyhedral.samevalue import Copied, OtherValue, ReadPair, copied, read_pairs, says_so

IN, OUT = isl.dim_type.in_, isl.dim_type.out
Origins = Mapping[str, tuple[Stmt, isl.Map]]
"""Statement of the final program -> its base statement, and its instances -> those of it."""


@dataclass(frozen=True)
class ReadOf:
    """A read of the final program by instances that read in the base too."""

    stmt: Stmt
    final: Access
    base: Access
    inside: isl.Map  # of `final`: where the base reads


@dataclass(frozen=True)
class Padded:
    """A read where the base has a constant."""

    stmt: Stmt
    final: Access
    inside: isl.Map
    constant: Expr


@dataclass
class Matched:
    """copies: what each copying statement moves; changed: statements that are not those of the
    base."""

    origins: dict[str, tuple[Stmt, isl.Map]] = field(default_factory=dict)
    copies: dict[str, Copied] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    reads: list[ReadOf] = field(default_factory=list)
    padded: list[Padded] = field(default_factory=list)


def matched(base: Program, final: Program, order: Clock) -> Matched:
    """Raises OtherValue where a statement stands for none of the base. `order`: of `final`."""
    matcher = _Matcher(base, final, Matched())
    tuples = {s.tuple_name for s in final.statements.values()}
    if len(tuples) != len(final.statements):
        raise OtherValue("two statements have instances of one name")
    for stmt in final.statements.values():
        if not order.runs(stmt.name):
            raise OtherValue(f"{stmt.name} has no place")
        if stmt.copies is not None:
            matcher.copy(stmt)
        else:
            matcher.statement(stmt)
    for name, array in base.arrays.items():
        if array.is_argument and (
            name not in final.arrays or final.arrays[name].role != array.role
        ):
            raise OtherValue(f"{name} is no argument any more")
    return matcher.found


@dataclass(frozen=True)
class _Matcher:
    base: Program
    final: Program
    found: Matched

    def copy(self, stmt: Stmt) -> None:
        self.found.copies[stmt.name] = copied(self.final, stmt)
        self.found.changed.append(stmt.name)
        self._written_as_said(stmt)
        for access in stmt.reads:
            self._said(stmt, access)

    def statement(self, stmt: Stmt) -> None:
        was = self.base.statements.get(stmt.origin.statement if stmt.origin else stmt.name)
        if was is None:
            raise OtherValue(f"nothing tells what {stmt.name} stands for")
        if was is stmt:
            origin = isl.Map.identity(stmt.domain.get_space().map_from_set())
            self.found.origins[stmt.name] = was, origin.intersect_domain(stmt.domain)
            self.found.reads += [ReadOf(stmt, a, a, a.map) for a in stmt.reads]
            return
        origin = self._origin(stmt, was)
        self.found.origins[stmt.name] = was, origin
        self.found.changed.append(stmt.name)
        if not _alike(stmt.write, was.write):
            self._written_as_said(stmt)
        given = origin if stmt.origin is not None else None
        for pair in read_pairs(self.base, was, self.final, stmt, given):
            self._pair(stmt, was, origin, pair)

    def _origin(self, stmt: Stmt, was: Stmt) -> isl.Map:
        if stmt.origin is None:
            if stmt.indices != was.indices:
                raise OtherValue(f"nothing tells what the instances of {stmt.name} stand for")
            same = isl.Map.identity(stmt.domain.get_space().map_from_set())
            result = same.set_tuple_name(OUT, was.tuple_name).intersect_domain(stmt.domain)
        else:
            result = stmt.origin.map.intersect_domain(stmt.domain)
        if not result.is_single_valued() or not stmt.domain.is_subset(result.domain()):
            raise OtherValue(f"nothing tells what some instances of {stmt.name} stand for")
        if not result.range().is_subset(was.domain):
            raise OtherValue(f"instances of {stmt.name} stand for none of {was.name}")
        return coalesced(result.detect_equalities())

    def _written_as_said(self, stmt: Stmt) -> None:
        if stmt.write.exact and not (
            stmt.write.map.is_single_valued() and stmt.domain.is_subset(stmt.write.map.domain())
        ):
            raise OtherValue(f"{stmt.name} writes no one element in each instance")
        self._said(stmt, stmt.write)

    def _said(self, stmt: Stmt, access: Access) -> None:
        if not says_so(self.final, stmt, access):
            raise OtherValue(
                f"{stmt.name} touches elements of {access.array} that its subscripts do not name, "
                "or that lie outside"
            )

    def _pair(self, stmt: Stmt, was: Stmt, origin: isl.Map, pair: ReadPair) -> None:
        final, base = pair.final, pair.base
        here = None if final is None or final.map.is_empty() else final
        there = None if base is None else origin.intersect_range(base.map.domain()).domain()
        if here is None:
            if base is not None and there is not None and not there.is_empty():
                raise OtherValue(f"{stmt.name} does not read {base.array} where {was.name} does")
            return
        if base is None or not _alike(here, base):
            self._said(stmt, here)
        if base is not None and here.exact != base.exact:
            raise OtherValue(f"data decide what {stmt.name} reads of {here.array}")
        points = here.map.domain()
        if there is not None and not there.is_subset(points) and base is not None:
            raise OtherValue(f"{stmt.name} does not read {base.array} where {was.name} does")
        inside = here.map
        if there is None or not points.is_subset(there):
            if pair.padding is None:
                raise OtherValue(f"{stmt.name} reads {here.array} where {was.name} does not")
            if not here.exact:
                raise OtherValue(f"data decide what {stmt.name} reads of {here.array}")
            beyond = (
                here.map if there is None else here.map.intersect_domain(points.subtract(there))
            )
            self.found.padded.append(Padded(stmt, here, beyond, pair.padding))
            inside = here.map if there is None else here.map.intersect_domain(there)
        if base is not None:
            self.found.reads.append(ReadOf(stmt, here, base, inside))


def _alike(one: Access, other: Access) -> bool:
    return one.map is other.map and one.subscript == other.subscript
