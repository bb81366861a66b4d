"""What the reads of one group of arrays see: by places of memory, and by elements.

Every write stands for one element of the base, wherever in the group it lies. So flow is asked
about twice: which write the place that is read has last, and which its element has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import combinations

import islpy as isl

from tdsl.polyhedral.flowmatch import Matched
from tdsl.polyhedral.flowparts import Side
from tdsl.polyhedral.flowreads import Read
from tdsl.polyhedral.lastwrites import Clock, Event, Seen, everywhere, last_writes, simple
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Stmt

IN, OUT = isl.dim_type.in_, isl.dim_type.out
INITIAL = ("in", "inout", "const", "table")  # have content before the first write
Elements = Mapping[str, isl.Map]


@dataclass
class Through:
    """The elements of one base array: who writes them, and what reads see.

    elements: by statement, instance -> element. values: the reads whose value matters; others:
    those of copies and updates.
    """

    writers: tuple[Stmt, ...]
    elements: Elements
    times: Mapping[str, isl.Map]
    values: list[Event]
    others: list[Event]

    @cached_property
    def last(self) -> Seen:
        """The last of all writes."""
        return last_writes([*self.values, *self.others], self._events(self.writers))

    @cached_property
    def defined(self) -> Seen:
        """The last of the definitions, for `values`, and for updates (their points: `own`)."""
        updates = [s for s in self.writers if s.is_update]
        if not updates and not self.others:
            return self.last
        owns = [
            Event(
                self.elements[s.name].set_tuple_name(IN, own(s)),
                self.times[s.name].set_tuple_name(IN, own(s)),
            )
            for s in updates
        ]
        definitions = self._events(s for s in self.writers if not s.is_update)
        return last_writes([*self.values, *owns], definitions)

    def _events(self, writers: Iterable[Stmt]) -> list[Event]:
        return [Event(self.elements[s.name], self.times[s.name]) for s in writers]


def own(update: Stmt) -> str:
    """The name of the instances of an update as what reads its element."""
    return f"{update.tuple_name}_own"


def initial(side: Side, array: str) -> bool:
    """Whether the array has content before anything writes it."""
    return array in side.program.arrays and side.program.arrays[array].role in INITIAL


@dataclass
class Group:
    """Arrays that copies connect, in both programs and their orders, and all that reads them."""

    old: Side
    before: Clock
    new: Side
    after: Clock
    arrays: frozenset[str]
    matched: Matched
    reads: list[Read]
    _flows: dict[tuple[str, str], Through] = field(default_factory=dict, init=False)

    @cached_property
    def writers(self) -> tuple[Stmt, ...]:
        """The statements of the final program that write in the group."""
        found = self.new.program.statements.values()
        return tuple(s for s in found if s.write.array in self.arrays)

    @cached_property
    def by_tuple(self) -> Mapping[str, Stmt]:
        return {s.tuple_name: s for s in self.writers}

    @property
    def copies(self) -> list[tuple[Read, Stmt, isl.Map]]:
        """The reads of copies, their statements, and point -> instance."""
        found = [r for r in self.reads if r.kind == "copy"]
        return [(r, r.stmt, r.at) for r in found if r.stmt is not None and r.at is not None]

    @cached_property
    def bases(self) -> tuple[str, ...]:
        """The base arrays whose elements the group holds."""
        origins = self.matched.origins
        found = [origins[s.name][0].write.array for s in self.writers if s.copies is None]
        found += [r.base.array for r in self.reads if r.base is not None]
        found += [a for a in sorted(self.arrays) if initial(self.old, a)]
        return tuple(dict.fromkeys(found))

    # ------------------------------------------------------------ by places

    @cached_property
    def seen(self) -> Mapping[str, tuple[Mapping[str, isl.Map], isl.Set]]:
        """For each read the writes that its place has last, and the points that see none."""
        result = {}
        for array in sorted(self.arrays):
            reads = [r.event for r in self.reads if r.array == array]
            if reads:
                writes = [
                    Event(self.new.place(s, s.write), self._time(s))
                    for s in self.writers
                    if s.write.array == array
                ]
                seen = last_writes(reads, writes)
                result.update({e.key: (seen.writes[e.key], seen.nothing[e.key]) for e in reads})
        return result

    def _time(self, stmt: Stmt) -> isl.Map:
        return self.after.time(stmt).intersect_domain(stmt.domain)

    # ------------------------------------------------------------ by elements

    def stands_for(self, stmt: Stmt) -> Elements:
        """Instance of a write -> the element of the base that it stands for, by base array."""
        if stmt.copies is not None:
            return self.moved[stmt.name]
        was, origin = self.matched.origins[stmt.name]
        return {was.write.array: origin.apply_range(self.old.place(was, was.write))}

    def elements(self, read: Read) -> Elements:
        """Point -> the element that it reads, by base array."""
        if read.base is not None:
            return {read.base.array: read.base.element}
        if read.own is not None:
            return dict([read.own])
        if read.stmt is None or read.at is None or read.kind != "copy":
            return {}
        at = read.at
        moved = self.moved[read.stmt.name].items()
        return {a: at.apply_range(everywhere(e)) for a, e in moved}

    def through(self, array: str) -> Through:
        """What reads of the final program see of the elements of a base array."""
        return self._known("final", array)

    def base(self, array: str) -> Through:
        """What the reads of the base see that they stand for."""
        return self._known("base", array)

    def _known(self, which: str, array: str) -> Through:
        key = which, array
        if key not in self._flows:
            found = self._final_flow(array) if which == "final" else self._base_flow(array)
            self._flows[key] = found
        return self._flows[key]

    def _final_flow(self, array: str) -> Through:
        own_ = [s for s in self.writers if s.copies is None]
        writers = [s for s in own_ if self.matched.origins[s.name][0].write.array == array]
        elements = {s.name: simple(self.stands_for(s)[array], s.domain) for s in writers}
        values: list[Event] = []
        others: list[Event] = []
        for read in self.reads:
            element = self.elements(read).get(array)
            if element is not None:
                time = read.event.time.intersect_domain(element.domain())
                (others if read.base is None else values).append(Event(element, time))
        times = {s.name: self._time(s) for s in writers}
        return Through(tuple(writers), elements, times, values, others)

    def _base_flow(self, array: str) -> Through:
        found = self.old.program.statements.values()
        writers = [s for s in found if s.write.array == array]
        elements = {s.name: self.old.place(s, s.write) for s in writers}
        times = {s.name: self.before.time(s).intersect_domain(s.domain) for s in writers}
        reads = [r.base.event for r in self.reads if r.base is not None and r.base.array == array]
        return Through(tuple(writers), elements, times, reads, [])

    @cached_property
    def one_to_one(self) -> bool:
        """Whether places and elements are one to one, each of its own for all time.

        Then the last write of a place is that of its element, and nothing has to be followed.
        """
        if self.copies or len(self.bases) != 1 or initial(self.old, self.bases[0]):
            return False
        whole = self._elements_of_places()
        return bool(whole.is_single_valued() and whole.is_injective())

    def _elements_of_places(self) -> isl.Map:
        """Place -> the elements of the one base array that are written and read there."""
        (array,) = self.bases
        parts = []
        for stmt in self.writers:
            place = self.new.place(stmt, stmt.write)
            parts.append(place.reverse().apply_range(self.through(array).elements[stmt.name]))
        for read in self.reads:
            if read.base is not None:
                parts.append(read.event.place.reverse().apply_range(read.base.element))
        return coalesced(reduce(isl.Map.union, parts))

    @cached_property
    def constant(self) -> bool:
        """Whether each element has one value for all time, and each place holds one element.

        Then whatever was written to a place before it is read is the value, also where an element
        is computed again.
        """
        if self.copies or len(self.bases) != 1 or initial(self.old, self.bases[0]):
            return False
        base = self.base(self.bases[0])
        if any(s.is_update for s in (*self.writers, *base.writers)):
            return False
        if any(read.base is None for read in self.reads) or not _one_definition(base):
            return False
        return bool(self._elements_of_places().is_single_valued())

    def written(self, read: Read) -> bool:
        """Whether all places that are read were written before."""
        left = read.points
        for stmt in self.writers:
            if stmt.write.array != read.array:
                continue
            pairs = read.event.place.apply_range(self.new.place(stmt, stmt.write).reverse())
            if read.stmt is not None and read.at is not None:
                order = self.after.before(stmt, read.stmt)
                if order is None:
                    continue
                pairs = pairs.intersect(read.at.apply_range(order.reverse()))
            left = left.subtract(pairs.domain())
            if left.is_empty():
                return True
        return False

    # ------------------------------------------------------------ what copies move

    def __post_init__(self) -> None:
        """Leaves out what copies move for nobody: a box has elements that no read asks for."""
        claims = {stmt.name: self._claim(read, stmt) for read, stmt, _ in self.copies}
        for n, read in enumerate(self.reads):
            if read.kind == "copy" and read.stmt is not None:
                for array, element in claims[read.stmt.name].items():
                    asked = self._asked(array, read.stmt.write.array, claims)
                    if asked is not None:
                        free = everywhere(element)
                        target = self.new.at(read.stmt, read.stmt.write.array, free)
                        points = coalesced(target.intersect_range(asked).domain())
                        self.reads[n] = _only(read, points)

    def _asked(self, of: str, array: str, claims: Mapping[str, Elements]) -> isl.Set | None:
        """The elements of a base array that reads of an array of the group stand for, with the
        iteration that it is private to; None where that is open."""
        result: isl.Set | None = None
        for read in self.reads:
            if read.array != array or read.kind == "padding":
                continue
            if read.kind == "copy" and read.stmt is not None:
                element = claims[read.stmt.name].get(of)
                if not claims[read.stmt.name]:
                    return None
            else:
                element = self.elements(read).get(of)
                if element is not None and read.at is not None:
                    element = read.at.reverse().apply_range(element)
            if element is not None:
                if read.stmt is not None:
                    element = self.new.at(read.stmt, array, element)
                part = coalesced(element.range())
                result = part if result is None else result.union(part)
        return None if result is None else coalesced(result)

    @cached_property
    def moved(self) -> Mapping[str, Elements]:
        """For each copy, by the base array, the element that an instance moves.

        What is found here is only a claim, to be shown as for other reads: the element of an
        argument that it reads or writes, else that of the write which it sees.
        """
        result: dict[str, Elements] = {}
        open_ = []
        for read, stmt, at in self.copies:
            result[stmt.name] = self._claim(read, stmt)
            if not result[stmt.name]:
                open_.append((read, stmt, at))
        for _ in range(len(open_) + 1):
            for read, stmt, at in open_:
                result[stmt.name] = self._found(read, at, result)
        return result

    def _claim(self, read: Read, stmt: Stmt) -> dict[str, isl.Map]:
        source = self.matched.copies[stmt.name].read
        for name, map_ in ((read.array, source), (stmt.write.array, stmt.write.map)):
            if self._is_home(name):
                return {name: map_.intersect_domain(source.domain())}
        return {}

    def _is_home(self, array: str) -> bool:
        """Whether the places of the array are the base's elements of it, and the group has no
        others."""
        if array not in self.old.program.arrays:
            return False
        kept = self.new.program.arrays[array]
        return (kept.is_argument or kept.role == "table") and all(
            self.matched.origins[s.name][0].write.array == array
            for s in self.writers
            if s.copies is None
        )

    def _found(self, read: Read, at: isl.Map, known: Mapping[str, Elements]) -> Elements:
        writes, nothing = self.seen[read.key]
        parts: dict[str, list[isl.Map]] = {}
        for key, pairs in writes.items():
            stmt = self.by_tuple[key]
            moved = known[stmt.name] if stmt.copies is not None else self.stands_for(stmt)
            for array, element in moved.items():
                parts.setdefault(array, []).append(pairs.apply_range(element))
        if initial(self.old, read.array) and not nothing.is_empty():
            parts.setdefault(read.array, []).append(read.event.place.intersect_domain(nothing))
        back = at.reverse()
        result = {}
        for array, maps in parts.items():
            whole = coalesced(back.apply_range(reduce(isl.Map.union, maps)))
            if not whole.is_empty():
                result[array] = whole
        return result


def _one_definition(through: Through) -> bool:
    """Whether each element is written once."""
    parts = [through.elements[s.name].intersect_domain(s.domain) for s in through.writers]
    if not all(part.is_injective() for part in parts):
        return False
    ranges = [part.range() for part in parts]
    return all(a.is_disjoint(b) for a, b in combinations(ranges, 2))


def _only(read: Read, instances: isl.Set) -> Read:
    """The read by some instances, if these are fewer pieces and all of them read."""
    assert read.at is not None
    points, whole = instances.set_tuple_name(read.key), read.points
    if points.n_basic_set() >= whole.n_basic_set() or not points.is_subset(whole):
        return read
    place, time, at = (
        everywhere(m).intersect_domain(points) for m in (read.event.place, read.event.time, read.at)
    )
    return replace(read, event=Event(place, time), at=at)
