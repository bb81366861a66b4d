"""`stage A at l`: a copy of what the body of a loop touches, filled before, written back after.

before: for l { S: C[i] = A[i, l] + A[i + 1, l] }
after:  for l { A_in: A_s[x - lo, y - l] = A[x, y]   S: C[i] = A_s[i - lo, 0] + A_s[i + 1 - lo, 0] }

The copies are statements of the program like all others. The copy is the box around the elements
that one iteration of the loops from the root to l touches; only what was written goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import islpy as isl

from tdsl.ir.index import simplify, sub
from tdsl.ir.kernel import INDEX, Array, Const, Expr, Op, Read, Size, Var, rebuilt
from tdsl.polyhedral.affine import set_space
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.edit import sequence
from tdsl.polyhedral.extent import UNBOUNDED
from tdsl.polyhedral.from_isl import from_pw_aff
from tdsl.polyhedral.inits import coordinate_map
from tdsl.polyhedral.leaves import is_dim
from tdsl.polyhedral.program import Access, Program, Stmt
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq, loops_of, statements

MOST_BYTES = 64 * 1024  # of one copy on the stack
SET, IN, OUT = isl.dim_type.set, isl.dim_type.in_, isl.dim_type.out


class CannotStage(Exception):
    """Why the copy cannot be made, in words for the user, and what would help."""

    def __init__(self, reason: str, help: str | None = None) -> None:
        super().__init__(reason)
        self.help = help


@dataclass(frozen=True)
class _Copy:
    """The copy of one array: its box as functions of the coordinates of the loops around."""

    program: Program
    array: Array
    name: str
    loops: tuple[Loop, ...]
    touched: isl.Map  # coordinates -> elements
    lo: tuple[isl.PwAff, ...]
    extents: tuple[int, ...]

    @property
    def space(self) -> isl.Space:
        """Of the elements of the copy."""
        names = self.program.params
        return set_space(names, len(self.extents), f"A{len(self.program.arrays)}")


def path_to(tree: Node, statement: str, loop: str) -> tuple[Loop, ...]:
    """The loops from the root down to the named one."""
    around = loops_of(tree, statement)
    names = [x.name for x in around]
    return around[: names.index(loop) + 1]


@bounded("the copy that a stage makes")
def stage(
    program: Program, tree: Node, array: str, reader: str | None, at: tuple[str, str]
) -> tuple[Program, Node]:
    """The program with a copy, and its tree. `reader`: the one statement that it is for.

    `tree` has the first terms of reductions in their places. Raises CannotStage.
    """
    loops = path_to(tree, *at)
    if any(is_dim(loop) for loop in loops):
        raise CannotStage(f"{at[1]} stands inside a loop that is unrolled or vectorized")
    inside = [s for s in statements(loops[-1].body) if reader is None or s == reader]
    users = [program.statements[s] for s in inside]
    accesses = [(s, a) for s in users for a in (s.write, *s.reads) if a.array == array]
    writers = [s for s in statements(loops[-1].body) if program.statements[s].write.array == array]
    if reader is not None and writers:
        raise CannotStage(f"{writers[0]} writes {array} meanwhile: the copy would be out of date")
    copy = _copy(program, array, loops, accesses)
    changed = {s.name: _redirected(s, copy) for s in users}
    arrays = {**program.arrays, copy.name: _array(copy)}
    extents = {**program.extents, copy.name: _extent(copy)}
    fill = _copy_statement(copy, f"{copy.name}_in", copy.touched, len(program.statements), True)
    added = {fill.name: fill}
    if any(s.write.array == array for s in users):
        written = _union(_elements(s, s.write, loops) for s in users if s.write.array == array)
        back = _copy_statement(
            copy, f"{copy.name}_out", written, len(program.statements) + 1, False
        )
        added[back.name] = back
    merged = {**{n: changed.get(n, s) for n, s in program.statements.items()}, **added}
    result = replace(program, statements=merged, arrays=arrays, extents=extents)
    return result, _placed(tree, loops, list(added.values()))


def _union(maps: Iterable[isl.Map]) -> isl.Map:
    return reduce(isl.Map.union, maps).coalesce()


def _elements(stmt: Stmt, access: Access, loops: Sequence[Loop]) -> isl.Map:
    """Coordinates of the loops -> the elements touched there."""
    place = coordinate_map([loop.coords[stmt.name] for loop in loops])
    return place.intersect_domain(stmt.domain).reverse().apply_range(access.map)


def _copy(
    program: Program, array: str, loops: tuple[Loop, ...], accesses: list[tuple[Stmt, Access]]
) -> _Copy:
    touched = _union(_elements(s, a, loops) for s, a in accesses)
    touched = touched.intersect_params(program.context).intersect_range(program.extents[array])
    source = program.arrays[array]
    lo, extents = [], []
    for dim in range(len(source.shape)):
        least, most = touched.dim_min(dim).coalesce(), touched.dim_max(dim).coalesce()
        length = most.sub(least).max_val()
        if not length.is_int() or length.to_python() >= UNBOUNDED:
            raise CannotStage(
                f"dimension {dim} of what one iteration of {loops[-1].name} touches of {array} "
                "has no constant extent",
                "split the loops inside that index this dimension, and stage at an outer one",
            )
        lo.append(least)
        extents.append(int(length.to_python()) + 1)
    size = reduce(lambda a, b: a * b, extents, source.type.bytes)
    if size > MOST_BYTES:
        raise CannotStage(f"the copy of {array} would take {size} bytes, more than {MOST_BYTES}")
    name = f"{array}_s"
    while name in program.arrays:
        name += "_"
    return _Copy(program, source, name, loops, touched, tuple(lo), tuple(extents))


def _array(copy: _Copy) -> Array:
    shape = tuple(Const(e, INDEX) for e in copy.extents)
    return Array(copy.name, copy.array.type, shape, "stack", span=copy.array.span)


def _extent(copy: _Copy) -> isl.Set:
    box = isl.Set.universe(copy.space)
    for dim, extent in enumerate(copy.extents):
        box = box.lower_bound_val(SET, dim, isl.Val(0))
        box = box.upper_bound_val(SET, dim, isl.Val(extent - 1))
    return box


# ---------------------------------------------------------------- statements that use the copy


def _redirected(stmt: Stmt, copy: _Copy) -> Stmt:
    """The statement with all its accesses to the array going to the copy."""
    coordinates = [loop.coords[stmt.name] for loop in copy.loops]
    place = isl.PwMultiAff.from_map(coordinate_map(coordinates))
    lo = [bound.pullback_pw_multi_aff(place) for bound in copy.lo]
    sizes = [Size(s) for s in copy.program.params]
    names = [Var(i) for i in stmt.indices]
    offsets = [from_pw_aff(b.gist(stmt.domain), names, sizes) for b in lo]

    def subscript(old: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple(simplify(Op("sub", (i, o), INDEX)) for i, o in zip(old, offsets, strict=True))

    def access(old: Access) -> Access:
        if old.array != copy.array.name:
            return old
        new = isl.Map.from_domain(isl.Set.universe(stmt.domain.get_space()))
        for dim, bound in enumerate(lo):
            moved = _component(old.map, dim).sum(bound.neg().as_map())
            new = new.flat_range_product(moved)
        new = new.set_tuple_name(OUT, copy.space.get_tuple_name(SET))
        return replace(old, array=copy.name, map=new.coalesce(), subscript=subscript(old.subscript))

    value = None if stmt.value is None else _reads(stmt.value, copy, subscript)
    reads = tuple(access(a) for a in stmt.reads)
    return replace(stmt, write=access(stmt.write), reads=reads, value=value)


def _component(map_: isl.Map, dim: int) -> isl.Map:
    """One dimension of the range."""
    count = map_.dim(OUT)
    result = map_.project_out(OUT, dim + 1, count - dim - 1).project_out(OUT, 0, dim)
    return result.reset_tuple_id(OUT)


def _reads(
    expr: Expr, copy: _Copy, subscript: Callable[[Sequence[Expr]], tuple[Expr, ...]]
) -> Expr:
    """The expression with the reads of the array going to the copy."""
    new = rebuilt(expr, lambda e: _reads(e, copy, subscript))
    if isinstance(new, Read) and new.array == copy.array.name:
        return replace(new, array=copy.name, indices=subscript(new.indices))
    return new


# ---------------------------------------------------------------- the copying statements


def _copy_statement(copy: _Copy, name: str, elements: isl.Map, number: int, fill: bool) -> Stmt:
    """One instance for each (coordinates, element of the array)."""
    tuple_name = f"S{number}"
    outer = tuple(loop.name for loop in copy.loops)
    inner = tuple(f"{copy.name}{d}" for d in range(len(copy.extents)))
    if fill:
        elements = _box(elements, copy)
    domain = elements.wrap().flatten().set_tuple_name(tuple_name)
    space = isl.Set.universe(domain.get_space())
    local = isl.LocalSpace.from_space(space.get_space())

    def variable(position: int) -> isl.PwAff:
        return isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, position))

    place = isl.Map.from_domain(space)
    for position in range(len(outer)):
        place = place.flat_range_product(variable(position).as_map())
    place_function = isl.PwMultiAff.from_map(place)
    whole, part = isl.Map.from_domain(domain), isl.Map.from_domain(domain)
    sizes = [Size(s) for s in copy.program.params]
    names = [Var(n) for n in outer]
    here: list[Expr] = []
    for d in range(len(inner)):
        element = variable(len(outer) + d)
        whole = whole.flat_range_product(element.as_map())
        lo = copy.lo[d].pullback_pw_multi_aff(place_function)
        part = part.flat_range_product(element.sub(lo).as_map())
        here.append(sub(Var(inner[d]), from_pw_aff(copy.lo[d], names, sizes)))
    array_name = copy.program.extents[copy.array.name].get_tuple_name()
    whole = whole.set_tuple_name(OUT, array_name)
    part = part.set_tuple_name(OUT, copy.space.get_tuple_name(SET))
    in_array = Access(copy.array.name, whole, tuple(Var(i) for i in inner), True, copy.array.span)
    in_copy = Access(copy.name, part, tuple(here), True, copy.array.span)
    read, write = (in_array, in_copy) if fill else (in_copy, in_array)
    return Stmt(
        name,
        tuple_name,
        (*outer, *inner),
        domain,
        write,
        (read,),
        value=Read(read.array, read.subscript, copy.array.type, span=copy.array.span),
        span=copy.array.span,
    )


def _box(elements: isl.Map, copy: _Copy) -> isl.Map:
    """All elements between the least and the greatest of each dimension."""
    result = isl.Map.from_domain(elements.domain())
    for d in range(len(copy.extents)):
        least = elements.dim_min(d).as_map()
        most = elements.dim_max(d).as_map()
        line = least.apply_range(isl.Map("{ [a] -> [x] : x >= a }")).intersect(
            most.apply_range(isl.Map("{ [a] -> [x] : x <= a }"))
        )
        result = result.flat_range_product(line)
    return result.coalesce()


def _placed(tree: Node, loops: tuple[Loop, ...], added: list[Stmt]) -> Node:
    """The tree with the copying statements at the ends of the innermost of `loops`."""

    def position(stmt: Stmt, dim: int) -> isl.PwAff:
        local = isl.LocalSpace.from_space(stmt.domain.get_space())
        return isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, dim))

    def nest(stmt: Stmt) -> Node:
        node: Node = Leaf(stmt.name)
        for dim in reversed(range(len(loops), len(stmt.indices))):
            node = Loop(stmt.indices[dim], {stmt.name: position(stmt, dim)}, node)
        return node

    def edit(node: Node, depth: int) -> Node:
        if node is loops[depth]:
            coords = {**loops[depth].coords, **{s.name: position(s, depth) for s in added}}
            if depth + 1 < len(loops):
                return replace(loops[depth], coords=coords, body=edit(loops[depth].body, depth + 1))
            fill, *back = (nest(s) for s in added)
            return replace(
                loops[depth], coords=coords, body=sequence([fill, loops[depth].body, *back])
            )
        if isinstance(node, Seq):
            return Seq(tuple(edit(c, depth) for c in node.children))
        return node

    return edit(tree, 0)
