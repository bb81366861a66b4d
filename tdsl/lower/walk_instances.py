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
from tdsl.ir.vector import Home
from tdsl.ir.walk_vector import VALUES, item_values, items, operands, values_in
from tdsl.lower.accesses import Memory, reads
from tdsl.lower.dots_seen import (
    at_places,
    joined_leaf,
    operand_places,
    repeated_leaf,
    running_terms,
    sides_of,
    spread_leaf,
)
from tdsl.lower.masks_seen import EVERYWHERE, Mask, elements, lane_numbers, mask_of, numbers
from tdsl.lower.records_seen import (
    Done,
    Leaf,
    Made,
    Matching,
    Register,
    Scope,
    Seen,
    Time,
    Write,
    in_lane,
    joined,
    spread,
)
from tdsl.lower.reference import ranked
from tdsl.lower.registers_seen import (
    homes,
    joined_lanes,
    partials,
    resolved,
    resolved_once,
    running,
)
from tdsl.lower.tables import YES, Env, Ints, OnData, Table, evaluate
from tdsl.polyhedral.program import Program
from tdsl.polyhedral.rebuild import Miscompiled

# Whose operands' leaves do not stand for lanes of the same number.
APART = v.Ref | v.Repeat | v.Join | v.Slide | v.Choose | v.Part | v.Dot | v.Column
# Items that read and write nothing.
_ASIDE = (v.Comment, v.Prefetch, v.Fence, v.LetIndex, v.For, v.Block)


@dataclass
class Walk:
    """Collects what one function writes; `finished` has it by statement."""

    program: Program
    memory: Memory
    done: dict[str, list[Done]] = field(default_factory=dict)

    def function(self, blocks: Sequence[v.Block], table: Table) -> None:
        """What is prepared once, and what runs in each call, one after the other."""
        for position, block in enumerate(blocks):
            self._block(block, table.at(position), Scope())

    # ---------------------------------------------------------------- control flow

    def _block(self, block: v.Block, table: Table, scope: Scope) -> None:
        if not table.rows:
            return
        home, parent = homes(block), partials(block)
        mine: list[Register] = []
        for position, item in enumerate(block.items):
            here = table.at(position)
            made = Made(len(table.time), position)
            self._bounds(item, here, scope)
            match item:
                case v.Comment() | v.Prefetch() | v.Fence():
                    pass
                case v.Misaligned(name, buffer, offset, bytes):
                    # Any address: another for each choice of sizes, aligned for samples of loops.
                    lanes = bytes // self.program.arrays[buffer].type.bytes
                    past = (here.value(offset) + here.choice + 1) % max(1, lanes)
                    table = table.having(name, past * (not table.sample))
                case v.Let(name, value):
                    scope.lets[name], scope.made[name] = value, made
                case v.LetIndex(name, value):
                    table = table.having(name, table.value(value))
                case v.Declare(name, type):
                    ids = np.arange(table.rows, dtype=np.int64)
                    table = table.having(_id(name), ids)
                    nowhere = np.zeros((table.rows, type.lanes), dtype=np.bool_)
                    # What is in no memory counts as it is assigned.
                    stored = nowhere | (item.home is not None)
                    register = Register(
                        name, home.get(name), parent.get(name), made.depth, nowhere, stored,
                        np.zeros((table.rows, 1), dtype=np.int64), item.home is not None,
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
                case v.Scatter():
                    self._scatter(item, here, scope)
                case v.For() if all(isinstance(x, _ASIDE) for x in items(item.body)):
                    pass  # prefetches, say: as many as they may be
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

    def _condition(self, condition: Expr | v.Value, table: Table, scope: Scope) -> Mask:
        if not isinstance(condition, VALUES):
            chosen = table.holds(condition)
            return Mask(chosen, chosen)
        on = mask_of(condition, scope.lets, table.env)
        may, must = (np.broadcast_to(m, (table.rows, 1))[:, 0] for m in (on.may, on.must))
        return Mask(may, must)

    # ---------------------------------------------------------------- writes

    def _store(self, item: v.Store, table: Table, made: Made, scope: Scope) -> None:
        lanes = item.value.type.lanes
        env = table.env
        element = elements(item.offset, item.stride, lanes, env)
        on = mask_of(item.mask, scope.lets, env)
        if item.origin is not None:
            write = self._write(item.origin, item.value, lanes, element, table, scope)
            self._commit(write.where(on.may))
            if isinstance(item.value, v.Ref) and item.mask is None:
                home = Home(item.buffer, item.offset, item.stride)
                scope.store(item.value.name, home, made)
            return
        if not isinstance(item.value, v.Ref) or item.value.name not in scope.registers:
            raise Miscompiled(f"a store to {item.buffer} that stands for no instance")
        register = scope.registers[item.value.name]
        register.ends.append(register.position(table))
        ids = table.columns[_id(register.name)]
        shape = (table.rows, lanes)
        if register.home is None or register.home.buffer != item.buffer:
            raise Miscompiled(f"{register.name} is stored to an element that is not its own")
        own = elements(register.home.offset, register.home.stride, lanes, env)
        active = np.broadcast_to(on.may, shape)
        if (np.broadcast_to(own != element, shape) & active).any():
            raise Miscompiled(f"{register.name} is stored to an element that is not its own")
        np.logical_or.at(register.stored, ids, active)

    def _scatter(self, item: v.Scatter, table: Table, scope: Scope) -> None:
        """An update of an element that data choose: the one that it reads."""
        if item.origin is None:
            raise Miscompiled(f"a store to {item.buffer} that stands for no instance")
        parts = resolved_once(item.value, scope.lets)
        found = [p for p in parts if isinstance(p, v.Gather) and p.buffer == item.buffer]
        if not any(p.offset == item.offset for p in found):
            raise Miscompiled(f"a store to an element of {item.buffer} that is not updated")
        nowhere = np.zeros((1, 1), dtype=np.int64)
        write = self._write(item.origin, item.value, 1, nowhere, table, scope)
        self._commit(write)

    def _assign(
        self,
        register: Register,
        value: v.Value,
        origin: v.Origin | None,
        table: Table,
        scope: Scope,
    ) -> None:
        ids = table.columns[_id(register.name)]
        lanes = register.known.shape[1]
        env = table.env
        if origin is not None:
            home = self._home(register, scope)
            element = elements(home.offset, home.stride, lanes, env)
            write = self._write(origin, value, lanes, element, table, scope)
            if origin.masked and write.active.shape[1] == lanes * origin.terms:
                old = v.Ref(register.name, value.type)
                on = mask_of(running(value, old, scope.lets), scope.lets, env)
                write = write.where(on.may)
            if origin.lanes is not None and write.active.shape[1] == lanes * origin.terms:
                write = write.where(mask_of(origin.lanes, scope.lets, env).may)
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
                wrong = elements(offset, stride, lanes, env) != elements(
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
        self, register: Register, value: v.Value, ids: Ints, table: Table, scope: Scope
    ) -> None:
        """`value`: the register joined with partial results, once each."""
        register.uses.append(register.position(table))
        parts = [p for p in resolved(value, scope.lets) if isinstance(p, v.Ref)]
        names = [p.name for p in parts if p.name in scope.registers]
        others = [name for name in names if name != register.name]
        for name in others:
            partial = scope.registers[name]
            if partial.parent == register.name:
                partial.ends.append(partial.position(table))
                np.add.at(partial.joined, ids, 1)
        strange = any(scope.registers[name].parent != register.name for name in others)
        if len(names) - len(others) != 1 or not others or strange:
            raise Miscompiled(f"{register.name} is joined with something else than partial results")

    def _home(self, register: Register, scope: Scope) -> Home:
        if register.parent is not None:
            return replace(self._home(scope.registers[register.parent], scope), stride=_STILL)
        if register.home is None:
            raise Miscompiled(f"{register.name} belongs to no element")
        return register.home

    def _close(self, register: Register, scope: Scope) -> None:
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
            self._commit(write.where(stored[write.ids]))
        if register.private:
            return
        if (register.stored & ~register.known).any():
            raise Miscompiled(f"{register.name} is stored, but holds nothing")

    def _write(
        self,
        origin: v.Origin,
        value: v.Value,
        lanes: int,
        element: Ints,
        table: Table,
        scope: Scope,
    ) -> Write:
        stmt = self.program.statements[origin.statement]
        active = YES
        joined = joined_lanes(value, scope.lets, scope.stored) if lanes == 1 else None
        if joined is not None:  # all lanes go into one element
            lanes = joined.arg.type.lanes
            if origin.masked:
                on = running(joined.arg, None, scope.lets)
                active = mask_of(on, scope.lets, table.env).may
        places = lanes * origin.terms
        sides: tuple[tuple[Leaf, ...], ...] = ()
        shape, behind = (table.rows, places), None
        env = {**table.env, v.LANE: lane_numbers(places) // origin.terms}
        active, mixed = spread(active, places), np.zeros((1, 1), dtype=np.bool_)
        if origin.terms > 1:
            env[v.TERM] = lane_numbers(places) % origin.terms
            terms = running_terms(value, scope.lets, table.env)
            if terms is None:
                raise Miscompiled(f"{stmt.name} adds terms at once without an instruction")
            active, mixed = active & terms[0], terms[1]
            if origin.count is not None:
                runs = env[v.TERM] < evaluate(origin.count, env)
                behind, active = np.broadcast_to(active & ~runs, shape), active & runs
                sides = tuple(
                    tuple(at_places(x, at) for x in self._leaves(side, table, scope, None))
                    for side, at in sides_of(value, scope.lets)
                )
        index = {
            name: np.broadcast_to(evaluate(expr, env), shape)
            for name, expr in zip(stmt.indices, origin.index, strict=True)
        }
        leaves = tuple(self._leaves(value, table, scope, None))
        return Write(
            stmt, table.env, index, np.broadcast_to(active, shape),
            np.broadcast_to(spread(element, places), shape), table.time, leaves,
            mixed=np.broadcast_to(mixed, shape), terms=origin.terms, behind=behind, sides=sides,
        )  # fmt: skip

    # ---------------------------------------------------------------- reads

    def _leaves(
        self, value: v.Value, table: Table, scope: Scope, made: Made | None
    ) -> Iterator[Leaf]:
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
                element = elements(home.offset, home.stride, type.lanes, env)
                holder = None if register.parent else (register, table.columns[_id(name)])
                yield Leaf(home.buffer, element, EVERYWHERE, time, None, holder)
            case v.Ref(name, type):
                for each in scope.unknown(name):
                    parts = self._leaves(scope.lets[each], table, scope, scope.made[each])
                    scope.leaves[each] = tuple({id(leaf): leaf for leaf in parts}.values())
                inner = scope.leaves[name]
                if name not in scope.stored:
                    yield from inner
                    return
                home, when = scope.stored[name]
                element = elements(home.offset, home.stride, type.lanes, env)
                yield Leaf(home.buffer, element, EVERYWHERE, when.time(table, after=True), inner)
            case v.Column(rows, lane, type):
                for number, row in enumerate(rows):
                    for leaf in self._leaves(row, table, scope, made):
                        yield in_lane(leaf, lane, number, type.lanes)
            case v.Load(buffer, offset, type, stride, mask):
                on = mask_of(mask, scope.lets, env)
                yield Leaf(buffer, elements(offset, stride, type.lanes, env), on, time)
            case v.Gather(buffer, offset, _, mask):
                on = mask_of(mask, scope.lets, env)
                yield Leaf(buffer, _numbers(offset, scope, env), on, time)
            case v.Repeat(arg, type):
                times = type.lanes // arg.type.lanes
                for leaf in self._leaves(arg, table, scope, made):
                    yield repeated_leaf(leaf, times)
            case v.Join(low, high, type):
                for leaf in self._leaves(low, table, scope, made):
                    yield joined_leaf(leaf, type.lanes, high=False)
                for leaf in self._leaves(high, table, scope, made):
                    yield joined_leaf(leaf, type.lanes, high=True)
            case v.Slide(low, high, start, type):
                lanes = np.arange(start, start + type.lanes)
                for part, upper in ((low, False), (high, True)):
                    for leaf in self._leaves(part, table, scope, made):
                        yield at_places(joined_leaf(leaf, 2 * type.lanes, high=upper), lanes)
            case v.Choose(mask, then, other):
                yield from self._leaves(mask, table, scope, made)
                on = mask_of(mask, scope.lets, env)
                for leaf in self._leaves(then, table, scope, made):
                    yield replace(leaf, on=leaf.on.within(on))
                for leaf in self._leaves(other, table, scope, made):
                    yield replace(leaf, on=leaf.on.within(on.others))
            case v.Part(arg, start, type):
                for leaf in self._leaves(arg, table, scope, made):
                    yield at_places(leaf, np.arange(start, start + type.lanes))
            case v.Dot(acc, first, second, type):
                for leaf in self._leaves(acc, table, scope, made):
                    yield spread_leaf(leaf, type.lanes * value.group)
                for operand, at in zip((first, second), operand_places(value), strict=True):
                    for leaf in self._leaves(operand, table, scope, made):
                        yield at_places(leaf, at)
            case _:
                pass
        if not isinstance(value, APART):
            for operand in operands(value):
                yield from self._leaves(operand, table, scope, made)

    def _bounds(self, item: v.Item, table: Table, scope: Scope) -> None:
        env = table.env
        if isinstance(item, v.Store):
            on = mask_of(item.mask, scope.lets, env)
            element = elements(item.offset, item.stride, item.value.type.lanes, env)
            self._inside(item.buffer, element, on, env)
        for top in item_values(item):
            for value in values_in(top):
                match value:
                    case v.Load(buffer, offset, type, stride, mask):
                        element = elements(offset, stride, type.lanes, env)
                        on = mask_of(mask, scope.lets, env)
                        self._inside(buffer, element, on, env, self._more(buffer))
                    case v.Gather(buffer, offset, _, mask):
                        known = _numbers(offset, scope, env)
                        if known is not None:
                            self._inside(buffer, known, mask_of(mask, scope.lets, env), env)
                    case _:
                        pass

    def _more(self, buffer: str) -> int:
        """Elements behind an array that may be read, whatever they hold."""
        array = self.memory.arrays[buffer]
        return v.OVER // array.type.bytes if array.role in v.OWN else 0

    def _inside(self, buffer: str, element: Ints, on: Mask, env: Env, more: int = 0) -> None:
        low, high = self.memory.bounds(buffer, env)
        if (((element < low) | (element > high + more)) & on.may).any():
            raise Miscompiled(f"an access lies outside {buffer}")

    # ---------------------------------------------------------------- results

    def _commit(self, write: Write) -> None:
        """Compares what a write does with what its statement says, where lanes are active."""
        stmt, active = write.stmt, write.active
        if not active.any():
            return
        if write.mixed is not None and (write.mixed & write.running_lanes).any():
            raise Miscompiled(f"{stmt.name} adds a term that is no instance")
        env = {**write.env, **write.index}
        try:
            wrong = self.memory.element(stmt.write.array, stmt.write.subscript, env)
            if ((wrong != write.element) & active).any():
                raise Miscompiled(f"{stmt.name} writes another element than it names")
        except OnData:
            pass
        accesses = reads(stmt, self.memory, env)
        found: list[list[Leaf]] = [[] for _ in accesses]
        matching = Matching(stmt, accesses, active)
        for leaf in write.leaves:
            if not (active & leaf.on.may).any():
                continue  # what lanes have that do not run
            if leaf.register is not None:
                register, ids = leaf.register
                known = register.known[ids]
                held = known if leaf.lanes is None else known[:, leaf.lanes]
                if (active & ~spread(held, active.shape[1])).any():
                    raise Miscompiled(f"{stmt.name} reads {register.name}, which holds nothing")
            matching.match(leaf, found)
        for access, leaves in zip(accesses, found, strict=True):
            if self.program.arrays[access.array].values is not None:
                continue  # what a table holds may stand in the text
            needed = access.must & active
            left = needed.copy()
            for leaf in leaves:
                left &= ~np.broadcast_to(leaf.on.must, needed.shape)
            if left.any():
                raise Miscompiled(f"{stmt.name} does not read {access.array} where it has to")
        self.done.setdefault(stmt.name, []).append(Done(write, accesses, found))

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
            result[name] = joined(parts, 1 + len(stmt.indices))
        return result


_STILL = const(0)


def _id(register: str) -> str:
    """The column that tells the iteration of the block that a register was declared in."""
    return f"in {register}"


def _numbers(value: v.Value, scope: Scope, env: Env) -> Ints | None:
    try:
        return numbers(value, scope.lets, env)
    except OnData:
        return None
