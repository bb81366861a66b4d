"""Value flow through one group of arrays: what `tdsl.polyhedral.valueflow` shows, and how.

An element of the base stands for itself wherever in the group it lies. Writes and reads are
asked about twice: by places of memory, and by the elements that they stand for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce

import islpy as isl

from tdsl.polyhedral.flowparts import Side
from tdsl.polyhedral.flowreads import Elements, Read, Reads, initial
from tdsl.polyhedral.flowtext import FlowChanged, Sources, Wrong, changed
from tdsl.polyhedral.lastwrites import Clock, Event, Seen, last_writes
from tdsl.polyhedral.program import Stmt

SET, IN, OUT = isl.dim_type.set, isl.dim_type.in_, isl.dim_type.out


@dataclass(frozen=True)
class _Through:
    """The elements of one base array: who writes them in the group, and what reads see.

    last: of all writes; defined: of the definitions, for updates too.
    """

    writers: tuple[Stmt, ...]
    elements: Elements
    last: Seen
    defined: Seen


class Group:
    """One question: arrays that copies connect."""

    def __init__(
        self,
        old: Side,
        before: Clock,
        new: Side,
        after: Clock,
        arrays: frozenset[str],
        reads: Reads,
        reassociate: frozenset[str],
        strict_fp: bool,
    ) -> None:
        self.old, self.before, self.new, self.after = old, before, new, after
        self.arrays = arrays
        self.reads = [r for r in reads.reads if r.array in arrays]
        self.origins, self.copied = reads.origins, reads.copies
        self._reassociate, self._strict_fp = reassociate, strict_fp
        self._bad: dict[str, isl.Set] = {}

    def check(self) -> None:
        """Raises FlowChanged."""
        base = self.old.program.statements.values()
        for stmt in (*self._writers, *(s for s in base if s.write.array in self._bases)):
            if not stmt.write.exact:
                raise FlowChanged(f"data decide which elements {stmt.name} updates", stmt.name)
        self._copies()
        for read in self.reads:
            match read.kind:
                case "read" | "end":
                    self._fresh(read)
                    self._same_value(read)
                case "own":
                    self._fresh(read)
                case "padding":
                    self._padding(read)
        for array in self._bases:
            self._order(array)

    @cached_property
    def _sources(self) -> Sources:
        def due(read: Read) -> Mapping[str, isl.Map]:
            if read.of is None or read.to is None:
                return {}
            found = self._base(read.of).last.writes[read.key]
            return {key: read.to.apply_range(pairs) for key, pairs in found.items()}

        copies = {r.stmt.name: r for r in self.reads if r.kind == "copy" and r.stmt is not None}
        return Sources(self.old.program, self.new.program, self.origins, self._seen, due, copies)

    # ------------------------------------------------------------ who writes, who reads

    @cached_property
    def _writers(self) -> tuple[Stmt, ...]:
        found = self.new.program.statements.values()
        return tuple(s for s in found if s.write.array in self.arrays)

    @cached_property
    def _by_tuple(self) -> Mapping[str, Stmt]:
        return {s.tuple_name: s for s in self._writers}

    @cached_property
    def _bases(self) -> tuple[str, ...]:
        """The base arrays whose elements the group holds."""
        found = [self.origins[s.name][0].write.array for s in self._writers if s.copies is None]
        found += [r.of for r in self.reads if r.of is not None]
        found += [a for a in self.arrays if initial(self.old, a)]
        return tuple(dict.fromkeys(found))

    @cached_property
    def _seen(self) -> Mapping[str, tuple[Mapping[str, isl.Map], isl.Set]]:
        """By memory: for each read the writes that it sees, and the points that see none."""
        result = {}
        for array in sorted(self.arrays):
            reads = [r.event for r in self.reads if r.array == array]
            if reads:
                writes = [self._event(s) for s in self._writers if s.write.array == array]
                seen = last_writes(reads, writes)
                result.update({e.key: (seen.writes[e.key], seen.nothing[e.key]) for e in reads})
        return result

    def _event(self, stmt: Stmt, place: isl.Map | None = None) -> Event:
        where = self.new.place(stmt, stmt.write) if place is None else place
        return Event(where, self.after.time(stmt).intersect_domain(stmt.domain))

    # ------------------------------------------------------------ copies

    @cached_property
    def _moved(self) -> Mapping[str, Elements]:
        """For each copy, by the base array, the element that an instance moves.

        What is found here is only a claim, which `_fresh` shows: the element of an argument that
        it reads or writes, else that of the write which it sees.
        """
        result: dict[str, dict[str, isl.Map]] = {}
        open_ = []
        for read in self.reads:
            if read.kind == "copy" and read.stmt is not None and read.at is not None:
                stmt = read.stmt
                claim = self._claim(read)
                result[stmt.name] = claim
                if not claim:
                    open_.append(read)
        for _ in range(len(open_) + 1):
            for read in open_:
                assert read.stmt is not None
                result[read.stmt.name] = self._found(read, result)
        return result

    def _claim(self, read: Read) -> dict[str, isl.Map]:
        stmt = read.stmt
        assert stmt is not None
        source, target = read.array, stmt.write.array
        inside = self.copied[stmt.name].read.domain()
        for name, map_ in ((source, self.copied[stmt.name].read), (target, stmt.write.map)):
            if self._is_home(name):
                return {name: map_.intersect_domain(inside)}
        return {}

    def _is_home(self, array: str) -> bool:
        """Whether the places of the array are the base's elements of it, and of no other."""
        base, final = self.old.program, self.new.program
        if array not in base.arrays or not final.arrays[array].is_argument:
            return final.arrays[array].role == "table"
        return all(
            self.origins[s.name][0].write.array == array
            for s in self._writers
            if s.write.array == array and s.copies is None
        )

    def _found(self, read: Read, known: Mapping[str, Elements]) -> dict[str, isl.Map]:
        writes, nothing = self._seen[read.key]
        parts: dict[str, list[isl.Map]] = {}
        for key, pairs in writes.items():
            for array, element in self._stands_for(self._by_tuple[key], known).items():
                parts.setdefault(array, []).append(pairs.apply_range(element))
        if initial(self.old, read.array) and not nothing.is_empty():
            place = read.event.place.intersect_domain(nothing)
            parts.setdefault(read.array, []).append(place)
        assert read.at is not None
        back = read.at.reverse()
        result = {}
        for array, maps in parts.items():
            whole = back.apply_range(reduce(isl.Map.union, maps)).coalesce()
            if not whole.is_empty():
                result[array] = whole
        return result

    def _stands_for(self, stmt: Stmt, known: Mapping[str, Elements]) -> Elements:
        """Instance of a write -> the element of the base that it stands for, by base array."""
        if stmt.copies is not None:
            return known.get(stmt.name, {})
        was, origin = self.origins[stmt.name]
        return {was.write.array: origin.apply_range(self.old.place(was, was.write))}

    def _elements(self, read: Read) -> Elements:
        if read.kind != "copy":
            assert read.of is not None and read.element is not None
            return {read.of: read.element}
        assert read.stmt is not None and read.at is not None
        moved = self._moved[read.stmt.name]
        return {array: read.at.apply_range(element) for array, element in moved.items()}

    def _copies(self) -> None:
        """Which instances of copies move no value of the base; nothing that counts may see them."""
        copies = [r for r in self.reads if r.kind == "copy" and r.stmt is not None]
        for read in copies:
            assert read.stmt is not None
            moves = self.copied[read.stmt.name].read.domain()
            self._bad[read.stmt.name] = read.stmt.domain.subtract(moves).coalesce()
        for _ in range(len(copies) + 2):
            grown = False
            for read in copies:
                stmt, at = read.stmt, read.at
                assert stmt is not None and at is not None
                bad = self._stale(read)
                if bad is not None:
                    there = bad.points.apply(at)
                    if not there.is_subset(self._bad[stmt.name]):
                        self._bad[stmt.name] = self._bad[stmt.name].union(there).coalesce()
                        grown = True
            if not grown:
                return
        raise FlowChanged(f"the copies of {copies[0].array} do not settle")

    # ------------------------------------------------------------ 1: what memory holds

    def _fresh(self, read: Read) -> None:
        bad = self._stale(read)
        if bad is not None:
            raise changed(self._sources, bad)

    def _stale(self, read: Read) -> Wrong | None:
        """The points that see another value than that of their element."""
        writes, nothing = self._seen[read.key]
        wanted = self._wanted(read)
        covered: list[isl.Set] = []
        for array, element in self._elements(read).items():
            through = self._through(array)
            last = through.last.writes.get(read.key, {})
            for key, pairs in writes.items():
                stmt = self._by_tuple[key]
                if stmt.copies is None:
                    right = last.get(key)
                    if right is not None:
                        seen = pairs if pairs.is_subset(right) else pairs.intersect(right)
                        covered.append(seen.domain())
                else:
                    covered.append(self._fresh_copies(stmt, pairs, array, element, last))
            if initial(self.new, read.array) and read.array == array and not nothing.is_empty():
                same = read.event.place.intersect(element).domain()
                unseen = through.last.nothing[read.key]
                covered.append(nothing.intersect(same).intersect(unseen))
        points = read.event.place.domain()
        bad = reduce(isl.Set.subtract, covered, points.intersect(wanted))
        return None if bad.is_empty() else Wrong(read, bad.coalesce())

    def _fresh_copies(
        self,
        copy: Stmt,
        pairs: isl.Map,
        array: str,
        element: isl.Map,
        last: Mapping[str, isl.Map],
    ) -> isl.Set:
        """The points that see a copy of their element, made after its last write."""
        moved = self._moved.get(copy.name, {}).get(array)
        if moved is None:
            return isl.Set.empty(pairs.domain().get_space())
        good = pairs.subtract_range(self._bad[copy.name]) if self._bad.get(copy.name) else pairs
        right = element.apply_range(moved.reverse())
        if not good.is_subset(right):
            good = good.intersect(right)
        result = good.domain()
        for key, writes in last.items():
            later = self.after.before(copy, self._by_tuple[key])
            if later is not None:
                stale = good.apply_range(later).intersect(writes).domain()
                if not stale.is_empty():
                    result = result.subtract(stale)
        return result

    def _wanted(self, read: Read) -> isl.Set:
        """The points whose value the base has."""
        points = read.event.place.domain()
        if read.kind == "copy" or read.base is None or read.of is None or read.to is None:
            return points
        if initial(self.old, read.of):
            return points
        nothing = self._base(read.of).last.nothing[read.key]
        return points if nothing.is_empty() else points.subtract(nothing.apply(read.to.reverse()))

    def _padding(self, read: Read) -> None:
        """Each point sees a copy's constant."""
        writes, _ = self._seen[read.key]
        left = read.event.place.domain()
        for key, pairs in writes.items():
            stmt = self._by_tuple[key]
            if stmt.copies is not None:
                for constant, points in self.copied[stmt.name].constants:
                    if constant == read.constant:
                        left = left.subtract(pairs.intersect_range(points).domain())
        if not left.is_empty():
            raise changed(self._sources, Wrong(read, left))

    # ------------------------------------------------------------ 2: which value that is

    def _same_value(self, read: Read) -> None:
        assert read.of is not None and read.to is not None and read.base is not None
        mine, base = self._through(read.of), self._base(read.of)
        if not mine.writers and not base.writers:
            return
        wanted = self._wanted(read)
        mine_by = self._by_origin(mine.defined.writes.get(read.key, {}))
        base_by = base.defined.writes.get(read.key, {})
        for key in dict.fromkeys((*mine_by, *base_by)):
            got, due = mine_by.get(key), base_by.get(key)
            self._equal(read, got, None if due is None else read.to.apply_range(due), wanted)
        if not any(s.is_update for s in (*mine.writers, *base.writers)):
            return
        terms_due = dict(self._terms(base, read, False))
        terms_got: dict[str, isl.Map] = {}
        for stmt_key, terms in self._terms(mine, read, True):
            stmt = self._by_tuple[stmt_key]
            was, origin = self.origins[stmt.name]
            here = terms.apply_range(origin)
            other = terms_got.get(was.tuple_name)
            terms_got[was.tuple_name] = here if other is None else other.union(here)
        for key in dict.fromkeys((*terms_got, *terms_due)):
            due = terms_due.get(key)
            due = None if due is None else read.to.apply_range(due)
            self._equal(read, terms_got.get(key), due, wanted)

    def _equal(self, read: Read, got: isl.Map | None, due: isl.Map | None, wanted: isl.Set) -> None:
        if got is not None and due is not None and got.is_equal(due):
            return
        for one, other in ((got, due), (due, got)):
            if one is not None:
                wrong = _minus(one, other).intersect(wanted)
                if not wrong.is_empty():
                    raise changed(self._sources, Wrong(read, wrong))

    def _by_origin(self, writes: Mapping[str, isl.Map]) -> dict[str, isl.Map]:
        result: dict[str, isl.Map] = {}
        for key, pairs in writes.items():
            was, origin = self.origins[self._by_tuple[key].name]
            here = pairs.apply_range(origin)
            other = result.get(was.tuple_name)
            result[was.tuple_name] = here if other is None else other.union(here)
        return result

    def _terms(self, through: _Through, read: Read, final: bool) -> Iterator[tuple[str, isl.Map]]:
        """For each update the pairs (point, instance) of one definition, the instance before."""
        clock = self.after if final else self.before
        event, at, stmt = read.event, read.at, read.stmt
        if not final:
            assert read.base is not None
            event, at, stmt = read.base, read.base_at, read.base_stmt
        element = read.element if final else event.place
        assert element is not None
        for update in through.writers:
            if update.is_update:
                terms = self._epoch(through, read.key, element, update, final)
                if stmt is not None and at is not None:
                    order = clock.before(update, stmt)
                    if order is None:
                        continue
                    earlier = at.apply_range(order.reverse())
                    if not terms.is_subset(earlier):
                        terms = terms.intersect(earlier)
                if not terms.is_empty():
                    yield update.tuple_name, terms

    def _epoch(
        self, through: _Through, key: str, element: isl.Map, update: Stmt, final: bool
    ) -> isl.Map:
        """The pairs of points and updates of one element that see one definition, or none."""
        own = _own(update)
        result: isl.Map | None = None
        updates = through.defined.writes.get(own, {})
        for define, pairs in through.defined.writes.get(key, {}).items():
            if define in updates:
                part = pairs.apply_range(updates[define].reverse())
                result = part if result is None else result.union(part)
        unseen = through.defined.nothing[key]
        other = through.defined.nothing[own]
        if not unseen.is_empty() and not other.is_empty():
            mine = element.intersect_domain(unseen)
            part = mine.apply_range(through.elements[update.name].reverse())
            part = part.set_tuple_name(OUT, own).intersect_range(other)
            result = part if result is None else result.union(part)
        if result is None:
            space = isl.Map.from_domain_and_range(element.domain(), update.domain).get_space()
            return isl.Map.empty(space)
        return result.set_tuple_name(OUT, update.tuple_name).coalesce()

    # ------------------------------------------------------------ 3: the order of updates

    def _order(self, array: str) -> None:
        """Updates of one definition stand for different ones, and keep an order that counts."""
        mine, base = self._through(array), self._base(array)
        updates = [s for s in mine.writers if s.is_update]
        for one in updates:
            for other in updates:
                self._once(mine, one, other)
                self._in_order(mine, base, one, other)

    def _once(self, mine: _Through, one: Stmt, other: Stmt) -> None:
        (was, origin), (been, back) = self.origins[one.name], self.origins[other.name]
        if was is not been:
            return
        if one is other and origin.is_injective():
            return
        same = origin.apply_range(back.reverse())
        if one is other:
            same = same.subtract(isl.Map.identity(same.get_space()))
        twice = same.intersect(self._together(mine, one, other))
        if not twice.is_empty():
            raise FlowChanged(f"{one.name} adds a term of {was.name} twice", one.name)

    def _in_order(self, mine: _Through, base: _Through, one: Stmt, other: Stmt) -> None:
        (was, origin), (been, back) = self.origins[one.name], self.origins[other.name]
        if self._may_change(one, was, other, been):
            return
        order, reverse = self.before.before(was, been), self.after.before(other, one)
        if order is None or reverse is None:
            return
        there = base.elements[was.name].apply_range(base.elements[been.name].reverse())
        there = there.intersect(order)
        wrong = origin.apply_range(there).apply_range(back.reverse()).intersect(reverse.reverse())
        if wrong.is_empty():
            return
        wrong = wrong.intersect(self._together(mine, one, other))
        if not wrong.is_empty():
            raise FlowChanged(
                f"{other.name} updates {was.write.array} before {one.name}, which must come first",
                other.name,
                was.write.array,
            )

    def _may_change(self, one: Stmt, was: Stmt, other: Stmt, been: Stmt) -> bool:
        if one.op != other.op:
            return False
        if not self.old.program.arrays[was.write.array].type.is_float:
            return True
        if self._strict_fp:
            return False
        free = [not {a.name, b.name}.isdisjoint(self._reassociate)
                for a, b in ((one, was), (other, been))]  # fmt: skip
        return one.op in ("min", "max") or all(free)

    def _together(self, mine: _Through, one: Stmt, other: Stmt) -> isl.Map:
        """The pairs of updates of one definition of one element."""
        own = _own(one)
        element = mine.elements[one.name].set_tuple_name(IN, own)
        return self._epoch(mine, own, element, other, True).set_tuple_name(IN, one.tuple_name)

    # ------------------------------------------------------------ flow by elements

    def _through(self, array: str) -> _Through:
        return self._known("final", array)

    def _base(self, array: str) -> _Through:
        return self._known("base", array)

    def _known(self, which: str, array: str) -> _Through:
        key = which, array
        if key not in self._flows:
            self._flows[key] = (
                self._final_flow(array) if which == "final" else self._base_flow(array)
            )
        return self._flows[key]

    @cached_property
    def _flows(self) -> dict[tuple[str, str], _Through]:
        return {}

    def _final_flow(self, array: str) -> _Through:
        writers = tuple(
            s
            for s in self._writers
            if s.copies is None and self.origins[s.name][0].write.array == array
        )
        elements = {s.name: self._stands_for(s, {})[array] for s in writers}
        times = {s.name: self.after.time(s).intersect_domain(s.domain) for s in writers}
        reads = []
        for read in self.reads:
            if read.kind != "padding":
                element = self._elements(read).get(array)
                if element is not None:
                    points = element.domain()
                    reads.append(Event(element, read.event.time.intersect_domain(points)))
        return _flow(writers, elements, times, reads)

    def _base_flow(self, array: str) -> _Through:
        found = self.old.program.statements.values()
        writers = tuple(s for s in found if s.write.array == array)
        elements = {s.name: self.old.place(s, s.write) for s in writers}
        times = {s.name: self.before.time(s).intersect_domain(s.domain) for s in writers}
        reads = [r.base for r in self.reads if r.of == array and r.base is not None]
        return _flow(writers, elements, times, reads)


def _own(update: Stmt) -> str:
    """The tuple of an update as what reads its element."""
    return f"{update.tuple_name}_own"


def _flow(
    writers: tuple[Stmt, ...],
    elements: Elements,
    times: Mapping[str, isl.Map],
    reads: Iterable[Event],
) -> _Through:
    reads = list(reads)
    updates = [s for s in writers if s.is_update]
    events = {s.name: Event(elements[s.name], times[s.name]) for s in writers}
    last = last_writes(reads, events.values())
    if not updates:
        return _Through(writers, elements, last, last)
    own = [
        Event(
            elements[s.name].set_tuple_name(IN, _own(s)), times[s.name].set_tuple_name(IN, _own(s))
        )
        for s in updates
    ]
    definitions = [events[s.name] for s in writers if not s.is_update]
    return _Through(writers, elements, last, last_writes([*reads, *own], definitions))


def _minus(pairs: isl.Map, others: isl.Map | None) -> isl.Set:
    return (pairs if others is None else pairs.subtract(others)).domain()
