"""From the loop tree to explicit loops, by isl's AST generation.

isl scans only the loops that stay loops: per statement, the tuples of their coordinates
(domain `L0[c0, c1, ...]`). The dimensions at a leaf (lanes, jammed copies) have a constant
extent and are described beside it: where a block is incomplete, by the count of iterations
that run, read off the constraints that the outer loops do not imply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import islpy as isl

from tdsl.ir import loops as ir
from tdsl.ir.index import add, conjunction, const, minimum, simplify, substitute
from tdsl.ir.kernel import INDEX, Const, Expr, Op, Size, Var
from tdsl.polyhedral.from_isl import from_aff, from_ast, from_constraint, from_pw_aff, from_set
from tdsl.polyhedral.leaves import Code, Kept, Point, Repeat, Sequence_, points
from tdsl.polyhedral.program import Program
from tdsl.polyhedral.tree import Loop

SET = isl.dim_type.set
_IF = isl.ast_node_type["if_"]
_FOR = isl.ast_node_type["for_"]


class CannotScan(Exception):
    """A loop that is to be unrolled or to become lanes has no constant extent."""

    def __init__(self, statement: str, loop: str) -> None:
        super().__init__(f"{statement}.{loop} has no constant extent")
        self.statement = statement
        self.loop = loop


@dataclass(frozen=True)
class _Leaf:
    """One statement ready for isl.

    domain: the tuples of outer coordinates; index: each index of the statement as a function
    of outer coordinates and dims; dims: their descriptions over the outer coordinates, which
    are Var("c0"), Var("c1"), ... until the scan has named them.
    """

    point: Point
    name: str
    domain: isl.Set
    index: tuple[tuple[str, Expr], ...]
    dims: tuple[ir.Dim, ...]
    guard: Expr | None


def generate(program: Program, code: Code) -> ir.Block:
    """Loops for some code; order, guards and bounds are isl's."""
    leaves = {}
    for number, (point, outer) in enumerate(_paths(code, ())):
        leaves[id(point)] = _leaf(program, point, outer, f"L{number}")
    domain = reduce(isl.UnionSet.union, (leaf.domain.to_union_set() for leaf in leaves.values()))
    schedule = isl.Schedule.from_domain(domain)
    marks: dict[str, Repeat | Kept] = {}
    node = schedule.get_root().child(0)
    node = _insert(node, code, 0, leaves, marks)
    build = isl.AstBuild.from_context(program.context)
    tree = build.node_from_schedule(node.get_schedule())
    names: dict[str, Expr] = {p: Size(size) for size, p in program.params.items()}
    return _Scan({leaf.name: leaf for leaf in leaves.values()}, marks).block(tree, names, None)


def _paths(code: Code, outer: tuple[Loop, ...]) -> list[tuple[Point, tuple[Loop, ...]]]:
    match code:
        case Point():
            return [(code, outer)]
        case Repeat(loop, body):
            return _paths(body, (*outer, loop))
        case Kept(_, body):
            return _paths(body, outer)
        case Sequence_(children):
            return [p for c in children for p in _paths(c, outer)]


# ---------------------------------------------------------------- leaves


def _leaf(program: Program, point: Point, outer: tuple[Loop, ...], name: str) -> _Leaf:
    stmt = program.statements[point.statement]
    key = _together(stmt.domain, [loop.coords[stmt.name] for loop in outer])
    placed = key
    extents = []
    for dim in point.dims:
        start, extent = _start(program, stmt.name, dim, outer, key)
        relative = dim.coords[stmt.name].sub(start)
        placed = placed.flat_range_product(relative.as_map())
        extents.append(extent)
    placed = placed.intersect_domain(stmt.domain).intersect_params(program.context).coalesce()
    scanned = placed.range().coalesce()
    domain = scanned.project_out(SET, len(outer), len(extents)).coalesce()
    sizes: list[Expr] = [Size(s) for s in program.params]
    variables: list[Expr] = [Var(f"c{k}") for k in range(len(outer))]
    inner: list[Expr] = [Var(_dim_var(dim, k)) for k, dim in enumerate(point.dims)]
    back = isl.PwMultiAff.from_map(placed.reverse()).gist(scanned)
    index = tuple(
        (i, from_pw_aff(back.get_pw_aff(k), [*variables, *inner], sizes))
        for k, i in enumerate(stmt.indices)
    )
    dims, guard = _describe(scanned, domain, point.dims, extents, [*variables, *inner], sizes)
    return _Leaf(point, name, domain.set_tuple_name(name), index, dims, guard)


def _dim_var(dim: Loop, position: int) -> str:
    return f"{dim.name}'{position}"  # unlike any user's name; gone when the copies are written


def _together(domain: isl.Set, coordinates: Sequence[isl.PwAff]) -> isl.Map:
    """Instance -> the tuple of these coordinates."""
    result = isl.Map.from_domain(isl.Set.universe(domain.get_space()))
    for coordinate in coordinates:
        result = result.flat_range_product(coordinate.as_map())
    return result


def _start(
    program: Program, statement: str, dim: Loop, outer: tuple[Loop, ...], key: isl.Map
) -> tuple[isl.PwAff, int]:
    """Where a dimension starts, as a function of the instance, and its constant extent.

    In a block of a split: the block's first coordinate, so that all full blocks look alike.
    Otherwise the least coordinate that the outer loops leave.
    """
    coordinate = dim.coords[statement]
    info = dim.inner_of
    block = [p for p in outer if info is not None and p.name == info.outer]
    if info is not None and block and not info.tail.balanced:
        start = _block_start(block[0].coords[statement], coordinate, info.factor)
        if start is not None:
            return start, info.factor
    domain = program.statements[statement].domain.intersect_params(program.context)
    values = key.intersect_domain(domain).reverse().apply_range(coordinate.as_map())
    extent = _largest_spread(values)
    if extent is None:
        raise CannotScan(statement, dim.name)
    first = isl.PwMultiAff.from_map(key.apply_range(values.lexmin()).coalesce())
    return first.get_pw_aff(0), extent


def _block_start(block: isl.PwAff, coordinate: isl.PwAff, factor: int) -> isl.PwAff | None:
    """anchor + factor * block, where coordinate - factor * block spans anchor..+factor."""
    offset = coordinate.sub(block.scale_val(isl.Val(factor)))
    seen = offset.as_map().range()
    if not seen.dim_has_lower_bound(SET, 0):
        return None
    anchor = seen.dim_min(0).coalesce().get_pieces()
    if len(anchor) != 1:
        return None
    base = isl.PwAff.from_aff(anchor[0][1]).insert_domain(block.get_domain_space())
    return block.scale_val(isl.Val(factor)).add(base)


def _largest_spread(values: isl.Map) -> int | None:
    """The largest number of values from least to greatest that one key has, if constant."""
    pairs = values.reverse().apply_range(values).deltas()
    if pairs.is_empty():
        return 1
    most = pairs.dim_max_val(0)
    return int(most.to_python()) + 1 if most.is_int() else None


def _describe(
    scanned: isl.Set,
    domain: isl.Set,
    loops: tuple[Loop, ...],
    extents: Sequence[int],
    names: Sequence[Expr],
    sizes: Sequence[Expr],
) -> tuple[tuple[ir.Dim, ...], Expr | None]:
    """Dims with their counts, and what no count can say, as one guard."""
    depth = len(names) - len(loops)
    known = domain.insert_dims(SET, depth, len(loops))
    for k, extent in enumerate(extents):
        known = known.lower_bound_val(SET, depth + k, isl.Val(0))
        known = known.upper_bound_val(SET, depth + k, isl.Val(extent - 1))
    rest = scanned.gist(known).coalesce()
    counts: list[list[Expr]] = [[] for _ in loops]
    others: list[Expr] = []
    basics = rest.get_basic_sets()
    if len(basics) != 1:
        # Nothing left: everything runs. Several pieces: one condition.
        others = [] if rest.plain_is_universe() else [from_set(rest, names, sizes)]
    else:
        for constraint in basics[0].get_constraints():
            where = _counts(constraint, depth, len(loops))
            if where is None:
                others.append(from_constraint(constraint, names, sizes))
            else:
                bound = constraint.get_bound(SET, depth + where).floor()
                counts[where].append(add(from_aff(bound, names, sizes), const(1)))
    dims = tuple(
        ir.Dim(
            loop.name,
            _dim_var(loop, k),
            extents[k],
            loop.mark,
            minimum(const(extents[k]), *counts[k]) if counts[k] else None,
            loop.inner_of.tail.mode if loop.inner_of is not None else "",
            loop.width,
        )
        for k, loop in enumerate(loops)
    )
    return dims, conjunction(tuple(others))


def _counts(constraint: isl.Constraint, depth: int, dims: int) -> int | None:
    """The one dimension that a constraint bounds above by outer coordinates, if it does that."""
    involved = [k for k in range(dims) if constraint.involves_dims(SET, depth + k, 1)]
    if len(involved) != 1 or constraint.dim(isl.dim_type.div) > 0:
        return None
    (dim,) = involved
    if constraint.is_equality():
        # Only the first iteration: the same as a count of one.
        return dim if constraint.get_bound(SET, depth + dim).plain_is_zero() else None
    return dim if constraint.is_upper_bound(SET, depth + dim) else None


# ---------------------------------------------------------------- schedule


def _insert(
    node: isl.ScheduleNode,
    code: Code,
    depth: int,
    leaves: Mapping[int, _Leaf],
    marks: dict[str, Repeat | Kept],
) -> isl.ScheduleNode:
    """The code inserted below `node`; returns the node at the same place."""
    match code:
        case Point():
            return node
        case Kept(_, body):
            node = _insert_mark(node, code, marks)
            return _insert(node.child(0), body, depth, leaves, marks).parent()
        case Repeat(_, body):
            node = _insert_mark(node, code, marks)
            parts = [_coordinate(leaves[id(point)].domain, depth) for point in points(code)]
            band = isl.MultiUnionPwAff.from_union_pw_aff(reduce(isl.UnionPwAff.union_add, parts))
            node = node.child(0).insert_partial_schedule(band)
            return _insert(node.child(0), body, depth + 1, leaves, marks).parent().parent()
        case Sequence_(children):
            filters = [
                reduce(
                    isl.UnionSet.union,
                    (leaves[id(p)].domain.to_union_set() for p in points(child)),
                )
                for child in children
            ]
            listed = isl.UnionSetList.alloc(isl.DEFAULT_CONTEXT, len(filters))
            for filter_ in filters:
                listed = listed.add(filter_)
            node = node.insert_sequence(listed)
            for position, child in enumerate(children):
                below = node.child(position).child(0)
                node = _insert(below, child, depth, leaves, marks).parent().parent()
            return node


def _coordinate(domain: isl.Set, depth: int) -> isl.UnionPwAff:
    space = isl.LocalSpace.from_space(domain.get_space())
    return isl.UnionPwAff.from_pw_aff(isl.PwAff.from_aff(isl.Aff.var_on_domain(space, SET, depth)))


def _insert_mark(
    node: isl.ScheduleNode, code: Repeat | Kept, marks: dict[str, Repeat | Kept]
) -> isl.ScheduleNode:
    name = f"m{len(marks)}"
    marks[name] = code
    return node.insert_mark(isl.Id(name))


# ---------------------------------------------------------------- the AST


@dataclass(frozen=True)
class _Scan:
    """isl's AST as loops. `names`: isl's identifiers as expressions; `mark`: of the loop below."""

    leaves: Mapping[str, _Leaf]
    marks: Mapping[str, Repeat | Kept]

    def block(
        self, node: isl.AstNode, names: Mapping[str, Expr], repeat: Repeat | None
    ) -> ir.Block:
        kind: Any = node.get_type()  # islpy's stubs say int
        if kind == isl.ast_node_type.block:
            children = node.block_get_children()
            parts = [self.block(children.get_at(k), names, repeat) for k in range(len(children))]
            return ir.Block(tuple(item for part in parts for item in part.items))
        if kind == isl.ast_node_type.mark:
            code = self.marks[node.mark_get_id().get_name()]
            below = node.mark_get_node()
            if isinstance(code, Kept):
                return ir.Block((ir.Scope(code.array, self.block(below, names, None)),))
            return self.block(below, names, code)
        if kind == _IF:
            condition = from_ast(node.if_get_cond(), names)
            then = self.block(node.if_get_then_node(), names, repeat)
            other = None
            if node.if_has_else_node():
                other = self.block(node.if_get_else_node(), names, repeat)
            return ir.Block((ir.If(condition, then, other),))
        if kind == _FOR:
            return self._for(node, names, repeat)
        return ir.Block((self._instance(node, names),))

    def _for(self, node: isl.AstNode, names: Mapping[str, Expr], repeat: Repeat | None) -> ir.Block:
        iterator = node.for_get_iterator().get_id().get_name()
        lo = from_ast(node.for_get_init(), names)
        if node.for_is_degenerate():
            return self.block(node.for_get_body(), {**names, iterator: lo}, None)
        if repeat is None:
            raise AssertionError("isl made a loop that no loop of the tree asked for")
        loop = repeat.loop
        taken = {v.name for v in names.values() if isinstance(v, Var)}
        var = loop.name
        while var in taken:
            var += "_"
        inside = {**names, iterator: Var(var)}
        hi = _exclusive(node.for_get_cond(), inside)
        step = int(node.for_get_inc().get_val().to_python())
        body = self.block(node.for_get_body(), inside, None)
        mark = loop.mark
        return ir.Block((ir.For(loop.name, var, lo, hi, body, step, mark, loop.by, loop.notes),))

    def _instance(self, node: isl.AstNode, names: Mapping[str, Expr]) -> ir.Instance:
        call = node.user_get_expr()
        leaf = self.leaves[call.get_op_arg(0).get_id().get_name()]
        coordinates = {
            f"c{k}": from_ast(call.get_op_arg(k + 1), names) for k in range(call.get_op_n_arg() - 1)
        }

        def here(expr: Expr) -> Expr:
            return simplify(substitute(expr, coordinates))

        dims = tuple(d if d.count is None else _counted(d, here(d.count)) for d in leaf.dims)
        index = tuple((name, here(value)) for name, value in leaf.index)
        guard = None if leaf.guard is None else here(leaf.guard)
        return ir.Instance(leaf.point.statement, index, dims, guard)


def _counted(dim: ir.Dim, count: Expr) -> ir.Dim:
    """A dimension with its count; one that is a number is the extent."""
    if isinstance(count, Const):
        return replace(dim, extent=max(0, min(dim.extent, int(count.value))), count=None)
    return replace(dim, count=count)


def _exclusive(condition: isl.AstExpr, names: Mapping[str, Expr]) -> Expr:
    """The exclusive upper bound in `i < e` or `i <= e`."""
    bound = from_ast(condition.get_op_arg(1), names)
    op: Any = condition.get_op_type()
    if op == isl.ast_expr_op_type.le:
        return _plus_one(bound)
    return bound


def _plus_one(bound: Expr) -> Expr:
    """1 goes inside a min or max, where it often cancels."""
    match bound:
        case Op("min" | "max" as op, (a, b)):
            return simplify(Op(op, (_plus_one(a), _plus_one(b)), INDEX))
        case _:
            return add(bound, const(1))
