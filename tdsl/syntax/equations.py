"""Collects the equations and nests of a kernel as drafts, with their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from tdsl.diagnostics import Note, ParseError, Span
from tdsl.ir.kernel import Array, Const
from tdsl.syntax import tree
from tdsl.syntax.constants import exact
from tdsl.syntax.declare import arrays as declared_arrays
from tdsl.syntax.drafts import (
    UPDATES,
    Draft,
    Loop,
    accesses,
    array_name,
    conjuncts,
    lift,
    own_indices,
    place_of,
    target_of,
)
from tdsl.syntax.expand import expand, rebuild
from tdsl.syntax.exprs import Values
from tdsl.syntax.reads import Context, no_data
from tdsl.syntax.records import flat
from tdsl.syntax.scope import RESERVED, Scope

MOST_COPIES = 1024  # of a body that is written out


@dataclass(frozen=True)
class NestDraft:
    """A loop of a `for` and what stands in it."""

    loop: Loop
    body: tuple[Item, ...]


Item = Draft | NestDraft
Lets = Mapping[str, tree.Expr]  # `let`s in the body of a `for`, which may mention indices


class Collector:
    """Walks the items of a kernel in the scope of its declarations.

    `locals`: the temps that are declared in bodies of `for`s.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.locals: dict[str, Array] = {}
        self._nests: dict[str, tuple[Loop, ...]] = {}  # around each local temp
        self._drafts: list[Draft] = []
        self._copy: tuple[str, ...] = ()  # values of the `static for`s around
        self._written_out = 1
        self._numbered: dict[Span, int] = {}
        self._writers: Counter[str] = Counter()
        self._unlabelled: Counter[str] = Counter()
        self._labels: dict[str, Span | None] = {}

    def run(self, items: tuple[tree.KernelItem, ...]) -> tuple[Item, ...]:
        """The drafts of a kernel's equations, in order."""
        self._count(items)
        collected = self._items(items, (), {})
        for draft in self._drafts:
            self._in_sight(draft)
        return collected

    def _count(self, items: Iterable[tree.KernelItem]) -> None:
        for item in items:
            match item:
                case tree.Equation():
                    for target in item.targets:
                        self._writers[place_of(self._flat(target))[0]] += 1
                case tree.For():
                    self._count(item.body)

    def _items(
        self, items: tuple[tree.KernelItem, ...], nest: tuple[Loop, ...], lets: Lets
    ) -> tuple[Item, ...]:
        out: list[Item] = []
        for item in items:
            match item:
                case tree.Equation():
                    out += self._equation(item, nest, lets)
                case tree.For() if item.static:
                    out += self._static(item, item.ranges, nest, lets)
                case tree.For():
                    out.append(self._for(item, nest, lets))
                case tree.SizeLet() if nest or self._copy:
                    lets = {**lets, item.name: self._written(item.value, lets)}
                case tree.ArrayDecl() if nest or self._copy:
                    lets = self._local(item, nest, lets)
                case tree.Assume() if nest or self._copy:
                    raise ParseError.at(item.span, "`assume` stands before the first equation")
        return tuple(out)

    def _local(self, item: tree.ArrayDecl, nest: tuple[Loop, ...], lets: Lets) -> Lets:
        """A temp that is fresh in every iteration of the loops around; in a body that is written
        out, each copy has its own, and the lets say which."""
        if item.role != "temp":
            what = "table" if item.role == "table" or item.values is not None else "argument"
            raise ParseError.at(
                item.span, f"only a `temp` is declared in the body of a `for`, and this is "
                f"{'a table' if what == 'table' else 'an argument'}",
                help="declare it before the first equation",
            )  # fmt: skip
        shape = tuple(e if isinstance(e, tuple) else self._written(e, lets) for e in item.shape)
        copies = {name: self._copied(name) for name in item.names}
        item = replace(item, names=tuple(copies.values()), shape=shape)
        for array in declared_arrays(self.scope, item):
            name = array.name
            if name in self.locals or self.scope.is_array(name):
                other = self.locals.get(name) or self.scope.arrays[name]
                raise ParseError.at(
                    item.span, f"`{name}` is declared twice",
                    Note(f"`{name}` is declared here first", other.span),
                    help="give one of them another name",
                )  # fmt: skip
            self._free_name(name, item.span)
            for draft in self._drafts:
                if name in _arrays_of(draft):
                    raise ParseError.at(
                        item.span, f"`{name}` is used before it is declared",
                        Note("it is used here", draft.span),
                    )  # fmt: skip
            self.locals[name] = replace(array, local=nest[-1].index if nest else None)
            self._nests[name] = nest
        renamed = {old: tree.Name(new) for old, new in copies.items() if new != old}
        return {**lets, **renamed}

    def _copied(self, name: str) -> str:
        """The name in this copy of a body that is written out."""
        return "_".join((name, *self._copy))

    def _in_sight(self, draft: Draft) -> None:
        """A local temp is used inside the body that declares it."""
        for name in sorted(_arrays_of(draft) & set(self.locals)):
            around = self._nests[name]
            if draft.nest[: len(around)] != around:
                raise ParseError.at(
                    draft.span,
                    f"`{name}` is declared in the body of a `for` and means nothing outside it",
                    Note("it is declared here", self.locals[name].span),
                    help="declare it before the `for`, where it keeps its values",
                )

    def _written(self, expr: tree.Expr, lets: Lets) -> tree.Expr:
        """With defs and local lets written out, fields of records as arrays."""
        return self._flat(_replaced(expand(expr, self.scope.defs), lets))

    def _flat(self, expr: tree.Expr) -> tree.Expr:
        return flat(expr, self.scope.arrays) if self.scope.records else expr

    # ------------------------------------------------------------ for

    def _static(
        self,
        item: tree.For,
        ranges: tuple[tree.IndexRange, ...],
        nest: tuple[Loop, ...],
        lets: Lets,
    ) -> list[Item]:
        """The body once for every value of the indices."""
        if not ranges:
            return list(self._items(item.body, nest, lets))
        r, rest = ranges[0], ranges[1:]
        self._free_name(r.name, r.span or item.span)
        loop = self._loop(r, nest, lets, item.span)
        if not (isinstance(loop.lo, Const) and isinstance(loop.hi, Const)):
            raise ParseError.at(
                r.span or item.span,
                f"`{r.name}` runs over a range that is not known at compile time, so its body "
                "cannot be written out",
                help="use constants, bind the size (`--size N=64`), or leave `static` out",
            )
        low, high = int(loop.lo.value), int(loop.hi.value)
        values = range(low, high, loop.step)
        if loop.down:
            values = range(high - 1, low - 1, -loop.step)
        self._written_out *= max(1, len(values))
        if self._written_out > MOST_COPIES:
            raise ParseError.at(
                r.span or item.span,
                f"the body would be written out {self._written_out} times, and {MOST_COPIES} is "
                "the limit",
                help="leave `static` out: an ordinary `for` has any number of iterations",
            )
        out: list[Item] = []
        outside = self._copy
        for value in values:
            self._copy = (*outside, str(value) if value >= 0 else f"n{-value}")
            number = tree.Number(Fraction(abs(value)), False, span=r.span)
            known = number if value >= 0 else tree.Unary("-", number, span=r.span)
            out += self._static(item, rest, nest, {**lets, r.name: known})
        self._copy = outside
        self._written_out //= max(1, len(values))
        return out

    def _for(self, item: tree.For, nest: tuple[Loop, ...], lets: Lets) -> NestDraft:
        loops: list[Loop] = []
        for r in item.ranges:
            loops.append(self._loop(r, (*nest, *loops), lets, item.span))
        body = self._items(item.body, (*nest, *loops), lets)
        out = NestDraft(loops[-1], body)
        for loop in reversed(loops[:-1]):
            out = NestDraft(loop, (out,))
        return out

    def _loop(
        self, r: tree.IndexRange, nest: tuple[Loop, ...], lets: Lets, span: Span | None
    ) -> Loop:
        place = r.span or span
        for outer in nest:
            if outer.index == r.name:
                raise ParseError.at(
                    place, f"the loop over `{r.name}` hides the loop outside it",
                    Note("the loop outside is here", outer.span), help="give it another name",
                )  # fmt: skip
        self._free_name(r.name, place)
        assert r.lo is not None and r.hi is not None
        values = self._nest_values(nest)
        lo = values.bound(self._written(r.lo, lets), "range")
        end = self._written(r.hi, lets)
        if r.down:
            end = tree.Binary("+", end, tree.Number(Fraction(1), False), span=end.span)
        step = None if r.step is None else self._written(r.step, lets)
        return Loop(r.name, lo, values.bound(end, "range"), r.down, self._step(step), place)

    def _step(self, step: tree.Expr | None) -> int:
        if step is None:
            return 1
        value = exact(step, self.scope.exact)
        if value is None or value.is_float or value.value.denominator != 1 or value.value < 1:
            raise ParseError.at(
                step.span, "a step is a positive number known at compile time",
                help="to run downward, write `for i in hi downto lo`",
            )  # fmt: skip
        return int(value.value)

    def _free_name(self, name: str, span: Span | None) -> None:
        if name in RESERVED:
            raise ParseError.at(span, f"`{name}` is a word of the language and cannot be an index")
        if self.scope.size_value(name) is not None or name in self.scope.exact:
            raise ParseError.at(span, f"`{name}` is a size or constant and cannot be an index too")

    def _nest_values(self, nest: tuple[Loop, ...]) -> Values:
        visible = frozenset(loop.index for loop in nest)
        return Values(Context(self.scope, visible, no_data, lambda name: 0, lambda name, span: ()))

    # ------------------------------------------------------------ equations

    def _equation(self, equation: tree.Equation, nest: tuple[Loop, ...], lets: Lets) -> list[Draft]:
        equation = replace(equation, targets=tuple(map(self._flat, equation.targets)))
        if len(equation.targets) == 1:
            return self._part(equation, nest, lets, "", ())
        base = self._name(equation)
        name = self._copied(base)
        reduce = self._joined(equation)
        terms = reduce.args
        drafts: list[Draft] = []
        for n, (target, term) in enumerate(zip(equation.targets, terms, strict=True)):
            also = tuple(self._written(t, lets) for m, t in enumerate(terms) if m != n)
            value = replace(reduce, args=(term,))
            one = replace(equation, targets=(target,), value=value)
            one = replace(one, label=base if n == 0 else f"{base}_{n + 1}")
            drafts += self._part(one, nest, lets, name, also)
        # What terms are made of comes first: the parts stand together.
        lifted = [d for d in drafts if d.group != name]
        return [*lifted, *(d for d in drafts if d.group == name)]

    def _joined(self, equation: tree.Equation) -> tree.Reduce:
        """The reduction with a term for each array on the left."""
        reduce = equation.value
        combine = self.scope.combines.get(reduce.op) if isinstance(reduce, tree.Reduce) else None
        if not isinstance(reduce, tree.Reduce) or combine is None or equation.op != "=":
            raise ParseError.at(
                equation.span,
                "only a `combine` gives several arrays at once, by `=`",
                help="write one equation for each array",
            )
        counts = len(equation.targets), len(combine.left), len(reduce.args)
        if len(set(counts)) != 1:
            raise ParseError.at(
                equation.span,
                f"`{reduce.op}` joins {counts[1]} values: {counts[0]} arrays stand on the left, "
                f"and {counts[2]} terms in the brackets",
                Note("it is defined here", combine.span),
            )
        return reduce

    def _part(
        self,
        equation: tree.Equation,
        nest: tuple[Loop, ...],
        lets: Lets,
        group: str,
        also: tuple[tree.Expr, ...],
    ) -> list[Draft]:
        array, subscript, span = target_of(equation)
        if isinstance(renamed := lets.get(array), tree.Name):
            array = renamed.id
        subscript = tuple(self._written(e, lets) for e in subscript)
        given = {loop.index for loop in nest}
        own = own_indices(subscript, given, self._numbers(), span, equation.op == "=")
        for name in own:
            if name in RESERVED:
                raise ParseError.at(
                    span, f"`{name}` is a word of the language and cannot be an index"
                )
        value = self._written(equation.value, lets)
        where = tuple(self._written(c, lets) for c in conjuncts(equation.where))
        draft = Draft(
            self._copied(self._name(equation)), array, subscript, own, UPDATES[equation.op], value,
            where=where, nest=nest, origin=array, defines=equation.op == "=", group=group,
            also=also, written_out=bool(self._copy), span=equation.span, target_span=span,
        )  # fmt: skip
        drafts = lift(draft, self.scope.combines)
        self._drafts += drafts
        for d in drafts:
            self._register(d.name, d.span, array)
            for r in d.ranges:
                if r.name in lets:
                    raise ParseError.at(
                        r.span or d.span,
                        f"the reduction over `{r.name}` hides the value `{r.name}` outside it",
                        help="give it another name",
                    )
                self._free_name(r.name, r.span or d.span)
        return drafts

    def _numbers(self) -> set[str]:
        scalars = {a.name for a in (*self.scope.arrays.values(), *self.locals.values())
                   if not a.shape}  # fmt: skip
        return {*self.scope.exact, *self.scope.sizes, *self.scope.lets, *scalars}

    def _name(self, equation: tree.Equation) -> str:
        """The statement's name, the same for all copies of a body that is written out."""
        array, _, span = target_of(equation)
        if equation.label is not None:
            if equation.label != array and equation.label in self._writers:
                raise ParseError.at(
                    equation.span,
                    f"label `{equation.label}` is the name of an array that other equations write",
                )
            return equation.label
        writers, array = self._writers[array], array.replace(".", "_")
        if writers == 1:
            return array
        if span is None or span not in self._numbered:
            self._unlabelled[array] += 1
            if span is not None:
                self._numbered[span] = self._unlabelled[array]
            return f"{array}_{self._unlabelled[array]}"
        return f"{array}_{self._numbered[span]}"

    def _register(self, name: str, span: Span | None, array: str) -> None:
        if name in self._labels:
            raise ParseError.at(
                span, f"two statements have the name `{name}`",
                Note("the other one is here", self._labels[name]), help="give one of them a label",
            )  # fmt: skip
        if name != array.replace(".", "_") and self.scope.is_array(name):
            raise ParseError.at(span, f"statement `{name}` has the name of another array")
        self._labels[name] = span


def _arrays_of(draft: Draft) -> set[str]:
    """Names that an equation writes or reads."""
    parts = (draft.value, *draft.subscript, *draft.where, *draft.limits)
    read = {array_name(a) for part in parts for a in accesses(part, padded=True)}
    return {draft.array, *(name for name in read if name is not None)} - set(draft.order)


def _replaced(expr: tree.Expr, lets: Lets) -> tree.Expr:
    if isinstance(expr, tree.Name) and expr.id in lets:
        return lets[expr.id]
    return rebuild(expr, lambda e: _replaced(e, lets)) if lets else expr
