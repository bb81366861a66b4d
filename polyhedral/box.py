"""A smaller array for the elements that one iteration of some loops touches, and how to get at it.

before: for i { S: C[i] = A[i, j] + A[i + 1, j] }
after:  S: C[i] = B[0, j] + B[1, j], where the box of i begins at A[i, 0] and has 2 x N elements

The place of an element is its distance from the least one in each dimension, modulo the length of
a ring where the dimension is folded, and then what a layout makes of these distances.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import islpy as isl

from tdsl.ir.index import add, const, maximum, simplify, sub, substitute
from tdsl.ir.kernel import INDEX, Array, Const, Expr, Op, Read, Size, Var, rebuilt
from tdsl.polyhedral.affine import Scope, mod, pw_aff, set_space
from tdsl.polyhedral.bounds import plain_start
from tdsl.polyhedral.extent import UNBOUNDED
from tdsl.polyhedral.from_isl import from_pw_aff
from tdsl.polyhedral.inits import coordinate_map
from tdsl.polyhedral.model import extent_of
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Access, Program, Stmt
from tdsl.polyhedral.tree import Loop

MOST_BYTES = 64 * 1024  # of one array on the stack
MOST_PIECES = 4  # of an extent; more are not worth it beside the extent of the whole array
SET, IN, OUT = isl.dim_type.set, isl.dim_type.in_, isl.dim_type.out


class CannotPlace(Exception):
    """Why there is no such memory, in words for the user, and what would help."""

    def __init__(self, reason: str, help: str | None = None) -> None:
        super().__init__(reason)
        self.help = help


@dataclass(frozen=True)
class Layout:
    """Storage indices as functions of an array's own; `names`: what they call these."""

    names: tuple[str, ...]
    storage: tuple[Expr, ...]


@dataclass(frozen=True)
class Box:
    """Where the elements of `source` are while one iteration of `loops` (root to innermost) runs.

    lo: the least index of each dimension as a function of the loops' coordinates; extents: of the
    dimensions, before the layout; fold: dimension -> length of its ring; `to`: (coordinates,
    element of the source), flat -> element of the new array, which has the tuple `tuple_name`.
    """

    program: Program
    source: Array
    name: str
    tuple_name: str
    loops: tuple[Loop, ...]
    lo: tuple[isl.PwAff, ...]
    fold: Mapping[int, int]
    layout: Layout | None
    shape: tuple[Expr, ...]
    to: isl.Map = field(repr=False)

    @property
    def bytes(self) -> int | None:
        """Of all elements, where that is a constant."""
        total = self.source.type.bytes
        for extent in self.shape:
            if not isinstance(extent, Const):
                return None
            total *= max(0, int(extent.value))
        return total

    def array(self, role: str) -> Array:
        """The new array."""
        return Array(self.name, self.source.type, self.shape, role, span=self.source.span)

    @property
    def elements(self) -> isl.Set:
        """Of the new array."""
        return extent_of(self.array("temp"), self.tuple_name, self.program.params)

    # ------------------------------------------------------------ accesses

    def subscript(self, element: Sequence[Expr], lo: Sequence[Expr]) -> tuple[Expr, ...]:
        """The new array's indices of an element; `lo`: the least indices where it is used."""
        places: list[Expr] = []
        for d, index in enumerate(element):
            place = simplify(Op("sub", (index, lo[d]), INDEX))
            if d in self.fold:
                place = simplify(Op("mod", (place, const(self.fold[d])), INDEX))
            places.append(place)
        if self.layout is None:
            return tuple(places)
        values = dict(zip(self.layout.names, places, strict=True))
        return tuple(simplify(substitute(e, values)) for e in self.layout.storage)

    def redirected(self, stmt: Stmt) -> Stmt:
        """The statement with all its accesses to the source going to the new array."""
        if not any(a.array == self.source.name for a in (stmt.write, *stmt.reads)):
            return stmt
        coordinates = [loop.coords[stmt.name] for loop in self.loops]
        offsets: list[Expr] = [const(0)] * len(self.lo)
        universe = isl.Set.universe(stmt.domain.get_space())
        place = isl.Map.from_domain(universe)
        if coordinates:
            place = coordinate_map(coordinates)
            sizes = [Size(s) for s in self.program.params]
            names = [Var(i) for i in stmt.indices]
            offsets = [from_pw_aff(b, names, sizes) for b in _at(stmt, coordinates, self.lo)]

        def reads(expr: Expr) -> Expr:
            new = rebuilt(expr, reads)
            if isinstance(new, Read) and new.array == self.source.name:
                indices = self.subscript(new.indices, offsets)
                return replace(new, array=self.name, indices=indices)
            return new

        def access(old: Access) -> Access:
            subscript = tuple(reads(e) for e in old.subscript)
            if old.array != self.source.name:
                return replace(old, subscript=subscript)
            whole = place.flat_range_product(old.map.reset_tuple_id(OUT))
            map_ = coalesced(whole.apply_range(self.to))
            new = self.subscript(subscript, offsets)
            return replace(old, array=self.name, map=map_, subscript=new)

        value = None if stmt.value is None else reads(stmt.value)
        # What copies the array now copies its copy.
        copies = self.name if stmt.copies == self.source.name else stmt.copies
        return replace(
            stmt,
            write=access(stmt.write),
            reads=tuple(map(access, stmt.reads)),
            value=value,
            copies=copies,
        )


def _at(
    stmt: Stmt, coordinates: Sequence[isl.PwAff], functions: Sequence[isl.PwAff]
) -> list[isl.PwAff]:
    """Functions of loops' coordinates as functions of a statement's instances.

    The terms of a sum have one place: it is told by reduced indices only where the coordinates
    are. (Of q % 2 isl would make s % 2 where only terms with s % 2 == q % 2 are added.)
    """
    reduced = [
        d
        for d, i in enumerate(stmt.indices)
        if i in stmt.reduction and not any(c.involves_dims(IN, d, 1) for c in coordinates)
    ]
    known = stmt.domain
    for d in reduced:
        known = known.eliminate(SET, d, 1)
    # Coordinates are functions on the instances alone.
    place = coordinate_map(coordinates).intersect_domain(known)
    function = isl.PwMultiAff.from_map(place)
    return [f.pullback_pw_multi_aff(function).gist(known) for f in functions]


def touched(
    program: Program, loops: Sequence[Loop], array: str, accesses: Iterable[tuple[Stmt, Access]]
) -> isl.Map:
    """Coordinates of the loops -> the elements of the array that the accesses touch there."""
    maps = (elements(stmt, access, loops) for stmt, access in accesses)
    found = coalesced(reduce(isl.Map.union, maps))
    return found.intersect_params(program.context).intersect_range(program.extents[array])


def elements(stmt: Stmt, access: Access, loops: Sequence[Loop]) -> isl.Map:
    """Coordinates of the loops -> the elements that one access touches there."""
    if not loops:
        nowhere = isl.Set.universe(set_space({}, 0)).align_params(stmt.domain.get_space())
        return isl.Map.from_domain_and_range(nowhere, access.map.range())
    place = coordinate_map([loop.coords[stmt.name] for loop in loops])
    return place.intersect_domain(stmt.domain).reverse().apply_range(access.map)


def box(
    program: Program,
    array: str,
    loops: tuple[Loop, ...],
    found: isl.Map | None,
    *,
    name: str,
    tuple_name: str,
    fold: Mapping[int, int] | None = None,
    layout: Layout | None = None,
) -> Box:
    """The box around the elements that one iteration touches (`found`, by coordinates of the
    loops; None: the whole array). Raises CannotPlace where the layout does not fit."""
    source, rings = program.arrays[array], dict(fold or {})
    rank, depth = len(source.shape), len(loops)
    place_space = set_space(program.params, depth)
    zero = isl.PwAff.from_aff(isl.Aff.zero_on_domain_space(place_space))
    lo: list[isl.PwAff] = []
    extents: list[Expr] = []
    for d in range(rank):
        if d in rings:
            lo.append(zero)  # a ring has the place of an index whatever else is in it
            extents.append(const(rings[d]))
        elif found is None:
            lo.append(zero)
            extents.append(source.shape[d])
        else:
            least = plain_start(found, d)
            lo.append(least)
            extents.append(_length(program, source.shape[d], found.dim_max(d).sub(least)))
    space = set_space(program.params, depth + rank)
    where = Scope(space, {}, program.params)
    drop = isl.PwMultiAff.from_map(_leading(space, depth))
    places = []
    for d in range(rank):
        place = where.index(depth + d).sub(lo[d].pullback_pw_multi_aff(drop))
        places.append(mod(place, rings[d]) if d in rings else place)
    storage = places
    shape = tuple(extents)
    if layout is not None:
        named = dict(zip(layout.names, places, strict=True))
        storage = [pw_aff(e, replace(where, loops=named)) for e in layout.storage]
        shape = _fitted(program, tuple(extents), layout)
    to = isl.Map.from_domain(isl.Set.universe(space))
    for value in storage:
        to = to.flat_range_product(value.as_map())
    to = to.set_tuple_name(OUT, tuple_name)
    return Box(program, source, name, tuple_name, loops, tuple(lo), rings, layout, shape, to)


def _leading(space: isl.Space, count: int) -> isl.Map:
    """The projection to the first dimensions of a set space."""
    identity = isl.Map.identity(space.map_from_set())
    return identity.project_out(OUT, count, space.dim(SET) - count)


def _length(program: Program, whole: Expr, most: isl.PwAff) -> Expr:
    """The extent that is enough in every iteration: a constant where one is, else of sizes."""
    constant = most.max_val()
    if constant.is_int() and constant.to_python() < UNBOUNDED:
        return const(int(constant.to_python()) + 1)
    found = _greatest(program, most.as_map().range())
    return whole if found is None else found


def _greatest(program: Program, lasts: isl.Set) -> Expr | None:
    """One more than the greatest of some values, as an expression of sizes; None: not worth it."""
    most = coalesced(lasts.dim_max(0)).gist(program.context)
    if most.n_piece() > MOST_PIECES:
        return None
    sizes = [Size(s) for s in program.params]
    if most.n_piece() == 1:
        # Outside its piece there are no values: the expression may be used everywhere.
        most = isl.PwAff.from_aff(most.get_pieces()[0][1])
    everywhere = program.context.is_subset(most.domain().params())
    extent = add(from_pw_aff(most, (), sizes), const(1))
    nothing = isl.PwAff.from_aff(isl.Aff.zero_on_domain_space(most.get_domain_space()))
    negative = most.add_constant_val(isl.Val(1)).lt_set(nothing)
    if everywhere and negative.intersect_params(program.context).is_empty():
        return extent
    return simplify(maximum(const(0), extent))


def _fitted(program: Program, extents: tuple[Expr, ...], layout: Layout) -> tuple[Expr, ...]:
    """The extents of the storage indices, full tiles; CannotPlace unless each element has its own
    place."""
    params = program.params
    space = set_space(params, len(extents))
    where = Scope(space, {n: d for d, n in enumerate(layout.names)}, params)
    bounds = where.universe.intersect_params(program.context)
    for d, extent in enumerate(extents):
        at = where.index(d)
        bounds = bounds.intersect(at.ge_set(where.constant(0)))
        bounds = bounds.intersect(at.lt_set(pw_aff(extent, where)))
    if bounds.is_empty():
        return tuple(_after_last(e, dict(zip(layout.names, extents, strict=True)))
                     for e in layout.storage)  # fmt: skip
    result = isl.Map.from_domain(bounds)
    shape: list[Expr] = []
    for expr in layout.storage:
        value = pw_aff(expr, where).intersect_domain(bounds)
        if not value.lt_set(where.constant(0)).is_empty():
            raise CannotPlace("a storage index of this layout may be negative")
        result = result.flat_range_product(value.as_map())
        shape.append(_storage_extent(program, expr, value))
    if not result.is_injective():
        raise CannotPlace(
            "this layout puts two elements into one place",
            "keep with each `d // n` the `d % n` that it drops",
        )
    return tuple(shape)


def _after_last(storage: Expr, extents: Mapping[str, Expr]) -> Expr:
    """The extent of a storage index of an array that has no element at any sizes."""
    match storage:
        case Op("mod", (_, Const(value=int(tile)))) if tile > 0:
            return const(tile)
    last = {name: sub(extent, const(1)) for name, extent in extents.items()}
    return simplify(maximum(const(0), add(substitute(storage, last), const(1))))


def _storage_extent(program: Program, expr: Expr, value: isl.PwAff) -> Expr:
    match expr:
        case Op("mod", (_, Const(value=int(tile)))) if tile > 0:
            return const(tile)
    constant = value.max_val()
    if constant.is_int() and constant.to_python() < UNBOUNDED:
        return const(int(constant.to_python()) + 1)
    found = _greatest(program, value.as_map().range())
    if found is None:
        raise CannotPlace("the extent of this layout is no single expression of sizes")
    return found


def fresh_name(program: Program, wanted: str) -> str:
    """A name that no array has."""
    while wanted in program.arrays:
        wanted += "_"
    return wanted
