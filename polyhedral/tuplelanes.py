"""A loop over the terms of a tuple reduction as lanes: one state a lane, joined at the end.

    before: for i { for j { m_next = ...m[i], x[i, j]...   m[i] = m_next } }
    after, j in 8 lanes:
        for i {
            m_lanes[0..8] = start                           a state of its own for each lane
            for j by blocks { for lane j { m_next[lane] = ...m_lanes[lane], x[i, j]...
                                           m_lanes[lane] = m_next[lane] } }
            m[i] = start
            for lane { m_joined = join of m[i], m_lanes[lane]    m[i] = m_joined }
        }

All of these are ordinary statements, so that what follows proves them like any others. The states
live once in an iteration of the innermost loop outside the reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from tdsl.ir.index import const
from tdsl.ir.kernel import Array, Expr, Read, Size, Var, rebuilt
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.edit import EditError, find, sequence, update
from tdsl.polyhedral.extent import UNBOUNDED
from tdsl.polyhedral.from_isl import from_pw_aff
from tdsl.polyhedral.inits import is_reduction_loop, runs_over
from tdsl.polyhedral.model import extent_of, with_value
from tdsl.polyhedral.parts import selecting
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Program, Stmt, free_array, free_statement
from tdsl.polyhedral.tree import Leaf, Loop, Node, loops_of, statements

SET = isl.dim_type.set
STATES = 256  # of a part, one a lane


@dataclass(frozen=True)
class InLanes:
    """The program and its tree. arrays: whose accesses are new; private: those of them that exist
    once in an iteration of `home`, a statement below it and its name."""

    program: Program
    tree: Node
    arrays: frozenset[str]
    private: frozenset[str]
    home: tuple[str, str] | None


@bounded("the states of a tuple reduction in lanes")
def in_lanes(program: Program, tree: Node, head: str, name: str) -> InLanes:
    """`head`: the tuple reduction; `name`: its loop that becomes lanes. The tree has no first
    terms."""
    around = loops_of(tree, head)
    first = next(n for n, x in enumerate(around) if is_reduction_loop(x, program.statements[head]))
    _check_loops(program, around, first, head)
    maker = _Maker(program, head, find(tree, head, name), around, first)
    made = maker.made()
    outside = around[:first]
    new = maker.placed(tree)
    home = (head, outside[-1].name) if outside else None
    kept = {s.write.array for s in maker.keepers}
    return InLanes(made, new, frozenset({*kept, *maker.private}), frozenset(maker.private), home)


def _check_loops(program: Program, around: Sequence[Loop], first: int, head: str) -> None:
    stmt = program.statements[head]
    for loop in around[:first]:
        if loop.mark not in ("serial", "parallel"):
            raise EditError(f"{head}.{loop.name} is unrolled or vectorized, around the lanes")
    for loop in around[first:]:
        free = (i for i in stmt.indices if i not in stmt.reduction)
        own = [i for i in free if runs_over(loop, head, stmt.indices.index(i))]
        if not is_reduction_loop(loop, stmt):
            raise EditError(f"{head}.{loop.name} runs over other indices inside the reduction")
        if own:
            raise EditError(
                f"{head}.{loop.name} runs over {own[0]} beside the terms of the reduction: lanes "
                "would share their states",
                help=f"leave out what joins the two, the skew of {loop.name}, say",
            )
        others = [s for s in statements(loop) if program.statements[s].tuple_of != head]
        if others:
            raise EditError(f"{head} shares {loop.name}, over which it reduces, with {others[0]}")


@dataclass
class _Maker:
    """Makes the statements of one reduction in lanes. private: the names of the new arrays."""

    program: Program
    head: str
    lane_loop: Loop
    around: Sequence[Loop]
    first: int

    def __post_init__(self) -> None:
        members = [s for s in self.program.statements.values() if s.tuple_of == self.head]
        members = [s for s in members if s.init_of is None]
        self.keepers = [s for s in members if s.reduction]
        self.others = [s for s in members if not s.reduction]
        self.joined: list[Stmt] = []
        self.private: list[str] = []
        self._taken = {*self.program.statements, *self.program.arrays, *self.program.params}
        self.free = [i for i in self.keepers[0].indices if i not in self.keepers[0].reduction]
        for s in members:
            if [i for i in s.indices if i not in self.keepers[0].indices]:
                raise EditError(f"{s.name} has indices of its own, which lanes would repeat")
        self.low, self.count = self._lanes()
        self.index = self._name(f"{self.lane_loop.name}_lane")

    def made(self) -> Program:
        """The program with the states of lanes and what joins them."""
        source = self.program
        states = {s.write.array: self._array(s, "lanes") for s in self.keepers}
        nexts = {s.write.array: self._again(s) for s in self.others}
        results = {s.name: self._array(s, "joined", ()) for s in self.keepers}
        new = [*states.values(), *nexts.values(), *results.values()]
        self.private = [a.name for a in new]
        program = source
        for array in new:
            program = _with_array(program, array)
        done: dict[str, Stmt] = {}
        count = 0
        for key, stmt in source.statements.items():
            if stmt.tuple_of == self.head and stmt.init_of is None:
                done[key] = self._partial(program, stmt, states, nexts)
            elif stmt.tuple_of == self.head:
                done[key] = self._start(program, stmt, states, count)
                count += 1
            else:
                done[key] = stmt
            if stmt is self._last():
                for made in self._joins(program, states, results, count):
                    done[made.name] = made
        return replace(program, statements=done)

    def _last(self) -> Stmt:
        members = {s.name for s in (*self.keepers, *self.others)}
        return [s for s in self.program.statements.values() if s.name in members][-1]

    def _name(self, wish: str) -> str:
        while wish in self._taken:
            wish += "_"
        self._taken.add(wish)
        return wish

    # ---------------------------------------------------------------- lanes

    def _lane(self, statement: str) -> isl.PwAff:
        """The lane of an instance, counted from some first one."""
        loop = self.lane_loop
        info, coordinate = loop.inner_of, loop.coords[statement]
        block = [x for x in self.around if info is not None and x.name == info.outer]
        if info is None or not block:
            return coordinate
        if info.tail.balanced:
            raise EditError(f"the blocks of {loop.name} are balanced: lanes share no places")
        return coordinate.sub(block[0].coords[statement].scale_val(isl.Val(info.factor)))

    def _lanes(self) -> tuple[isl.PwAff, int]:
        """The first lane, over the sizes, and how many there are."""
        values: isl.Set | None = None
        for s in self.keepers:
            own = self._lane(s.name).as_map().intersect_domain(s.domain).range()
            values = own if values is None else values.union(own)
        assert values is not None
        values = coalesced(values.intersect_params(self.program.context))
        low = coalesced(values.dim_min(0)).gist(self.program.context)
        most = values.dim_max(0).sub(values.dim_min(0)).max_val()
        if len(low.get_pieces()) != 1 or not most.is_int() or most.to_python() >= UNBOUNDED:
            raise EditError(f"{self.lane_loop.name} has no constant number of lanes")
        count = int(most.to_python()) + 1
        if count > STATES:
            raise EditError(f"{count} lanes of {self.lane_loop.name} would each need a state")
        return isl.PwAff.from_aff(low.get_pieces()[0][1]), count

    def _place(self, stmt: Stmt) -> Expr:
        """The lane of an instance as an index expression."""
        lane = self._lane(stmt.name)
        lane = coalesced(lane.sub(self.low.insert_domain(stmt.domain.get_space())))
        sizes = [Size(s) for s in self.program.params]
        return from_pw_aff(lane, [Var(i) for i in stmt.indices], sizes)

    # ---------------------------------------------------------------- arrays

    def _array(self, stmt: Stmt, word: str, shape: tuple[Expr, ...] | None = None) -> Array:
        kind = self.program.arrays[stmt.write.array].type
        name = self._name(f"{stmt.name}_{word}")
        return Array(name, kind, self._shape() if shape is None else shape, "stack", span=stmt.span)

    def _again(self, stmt: Stmt) -> Array:
        """A temp of one term, once for each lane."""
        old = self.program.arrays[stmt.write.array]
        return replace(old, shape=self._shape(), role="stack", local=None)

    def _shape(self) -> tuple[Expr, ...]:
        return (const(self.count),)

    # ---------------------------------------------------------------- statements

    def _partial(
        self, program: Program, stmt: Stmt, states: Mapping[str, Array], nexts: Mapping[str, Array]
    ) -> Stmt:
        """A member of the nest, with a state for each lane."""
        lane = (self._place(stmt),)
        own = {s.write.array: s.write.subscript for s in self.keepers}

        def changed(expr: Expr) -> Expr:
            match expr:
                case Read(array, at, type_) if array in own and at == own[array]:
                    return Read(states[array].name, lane, type_, span=expr.span)
                case Read(array, _, type_) if array in nexts:
                    return Read(array, lane, type_, span=expr.span)
                case _:
                    return rebuilt(expr, changed)

        array = stmt.write.array
        name = states[array].name if array in states else array
        assert stmt.value is not None
        return with_value(program, stmt, changed(stmt.value), lane, name)

    def _start(self, program: Program, init: Stmt, states: Mapping[str, Array], count: int) -> Stmt:
        """What a lane's state is before any term."""
        longer = self._longer(init, free_statement(self.program, count))
        state = states[init.write.array].name
        return with_value(program, longer, init.value, (Var(self.index),), state)

    def _longer(self, init: Stmt, tuple_name: str) -> Stmt:
        """A start value with a lane as a further index."""
        domain = init.domain.insert_dims(SET, init.domain.dim(SET), 1)
        last = init.domain.dim(SET)
        domain = domain.lower_bound_val(SET, last, isl.Val(0))
        domain = domain.upper_bound_val(SET, last, isl.Val(self.count - 1))
        return replace(
            init,
            tuple_name=tuple_name,
            indices=(*init.indices, self.index),
            domain=domain.set_tuple_name(tuple_name),
        )

    def _joins(
        self,
        program: Program,
        states: Mapping[str, Array],
        results: Mapping[str, Array],
        count: int,
    ) -> list[Stmt]:
        """The states of the lanes, one after the other, joined into one."""
        known: dict[str, Expr] = {}
        for s in self.keepers:
            array = s.write.array
            kind = self.program.arrays[array].type
            known[s.name] = Read(array, s.write.subscript, kind)
            known[s.name + "'"] = Read(states[array].name, (Var(self.index),), kind)
        inits, nexts, backs = [], [], []
        joins = {s.name: self.program.kernel.statement(s.name).join for s in self.keepers}
        names = {s.name: self._name(f"{s.name}_join") for s in self.keepers}
        head = names[self.keepers[0].name]
        for s in self.keepers:
            init = self.program.statements[f"{s.name}.init"]
            join = joins[s.name]
            assert join is not None
            tuples = [free_statement(self.program, count + n) for n in range(3)]
            count += 3
            inits.append(
                replace(
                    init, name=f"{names[s.name]}.init", init_of=names[s.name], tuple_of=head,
                    tuple_name=tuples[0], domain=init.domain.set_tuple_name(tuples[0]),
                    write=replace(
                        init.write, map=init.write.map.set_tuple_name(isl.dim_type.in_, tuples[0])
                    ),
                )
            )  # fmt: skip
            result = results[s.name]
            next_ = replace(
                self._longer(init, tuples[1]), name=result.name, init_of=None, tuple_of=head
            )
            nexts.append(with_value(program, next_, _placed(join, known), (), result.name))
            back = replace(
                self._longer(init, tuples[2]), name=names[s.name], init_of=None, tuple_of=head,
                reduction=(self.index,),
            )  # fmt: skip
            value = Read(result.name, (), result.type)
            backs.append(with_value(program, back, value, s.write.subscript, s.write.array))
        self.joined = [*nexts, *backs]
        return [*inits, *self.joined]

    # ---------------------------------------------------------------- the tree

    def placed(self, tree: Node) -> Node:
        """The joins behind the outermost loop of the reduction."""
        leaves = sequence(Leaf(s.name) for s in self.joined)
        coords = {s.name: _index(s, self.index) for s in self.joined}
        nest = Loop(self.index, coords, leaves)
        outer = self.around[self.first]
        result = update(tree, self.head, outer.name, lambda loop: sequence([loop, nest]))
        for loop in self.around[: self.first]:
            old = self.program.statements[self.head]
            own = {s.name: self._outside(s, old, loop.coords[old.name]) for s in self.joined}
            result = update(result, self.head, loop.name, _with_coords(own))
        return result

    def _outside(self, stmt: Stmt, old: Stmt, coordinate: isl.PwAff) -> isl.PwAff:
        columns = {k: stmt.indices.index(i) for k, i in enumerate(old.indices) if i in stmt.indices}
        change = selecting(stmt.domain.get_space(), old.domain.get_space(), columns)
        return coordinate.pullback_multi_aff(change)


def _with_coords(own: Mapping[str, isl.PwAff]) -> Callable[[Loop], Node]:
    return lambda loop: replace(loop, coords={**loop.coords, **own})


def _index(stmt: Stmt, name: str) -> isl.PwAff:
    local = isl.LocalSpace.from_space(stmt.domain.get_space())
    return isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, stmt.indices.index(name)))


def _placed(expr: Expr, known: Mapping[str, Expr]) -> Expr:
    match expr:
        case Read(name, ()) if name in known:
            return known[name]
        case _:
            return rebuilt(expr, lambda e: _placed(e, known))


def _with_array(program: Program, array: Array) -> Program:
    """The program with an array, in place of one of its name."""
    old = program.extents.get(array.name)
    name = free_array(program) if old is None else old.get_tuple_name()
    return replace(
        program,
        arrays={**program.arrays, array.name: array},
        extents={**program.extents, array.name: extent_of(array, name, program.params)},
    )
