"""Which write a read sees: the last one of its element before it, in the order of a loop tree.

before: for i { S: a[i % 2] = ...  for j in i - 1..i + 1 { T: ... = a[j % 2] } }
after:  T's read at (i, j) sees S(j) where j >= 0, else what was there before

This is value-based flow by isl. Reads and writes are given as maps from instances to places; a
place may be more than an element of an array: what is private to an iteration has its number too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import islpy as isl

from tdsl.polyhedral.order import before, paths
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Program, Stmt
from tdsl.polyhedral.tree import Loop, Node

IN, OUT, SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set


class Clock:
    """The times of the instances of a tree, as tuples of one length that begin with 0."""

    def __init__(self, program: Program, tree: Node) -> None:
        self.program = program
        self._paths = paths(tree)
        self._depth = 1 + max((len(path) for path in self._paths.values()), default=0)
        self._times: dict[str, isl.Map] = {}
        self._before: dict[tuple[str, str], isl.Map | None] = {}

    def runs(self, statement: str) -> bool:
        """Whether the statement stands in the tree."""
        return statement in self._paths

    def loops(self, statement: str) -> tuple[Loop, ...]:
        """The loops around a statement, outermost first."""
        return tuple(step for step in self._paths[statement] if isinstance(step, Loop))

    def time(self, stmt: Stmt) -> isl.Map:
        """Instance -> time."""
        if stmt.name not in self._times:
            space = stmt.domain.get_space()
            result = _constant(space, 0)
            for step in self._paths[stmt.name]:
                if isinstance(step, Loop):
                    part = step.coords[stmt.name].as_map()
                else:
                    part = _constant(space, step)
                result = result.flat_range_product(part)
            zero = _constant(space, 0)
            for _ in range(self._depth - result.dim(OUT)):
                result = result.flat_range_product(zero)
            self._times[stmt.name] = result
        return self._times[stmt.name]

    def end(self, space: isl.Space) -> isl.Map:
        """Points -> the time after everything."""
        result = _constant(space, 1)
        zero = _constant(space, 0)
        for _ in range(self._depth - 1):
            result = result.flat_range_product(zero)
        return result

    def before(self, first: Stmt, second: Stmt) -> isl.Map | None:
        """The pairs of instances in this order; None where there are none."""
        key = first.name, second.name
        if key not in self._before:
            self._before[key] = before(self._paths, first, second)
        return self._before[key]


def _constant(space: isl.Space, value: int) -> isl.Map:
    local = isl.LocalSpace.from_space(space)
    aff = isl.Aff.val_on_domain(local, isl.Val(value))
    return isl.Map.from_aff(aff)


@dataclass(frozen=True)
class Event:
    """What reads or writes: `place`: points -> places; `time`: points -> times. The points of an
    event have a tuple name of their own among all of one question."""

    place: isl.Map
    time: isl.Map

    @property
    def key(self) -> str:
        name: str = self.place.get_tuple_name(IN)
        return name


@dataclass(frozen=True)
class Seen:
    """What the reads see: by the read, the write -> pairs of points of both; and the points that
    see no write."""

    writes: Mapping[str, Mapping[str, isl.Map]]
    nothing: Mapping[str, isl.Set]


class Inconsistent(Exception):
    """What isl says about the last writes contradicts itself."""


def last_writes(reads: Iterable[Event], writes: Iterable[Event]) -> Seen:
    """For every read the last write of its place before it.

    isl's answer is checked, since it has been seen to be wrong where places are numbers modulo
    another: what it calls last is a write of the place before the read, no write of it comes in
    between, and what it says sees none has none. Else it is asked in another way, and checked.
    Raises Inconsistent.
    """
    sinks, sources = list(reads), list(writes)
    if not sources:
        return Seen({s.key: {} for s in sinks}, {s.key: s.place.domain() for s in sinks})
    found, nothing = _flow(sinks, sources)
    for sink in sinks:
        earlier = {w.key: _earlier(sink, w) for w in sources}
        if not _is_last(sink, sources, earlier, found[sink.key], nothing[sink.key]):
            found[sink.key] = _latest(sources, earlier)
            unseen = sink.place.domain()
            for pairs in earlier.values():
                unseen = unseen.subtract(pairs.domain())
            nothing[sink.key] = coalesced(unseen)
            if not _is_last(sink, sources, earlier, found[sink.key], nothing[sink.key]):
                raise Inconsistent("isl does not tell the last writes")
    return Seen(found, nothing)


def _flow(
    sinks: Sequence[Event], sources: Sequence[Event]
) -> tuple[dict[str, dict[str, isl.Map]], dict[str, isl.Set]]:
    sink = _union(s.place for s in sinks)
    source = _union(s.place for s in sources)
    times = _union([*(s.time for s in sinks), *(s.time for s in sources)])
    access = isl.UnionAccessInfo.from_sink(sink).set_must_source(source)
    flow = access.set_schedule_map(times).compute_flow()
    found: dict[str, dict[str, isl.Map]] = {s.key: {} for s in sinks}
    for pair in _maps(flow.get_may_dependence()):
        found[pair.get_tuple_name(OUT)][pair.get_tuple_name(IN)] = coalesced(pair.reverse())
    nothing = {s.key: isl.Set.empty(s.place.domain().get_space()) for s in sinks}
    for unseen in _maps(flow.get_may_no_source()):
        nothing[unseen.get_tuple_name(IN)] = coalesced(unseen.domain())
    return found, nothing


def _earlier(read: Event, write: Event) -> isl.Map:
    """The pairs of a read and a write of its place before it."""
    pairs = read.place.apply_range(write.place.reverse())
    return pairs.intersect(write.time.lex_lt_map(read.time).reverse())


def _is_last(
    read: Event,
    writes: Sequence[Event],
    earlier: Mapping[str, isl.Map],
    found: Mapping[str, isl.Map],
    nothing: isl.Set,
) -> bool:
    left = read.place.domain().subtract(nothing)
    for write in writes:
        if not earlier[write.key].domain().is_disjoint(nothing):
            return False
        last = found.get(write.key)
        if last is None:
            continue
        left = left.subtract(last.domain())
        if not last.is_subset(earlier[write.key]):
            return False
        for other in writes:
            later = last.apply_range(write.time.lex_lt_map(other.time))
            if not later.is_disjoint(earlier[other.key]):
                return False
    return bool(left.is_empty())


def _latest(writes: Sequence[Event], earlier: Mapping[str, isl.Map]) -> dict[str, isl.Map]:
    """The same by the greatest of the times."""
    times = [earlier[w.key].apply_range(w.time) for w in writes]
    greatest = reduce(isl.Map.union, times).lexmax()
    result = {}
    for write in writes:
        pairs = earlier[write.key].intersect(greatest.apply_range(write.time.reverse()))
        if not pairs.is_empty():
            result[write.key] = coalesced(pairs)
    return result


def _union(maps: Iterable[isl.Map]) -> isl.UnionMap:
    result: isl.UnionMap | None = None
    for each in maps:
        result = each.to_union_map() if result is None else result.union(each.to_union_map())
    assert result is not None
    return result


def _maps(union: isl.UnionMap) -> list[isl.Map]:
    found = union.get_map_list()
    return [found.get_at(k) for k in range(found.n_map())]


def simple(function: isl.Map, domain: isl.Set) -> isl.Map:
    """A function on a domain that it covers, as one expression where there is one."""
    return everywhere(function).intersect_domain(domain)


def everywhere(function: isl.Map) -> isl.Map:
    """The function without its domain, where one expression gives it."""
    pieces: list[isl.MultiAff] = []
    coalesced(isl.PwMultiAff.from_map(function)).foreach_piece(lambda _, p: pieces.append(p))
    return isl.Map.from_multi_aff(pieces[0]) if len(pieces) == 1 else function
