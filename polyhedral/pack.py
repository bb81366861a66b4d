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
from dataclasses import replace

import islpy as isl

from tdsl.ir.index import simplify, sub, substitute
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
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.edit import sequence
from tdsl.polyhedral.from_isl import from_pw_aff
from tdsl.polyhedral.indexed import indexed
from tdsl.polyhedral.packed import Copy, Request, copy_of, tupled, variable
from tdsl.polyhedral.packed_reads import CannotPack, keys_of, sites
from tdsl.polyhedral.pieces import coalesced, plain
from tdsl.polyhedral.program import Access, Program, Stmt, free_statement
from tdsl.polyhedral.starts import condition
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq, loops_of, statements

IN, OUT, SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set
MOST_BYTES = 64 * 1024  # on the stack


@bounded("what a pack holds")
def pack(program: Program, tree: Node, request: Request) -> tuple[Program, Node]:
    """The program with the copy, and its tree (without first terms). Raises CannotPack."""
    path = _path(tree, request)
    _check_writers(program, tree, request, path)
    copy = copy_of(program, tree, request, path)
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


def _array(copy: Copy) -> Array:
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


def _filling(copy: Copy) -> Stmt:
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
        variable(domain.get_space(), copy.depth + d) for d in range(len(request.dims))
    ])  # fmt: skip
    own = own.set_tuple_name(OUT, copy.box.get_tuple_name()).intersect_domain(domain)
    write = Access(request.name, own, tuple(names[copy.depth :]))
    return Stmt(
        request.name, tuple_name, indices, domain, write, tuple(reads), "define", value,
        copies=source.name, span=request.span,
    )  # fmt: skip


def _value(copy: Copy, key: Sequence[Expr], sizes: Sequence[Expr]) -> tuple[Expr, tuple[Expr, ...]]:
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
        from_pw_aff(coalesced(where.get_at(k)), key, sizes) for k in range(len(source.shape))
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


def _wanted(copy: Copy) -> tuple[str, ...]:
    """Loops whose coordinates the subscripts of readers name."""
    used = [n for k, n in enumerate(copy.path) if any(x.involves_dims(IN, k, 1) for x in copy.lows)]
    return (*used, *(n for d in copy.request.dims for n in d.loops))


def _redirected(program: Program, tree: Node, name: str, copy: Copy, stored: ElemType) -> Stmt:
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
    copies = request.name if stmt.copies == request.array else stmt.copies
    return replace(stmt, reads=(*kept, *reads), value=value, copies=copies)


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
        coords = {filling.name: variable(space, k)}
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
                coords = {**node.coords, filling.name: variable(space, k)}
                body = joined(node.body) if k + 1 == depth else edit(node.body, k + 1)
                return replace(node, coords=coords, body=body)
            case Seq(children):
                assert request.at is not None
                below = request.at[0]
                return Seq(tuple(edit(c, k) if below in statements(c) else c for c in children))
            case Leaf():
                raise AssertionError("a path ends at its loop")

    return joined(tree) if depth == 0 else edit(tree, 0)
