"""What a walk along the vector level keeps: names in sight, registers, writes and their reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from tdsl.ir import vector as v
from tdsl.ir.vector import Home
from tdsl.lower.accesses import Access
from tdsl.lower.masks_seen import Mask
from tdsl.lower.tables import CHOICE, Bools, Env, Ints, Table
from tdsl.polyhedral.program import Stmt
from tdsl.polyhedral.rebuild import Miscompiled

Time = tuple[Ints, ...]
A = TypeVar("A", Bools, Ints)
APART = 1 << 24  # between the elements of two choices of sizes


def spread(lanes: A, places: int) -> A:
    """What holds for lanes, for the places of each; one column is all of them already."""
    own = lanes.shape[-1]
    return lanes if own in (1, places) else np.repeat(lanes, places // own, axis=-1)


@dataclass(frozen=True)
class SeenRead:
    """Reads of one access of a statement: by which of its instances, what, and when."""

    access: int
    instances: Ints
    element: Ints
    rank: Ints


@dataclass(frozen=True)
class Zeros:
    """Places that are no instances: one of these elements (array, element, when) is 0 at each."""

    count: int
    sides: Sequence[tuple[str, Ints, Ints]]


@dataclass(frozen=True)
class Seen:
    """The written instances of a statement (the number of the choice of sizes and the index
    values), the element that each writes, and when. Each choice has elements of its own."""

    instances: Ints
    element: Ints
    rank: Ints
    reads: Sequence[SeenRead]
    zeros: Sequence[Zeros] = ()


@dataclass(frozen=True)
class Made:
    """Where a named value was made, or stored (then it is seen after the item): so many loops
    and blocks deep, at a position."""

    depth: int
    position: int

    def time(self, table: Table, *, after: bool = False) -> Time:
        here = np.full(table.rows, self.position, dtype=np.int64)
        return (*table.time[: self.depth], here, *((here,) if after else ()))


@dataclass(frozen=True)
class Leaf:
    """An element that a value is made of. element: None where data decide it.

    instead: a value that was stored is what that element holds, or what it was made of itself.
    register: the one that holds it, and in which iterations of its block; lanes: those of its lanes
    that are read (None: all).
    """

    array: str
    element: Ints | None
    on: Mask
    time: Time
    instead: tuple[Leaf, ...] | None = None
    register: tuple[Register, Ints] | None = None
    lanes: Ints | None = None


@dataclass
class Register:
    """A variable that is assigned to, per iteration of its block and lane: was it loaded or set,
    and is it stored in the end? parent: the register that a partial result is joined with.

    depth: of its block. loads, uses, ends: at which of the block's positions it is loaded, is
    read or assigned, and is stored or joined. private: its elements are in no memory.
    """

    name: str
    home: Home | None
    parent: str | None
    depth: int
    known: Bools
    stored: Bools
    joined: Ints
    private: bool = False
    writes: list[Write] = field(default_factory=list)
    loads: list[int] = field(default_factory=list)
    uses: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def position(self, table: Table) -> int:
        """Where in the register's block something inside it stands."""
        return int(table.time[self.depth][0])


@dataclass
class Write:
    """Instances that one item writes: arrays of (rows, places). env: the table's.

    terms: places of one lane, of a Dot. mixed: where it would add what is no instance. behind:
    places that add 0, since one of the `sides` is 0 there.
    """

    stmt: Stmt
    env: Env
    index: Mapping[str, Ints]
    active: Bools
    element: Ints
    time: Time
    leaves: Sequence[Leaf]
    ids: Ints | None = None
    mixed: Bools | None = None
    terms: int = 1
    behind: Bools | None = None
    sides: Sequence[Sequence[Leaf]] = ()

    def where(self, lanes: Bools) -> Write:
        """The same in these lanes alone."""
        return replace(self, active=self.active & spread(lanes, self.active.shape[1]))

    @property
    def running_lanes(self) -> Bools:
        """The places of lanes in which some term runs."""
        rows, places = self.active.shape
        lanes = self.active.reshape(rows, places // self.terms, self.terms).any(axis=2)
        return np.repeat(lanes, self.terms, axis=1)


@dataclass
class Scope:
    """Names in sight. stored: to what a named value was stored since it was made."""

    lets: dict[str, v.Value] = field(default_factory=dict)
    made: dict[str, Made] = field(default_factory=dict)
    stored: dict[str, tuple[Home, Made]] = field(default_factory=dict)
    registers: dict[str, Register] = field(default_factory=dict)

    def inside(self) -> Scope:
        return Scope(dict(self.lets), dict(self.made), dict(self.stored), dict(self.registers))


@dataclass(frozen=True)
class Done:
    """A write with its leaves sorted by the accesses of the statement that they are."""

    write: Write
    accesses: Sequence[Access]
    found: Sequence[Sequence[Leaf]]

    def times(self) -> list[Time]:
        return [
            self.write.time,
            *(leaf.time for leaves in self.found for leaf in leaves),
            *(leaf.time for leaves in self.write.sides for leaf in leaves),
        ]

    def seen(self, ranks: Iterator[Ints]) -> Seen:
        active, shape = self.write.active, self.write.active.shape
        row, _ = np.nonzero(active)
        choice = self.write.env[CHOICE][:, 0]
        columns = [c[active] for c in self.write.index.values()]
        instances = np.stack([choice[row], *columns], 1)
        number = np.zeros(shape, dtype=np.int64)
        number[active] = np.arange(len(row))
        rank = next(ranks)[row]
        found = []
        for k, (access, leaves) in enumerate(zip(self.accesses, self.found, strict=True)):
            for leaf in leaves:
                when = next(ranks)
                if leaf.element is None:
                    continue
                here = np.broadcast_to(active & access.may & leaf.on.may, shape)
                rows, _ = np.nonzero(here)
                element = np.broadcast_to(leaf.element, shape)[here] + choice[rows] * APART
                found.append(SeenRead(k, number[here], element, when[rows]))
        element = self.write.element[active] + choice[row] * APART
        zeros = self._zeros(ranks, choice)
        return Seen(instances, element, rank, found, () if zeros is None else (zeros,))

    def _zeros(self, ranks: Iterator[Ints], choice: Ints) -> Zeros | None:
        sides = [[(leaf, next(ranks)) for leaf in leaves] for leaves in self.write.sides]
        if self.write.behind is None:
            return None
        behind = self.write.behind & self.write.running_lanes
        rows, _ = np.nonzero(behind)
        read = [
            (
                leaf.array,
                np.broadcast_to(leaf.element, behind.shape)[behind] + choice[rows] * APART,
                when[rows],
            )
            for leaves in sides
            for leaf, when in leaves
            if leaf.element is not None
        ]
        return Zeros(len(rows), read)


def in_lane(leaf: Leaf, lane: int, number: int, lanes: int) -> Leaf:
    """What one lane of a leaf is, as lane `number` of as many lanes."""

    def one(values: A) -> A:
        return values if values.shape[1] == 1 else values[:, [lane]]

    if leaf.register is not None:
        raise Miscompiled("a column is made of what is in a register")
    alone = np.arange(lanes)[None, :] == number
    on = Mask(one(leaf.on.may) & alone, one(leaf.on.must) & alone)
    element = None if leaf.element is None else one(leaf.element)
    instead = None
    if leaf.instead is not None:
        instead = tuple(in_lane(part, lane, number, lanes) for part in leaf.instead)
    return replace(leaf, element=element, on=on, instead=instead)


def joined(parts: Sequence[Seen], columns: int) -> Seen:
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return Seen(np.zeros((0, columns), dtype=np.int64), none, none, ())
    reads_: list[SeenRead] = []
    first = 0
    for part in parts:
        reads_ += [replace(r, instances=r.instances + first) for r in part.reads]
        first += len(part.rank)
    return Seen(
        np.concatenate([p.instances for p in parts]),
        np.concatenate([p.element for p in parts]),
        np.concatenate([p.rank for p in parts]),
        reads_,
        [z for p in parts for z in p.zeros],
    )


def match(
    leaf: Leaf, accesses: Sequence[Access], active: Bools, found: list[list[Leaf]], stmt: Stmt
) -> None:
    """Sorts a leaf to the accesses that it may be; there has to be one."""
    ways = _ways(leaf, accesses, active)
    if ways is None:
        raise Miscompiled(f"{stmt.name} reads an element of {leaf.array} that it does not name")
    for number, each in ways:
        found[number].append(each)


def _ways(
    leaf: Leaf, accesses: Sequence[Access], active: Bools
) -> Sequence[tuple[int, Leaf]] | None:
    """Accesses with the leaf that each may be; None where it is none of them.

    A stored value may be the element that it went to as well as what it was made of. Where the
    statement reads both, no one can tell which it is: then it has no element that is compared.
    """
    direct = [
        (n, leaf)
        for n, access in enumerate(accesses)
        if access.array == leaf.array and _agree(leaf, access, active)
    ]
    inner: list[tuple[int, Leaf]] = []
    for part in leaf.instead or ():
        ways = _ways(part, accesses, active)
        if ways is None:
            return direct or None
        inner += ways
    if leaf.instead is None or not inner:
        return None if leaf.instead is None and not direct else direct
    return [(n, replace(each, element=None)) for n, each in (*direct, *inner)] if direct else inner


def _agree(leaf: Leaf, access: Access, active: Bools) -> bool:
    if access.element is None or leaf.element is None:
        return access.element is None and leaf.element is None
    return not ((access.element != leaf.element) & active & leaf.on.may & access.may).any()
