"""All reads through a group of arrays, as sets of points, each with what it stands for.

A point is an instance that reads, with the element among its dimensions where data decide it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import islpy as isl

from tdsl.ir.kernel import Expr
from tdsl.polyhedral.flowmatch import Matched, Padded, ReadOf
from tdsl.polyhedral.flowparts import Side
from tdsl.polyhedral.lastwrites import Clock, Event
from tdsl.polyhedral.program import Stmt
from tdsl.polyhedral.samevalue import OtherValue

SET, IN, OUT = isl.dim_type.set, isl.dim_type.in_, isl.dim_type.out


@dataclass(frozen=True)
class InBase:
    """The read of the base that a read stands for.

    array, element: of the base, the element by the points of the read; event: points of the base
    (instances that read), `at`: such a point -> instance; `to`: point -> point of the base. The
    end of the program has no statement.
    """

    array: str
    element: isl.Map
    event: Event
    stmt: Stmt | None
    at: isl.Map | None
    to: isl.Map


@dataclass(frozen=True)
class Read:
    """One read of the final program. kind: "read"; "own", the element that an update updates;
    "copy"; "end", of what an argument holds at the end; "padding", where the base has `constant`.

    array: where it reads; event: the points; at: point -> instance (None at the end). own: of an
    update, its base array and the element.
    """

    kind: str
    stmt: Stmt | None
    array: str
    event: Event
    at: isl.Map | None
    base: InBase | None = None
    own: tuple[str, isl.Map] | None = None
    constant: Expr | None = None

    @property
    def key(self) -> str:
        """The name of its points."""
        return self.event.key

    @property
    def points(self) -> isl.Set:
        return self.event.place.domain()


@dataclass
class Reader:
    """Makes the reads of the two programs, `old` and `new`, with their orders."""

    old: Side
    before: Clock
    new: Side
    after: Clock
    matched: Matched
    _count: int = field(default=0, init=False)

    def reads(self, arrays: Collection[str]) -> list[Read]:
        """All reads of these arrays. Raises OtherValue and Elsewhere."""
        found = [self._read(r) for r in self.matched.reads if r.final.array in arrays]
        found += [self._padding(p) for p in self.matched.padded if p.final.array in arrays]
        for stmt in self.new.program.statements.values():
            if stmt.copies in arrays and stmt.copies is not None:
                place = self.new.at(stmt, stmt.copies, self.matched.copies[stmt.name].read)
                event, at = self._event(stmt, place)
                found.append(Read("copy", stmt, stmt.copies, event, at))
            elif stmt.is_update and stmt.write.array in arrays:
                found.append(self._own(stmt))
        for name, array in self.old.program.arrays.items():
            if array.role in ("out", "inout") and name in arrays:
                found.append(self._end(name))
        return found

    def _own(self, stmt: Stmt) -> Read:
        was, origin = self.matched.origins[stmt.name]
        event, at = self._event(stmt, self.new.place(stmt, stmt.write))
        element = at.apply_range(origin).apply_range(self.old.place(was, was.write))
        own = was.write.array, element
        return Read("own", stmt, stmt.write.array, event, at, own=own)

    def _padding(self, read: Padded) -> Read:
        event, at = self._event(read.stmt, self.new.place(read.stmt, read.final, read.inside))
        return Read("padding", read.stmt, read.final.array, event, at, constant=read.constant)

    def _read(self, read: ReadOf) -> Read:
        if not read.final.exact:
            return self._read_any(read)
        stmt, base = read.stmt, read.base
        was, origin = self.matched.origins[stmt.name]
        event, at = self._event(stmt, self.new.place(stmt, read.final, read.inside))
        place = self.old.place(was, base)
        start = Event(_named(place, event.key), _named(self.before.time(was), event.key))
        base_at = isl.Map.identity(was.domain.get_space().map_from_set())
        base_at = base_at.set_tuple_name(IN, event.key)
        to = at.apply_range(origin)
        element = to.apply_range(place)
        to = to.set_tuple_name(OUT, event.key)
        there = InBase(base.array, element, start, was, base_at, to)
        return Read("read", stmt, read.final.array, event, at, there)

    def _read_any(self, read: ReadOf) -> Read:
        """Data decide the element: each that may be read is a point. It is the same in the base
        where the array is and the subscript says the same."""
        stmt, final, base = read.stmt, read.final, read.base
        was, origin = self.matched.origins[stmt.name]
        name = final.array
        mine = origin.apply_range(base.map).intersect_domain(stmt.domain)
        moved = (
            name != base.array or self.new.homes.get(name) or self.old.program.arrays[name].local
        )
        if moved or not mine.has_equal_space(final.map) or not mine.is_equal(final.map):
            raise OtherValue(f"data decide what {stmt.name} reads of {name}, which is moved")
        key = self._key()
        at, place = _spread(final.map, key)
        event = Event(place, at.apply_range(self.after.time(stmt)))
        base_at, base_place = _spread(base.map, key)
        start = Event(base_place, base_at.apply_range(self.before.time(was)))
        to = at.apply_range(origin).apply_range(base_at.reverse())
        to = to.intersect(place.apply_range(base_place.reverse()))
        there = InBase(base.array, place, start, was, base_at, to)
        return Read("read", stmt, name, event, at, there)

    def _end(self, name: str) -> Read:
        """What the argument holds at the end."""
        key = self._key()
        extent = self.old.program.extents[name].intersect_params(self.old.program.context)
        place = isl.Map.identity(extent.get_space().map_from_set()).intersect_domain(extent)
        place = place.set_tuple_name(IN, key)
        points = place.domain()
        event = Event(place, self.after.end(points.get_space()).intersect_domain(points))
        start = Event(place, self.before.end(points.get_space()).intersect_domain(points))
        to = isl.Map.identity(points.get_space().map_from_set()).intersect_domain(points)
        return Read("end", None, name, event, None, InBase(name, place, start, None, None, to))

    def _event(self, stmt: Stmt, place: isl.Map) -> tuple[Event, isl.Map]:
        """The instances that read, as points; and point -> instance."""
        key = self._key()
        domain = place.domain()
        if stmt.domain.is_subset(domain):
            domain = stmt.domain  # in fewer pieces than the place may have
        time = self.after.time(stmt).intersect_domain(domain)
        at = isl.Map.identity(domain.get_space().map_from_set()).intersect_domain(domain)
        return Event(_named(place, key), _named(time, key)), at.set_tuple_name(IN, key)

    def _key(self) -> str:
        self._count += 1
        return f"R{self._count}"


def _named(map_: isl.Map, key: str) -> isl.Map:
    return map_.set_tuple_name(IN, key)


def _spread(map_: isl.Map, key: str) -> tuple[isl.Map, isl.Map]:
    """{ i -> e } as points [i, e], with the way to either."""
    count = map_.dim(IN)
    points = map_.wrap().flatten().set_tuple_name(key)
    same = isl.Map.identity(points.get_space().map_from_set()).reset_tuple_id(OUT)
    same = same.intersect_domain(points)
    first = same.project_out(OUT, count, points.dim(SET) - count)
    second = same.project_out(OUT, 0, count)
    first = first.set_tuple_name(OUT, map_.get_tuple_name(IN))
    return first, second.set_tuple_name(OUT, map_.get_tuple_name(OUT))
