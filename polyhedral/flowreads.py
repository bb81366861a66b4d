"""All reads through a group of arrays, as sets of points, each with what it stands for.

A point is an instance that reads, with the element among its dimensions where data decide it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import islpy as isl

from tdsl.ir.index import sub
from tdsl.ir.kernel import Expr, children, rebuilt
from tdsl.ir.kernel import Read as ReadExpr
from tdsl.polyhedral.affine import NotAffine, pw_aff
from tdsl.polyhedral.flowmatch import Matched, Padded, ReadOf
from tdsl.polyhedral.flowparts import Side
from tdsl.polyhedral.lastwrites import Clock, Event, everywhere
from tdsl.polyhedral.model import scope_of
from tdsl.polyhedral.program import Access, Stmt
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
        element = origin.apply_range(self.old.place(was, was.write))
        element = at.apply_range(everywhere(element))
        own = was.write.array, element
        return Read("own", stmt, stmt.write.array, event, at, own=own)

    def _padding(self, read: Padded) -> Read:
        event, at = self._event(read.stmt, self.new.place(read.stmt, read.final, read.inside))
        return Read("padding", read.stmt, read.final.array, event, at, constant=read.constant)

    def _read(self, read: ReadOf) -> Read:
        known = read.final.map.is_single_valued() and read.base.map.is_single_valued()
        if not read.final.exact and not known:
            return self._read_any(read)
        stmt, base = read.stmt, read.base
        was, origin = self.matched.origins[stmt.name]
        event, at = self._event(stmt, self.new.place(stmt, read.final, read.inside))
        place = self.old.place(was, base)
        start = Event(_named(place, event.key), _named(self.before.time(was), event.key))
        base_at = isl.Map.identity(was.domain.get_space().map_from_set())
        base_at = base_at.set_tuple_name(IN, event.key)
        to = at.apply_range(origin)
        element = at.apply_range(everywhere(origin.apply_range(place)))
        to = to.set_tuple_name(OUT, event.key)
        there = InBase(base.array, element, start, was, base_at, to)
        return Read("read", stmt, read.final.array, event, at, there)

    def _read_any(self, read: ReadOf) -> Read:
        """Data decide the element: each that may be read in the base is a point, and read where
        the subscript of the final program says that this element is."""
        stmt, final, base = read.stmt, read.final, read.base
        was, origin = self.matched.origins[stmt.name]
        key = self._key()
        base_at, element = _spread(base.map, key)
        at, there = _spread(origin.apply_range(base.map), key)
        place = self._moved_by(stmt, final, base, at, there)
        if not place.range().is_subset(self.new.program.extents[final.array]):
            raise OtherValue(f"{stmt.name} may read elements outside {final.array}")
        event = Event(
            _after(self.new.front(stmt, final.array), at, place),
            at.apply_range(self.after.time(stmt)),
        )
        old_front = self.old.front(was, base.array)
        start = Event(
            _after(old_front, base_at, element), base_at.apply_range(self.before.time(was))
        )
        to = at.apply_range(origin).apply_range(base_at.reverse())
        to = to.intersect(there.apply_range(element.reverse()))
        mine = _after(old_front, at.apply_range(origin), there)
        inside = InBase(base.array, mine, start, was, base_at, to)
        return Read("read", stmt, final.array, event, at, inside)

    def _moved_by(
        self, stmt: Stmt, final: Access, base: Access, at: isl.Map, there: isl.Map
    ) -> isl.Map:
        """Point -> where its element is: so far from it as the subscripts are from each other."""
        was, origin = self.matched.origins[stmt.name]
        where = scope_of(self.new.program, stmt.name)
        same = all(
            i in stmt.indices and origin.is_subset(origin.equate(IN, stmt.indices.index(i), OUT, d))
            for d, i in enumerate(was.indices)
        )
        try:
            if not same or len(final.subscript) != len(base.subscript):
                raise NotAffine(final.subscript[0])
            distances = [
                pw_aff(sub(new, _with_reads(old, new)), where)
                for new, old in zip(final.subscript, base.subscript, strict=True)
            ]
        except NotAffine:
            text = f"data decide what {stmt.name} reads of {final.array}, which is moved"
            raise OtherValue(text) from None
        result = isl.Map.from_domain(at.domain())
        for d, distance in enumerate(distances):
            line = there.project_out(OUT, d + 1, there.dim(OUT) - d - 1).project_out(OUT, 0, d)
            line = line.reset_tuple_id(OUT)
            result = result.flat_range_product(line.sum(at.apply_range(distance.as_map())))
        return result.set_tuple_name(OUT, final.map.get_tuple_name(OUT))

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


def _with_reads(old: Expr, new: Expr) -> Expr:
    """A subscript with the reads of another one in place of its own: these are shown apart."""
    reads = list(_outer_reads(new))

    def edit(expr: Expr) -> Expr:
        if isinstance(expr, ReadExpr):
            return reads.pop(0) if reads and reads[0].type == expr.type else expr
        return rebuilt(expr, edit)

    return edit(old)


def _outer_reads(expr: Expr) -> Iterator[ReadExpr]:
    if isinstance(expr, ReadExpr):
        yield expr
    else:
        for child in children(expr):
            yield from _outer_reads(child)


def _after(front: isl.Map | None, at: isl.Map, place: isl.Map) -> isl.Map:
    """Point -> the numbers of its iteration, then its place."""
    if front is None:
        return place
    name = place.get_tuple_name(OUT)
    whole = at.apply_range(front).flat_range_product(place.reset_tuple_id(OUT))
    return whole.set_tuple_name(OUT, name)


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
