"""`pack A at l as Q[..]`: a read-only copy of what the body of a loop reads, in another order.

before: for jo { for i { for k { for j in 16 jo.. { S: C[i, j] += A[i, k] * B[k, j] } } } }
after   `pack B at jo as Q[k, j]`:
        for jo { for k { for j in 0..16 { Q: Q[k, j] = select(16 jo + j < N, B[k, 16 jo + j], 0) } }
                 for i { for k { for j { S: C[i, j] += A[i, k] * Q[k, j - 16 jo] } } } }

Q's dimensions count from the least coordinate of a loop among instances that agree on the loops
around the copy and on the listed loops outside it. Inner loops of a split have full blocks there,
whatever the reader runs: what nobody reads is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import islpy as isl

from tdsl.diagnostics import Span
from tdsl.ir.index import add, const, maximum, simplify, sub, substitute
from tdsl.ir.kernel import (
    INDEX,
    Array,
    Cast,
    Const,
    Expr,
    Read,
    Select,
    Size,
    Var,
    children,
    rebuilt,
    walk,
)
from tdsl.ir.types import BOOL, ElemType
from tdsl.polyhedral.affine import set_space
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.edit import sequence
from tdsl.polyhedral.extent import UNBOUNDED
from tdsl.polyhedral.from_isl import from_pw_aff
from tdsl.polyhedral.indexed import indexed
from tdsl.polyhedral.packed_reads import CannotPack, Dim, Seen, Site, keys_of, seen, several, sites
from tdsl.polyhedral.pieces import coalesced, plain
from tdsl.polyhedral.program import Access, Program, Stmt, free_array, free_statement
from tdsl.polyhedral.starts import Start, condition, start
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq, loops_of, statements

IN, OUT, SET, PARAM = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set, isl.dim_type.param
MOST_BYTES = 64 * 1024  # on the stack
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
class _Copy:
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
        first = [_variable(space, k) for k in range(self.depth)] if around else []
        own = [_variable(space, self.depth + d).sub(low) for d, low in enumerate(self.lows)]
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


def _variable(space: isl.Space, dim: int) -> isl.PwAff:
    return isl.PwAff.from_aff(isl.Aff.var_on_domain(isl.LocalSpace.from_space(space), SET, dim))


def tupled(space: isl.Space, values: Sequence[isl.PwAff]) -> isl.Map:
    """Point -> the tuple of the values there."""
    result = isl.Map.from_domain(isl.Set.universe(space))
    for value in values:
        result = result.flat_range_product(value.as_map())
    return result


@bounded("what a pack holds")
def pack(program: Program, tree: Node, request: Request) -> tuple[Program, Node]:
    """The program with the copy, and its tree (without first terms). Raises CannotPack."""
    path = _path(tree, request)
    _check_writers(program, tree, request, path)
    copy = _copy(program, tree, request, path)
    filling = _filling(copy)
    array = _array(copy)
    wanted = _wanted(copy)
    for name in request.readers:
        program, tree = indexed(program, tree, name, wanted)
    changed = {s: _redirected(program, tree, s, copy, array.type) for s in request.readers}
    merged = {n: changed.get(n, s) for n, s in program.statements.items()}
    first = min(list(merged).index(s) for s in request.readers)
    listed = list(merged.items())
    listed.insert(_before_init(listed, first), (filling.name, filling))
    result = replace(
        program,
        statements=dict(listed),
        arrays={**program.arrays, array.name: array},
        extents={**program.extents, array.name: copy.box},
        prepared=program.prepared | ({filling.name} if request.prepared else frozenset()),
    )
    return result, _placed(tree, request, filling, len(path), program)


def _before_init(listed: Sequence[tuple[str, Stmt]], position: int) -> int:
    """`S.init` stands just before its S: nothing comes between."""
    init = listed[position - 1][1].init_of if position else None
    return position - 1 if init == listed[position][0] else position


def _path(tree: Node, request: Request) -> tuple[Loop, ...]:
    if request.at is None:
        return ()
    around = loops_of(tree, request.at[0])
    return around[: [x.name for x in around].index(request.at[1]) + 1]


def _check_writers(program: Program, tree: Node, request: Request, path: Sequence[Loop]) -> None:
    """Refuses a copy that would be out of date while it is read."""
    body = path[-1].body if path else tree
    children = body.children if isinstance(body, Seq) else (body,)
    writers = {
        s.init_of or s.name for s in program.statements.values() if s.write.array == request.array
    }
    reads = [k for k, c in enumerate(children) if set(request.readers) & set(statements(c))]
    for k, child in enumerate(children):
        inside = sorted(writers & set(statements(child)))
        if inside and reads[0] <= k <= reads[-1]:
            where = f"in {path[-1].name}" if path else "meanwhile"
            raise CannotPack(
                f"{inside[0]} writes {request.array} {where}, and the copy would be out of date"
            )


# ---------------------------------------------------------------- what it holds


def _copy(program: Program, tree: Node, request: Request, path: tuple[Loop, ...]) -> _Copy:
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
        _variable(keys.get_space(), 0).scale_val(isl.Val(0))
        if dim.extent
        else _least(keys, depth, d, _outside(tree, request, d))
        for d, dim in enumerate(request.dims)
    )
    draft = _Copy(
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
    place = tupled(space, [_variable(space, k) for k in fixed])
    values = (
        place.intersect_domain(keys).reverse().apply_range(_variable(space, depth + d).as_map())
    )
    low = values.dim_min(0).coalesce().gist(values.domain()).coalesce()
    pieces = low.get_pieces()
    if len(pieces) == 1:
        low = isl.PwAff.from_aff(pieces[0][1])  # may be used everywhere: elsewhere nobody asks
    return low.pullback_pw_multi_aff(isl.PwMultiAff.from_map(place))


def _sized(copy: _Copy, tree: Node) -> _Copy:
    """With extents: full blocks for inner loops of splits, else the longest run there is."""
    program, request = copy.program, copy.request
    relative = coalesced(copy.keys.apply(copy.relative(around=False)))
    sizes = [Size(s) for s in program.params]
    box = isl.Set.universe(set_space(program.params, len(request.dims), free_array(program)))
    space = box.get_space()
    extents: list[Expr] = []
    ends, whole = [], []
    for d, dim in enumerate(request.dims):
        last = relative.dim_max(d).coalesce()
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
            end = last.gist(program.context).coalesce()
            if tile.blocks > 1:
                blocks = end.scale_down_val(isl.Val(tile.blocks)).floor()
                blocks = blocks.add_constant_val(isl.Val(1)).scale_val(isl.Val(tile.blocks))
                end = blocks.add_constant_val(isl.Val(-1))
            extents.append(_length(end, program, sizes))
            whole.append(tile.blocks > 1)
        ends.append(end)
        box = box.lower_bound_val(SET, d, isl.Val(0))
        box = box.intersect(_variable(space, d).le_set(end.insert_domain(space)))
    filled = _filled(copy, ends, whole)
    return replace(
        copy,
        extents=tuple(extents),
        box=coalesced(box),
        filled=filled,
        starts=tuple(start(low, filled) for low in copy.lows),
    )


def _filled(copy: _Copy, ends: Sequence[isl.PwAff], whole: Sequence[bool]) -> isl.Set:
    """The keys that Q has a value for: those that are read, and the rest of their tiles."""
    relative = copy.relative(around=True)
    result = coalesced(copy.keys.apply(relative))
    for d, end in enumerate(ends):
        if whole[d]:
            result = result.eliminate(SET, copy.depth + d, 1)
            result = result.lower_bound_val(SET, copy.depth + d, isl.Val(0))
            space = result.get_space()
            here = _variable(space, copy.depth + d)
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


def _array(copy: _Copy) -> Array:
    """Q: on the stack of its loop where it is constant and small, else in the workspace."""
    request = copy.request
    role = "prepared" if request.prepared else "scratch"
    size: int | None = request.type.bytes
    for extent in copy.extents:
        size = size * int(extent.value) if size is not None and isinstance(extent, Const) else None
    fits = size is not None and size <= MOST_BYTES
    if request.memory == "stack" and not fits:
        much = f"takes {size} bytes" if size is not None else "has no constant size"
        raise CannotPack(f"{request.name} {much}, and the stack takes {MOST_BYTES}")
    if fits and not request.prepared and request.memory != "scratch" and request.at is not None:
        role = "stack"
    return Array(request.name, request.type, copy.extents, role, span=request.span)


# ---------------------------------------------------------------- the statement that fills it


def _filling(copy: _Copy) -> Stmt:
    """Q's statement: one instance for each iteration around and each element that is filled."""
    program, request = copy.program, copy.request
    source = program.arrays[request.array]
    tuple_name = free_statement(program)
    assert copy.filled is not None
    relative, filled = copy.relative(around=True), copy.filled
    domain = plain(coalesced(filled.apply(relative)))
    elements = coalesced(relative.reverse().apply_range(copy.elements))
    indices = (*copy.path, *request.names)
    names: list[Expr] = [Var(i) for i in indices]
    sizes: list[Expr] = [Size(s) for s in program.params]
    value, subscript = _value(copy, copy.coordinates(names, sizes), sizes)
    if request.type != source.type:
        value = Cast("convert", value, request.type, span=source.span)
    reads = [Access(source.name, elements.set_tuple_name(IN, tuple_name), subscript, True)]
    domain = domain.set_tuple_name(tuple_name)
    if (
        copy.pad is not None
        and isinstance(copy.pad, Read)
        and any(isinstance(e, Read) and e == copy.pad for e in walk(value))
    ):
        scalar = isl.Map.from_domain_and_range(domain, program.extents[copy.pad.array])
        reads.append(Access(copy.pad.array, scalar, ()))
    own = tupled(domain.get_space(), [
        _variable(domain.get_space(), copy.depth + d) for d in range(len(request.dims))
    ])  # fmt: skip
    own = own.set_tuple_name(OUT, copy.box.get_tuple_name()).intersect_domain(domain)
    write = Access(request.name, own, tuple(names[copy.depth :]))
    return Stmt(
        request.name, tuple_name, indices, domain, write, tuple(reads), "define", value,
        copies=source.name, span=request.span,
    )  # fmt: skip


def _value(
    copy: _Copy, key: Sequence[Expr], sizes: Sequence[Expr]
) -> tuple[Expr, tuple[Expr, ...]]:
    """What Q holds at a key, and which element of A that is: as the reader says it, where the key
    tells its indices."""
    assert copy.filled is not None
    source = copy.program.arrays[copy.request.array]
    zero = _zero(source.type)
    if copy.model is not None and copy.model.at is not None:
        indices = {i: from_pw_aff(f, key, sizes) for i, f in copy.model.at.items()}
        site = copy.model.site
        spoken = site.read if copy.pads.is_empty() else site.expr
        value = _simple(substitute(spoken, indices))
        subscript = tuple(simplify(substitute(i, indices)) for i in site.read.indices)
        return _chosen(copy.keys, copy.filled, value, zero, key, sizes), subscript
    read = coalesced(copy.elements.domain())
    where = isl.PwMultiAff.from_map(copy.elements).gist(read)
    subscript = tuple(
        from_pw_aff(where.get_at(k).coalesce(), key, sizes) for k in range(len(source.shape))
    )
    other: Expr = zero
    if copy.pad is not None and copy.pad != zero:
        other = _chosen(copy.pads, copy.filled.subtract(read), copy.pad, zero, key, sizes)
    value = Read(source.name, subscript, source.type, span=source.span)
    return _chosen(read, copy.filled, value, other, key, sizes), subscript


def _simple(expr: Expr) -> Expr:
    """With index expressions and conditions in normal form."""
    if expr.type in (INDEX, BOOL) and not isinstance(expr, Read):
        return simplify(expr)
    return rebuilt(expr, _simple)


def _zero(elem: ElemType) -> Const:
    return Const(False if elem == BOOL else 0.0 if elem.is_float else 0, elem)


def _chosen(
    points: isl.Set,
    among: isl.Set,
    then: Expr,
    other: Expr,
    names: Sequence[Expr],
    sizes: Sequence[Expr],
) -> Expr:
    """`then` at the points, `other` at the rest of `among`."""
    if among.is_subset(points):
        return then
    test = condition(points, among, names, sizes)
    return Select(test, then, other, then.type, span=then.span)


# ---------------------------------------------------------------- the readers


def _wanted(copy: _Copy) -> tuple[str, ...]:
    """Loops whose coordinates the subscripts of readers name."""
    used = [n for k, n in enumerate(copy.path) if any(x.involves_dims(IN, k, 1) for x in copy.lows)]
    return (*used, *(n for d in copy.request.dims for n in d.loops))


def _redirected(program: Program, tree: Node, name: str, copy: _Copy, stored: ElemType) -> Stmt:
    """The reader with its reads of A going to Q."""
    stmt, request = program.statements[name], copy.request
    around = {x.name: x for x in loops_of(tree, name)}
    names: list[Expr] = [Var(i) for i in stmt.indices]
    sizes: list[Expr] = [Size(s) for s in program.params]
    relative = copy.relative(around=False).set_tuple_name(OUT, copy.box.get_tuple_name())
    table: dict[Expr, Read] = {}
    reads: list[Access] = []
    for site in sites(program, name, request.array):
        coordinates: list[Expr] = [
            from_pw_aff(around[x].coords[name], names, sizes) for x in copy.path
        ]
        for dim in request.dims:
            loop = dim.loop_of(name)
            if loop is not None and loop in around:
                coordinates.append(from_pw_aff(around[loop].coords[name], names, sizes))
            elif loop is not None:
                coordinates.append(Var(loop))
            else:
                coordinates.append(dim.of_element(site.read.indices))
        subscript = tuple(
            sub(c, first.text(coordinates, sizes))
            for c, first in zip(coordinates[copy.depth :], copy.starts, strict=True)
        )
        keys = keys_of(program, tree, name, site, copy.path, request.dims)
        map_ = coalesced(keys.apply_range(relative).intersect_domain(site.domain))
        reads.append(Access(request.name, map_, subscript, site.exact, site.read.span))
        table[site.expr] = Read(request.name, subscript, stored, span=site.read.span)
    assert stmt.value is not None
    value = _replaced(stmt.value, table)
    named = {e.array for root in (value, *stmt.write.subscript) for e in walk(root)
             if isinstance(e, Read)}  # fmt: skip
    kept = [
        replace(a, subscript=tuple(_replaced(e, table) for e in a.subscript))
        for a in stmt.reads
        if a.array != request.array and a.array in named
    ]
    return replace(stmt, reads=(*kept, *reads), value=value)


def _replaced(expr: Expr, table: Mapping[Expr, Read]) -> Expr:
    """The expression with Q's elements in place of A's; they have A's values, in Q's type."""
    if isinstance(expr, Cast) and expr.mode in ("convert", "saturate") and expr.arg in table:
        read = table[expr.arg]
        return read if read.type == expr.type else replace(expr, arg=read)
    if expr in table:
        read = table[expr]
        if read.type == expr.type:
            return read
        return Cast("convert", read, expr.type, span=expr.span)
    return rebuilt(expr, lambda e: _replaced(e, table)) if children(expr) else expr


# ---------------------------------------------------------------- the tree


def _placed(tree: Node, request: Request, filling: Stmt, depth: int, program: Program) -> Node:
    """The tree with Q's nest before the first reader in the body of the loop."""
    space = filling.domain.get_space()
    nest: Node = Leaf(filling.name)
    for k in reversed(range(depth, len(filling.indices))):
        notes = (request.note,) if k == depth else ()
        coords = {filling.name: _variable(space, k)}
        nest = Loop(filling.indices[k], coords, nest, notes=notes)

    def joined(body: Node) -> Node:
        children = list(body.children) if isinstance(body, Seq) else [body]
        among = set(request.readers)
        if request.prepared:
            position = next(
                (k for k, c in enumerate(children) if not set(statements(c)) <= program.prepared),
                len(children),
            )
            readers = [k for k, c in enumerate(children) if among & set(statements(c))]
            position = min([position, *readers])
        else:
            position = next(k for k, c in enumerate(children) if among & set(statements(c)))
        return sequence([*children[:position], nest, *children[position:]])

    def edit(node: Node, k: int) -> Node:
        match node:
            case Loop():
                coords = {**node.coords, filling.name: _variable(space, k)}
                body = joined(node.body) if k + 1 == depth else edit(node.body, k + 1)
                return replace(node, coords=coords, body=body)
            case Seq(children):
                assert request.at is not None
                below = request.at[0]
                return Seq(tuple(edit(c, k) if below in statements(c) else c for c in children))
            case Leaf():
                raise AssertionError("a path ends at its loop")

    return joined(tree) if depth == 0 else edit(tree, 0)
