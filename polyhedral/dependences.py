"""Which instances must keep their order: memory-based flow, anti and output dependences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import islpy as isl

from tdsl.diagnostics import Span
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.inits import with_inits
from tdsl.polyhedral.model import initial_tree, nest_indices, nest_of
from tdsl.polyhedral.order import before, paths
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Access, Dependence, Program, Stmt
from tdsl.polyhedral.tree import Node


@dataclass(frozen=True)
class _Use:
    """What one statement does with one array."""

    stmt: Stmt
    read: isl.Map | None
    read_span: Span | None
    writes: bool

    @property
    def updates(self) -> bool:
        return self.writes and self.stmt.is_update


@bounded("the dependences of the kernel")
def compute(
    program: Program, tree: Node | None = None, arrays: Iterable[str] | None = None
) -> tuple[Dependence, ...]:
    """All dependences of the program as written, one per source, sink, kind and array.

    `tree`: in this order instead (with the first terms of reductions in their places).
    `arrays`: through these alone. Through an array that is fresh in every iteration of the loops
    around its declaration there are some inside one iteration alone.

    Every write is taken to overwrite and every read to need its element (`exact` or not), so
    what data decide is a dependence. An update counts as a read and a write of its element;
    where both ends write and the sink also reads, one "flow" stands for the three kinds, since
    their maps are the same.
    """
    where = paths(tree or with_inits(program, initial_tree(program)))
    result: list[Dependence] = []
    nests = nest_indices(program.kernel)
    for array in program.arrays if arrays is None else arrays:
        local = program.arrays[array].local
        uses = [u for s in program.statements.values() if (u := _use(s, array)) is not None]
        if not any(u.writes for u in uses):
            continue
        for source in uses:
            for sink in uses:
                if source.writes or sink.writes:
                    order = before(where, source.stmt, sink.stmt)
                    if order is not None and local is not None:
                        order = _inside_one(order, source.stmt, sink.stmt, local, nests)
                    if order is not None:
                        result += _between(source, sink, array, order)
    return tuple(result)


def _inside_one(
    order: isl.Map, source: Stmt, sink: Stmt, local: str, nests: Mapping[str, tuple[str, ...]]
) -> isl.Map:
    """The pairs of one iteration of the loops down to the one in whose body an array is fresh."""
    around = nest_of(nests, source)
    for index in around[: around.index(local) + 1]:
        mine, other = source.indices.index(index), sink.indices.index(index)
        order = order.equate(isl.dim_type.in_, mine, isl.dim_type.out, other)
    return order


def _use(stmt: Stmt, array: str) -> _Use | None:
    reads = [a for a in stmt.reads if a.array == array]
    writes = stmt.write.array == array
    if not reads and not writes:
        return None
    if not reads:
        return _Use(stmt, None, None, writes)
    return _Use(stmt, joined(reads), reads[0].span, writes)


def joined(accesses: Iterable[Access]) -> isl.Map:
    """The elements that any of the accesses (of one statement to one array) may touch."""
    first, *others = (a.map for a in accesses)
    for other in others:
        if not other.is_subset(first):
            first = first.union(other)
    return coalesced(first)


def _between(source: _Use, sink: _Use, array: str, order: isl.Map) -> Iterator[Dependence]:
    def pairs(first: isl.Map, second: isl.Map) -> isl.Map:
        return coalesced(first.apply_range(second.reverse()).intersect(order))

    def made(kind: str, found: isl.Map, relaxable: str | None = None) -> Dependence:
        return Dependence(
            source.stmt.name,
            sink.stmt.name,
            kind,
            array,
            found,
            relaxable,
            source.read_span if kind == "anti" else source.stmt.span,
            sink.read_span if kind == "flow" and sink.read_span else sink.stmt.span,
        )

    written, overwritten = source.stmt.write.map, sink.stmt.write.map
    if source.writes and sink.writes:
        found = pairs(written, overwritten)
        if not found.is_empty():
            kind = "flow" if sink.updates else "output"
            same = source.updates and sink.updates and source.stmt.op == sink.stmt.op
            yield made(kind, found, sink.stmt.op if same else None)
    if source.writes and sink.read is not None:
        found = pairs(written, sink.read)
        if not found.is_empty():
            yield made("flow", found)
    if source.read is not None and sink.writes:
        found = pairs(source.read, overwritten)
        if not found.is_empty():
            yield made("anti", found)


# ---------------------------------------------------------------- reductions


def may_reorder(
    dependence: Dependence, program: Program, reassociate: frozenset[str], strict_fp: bool
) -> bool:
    """Whether the pair may change order: the updates of a reduction, where that is exact or
    was allowed. Exact are integers, and min and max up to the sign of a zero."""
    if dependence.relaxable is None:
        return False
    if not program.arrays[dependence.array].type.is_float:
        return True
    if strict_fp:
        return False
    exact = dependence.relaxable in ("min", "max")
    return exact or {dependence.source, dependence.sink} <= reassociate


def relaxed(
    dependences: Iterable[Dependence],
    program: Program,
    reassociate: frozenset[str] = frozenset(),
    strict_fp: bool = False,
) -> tuple[Dependence, ...]:
    """The dependences that constrain the order of instances."""
    return tuple(d for d in dependences if not may_reorder(d, program, reassociate, strict_fp))
