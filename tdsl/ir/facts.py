"""What follows from the assumptions by simple means, and bounds of index expressions.

This serves the inference of ranges and extents, where an answer must be an expression that
people read. It decides little: "not proved" is the normal answer, and every access is proved
again, exactly, by `tdsl.polyhedral`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tdsl.ir.affine import Linear, expression, linear, number, simplify, variables
from tdsl.ir.kernel import INDEX, Cast, Const, Expr, Op, Select, Size, Var

# Lower and upper candidates of an index: each one holds, so the best is their max or min.
Candidates = tuple[list[Expr], list[Expr]]
_LIMIT = 16  # candidates kept; more would only make longer expressions


class Facts:
    """Sizes are at least 0; each condition of `assumptions` (BOOL expressions) holds."""

    def __init__(self, assumptions: Iterable[Expr]) -> None:
        self._equal: dict[Expr, Linear] = {}  # size -> what it equals
        self._nonneg: list[Linear] = []
        self._low: dict[Expr, int] = {}
        self._high: dict[Expr, int] = {}
        for condition in assumptions:
            self._add(condition)

    def _add(self, condition: Expr) -> None:
        match condition:
            case Op("and", args):
                for arg in args:
                    self._add(arg)
            case Op("eq", (a, b)) if a.type == INDEX:
                self._equate(self._normal(linear(a).plus(linear(b), -1)))
            case Op(("le" | "lt" | "ge" | "gt") as op, (a, b)) if a.type == INDEX:
                form = linear(b).plus(linear(a), -1)
                form = form if op in ("le", "lt") else form.times(-1)
                self._at_least_zero(form.plus(Linear({}, 1), -1) if op in ("lt", "gt") else form)

    def _equate(self, form: Linear) -> None:
        for atom, coefficient in form.terms.items():
            if isinstance(atom, Size) and abs(coefficient) == 1:
                rest = form.plus(Linear({atom: coefficient}, 0), -1)
                self._equal[atom] = rest.times(-coefficient)
                return

    def _at_least_zero(self, form: Linear) -> None:
        self._nonneg.append(form)
        if len(form.terms) == 1:
            ((atom, coefficient),) = form.terms.items()
            if coefficient > 0:
                bound = -(form.constant // coefficient)
                self._low[atom] = max(self._low.get(atom, bound), bound)
            else:
                bound = form.constant // -coefficient
                self._high[atom] = min(self._high.get(atom, bound), bound)

    def _normal(self, form: Linear) -> Linear:
        for _ in range(len(self._equal) + 1):
            hit = next((a for a in form.terms if a in self._equal), None)
            if hit is None:
                break
            c = form.terms[hit]
            form = form.plus(Linear({hit: c}, 0), -1).plus(self._equal[hit], c)
        return form

    def equal(self, a: Expr, b: Expr) -> bool:
        """Whether two sizes are provably equal."""
        form = self._normal(linear(a).plus(linear(b), -1))
        return form.is_constant and form.constant == 0

    def less_equal(self, a: Expr, b: Expr) -> bool:
        """Whether a <= b provably."""
        form = self._normal(linear(b).plus(linear(a), -1))
        if self._least(form):
            return True
        return any(self._least(form.plus(self._normal(fact), -1)) for fact in self._nonneg)

    def _least(self, form: Linear) -> bool:
        total = form.constant
        for atom, coefficient in form.terms.items():
            low, high = self._interval(atom)
            end = low if coefficient > 0 else high
            if end is None:
                return False
            total += coefficient * end
        return total >= 0

    def _interval(self, atom: Expr) -> tuple[int | None, int | None]:
        low, high = self._low.get(atom), self._high.get(atom)
        match atom:
            case Size():
                low = max(low or 0, 0)
            case Op("mod", (_, Const(value))) if value > 0:
                low, high = 0, int(value) - 1
            case Op("floordiv", (a, Const(value))) if value > 0:
                if low is None and self._least(linear(a)):
                    low = 0
            case Op("max", args):
                lows = [self._numeric(a) for a in args]
                known = [v for v in lows if v is not None]
                low = max(known) if known and low is None else low
            case Op("min", args):
                lows = [self._numeric(a) for a in args]
                known = [v for v in lows if v is not None]
                low = min(known) if len(known) == len(lows) and low is None else low
        return low, high

    def _numeric(self, expr: Expr) -> int | None:
        form = linear(expr)
        total = form.constant
        for atom, coefficient in form.terms.items():
            low, high = self._interval(atom)
            end = low if coefficient > 0 else high
            if end is None:
                return None
            total += coefficient * end
        return total

    def best(self, op: str, exprs: Sequence[Expr]) -> Expr:
        """The min or max of expressions, reduced to one where the facts decide."""
        kept: list[Expr] = []
        for expr in exprs:
            if any(self._dominates(op, other, expr) for other in kept):
                continue
            kept = [o for o in kept if not self._dominates(op, expr, o)] + [expr]
        out = kept[0]
        for expr in kept[1:]:
            out = simplify(Op(op, (out, expr), INDEX))
        return out

    def _dominates(self, op: str, a: Expr, b: Expr) -> bool:
        return self.less_equal(b, a) if op == "max" else self.less_equal(a, b)


def bounds(
    expr: Expr, order: Sequence[str], get: Callable[[str], Candidates], facts: Facts
) -> tuple[Expr | None, Expr | None]:
    """Least and greatest value of `expr` over its indices, as expressions in sizes.

    order: indices, those whose bounds may mention others behind them. get: candidates of one
    index. None where there is no bound.
    """
    finder = _Finder(order, get, facts)
    lows = [expression(f) for f in finder.extremes(linear(expr), False)]
    highs = [expression(f) for f in finder.extremes(linear(expr), True)]
    return (
        facts.best("max", lows) if lows else None,
        facts.best("min", highs) if highs else None,
    )


class _Finder:
    def __init__(
        self, order: Sequence[str], get: Callable[[str], Candidates], facts: Facts
    ) -> None:
        self.order, self.get, self.facts = list(order), get, facts

    def extremes(self, form: Linear, upper: bool) -> list[Linear]:
        """Forms in sizes alone, each one an upper (or lower) bound."""
        present = {a.name for a in form.terms if isinstance(a, Var)}
        last = next((v for v in reversed(self.order) if v in present), None)
        if last is None:
            return self._atoms(form, upper)
        var = Var(last)
        coefficient = form.terms[var]
        rest = form.plus(Linear({var: coefficient}, 0), -1)
        lows, highs = self.get(last)
        place = self.order.index(last)
        out: list[Linear] = []
        for end in highs if upper == (coefficient > 0) else lows:
            # Only bounds in indices further out: the elimination then ends.
            if len(out) < _LIMIT and variables(end) <= set(self.order[:place]):
                out += self.extremes(rest.plus(linear(end), coefficient), upper)
        return out

    def _atoms(self, form: Linear, upper: bool) -> list[Linear]:
        hit = next((a for a in form.terms if variables(a) or isinstance(a, Cast)), None)
        if hit is None:
            return [form]
        coefficient = form.terms[hit]
        rest = form.plus(Linear({hit: coefficient}, 0), -1)
        out: list[Linear] = []
        for end in self._atom(hit, upper == (coefficient > 0)):
            out += self._atoms(rest.plus(end, coefficient), upper)
        return out[:_LIMIT]

    def _atom(self, atom: Expr, upper: bool) -> list[Linear]:
        match atom:
            case Op("floordiv", (a, Const() as divisor)):
                ends = self.extremes(linear(a), upper)
                return [linear(Op("floordiv", (expression(e), divisor), INDEX)) for e in ends]
            case Op("mod", (a, Const(value))):
                if not upper:
                    return [Linear({}, 0)]
                inner = self.extremes(linear(a), False)
                positive = any(self.facts.less_equal(number(0), expression(e)) for e in inner)
                best = self.extremes(linear(a), True) if positive else []
                # A constant reads better than a minimum with an expression in sizes.
                return [Linear({}, int(value) - 1), *(e for e in best if e.is_constant)]
            case Op(("min" | "max") as op, args):
                each = [self.extremes(linear(a), upper) for a in args]
                if (op == "min") == upper:  # one argument's bound is enough
                    return [e for group in each for e in group]
                return self._worst(each, upper)
            case Select(_, then, other):
                return self._worst([self.extremes(linear(e), upper) for e in (then, other)], upper)
            case Cast("convert" | "saturate", arg):
                if arg.type.is_integer and arg.type != INDEX and arg.type.bits < 64:
                    low = -(1 << (arg.type.bits - 1)) if arg.type.kind == "int" else 0
                    return [Linear({}, low + (1 << arg.type.bits) - 1 if upper else low)]
                return []
            case _:
                return []

    def _worst(self, ends: list[list[Linear]], upper: bool) -> list[Linear]:
        if not all(ends):
            return []
        tight, loose = ("min", "max") if upper else ("max", "min")
        each = [self.facts.best(tight, [expression(e) for e in group]) for group in ends]
        return [linear(self.facts.best(loose, each))]
