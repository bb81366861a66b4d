"""Index arithmetic in one simple form: a sum of integer multiples of atoms, plus a constant.

An atom is an index, a size, or what is not linear (`//`, `%`, `min`, `max`, data). Equal sums
of equal atoms have equal forms, so that `q * 1 + (r - 0)` and `r + q` compare and print well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tdsl.ir.kernel import INDEX, Cast, Const, Expr, Op, Read, Select, Var, rebuilt, walk


@dataclass(frozen=True)
class Linear:
    """`sum(coefficient * atom) + constant`; no coefficient is 0. Atoms in order of appearance."""

    terms: Mapping[Expr, int]
    constant: int

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """self + factor * other."""
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            terms[atom] = terms.get(atom, 0) + factor * coefficient
        kept = {a: c for a, c in terms.items() if c}
        return Linear(kept, self.constant + factor * other.constant)

    def times(self, factor: int) -> Linear:
        return Linear({}, 0).plus(self, factor)

    @property
    def is_constant(self) -> bool:
        return not self.terms


def number(value: int) -> Const:
    """An index constant."""
    return Const(value, INDEX)


def linear(expr: Expr) -> Linear:
    """The linear form of an expression of type INDEX."""
    match expr:
        case Const(value):
            return Linear({}, int(value))
        case Op("add", (a, b)):
            return linear(a).plus(linear(b))
        case Op("sub", (a, b)):
            return linear(a).plus(linear(b), -1)
        case Op("neg", (a,)):
            return linear(a).times(-1)
        case Op("mul", (a, b)):
            return _product(linear(a), linear(b))
        case Op("floordiv", (a, b)):
            return _quotient(linear(a), linear(b))
        case Op("mod", (a, b)):
            return _remainder(linear(a), linear(b))
        case Op(("min" | "max") as op, args):
            return _choice(op, [linear(a) for a in args])
        case Op("abs", (a,)):
            form = linear(a)
            return _choice("max", [form, form.times(-1)])
        case Select(condition, then, other):
            return _atom(Select(condition, simplify(then), simplify(other), INDEX, span=expr.span))
        case Cast(mode, Read() as read, type_):
            return _atom(Cast(mode, read, type_, span=expr.span))
        case _:
            return _atom(expr)


def simplify(expr: Expr) -> Expr:
    """The expression in its simple form, with constants folded."""
    return expression(linear(expr))


def expression(form: Linear) -> Expr:
    """An expression that reads well: positive terms first where the first one is negative."""
    items = list(form.terms.items())
    lead = next((n for n, (_, c) in enumerate(items) if c > 0), None)
    if lead is not None:
        items.insert(0, items.pop(lead))
    out: Expr | None = None
    constant = form.constant
    if lead is None and constant > 0 and items:
        out, constant = number(constant), 0
    for atom, coefficient in items:
        size = abs(coefficient)
        term = atom if size == 1 else Op("mul", (number(size), atom), INDEX)
        if out is None:
            out = term if coefficient > 0 else Op("neg", (term,), INDEX)
        else:
            out = Op("add" if coefficient > 0 else "sub", (out, term), INDEX)
    if out is None:
        return number(constant)
    if constant:
        out = Op("add" if constant > 0 else "sub", (out, number(abs(constant))), INDEX)
    return out


def variables(expr: Expr) -> set[str]:
    """Names of the indices in an expression."""
    return {e.name for e in walk(expr) if isinstance(e, Var)}


def substitute(expr: Expr, values: Mapping[Expr, Expr]) -> Expr:
    """The expression with variables or sizes replaced; index arithmetic is not simplified."""
    if expr in values:
        return values[expr]
    return rebuilt(expr, lambda e: substitute(e, values))


def non_affine(expr: Expr) -> Expr | None:
    """The first part that is not quasi-affine in indices and sizes: a product of two unknowns,
    or a division by one. Data inside (casts of reads) are left to whoever proves accesses."""
    for e in walk(expr):
        match e:
            case Op("mul", (a, b), type_) if type_ == INDEX:
                if not isinstance(a, Const) and not isinstance(b, Const):
                    return e
            case Op("floordiv" | "mod", (_, b), type_) if type_ == INDEX:
                if not isinstance(b, Const):
                    return e
    return None


def _atom(expr: Expr) -> Linear:
    return Linear({expr: 1}, 0)


def _product(a: Linear, b: Linear) -> Linear:
    if b.is_constant:
        return a.times(b.constant)
    if a.is_constant:
        return b.times(a.constant)
    return _atom(Op("mul", (expression(a), expression(b)), INDEX))


def _quotient(a: Linear, b: Linear) -> Linear:
    """Multiples of the divisor leave: (4i + j + 9) // 4 is i + (j + 1) // 4 + 2."""
    if not b.is_constant:
        return _atom(Op("floordiv", (expression(a), expression(b)), INDEX))
    divisor = b.constant
    if divisor == 0:
        return Linear({}, 0)
    if divisor < 0:
        a, divisor = a.times(-1), -divisor
    whole = Linear(
        {t: c // divisor for t, c in a.terms.items() if c % divisor == 0}, a.constant // divisor
    )
    rest = Linear({t: c for t, c in a.terms.items() if c % divisor}, a.constant % divisor)
    if rest.is_constant:
        return whole
    return whole.plus(_atom(Op("floordiv", (expression(rest), number(divisor)), INDEX)))


def _remainder(a: Linear, b: Linear) -> Linear:
    if not b.is_constant:
        return _atom(Op("mod", (expression(a), expression(b)), INDEX))
    divisor = b.constant
    if divisor == 0:
        return Linear({}, 0)
    if divisor < 0:
        return _remainder(a.times(-1), Linear({}, -divisor)).times(-1)
    rest = Linear({t: c for t, c in a.terms.items() if c % divisor}, a.constant % divisor)
    if rest.is_constant:
        return rest
    return _atom(Op("mod", (expression(rest), number(divisor)), INDEX))


def _choice(op: str, forms: list[Linear]) -> Linear:
    """min or max; arguments that differ by a constant are decided."""
    kept: list[Linear] = []
    for form in forms:
        for n, other in enumerate(kept):
            difference = form.plus(other, -1)
            if difference.is_constant:
                smaller = difference.constant < 0
                kept[n] = form if smaller == (op == "min") else other
                break
        else:
            kept.append(form)
    out = kept[0]
    for form in kept[1:]:
        out = _atom(Op(op, (expression(out), expression(form)), INDEX))
    return out
