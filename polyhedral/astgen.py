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
from tdsl.ir.index import add, const, simplify, substitute
from tdsl.ir.kernel import INDEX, Const, Expr, Op, Size, Var
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.dims import SET, Leaf, leaf
from tdsl.polyhedral.from_isl import condition_from_ast, from_ast
from tdsl.polyhedral.leaves import Code, Kept, Point, Repeat, Sequence_, points
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Program
from tdsl.polyhedral.tree import Loop

_IF = isl.ast_node_type["if_"]
_FOR = isl.ast_node_type["for_"]


@bounded("the loops of the schedule")
def generate(program: Program, code: Code) -> ir.Block:
    """Loops for some code; order, guards and bounds are isl's."""
    leaves = {}
    for number, (point, outer, kept) in enumerate(_paths(code, (), {})):
        stmt = program.statements[point.statement]
        around = [kept[a.array] for a in (stmt.write, *stmt.reads) if a.array in kept]
        found = leaf(program, point, outer, min(around, default=None))
        named = found.domain.set_tuple_name(f"L{number}")
        leaves[id(point)] = replace(found, domain=named)
    domain = reduce(isl.UnionSet.union, (x.domain.to_union_set() for x in leaves.values()))
    schedule = isl.Schedule.from_domain(domain)
    marks: dict[str, Repeat | Kept] = {}
    node = schedule.get_root().child(0)
    node = _insert(node, code, 0, leaves, marks)
    build = isl.AstBuild.from_context(program.context)
    tree = build.node_from_schedule(node.get_schedule())
    names: dict[str, Expr] = {p: Size(size) for size, p in program.params.items()}
    return _Scan({x.domain.get_tuple_name(): x for x in leaves.values()}, marks).block(
        tree, names, None
    )


def _paths(
    code: Code, outer: tuple[Loop, ...], kept: Mapping[str, int]
) -> list[tuple[Point, tuple[Loop, ...], Mapping[str, int]]]:
    """The statements, each with the loops around it, and how many of these are around the scope of
    each array that is in no memory."""
    match code:
        case Point():
            return [(code, outer, kept)]
        case Repeat(loop, body):
            return _paths(body, (*outer, loop), kept)
        case Kept(array, body, private):
            inside = {**kept, array: len(outer)} if private else kept
            return _paths(body, outer, inside)
        case Sequence_(children):
            return [p for c in children for p in _paths(c, outer, kept)]


# ---------------------------------------------------------------- schedule


def _insert(
    node: isl.ScheduleNode,
    code: Code,
    depth: int,
    leaves: Mapping[int, Leaf],
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
            domains = [leaves[id(point)].domain for point in points(code)]
            if _keeps(body) and _runs_once(domains, depth):
                return _insert(node.child(0), body, depth + 1, leaves, marks).parent()
            parts = [_coordinate(domain, depth) for domain in domains]
            band = isl.MultiUnionPwAff.from_union_pw_aff(reduce(isl.UnionPwAff.union_add, parts))
            node = node.child(0).insert_partial_schedule(band)
            if _all_in_one(domains, depth):
                node = node.band_member_set_ast_loop_type(0, isl.ast_loop_type.atomic)
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


def _keeps(code: Code) -> bool:
    """Whether a scope of registers lies somewhere in some code."""
    match code:
        case Point():
            return False
        case Kept():
            return True
        case Repeat(_, body):
            return _keeps(body)
        case Sequence_(children):
            return any(map(_keeps, children))


def _outer(domains: Sequence[isl.Set], depth: int) -> list[isl.Set]:
    """The coordinates that statements have in a loop and in those around it."""
    return [d.project_out(SET, depth + 1, d.dim(SET) - depth - 1).reset_tuple_id() for d in domains]


def _all_in_one(domains: Sequence[isl.Set], depth: int) -> bool:
    """Whether one statement has all iterations of a loop, though isl would see several parts: it
    would make a loop for each, of all that is inside (one where a sum has terms, say, and others
    for the sizes without). As one loop, what some iterations lack is tested further in."""
    if len(domains) < 2:
        return False
    parts = _outer(domains, depth)
    union = coalesced(reduce(isl.Set.union, parts))
    if union.n_basic_set() < 2:
        return False
    plain = (p for p in map(coalesced, parts) if p.n_basic_set() == 1)
    return any(union.is_subset(p) for p in plain)


def _runs_once(domains: Sequence[isl.Set], depth: int) -> bool:
    """Whether a loop has one iteration in each of those around it. As a band of the schedule isl
    would take its statements apart, each below a copy of all marks: a scope would become several.
    """
    values = isl.Map.from_range(reduce(isl.Set.union, _outer(domains, depth)))
    return bool(
        values.move_dims(isl.dim_type.in_, 0, isl.dim_type.out, 0, depth).is_single_valued()
    )


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

    leaves: Mapping[str, Leaf]
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
            if repeat is not None:  # isl left out a loop of one iteration
                return self._once(node, names, repeat, self.block(node, names, None))
            if isinstance(code, Kept):
                return ir.Block(
                    (ir.Scope(code.array, self.block(below, names, None), code.private),)
                )
            return self.block(below, names, code)
        if kind == _IF:
            condition = condition_from_ast(node.if_get_cond(), names)
            then = self.block(node.if_get_then_node(), names, repeat)
            other = None
            if node.if_has_else_node():
                other = self.block(node.if_get_else_node(), names, repeat)
            return ir.Block((ir.If(condition, then, other),))
        if kind == _FOR:
            return self._for(node, names, repeat)
        return self._once(node, names, repeat, ir.Block((self._instance(node, names),)))

    def _for(self, node: isl.AstNode, names: Mapping[str, Expr], repeat: Repeat | None) -> ir.Block:
        iterator = node.for_get_iterator().get_id().get_name()
        lo = from_ast(node.for_get_init(), names)
        if node.for_is_degenerate():
            body = self.block(node.for_get_body(), {**names, iterator: lo}, None)
            return self._once(node, names, repeat, body)
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
        hints = self._hints(loop, node, inside)
        made = ir.For(loop.name, var, lo, hi, body, step, mark, loop.by, loop.notes, hints)
        return ir.Block((made,))

    def _once(
        self, node: isl.AstNode, names: Mapping[str, Expr], repeat: Repeat | None, body: ir.Block
    ) -> ir.Block:
        """The only iteration of a loop; it stays a loop where it has hints."""
        if repeat is None or not repeat.loop.hints:
            return body
        loop = repeat.loop
        taken = {v.name for v in names.values() if isinstance(v, Var)}
        var = loop.name
        while var in taken:
            var += "_"
        hints = self._hints(loop, node, names)
        made = ir.For(loop.name, var, const(0), const(1), body, notes=loop.notes, hints=hints)
        return ir.Block((made,))

    def _hints(
        self, loop: Loop, node: isl.AstNode, names: Mapping[str, Expr]
    ) -> tuple[ir.Prefetch, ...]:
        """A loop's hints where the coordinates have the values that some statement below has."""
        if not loop.hints:
            return ()
        call = _first_call(node)
        at: dict[str, Expr] = {}
        for k in range(call.get_op_n_arg() - 1):
            try:
                at[f"c{k}"] = from_ast(call.get_op_arg(k + 1), names)
            except KeyError:
                break  # the coordinate of a loop further in

        def here(expr: Expr) -> Expr:
            return simplify(substitute(expr, at))

        return tuple(
            replace(h, lo=tuple(map(here, h.lo)), extents=tuple(map(here, h.extents)))
            for h in loop.hints
        )

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
        always = None if leaf.always is None else here(leaf.always)
        plain = None if leaf.plain is None else here(leaf.plain)
        return ir.Instance(leaf.statement, index, dims, guard, always, plain)


def _first_call(node: isl.AstNode) -> isl.AstExpr:
    """The first statement below a node."""
    kind: Any = node.get_type()
    if kind == isl.ast_node_type.user:
        return node.user_get_expr()
    if kind == isl.ast_node_type.mark:
        return _first_call(node.mark_get_node())
    if kind == isl.ast_node_type.block:
        return _first_call(node.block_get_children().get_at(0))
    return _first_call(node.if_get_then_node() if kind == _IF else node.for_get_body())


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
    """1 goes inside a min, max or division, where it often cancels."""
    match bound:
        case Op("min" | "max" as op, (a, b)):
            return simplify(Op(op, (_plus_one(a), _plus_one(b)), INDEX))
        case Op("floordiv", (a, Const(value=int(divisor)) as b)):
            # The number of blocks: (N - 1) // f + 1 is (N + f - 1) // f.
            return simplify(Op("floordiv", (add(a, const(divisor)), b), INDEX))
        case _:
            return add(bound, const(1))
