"""All reads of a final program, each with the read of the base that it stands for.

A read is a set of points: the instances that read, with the element among their dimensions where
data decide it. The statements of the final program are compared with those of the base on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import islpy as isl

from tdsl.ir.kernel import Expr
from tdsl.polyhedral.flowparts import INITIAL, Side
from tdsl.polyhedral.lastwrites import Clock, Event
from tdsl.polyhedral.program import Access, Stmt
from tdsl.polyhedral.samevalue import Copied, OtherValue, ReadPair, copied, read_pairs, says_so

SET, IN, OUT = isl.dim_type.set, isl.dim_type.in_, isl.dim_type.out


@dataclass(frozen=True)
class Read:
    """One read of the final program. kind: "read"; "own", the element that an update updates;
    "copy"; "end", of what an argument holds at the end; "padding", where the base has `constant`.

    array: where it reads; event: the points; at: point -> instance (None at the end).
    of, element: the base array and its element, as a place of the base; None for copies, which
    say it by what they read.
    base: the same read there, and `to`: point -> point of that.
    """

    kind: str
    stmt: Stmt | None
    array: str
    event: Event
    at: isl.Map | None
    of: str | None = None
    element: isl.Map | None = None
    base: Event | None = None
    base_stmt: Stmt | None = None
    base_at: isl.Map | None = None
    to: isl.Map | None = None
    constant: Expr | None = None

    @property
    def key(self) -> str:
        return self.event.key


@dataclass
class Reads:
    """reads: all; origins: statement -> its base statement and the map there; copies: what each
    copying statement moves; changed: the statements that are not those of the base."""

    reads: list[Read] = field(default_factory=list)
    origins: dict[str, tuple[Stmt, isl.Map]] = field(default_factory=dict)
    copies: dict[str, Copied] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)


def matched(old: Side, before: Clock, new: Side, after: Clock) -> Reads:
    """Raises OtherValue where a statement is none of the base, and Elsewhere."""
    result = Reads()
    maker = _Maker(old, before, new, after, result)
    for stmt in new.program.statements.values():
        if not after.runs(stmt.name):
            raise OtherValue(f"{stmt.name} has no place")
        if stmt.copies is not None:
            maker.copy(stmt)
        else:
            maker.statement(stmt)
    for name, array in old.program.arrays.items():
        if array.role in ("out", "inout"):
            maker.end(name)
    return result


@dataclass
class _Maker:
    old: Side
    before: Clock
    new: Side
    after: Clock
    result: Reads

    def copy(self, stmt: Stmt) -> None:
        moved = copied(self.new.program, stmt)
        self._written_as_said(stmt)
        for access in stmt.reads:
            self._said(stmt, access)
        self.result.copies[stmt.name] = moved
        self.result.changed.append(stmt.name)
        if stmt.copies is not None:
            event, at = self._event(stmt, self.new.at(stmt, stmt.copies, moved.read))
            self.result.reads.append(Read("copy", stmt, stmt.copies, event, at))

    def statement(self, stmt: Stmt) -> None:
        was = self.old.program.statements.get(stmt.origin.statement if stmt.origin else stmt.name)
        if was is None:
            raise OtherValue(f"nothing tells what {stmt.name} stands for")
        if was is stmt:
            origin = isl.Map.identity(stmt.domain.get_space().map_from_set())
        else:
            origin = self._origin(stmt, was)
            self.result.changed.append(stmt.name)
        self.result.origins[stmt.name] = was, origin
        if not _alike(stmt.write, was.write):
            self._written_as_said(stmt)
        for pair in read_pairs(
            self.old.program, was, self.new.program, stmt, origin if stmt.origin else None
        ):
            self._pair(stmt, was, origin, pair)
        if stmt.is_update:
            event, at = self._event(stmt, self.new.place(stmt, stmt.write))
            element = at.apply_range(origin).apply_range(self.old.place(was, was.write))
            self.result.reads.append(
                Read("own", stmt, stmt.write.array, event, at, was.write.array, element)
            )

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
        return result.coalesce()

    def _written_as_said(self, stmt: Stmt) -> None:
        if stmt.write.exact and not (
            stmt.write.map.is_single_valued() and stmt.domain.is_subset(stmt.write.map.domain())
        ):
            raise OtherValue(f"{stmt.name} writes no one element in each instance")
        self._said(stmt, stmt.write)

    def _said(self, stmt: Stmt, access: Access) -> None:
        if not says_so(self.new.program, stmt, access):
            raise OtherValue(
                f"{stmt.name} touches elements of {access.array} that its subscripts do not name, "
                "or that lie outside"
            )

    def _pair(self, stmt: Stmt, was: Stmt, origin: isl.Map, pair: ReadPair) -> None:
        final, base = pair.final, pair.base
        if final is base and stmt is was and final is not None:
            self._read(stmt, was, origin, final, final)
            return
        if base is None or final is None:
            if base is not None and not origin.intersect_range(base.map.domain()).is_empty():
                raise OtherValue(f"{stmt.name} does not read {base.array} where {was.name} does")
            if final is not None and not final.map.is_empty():
                if pair.padding is None:
                    raise OtherValue(f"{stmt.name} reads {final.array} where {was.name} does not")
                self._said(stmt, final)
                self._padding(stmt, final, final.map, pair.padding)
            return
        if not _alike(final, base):
            self._said(stmt, final)
        there = origin.intersect_range(base.map.domain()).domain()
        here = final.map.domain()
        if not there.is_subset(here):
            raise OtherValue(f"{stmt.name} does not read {base.array} where {was.name} does")
        if not here.is_subset(there):
            if pair.padding is None:
                raise OtherValue(f"{stmt.name} reads {final.array} where {was.name} does not")
            beyond = final.map.intersect_domain(here.subtract(there))
            self._padding(stmt, final, beyond, pair.padding)
        self._read(stmt, was, origin, final, base)

    def _padding(self, stmt: Stmt, access: Access, map_: isl.Map, constant: Expr) -> None:
        if not access.exact:
            raise OtherValue(f"data decide what {stmt.name} reads of {access.array}")
        event, at = self._event(stmt, self.new.place(stmt, access, map_))
        read = Read("padding", stmt, access.array, event, at, constant=constant)
        self.result.reads.append(read)

    def _read(self, stmt: Stmt, was: Stmt, origin: isl.Map, final: Access, base: Access) -> None:
        if final.exact != base.exact:
            raise OtherValue(f"data decide what {stmt.name} reads of {final.array}")
        inside = final.map
        there = origin.intersect_range(base.map.domain()).domain()
        if not final.exact:
            self._read_any(stmt, was, origin, final, base)
            return
        if not there.is_equal(inside.domain()):
            inside = inside.intersect_domain(there)
        event, at = self._event(stmt, self.new.place(stmt, final, inside))
        element = at.apply_range(origin).apply_range(self.old.place(was, base))
        time = self.before.time(was)
        start = Event(_named(self.old.place(was, base), event.key), _named(time, event.key))
        base_at = isl.Map.identity(was.domain.get_space().map_from_set())
        base_at = base_at.set_tuple_name(IN, event.key)
        to = at.apply_range(origin).set_tuple_name(OUT, event.key)
        self.result.reads.append(
            Read("read", stmt, final.array, event, at, base.array, element, start, was, base_at, to)
        )

    def _read_any(
        self, stmt: Stmt, was: Stmt, origin: isl.Map, final: Access, base: Access
    ) -> None:
        """Data decide the element: each that may be read is a point. It is the same in the base
        where the array is and the subscript says the same."""
        name = final.array
        if name != base.array or self.new.homes.get(name) or self.old.program.arrays[name].local:
            raise OtherValue(f"data decide what {stmt.name} reads of {name}, which is moved")
        mine = origin.apply_range(base.map).intersect_domain(stmt.domain)
        if not mine.is_equal(final.map):
            raise OtherValue(f"data decide what {stmt.name} reads of {name}, which is moved")
        count = len(self.result.reads)
        key = f"R{count}"
        points, at, place = _spread(final.map, key)
        time = at.apply_range(self.after.time(stmt))
        event = Event(place.intersect_domain(points), time.intersect_domain(points))
        base_points, base_at, base_place = _spread(base.map, key)
        base_time = base_at.apply_range(self.before.time(was))
        start = Event(
            base_place.intersect_domain(base_points), base_time.intersect_domain(base_points)
        )
        to = at.apply_range(origin).apply_range(base_at.reverse())
        to = to.intersect(place.apply_range(base_place.reverse())).intersect_domain(points)
        self.result.reads.append(
            Read("read", stmt, name, event, at, base.array, event.place, start, was, base_at, to)
        )

    def end(self, name: str) -> None:
        """What the argument holds at the end."""
        if name not in self.new.program.arrays:
            raise OtherValue(f"{name} is gone")
        key = f"R{len(self.result.reads)}"
        extent = self.old.program.extents[name].intersect_params(self.old.program.context)
        place = isl.Map.identity(extent.get_space().map_from_set()).intersect_domain(extent)
        place = place.set_tuple_name(IN, key)
        points = place.domain()
        event = Event(place, self.after.end(points.get_space()).intersect_domain(points))
        start = Event(place, self.before.end(points.get_space()).intersect_domain(points))
        to = isl.Map.identity(points.get_space().map_from_set()).intersect_domain(points)
        self.result.reads.append(
            Read("end", None, name, event, None, name, place, start, None, None, to)
        )

    def _event(self, stmt: Stmt, place: isl.Map) -> tuple[Event, isl.Map]:
        """The instances that read, as points; and point -> instance."""
        key = f"R{len(self.result.reads)}"
        domain = place.domain()
        time = self.after.time(stmt).intersect_domain(domain)
        at = isl.Map.identity(domain.get_space().map_from_set()).intersect_domain(domain)
        return Event(_named(place, key), _named(time, key)), at.set_tuple_name(IN, key)


def _named(map_: isl.Map, key: str) -> isl.Map:
    return map_.set_tuple_name(IN, key)


def _spread(map_: isl.Map, key: str) -> tuple[isl.Set, isl.Map, isl.Map]:
    """{ i -> e } as points [i, e], with the way to either."""
    count = map_.dim(IN)
    points = map_.wrap().flatten().set_tuple_name(key)
    same = isl.Map.identity(points.get_space().map_from_set()).reset_tuple_id(OUT)
    first = same.project_out(OUT, count, points.dim(SET) - count)
    second = same.project_out(OUT, 0, count)
    if map_.has_tuple_name(IN):
        first = first.set_tuple_name(OUT, map_.get_tuple_name(IN))
    return points, first, second.set_tuple_name(OUT, map_.get_tuple_name(OUT))


def _alike(one: Access, other: Access) -> bool:
    return one.map is other.map and one.subscript == other.subscript


def initial(side: Side, array: str) -> bool:
    """Whether the array has content before anything writes it."""
    return array in side.program.arrays and side.program.arrays[array].role in INITIAL


Elements = Mapping[str, isl.Map]
