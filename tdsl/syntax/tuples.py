"""Reductions of one's own, and `argmax`: one loop over the terms that keeps several values.

    m[i], z[i] = online[j](x[i, j], 1.0)

becomes the start values and an ordered nest, in which every component sees the old state:

    m.init: m[i] = -inf           m_2.init: z[i] = 0.0
    for i, j {
        temp m_next: f32          temp m_2_next: f32
        m_next = ...m[i], z[i], x[i, j]...          m_2_next = ...
        m: m[i] = m_next          m_2: z[i] = m_2_next
    }

A component with indices of its own that no other one reads is updated in place, before those.

`argmax` keeps the value beside the index. Indices that a component lacks run in its loops alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tdsl.diagnostics import Note, ParseError, TypeMismatch
from tdsl.ir.facts import Facts
from tdsl.ir.kernel import (
    INDEX,
    Array,
    BodyItem,
    Cast,
    Const,
    Expr,
    Nest,
    Op,
    Read,
    Select,
    Statement,
    Var,
    rebuilt,
    walk,
)
from tdsl.ir.types import BOOL, I64, ElemType
from tdsl.syntax import tree
from tdsl.syntax.drafts import INDEX_OF, Draft
from tdsl.syntax.expand import expand, rebuild
from tdsl.syntax.exprs import Values
from tdsl.syntax.literals import limits
from tdsl.syntax.ranges import Range
from tdsl.syntax.reads import Context
from tdsl.syntax.scope import Scope


@dataclass(frozen=True)
class Component:
    """One value that is kept. own: its left-hand indices; term: of one iteration."""

    name: str
    array: str
    subscript: tuple[Expr, ...]
    type: ElemType
    own: tuple[str, ...]
    term: Expr
    start: Expr
    statement: Statement
    draft: Draft


@dataclass(frozen=True)
class Made:
    """What stands in the kernel for the statement, and the temps of it."""

    items: tuple[BodyItem, ...]
    arrays: tuple[Array, ...]


class Tuples:
    """Writes tuple reductions out. `taken`: whether a name is used already."""

    def __init__(
        self,
        scope: Scope,
        facts: Facts,
        index: Callable[[Draft, str], Range],
        taken: Callable[[str], bool],
    ) -> None:
        self.scope, self.facts, self._index, self._taken = scope, facts, index, taken

    def write(self, drafts: Sequence[Draft], statements: Sequence[Statement]) -> Made:
        """The parts of one tuple reduction, as they were built."""
        first = drafts[0]
        if first.reduces in INDEX_OF:
            return self._index_of(first, statements[0])
        assert first.reduces is not None
        combine = self.scope.combines[first.reduces]
        types = [s.value.type for s in statements]
        starts = self._combined(combine, combine.identity, types, ())
        parts = [
            Component(d.name, d.array, s.subscript, s.value.type, d.own, s.value, start, s, d)
            for d, s, start in zip(drafts, statements, starts, strict=True)
        ]
        self._same_ranges(drafts)
        names = (*combine.left, *combine.right)
        gives = self._combined(combine, combine.give, types, names)
        state = [Read(p.array, p.subscript, p.type) for p in parts]
        known = dict(zip(names, [*state, *(p.term for p in parts)], strict=True))
        runs = dict(zip(names, (r for two in _runs(parts) for r in two), strict=True))
        joins = [_placed(e, runs) for e in gives]
        return self._nest(first, parts, [_placed(e, known) for e in gives], joins, None)

    # ------------------------------------------------------------ combine

    def _combined(
        self,
        combine: tree.Combine,
        exprs: Sequence[tree.Expr],
        types: Sequence[ElemType],
        names: Sequence[str],
    ) -> list[Expr]:
        """Expressions of a combine, with its names as scalars."""
        lets: dict[str, tree.Expr] = {}
        for let in combine.lets if names else ():
            lets[let.name] = _written(expand(let.value, self.scope.defs), lets)
        given = dict(zip(names, (*types, *types), strict=True)) if names else {}
        scalars = {n: Array(n, t, (), "temp") for n, t in given.items()}
        scope = replace(self.scope, exact={}, sizes={}, lets={}, arrays=scalars, temps=frozenset())
        values = Values(
            Context(scope, frozenset(), lambda n, _: scalars[n].type, lambda n: 0, lambda n, s: ())
        )
        if len(exprs) != len(types):
            raise ParseError.at(
                combine.span,
                f"`{combine.name}` joins {len(types)} values and has {len(exprs)} here",
            )
        built = []
        for expr, type_ in zip(exprs, types, strict=True):
            value = values.build(_written(expand(expr, self.scope.defs), lets), type_)
            if value.type != type_:
                raise TypeMismatch.at(
                    expr.span, f"this component of `{combine.name}` is {type_}, and its value "
                    f"{value.type}", help=f"convert it: `{type_}(...)`",
                )  # fmt: skip
            built.append(value)
        return built

    def _same_ranges(self, drafts: Sequence[Draft]) -> None:
        first = drafts[0]
        for other in drafts[1:]:
            for name in (*first.own, *first.reduced):
                if name not in (*other.own, *other.reduced):
                    continue
                a, b = self._index(first, name), self._index(other, name)
                if not (self.facts.equal(a.lo, b.lo) and self.facts.equal(a.hi, b.hi)):
                    raise ParseError.at(
                        other.target_span,
                        f"`{name}` runs over another range in `{first.array}` than in "
                        f"`{other.array}`",
                        Note(f"`{first.array}` stands here", first.target_span),
                        help=f"declare both: `temp {other.array}: f32[...]`",
                    )

    # ------------------------------------------------------------ argmax

    def _index_of(self, draft: Draft, statement: Statement) -> Made:
        """The best value so far beside its index; the first NaN is the best of all."""
        (over,) = draft.reduced
        term, type_ = statement.value, statement.value.type
        shape = tuple(self._index(draft, name).hi for name in draft.own)
        local = draft.nest[-1].index if draft.nest else None
        best = Array(
            self._free(f"{draft.name}_best"), type_, shape, "temp", local=local, span=draft.span
        )
        at = tuple(Var(name) for name in draft.own)
        lowest: int | float = -math.inf if type_.is_float else limits(type_)[0]
        if draft.reduces == "argmin":
            lowest = math.inf if type_.is_float else limits(type_)[1]
        parts = [
            Component(draft.name, draft.array, statement.subscript, I64, draft.own,
                      Cast("convert", Var(over), I64), Const(-1, I64), statement, draft),
            Component(best.name, best.name, at, type_, draft.own, term, Const(lowest, type_),
                      replace(statement, name=best.name), draft),
        ]  # fmt: skip
        old, kept = Read(draft.array, statement.subscript, I64), Read(best.name, at, type_)
        better: Expr = Op("gt" if draft.reduces == "argmax" else "lt", (term, kept), BOOL)
        if type_.is_float:
            nan = Op("ne", (term, term), BOOL)
            number = Op("eq", (kept, kept), BOOL)
            better = Op("or", (better, Op("and", (nan, number), BOOL)), BOOL)
        better = Op("or", (Op("lt", (old, Const(0, I64)), BOOL), better), BOOL)
        gives: list[Expr] = [
            Select(better, parts[0].term, old, I64), Select(better, term, kept, type_)
        ]  # fmt: skip
        joins = _best_of_two(draft.reduces == "argmax", parts)
        made = self._nest(draft, parts, gives, joins, f"{draft.reduces}[{over}]")
        return Made(made.items, (best, *made.arrays))

    # ------------------------------------------------------------ the nest

    def _nest(
        self,
        draft: Draft,
        parts: Sequence[Component],
        gives: Sequence[Expr],
        joins: Sequence[Expr],
        word: str | None,
    ) -> Made:
        outer = tuple(loop.index for loop in draft.nest)
        common = tuple(i for i in draft.own if all(i in p.own for p in parts))
        around = (*outer, *common, *draft.reduced)
        starts: list[Statement] = []
        nexts: list[Statement] = []
        lasts: list[Statement] = []
        backs: list[Statement] = []
        arrays: list[Array] = []
        head = parts[0].name
        for part, give, join in zip(parts, gives, joins, strict=True):
            s = part.statement
            extra = tuple(i for i in part.own if i not in common)
            self._visible(part, give, parts, extra)
            starts.append(
                Statement(f"{part.name}.init", part.array, part.subscript, (*outer, *part.own),
                          s.outer, "define", part.start, tuple_of=head, starts=part.name,
                          span=s.span)
            )  # fmt: skip
            first = word is not None and part is parts[0]
            kept = Statement(
                part.name, part.array, part.subscript, (*around, *extra), s.domain, "define", give,
                start=(word or "", f"{part.name}.init") if first else None,
                tuple_of=head, over=draft.reduced, join=join, span=s.span,
            )  # fmt: skip
            if extra and not any(
                isinstance(e, Read) and e.array == part.array
                for other in gives if other is not give for e in walk(other)
            ):  # fmt: skip
                lasts.append(kept)  # nobody else needs the old value: no copy of it
                continue
            new = Array(
                self._free(f"{part.name}_next"), part.type,
                tuple(self._index(part.draft, i).hi for i in extra),
                "temp", local=around[-1], span=s.span,
            )  # fmt: skip
            arrays.append(new)
            at = tuple(Var(i) for i in extra)
            nexts.append(
                Statement(new.name, new.name, at, kept.indices, s.domain, "define", give,
                          tuple_of=head, span=s.span)
            )  # fmt: skip
            backs.append(replace(kept, value=Read(new.name, at, part.type)))
        body: tuple[BodyItem, ...] = (*nexts, *lasts, *backs)
        for name in reversed((*common, *draft.reduced)):
            found = self._index(draft, name)
            body = (Nest(name, found.lo, found.hi, False, 1, body, span=draft.span),)
        return Made((*starts, *body), tuple(arrays))

    def _visible(
        self, part: Component, give: Expr, parts: Sequence[Component], extra: tuple[str, ...]
    ) -> None:
        """A component may use those alone whose indices it has."""
        for e in walk(give):
            if isinstance(e, Var) and e.type == INDEX:
                known = {*part.statement.indices}
                if e.name not in known:
                    other = next(p for p in parts if e.name in p.own)
                    raise ParseError.at(
                        part.statement.span,
                        f"`{part.array}` would need `{other.array}` for every `{e.name}`, which "
                        "it is not indexed by",
                        help=f"let the value of `{part.array}` depend on components of its own "
                        "indices alone",
                    )

    def _free(self, name: str) -> str:
        while self._taken(name):
            name += "_"
        return name


def _runs(parts: Sequence[Component]) -> tuple[list[Read], list[Read]]:
    """The states after two runs of terms, as a `join` names them."""
    one, other = ([Read(p.name + mark, (), p.type) for p in parts] for mark in ("", "'"))
    return one, other


def _best_of_two(greatest: bool, parts: Sequence[Component]) -> list[Expr]:
    """What two runs of an `argmax` keep together: the better value, of equal ones that of the
    lower index; NaN is the best of all, and -1 the index of a run without terms."""
    (at, kept), (other_at, other) = _runs(parts)
    type_ = kept.type

    def both(a: Expr, b: Expr) -> Expr:
        return Op("and", (a, b), BOOL)

    def either(a: Expr, b: Expr) -> Expr:
        return Op("or", (a, b), BOOL)

    better: Expr = Op("gt" if greatest else "lt", (other, kept), BOOL)
    same: Expr = Op("eq", (other, kept), BOOL)
    if type_.is_float:
        nan = Op("ne", (other, other), BOOL)
        better = either(better, both(nan, Op("eq", (kept, kept), BOOL)))
        same = either(same, both(nan, Op("ne", (kept, kept), BOOL)))
    better = either(better, both(same, Op("lt", (other_at, at), BOOL)))
    empty = Op("lt", (at, Const(0, I64)), BOOL)
    chosen = both(Op("ge", (other_at, Const(0, I64)), BOOL), either(empty, better))
    return [Select(chosen, other_at, at, I64), Select(chosen, other, kept, type_)]


def _placed(expr: Expr, known: Mapping[str, Expr]) -> Expr:
    """The expression with values for the scalars that a combine names."""
    match expr:
        case Read(name, ()) if name in known:
            return known[name]
        case Read():
            return expr
        case _:
            return rebuilt(expr, lambda e: _placed(e, known))


def _written(expr: tree.Expr, lets: Mapping[str, tree.Expr]) -> tree.Expr:
    if isinstance(expr, tree.Name) and expr.id in lets:
        return lets[expr.id]
    return rebuild(expr, lambda e: _written(e, lets)) if lets else expr
