"""The second check: which instances the vector level writes, at concrete small sizes.

Lanes, masks, copies and registers come after the loops that were validated for all sizes
(`tdsl.polyhedral.validate`). So a function of the vector level is walked without data
(`tdsl.lower.walk_instances`): control flow and index arithmetic alone. Every write says which
instances it stands for. They have to be those that the validated loops run at these sizes, each
once; each has to write the element that its statement names, read the elements that it reads,
and find in each what the same instances wrote before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tdsl.diagnostics import BudgetExceeded, Error
from tdsl.ir.loops import Block
from tdsl.lower.accesses import Access, Memory, reads
from tdsl.lower.dots_seen import is_zero
from tdsl.lower.lower import Lowered
from tdsl.lower.records_seen import APART, Seen, Zeros
from tdsl.lower.reference import Ran, Reached, Reference, reference
from tdsl.lower.small_sizes import choices
from tdsl.lower.tables import Bools, Ints, OnData, Table, TooMany, start
from tdsl.lower.versions_seen import Writes, joined, last_write, versions
from tdsl.lower.walk_instances import Walk
from tdsl.polyhedral.dependences import may_reorder
from tdsl.polyhedral.program import Program, Stmt
from tdsl.polyhedral.rebuild import Miscompiled
from tdsl.polyhedral.text import instance_text, sizes_text
from tdsl.polyhedral.validate import Order

MOST_INSTANCES = 6_000  # of all sizes together
FIRST_CHOICES = 5
MOST_CHOICES = 32


def check_instances(program: Program, lowered: Lowered, order: Order) -> None:
    """Raises Miscompiled where the function does not do what the loops do.

    If no sizes are small enough (bound ones), long loops run their first and last iterations
    alone.
    """
    groups = reordered(
        (d.source, d.sink)
        for d in order.dependences
        if may_reorder(d, program, order.reassociate, order.strict_fp)
    )
    sizes = choices(program, lowered.versions)
    found, table = _run(lowered.versions, sizes)
    chosen = _affordable(found, table)
    memory, table = Memory.of(program.arrays, table)
    walk, chosen = _walked(program, lowered, memory, table, chosen)
    ran = {name: r.where(np.isin(r.instances[:, 0], chosen)) for name, r in found.ran.items()}
    _Check(program, memory, table, sizes, groups).check(ran, walk.finished())


def _walked(
    program: Program, lowered: Lowered, memory: Memory, table: Table, chosen: Sequence[int]
) -> tuple[Walk, Sequence[int]]:
    """The walk at those of the chosen sizes that are not too many for it, and which these are:
    the vector level may have loops that the nest has not."""
    while chosen:
        walk = Walk(program, memory)
        try:
            walk.function(lowered.function.blocks, table.where(np.isin(table.choice, chosen)))
        except TooMany as error:
            chosen = [n for n in chosen if n not in error.choices]
        else:
            return walk, chosen
    raise _too_many()


def _run(nest: Block, sizes: Sequence[Mapping[str, int]]) -> tuple[Reference, Table]:
    """What the loops run at all sizes that are small enough; these sizes.

    Where none are, the iterations at the ends of the loops; the values of their variables are
    fixed then, since later loops are cut otherwise.
    """
    table = start(sizes)
    while table.rows:
        try:
            return reference(nest, table), table
        except TooMany as error:
            table = table.where(~np.isin(table.choice, error.choices))
    for ends, last in ((2, 2), (1, 1), (1, 0)):
        table = start(sizes[:1], ends=ends)
        try:
            values = reference(nest, table).values
            sample = {
                var: np.unique(np.r_[v[:ends], v[len(v) - last :]]) for var, v in values.items()
            }
            table = replace(table, ends=0, sample=sample)
            return reference(nest, table), table
        except TooMany:
            continue
    raise _too_many()


def _too_many() -> Error:
    return BudgetExceeded.at(None, "the lanes of the kernel are too many to be checked")


def _affordable(found: Reference, table: Table) -> Sequence[int]:
    """Sizes that together get to as many places, with as many counts, as few instances allow.

    The first ones in any case, one at least.
    """
    count: Ints = np.zeros(int(table.choice.max(initial=0)) + 1, dtype=np.int64)
    for each in found.ran.values():
        count += np.bincount(each.instances[:, 0], minlength=len(count))
    possible: list[int] = table.choice.tolist()
    chosen: list[int] = []
    left = MOST_INSTANCES
    known: set[Reached] = set()
    while possible and len(chosen) < MOST_CHOICES:
        best = possible[0]
        if len(chosen) >= FIRST_CHOICES:
            gains = {n: len(found.reached.get(n, set()) - known) for n in possible}
            best = max(possible, key=lambda n: gains[n] / (count[n] + 100))
            if not gains[best]:
                break
        possible.remove(best)
        if count[best] <= left or not chosen:
            chosen.append(best)
            left -= int(count[best])
            known |= found.reached.get(best, set())
    return chosen


@dataclass(frozen=True)
class _Wanted:
    """What the instances of a statement do with one array, in the order of the loops."""

    accesses: Sequence[Access]
    choice: Ints
    rank: Ints
    writes: Writes


@dataclass(frozen=True)
class _Check:
    """table: a row for each choice of sizes."""

    program: Program
    memory: Memory
    table: Table
    sizes: Sequence[Mapping[str, int]]
    groups: Mapping[str, int]

    def check(self, ran: Mapping[str, Ran], seen: Mapping[str, Seen]) -> None:
        """Compares what was seen with what the loops ran."""
        every = {name: ran.get(name, _nothing(s)) for name, s in self.program.statements.items()}
        numbers = {}
        for name, stmt in self.program.statements.items():
            number = self._once(stmt, every[name], seen[name])
            if number is not None:
                numbers[name] = number
        for name, stmt in self.program.statements.items():
            for zeros in seen[name].zeros:
                self._add_nothing(stmt, zeros, seen)
        if len(numbers) == len(every):
            for array in sorted({s.write.array for s in self.program.statements.values()}):
                self._same_values(array, every, seen, numbers)

    # ---------------------------------------------------------------- once

    def _once(self, stmt: Stmt, ran: Ran, seen: Seen) -> Ints | None:
        """For each written instance its row in what ran; None where some run beside it."""
        codes, known = _codes(seen.instances, ran.instances)
        values, counts = np.unique(codes, return_counts=True)
        if (counts > 1).any():
            twice = np.isin(codes, values[counts > 1])
            raise self._wrong(stmt, seen.instances[twice], "is written twice")
        extra = ~np.isin(codes, known)
        if extra.any():
            raise self._wrong(stmt, seen.instances[extra], "is written, but is no instance")
        missing = ~np.isin(known, codes)
        if (missing & ran.surely).any():
            raise self._wrong(stmt, ran.instances[missing & ran.surely], "is not written")
        if missing.any():
            return None
        order = np.argsort(known, kind="stable")
        return order[np.searchsorted(known[order], codes)]

    def _wrong(self, stmt: Stmt, instances: Ints, what: str) -> Miscompiled:
        choice, *first = min(tuple(int(x) for x in row) for row in instances)
        at = sizes_text(self.sizes[choice])
        text = f"{instance_text(stmt.name, stmt.indices, first)} {what} on the vector level"
        return Miscompiled(f"{text}, at {at}" if at else text)

    def _add_nothing(self, stmt: Stmt, zeros: Zeros, seen: Mapping[str, Seen]) -> None:
        """Terms behind the end are 0: an operand holds a 0 that a copy put there last."""
        known = np.zeros(zeros.count, dtype=np.bool_)
        for array, element, rank in zeros.sides:
            writers = [s for s in self.program.statements.values() if s.write.array == array]
            if len(writers) == 1 and writers[0].copies is not None:
                known |= self._zero(writers[0], seen[writers[0].name], element, rank)
        if not known.all():
            raise Miscompiled(f"{stmt.name} adds terms behind its end that are not 0")

    def _zero(self, copy: Stmt, seen: Seen, element: Ints, rank: Ints) -> Bools:
        choice = seen.instances[:, 0]
        here = self.table.take(np.searchsorted(self.table.choice, choice))
        index = {name: seen.instances[:, [n + 1]] for n, name in enumerate(copy.indices)}
        zero = np.broadcast_to(is_zero(copy.value, {**here.env, **index}), (len(choice), 1))[:, 0]
        last = last_write(seen.element, seen.rank, element, rank)
        held: Bools = np.r_[zero, False][last]
        # Where loops run some of their iterations, what others write is not seen.
        return held & (last >= 0) | ((last < 0) & bool(self.table.sample))

    # ---------------------------------------------------------------- values

    def _same_values(
        self,
        array: str,
        ran: Mapping[str, Ran],
        seen: Mapping[str, Seen],
        numbers: Mapping[str, Ints],
    ) -> None:
        """Each access to an array sees the same number of writes before it in both orders."""
        statements = self.program.statements.values()
        try:
            wanted = {s.name: self._wanted(s, array, ran[s.name]) for s in statements}
        except OnData:
            return  # some element is decided by data: there is no order to compare
        writers = [s for s in statements if s.write.array == array]
        before = joined([wanted[s.name].writes for s in writers])
        after = joined(
            [
                Writes(seen[s.name].element, seen[s.name].rank, self._group(s, seen[s.name].rank))
                for s in writers
            ]
        )
        for stmt in statements:
            which = numbers[stmt.name]
            self._compare(stmt, array, wanted[stmt.name], seen[stmt.name], which, before, after)

    def _group(self, stmt: Stmt, rows: Ints) -> Ints:
        return np.full(len(rows), self.groups.get(stmt.name, -1), dtype=np.int64)

    def _wanted(self, stmt: Stmt, array: str, ran: Ran) -> _Wanted:
        choice, rank = ran.instances[:, 0], ran.rank
        here = self.table.take(np.searchsorted(self.table.choice, choice))
        index = {name: ran.instances[:, [n + 1]] for n, name in enumerate(stmt.indices)}
        accesses = reads(stmt, self.memory, {**here.env, **index})
        if any(a.array == array and a.element is None for a in accesses):
            raise OnData
        element = np.zeros(0, dtype=np.int64)
        if stmt.write.array == array:
            own = self.memory.element(array, stmt.write.subscript, {**here.env, **index})
            element = _flat(own, choice)
        writes = Writes(element, rank[: len(element)], self._group(stmt, element))
        return _Wanted(accesses, choice, rank, writes)

    def _compare(
        self,
        stmt: Stmt,
        array: str,
        wanted: _Wanted,
        seen: Seen,
        which: Ints,
        before: Writes,
        after: Writes,
    ) -> None:
        group = self._group(stmt, wanted.rank)
        if stmt.write.array == array:
            was = versions(before, wanted.writes.element, wanted.rank, group)[which]
            now = versions(after, seen.element, seen.rank, group[which])
            if (now != was).any():
                wrong = seen.instances[now != was]
                raise self._wrong(stmt, wrong, f"writes {array} in another order")
        for number, access in enumerate(wanted.accesses):
            if access.array != array or access.element is None:
                continue
            own = stmt.is_update and number == len(wanted.accesses) - 1
            mine = group if own else np.full_like(group, -1)
            was = versions(before, _flat(access.element, wanted.choice), wanted.rank, mine)
            for read in seen.reads:
                if read.access != number:
                    continue
                by = which[read.instances]
                now = versions(after, read.element, read.rank, mine[by])
                if (now != was[by]).any():
                    wrong = seen.instances[read.instances[now != was[by]]]
                    raise self._wrong(stmt, wrong, f"reads {array} too early or too late")


def _nothing(stmt: Stmt) -> Ran:
    none = np.zeros(0, dtype=np.int64)
    rows = np.zeros((0, 1 + len(stmt.indices)), dtype=np.int64)
    return Ran(rows, none, none.astype(np.bool_))


def _flat(element: Ints, choice: Ints) -> Ints:
    return np.broadcast_to(element, (len(choice), 1))[:, 0] + choice * APART


def _codes(some: Ints, others: Ints) -> tuple[Ints, Ints]:
    """A number for each row, the same for equal rows of both."""
    both = np.concatenate([some, others])
    code = np.zeros(len(both), dtype=np.int64)
    for column in both.T:
        low = int(column.min(initial=0))
        code = code * (int(column.max(initial=0)) - low + 1) + (column - low)
    return code[: len(some)], code[len(some) :]


def reordered(pairs: Iterable[tuple[str, str]]) -> Mapping[str, int]:
    """A number for each statement of some pairs, shared by those that are connected."""
    parts: list[set[str]] = []
    for pair in pairs:
        touched = [part for part in parts if part & set(pair)]
        parts = [part for part in parts if part not in touched]
        parts.append(set(pair).union(*touched))
    return {name: number for number, part in enumerate(parts) for name in part}
