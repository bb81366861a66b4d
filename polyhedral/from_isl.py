"""isl functions, constraints and AST expressions as index expressions of the kernel level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import islpy as isl

from tdsl.ir.index import add, const, maximum, minimum, scale, simplify
from tdsl.ir.kernel import INDEX, Const, Expr, Op, Select
from tdsl.ir.types import BOOL
from tdsl.polyhedral.pieces import coalesced

_BINARY = {
    isl.ast_expr_op_type.add: "add",
    isl.ast_expr_op_type.sub: "sub",
    isl.ast_expr_op_type.mul: "mul",
    isl.ast_expr_op_type.div: "floordiv",  # exact by contract
    isl.ast_expr_op_type.fdiv_q: "floordiv",
    isl.ast_expr_op_type.pdiv_q: "floordiv",  # both sides non-negative by contract
    isl.ast_expr_op_type.pdiv_r: "mod",
    isl.ast_expr_op_type.zdiv_r: "mod",  # only compared with zero
}
_COMPARE = {
    isl.ast_expr_op_type.eq: "eq",
    isl.ast_expr_op_type.le: "le",
    isl.ast_expr_op_type.lt: "lt",
    isl.ast_expr_op_type.ge: "ge",
    isl.ast_expr_op_type.gt: "gt",
}
_LOGIC = {
    isl.ast_expr_op_type["and_"]: "and",
    isl.ast_expr_op_type.and_then: "and",
    isl.ast_expr_op_type["or_"]: "or",
    isl.ast_expr_op_type.or_else: "or",
}


def from_ast(expr: isl.AstExpr, names: Mapping[str, Expr]) -> Expr:
    """An expression of isl's AST; `names` gives a meaning to its identifiers."""
    return simplify(_from_ast(expr, names))


def condition_from_ast(expr: isl.AstExpr, names: Mapping[str, Expr]) -> Expr:
    """A condition of isl's AST."""
    return simplify(_truth(_from_ast(expr, names)))


def _truth(value: Expr) -> Expr:
    """What isl knows to hold always or never it writes as a number."""
    if isinstance(value, Const) and value.type != BOOL:
        return Const(bool(value.value), BOOL)
    return value


def _from_ast(expr: isl.AstExpr, names: Mapping[str, Expr]) -> Expr:
    kind: Any = expr.get_type()
    if kind == isl.ast_expr_type.id:
        return names[expr.get_id().get_name()]
    if kind == isl.ast_expr_type.int:
        return const(expr.get_val().to_python())
    op: Any = expr.get_op_type()  # islpy's stubs say int
    args = [_from_ast(expr.get_op_arg(k), names) for k in range(expr.get_op_n_arg())]
    if op == isl.ast_expr_op_type.min:
        return minimum(*args)
    if op == isl.ast_expr_op_type.max:
        return maximum(*args)
    if op == isl.ast_expr_op_type.minus:
        return Op("neg", (args[0],), INDEX)
    if op in (isl.ast_expr_op_type.cond, isl.ast_expr_op_type.select):
        return Select(_truth(args[0]), args[1], args[2], INDEX)
    if op in _COMPARE:
        return Op(_COMPARE[op], tuple(args), BOOL)
    if op in _LOGIC:
        result = _truth(args[0])
        for arg in args[1:]:
            result = Op(_LOGIC[op], (result, _truth(arg)), BOOL)
        return result
    return Op(_BINARY[op], tuple(args), INDEX)


def from_aff(aff: isl.Aff, dims: Sequence[Expr], params: Sequence[Expr]) -> Expr:
    """A quasi-affine function, with expressions for its dimensions and parameters.

    A function with a denominator is taken as exact or as floored: floor division either way.
    """
    denominator = int(aff.get_denominator_val().to_python())
    whole = aff.scale_val(isl.Val(denominator))
    terms: list[Expr] = [const(int(whole.get_constant_val().to_python()))]
    for kind, exprs in ((isl.dim_type.in_, dims), (isl.dim_type.param, params)):
        for position, expr in enumerate(exprs):
            factor = int(whole.get_coefficient_val(kind, position).to_python())
            if factor:
                terms.append(scale(factor, expr))
    for position in range(aff.dim(isl.dim_type.div)):
        factor = int(whole.get_coefficient_val(isl.dim_type.div, position).to_python())
        if factor:
            inner = from_aff(whole.get_div(position), dims, params)
            terms.append(scale(factor, inner))
    numerator = add(*terms)
    if denominator == 1:
        return numerator
    return simplify(Op("floordiv", (numerator, const(denominator)), INDEX))


def from_pw_aff(value: isl.PwAff, dims: Sequence[Expr], params: Sequence[Expr]) -> Expr:
    """A piecewise function; pieces after the first are chosen by their conditions.

    Dimensions with one coefficient in all pieces stand outside the choice: `start(o) + lane`.
    """
    pieces = coalesced(value).get_pieces()
    if not pieces:
        return const(0)  # of an empty domain: nobody asks for a value
    shared: list[Expr] = []
    if len(pieces) > 1:
        for position, dim in enumerate(dims):
            factors = {int(f) for f in (_integer_factor(a, position) for _, a in pieces) if f}
            if len(factors) == 1 and all(_integer_factor(a, position) for _, a in pieces):
                (factor,) = factors
                shared.append(scale(factor, dim))
                pieces = [(d, _without(a, position)) for d, a in pieces]
    result = from_aff(pieces[-1][1], dims, params)
    for domain, aff in reversed(pieces[:-1]):
        condition = from_set(domain, dims, params)
        result = simplify(Select(condition, from_aff(aff, dims, params), result, INDEX))
    return add(result, *shared)


def _integer_factor(aff: isl.Aff, position: int) -> int | None:
    """The coefficient of a dimension, where that is an integer."""
    factor = aff.get_coefficient_val(isl.dim_type.in_, position)
    return int(factor.to_python()) if factor.is_int() else None


def _without(aff: isl.Aff, position: int) -> isl.Aff:
    return aff.set_coefficient_val(isl.dim_type.in_, position, isl.Val(0))


def from_set(points: isl.Set, dims: Sequence[Expr], params: Sequence[Expr]) -> Expr:
    """Membership in a set without existentials beyond divisions, as a condition."""
    alternatives: Expr | None = None
    for basic in coalesced(points.compute_divs()).get_basic_sets():
        conjunction: Expr = Const(True, BOOL)
        for constraint in basic.get_constraints():
            part = from_constraint(constraint, dims, params)
            conjunction = simplify(Op("and", (conjunction, part), BOOL))
        if alternatives is None:
            alternatives = conjunction
        else:
            alternatives = simplify(Op("or", (alternatives, conjunction), BOOL))
    return Const(False, BOOL) if alternatives is None else alternatives


def from_constraint(
    constraint: isl.Constraint, dims: Sequence[Expr], params: Sequence[Expr]
) -> Expr:
    """`value >= 0` or `value == 0`, with negative terms moved to the other side."""
    value = from_aff(constraint.get_aff(), dims, params)
    op = "eq" if constraint.is_equality() else "ge"
    left, right = _sides(value)
    return simplify(Op(op, (left, right), BOOL))


def _sides(value: Expr) -> tuple[Expr, Expr]:
    """(a, b) with value == a - b and few minus signs."""
    match value:
        case Op("sub", (a, b)):
            left, right = _sides(a)
            return left, add(right, b)
        case Op("add", (a, b)) if not isinstance(b, Const):
            left, right = _sides(a)
            return add(left, b), right
        case Op("neg", (a,)):
            return const(0), a
        case _:
            return value, const(0)
