"""What a walk along the vector level keeps: names in sight, registers, writes and their reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeVar

import numpy as np

from tdsl.ir.vector import Home
from tdsl.lower.accesses import Access
from tdsl.lower.masks_seen import Lets, Mask, below, names_in
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
    """Names in sight. stored: to what a named value was stored since it was made.

    leaves: what was found of a named value in this block; users: of what it is a part.
    """

    lets: Lets = field(default_factory=Lets)
    made: dict[str, Made] = field(default_factory=dict)
    stored: dict[str, tuple[Home, Made]] = field(default_factory=dict)
    registers: dict[str, Register] = field(default_factory=dict)
    leaves: dict[str, tuple[Leaf, ...]] = field(default_factory=dict)
    users: dict[str, set[str]] = field(default_factory=dict)

    def inside(self) -> Scope:
        return Scope(Lets(self.lets), dict(self.made), dict(self.stored), dict(self.registers))

    def unknown(self, name: str) -> Iterator[str]:
        """The names whose leaves are to be found before those of a name are known, and it."""
        for each in below(name, self.lets, self.leaves):
            for part in names_in(self.lets[each]):
                self.users.setdefault(part, set()).add(each)
            yield each

    def store(self, name: str, home: Home, made: Made) -> None:
        """A named value is in memory from now on; what is made of it may be made of that."""
        self.stored[name] = home, made
        waiting = [name]
        while waiting:
            for user in self.users.pop(waiting.pop(), ()):
                if self.leaves.pop(user, None) is not None:
                    waiting.append(user)


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

    alone = np.arange(lanes)[None, :] == number

    def each(leaf: Leaf) -> Leaf:
        if leaf.register is not None:
            raise Miscompiled("a column is made of what is in a register")
        on = Mask(one(leaf.on.may) & alone, one(leaf.on.must) & alone)
        return replace(leaf, element=None if leaf.element is None else one(leaf.element), on=on)

    return edited(leaf, each)


def edited(leaf: Leaf, edit: Callable[[Leaf], Leaf]) -> Leaf:
    """A leaf and all that it may be instead, edited; what several are made of, once."""
    if leaf.instead is None:
        return edit(leaf)
    new: dict[int, Leaf] = {}
    waiting = [leaf]
    while waiting:
        top = waiting[-1]
        if id(top) in new:
            waiting.pop()
        elif missing := [p for p in top.instead or () if id(p) not in new]:
            waiting += missing
        else:
            one = edit(top)
            if top.instead is not None:
                one = replace(one, instead=tuple(new[id(p)] for p in top.instead))
            new[id(top)] = one
    return new[id(leaf)]


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


Ways = Sequence[tuple[int, Leaf]]  # accesses, with the leaf that each may be


@dataclass
class Matching:
    """Sorts the leaves of a write to the accesses that they may be."""

    stmt: Stmt
    accesses: Sequence[Access]
    active: Bools
    known: dict[int, Ways | None] = field(default_factory=dict)

    def match(self, leaf: Leaf, found: list[list[Leaf]]) -> None:
        """Adds a leaf to the accesses that it may be; there has to be one."""
        ways = self._ways(leaf)
        if ways is None:
            raise Miscompiled(
                f"{self.stmt.name} reads an element of {leaf.array} that it does not name"
            )
        for number, each in ways:
            found[number].append(each)

    def _ways(self, leaf: Leaf) -> Ways | None:
        """The accesses that a leaf may be; None where it is none of them.

        Each leaf is asked once, however many are made of it, and deep chains are no recursion.
        One that is no access is enough to settle what is made of it, so that those come first
        that are made of nothing else.
        """
        waiting = [(leaf, _shallow_first(leaf))]
        while waiting:
            top, parts = waiting[-1]
            part = next(parts, None)
            if part is None or (id(part) in self.known and self.known[id(part)] is None):
                waiting.pop()
                self.known[id(top)] = self._of(top)
            elif id(part) not in self.known:
                waiting[-1] = top, chain([part], parts)  # again, when it is known
                waiting.append((part, _shallow_first(part)))
        return self.known[id(leaf)]

    def _of(self, leaf: Leaf) -> Ways | None:
        """The same where what it is made of is known, up to the first that is no access.

        A stored value may be the element that it went to as well as what it was made of. Where
        the statement reads both, no one can tell which it is: then it has no element that is
        compared.
        """
        direct = [
            (n, leaf)
            for n, access in enumerate(self.accesses)
            if access.array == leaf.array and _agree(leaf, access, self.active)
        ]
        if leaf.instead is None:
            return direct or None
        inner: dict[tuple[int, int], tuple[int, Leaf]] = {}
        for part in _shallow_first(leaf):
            ways = self.known[id(part)]
            if ways is None:
                return direct or None
            inner.update({(n, id(each)): (n, each) for n, each in ways})
        if not inner:
            return direct
        if not direct:
            return list(inner.values())
        return [(n, replace(each, element=None)) for n, each in (*direct, *inner.values())]


def _shallow_first(leaf: Leaf) -> Iterator[Leaf]:
    return iter(sorted(leaf.instead or (), key=lambda part: part.instead is not None))


def _agree(leaf: Leaf, access: Access, active: Bools) -> bool:
    if access.element is None or leaf.element is None:
        return access.element is None and leaf.element is None
    return not ((access.element != leaf.element) & active & leaf.on.may & access.may).any()
