"""kernel -> program: instances, accesses and the textual order as isl objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import islpy as isl

from tdsl.diagnostics import BoundsError, Span
from tdsl.ir.kernel import (
    INDEX,
    Array,
    BodyItem,
    Cast,
    Const,
    Expr,
    Kernel,
    Nest,
    Op,
    Read,
    Select,
    Statement,
    Var,
    children,
    walk,
)
from tdsl.ir.types import BOOL
from tdsl.polyhedral.affine import NotAffine, Scope, points, pw_aff, region, scope, set_space
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Access, Program, Stmt
from tdsl.polyhedral.ranges import Range, value_range
from tdsl.polyhedral.text import expr_text
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq

SIZE_LIMIT = 2**40


@bounded("the model of the kernel")
def build(kernel: Kernel) -> Program:
    """The statements of a kernel with their domains and accesses.

    Raises BoundsError where a domain, a shape or an index is not quasi-affine and no range is
    provable for it.
    """
    params = {name: f"p{n}" for n, name in enumerate(kernel.sizes)}
    # Records are memory alone: their fields are arrays of their own.
    arrays = {a.name: a for a in kernel.arrays if not a.type.fields}
    context = _context(kernel, params)
    extents = {
        name: extent_of(array, f"A{n}", params) for n, (name, array) in enumerate(arrays.items())
    }
    held = _held(kernel, params, arrays, context)
    maker = _Maker(params, arrays, extents, context, held)
    statements: dict[str, Stmt] = {}
    for statement, nests in _with_nests(kernel.body):
        for made in maker.statements(statement, nests, len(statements)):
            statements[made.name] = made
    return Program(kernel, context, params, statements, arrays, extents)


def nest_indices(kernel: Kernel) -> dict[str, tuple[str, ...]]:
    """For each statement the indices of the `for` loops around it, outermost first; a `S.init`
    that is not here has those of S."""
    return {s.name: tuple(n.index for n in nests) for s, nests in _with_nests(kernel.body)}


def nest_of(nests: Mapping[str, tuple[str, ...]], stmt: Stmt) -> tuple[str, ...]:
    """Those of one statement, `S.init` included."""
    found = nests.get(stmt.name)
    return nests[stmt.init_of or stmt.name] if found is None else found


def scope_of(program: Program, statement: str) -> Scope:
    """The scope in which index expressions of a statement are functions of its instances."""
    stmt = program.statements[statement]
    return scope(stmt.indices, program.params, stmt.tuple_name)


def with_value(
    program: Program,
    stmt: Stmt,
    value: Expr | None,
    subscript: tuple[Expr, ...],
    array: str | None = None,
) -> Stmt:
    """The statement with another value and subscript, and what these read. `array`: what it
    writes then, where that is another one. Raises BoundsError where nothing bounds an index."""
    arrays = {**{a.name: a for a in program.kernel.arrays}, **program.arrays}
    held = _held(program.kernel, program.params, arrays, program.context)
    maker = _Maker(program.params, program.arrays, program.extents, program.context, held)
    where = scope(stmt.indices, program.params, stmt.tuple_name)
    return maker.with_value(stmt, value, subscript, where, array)


def _with_nests(
    body: Sequence[BodyItem], outer: tuple[Nest, ...] = ()
) -> Iterator[tuple[Statement, tuple[Nest, ...]]]:
    for item in body:
        match item:
            case Statement():
                yield item, outer
            case Nest():
                yield from _with_nests(item.body, (*outer, item))


def _context(kernel: Kernel, params: Mapping[str, str]) -> isl.Set:
    where = scope((), params, None)
    sizes = where.universe
    for name in params:
        size = where.size(name)
        sizes = sizes.intersect(size.ge_set(where.constant(0)))
        sizes = sizes.intersect(size.lt_set(where.constant(SIZE_LIMIT)))
    for assumption in kernel.assumptions:
        # What is not affine is checked on entry all the same; it only serves no proof.
        sizes = sizes.intersect(region(assumption, where).may)
    return sizes.params()


def extent_of(array: Array, tuple_name: str, params: Mapping[str, str]) -> isl.Set:
    """The elements of an array. Raises BoundsError where an extent is not affine."""
    space = set_space(params, len(array.shape), tuple_name)
    where = Scope(space, {}, params)
    box = where.universe
    for position, extent in enumerate(array.shape):
        x = where.index(position)
        try:
            bound = pw_aff(extent, where)
        except NotAffine as error:
            raise BoundsError.at(
                error.expr.span or array.span,
                f"the extent {expr_text(extent)} of {array.name} is not affine in the sizes",
                help="declare a size of its own for it, or bind one of the factors",
            ) from error
        box = box.intersect(x.ge_set(where.constant(0))).intersect(x.lt_set(bound))
    return box


def _held(
    kernel: Kernel, params: Mapping[str, str], arrays: Mapping[str, Array], context: isl.Set
) -> dict[str, Range]:
    """What is known of the values of integer temps whose elements are defined and never updated.

    They are looked at in textual order, so that a definition knows of the temps before it alone:
    one that goes round through a `for` knows nothing.
    """
    writers: dict[str, list[tuple[Statement, tuple[Nest, ...]]]] = {}
    for statement, nests in _with_nests(kernel.body):
        writers.setdefault(statement.array, []).append((statement, nests))
    held: dict[str, Range] = {}
    wanted = _index_data(kernel)
    for name, found in writers.items():
        array = arrays[name]
        if name not in wanted:
            continue
        defined = all(s.op == "define" and s.init is None and s.start is None for s, _ in found)
        if array.role != "temp" or not array.type.is_integer or not defined:
            continue
        parts = []
        for statement, nests in found:
            where = scope(statement.indices, params, None)
            around = tuple(c for nest in nests for c in nest_conditions(nest))
            try:
                domain = points((*around, *statement.domain), where).intersect_params(context)
            except NotAffine:
                break  # it is told where the statement is built
            known = value_range(statement.value, where, domain, arrays, held)
            parts.append(known.of_sizes(domain))
        if len(parts) == len(found) and all(p.known for p in parts):
            held[name] = reduce(Range.joined, parts)
    return held


def _index_data(kernel: Kernel) -> set[str]:
    """Arrays whose values decide an index, or a value of an array that does."""
    wanted: set[str] = set()
    for statement in kernel.statements:
        for part in (statement.value, *statement.subscript):
            for e in walk(part):
                if isinstance(e, Cast) and e.type == INDEX:
                    wanted |= {r.array for r in walk(e) if isinstance(r, Read)}
    for statement in reversed(kernel.statements):
        if statement.array in wanted:
            wanted |= {r.array for r in walk(statement.value) if isinstance(r, Read)}
    return wanted


@dataclass
class _Maker:
    params: Mapping[str, str]
    arrays: Mapping[str, Array]
    extents: Mapping[str, isl.Set]
    context: isl.Set
    held: Mapping[str, Range]

    def statements(self, source: Statement, nests: tuple[Nest, ...], number: int) -> Iterator[Stmt]:
        """`S.init`, where S starts by itself, and S."""
        around = tuple(c for nest in nests for c in nest_conditions(nest))
        if source.starts is not None:
            yield self._statement(source, around, number, source.starts)
            return
        if source.init is not None:
            yield self._statement(
                replace(
                    source,
                    name=f"{source.name}.init",
                    indices=source.free,
                    domain=source.outer,
                    op="define",
                    value=source.init,
                    reduction=(),
                ),
                around,
                number,
                source.name,
            )
            number += 1
        yield self._statement(source, around, number, None)

    def _statement(
        self, source: Statement, around: tuple[Expr, ...], number: int, init_of: str | None
    ) -> Stmt:
        where = scope(source.indices, self.params, f"S{number}")
        try:
            domain = points((*around, *source.domain), where).intersect_params(self.context)
        except NotAffine as error:
            raise BoundsError.at(
                error.expr.span or source.span,
                f"the domain of {source.name} is not affine: {expr_text(error.expr)}",
                help="conditions on data belong into the value: select(condition, a, b)",
            ) from error
        write = self._access(
            source.array, source.subscript, where, domain, True, source.span, source.op == "define"
        )
        reads = [
            access
            for e in (source.value, *source.subscript)
            for access in self._reads(e, where, domain, True)
        ]
        return Stmt(
            source.name,
            f"S{number}",
            source.indices,
            domain,
            write,
            tuple(reads),
            source.op,
            source.value,
            source.reduction or source.over,
            init_of,
            tuple_of=source.tuple_of,
            span=source.span,
        )

    def with_value(
        self,
        stmt: Stmt,
        value: Expr | None,
        subscript: tuple[Expr, ...],
        where: Scope,
        array: str | None,
    ) -> Stmt:
        write = stmt.write
        if subscript != write.subscript or array is not None:
            write = self._access(
                array or write.array,
                subscript,
                where,
                stmt.domain,
                True,
                stmt.span,
                not stmt.is_update,
            )
        roots = subscript if value is None else (value, *subscript)
        reads = [a for e in roots for a in self._reads(e, where, stmt.domain, True)]
        return replace(stmt, value=value, write=write, reads=tuple(reads))

    def _reads(self, expr: Expr, where: Scope, domain: isl.Set, exact: bool) -> Iterator[Access]:
        """Reads at the instances in `domain`; a select's arms restrict it."""
        match expr:
            case Read(name, indices):
                yield self._access(name, indices, where, domain, exact, expr.span, False)
                for index in indices:
                    yield from self._reads(index, where, domain, exact)
            case Select(condition, then, other):
                yield from self._reads(condition, where, domain, exact)
                chosen = region(condition, where)
                exact = exact and chosen.exact
                arms = (then, chosen), (other, chosen.negated())
                for arm, taken in arms:
                    part = domain.intersect(taken.may)
                    if not part.is_empty():
                        yield from self._reads(arm, where, part, exact)
            case _:
                for child in children(expr):
                    yield from self._reads(child, where, domain, exact)

    def _access(
        self,
        array: str,
        subscript: tuple[Expr, ...],
        where: Scope,
        domain: isl.Set,
        exact: bool,
        span: Span | None,
        defines: bool,
    ) -> Access:
        tuple_name = self.extents[array].get_tuple_name()
        result = isl.Map.from_domain(domain)
        for index in subscript:
            try:
                part = isl.Map.from_pw_aff(pw_aff(index, where))
            except NotAffine:
                if defines:
                    raise BoundsError.at(
                        index.span or span,
                        f"the definition of {array} is indexed by {expr_text(index)}, which is "
                        "not affine in the indices",
                        help="only updates such as `+=` may write where data say",
                    ) from None
                part, exact = self._between(index, where, domain, array, span), False
            result = result.flat_range_product(part)
        result = result.set_tuple_name(isl.dim_type.out, tuple_name)
        return Access(array, coalesced(result), subscript, exact, span)

    def _between(
        self, index: Expr, where: Scope, domain: isl.Set, array: str, span: Span | None
    ) -> isl.Map:
        found = value_range(index, where, domain, self.arrays, self.held)
        if found.lo is None or found.hi is None:
            raise BoundsError.at(
                index.span or span,
                f"nothing bounds the index {expr_text(index)} of {array}",
                help="clamp it: clamp(e, 0, N - 1), or promise its range where its array is "
                f"declared: range 0..{expr_text(self.arrays[array].shape[0])}",
            )
        return _at_least(found.lo).intersect(_at_most(found.hi))


def _at_least(bound: isl.PwAff) -> isl.Map:
    """{ p -> [x] : x >= bound(p) }"""
    return isl.Map.from_pw_aff(bound).apply_range(isl.Map("{ [a] -> [x] : x >= a }"))


def _at_most(bound: isl.PwAff) -> isl.Map:
    return isl.Map.from_pw_aff(bound).apply_range(isl.Map("{ [a] -> [x] : x <= a }"))


def nest_conditions(nest: Nest) -> tuple[Expr, ...]:
    """The range of a `for` loop as conditions on its index, the step included."""
    index = Var(nest.index)
    result = [Op("ge", (index, nest.lo), BOOL), Op("lt", (index, nest.hi), BOOL)]
    if nest.step > 1:
        one = Const(1, INDEX)
        last = Op("sub", (Op("sub", (nest.hi, one), INDEX), index), INDEX)
        distance = last if nest.down else Op("sub", (index, nest.lo), INDEX)
        steps = Op("mod", (distance, Const(nest.step, INDEX)), INDEX)
        result.append(Op("eq", (steps, Const(0, INDEX)), BOOL))
    return tuple(result)


# ---------------------------------------------------------------- textual order


def initial_tree(program: Program) -> Node:
    """The program's own order: each statement in its own loops, a `for` shared by its body.

    There are no leaves for `S.init`; `legality.with_inits` places them. Statements of the kernel
    that the program has no more (`inline`) have none either.
    """
    return _block(program, program.kernel.body, ())


def _block(program: Program, body: Sequence[BodyItem], outer: tuple[Nest, ...]) -> Node:
    nodes = [_item(program, item, outer) for item in body if _placed(program, item)]
    return nodes[0] if len(nodes) == 1 else Seq(tuple(nodes))


def _placed(program: Program, item: BodyItem) -> tuple[Statement, ...]:
    """The statements of an item of the body that have leaves."""
    return tuple(
        s for s, _ in _with_nests((item,)) if s.starts is None and s.name in program.statements
    )


def _item(program: Program, item: BodyItem, outer: tuple[Nest, ...]) -> Node:
    if isinstance(item, Nest):
        coords = {
            s.name: _coordinate(program, s.name, item.index, item.down)
            for s in _placed(program, item)
        }
        return Loop(item.index, coords, _block(program, item.body, (*outer, item)))
    shared = {nest.index for nest in outer}
    node: Node = Leaf(item.name)
    for index in reversed([i for i in item.indices if i not in shared]):
        node = Loop(index, {item.name: _coordinate(program, item.name, index, False)}, node)
    return node


def _coordinate(program: Program, statement: str, index: str, down: bool) -> isl.PwAff:
    where = scope_of(program, statement)
    value = where.index(where.indices[index])
    return value.neg() if down else value
