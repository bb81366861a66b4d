"""Whether the place that is read holds what was written last to the element it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce

import islpy as isl

from tdsl.polyhedral.flowgroup import Group, initial
from tdsl.polyhedral.flowreads import Read
from tdsl.polyhedral.flowtext import FlowChanged
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Stmt


@dataclass
class Holds:
    """Condition 1 of `tdsl.polyhedral.valueflow` for one group.

    A read holds its element where it sees the last write of it, or a copy that was made after
    that write and that held it when it was made. What copies do not hold is found first (`_bad`,
    by statement: its instances): a box may have elements that nobody wrote, and nobody reads.
    """

    group: Group
    _bad: dict[str, isl.Set] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        copies, group = self.group.copies, self.group
        for _, stmt, _ in copies:
            moves = group.matched.copies[stmt.name].read.domain()
            self._bad[stmt.name] = coalesced(stmt.domain.subtract(moves))
        for _ in range(len(copies) + 2):
            grown = False
            for read, stmt, at in copies:
                there = self.without(read).apply(at)
                if not there.is_subset(self._bad[stmt.name]):
                    self._bad[stmt.name] = coalesced(self._bad[stmt.name].union(there))
                    grown = True
            if not grown:
                return
        name = copies[0][1].name
        raise FlowChanged(f"which copies {name} makes of copies is not seen", name)

    def without(self, read: Read) -> isl.Set:
        """The points that do not hold their element, though the base has a value for it."""
        if read.kind == "padding":
            return self._unpadded(read)
        group = self.group
        if group.one_to_one:
            return isl.Set.empty(read.points.get_space())
        writes, nothing = group.seen[read.key]
        held: list[isl.Set] = []
        for array, element in group.elements(read).items():
            through = group.through(array)
            last = through.last.writes[read.key]
            for key, pairs in writes.items():
                stmt = group.by_tuple[key]
                if stmt.copies is not None:
                    held.append(self._copies(stmt, pairs, array, element, last))
                elif key in last:
                    same = pairs if pairs.is_subset(last[key]) else pairs.intersect(last[key])
                    held.append(same.domain())
            if initial(group.new, read.array) and read.array == array and not nothing.is_empty():
                home = read.event.place.intersect(element).domain()
                held.append(nothing.intersect(home).intersect(through.last.nothing[read.key]))
        return coalesced(reduce(isl.Set.subtract, held, self.wanted(read)))

    def wanted(self, read: Read) -> isl.Set:
        """The points whose value the base has: where data decide the element, others may be named
        that are never written."""
        if read.base is None or initial(self.group.old, read.base.array):
            return read.points
        nothing = self.group.base(read.base.array).last.nothing[read.key]
        if nothing.is_empty():
            return read.points
        return read.points.subtract(nothing.apply(read.base.to.reverse()))

    def _copies(
        self,
        copy: Stmt,
        pairs: isl.Map,
        array: str,
        element: isl.Map,
        last: Mapping[str, isl.Map],
    ) -> isl.Set:
        """The points that see a copy of their element, made after its last write."""
        moved = self.group.moved[copy.name].get(array)
        if moved is None:
            return isl.Set.empty(pairs.domain().get_space())
        bad = self._bad[copy.name]
        good = pairs if bad.is_empty() else pairs.subtract_range(bad)
        right = element.apply_range(moved.reverse())
        if not good.is_subset(right):
            good = good.intersect(right)
        result = good.domain()
        for key, writes in last.items():
            later = self.group.after.before(copy, self.group.by_tuple[key])
            if later is not None:
                stale = good.apply_range(later).intersect(writes).domain()
                if not stale.is_empty():
                    result = result.subtract(stale)
        return result

    def _unpadded(self, read: Read) -> isl.Set:
        """The points that do not see a copy's constant."""
        writes, _ = self.group.seen[read.key]
        left = read.points
        for key, pairs in writes.items():
            copy = self.group.matched.copies.get(self.group.by_tuple[key].name)
            for constant, points in () if copy is None else copy.constants:
                if constant == read.constant:
                    left = left.subtract(pairs.intersect_range(points).domain())
        return left
