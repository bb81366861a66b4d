"""Whether other memory keeps every value until it is read: rings, and arrays that share memory.

before: P: p[i] = ...   C: y[i] = p[i] + p[i - 1]
after:  P: q[i % 2] = ...: of p[i - 1] and p[i] neither is overwritten before C reads it;
        with q[0] alone p[i] overwrites p[i - 1] while C still waits for it

A value is safe when, between its write and a read of it, nothing writes another element that has
the same place now. From the first write of an element to its last read: a reduction is one value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.order import before, paths
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Access, Program, Stmt, Witness
from tdsl.polyhedral.tree import Loop, Node
from tdsl.polyhedral.witness import fix, smallest

IN, OUT = isl.dim_type.in_, isl.dim_type.out
Homes = Mapping[str, tuple[Loop, ...]]
"""Array -> the loops in whose iterations it is new."""


@dataclass(frozen=True)
class Lost:
    """`writer` overwrites what `reader` still reads: an element of `array`, as it was before.

    reader None: the value is what a caller waits for.
    """

    writer: str
    reader: str | None
    array: str
    witness: Witness | None


@dataclass(frozen=True)
class _Access:
    """One access to an array of interest, with its places in both programs."""

    stmt: Stmt
    array: str
    old: isl.Map
    new: isl.Map


@bounded("whether values are overwritten before they are read")
def first_lost(
    before_: Program, after: Program, tree: Node, arrays: Iterable[str], homes: Homes
) -> Lost | None:
    """A value that is lost when the arrays have the memory of `after` instead of that of
    `before_`, in the order of `tree` (which has the first terms of reductions); None: all are kept.
    """
    names = tuple(arrays)
    check = _Check(before_, after, paths(tree), names, homes)
    return next(check.lost(), None)


@dataclass(frozen=True)
class _Check:
    old: Program
    new: Program
    where: Mapping[str, tuple[Loop | int, ...]]
    arrays: tuple[str, ...]
    homes: Homes

    def lost(self) -> Iterator[Lost]:
        writes = list(self._writes())
        for read in self._reads():
            first = [w for w in writes if w.array == read.array]
            seen = [self._pairs(w, read, same_old=True) for w in first]
            for other in writes:
                clash = self._clash(other, read)
                if clash is None:
                    continue
                yield from self._unread(first, seen, other, read, clash)
        for array in self.arrays:
            if self.old.arrays[array].is_written:
                yield from self._given_back(writes, array)

    def _unread(
        self,
        first: Sequence[_Access],
        seen: Sequence[isl.Map | None],
        other: _Access,
        read: _Access,
        clash: isl.Map,
    ) -> Iterator[Lost]:
        """Where `other` comes between a write of the element and the read."""
        bad: isl.Map | None = None
        for write, flow in zip(first, seen, strict=True):
            order = self._pairs(write, other, same_old=False)
            if flow is None or order is None:
                continue
            part = order.reverse().apply_range(flow).intersect(clash)
            bad = part if bad is None else bad.union(part)
        # What nothing writes before is what the caller gave.
        fresh = clash
        for flow in seen:
            if flow is not None:
                fresh = fresh.subtract_range(flow.range())
        bad = fresh if bad is None else bad.union(fresh)
        bad = bad.intersect_params(self.old.context)
        if not bad.is_empty():
            yield Lost(other.stmt.name, read.stmt.name, read.array, self._witness(bad, other, read))

    def _given_back(self, writes: Sequence[_Access], array: str) -> Iterator[Lost]:
        """Where the last write of an element of an argument is not its own."""
        for other in writes:
            if other.array == array:
                continue
            left = other.stmt.domain.intersect_params(self.old.context)
            for own in (w for w in writes if w.array == array):
                later = self._pairs(other, own, same_old=False)
                if later is not None:
                    left = left.subtract(later.domain())
            if not left.is_empty():
                yield Lost(other.stmt.name, None, array, self._place(left, other))

    # ------------------------------------------------------------ accesses

    def _writes(self) -> Iterator[_Access]:
        for name, stmt in self.old.statements.items():
            if stmt.write.array in self.arrays:
                yield self._access(stmt, stmt.write, self.new.statements[name].write)

    def _reads(self) -> Iterator[_Access]:
        for name, stmt in self.old.statements.items():
            now = self.new.statements[name]
            for mine, other in zip(stmt.reads, now.reads, strict=True):
                if mine.array in self.arrays:
                    yield self._access(stmt, mine, other)
            if stmt.is_update and stmt.write.array in self.arrays:
                yield self._access(stmt, stmt.write, now.write)

    def _access(self, stmt: Stmt, old: Access, new: Access) -> _Access:
        return _Access(stmt, old.array, old.map, new.map)

    # ------------------------------------------------------------ pairs

    def _pairs(self, first: _Access, second: _Access, *, same_old: bool) -> isl.Map | None:
        """The pairs in order that touch one element (`same_old`) or one place."""
        order = before(dict(self.where), first.stmt, second.stmt)
        if order is None:
            return None
        if same_old:
            pairs = first.old.apply_range(second.old.reverse())
        else:
            pairs = first.new.apply_range(second.new.reverse())
        for loop in self.homes.get(second.array, ()):
            if first.array == second.array:
                pairs = pairs.intersect(
                    loop.coords[first.stmt.name].eq_map(loop.coords[second.stmt.name])
                )
        return coalesced(pairs.intersect(order))

    def _clash(self, write: _Access, read: _Access) -> isl.Map | None:
        """The pairs in which another element was written to the place that is read."""
        pairs = self._pairs(write, read, same_old=False)
        if pairs is None:
            return None
        if write.array == read.array:
            # Where data choose the element it may be another one.
            known = write.old.is_single_valued() and read.old.is_single_valued()
            if known:
                pairs = pairs.subtract(write.old.apply_range(read.old.reverse()))
        return None if pairs.is_empty() else pairs

    # ------------------------------------------------------------ examples

    def _witness(self, pairs: isl.Map, writer: _Access, reader: _Access) -> Witness | None:
        found = smallest(pairs.wrap(), self.old.context)
        if found is None:
            return None
        split = len(writer.stmt.indices)
        source, sink = found.values[:split], found.values[split:]
        element = smallest(fix(reader.old, found.sizes, sink).range(), self.old.context)
        sizes = dict(zip(self.old.params, found.sizes, strict=True))
        return Witness(sizes, source, sink, None if element is None else element.values)

    def _place(self, instances: isl.Set, writer: _Access) -> Witness | None:
        found = smallest(instances, self.old.context)
        if found is None:
            return None
        element = smallest(fix(writer.new, found.sizes, found.values).range(), self.old.context)
        sizes = dict(zip(self.old.params, found.sizes, strict=True))
        return Witness(sizes, found.values, (), None if element is None else element.values)
