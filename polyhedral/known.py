"""What conditions over loop variables imply, for all sizes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

import islpy as isl

from tdsl.diagnostics import BudgetExceeded
from tdsl.ir.index import compare, variables
from tdsl.ir.kernel import INDEX, Const, Expr, Op, Select, Var, rebuilt, walk
from tdsl.ir.types import BOOL
from tdsl.polyhedral.affine import Scope, region, set_space
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.program import Program

Facts = tuple[Expr, ...]

# Parts of a condition that is looked at: choices of choices cost isl far more than what they tell.
MOST_PARTS = 250
MOST_OPERATIONS = 2_000_000


def range_facts(var: str, lo: Expr, hi: Expr) -> Facts:
    """lo <= var < hi, one by one where the ends are a greatest or least of several."""
    here = Var(var)
    low = [Op("ge", (here, end), BOOL) for end in operands("max", lo)]
    return (*low, *(Op("lt", (here, end), BOOL) for end in operands("min", hi)))


def operands(op: str, expr: Expr) -> Iterable[Expr]:
    """`a, b, c` of min(a, min(b, c))."""
    if isinstance(expr, Op) and expr.op == op:
        return [part for arg in expr.args for part in operands(op, arg)]
    return [expr]


@dataclass
class Known:
    """Answers for one program; what was asked once is remembered."""

    program: Program
    _asked: dict[tuple[Facts, Expr], bool | None] = field(default_factory=dict)
    _answers: dict[tuple[Facts, Expr], bool | None] = field(default_factory=dict)
    _sets: dict[tuple[Facts, tuple[str, ...]], tuple[Scope, isl.Set]] = field(default_factory=dict)

    def decide(self, condition: Expr, facts: Facts) -> bool | None:
        """Whether a condition always or never holds where the facts do; None: it depends."""
        if isinstance(condition, Const):
            return bool(condition.value)
        asked = facts, condition
        if asked not in self._asked:
            self._asked[asked] = self._among(condition, facts)
        return self._asked[asked]

    def _among(self, condition: Expr, facts: Facts) -> bool | None:
        if is_large(condition):
            return None
        near, names = _about(facts, variables(condition))
        key = near, condition
        if key not in self._answers:
            try:
                self._answers[key] = self._decided(condition, near, names)
            except BudgetExceeded:
                self._answers[key] = None
        return self._answers[key]

    def shorter(self, expr: Expr, facts: Facts) -> Expr:
        """An index expression with the choices made that are always the same."""
        new = rebuilt(expr, lambda e: self.shorter(e, facts))
        match new:
            case Op("min" | "max" as op, (a, b)):
                first = self.decide(compare("le" if op == "min" else "ge", a, b), facts)
                if first or self.decide(compare("ge" if op == "min" else "le", a, b), facts):
                    return a if first else b
            case Select(condition, then, other) if new.type == INDEX:
                chosen = self.decide(condition, facts)
                if chosen is not None:
                    return then if chosen else other
            case _:
                pass
        return new

    @bounded("whether a condition always holds", MOST_OPERATIONS)
    def _decided(self, condition: Expr, facts: Facts, names: tuple[str, ...]) -> bool | None:
        where, points = self._points(facts, names)
        holds = region(condition, where)
        if not holds.exact:
            return None
        if points.is_subset(holds.may):
            return True
        return False if points.is_disjoint(holds.may) else None

    def _points(self, facts: Facts, names: tuple[str, ...]) -> tuple[Scope, isl.Set]:
        key = facts, names
        if key not in self._sets:
            params = self.program.params
            columns = {name: n for n, name in enumerate(names)}
            where = Scope(set_space(params, len(names)), columns, params)
            points = where.universe.intersect_params(self.program.context)
            for fact in facts:
                points = points.intersect(region(fact, where).may)
            self._sets[key] = where, points
        return self._sets[key]


def _about(facts: Facts, names: frozenset[str]) -> tuple[Facts, tuple[str, ...]]:
    """The facts that are linked to some variables, and all variables in them."""
    left, near = list(facts), set(names)
    chosen: list[Expr] = []
    growing = True
    while growing:
        growing = False
        for fact in list(left):
            if variables(fact) & near:
                left.remove(fact)
                if is_large(fact):
                    continue
                chosen.append(fact)
                growing = growing or not variables(fact) <= near
                near |= variables(fact)
    order = {id(f): n for n, f in enumerate(facts)}
    return tuple(sorted(chosen, key=lambda f: order[id(f)])), tuple(sorted(near))


@lru_cache(maxsize=1 << 14)
def has_choice(expr: Expr) -> bool:
    """Whether an index expression is a least, a greatest or a select."""
    return any(
        isinstance(e, Select) or (isinstance(e, Op) and e.op in ("min", "max")) for e in walk(expr)
    )


@lru_cache(maxsize=1 << 14)
def is_large(expr: Expr) -> bool:
    """Whether an expression has more parts than are looked at; to know less is always sound."""
    return next(islice(walk(expr), MOST_PARTS, None), None) is not None


def is_comparison(condition: Expr) -> bool:
    """Whether a condition compares two index expressions."""
    return (
        isinstance(condition, Op)
        and condition.op in ("eq", "ne", "lt", "le", "gt", "ge")
        and condition.args[0].type == INDEX
    )
