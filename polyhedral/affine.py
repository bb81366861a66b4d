"""Index expressions and conditions of the kernel level as isl functions and sets.

Everything is built by isl constructors, never by text, so user names do not reach isl.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import islpy as isl

from tdsl.ir.kernel import INDEX, Cast, Const, Expr, Op, Select, Size, Var
from tdsl.ir.types import BOOL
from tdsl.polyhedral.pieces import coalesced

CTX = isl.DEFAULT_CONTEXT


class NotAffine(Exception):
    """The expression is not quasi-affine in indices and sizes. `expr` is the smallest such part."""

    def __init__(self, expr: Expr) -> None:
        super().__init__("not a quasi-affine expression")
        self.expr = expr


@dataclass(frozen=True)
class Scope:
    """The points over which expressions are functions.

    space: a set space with all parameters; indices: index name -> its dimension;
    params: size name -> isl parameter name, in the order of the space; loops: further names,
    each a function of the points.
    """

    space: isl.Space
    indices: Mapping[str, int]
    params: Mapping[str, str]
    loops: Mapping[str, isl.PwAff] = field(default_factory=dict)

    @property
    def universe(self) -> isl.Set:
        return isl.Set.universe(self.space)

    def constant(self, value: int) -> isl.PwAff:
        """The constant function."""
        wide = not -(2**63) <= value < 2**63  # islpy takes such numbers as text alone
        number = isl.Val(str(value)) if wide else isl.Val(value)
        return self._pw(isl.Aff.val_on_domain(self._local, number))

    def index(self, position: int) -> isl.PwAff:
        """The function that gives one dimension of a point."""
        return self._pw(isl.Aff.var_on_domain(self._local, isl.dim_type.set, position))

    def size(self, name: str) -> isl.PwAff:
        """The constant function of a parameter."""
        position = list(self.params).index(name)
        return self._pw(isl.Aff.var_on_domain(self._local, isl.dim_type.param, position))

    @property
    def _local(self) -> isl.LocalSpace:
        return isl.LocalSpace.from_space(self.space)

    @staticmethod
    def _pw(aff: isl.Aff) -> isl.PwAff:
        return isl.PwAff.from_aff(aff)


def set_space(params: Mapping[str, str], dims: int, tuple_name: str | None = None) -> isl.Space:
    """A set space with all sizes as parameters and unnamed dimensions."""
    space = isl.Space.set_alloc(CTX, len(params), dims)
    for position, name in enumerate(params.values()):
        space = space.set_dim_name(isl.dim_type.param, position, name)
    return space if tuple_name is None else space.set_tuple_name(isl.dim_type.set, tuple_name)


def scope(indices: Sequence[str], params: Mapping[str, str], tuple_name: str | None) -> Scope:
    """The scope of a statement with these indices; of sizes alone with none."""
    space = set_space(params, len(indices), tuple_name)
    return Scope(space, {name: d for d, name in enumerate(indices)}, params)


def pw_aff(expr: Expr, where: Scope) -> isl.PwAff:
    """An index expression as a piecewise quasi-affine function, else NotAffine."""
    match expr:
        case Const(value, type) if type.kind == "int" and isinstance(value, int):
            return where.constant(value)
        case Var(name) if name in where.loops:
            return where.loops[name]
        case Var(name) if name in where.indices:
            return where.index(where.indices[name])
        case Size(name) if name in where.params:
            return where.size(name)
        case Cast("convert", arg, type) if type == INDEX and arg.type == INDEX:
            return pw_aff(arg, where)
        case Select(condition, then, other, type) if type == INDEX:
            chosen = region(condition, where)
            if not chosen.exact:
                raise NotAffine(condition)
            return coalesced(
                pw_aff(then, where)
                .intersect_domain(chosen.may)
                .union_add(pw_aff(other, where).subtract_domain(chosen.may))
            )
        case Op(op, args, type) if type == INDEX:
            return _operation(expr, op, [pw_aff(a, where) for a in args], where)
    raise NotAffine(expr)


def _operation(expr: Expr, op: str, args: list[isl.PwAff], where: Scope) -> isl.PwAff:
    match op:
        case "add":
            return reduce(isl.PwAff.add, args)
        case "sub":
            return args[0].sub(args[1])
        case "neg":
            return args[0].neg()
        case "min":
            return reduce(isl.PwAff.min, args)
        case "max":
            return reduce(isl.PwAff.max, args)
        case "abs":
            return args[0].max(args[0].neg())
        case "mul":
            if (factor := constant_value(args[0])) is not None:
                return args[1].scale_val(isl.Val(factor))
            if (factor := constant_value(args[1])) is not None:
                return args[0].scale_val(isl.Val(factor))
        case "floordiv" | "mod":
            divisor = constant_value(args[1])
            if divisor is not None:
                return floordiv(args[0], divisor) if op == "floordiv" else mod(args[0], divisor)
    raise NotAffine(expr)


def constant_value(function: isl.PwAff) -> int | None:
    """The value of a function that is one constant everywhere."""
    if not function.is_cst() or function.n_piece() != 1:
        return None
    _, aff = function.get_pieces()[0]
    value: int = aff.get_constant_val().to_python()
    return value


def floordiv(function: isl.PwAff, divisor: int) -> isl.PwAff:
    """Floor division by a constant, as Python has it; by zero it is 0."""
    if divisor == 0:
        return function.scale_val(isl.Val(0))
    if divisor < 0:
        return floordiv(function.neg(), -divisor)
    return function.scale_down_val(isl.Val(divisor)).floor()


def mod(function: isl.PwAff, divisor: int) -> isl.PwAff:
    """Python's remainder by a constant; by zero it is 0."""
    if divisor == 0:
        return function.scale_val(isl.Val(0))
    return function.sub(floordiv(function, divisor).scale_val(isl.Val(divisor)))


# ---------------------------------------------------------------- conditions


@dataclass(frozen=True)
class Region:
    """Where a condition may hold, and where it must. Both are the same set when `exact`."""

    may: isl.Set
    must: isl.Set
    exact: bool

    def negated(self) -> Region:
        if self.exact:
            other = self.may.complement()
            return Region(other, other, True)
        return Region(self.must.complement(), self.may.complement(), False)


def region(expr: Expr, where: Scope) -> Region:
    """The points that satisfy a condition; parts that depend on data widen `may`."""
    match expr:
        case Const(value, type) if type == BOOL:
            everywhere = where.universe if value else isl.Set.empty(where.space)
            return Region(everywhere, everywhere, True)
        case Op("not", (arg,)):
            return region(arg, where).negated()
        case Op("and", args):
            return reduce(_both, (region(a, where) for a in args))
        case Op("or", args):
            return reduce(_either, (region(a, where) for a in args))
        case Op("eq" | "ne" | "lt" | "le" | "gt" | "ge" as op, (left, right)) if (
            left.type == INDEX and right.type == INDEX
        ):
            try:
                points = _COMPARE[op](pw_aff(left, where), pw_aff(right, where))
            except NotAffine:
                return _unknown(where)
            return Region(points, points, True)
    return _unknown(where)


_COMPARE = {
    "eq": isl.PwAff.eq_set,
    "ne": isl.PwAff.ne_set,
    "lt": isl.PwAff.lt_set,
    "le": isl.PwAff.le_set,
    "gt": isl.PwAff.gt_set,
    "ge": isl.PwAff.ge_set,
}


def _unknown(where: Scope) -> Region:
    return Region(where.universe, isl.Set.empty(where.space), False)


def _both(a: Region, b: Region) -> Region:
    may = a.may.intersect(b.may)
    exact = a.exact and b.exact
    return Region(may, may if exact else a.must.intersect(b.must), exact)


def _either(a: Region, b: Region) -> Region:
    may = coalesced(a.may.union(b.may))
    exact = a.exact and b.exact
    return Region(may, may if exact else a.must.union(b.must), exact)


def points(conditions: Sequence[Expr], where: Scope) -> isl.Set:
    """The points that satisfy all conditions; NotAffine where one of them depends on data."""
    result = where.universe
    for condition in conditions:
        part = region(condition, where)
        if not part.exact:
            raise NotAffine(condition)
        result = result.intersect(part.may)
    return coalesced(result)
