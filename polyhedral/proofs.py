"""What must hold of a kernel before it may run: for all allowed sizes, or a counterexample.

Every access lies inside its array; a definition gives an element one value; an `out` is wholly
written; nothing is read before it is written; `max` and `min` have a term.
"""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from tdsl.diagnostics import BoundsError, Diagnostic, Note
from tdsl.ir.kernel import Array
from tdsl.polyhedral.affine import Scope, pw_aff
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.inits import with_inits
from tdsl.polyhedral.model import initial_tree, nest_indices, nest_of
from tdsl.polyhedral.order import Path, before, paths
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Access, Program, Stmt
from tdsl.polyhedral.text import (
    access_text,
    element_text,
    expr_text,
    instance_text,
    sizes_condition,
    sizes_text,
)
from tdsl.polyhedral.tree import Loop
from tdsl.polyhedral.witness import Point, fix, smallest


def prove(program: Program) -> None:
    """Raise BoundsError with a counterexample for each thing that does not hold."""
    found = diagnose(program)
    if found:
        raise BoundsError(*found)


@bounded("whether the kernel stays inside its arrays")
def diagnose(program: Program) -> tuple[Diagnostic, ...]:
    """What does not hold. Accesses come first: the rest means little when one leaves its array."""
    outside = tuple(_outside(program))
    if outside:
        return outside
    return (
        *_repeated(program),
        *_overlapping(program),
        *_incomplete(program),
        *_unwritten(program),
        *_empty(program),
    )


def _made(message: str, access: Access | Stmt, *notes: str, help: str | None) -> Diagnostic:
    return Diagnostic(message, access.span, BoundsError.code, tuple(Note(n) for n in notes), help)


def _with(program: Program, point: Point) -> str:
    """`with N=1, ` for the sizes of a counterexample; nothing when there are none."""
    sizes = dict(zip(program.params, point.sizes, strict=True))
    return f"with {sizes_text(sizes)}, " if sizes else ""


def _instance(stmt: Stmt, values: tuple[int, ...]) -> str:
    return instance_text(stmt.init_of or stmt.name, stmt.indices, values)


def missing_assumption(program: Program, bad: isl.Set) -> str | None:
    """What sizes would have to satisfy for a parametric set to be empty, in the user's words.

    None where it would take sizes of 0 or 1, or where no short condition says it.
    """
    good = coalesced(program.context.subtract(bad.params()))
    some = _at_least(program.context, 2)
    useful = isl.Set.empty(good.get_space())
    for part in good.get_basic_sets():
        if not some.is_disjoint(part.to_set()):
            useful = useful.union(part.to_set())
    names = {isl_name: name for name, isl_name in program.params.items()}
    # Without what only excludes empty work, if that suffices.
    shorter = useful.gist(_at_least(program.context, 1))
    if not shorter.intersect(program.context).is_subset(good):
        shorter = useful.gist(program.context)
    return sizes_condition(shorter, names)


def _at_least(sizes: isl.Set, least: int) -> isl.Set:
    for position in range(sizes.dim(isl.dim_type.param)):
        sizes = sizes.lower_bound_val(isl.dim_type.param, position, isl.Val(least))
    return sizes


def _assume(program: Program, bad: isl.Set, otherwise: str) -> str:
    condition = missing_assumption(program, bad)
    return otherwise if condition is None else f"assume {condition}"


# ---------------------------------------------------------------- bounds


def _outside(program: Program) -> Iterator[Diagnostic]:
    told: set[tuple[str, object]] = set()
    for stmt in program.statements.values():
        for access in (stmt.write, *stmt.reads):
            if access.map.range().is_subset(program.extents[access.array]):
                continue
            key = access.array, access.span or access.subscript
            if key not in told:
                told.add(key)
                yield from _leaves(program, stmt, access)


def _leaves(program: Program, stmt: Stmt, access: Access) -> Iterator[Diagnostic]:
    """The first dimension and side on which the access leaves its array."""
    array = program.arrays[access.array]
    where = Scope(program.extents[access.array].get_space(), {}, program.params)
    for position, extent in enumerate(array.shape):
        x = where.index(position)
        for side in (x.lt_set(where.constant(0)), x.ge_set(pw_aff(extent, where))):
            bad = access.map.intersect_range(side)
            point = smallest(bad.wrap(), program.context)
            if point is not None:
                yield _leaving(program, stmt, access, position, bad, point)
                return


def _leaving(
    program: Program, stmt: Stmt, access: Access, position: int, bad: isl.Map, point: Point
) -> Diagnostic:
    array = program.arrays[access.array]
    split = len(stmt.indices)
    instance, element = point.values[:split], point.values[split:]
    verb = "writes" if access is stmt.write else "reads"
    verb = verb if access.exact else f"may {verb.removesuffix('s')}"
    span = _span_of_dimension(bad, position, point)
    notes = [f"the extent of {access.array} there is {expr_text(array.shape[position])}"]
    if span is not None:
        low, high = span
        reached = [str(e) for e in element]
        reached[position] = f"{low}..{high}"
        notes.append(
            f"at these sizes {stmt.init_of or stmt.name} {verb} "
            f"{access.array}[{', '.join(reached)}] outside (both ends counted)"
        )
    return _made(
        f"{access_text(access.array, access.subscript)} leaves {access.array}: "
        f"{_with(program, point)}{_instance(stmt, instance)} {verb} "
        f"{element_text(access.array, element)}",
        access if access.span is not None else stmt,
        *notes,
        help=_assume(
            program,
            bad.domain(),
            "limit the indices (`where`, a range), or guard the access (`select`, `padded`, "
            "`clamp`)",
        ),
    )


def _span_of_dimension(bad: isl.Map, position: int, point: Point) -> tuple[int, int] | None:
    """Least and greatest bad value of one dimension at the sizes of the point, if they differ."""
    values = fix(bad, point.sizes, ()).range()
    bounded_above = values.dim_has_any_upper_bound(isl.dim_type.set, position)
    if not bounded_above or not values.dim_has_any_lower_bound(isl.dim_type.set, position):
        return None
    low = values.dim_min_val(position).to_python()
    high = values.dim_max_val(position).to_python()
    return (low, high) if low < high else None


# ---------------------------------------------------------------- definitions


def _nests(program: Program) -> dict[str, tuple[str, ...]]:
    """The `for` indices around each statement, `S.init` included."""
    nests = nest_indices(program.kernel)
    return {s.name: nest_of(nests, s) for s in program.statements.values()}


def _repeated(program: Program) -> Iterator[Diagnostic]:
    """A definition that writes one element in two instances (of one iteration of its nest)."""
    nests = _nests(program)
    for stmt in program.statements.values():
        if stmt.is_update or (not nests[stmt.name] and stmt.write.map.is_injective()):
            continue
        write = stmt.write.map
        pairs = write.apply_range(write.reverse())
        for index in nests[stmt.name]:
            position = stmt.indices.index(index)
            pairs = pairs.equate(isl.dim_type.in_, position, isl.dim_type.out, position)
        pairs = pairs.subtract(isl.Map.identity(pairs.get_space()))
        point = smallest(pairs.wrap(), program.context)
        if point is not None:
            split = len(stmt.indices)
            first, second = point.values[:split], point.values[split:]
            yield _made(
                f"{access_text(stmt.write.array, stmt.write.subscript)} is defined twice: "
                f"{_with(program, point)}{_instance(stmt, first)} and {_instance(stmt, second)} "
                f"write the same element",
                stmt,
                help="a definition gives each element one value; a reduction is written "
                "`sum[k](...)`, an update `+=`",
            )


def _overlapping(program: Program) -> Iterator[Diagnostic]:
    """Two definitions of one array, outside `for`, that share an element."""
    nests = _nests(program)
    seen: dict[str, isl.Set] = {}
    earlier: dict[str, list[Stmt]] = {}
    for stmt in program.statements.values():
        if stmt.is_update or nests[stmt.name]:
            continue
        array, written = stmt.write.array, stmt.write.map.range()
        if array in seen and not seen[array].is_disjoint(written):
            for other in earlier[array]:
                shared = written.intersect(other.write.map.range())
                point = smallest(shared, program.context)
                if point is not None:
                    yield _shared(program, stmt, other, shared, point)
                    break
        seen[array] = coalesced(seen[array].union(written)) if array in seen else written
        earlier.setdefault(array, []).append(stmt)


def _shared(program: Program, stmt: Stmt, other: Stmt, shared: isl.Set, point: Point) -> Diagnostic:
    name, first = stmt.init_of or stmt.name, other.init_of or other.name
    return Diagnostic(
        f"{first} and {name} both define {element_text(stmt.write.array, point.values)}"
        f"{_at(program, point)}",
        stmt.span,
        BoundsError.code,
        (Note("the other definition", other.span),),
        _assume(program, shared, "limit one of them by `where`, or make it an update such as `+=`"),
    )


def _at(program: Program, point: Point) -> str:
    sizes = dict(zip(program.params, point.sizes, strict=True))
    return f", with {sizes_text(sizes)}" if sizes else ""


def _definitions(program: Program, array: str) -> list[Stmt]:
    return [
        s
        for s in program.statements.values()
        if s.write.array == array and not s.is_update and s.write.exact
    ]


def _incomplete(program: Program) -> Iterator[Diagnostic]:
    """An `out` with an element that no definition writes."""
    for array in program.arrays.values():
        if array.role != "out":
            continue
        left = program.extents[array.name].intersect_params(program.context)
        for stmt in _definitions(program, array.name):
            left = left.subtract(stmt.write.map.range())
        point = smallest(left, program.context)
        update = _only_updated(program, array.name)
        if point is not None and update is not None:
            yield Diagnostic(
                f"this updates {array.name}, an output, whose elements have no value before",
                update.span,
                BoundsError.code,
                (Note("declared here", array.span),),
                f"declare inout {_declared(array)}, or define its elements first, for example by 0",
            )
        elif point is not None:
            yield Diagnostic(
                f"{array.name} is not written wholly: {_with(program, point)}nothing writes "
                f"{element_text(array.name, point.values)}",
                array.span,
                BoundsError.code,
                (),
                _assume(
                    program, left, f"define the rest of it, or declare inout {_declared(array)}"
                ),
            )


def _only_updated(program: Program, array: str) -> Stmt | None:
    """The first update of an array that no equation defines."""
    writers = [s for s in program.statements.values() if s.write.array == array]
    return writers[0] if writers and all(s.is_update for s in writers) else None


# ---------------------------------------------------------------- initialised reads


def _unwritten(program: Program) -> Iterator[Diagnostic]:
    """A read of a temp or an out that no definition has written by then."""
    where = paths(with_inits(program, initial_tree(program)))
    nests = _nests(program)
    for stmt in program.statements.values():
        own = (stmt.write,) if stmt.is_update else ()
        role = program.arrays[stmt.write.array].role
        if role == "out" and _only_updated(program, stmt.write.array) is not None:
            own = ()  # told by _incomplete
        for access in (*own, *stmt.reads):
            if program.arrays[access.array].role not in ("temp", "out"):
                continue
            left = access.map
            for writer in _definitions(program, access.array):
                left = _not_written_by(program, writer, stmt, left, where, nests)
            point = smallest(left.wrap(), program.context)
            if point is not None:
                split = len(stmt.indices)
                instance, element = point.values[:split], point.values[split:]
                yield _made(
                    f"{access_text(access.array, access.subscript)} is read before it is "
                    f"written: {_with(program, point)}{_instance(stmt, instance)} reads "
                    f"{element_text(access.array, element)}",
                    access if access.span is not None else stmt,
                    help=_assume(
                        program,
                        left.domain(),
                        f"define that element first{_or_inout(program, access.array)}",
                    ),
                )


def _or_inout(program: Program, name: str) -> str:
    array = program.arrays[name]
    return f", or declare inout {_declared(array)}" if array.role == "out" else ""


def _declared(array: Array) -> str:
    """The name in the declaration; a field of records has that of the whole."""
    return array.name if array.field is None else array.field[0]


def _not_written_by(
    program: Program,
    writer: Stmt,
    reader: Stmt,
    left: isl.Map,
    where: dict[str, Path],
    nests: dict[str, tuple[str, ...]],
) -> isl.Map:
    """The part of the reads whose element this definition has not written before."""
    order = before(where, writer, reader)
    if order is None or left.is_empty():
        return left
    local = program.arrays[writer.write.array].local
    if local is None and not _share_a_loop(where, writer, reader):
        return left.subtract_range(writer.write.map.range())
    if local is not None:  # fresh in every iteration of the nest down to this index
        around = nests[reader.name]
        for index in around[: around.index(local) + 1]:
            order = order.equate(
                isl.dim_type.in_,
                writer.indices.index(index),
                isl.dim_type.out,
                reader.indices.index(index),
            )
    return left.subtract(
        order.reverse().intersect_domain(reader.domain).apply_range(writer.write.map)
    )


def _share_a_loop(where: dict[str, Path], a: Stmt, b: Stmt) -> bool:
    mine = {id(step) for step in where[a.name] if isinstance(step, Loop)}
    return any(id(step) in mine for step in where[b.name])


def _terms(program: Program) -> Iterator[tuple[str, Stmt, Stmt]]:
    """Reductions that want a term: in words, the statement and what writes its first value."""
    for stmt in program.statements.values():
        init = program.statements.get(f"{stmt.name}.init")
        if init is not None and stmt.op in ("max", "min"):
            yield f"{stmt.op}[{', '.join(stmt.reduction)}]", stmt, init
    for source in program.kernel.statements:
        if source.start is not None:
            word, start = source.start
            yield word, program.statements[source.name], program.statements[start]


def _that_count(program: Program, init: Stmt, without: isl.Set) -> isl.Set:
    """Those of the points that write an element of an argument, or one that is read."""
    array = init.write.array
    if without.is_empty() or program.arrays[array].role != "temp":
        return without
    read = isl.Set.empty(program.extents[array].get_space())
    for stmt in program.statements.values():
        for access in stmt.reads:
            if access.array == array:
                read = read.union(access.map.range())
    return coalesced(without.intersect(init.write.map.intersect_range(read).domain()))


def _empty(program: Program) -> Iterator[Diagnostic]:
    """A `max` or `min` that may have no term."""
    for word, stmt, init in _terms(program):
        terms = isl.Map.from_domain_and_range(stmt.domain, init.domain)
        for position, index in enumerate(init.indices):
            terms = terms.equate(
                isl.dim_type.in_, stmt.indices.index(index), isl.dim_type.out, position
            )
        without = _that_count(program, init, init.domain.subtract(terms.range()))
        point = smallest(without, program.context)
        if point is not None:
            name = init.init_of or stmt.name
            yield _made(
                f"{word} may be empty: {_with(program, point)}"
                f"{instance_text(name, init.indices, point.values)} has no term",
                stmt,
                help=_assume(
                    program, without, "give the range an element, or define those elements apart"
                ),
            )
