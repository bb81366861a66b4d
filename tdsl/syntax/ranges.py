"""Ranges of indices and extents of temps that nobody wrote down.

An index runs over the dimension it stands in; a temp is as large as what is read of it. Each
question may need another one's answer, so all are asked by name and remembered; one that
needs itself is circular.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tdsl.diagnostics import BoundsError, Error, Note, ParseError, Span
from tdsl.ir.affine import Linear, expression, linear, number, simplify, variables
from tdsl.ir.facts import Candidates, Facts, bounds
from tdsl.ir.kernel import INDEX, Const, Expr, Op, Var
from tdsl.ir.printer import print_expr
from tdsl.syntax import tree
from tdsl.syntax.drafts import Draft, accesses, array_name
from tdsl.syntax.exprs import Values
from tdsl.syntax.scope import Scope

ZERO, ONE = number(0), number(1)


@dataclass(frozen=True)
class Range:
    """lo (inclusive) to hi (exclusive)."""

    lo: Expr
    hi: Expr


def _equal_or_given(name: str, first: Range, other: Range) -> str:
    """What makes one range of two."""
    if first.lo != ZERO or other.lo != ZERO:
        return f"give the range, `{name} in lo..hi`, or assume that the extents are equal"
    a, b = print_expr(first.hi), print_expr(other.hi)
    given = f"give the range, such as `{name} in 0..min({a}, {b})`"
    if isinstance(first.hi, Const) and isinstance(other.hi, Const):
        return given
    return f"write `assume {a} == {b}`, or {given}"


class Circular(Exception):
    """A question that needs its own answer. It is caught where another answer may do."""

    def __init__(self, key: tuple[str, str, object]) -> None:
        super().__init__(str(key))
        self.key = key


class Ranges:
    """Answers for one kernel. `values(draft)` builds expressions in the scope of a draft."""

    def __init__(
        self, scope: Scope, drafts: list[Draft], facts: Facts, values: Callable[[Draft], Values]
    ) -> None:
        self.scope, self.drafts, self.facts, self.values = scope, drafts, facts, values
        self._known: dict[tuple[str, str, object], Range] = {}
        self._asked: set[tuple[str, str, object]] = set()
        self._reads = _all_reads(drafts)

    # ------------------------------------------------------------ questions

    def index(self, draft: Draft, name: str) -> Range:
        """The range of an index of a draft, its conditions apart."""
        return self._ask(("index", draft.name, name), lambda: self._index(draft, name))

    def extent(self, array: str, dimension: int) -> Range:
        """What is read of a dimension of an inferred temp, or the whole of a declared one."""
        declared = self.scope.arrays.get(array)
        if declared is not None:
            return Range(ZERO, declared.shape[dimension])
        return self._ask(("extent", array, dimension), lambda: self._extent(array, dimension))

    def shape(self, array: str, rank: int) -> tuple[Expr, ...]:
        """The extents of an array; an inferred one starts at 0 whatever is read of it."""
        return tuple(self.extent(array, d).hi for d in range(rank))

    def hull(self, draft: Draft, expr: Expr) -> tuple[Expr | None, Expr | None]:
        """Least and greatest value of an index expression over a draft's instances."""
        return bounds(expr, draft.order, lambda name: self.candidates(draft, name), self.facts)

    def _ask(self, key: tuple[str, str, object], answer: Callable[[], Range]) -> Range:
        if key in self._known:
            return self._known[key]
        if key in self._asked:
            raise Circular(key)
        self._asked.add(key)
        try:
            self._known[key] = answer()
        finally:
            self._asked.discard(key)
        return self._known[key]

    # ------------------------------------------------------------ indices

    def _index(self, draft: Draft, name: str) -> Range:
        for loop in draft.nest:
            if loop.index == name:
                return Range(loop.lo, loop.hi)
        for r in draft.ranges:
            if r.name == name:
                return self._reduced(draft, r)
        for dimension, part in enumerate(draft.subscript):
            if isinstance(part, tree.Name) and part.id == name:
                return self.extent(draft.array, dimension)
        return self._from_equation(draft, name)

    def _reduced(self, draft: Draft, r: tree.IndexRange) -> Range:
        if r.lo is not None and r.hi is not None:
            values = self.values(draft)
            return Range(values.bound(r.lo, "range"), values.bound(r.hi, "range"))
        found = self._from_arrays(draft, r.name)
        if found is None:
            raise BoundsError.at(
                r.span or draft.span,
                f"nothing gives the range of `{r.name}`: no array is indexed by `{r.name}` alone",
                help=f"write it: `{r.name} in 0..N`",
            )
        return found

    def _from_arrays(self, draft: Draft, name: str) -> Range | None:
        """The common extent of what is indexed by the plain name: arguments, tables and declared
        temps; inferred temps only where there is none of those."""
        plain = [
            u for e in (draft.value, *draft.also, *draft.subscript) for u in _plain_uses(e, name)
        ]
        declared = [(a, d, s) for a, d, s in plain if a in self.scope.arrays]
        found: list[tuple[Range, str, Span | None]] = []
        circle: Circular | None = None
        for array, dimension, span in declared or plain:
            if array not in self.scope.arrays and array not in self.scope.temps:
                continue
            declared_array = self.scope.arrays.get(array)
            if declared_array is not None and dimension >= len(declared_array.shape):
                continue  # the wrong rank is reported where the access is built
            try:
                found.append((self.extent(array, dimension), array, span))
            except Circular as caught:
                circle = caught
        if circle is not None and not found:
            raise circle
        for other, array, span in found[1:]:
            first, first_array, first_span = found[0]
            if not (self.facts.equal(first.hi, other.hi) and self.facts.equal(first.lo, other.lo)):
                raise BoundsError.at(
                    span,
                    f"`{name}` indexes `{first_array}` and `{array}`, whose extents are not "
                    "known to be equal",
                    Note(f"`{first_array}` is read here", first_span),
                    help=_equal_or_given(name, first, other),
                )
        return found[0][0] if found else None

    def _from_equation(self, draft: Draft, name: str) -> Range:
        """An index that the left side does not give: from `where`, else from the right side."""
        lows, highs = self._limits(draft, name)
        if not (lows and highs):
            found = self._from_arrays(draft, name)
            if found is not None:
                return found
        if not highs:
            raise BoundsError.at(
                draft.target_span,
                f"nothing gives the range of `{name}`: no array is indexed by `{name}` alone",
                help=f"limit it: `where 0 <= {name} < N`",
            )
        low = self.facts.best("max", lows) if lows else ZERO
        return Range(low, simplify(Op("add", (self.facts.best("min", highs), ONE), INDEX)))

    def candidates(self, draft: Draft, name: str) -> Candidates:
        """All bounds of an index: its range and what its conditions add."""
        known = self.index(draft, name)
        last = simplify(Op("sub", (known.hi, ONE), INDEX))
        lows, highs = self._limits(draft, name)
        return [known.lo, *lows], [last, *highs]

    def _limits(self, draft: Draft, name: str) -> Candidates:
        """Bounds that conditions put on an index: from `a * i + rest >= 0`."""
        lows: list[Expr] = []
        highs: list[Expr] = []
        values = self.values(draft)
        for surface in (*draft.where, *draft.limits):
            try:
                condition = values.condition(surface)
            except Error:
                continue  # reported where the statement is built
            for form in _at_least_zero(condition):
                coefficient = form.terms.get(Var(name), 0)
                rest = form.plus(Linear({Var(name): coefficient}, 0), -1)
                if coefficient == 0 or any(name in variables(a) for a in rest.terms):
                    continue
                size = number(abs(coefficient))
                if coefficient > 0:  # i >= ceil(-rest / a)
                    raised = rest.times(-1).plus(Linear({}, coefficient - 1))
                    lows.append(simplify(Op("floordiv", (expression(raised), size), INDEX)))
                else:  # i <= floor(rest / a)
                    highs.append(simplify(Op("floordiv", (expression(rest), size), INDEX)))
        return lows, highs

    # ------------------------------------------------------------ temps

    def _extent(self, array: str, dimension: int) -> Range:
        key = ("extent", array, dimension)
        lows: list[Expr] = []
        highs: list[Expr] = []
        for draft, access in self._reads.get(array, ()):
            try:
                low, high = self._read_hull(draft, access, dimension)
            except Circular as circle:
                if circle.key != key and circle.key[1] != draft.name:
                    raise
                continue  # this reader's range is the extent itself
            if low is None or high is None:
                raise declare_temp(array, access.span, "how much of it is read here is not known")
            lows.append(low)
            highs.append(high)
        if not highs:
            return self._defined_extent(array, dimension)
        low, high = self.facts.best("min", lows), self.facts.best("max", highs)
        if not self.facts.less_equal(ZERO, low):
            low = ZERO
        return Range(low, simplify(Op("add", (high, ONE), INDEX)))

    def _read_hull(
        self, draft: Draft, access: tree.Subscript, dimension: int
    ) -> tuple[Expr | None, Expr | None]:
        if dimension >= len(access.indices):
            return None, None
        return self.hull(draft, self.values(draft).index(access.indices[dimension]))

    def _defined_extent(self, array: str, dimension: int) -> Range:
        """Nothing but the array itself says how much is read: what its definitions are given."""
        for draft in self.drafts:
            if draft.array != array or dimension >= len(draft.subscript):
                continue
            part = draft.subscript[dimension]
            try:
                if isinstance(part, tree.Name) and part.id in draft.own:
                    found = self._from_arrays(draft, part.id)
                    if found is not None:
                        return found
                    high = self._limited(draft, part.id)
                else:
                    _, high = self.hull(draft, self.values(draft).index(part))
            except Circular:
                continue
            if high is not None:
                return Range(ZERO, simplify(Op("add", (high, ONE), INDEX)))
        first = next(d for d in self.drafts if d.array == array)
        raise declare_temp(
            array, first.target_span, f"nothing gives the extent of dimension {dimension}"
        )

    def _limited(self, draft: Draft, name: str) -> Expr | None:
        """The greatest value that the conditions alone leave an index."""

        def get(other: str) -> Candidates:
            return self._limits(draft, name) if other == name else self.candidates(draft, other)

        return bounds(Var(name), draft.order, get, self.facts)[1]


def _all_reads(drafts: list[Draft]) -> dict[str, list[tuple[Draft, tree.Subscript]]]:
    """Who reads which array where; what `padded` guards is left out."""
    out: dict[str, list[tuple[Draft, tree.Subscript]]] = {}
    for draft in drafts:
        for access in (a for e in (draft.value, *draft.subscript) for a in accesses(e)):
            name = array_name(access)
            if isinstance(access, tree.Subscript) and name is not None:
                out.setdefault(name, []).append((draft, access))
    return out


def declare_temp(array: str, span: Span | None, why: str) -> ParseError:
    """The error for a temp whose type or extent does not follow."""
    error = ParseError.at(
        span, f"the shape and type of `{array}` do not follow: {why}",
        help=f"declare it: `temp {array}: f32[...]`",
    )  # fmt: skip
    assert isinstance(error, ParseError)
    return error


def _plain_uses(expr: tree.Expr, name: str) -> Iterator[tuple[str, int, Span | None]]:
    """(array, dimension, place) of each access that is indexed by the plain name."""
    for access in accesses(expr):
        array = array_name(access)
        if isinstance(access, tree.Subscript) and array is not None:
            for dimension, part in enumerate(access.indices):
                if isinstance(part, tree.Name) and part.id == name:
                    yield array, dimension, access.span


def _at_least_zero(condition: Expr) -> Iterator[Linear]:
    """Forms that a condition makes non-negative."""
    match condition:
        case Op("and", args):
            for arg in args:
                yield from _at_least_zero(arg)
        case Op(("le" | "lt" | "ge" | "gt" | "eq") as op, (a, b)) if a.type == INDEX:
            form = linear(b).plus(linear(a), -1)
            strict = Linear({}, 1 if op in ("lt", "gt") else 0)
            if op in ("le", "lt", "eq"):
                yield form.plus(strict, -1)
            if op in ("ge", "gt", "eq"):
                yield form.times(-1).plus(strict, -1)
