"""The vector level walked without data: what every write stands for, writes and reads.

All iterations of an item are looked at once (`tdsl.lower.tables`). A named value keeps what it
was made of, so that the elements behind it are known where it is used; the loop variables in its
text have there the values that they had where it was made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tdsl.ir import vector as v
from tdsl.ir.index import const
from tdsl.ir.kernel import Expr
from tdsl.ir.walk_vector import VALUES, item_values, operands, values_in
from tdsl.lower.accesses import Access, Memory, reads
from tdsl.lower.masks_seen import EVERYWHERE, Mask, lane_numbers, mask_of, numbers
from tdsl.lower.reference import ranked
from tdsl.lower.registers_seen import Home, homes, partials, resolved
from tdsl.lower.tables import CHOICE, YES, Bools, Env, Ints, OnData, Table, evaluate
from tdsl.polyhedral.program import Program, Stmt
from tdsl.polyhedral.rebuild import Miscompiled

Time = tuple[Ints, ...]
APART = 1 << 24  # between the elements of two choices of sizes


@dataclass(frozen=True)
class SeenRead:
    """Reads of one access of a statement: by which of its instances, what, and when."""

    access: int
    instances: Ints
    element: Ints
    rank: Ints


@dataclass(frozen=True)
class Seen:
    """The written instances of a statement (the number of the choice of sizes and the index
    values), the element that each writes, and when. Each choice has elements of its own."""

    instances: Ints
    element: Ints
    rank: Ints
    reads: Sequence[SeenRead]


@dataclass(frozen=True)
class _Made:
    """Where a named value was made, or stored (then it is seen after the item): so many loops
    and blocks deep, at a position."""

    depth: int
    position: int

    def time(self, table: Table, *, after: bool = False) -> Time:
        here = np.full(table.rows, self.position, dtype=np.int64)
        return (*table.time[: self.depth], here, *((here,) if after else ()))


@dataclass(frozen=True)
class _Leaf:
    """An element that a value is made of. element: None where data decide it.

    instead: a value that was stored is what that element holds, or what it was made of itself.
    register: the one that holds it, and in which iterations of its block.
    """

    array: str
    element: Ints | None
    on: Mask
    time: Time
    instead: tuple[_Leaf, ...] | None = None
    register: tuple[_Register, Ints] | None = None


@dataclass
class _Register:
    """A variable that is assigned to, per iteration of its block and lane: was it loaded or set,
    and is it stored in the end? parent: the register that a partial result is joined with.

    depth: of its block. loads, uses, ends: at which of the block's positions it is loaded, is
    read or assigned, and is stored or joined.
    """

    name: str
    home: Home | None
    parent: str | None
    depth: int
    known: Bools
    stored: Bools
    joined: Ints
    writes: list[_Write] = field(default_factory=list)
    loads: list[int] = field(default_factory=list)
    uses: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def position(self, table: Table) -> int:
        """Where in the register's block something inside it stands."""
        return int(table.time[self.depth][0])


@dataclass
class _Write:
    """Instances that one item writes: arrays of (rows, lanes). env: the table's."""

    stmt: Stmt
    env: Env
    index: Mapping[str, Ints]
    active: Bools
    element: Ints
    time: Time
    leaves: Sequence[_Leaf]
    ids: Ints | None = None


@dataclass
class _Scope:
    """Names in sight. stored: to what a named value was stored since it was made."""

    lets: dict[str, v.Value] = field(default_factory=dict)
    made: dict[str, _Made] = field(default_factory=dict)
    stored: dict[str, tuple[Home, _Made]] = field(default_factory=dict)
    registers: dict[str, _Register] = field(default_factory=dict)

    def inside(self) -> _Scope:
        return _Scope(dict(self.lets), dict(self.made), dict(self.stored), dict(self.registers))


@dataclass
class Walk:
    """Collects what one function writes; `finished` has it by statement."""

    program: Program
    memory: Memory
    done: dict[str, list[_Done]] = field(default_factory=dict)

    def function(self, body: v.Block, table: Table) -> None:
        self._block(body, table, _Scope())

    # ---------------------------------------------------------------- control flow

    def _block(self, block: v.Block, table: Table, scope: _Scope) -> None:
        if not table.rows:
            return
        home, parent = homes(block), partials(block)
        mine: list[_Register] = []
        for position, item in enumerate(block.items):
            here = table.at(position)
            made = _Made(len(table.time), position)
            self._bounds(item, here, scope)
            match item:
                case v.Comment():
                    pass
                case v.Let(name, value):
                    scope.lets[name], scope.made[name] = value, made
                case v.LetIndex(name, value):
                    table = table.having(name, table.value(value))
                case v.Declare(name, type):
                    ids = np.arange(table.rows, dtype=np.int64)
                    table = table.having(_id(name), ids)
                    nowhere = np.zeros((table.rows, type.lanes), dtype=np.bool_)
                    register = _Register(
                        name, home.get(name), parent.get(name), made.depth, nowhere, nowhere.copy(),
                        np.zeros((table.rows, 1), dtype=np.int64),
                    )  # fmt: skip
                    scope.registers[name] = register
                    mine.append(register)
                    if item.value is not None:
                        here = table.at(position)
                        self._assign(register, item.value, item.origin, here, scope)
                case v.Assign(name, value, origin):
                    self._assign(scope.registers[name], value, origin, here, scope)
                case v.Store():
                    self._store(item, here, made, scope)
                case v.For():
                    self._block(item.body, here.loop(item.var, item.lo, item.hi, item.step),
                                scope.inside())  # fmt: skip
                case v.If(condition, then, other):
                    runs = self._condition(condition, here, scope)
                    self._block(then, here.where(runs.may), scope.inside())
                    if other is not None:
                        self._block(other, here.where(~runs.must), scope.inside())
                case v.Switch(on_value, cases, default):
                    value_here = here.value(on_value)
                    for number, body in cases:
                        self._block(body, here.where(value_here == number), scope.inside())
                    left = ~np.isin(value_here, [n for n, _ in cases])
                    self._block(default, here.where(left), scope.inside())
                case v.Block():
                    self._block(item, here, scope.inside())
        for register in mine:
            self._close(register, scope)

    def _condition(self, condition: Expr | v.Value, table: Table, scope: _Scope) -> Mask:
        if not isinstance(condition, VALUES):
            chosen = table.holds(condition)
            return Mask(chosen, chosen)
        on = mask_of(condition, scope.lets, table.env)
        may, must = (np.broadcast_to(m, (table.rows, 1))[:, 0] for m in (on.may, on.must))
        return Mask(may, must)

    # ---------------------------------------------------------------- writes

    def _store(self, item: v.Store, table: Table, made: _Made, scope: _Scope) -> None:
        lanes = item.value.type.lanes
        env = table.env
        element = _element(item.offset, item.stride, lanes, env)
        on = mask_of(item.mask, scope.lets, env)
        if item.origin is not None:
            write = self._write(item.origin, item.value, lanes, element, table, scope)
            self._commit(replace(write, active=write.active & on.may))
            if isinstance(item.value, v.Ref) and item.mask is None:
                home = Home(item.buffer, item.offset, item.stride)
                scope.stored[item.value.name] = home, made
            return
        if not isinstance(item.value, v.Ref) or item.value.name not in scope.registers:
            raise Miscompiled(f"a store to {item.buffer} that stands for no instance")
        register = scope.registers[item.value.name]
        register.ends.append(register.position(table))
        ids = table.columns[_id(register.name)]
        shape = (table.rows, lanes)
        if register.home is None or register.home.buffer != item.buffer:
            raise Miscompiled(f"{register.name} is stored to an element that is not its own")
        own = _element(register.home.offset, register.home.stride, lanes, env)
        active = np.broadcast_to(on.may, shape)
        if (np.broadcast_to(own != element, shape) & active).any():
            raise Miscompiled(f"{register.name} is stored to an element that is not its own")
        np.logical_or.at(register.stored, ids, active)

    def _assign(
        self,
        register: _Register,
        value: v.Value,
        origin: v.Origin | None,
        table: Table,
        scope: _Scope,
    ) -> None:
        ids = table.columns[_id(register.name)]
        lanes = register.known.shape[1]
        env = table.env
        if origin is not None:
            home = self._home(register, scope)
            element = _element(home.offset, home.stride, lanes, env)
            write = self._write(origin, value, lanes, element, table, scope)
            if isinstance(value, v.Choose) and value.other == v.Ref(register.name, value.type):
                on = mask_of(value.mask, scope.lets, env)
                write = replace(write, active=write.active & on.may)
            write.ids = ids
            register.writes.append(write)
            if not write.stmt.is_update and write.active.shape[1] == lanes:
                np.logical_or.at(register.known, ids, write.active)
            register.uses.append(register.position(table))
            return
        match value:
            case v.Load(buffer, offset, _, stride, mask):
                register.loads.append(register.position(table))
                home = self._home(register, scope)
                active = np.broadcast_to(mask_of(mask, scope.lets, env).must, (table.rows, lanes))
                wrong = _element(offset, stride, lanes, env) != _element(
                    home.offset, home.stride, lanes, env
                )
                if home.buffer != buffer or (np.broadcast_to(wrong, active.shape) & active).any():
                    raise Miscompiled(f"{register.name} is loaded from another element than stored")
                np.logical_or.at(register.known, ids, active)
            case v.Const():
                pass
            case _:
                self._join(register, value, ids, table, scope)

    def _join(
        self, register: _Register, value: v.Value, ids: Ints, table: Table, scope: _Scope
    ) -> None:
        """`value`: the register joined with a partial result, once."""
        register.uses.append(register.position(table))
        parts = [p for p in resolved(value, scope.lets) if isinstance(p, v.Ref)]
        names = [p.name for p in parts if p.name in scope.registers]
        for name in names:
            partial = scope.registers[name]
            if partial.parent == register.name:
                partial.ends.append(partial.position(table))
                np.add.at(partial.joined, ids, 1)
        if names.count(register.name) != 1 or len(names) != 2:
            raise Miscompiled(f"{register.name} is joined with something else than partial results")

    def _home(self, register: _Register, scope: _Scope) -> Home:
        if register.parent is not None:
            return replace(self._home(scope.registers[register.parent], scope), stride=_STILL)
        if register.home is None:
            raise Miscompiled(f"{register.name} belongs to no element")
        return register.home

    def _close(self, register: _Register, scope: _Scope) -> None:
        """The block ends: what was assigned counts where it got to memory."""
        stored = register.stored
        if register.parent is not None:
            if (register.joined > 1).any():
                raise Miscompiled(f"{register.name} is joined twice")
            stored = (register.joined == 1) & scope.registers[register.parent].stored
        late = [u for u in register.uses if any(u >= end for end in register.ends)]
        early = [u for u in register.uses if any(u < load for load in register.loads)]
        if late or early:
            raise Miscompiled(f"{register.name} is used where it is not loaded, or stored already")
        for write in register.writes:
            assert write.ids is not None
            self._commit(replace(write, active=write.active & stored[write.ids]))
        if (register.stored & ~register.known).any():
            raise Miscompiled(f"{register.name} is stored, but holds nothing")

    def _write(
        self,
        origin: v.Origin,
        value: v.Value,
        lanes: int,
        element: Ints,
        table: Table,
        scope: _Scope,
    ) -> _Write:
        stmt = self.program.statements[origin.statement]
        active = YES
        joined = next(
            (p for p in resolved(value, scope.lets) if isinstance(p, v.Reduce) and lanes == 1), None
        )
        if joined is not None:  # all lanes go into one element
            lanes = joined.arg.type.lanes
            arg = joined.arg
            while isinstance(arg, v.Ref) and arg.name in scope.lets:
                arg = scope.lets[arg.name]
            if isinstance(arg, v.Choose) and isinstance(arg.other, v.Const):
                active = mask_of(arg.mask, scope.lets, table.env).may
        env = {**table.env, v.LANE: lane_numbers(lanes)}
        shape = (table.rows, lanes)
        index = {
            name: np.broadcast_to(evaluate(expr, env), shape)
            for name, expr in zip(stmt.indices, origin.index, strict=True)
        }
        leaves = tuple(self._leaves(value, table, scope, None))
        return _Write(
            stmt, table.env, index, np.broadcast_to(active, shape), np.broadcast_to(element, shape),
            table.time, leaves,
        )  # fmt: skip

    # ---------------------------------------------------------------- reads

    def _leaves(
        self, value: v.Value, table: Table, scope: _Scope, made: _Made | None
    ) -> Iterator[_Leaf]:
        """The elements that a value is made of; `made`: where, if not here."""
        env = table.env
        time = table.time if made is None else made.time(table)
        match value:
            case v.Ref(name, type) if name in scope.registers:
                register = scope.registers[name]
                used = (
                    register.position(table)
                    if made is None or made.depth > register.depth
                    else (made.position)
                )
                register.uses.append(used)
                home = self._home(register, scope)
                element = _element(home.offset, home.stride, type.lanes, env)
                holder = None if register.parent else (register, table.columns[_id(name)])
                yield _Leaf(home.buffer, element, EVERYWHERE, time, None, holder)
            case v.Ref(name, type):
                inner = tuple(self._leaves(scope.lets[name], table, scope, scope.made[name]))
                if name not in scope.stored:
                    yield from inner
                    return
                home, when = scope.stored[name]
                element = _element(home.offset, home.stride, type.lanes, env)
                yield _Leaf(home.buffer, element, EVERYWHERE, when.time(table, after=True), inner)
            case v.Load(buffer, offset, type, stride, mask):
                on = mask_of(mask, scope.lets, env)
                yield _Leaf(buffer, _element(offset, stride, type.lanes, env), on, time)
            case v.Gather(buffer, offset, _, mask):
                on = mask_of(mask, scope.lets, env)
                yield _Leaf(buffer, _numbers(offset, scope, env), on, time)
            case _:
                pass
        if not isinstance(value, v.Ref):
            for operand in operands(value):
                yield from self._leaves(operand, table, scope, made)

    def _bounds(self, item: v.Item, table: Table, scope: _Scope) -> None:
        env = table.env
        if isinstance(item, v.Store):
            on = mask_of(item.mask, scope.lets, env)
            element = _element(item.offset, item.stride, item.value.type.lanes, env)
            self._inside(item.buffer, element, on, env)
        for top in item_values(item):
            for value in values_in(top):
                match value:
                    case v.Load(buffer, offset, type, stride, mask):
                        element = _element(offset, stride, type.lanes, env)
                        self._inside(buffer, element, mask_of(mask, scope.lets, env), env)
                    case v.Gather(buffer, offset, _, mask):
                        known = _numbers(offset, scope, env)
                        if known is not None:
                            self._inside(buffer, known, mask_of(mask, scope.lets, env), env)
                    case _:
                        pass

    def _inside(self, buffer: str, element: Ints, on: Mask, env: Env) -> None:
        low, high = self.memory.bounds(buffer, env)
        if (((element < low) | (element > high)) & on.may).any():
            raise Miscompiled(f"an access lies outside {buffer}")

    # ---------------------------------------------------------------- results

    def _commit(self, write: _Write) -> None:
        """Compares what a write does with what its statement says, where lanes are active."""
        stmt, active = write.stmt, write.active
        if not active.any():
            return
        env = {**write.env, **write.index}
        try:
            wrong = self.memory.element(stmt.write.array, stmt.write.subscript, env)
            if ((wrong != write.element) & active).any():
                raise Miscompiled(f"{stmt.name} writes another element than it names")
        except OnData:
            pass
        accesses = reads(stmt, self.memory, env)
        found: list[list[_Leaf]] = [[] for _ in accesses]
        for leaf in write.leaves:
            if leaf.register is not None:
                register, ids = leaf.register
                if (active & ~register.known[ids]).any():
                    raise Miscompiled(f"{stmt.name} reads {register.name}, which holds nothing")
            _match(leaf, accesses, active, found, stmt)
        for access, leaves in zip(accesses, found, strict=True):
            needed = access.must & active
            if needed.any() and not any(
                (np.broadcast_to(leaf.on.must, needed.shape) | ~needed).all() for leaf in leaves
            ):
                raise Miscompiled(f"{stmt.name} does not read {access.array} where it has to")
        self.done.setdefault(stmt.name, []).append(_Done(write, accesses, found))

    def finished(self) -> Mapping[str, Seen]:
        """What was seen of each statement."""
        times: list[Time] = []
        for name in self.program.statements:
            for part in self.done.get(name, ()):
                times += part.times()
        ranks = iter(ranked(times))
        result = {}
        for name, stmt in self.program.statements.items():
            parts = [part.seen(ranks) for part in self.done.get(name, ())]
            result[name] = _joined(parts, 1 + len(stmt.indices))
        return result


@dataclass(frozen=True)
class _Done:
    """A write with its leaves sorted by the accesses of the statement that they are."""

    write: _Write
    accesses: Sequence[Access]
    found: Sequence[Sequence[_Leaf]]

    def times(self) -> list[Time]:
        return [self.write.time, *(leaf.time for leaves in self.found for leaf in leaves)]

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
        return Seen(instances, element, rank, found)


def _joined(parts: Sequence[Seen], columns: int) -> Seen:
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
    )


def _match(
    leaf: _Leaf, accesses: Sequence[Access], active: Bools, found: list[list[_Leaf]], stmt: Stmt
) -> None:
    """Sorts a leaf to the accesses that it may be; there has to be one."""
    hits = [
        n
        for n, access in enumerate(accesses)
        if access.array == leaf.array and _agree(leaf, access, active)
    ]
    for n in hits:
        found[n].append(leaf)
    if hits:
        return
    if leaf.instead is None:
        raise Miscompiled(f"{stmt.name} reads an element of {leaf.array} that it does not name")
    for inner in leaf.instead:
        _match(inner, accesses, active, found, stmt)


def _agree(leaf: _Leaf, access: Access, active: Bools) -> bool:
    if access.element is None or leaf.element is None:
        return access.element is None and leaf.element is None
    return not ((access.element != leaf.element) & active & leaf.on.may & access.may).any()


_STILL = const(0)


def _id(register: str) -> str:
    """The column that tells the iteration of the block that a register was declared in."""
    return f"in {register}"


def _element(offset: Expr, stride: Expr | None, lanes: int, env: Env) -> Ints:
    first = evaluate(offset, env)
    if lanes == 1:
        return first
    step = YES.astype(np.int64) if stride is None else evaluate(stride, env)
    return first + step * lane_numbers(lanes)


def _numbers(value: v.Value, scope: _Scope, env: Env) -> Ints | None:
    try:
        return numbers(value, scope.lets, env)
    except OnData:
        return None
