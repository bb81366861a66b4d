"""Index arithmetic: sums of products in a normal form, so that equal offsets look equal.

A polynomial maps monomials (sorted tuples of atoms: variables, sizes, opaque expressions) to
integer coefficients. `simplify` returns an expression whose sums are in that form.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, reduce
from math import gcd

from tdsl.ir.kernel import INDEX, Const, Expr, Op, Select, Size, Var, children, rebuilt, walk
from tdsl.ir.types import BOOL

Monomial = tuple[Expr, ...]
Poly = Mapping[Monomial, int]

NONE: frozenset[str] = frozenset()
ZERO = Const(0, INDEX)
ONE = Const(1, INDEX)


def const(value: int) -> Const:
    return Const(value, INDEX)


def add(*terms: Expr) -> Expr:
    return simplify(_fold("add", terms))


def sub(left: Expr, right: Expr) -> Expr:
    return simplify(Op("sub", (left, right), INDEX))


def mul(*factors: Expr) -> Expr:
    return simplify(_fold("mul", factors))


def scale(factor: int, expr: Expr) -> Expr:
    return mul(const(factor), expr)


def minimum(*args: Expr) -> Expr:
    return simplify(_fold("min", args))


def maximum(*args: Expr) -> Expr:
    return simplify(_fold("max", args))


def compare(op: str, left: Expr, right: Expr) -> Expr:
    return simplify(Op(op, (left, right), BOOL))


def conjunction(conditions: tuple[Expr, ...]) -> Expr | None:
    """All of them, or None where there is nothing to test."""
    wanted = [c for c in dict.fromkeys(conditions) if c != Const(True, BOOL)]
    if not wanted:
        return None
    result = wanted[0]
    for condition in wanted[1:]:
        result = Op("and", (result, condition), BOOL)
    return result


def conjuncts(condition: Expr) -> tuple[Expr, ...]:
    """`a, b, c` of `a and b and c`: the conditions that a conjunction joins."""
    if isinstance(condition, Op) and condition.op == "and":
        return tuple(part for arg in condition.args for part in conjuncts(arg))
    return (condition,)


def _fold(op: str, args: tuple[Expr, ...]) -> Expr:
    if not args:
        return ZERO if op == "add" else ONE
    result = args[0]
    for arg in args[1:]:
        result = Op(op, (result, arg), INDEX)
    return result


@lru_cache(maxsize=1 << 16)
def poly(expr: Expr) -> Poly:
    """The normal form of an INDEX expression."""
    match expr:
        case Const(value=int(value)):
            return {(): value} if value else {}
        case Op("add", args):
            return reduce(lambda left, right: _sum(left, right, 1), map(poly, args))
        case Op("sub", (a, b)):
            return _sum(poly(a), poly(b), -1)
        case Op("neg", (a,)):
            return _sum({}, poly(a), -1)
        case Op("mul", args):
            return reduce(_product, map(poly, args))
        case Var() | Size():
            return {(expr,): 1}
        case _:
            atom = simplify(expr)
            return {(atom,): 1} if _is_atom(atom) else poly(atom)


def _is_atom(expr: Expr) -> bool:
    """Whether an expression in normal form is no number, sum or product."""
    return not isinstance(expr, Const) and not (
        isinstance(expr, Op) and expr.op in ("add", "sub", "neg", "mul")
    )


def _sum(a: Poly, b: Poly, sign: int) -> dict[Monomial, int]:
    result = dict(a)
    for monomial, coefficient in b.items():
        total = result.get(monomial, 0) + sign * coefficient
        if total:
            result[monomial] = total
        else:
            result.pop(monomial, None)
    return result


def _product(a: Poly, b: Poly) -> dict[Monomial, int]:
    result: dict[Monomial, int] = {}
    for left, p in a.items():
        for right, q in b.items():
            monomial = tuple(sorted(left + right, key=_order))
            result = _sum(result, {monomial: p * q}, 1)
    return result


def _order(atom: Expr) -> tuple[int, str]:
    match atom:
        case Var(name):
            return (0, name)
        case Size(name):
            return (1, name)
        case _:
            return (2, repr(atom))


def from_poly(terms: Poly) -> Expr:
    """An expression: positive terms first, the constant last."""
    parts = sorted(terms.items(), key=lambda t: (t[0] == (), t[1] < 0, len(t[0]) == 0))
    result: Expr | None = None
    for monomial, coefficient in parts:
        size = abs(coefficient)
        term: Expr | None = None if size == 1 and monomial else const(size)
        for atom in monomial:
            term = atom if term is None else Op("mul", (term, atom), INDEX)
        assert term is not None
        if result is None:
            result = term if coefficient > 0 else _negative(term)
        else:
            result = Op("add" if coefficient > 0 else "sub", (result, term), INDEX)
    return ZERO if result is None else result


def _negative(term: Expr) -> Expr:
    if isinstance(term, Const):
        return const(-int(term.value))
    return Op("neg", (term,), INDEX)


@lru_cache(maxsize=1 << 16)
def simplify(expr: Expr) -> Expr:
    """Sums and products in normal form, constants folded, trivial min, max, //, % removed."""
    match expr:
        case Op("add" | "sub" | "mul" | "neg") if expr.type == INDEX:
            return from_poly(poly(expr))
        case Op(op, args) if expr.type == INDEX:
            return _simplify_op(op, tuple(simplify(a) for a in args))
        case Op("and" | "or" | "not", args):
            return _simplify_logic(expr.op, tuple(simplify(a) for a in args))
        case Op(op, (a, b)) if a.type == INDEX and expr.type == BOOL:
            return _simplify_comparison(op, simplify(a), simplify(b))
        case Select(condition, then, other) if expr.type == INDEX:
            condition, then, other = simplify(condition), simplify(then), simplify(other)
            if isinstance(condition, Const):
                return then if condition.value else other
            return Select(condition, then, other, INDEX)
        case _:
            return expr


def _simplify_op(op: str, args: tuple[Expr, ...]) -> Expr:
    values = [int(a.value) for a in args if isinstance(a, Const)]
    if op in ("min", "max"):
        return _simplify_extremum(op, args)
    if op in ("floordiv", "mod") and isinstance(args[1], Const):
        return _simplify_division(op, args[0], int(args[1].value))
    if op == "abs" and len(values) == 1:
        return const(abs(values[0]))
    return Op(op, args, INDEX)


def _simplify_extremum(op: str, args: tuple[Expr, ...]) -> Expr:
    flat: list[Expr] = []
    for arg in args:
        flat += arg.args if isinstance(arg, Op) and arg.op == op else (arg,)
    kept: list[Expr] = []
    for arg in dict.fromkeys(flat):
        # Two arguments that differ by a constant: only one can win.
        for position, other in enumerate(kept):
            gap = constant_difference(arg, other)
            if gap is not None:
                if (gap < 0) == (op == "min"):
                    kept[position] = arg
                break
        else:
            kept.append(arg)
    result = kept[0]
    for arg in kept[1:]:
        result = Op(op, (result, arg), INDEX)
    return result


def _simplify_division(op: str, left: Expr, right: int) -> Expr:
    if right == 0:
        return ZERO
    if right == 1:
        return left if op == "floordiv" else ZERO
    if isinstance(left, Const):
        return const(int(left.value) // right if op == "floordiv" else int(left.value) % right)
    terms = poly(left)
    whole = {m: c // right for m, c in terms.items() if c % right == 0}
    rest = {m: c for m, c in terms.items() if c % right}
    if op == "mod":
        return Op("mod", (from_poly(rest), const(right)), INDEX) if rest else ZERO
    if not rest:
        return from_poly(whole)
    divided = Op("floordiv", (from_poly(rest), const(right)), INDEX)
    return from_poly(_sum(whole, {(divided,): 1}, 1)) if whole else divided


def _simplify_logic(op: str, args: tuple[Expr, ...]) -> Expr:
    if op == "not":
        (arg,) = args
        return Const(not arg.value, BOOL) if isinstance(arg, Const) else Op("not", args, BOOL)
    absorbing = op == "or"
    kept: list[Expr] = []
    for arg in dict.fromkeys(args):
        if not isinstance(arg, Const):
            kept.append(arg)
        elif bool(arg.value) == absorbing:
            return arg
    if not kept:
        return Const(not absorbing, BOOL)
    return reduce(lambda left, right: Op(op, (left, right), BOOL), kept)


def _simplify_comparison(op: str, left: Expr, right: Expr) -> Expr:
    gap = constant_difference(left, right)
    if gap is not None:
        truth = {
            "eq": gap == 0, "ne": gap != 0, "lt": gap < 0,
            "le": gap <= 0, "gt": gap > 0, "ge": gap >= 0,
        }  # fmt: skip
        return Const(truth[op], BOOL)
    return Op(op, (left, right), BOOL)


def difference(left: Expr, right: Expr) -> Poly:
    """left - right in normal form."""
    return _sum(poly(left), poly(right), -1)


def constant_difference(left: Expr, right: Expr) -> int | None:
    """left - right where that is a constant."""
    terms = difference(left, right)
    if not terms:
        return 0
    return terms[()] if set(terms) == {()} else None


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Variables replaced by expressions (everywhere, also inside subscripts of reads)."""
    if isinstance(expr, Var):
        return values.get(expr.name, expr)
    if variables(expr).isdisjoint(values):
        return expr
    return rebuilt(expr, lambda e: substitute(e, values))


@lru_cache(maxsize=1 << 16)
def variables(expr: Expr) -> frozenset[str]:
    """Names of the variables in an expression."""
    if isinstance(expr, Var):
        return frozenset((expr.name,))
    parts = [found for found in map(variables, children(expr)) if found]
    return parts[0].union(*parts[1:]) if parts else NONE


@lru_cache(maxsize=1 << 14)
def whole_blocks(expr: Expr, name: str, count: int) -> Expr:
    """Floor divisions and remainders of a variable in 0..count that stays in one block.

    (16 * j + lane) // 16 is j for lane in 0..16, and the remainder is lane; (8 * j + lane) // 256
    is 8 * j // 256 for lane in 0..8.
    """
    match expr:
        case Op("floordiv" | "mod" as op, (left, Const(value=int(right)))) if right > 0:
            left = whole_blocks(left, name, count)
            rest = {m: c for m, c in poly(left).items() if c % right}
            stride = rest.pop((Var(name),), 0)
            start = rest.pop((), 0)
            # Without these the dividend is a multiple of the grain, and so is the divisor.
            grain = gcd(right, *rest.values())
            if any(name in variables(a) for m in rest for a in m if not isinstance(a, Size)):
                return simplify(Op(op, (left, const(right)), INDEX))
            block = (start + min(0, stride * (count - 1))) // grain
            if (start + max(0, stride * (count - 1))) // grain != block:
                return simplify(Op(op, (left, const(right)), INDEX))
            inside = from_poly({m: c for m, c in {(): start, (Var(name),): stride}.items() if c})
            number = floor_of(add(sub(left, inside), const(grain * block)), right)
            return number if op == "floordiv" else sub(left, scale(right, number))
        case Op(op, args):
            return simplify(Op(op, tuple(whole_blocks(a, name, count) for a in args), expr.type))
        case _:
            return expr


@lru_cache(maxsize=1 << 14)
def in_block(expr: Expr, name: str, lo: Expr, count: int) -> Expr:
    """Floor divisions and remainders of a variable in lo..lo + count that stays in one block.

    i // 8 is j for i in 8 * j..8 * j + 8, and i % 8 is i - 8 * j.
    """
    if not isinstance(expr, Op) or name not in variables(expr):
        return expr
    if expr.op in ("floordiv", "mod") and expr.type == INDEX:
        step = "step in the block"  # no variable is called so
        there = simplify(substitute(expr, {name: add(lo, Var(step))}))
        known = whole_blocks(there, step, count)
        divided = (e for e in walk(known) if isinstance(e, Op) and e.op in ("floordiv", "mod"))
        if not any(step in variables(e) for e in divided):
            return simplify(substitute(known, {step: sub(Var(name), lo)}))
    args = tuple(in_block(a, name, lo, count) for a in expr.args)
    return expr if args == expr.args else simplify(Op(expr.op, args, expr.type))


def floor_of(expr: Expr, divisor: int) -> Expr:
    return simplify(Op("floordiv", (expr, const(divisor)), INDEX))


@lru_cache(maxsize=1 << 14)
def linear_in(expr: Expr, name: str) -> tuple[Expr, Expr] | None:
    """(base, stride) with expr == base + stride * name and neither naming it, else None."""
    base: dict[Monomial, int] = {}
    stride: dict[Monomial, int] = {}
    for monomial, coefficient in poly(expr).items():
        hits = [a for a in monomial if not isinstance(a, Size) and name in variables(a)]
        if not hits:
            base[monomial] = coefficient
        elif hits == [Var(name)]:
            rest = list(monomial)
            rest.remove(Var(name))
            stride[tuple(rest)] = stride.get(tuple(rest), 0) + coefficient
        else:
            return None
    return from_poly(base), from_poly(stride)
