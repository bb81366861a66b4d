"""Translation validation: the finished loops are checked against the program, on every compile.

`tdsl.polyhedral.rebuild` gives the relation time -> instance of every place in the text. Then

- every instance of every domain runs exactly once and nothing else does, for all sizes;
- every dependence that orders runs forward;
- no loop that is to run in parallel carries one, of any kind;
- no two lanes of one block depend on each other, but by reading what another lane overwrites.

Chunks of lanes: a vector dim is later cut into chunks, which run in ascending order outside the
dims that follow it; the lanes of a chunk read everything before they write. How wide chunks are
is the target's affair, so two extremes are checked: one lane a chunk (the dims in lexicographic
order) and one chunk for all (the vector dim deleted). Together they give every width: let an
instance at (u, v, w) have to precede one at (u, v', w'), v the lane and w the dims that follow
it. The first says v < v', or v = v' and w < w'. The second says w < w', or w = w' and only reads
precede writes. With chunks c <= c' of v <= v': c < c' is in order; c = c' leaves w < w', or the
same w, where one chunk reads before it writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import islpy as isl

from tdsl.ir import loops as ir
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.dependences import may_reorder
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Access, Dependence, Program, Stmt
from tdsl.polyhedral.rebuild import IN, OUT, Around, Miscompiled, Occurrence, occurrences
from tdsl.polyhedral.text import instance_text, sizes_text
from tdsl.polyhedral.versions import NotVersions, Parts, correspondence, with_defaults
from tdsl.polyhedral.witness import smallest

Places = Mapping[str, Sequence[Occurrence]]


@dataclass(frozen=True)
class Order:
    """What constrains the order: all dependences, and which reductions may change theirs."""

    dependences: tuple[Dependence, ...]
    reassociate: frozenset[str] = frozenset()
    strict_fp: bool = False


@bounded("whether the loops run what the program says")
def validate(program: Program, block: ir.Block, order: Order) -> None:
    """Raises Miscompiled where the loops are not the program; BudgetExceeded if undecided."""
    places = _by_statement(program, occurrences(program, block))
    for stmt in program.statements.values():
        _once(program, stmt, places[stmt.name])
    for dependence in order.dependences:
        free = may_reorder(dependence, program, order.reassociate, order.strict_fp)
        for first in places[dependence.source]:
            for second in places[dependence.sink]:
                _Pair(program, dependence, first, second, not free).check()
    _scopes(program, places)


@bounded("whether the versions of blocks run what the loops say")
def validate_versions(program: Program, before: ir.Block, after: ir.Block) -> None:
    """The same for the loops with versions of blocks chosen (`tdsl.lower.specialize`).

    Every version is the nest that was validated, but for the counts of its dims, and which one
    runs depends on loops outside of it. So the order is the old one, and it is left to show
    that each version runs what its block runs where it is chosen, of several exactly one is
    chosen, and where none is there was nothing to run.
    """
    try:
        complete = with_defaults(after)
        numbers, parts = correspondence(before, complete)
    except NotVersions:
        raise Miscompiled("a version of a block is not that block") from None
    originals = occurrences(program, before)
    found = occurrences(program, complete)
    _parts_in_order(found, parts)
    for version, number in zip(found, numbers, strict=True):
        chosen = version.reached.insert_dims(isl.dim_type.set, version.depth, len(version.dims))
        wanted = originals[number].relation.intersect_domain(chosen)
        if not version.relation.is_equal(wanted):
            stmt = program.statements[version.statement]
            missing = wanted.subtract(version.relation).range()
            extra = version.relation.subtract(wanted).range()
            if missing.is_empty():
                raise _wrong(program, stmt, extra, "is no instance of its version, but runs")
            raise _wrong(program, stmt, missing, "does not run in its version")


def _parts_in_order(found: Sequence[Occurrence], parts: Iterable[Parts]) -> None:
    """Loops in parts run their iterations in order. Each part begins where the one before it
    ends, so that none is left out, and only parts that are not neighbours may overlap."""
    for loops in parts:
        times = [[t for place in found for t in _times(place, part)] for part in loops]
        for n, early in enumerate(times):
            for late in (t for group in times[n + 2 :] for t in group):
                for one in early:
                    column = one.dim(isl.dim_type.set) - 1
                    pairs = isl.Map.from_domain_and_range(one, late)
                    for k in range(column):
                        pairs = pairs.equate(IN, k, OUT, k)
                    if not pairs.order_ge(IN, column, OUT, column).is_empty():
                        raise Miscompiled("the parts of a loop are out of order")


def _times(place: Occurrence, part: Sequence[ir.For]) -> Iterator[isl.Set]:
    """The iterations of a loop, and of those around it, that get to a place below it."""
    for step in place.path:
        if isinstance(step, Around) and any(step.loop is loop for loop in part):
            first = step.column + 1
            yield place.reached.project_out(isl.dim_type.set, first, place.depth - first)


def _by_statement(program: Program, found: Iterable[Occurrence]) -> Places:
    places: dict[str, list[Occurrence]] = {name: [] for name in program.statements}
    for occurrence in found:
        places[occurrence.statement].append(occurrence)
    return places


# ---------------------------------------------------------------- once


def _once(program: Program, stmt: Stmt, places: Sequence[Occurrence]) -> None:
    ranges = []
    for place in places:
        if not place.relation.is_injective():
            times = place.relation.apply_range(place.relation.reverse())
            twice = times.subtract(isl.Map.identity(times.get_space())).domain()
            raise _wrong(program, stmt, twice.apply(place.relation), "runs twice")
        ranges.append(coalesced(place.relation.range()))
    for one, other in combinations(ranges, 2):
        if not one.is_disjoint(other):
            raise _wrong(program, stmt, one.intersect(other), "runs twice")
    runs = isl.Set.empty(stmt.domain.get_space())
    for one in ranges:
        runs = runs.union(one)
    extra = runs.subtract(stmt.domain)
    if not extra.is_empty():
        raise _wrong(program, stmt, extra, "is no instance, but runs")
    missing = stmt.domain.intersect_params(program.context).subtract(runs)
    if not missing.is_empty():
        raise _wrong(program, stmt, missing, "does not run")


def _wrong(program: Program, stmt: Stmt, instances: isl.Set, what: str) -> Miscompiled:
    found = smallest(instances, program.context)
    if found is None:
        return Miscompiled(f"{stmt.name} {what}")
    sizes = dict(zip(program.params, found.sizes, strict=True))
    at = f" at {sizes_text(sizes)}" if sizes else ""
    return Miscompiled(f"{instance_text(stmt.name, stmt.indices, found.values)} {what}{at}")


# ---------------------------------------------------------------- order


@dataclass(frozen=True)
class _Pair:
    """One dependence between two places in the text.

    ordered: whether it constrains the order; one that does not may still not be carried by
    threads or lanes.
    """

    program: Program
    dependence: Dependence
    first: Occurrence
    second: Occurrence
    ordered: bool

    def check(self) -> None:
        """Outside in, the pairs of times that are undecided shrink to those equal so far."""
        pairs = self.first.relation.apply_range(self.dependence.map)
        pairs = pairs.apply_range(self.second.relation.reverse())
        for a, b in zip(self.first.path, self.second.path, strict=False):
            if pairs.is_empty():
                return
            if isinstance(a, Around) and isinstance(b, Around):
                pairs = self._loop(pairs, a)
            elif a != b:
                if self.ordered and isinstance(a, int) and isinstance(b, int) and a > b:
                    self._refuse(pairs, "runs after")
                return
        if not pairs.is_empty():
            self._dims(pairs)

    def _loop(self, pairs: isl.Map, around: Around) -> isl.Map:
        k = around.column
        if self.ordered or around.loop.mark == "parallel":
            self._refuse(pairs.order_gt(IN, k, OUT, k), "runs after")
        if around.loop.mark == "parallel":
            self._refuse(pairs.order_lt(IN, k, OUT, k), "runs in parallel with")
        return pairs.equate(IN, k, OUT, k)

    def _dims(self, pairs: isl.Map) -> None:
        """One place: its dims, one lane a chunk and then all lanes in one."""
        depth = self.first.depth
        marks = [dim.mark for dim in self.first.dims]
        if self.ordered:
            left = self._in_order(pairs, range(depth, depth + len(marks)))
            self._refuse(left, "runs at the time of")
        self._one_instruction(pairs, [depth + n for n, m in enumerate(marks) if m == "dot"])
        lanes = [depth + n for n, m in enumerate(marks) if m in ("vector", "transpose")]
        if not lanes:
            return
        together = pairs
        for column in range(depth, depth + len(marks)):
            if column not in lanes:
                if self.ordered:
                    self._refuse(together.order_gt(IN, column, OUT, column), "runs after")
                together = together.equate(IN, column, OUT, column)
        anti = self.dependence.kind == "anti" and "transpose" not in marks
        if not anti and not self.ordered and marks.count("vector") == 2:
            # Rows run one after the other, or are elements of their own.
            row = lanes.pop(0)
            together = together.equate(IN, row, OUT, row)
        if anti or (not self.ordered and self._one_element(lanes)):
            return
        self._refuse(together, "is in one vector with")

    def _one_instruction(self, pairs: isl.Map, terms: Sequence[int]) -> None:
        """Terms that one instruction adds, in all lanes, come in no order."""
        if not terms or not self.ordered or self.dependence.kind == "anti":
            return
        depth = self.first.depth
        for column, dim in enumerate(self.first.dims, depth):
            if dim.mark not in ("vector", "dot"):
                pairs = pairs.equate(IN, column, OUT, column)
        self._refuse(pairs, "is added in one instruction with")

    def _in_order(self, pairs: isl.Map, columns: Iterable[int]) -> isl.Map:
        for column in columns:
            self._refuse(pairs.order_gt(IN, column, OUT, column), "runs after")
            pairs = pairs.equate(IN, column, OUT, column)
        return pairs

    def _one_element(self, lanes: Sequence[int]) -> bool:
        """Whether all lanes of a block update one element: they are then joined first."""
        stmt = self.program.statements[self.first.statement]
        if not stmt.write.exact:
            return False
        touched = self.first.relation.apply_range(stmt.write.map)
        for lane in reversed(lanes):
            touched = touched.project_out(IN, lane, 1)
        return bool(touched.is_single_valued())

    def _refuse(self, pairs: isl.Map, what: str) -> None:
        if pairs.is_empty():
            return
        program, d = self.program, self.dependence
        source, sink = program.statements[d.source], program.statements[d.sink]
        instances = pairs.apply_domain(self.first.relation).apply_range(self.second.relation)
        instances = instances.intersect(d.map)
        found = smallest(instances.wrap(), program.context)
        text = f"{d.source} {what} {d.sink}"
        if found is not None:
            half = len(source.indices)
            one = instance_text(source.name, source.indices, found.values[:half])
            other = instance_text(sink.name, sink.indices, found.values[half:])
            at = sizes_text(dict(zip(program.params, found.sizes, strict=True)))
            text = f"{one} {what} {other}" + (f" at {at}" if at else "")
        raise Miscompiled(f"{text}, against the {d.kind} dependence through {d.array}")


# ---------------------------------------------------------------- registers


def _scopes(program: Program, places: Places) -> None:
    """While a scope keeps an array, nothing but their own statement reads written elements, and
    an element has one lane or copy of each statement that writes it."""
    found = [place for group in places.values() for place in group]
    scopes = {id(scope): (scope, depth) for place in found for scope, depth in place.scopes}
    for scope, depth in scopes.values():
        inside = [p for p in found if any(s is scope for s, _ in p.scopes)]
        writers = [p for p in inside if program.statements[p.statement].write.array == scope.array]
        if scope.private:
            continue  # it has one register an element for all its uses, or is refused later
        for writer in writers:
            stmt = program.statements[writer.statement]
            if not _one_copy_each(writer, stmt, depth):
                raise Miscompiled(f"copies of {stmt.name} share an element in registers")
        for reader in inside:
            stmt = program.statements[reader.statement]
            for access in stmt.reads:
                # The element that the same instance writes has the same register.
                same = stmt.write.array == scope.array and access.map.is_subset(stmt.write.map)
                if access.array == scope.array and not same:
                    _apart(program, depth, reader, access, writers)


def _one_copy_each(writer: Occurrence, stmt: Stmt, depth: int) -> bool:
    touched = writer.relation.apply_range(stmt.write.map)
    touched = touched.project_out(IN, depth, writer.depth - depth)
    # (loops outside, dims) -> element; loops inside do not move it.
    if not touched.is_single_valued():
        return False
    for column in reversed(range(depth, depth + len(writer.dims))):
        without = touched.project_out(IN, column, 1)
        if without.is_single_valued():  # a dim of terms: all its copies share the element
            touched = without
    kept = touched.dim(IN) - depth
    key = isl.Map.identity(touched.domain().get_space().map_from_set())
    key = key.project_out(OUT, depth, kept)
    return bool(key.flat_range_product(touched).intersect_domain(touched.domain()).is_injective())


def _apart(
    program: Program,
    depth: int,
    reader: Occurrence,
    access: Access,
    writers: Sequence[Occurrence],
) -> None:
    read = _outer(reader, depth).apply_range(access.map)
    for writer in writers:
        stmt = program.statements[writer.statement]
        wrote = _outer(writer, depth).apply_range(stmt.write.map)
        if not read.is_disjoint(wrote):
            raise Miscompiled(
                f"{reader.statement} reads {access.array} while {stmt.name} keeps it in registers"
            )


def _outer(place: Occurrence, depth: int) -> isl.Map:
    """The loops outside a scope -> the instances inside."""
    return place.relation.project_out(IN, depth, place.relation.dim(IN) - depth)
