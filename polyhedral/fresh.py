"""Memory for temps that are declared in the body of a `for`: fresh in every iteration.

before: for i { t[j] = x[i, j]  y[i, j] = t[j] * t[j] }     t is an array of its own for each i
after:  the same, with one t for all i where the order allows it; with t[i, j] where iterations
        of i overlap in time; with one t a thread where i is parallel

Dependences through such an array exist inside one iteration alone (`dependences.compute`). What
its memory adds to them depends on the finished order, so it is chosen here, at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from tdsl.ir.index import add, const, maximum, simplify, sub
from tdsl.ir.kernel import Array, Const, Expr, Read, Size, Var, rebuilt
from tdsl.polyhedral.edit import find
from tdsl.polyhedral.from_isl import from_pw_aff
from tdsl.polyhedral.inits import coordinate_map
from tdsl.polyhedral.leaves import is_dim
from tdsl.polyhedral.model import extent_of, nest_indices
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Access, Dependence, Program, Stmt
from tdsl.polyhedral.tree import Loop, Node, loops, loops_of, statements

MOST_BYTES = 64 * 1024  # of one array on the stack
SET, IN, OUT = isl.dim_type.set, isl.dim_type.in_, isl.dim_type.out


@dataclass(frozen=True)
class Choice:
    """The program with memory for one array. private: loops in each of whose iterations it is
    new, each by a statement below it and its name."""

    program: Program
    private: tuple[tuple[str, str], ...] = ()


def fresh_arrays(program: Program) -> tuple[str, ...]:
    """The arrays that have no memory yet."""
    return tuple(a.name for a in program.arrays.values() if a.local is not None)


def around(program: Program, array: str) -> tuple[str, ...]:
    """The `for` indices in whose iterations the array is fresh, outermost first."""
    local = program.arrays[array].local
    assert local is not None
    nests = nest_indices(program.kernel)
    for stmt in _users(program, array):
        names = nests.get(stmt.init_of or stmt.name, ())
        if local in names:
            return names[: names.index(local) + 1]
    return ()


def choices(program: Program, tree: Node, array: str) -> Iterator[Choice]:
    """What memory the array may have, the least first: one for all iterations, one a thread,
    one for each iteration of a loop around, one for each of all of them."""
    source = program.arrays[array]
    small = _bytes(source)
    on_stack = small is not None and small <= MOST_BYTES
    one = replace(source, local=None, role="stack" if on_stack else "temp")
    of_threads = one if on_stack else replace(one, role="scratch")
    home = _home(program, tree, array)
    if home:
        own = of_threads if any(loop.mark == "parallel" for loop in home) else one
        yield Choice(_with(program, own), _named(program, home, array))
    yield Choice(_with(program, one))
    for thread in thread_homes(program, tree, array):
        yield Choice(_with(program, of_threads), (thread,))
    names = around(program, array)
    for name in reversed(names):
        yield Choice(_grown(program, array, (name,)))
    if len(names) > 1:
        yield Choice(_grown(program, array, names))


def _bytes(array: Array) -> int | None:
    total = array.type.bytes
    for extent in array.shape:
        if not isinstance(extent, Const):
            return None
        total *= max(0, int(extent.value))
    return total


def _users(program: Program, array: str) -> list[Stmt]:
    return [
        s
        for s in program.statements.values()
        if s.write.array == array or any(a.array == array for a in s.reads)
    ]


def _named(program: Program, found: Sequence[Loop], array: str) -> tuple[tuple[str, str], ...]:
    statement = _users(program, array)[0]
    return tuple((statement.init_of or statement.name, loop.name) for loop in found)


def thread_homes(program: Program, tree: Node, array: str) -> tuple[tuple[str, str], ...]:
    """The parallel loops that hold all uses: an array on the stack is new in each iteration."""
    users = {s.init_of or s.name for s in _users(program, array)}
    found = [x for x in loops(tree) if x.mark == "parallel" and users <= set(statements(x.body))]
    return tuple(home for x in found for home in _named(program, [x], array))


def _home(program: Program, tree: Node, array: str) -> list[Loop]:
    """The outer loops whose iterations are those in which the array is fresh; [] for none."""
    users = [s for s in _users(program, array) if s.init_of is None]
    shared: list[Loop] = []
    for loop in loops_of(tree, users[0].name):
        if loop.mark not in ("serial", "parallel"):
            return []
        shared.append(loop)
        if not all(s.name in loop.coords for s in users):
            return []
        iterations = _iterations(program, users, shared, around(program, array))
        if iterations.is_injective():
            return shared if iterations.is_single_valued() else []
    return []


def _iterations(
    program: Program, users: Sequence[Stmt], shared: Sequence[Loop], names: Sequence[str]
) -> isl.Map:
    """Iterations of a `for` -> the coordinates at which they run."""
    result: isl.Map | None = None
    for stmt in users:
        space = stmt.domain.get_space()
        local = isl.LocalSpace.from_space(space)
        columns = [stmt.indices.index(name) for name in names]
        values = [isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, c)) for c in columns]
        indices = coordinate_map(values).intersect_domain(stmt.domain)
        place = coordinate_map([loop.coords[stmt.name] for loop in shared])
        found = indices.reverse().apply_range(place)
        result = found if result is None else result.union(found)
    assert result is not None
    return coalesced(result.intersect_params(program.context))


def only_private(
    dependences: Sequence[Dependence],
    tree: Node,
    array: str,
    private: Sequence[tuple[str, str]],
) -> tuple[Dependence, ...]:
    """The dependences without those between iterations that have an array of their own. `tree`
    has the first terms of reductions in their places."""
    homes = [find(tree, *at) for at in private]
    result = []
    for d in dependences:
        if d.array == array:
            d = inside_iterations(d, homes)
        if not d.map.is_empty():
            result.append(d)
    return tuple(result)


def inside_iterations(d: Dependence, homes: Iterable[Loop]) -> Dependence:
    """The pairs of a dependence that lie in one iteration of each of these loops. Lanes and jammed
    copies of an iteration share what lives in it, so that they are no such loops."""
    pairs = d.map
    for home in homes:
        if not is_dim(home):
            pairs = pairs.intersect(home.coords[d.source].eq_map(home.coords[d.sink]))
    return replace(d, map=pairs)


# ---------------------------------------------------------------- one for each iteration


def _with(program: Program, array: Array) -> Program:
    return replace(program, arrays={**program.arrays, array.name: array})


def _grown(program: Program, array: str, names: Sequence[str]) -> Program:
    """The array with a dimension in front for each of these indices."""
    source = program.arrays[array]
    users = _users(program, array)
    ends = [_range(program, users, name) for name in names]
    shape = tuple(simplify(maximum(const(0), sub(hi, lo))) for lo, hi, _ in ends)
    grown = replace(source, shape=(*shape, *source.shape), local=None)
    offsets = tuple(simplify(sub(Var(n), lo)) for n, (lo, _, _) in zip(names, ends, strict=True))
    tuple_name = program.extents[array].get_tuple_name()
    change = _Grow(array, tuple(names), offsets, tuple(low for _, _, low in ends), tuple_name)
    changed = {s.name: change.statement(s) for s in users}
    return replace(
        program,
        statements={n: changed.get(n, s) for n, s in program.statements.items()},
        arrays={**program.arrays, array: grown},
        extents={**program.extents, array: extent_of(grown, tuple_name, program.params)},
    )


def _range(
    program: Program, users: Sequence[Stmt], name: str
) -> tuple[Expr, Expr, isl.PwAff | None]:
    """The least value (as a function of sizes too; None: 0) and the end of a `for` index."""
    values: isl.Set | None = None
    for stmt in users:
        column = stmt.indices.index(name)
        own = stmt.domain.project_out(SET, column + 1, len(stmt.indices) - column - 1)
        own = own.project_out(SET, 0, column).reset_tuple_id()
        values = own if values is None else values.union(own)
    assert values is not None
    values = coalesced(values.intersect_params(program.context))
    sizes = [Size(s) for s in program.params]
    end = from_pw_aff(_at_sizes(values.dim_max(0), program), [], sizes)
    hi = add(end, const(1))
    low = _at_sizes(values.dim_min(0), program)
    if len(low.get_pieces()) == 1:
        aff = low.get_pieces()[0][1]
        if not aff.is_cst() or not aff.get_constant_val().is_zero():
            everywhere = isl.PwAff.from_aff(aff)
            return from_pw_aff(everywhere, [], sizes), hi, everywhere
    return const(0), hi, None


def _at_sizes(value: isl.PwAff, program: Program) -> isl.PwAff:
    return coalesced(value).gist(program.context)


@dataclass(frozen=True)
class _Grow:
    """Puts subscripts in front of those of one array."""

    array: str
    names: tuple[str, ...]
    offsets: tuple[Expr, ...]
    lows: tuple[isl.PwAff | None, ...]
    tuple_name: str

    def statement(self, stmt: Stmt) -> Stmt:
        value = None if stmt.value is None else self._expr(stmt.value)
        reads = tuple(self._access(a, stmt) for a in stmt.reads)
        return replace(stmt, write=self._access(stmt.write, stmt), reads=reads, value=value)

    def _access(self, access: Access, stmt: Stmt) -> Access:
        subscript = tuple(self._expr(e) for e in access.subscript)
        if access.array != self.array:
            return replace(access, subscript=subscript)
        space = stmt.domain.get_space()
        local = isl.LocalSpace.from_space(space)
        result = isl.Map.from_domain(isl.Set.universe(space))
        for name, low in zip(self.names, self.lows, strict=True):
            column = stmt.indices.index(name)
            index = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, column))
            if low is not None:
                index = index.sub(low.insert_domain(space))
            result = result.flat_range_product(index.as_map())
        result = result.flat_range_product(access.map.reset_tuple_id(OUT))
        result = coalesced(result.set_tuple_name(OUT, self.tuple_name))
        return replace(access, map=result, subscript=(*self.offsets, *subscript))

    def _expr(self, expr: Expr) -> Expr:
        new = rebuilt(expr, self._expr)
        if isinstance(new, Read) and new.array == self.array:
            return replace(new, indices=(*self.offsets, *new.indices))
        return new
