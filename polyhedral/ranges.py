"""Provable ranges of values that decide an index: `table[u8(x[i])]`, `h[clamp(e, lo, hi)]`.

A range is a pair of affine functions of the instance, both inclusive; None where nothing useful
is known on that side. Element arithmetic wraps, so a range that may leave its type is the
type's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import islpy as isl

from tdsl.ir.kernel import INDEX, Array, Cast, Const, Expr, Op, Read, Select
from tdsl.ir.types import BOOL, ElemType
from tdsl.polyhedral.affine import NotAffine, Scope, constant_value, floordiv, pw_aff

Bound = isl.PwAff | None


@dataclass(frozen=True)
class Range:
    """lo <= value <= hi."""

    lo: Bound
    hi: Bound

    @property
    def known(self) -> bool:
        return self.lo is not None and self.hi is not None

    def of_sizes(self, domain: isl.Set) -> Range:
        """The least and the greatest value over a domain, as functions of sizes alone."""
        lo = None if self.lo is None else _values(self.lo, domain).dim_min(0)
        hi = None if self.hi is None else _values(self.hi, domain).dim_max(0)
        return Range(lo, hi)

    def joined(self, other: Range) -> Range:
        """What holds of a value that is of one or the other; both are functions of sizes."""
        lo = None if self.lo is None or other.lo is None else self.lo.union_min(other.lo)
        hi = None if self.hi is None or other.hi is None else self.hi.union_max(other.hi)
        return Range(lo, hi)

    def over(self, where: Scope) -> Range:
        """Functions of sizes as functions of the points of a scope."""
        space = where.space
        lo = None if self.lo is None else self.lo.insert_domain(space)
        hi = None if self.hi is None else self.hi.insert_domain(space)
        return Range(lo, hi)


def _values(bound: isl.PwAff, domain: isl.Set) -> isl.Set:
    return isl.Map.from_pw_aff(bound.intersect_domain(domain)).range()


UNKNOWN = Range(None, None)
_USEFUL_BITS = 16  # the range of a wider type bounds no array that fits in memory


def value_range(
    expr: Expr,
    where: Scope,
    domain: isl.Set,
    arrays: Mapping[str, Array],
    held: Mapping[str, Range],
) -> Range:
    """The range of an integer expression at the instances in `domain`. `held`: what is known of
    the values that temps hold, as functions of sizes alone."""
    try:
        exact = pw_aff(expr, where)
        return Range(exact, exact)
    except NotAffine:
        pass

    def below(e: Expr) -> Range:
        return value_range(e, where, domain, arrays, held)

    match expr:
        case Const(value, type) if not type.is_float:
            point = where.constant(int(value))
            found = Range(point, point)
        case Read(name) if (promised := _promised(arrays[name], where)) is not None:
            return promised  # values that the type holds: they do not wrap
        case Read(name) if name in held:
            return held[name].over(where)
        case Cast("convert", arg, _) if not arg.type.is_float:
            found = below(arg)
        case Cast("saturate", arg, type) if not arg.type.is_float:
            return _saturated(below(arg), type, where)
        case Select(_, then, other):
            a, b = below(then), below(other)
            found = Range(_least(a.lo, b.lo), _greatest(a.hi, b.hi))
        case Op("min" | "max" as op, args, type) if not type.is_float:
            # One of values that the type holds: one side may be known alone.
            return _operation(op, args, [below(a) for a in args], where, domain)
        case Op(op, args, _):
            found = _operation(op, args, [below(a) for a in args], where, domain)
        case _:
            found = UNKNOWN
    return _within_type(found, expr.type, where, domain)


def _promised(array: Array, where: Scope) -> Range | None:
    """The range of an array's values by its declaration, or by a table's values."""
    if array.range is not None:
        lo, hi = array.range
        return Range(pw_aff(lo, where), pw_aff(hi, where).add_constant_val(isl.Val(-1)))
    if array.values and not array.type.is_float:
        values = [int(v) for v in array.values]
        return Range(where.constant(min(values)), where.constant(max(values)))
    return None


def _operation(
    op: str, args: tuple[Expr, ...], ranges: list[Range], where: Scope, domain: isl.Set
) -> Range:
    a = ranges[0]
    b = ranges[1] if len(ranges) > 1 else UNKNOWN
    match op:
        case "min":  # one known upper bound is enough; the lower one needs all
            return Range(_least(*(r.lo for r in ranges)), _any_least(*(r.hi for r in ranges)))
        case "max":
            return Range(_any_greatest(*(r.lo for r in ranges)), _greatest(*(r.hi for r in ranges)))
        case "add":
            return Range(_sum(a.lo, b.lo), _sum(a.hi, b.hi))
        case "sub":
            return Range(_sum(a.lo, _neg(b.hi)), _sum(a.hi, _neg(b.lo)))
        case "neg":
            return Range(_neg(a.hi), _neg(a.lo))
        case "mul" if (factor := _constant(b)) is not None:
            return _scaled(a, factor)
        case "mul" if (factor := _constant(a)) is not None:
            return _scaled(b, factor)
        case "floordiv" if (divisor := _constant(b)) is not None and divisor > 0:
            return Range(_floor(a.lo, divisor), _floor(a.hi, divisor))
        case "mod" if (
            b.lo is not None
            and b.hi is not None
            and domain.is_subset(b.lo.ge_set(where.constant(0)))
        ):  # below a positive divisor; x % 0 is 0
            zero = where.constant(0)
            return Range(zero, b.hi.add_constant_val(isl.Val(-1)).max(zero))
        case "band":
            masks = [m for r in ranges if (m := _constant(r)) is not None and m >= 0]
            return Range(where.constant(0), where.constant(min(masks))) if masks else UNKNOWN
        case "shr" if (bits := _constant(b)) is not None and 0 <= bits < args[0].type.bits:
            return Range(_floor(a.lo, 2**bits), _floor(a.hi, 2**bits))
        case _:
            return UNKNOWN


def _saturated(found: Range, type: ElemType, where: Scope) -> Range:
    lo, hi = (where.constant(v) for v in type_limits(type))
    return Range(
        lo if found.lo is None else found.lo.max(lo).min(hi),
        hi if found.hi is None else found.hi.min(hi).max(lo),
    )


def _within_type(found: Range, type: ElemType, where: Scope, domain: isl.Set) -> Range:
    if type == INDEX:
        return found
    if type.is_float:
        return UNKNOWN
    least, greatest = (where.constant(v) for v in type_limits(type))
    if (
        found.lo is not None
        and found.hi is not None
        and domain.is_subset(found.lo.ge_set(least))
        and domain.is_subset(found.hi.le_set(greatest))
    ):
        return found
    return Range(least, greatest) if type.bits <= _USEFUL_BITS else UNKNOWN


def type_limits(type: ElemType) -> tuple[int, int]:
    """The least and greatest value of an integer or bool type."""
    if type == BOOL:
        return 0, 1
    if type.kind == "uint":
        return 0, 2**type.bits - 1
    return -(2 ** (type.bits - 1)), 2 ** (type.bits - 1) - 1


def _constant(found: Range) -> int | None:
    if found.lo is None or found.hi is None:
        return None
    value = constant_value(found.lo)
    return value if value == constant_value(found.hi) else None


def _scaled(found: Range, factor: int) -> Range:
    lo, hi = (None if v is None else v.scale_val(isl.Val(factor)) for v in (found.lo, found.hi))
    return Range(lo, hi) if factor >= 0 else Range(hi, lo)


def _least(*bounds: Bound) -> Bound:
    known = [b for b in bounds if b is not None]
    if len(known) < len(bounds):
        return None
    result = known[0]
    for bound in known[1:]:
        result = result.min(bound)
    return result


def _greatest(*bounds: Bound) -> Bound:
    return _neg(_least(*(_neg(b) for b in bounds)))


def _any_least(*bounds: Bound) -> Bound:
    known = [b for b in bounds if b is not None]
    return _least(*known) if known else None


def _any_greatest(*bounds: Bound) -> Bound:
    return _neg(_any_least(*(_neg(b) for b in bounds)))


def _sum(a: Bound, b: Bound) -> Bound:
    return None if a is None or b is None else a.add(b)


def _neg(a: Bound) -> Bound:
    return None if a is None else a.neg()


def _floor(a: Bound, divisor: int) -> Bound:
    return None if a is None else floordiv(a, divisor)
