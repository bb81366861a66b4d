"""What a pack holds: its keys, the elements of the array that they stand for, its extents.

A key is the coordinates of the loops around the copy, then a value for each dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import islpy as isl

from tdsl.diagnostics import Span
from tdsl.ir.index import add, const, maximum
from tdsl.ir.kernel import Expr, Size
from tdsl.ir.types import ElemType
from tdsl.polyhedral.affine import set_space
from tdsl.polyhedral.extent import UNBOUNDED
from tdsl.polyhedral.from_isl import from_pw_aff
from tdsl.polyhedral.packed_reads import CannotPack, Dim, Seen, Site, keys_of, seen, several, sites
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Program, free_array
from tdsl.polyhedral.starts import Start, start
from tdsl.polyhedral.tree import Loop, Node, loops_of

IN, SET, PARAM = isl.dim_type.in_, isl.dim_type.set, isl.dim_type.param
WHOLE = ("mask", "overrun")  # tails of loops that run to the end of their block, as lanes do


@dataclass(frozen=True)
class Request:
    """What is packed.

    at: a statement below the loop and its name; None at the root, and at prepare. dims: in storage
    order. names: of Q's loops. known: sizes that Q may depend on (None: all), for `at prepare`.
    """

    array: str
    at: tuple[str, str] | None
    readers: tuple[str, ...]
    dims: tuple[Dim, ...]
    name: str
    names: tuple[str, ...]
    type: ElemType
    memory: str | None = None
    prepared: bool = False
    known: frozenset[str] | None = None
    note: str = ""
    span: Span | None = None


@dataclass(frozen=True)
class Copy:
    """Keys are the coordinates of the loops around the copy, then of the listed dimensions.

    keys: those that are read or padded; elements: key -> element of A; pads: keys whose value
    is `pad`; filled: all that get a value. lows: for each dimension its start, over keys, and
    `starts` in words; extents: how many there are.
    """

    program: Program
    request: Request
    path: tuple[str, ...]
    keys: isl.Set
    elements: isl.Map
    pads: isl.Set
    pad: Expr | None
    lows: tuple[isl.PwAff, ...]
    extents: tuple[Expr, ...]
    box: isl.Set
    outside: tuple[int, ...] = ()  # for each dimension the number of those outside it
    model: Seen | None = None  # one that says for all keys what is read
    filled: isl.Set | None = None
    starts: tuple[Start, ...] = ()

    @property
    def depth(self) -> int:
        return len(self.path)

    def relative(self, *, around: bool) -> isl.Map:
        """Key -> (the coordinates of the loops around, if `around`, and) the indices of Q."""
        space = self.keys.get_space()
        first = [variable(space, k) for k in range(self.depth)] if around else []
        own = [variable(space, self.depth + d).sub(low) for d, low in enumerate(self.lows)]
        return tupled(space, [*first, *own])

    def coordinates(self, indices: Sequence[Expr], sizes: Sequence[Expr]) -> list[Expr]:
        """The key of an instance of Q, whose own indices count from the starts."""
        result = list(indices)
        # From the outermost loop inward: starts name the loops outside alone.
        order = sorted(range(len(self.lows)), key=lambda d: self.outside[d])
        for d in order:
            result[self.depth + d] = add(
                indices[self.depth + d], self.starts[d].text(result, sizes)
            )
        return result


def variable(space: isl.Space, dim: int) -> isl.PwAff:
    return isl.PwAff.from_aff(isl.Aff.var_on_domain(isl.LocalSpace.from_space(space), SET, dim))


def tupled(space: isl.Space, values: Sequence[isl.PwAff]) -> isl.Map:
    """Point -> the tuple of the values there."""
    result = isl.Map.from_domain(isl.Set.universe(space))
    for value in values:
        result = result.flat_range_product(value.as_map())
    return result


def copy_of(program: Program, tree: Node, request: Request, path: tuple[Loop, ...]) -> Copy:
    names = tuple(x.name for x in path)
    found = []
    for s in request.readers:
        for site in sites(program, s, request.array):
            key = keys_of(program, tree, s, site, names, request.dims)
            key = key.intersect_domain(site.domain).intersect_params(program.context)
            if request.known is not None:
                for position in _untold(program, request.known):
                    key = key.eliminate(PARAM, position, 1)
            found.append(seen(program, s, site, coalesced(key)))
    elements = coalesced(reduce(isl.Map.union, (x.elements for x in found)))
    elements = elements.intersect_range(program.extents[request.array])
    pads = coalesced(reduce(isl.Set.union, (x.pads for x in found)))
    if not elements.is_single_valued() or not pads.is_disjoint(elements.domain()):
        raise several(program, tree, request.array, request.readers, names, request.dims)
    keys = coalesced(reduce(isl.Set.union, (x.keys for x in found)))
    depth = len(path)
    lows = tuple(
        variable(keys.get_space(), 0).scale_val(isl.Val(0))
        if dim.extent
        else _least(keys, depth, d, _outside(tree, request, d))
        for d, dim in enumerate(request.dims)
    )
    draft = Copy(
        program, request, names, keys, elements, pads, _pad([x.site for x in found]), lows,
        (), keys,
        tuple(len(_outside(tree, request, d)) for d in range(len(request.dims))),
        next((x for x in found if x.at is not None and keys.is_subset(x.keys)), None),
    )  # fmt: skip
    return _sized(draft, tree)


def _untold(program: Program, known: frozenset[str]) -> list[int]:
    """The positions of the sizes that a copy may not depend on."""
    return [k for k, size in enumerate(program.params) if size not in known]


def _pad(found: Sequence[Site]) -> Expr | None:
    values = list(dict.fromkeys(s.other for s in found if s.other is not None))
    if len(values) > 1:
        raise CannotPack("its readers pad it with different values")
    return values[0] if values else None


def _outside(tree: Node, request: Request, d: int) -> tuple[int, ...]:
    """The listed dimensions whose loops stand outside that of dimension d, in every reader."""
    loop = request.dims[d].loop
    if loop is None:
        return ()
    result = []
    for e, other in enumerate(request.dims):
        if other.loop is not None and e != d:
            pair = (other, request.dims[d])
            if all(_in_order(tree, s, [x.loop_of(s) for x in pair]) for s in request.readers):
                result.append(e)
    return tuple(result)


def _in_order(tree: Node, reader: str, names: Sequence[str | None]) -> bool:
    """Whether the loops stand one inside the other in this order."""
    around = [x.name for x in loops_of(tree, reader)]
    places = [around.index(n) for n in names if n in around]
    return len(places) == len(names) and places == sorted(places)


def _least(keys: isl.Set, depth: int, d: int, outside: Sequence[int]) -> isl.PwAff:
    """The least value of a dimension for one iteration around and the dimensions outside it."""
    space = keys.get_space()
    fixed = [*range(depth), *(depth + e for e in outside)]
    place = tupled(space, [variable(space, k) for k in fixed])
    values = place.intersect_domain(keys).reverse().apply_range(variable(space, depth + d).as_map())
    low = coalesced(coalesced(values.dim_min(0)).gist(values.domain()))
    pieces = low.get_pieces()
    if len(pieces) == 1:
        low = isl.PwAff.from_aff(pieces[0][1])  # may be used everywhere: elsewhere nobody asks
    return low.pullback_pw_multi_aff(isl.PwMultiAff.from_map(place))


def _sized(copy: Copy, tree: Node) -> Copy:
    """With extents: full blocks for inner loops of splits, else the longest run there is."""
    program, request = copy.program, copy.request
    relative = coalesced(copy.keys.apply(copy.relative(around=False)))
    sizes = [Size(s) for s in program.params]
    box = isl.Set.universe(set_space(program.params, len(request.dims), free_array(program)))
    space = box.get_space()
    extents: list[Expr] = []
    ends, whole = [], []
    for d, dim in enumerate(request.dims):
        last = coalesced(relative.dim_max(d))
        most = last.max_val()
        tile = _tile(tree, request, copy.path, d)
        if (most.is_int() and most.to_python() < UNBOUNDED) or most.is_neginfty():
            count = int(most.to_python()) + 1 if most.is_int() else 0
            count = max(tile.factor, dim.extent, tile.blocks * -(-count // tile.blocks))
            local = isl.LocalSpace.from_space(last.get_domain_space())
            end = isl.PwAff.from_aff(isl.Aff.val_on_domain(local, isl.Val(count - 1)))
            extents.append(const(count))
            whole.append(tile.lanes or dim.extent > 0)
        else:
            end = coalesced(last.gist(program.context))
            if tile.blocks > 1:
                blocks = end.scale_down_val(isl.Val(tile.blocks)).floor()
                blocks = blocks.add_constant_val(isl.Val(1)).scale_val(isl.Val(tile.blocks))
                end = blocks.add_constant_val(isl.Val(-1))
            extents.append(_length(end, program, sizes))
            whole.append(tile.blocks > 1)
        ends.append(end)
        box = box.lower_bound_val(SET, d, isl.Val(0))
        box = box.intersect(variable(space, d).le_set(end.insert_domain(space)))
    filled = _filled(copy, ends, whole)
    return replace(
        copy,
        extents=tuple(extents),
        box=coalesced(box),
        filled=filled,
        starts=tuple(start(low, filled) for low in copy.lows),
    )


def _filled(copy: Copy, ends: Sequence[isl.PwAff], whole: Sequence[bool]) -> isl.Set:
    """The keys that Q has a value for: those that are read, and the rest of their tiles."""
    relative = copy.relative(around=True)
    result = coalesced(copy.keys.apply(relative))
    for d, end in enumerate(ends):
        if whole[d]:
            result = result.eliminate(SET, copy.depth + d, 1)
            result = result.lower_bound_val(SET, copy.depth + d, isl.Val(0))
            space = result.get_space()
            here = variable(space, copy.depth + d)
            result = result.intersect(here.le_set(end.insert_domain(space)))
    return coalesced(result.apply(relative.reverse()))


@dataclass(frozen=True)
class _Tile:
    """factor: the length of a full block of a loop, 0 where it is no block of one around; lanes:
    readers may run to the end of it; blocks: what its length is a multiple of."""

    factor: int = 0
    lanes: bool = False
    blocks: int = 1


def _length(end: isl.PwAff, program: Program, sizes: Sequence[Expr]) -> Expr:
    """One more than the greatest index, or 0 where there is none."""
    length = add(from_pw_aff(end, (), sizes), const(1))
    pieces = end.get_pieces()
    if len(pieces) == 1:
        everywhere = isl.PwAff.from_aff(pieces[0][1]).add_constant_val(isl.Val(1))
        if program.context.is_subset(everywhere.nonneg_set()):
            return length
    return maximum(const(0), length)


def _tile(tree: Node, request: Request, path: Sequence[str], d: int) -> _Tile:
    dim = request.dims[d]
    tile = _Tile()
    for s in request.readers:
        name = dim.loop_of(s)
        loop = next((x for x in loops_of(tree, s) if x.name == name), None)
        if loop is None:
            continue
        outside = {*path, *(request.dims[e].loop_of(s) for e in _outside(tree, request, d))}
        info = loop.inner_of
        lanes = tile.lanes or loop.mark not in ("serial", "parallel")
        factor, blocks = tile.factor, tile.blocks
        if info is not None and info.outer in outside:
            factor = max(factor, info.factor)
            lanes |= info.tail.mode in WHOLE
        elif info is not None and info.outer == dim.loop and loop.mark == "vector":
            blocks = max(blocks, info.factor)  # `vectorize` made blocks of a longer loop
        tile = _Tile(factor, lanes, blocks)
    return tile
