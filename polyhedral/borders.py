"""Loops in up to three parts, so that the middle one needs no tests: borders run apart.

before: for p in 0..H { for r in 0..3 { S(p, r), which reads x[p + r - 1] where that is inside } }
after:  for p in 0..1 { ... }  for p in 1..H - 1 { ... }  for p in H - 1..H { ... }

The tests are those of `padded` (a select between a read and something else), of windows that are
clipped, and of guards that hold for a whole block. One that involves a loop's variable, with a
constant factor, holds in one range of that loop for all iterations inside, which is found by
projecting away those in which it fails. Only code changes: which instances run, and in which
order, stays (`validate.validate_versions`). Loops that count terms are not split, nor loops of
threads, where the middle is chosen by a condition inside instead; that is also done where parts
would be too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod

import islpy as isl

from tdsl.diagnostics import BudgetExceeded
from tdsl.ir.index import (
    compare,
    conjunction,
    conjuncts,
    const,
    constant_difference,
    linear_in,
    maximum,
    minimum,
    simplify,
    sub,
    substitute,
    variables,
)
from tdsl.ir.kernel import Cast, Const, Expr, Op, Read, Select, Size, Var, walk
from tdsl.ir.loops import Block, Dim, For, If, Instance, Item, Scope, Switch
from tdsl.ir.types import BOOL
from tdsl.polyhedral.affine import Scope as Space
from tdsl.polyhedral.affine import region, set_space
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.from_isl import from_aff
from tdsl.polyhedral.known import Facts, Known, is_comparison, operands, range_facts
from tdsl.polyhedral.program import Program

MOST_VERSIONS = 32  # of one statement
MOST_BORDERS = 4  # versions of one border: with more there is one border for all loops
MOST_COPIES = 3000  # of one statement, in all versions together
MOST_TRIED = 8  # numbers that a count may be
SET = isl.dim_type.set


def split_borders(program: Program, block: Block, whole: Callable[[For], bool]) -> Block:
    """The loops with their borders apart. `whole`: loops that are not to be taken apart."""
    splitter = _Splitter(program, Known(program), whole)
    copies = max((_copies(i) for i in _instances(block)), default=1)
    return splitter.block(block, _Place(), min(MOST_VERSIONS, MOST_COPIES // copies))


@dataclass(frozen=True)
class _Test:
    """A comparison over loop variables and dims that should hold, and what bounds these. spared:
    a version of the block has a test of all its iterations at once."""

    condition: Expr
    facts: Facts
    spared: bool = False


@dataclass(frozen=True)
class _Place:
    """outer: the variables of the loops around; facts: about them; pending: where all of those
    loops that have tests are in their middle, if no version is chosen there; copies: that loops
    around make of what stands here."""

    outer: tuple[str, ...] = ()
    facts: Facts = ()
    pending: Facts = ()
    copies: int = 1

    def knowing(self, *facts: Expr) -> _Place:
        return replace(self, facts=(*self.facts, *facts))

    def inside(self, loop: For) -> _Place:
        found = self.knowing(*range_facts(loop.var, loop.lo, loop.hi))
        copies = self.copies * written_out(loop)
        return replace(found, outer=(*self.outer, loop.var), copies=copies)


@dataclass(frozen=True)
class _Splitter:
    program: Program
    known: Known
    whole: Callable[[For], bool]

    def block(self, block: Block, place: _Place, budget: int) -> Block:
        """`budget`: how many versions of a statement there may be."""
        return Block(tuple(self._item(i, place, budget) for i in block.items))

    def _item(self, item: Item, place: _Place, budget: int) -> Item:
        match item:
            case For():
                return self._loop(item, place, budget)
            case If(condition, then, other):
                inside = self.block(then, place.knowing(condition), budget)
                rest = None if other is None else self.block(other, place, budget)
                return If(condition, inside, rest)
            case Scope():
                return replace(item, body=self.block(item.body, place, budget))
            case Block():
                return self.block(item, place, budget)
            case Switch() | Instance():
                return item

    # ---------------------------------------------------------------- one loop

    def _loop(self, loop: For, place: _Place, budget: int) -> Item:
        here = place.inside(loop)
        lows, highs, middle, spared = self._middle(loop, here)
        border = self._cost(loop.body)
        # What a version of a block decides anyway is not worth so many copies.
        many = spared and (border + 1) * here.copies > budget
        if not middle or border + 1 > budget or many:
            return replace(loop, body=self.block(loop.body, here, budget))
        if border > MOST_BORDERS:
            return self._jointly(loop, here, middle, budget)
        if loop.mark == "serial" and loop.step == 1:
            parts = self._parts(loop, lows, highs, place.facts)
            if border * (len(parts) - 1) + 1 <= budget:
                return self._apart(loop, parts, place, budget)
        known = here.knowing(*middle)
        first = self.block(self._decided(loop.body, known.facts), known, budget - border)
        if len(middle) == 1:
            here = here.knowing(simplify(Op("not", middle, BOOL)))
        rest = self._decided(loop.body, here.facts)
        rest = self.block(rest, here, budget - self._cost(first))
        return replace(loop, body=Block((If(_all(middle), first, rest),)))

    def _middle(self, loop: For, here: _Place) -> tuple[list[Expr], list[Expr], Facts, bool]:
        """Where the middle of a loop begins and ends, each the most of several; the conditions
        that it is there, () where there are no tests or no middle; whether versions of blocks
        decide all of these tests."""
        lows: list[Expr] = []
        highs: list[Expr] = []
        spared = True
        if loop.mark == "unroll" or self.whole(loop):
            return lows, highs, (), spared
        for test in dict.fromkeys(self._tests(loop.body, loop.var, here.facts)):
            bound = self._bound(test, here.outer, here.facts)
            if bound is not None:
                (lows if bound[0] else highs).append(bound[1])
                spared = spared and test.spared
        var = Var(loop.var)
        ends = [compare("ge", var, e) for e in dict.fromkeys(lows)]
        ends += [compare("lt", var, e) for e in dict.fromkeys(highs)]
        middle = tuple(c for c in ends if self.known.decide(c, here.facts) is not True)
        if not middle or self.known.decide(_all(middle), here.facts) is False:
            return lows, highs, (), spared
        return lows, highs, middle, spared

    def _jointly(self, loop: For, here: _Place, middle: Facts, budget: int) -> Item:
        """One version without tests for the middle of all loops, one with them for the rest: the
        choice stands in the innermost loop that has a middle."""
        asked = (*here.pending, *middle)
        if self._goes_on(loop.body, here.knowing(*middle)):
            inside = replace(here, pending=asked)
            return replace(loop, body=self.block(loop.body, inside, budget))
        first = self._decided(loop.body, (*here.facts, *asked))
        return replace(loop, body=Block((If(_all(asked), first, loop.body),)))

    def _goes_on(self, item: Item, place: _Place) -> bool:
        """Whether some loop inside has a middle too."""
        match item:
            case For():
                here = place.inside(item)
                return bool(self._middle(item, here)[2]) or self._goes_on(item.body, here)
            case If(condition, then, other):
                return self._goes_on(then, place.knowing(condition)) or (
                    other is not None and self._goes_on(other, place)
                )
            case Scope(body=body):
                return self._goes_on(body, place)
            case Block(items):
                return any(self._goes_on(i, place) for i in items)
            case Switch() | Instance():
                return False

    def _apart(
        self,
        loop: For,
        parts: list[tuple[For, bool]],
        place: _Place,
        budget: int,
    ) -> Item:
        """The middle part gets what the others need not of the budget, then these what it left."""
        known = [place.inside(p) for p, _ in parts]
        bodies = [self._decided(p.body, k.facts) for (p, _), k in zip(parts, known, strict=True)]
        costs = [self._cost(b) for b in bodies]
        for n in sorted(range(len(parts)), key=lambda n: not parts[n][1]):
            left = budget - sum(costs) + costs[n]
            bodies[n] = self.block(bodies[n], known[n], left)
            costs[n] = self._cost(bodies[n])
        return Block(tuple(
            replace(p, body=b, notes=loop.notes if n == 0 else ())
            for n, ((p, _), b) in enumerate(zip(parts, bodies, strict=True))
        ))  # fmt: skip

    def _parts(
        self, loop: For, lows: list[Expr], highs: list[Expr], facts: Facts
    ) -> list[tuple[For, bool]]:
        """The loop from its start to the middle, there (True), and to its end; but for empty
        parts. They follow each other for all sizes, also where nothing is in the middle."""

        def never(condition: Expr) -> bool:
            return self.known.decide(condition, facts) is False

        def within(value: Expr, lo: Expr, hi: Expr) -> Expr:
            if not never(compare("gt", value, hi)):
                value = minimum(value, hi)
            return value if never(compare("lt", value, lo)) else maximum(value, lo)

        begin = within(maximum(*lows), loop.lo, loop.hi) if lows else loop.lo
        end = loop.hi
        if highs:
            end = minimum(*highs)
            if not never(compare("lt", end, begin)):
                end = maximum(end, begin)
            if not never(compare("gt", end, loop.hi)):
                end = minimum(end, loop.hi)
        ends = [(loop.lo, begin, False), (begin, end, True), (end, loop.hi, False)]
        return [(replace(loop, lo=lo, hi=hi), here) for lo, hi, here in ends if lo != hi]

    # ---------------------------------------------------------------- tests

    def _tests(self, item: Item, var: str, facts: Facts) -> Iterator[_Test]:
        """The tests of all instances below that may be decided by this loop."""
        match item:
            case For():
                inside = (*facts, *range_facts(item.var, item.lo, item.hi))
                yield from self._tests(item.body, var, inside)
            case If(condition, then, other):
                yield from self._tests(then, var, (*facts, condition))
                if other is not None:
                    yield from self._tests(other, var, facts)
            case Scope(body=body):
                yield from self._tests(body, var, facts)
            case Block(items):
                for below in items:
                    yield from self._tests(below, var, facts)
            case Instance():
                yield from self._of_instance(item, var, facts)
            case Switch():
                return

    def _of_instance(self, instance: Instance, var: str, facts: Facts) -> Iterator[_Test]:
        stmt = self.program.statements[instance.statement]
        index = dict(instance.index)
        of = {i for i, e in index.items() if var in variables(e)}
        if of and of <= set(stmt.reduction):
            return  # it counts terms
        # A copy that tells where it only moves elements has a version for that (`Instance.plain`).
        value = stmt.value if instance.plain is None else None
        padding = [] if value is None else list(_padding(value))
        inside = _with_dims(facts, instance.dims)
        guards = () if instance.guard is None else conjuncts(instance.guard)
        found = [(c, inside, instance.always is not None) for c in guards]
        runs = (*inside, *guards)
        for group in padding:
            tests = [substitute(c, index) for c in group]
            if all(self.known.decide(c, runs) is not False for c in tests):
                found += [(c, runs, False) for c in tests]
        terms = {n for r in stmt.reduction for n in variables(index[r])}
        for dim in instance.dims:
            if dim.count is not None and dim.var in terms:  # a window, clipped at the border
                bounds = operands("min", dim.count)
                found += [(compare("ge", b, const(dim.extent)), facts, False) for b in bounds]
        for condition, known, spared in found:
            if _rises(condition, var) is not None:
                yield _Test(condition, known, spared)

    def _bound(self, test: _Test, names: tuple[str, ...], facts: Facts) -> tuple[bool, Expr] | None:
        """From where on (True), or up to where (False, exclusive), a test holds in the loop of the
        last name, whatever the loops inside; None where it always does, or nowhere provably."""
        if self.known.decide(test.condition, test.facts) is True:
            return None
        try:
            return self._failing(test, names, facts)
        except BudgetExceeded:
            return None

    @bounded("where a border begins")
    def _failing(
        self, test: _Test, names: tuple[str, ...], facts: Facts
    ) -> tuple[bool, Expr] | None:
        inner = {n for f in (test.condition, *test.facts) for n in variables(f)} - set(names)
        params = self.program.params
        columns = {name: n for n, name in enumerate((*names, *sorted(inner)))}
        where = Space(set_space(params, len(columns)), columns, params)
        bad = where.universe.intersect_params(self.program.context)
        for fact in test.facts:
            bad = bad.intersect(region(fact, where).may)
        holds = region(test.condition, where)
        if not holds.exact:
            return None
        bad = bad.subtract(holds.may).project_out(SET, len(names), len(inner))
        around = Space(set_space(params, len(names)), {n: columns[n] for n in names}, params)
        runs = around.universe.intersect_params(self.program.context)
        for fact in facts:
            runs = runs.intersect(region(fact, around).may)
        rises = _rises(test.condition, names[-1])
        assert rises is not None
        hull = bad.remove_divs().simple_hull().gist(runs.remove_divs().simple_hull())
        return _read_off(hull, names, [Size(s) for s in params], low=rises)

    # ---------------------------------------------------------------- parts

    def _decided(self, block: Block, facts: Facts) -> Block:
        """The code without counts and guards that leave out nothing here."""
        return Block(tuple(self._decided_item(i, facts) for i in block.items))

    def _decided_item(self, item: Item, facts: Facts) -> Item:
        match item:
            case For():
                inside = (*facts, *range_facts(item.var, item.lo, item.hi))
                return replace(item, body=self._decided(item.body, inside))
            case If(condition, then, other):
                rest = None if other is None else self._decided(other, facts)
                return If(condition, self._decided(then, (*facts, condition)), rest)
            case Scope():
                return replace(item, body=self._decided(item.body, facts))
            case Block():
                return self._decided(item, facts)
            case Switch():
                return item
            case Instance():
                return self._decided_instance(item, facts)

    def _decided_instance(self, instance: Instance, facts: Facts) -> Instance:
        def sure(condition: Expr) -> bool:
            return self.known.decide(condition, facts) is True

        def counted(dim: Dim) -> Dim:
            if dim.count is None:
                return dim
            if sure(compare("ge", dim.count, const(dim.extent))):
                return replace(dim, count=None)
            for n in range(1, min(dim.extent, MOST_TRIED)):
                if sure(compare("eq", dim.count, const(n))):
                    return replace(dim, extent=n, count=None)
            return dim

        dims = tuple(counted(d) for d in instance.dims)
        inside, always = _with_dims(facts, dims), instance.always
        guards = () if instance.guard is None else conjuncts(instance.guard)
        guard = conjunction(tuple(c for c in guards if self.known.decide(c, inside) is not True))
        if guard is None or (always is not None and self.known.decide(always, facts) is False):
            always = None  # there is nothing to leave out, or no version without it
        return replace(instance, dims=dims, guard=guard, always=always)

    def _cost(self, block: Block) -> int:
        """How many versions there will be of the statement that has most."""
        counts: dict[str, int] = {}
        for instance in _instances(block):
            counts[instance.statement] = counts.get(instance.statement, 0) + _versions(instance)
        return max(counts.values(), default=1)


def _all(conditions: tuple[Expr, ...]) -> Expr:
    result = conjunction(conditions)
    assert result is not None
    return result


def _with_dims(facts: Facts, dims: tuple[Dim, ...]) -> Facts:
    for dim in dims:
        facts = (*facts, *range_facts(dim.var, const(0), _count(dim)))
    return facts


def _count(dim: Dim) -> Expr:
    return const(dim.extent) if dim.count is None else minimum(const(dim.extent), dim.count)


def _padding(value: Expr) -> Iterator[list[Expr]]:
    """The comparisons between indices that each `padded` makes."""
    for part in walk(value):
        if not isinstance(part, Select) or _reads(part.other) or not _reads(part.then):
            continue
        yield [
            c
            for c in conjuncts(part.condition)
            if is_comparison(c) and not any(isinstance(e, Read | Cast) for e in walk(c))
        ]


def _reads(expr: Expr) -> bool:
    return any(isinstance(e, Read) for e in walk(expr))


def _rises(condition: Expr, var: str) -> bool | None:
    """Whether a comparison holds for large values of a variable rather than for small ones; None
    where it is no bound of it."""
    match condition:
        case Op("ge" | "gt", (left, right)):
            parts = linear_in(sub(left, right), var)
        case Op("le" | "lt", (left, right)):
            parts = linear_in(sub(right, left), var)
        case _:
            return None
    if parts is None or not isinstance(parts[1], Const) or not parts[1].value:
        return None
    return int(parts[1].value) > 0


def _read_off(
    hull: isl.BasicSet, names: tuple[str, ...], sizes: list[Size], *, low: bool
) -> tuple[bool, Expr] | None:
    """The end of the last dimension's values in a convex set where a test fails."""
    column = len(names) - 1
    dims: list[Expr] = [Var(n) for n in names]
    found: list[Expr] = []
    for constraint in hull.get_constraints():
        if not constraint.involves_dims(SET, column, 1) or constraint.dim(isl.dim_type.div):
            continue
        ends = constraint.is_upper_bound if low else constraint.is_lower_bound
        if not constraint.is_equality() and not ends(SET, column):
            continue
        bound = constraint.get_bound(SET, column)
        if low:
            end = from_aff(bound.floor().add_constant_val(isl.Val(1)), dims, sizes)
        else:
            end = from_aff(bound.ceil(), dims, sizes)
        found.append(end)
    if not found:
        return None
    return low, min(found, key=lambda e: (len(variables(e)), len(repr(e)), repr(e)))


def _instances(item: Item) -> Iterator[Instance]:
    match item:
        case Instance():
            yield item
        case For(body=body) | Scope(body=body):
            yield from _instances(body)
        case If(_, then, other):
            yield from _instances(then)
            if other is not None:
                yield from _instances(other)
        case Switch(_, cases, default):
            for _, block in cases:
                yield from _instances(block)
            if default is not None:
                yield from _instances(default)
        case Block(items):
            for below in items:
                yield from _instances(below)


def written_out(loop: For) -> int:
    """How many copies of its body a loop becomes."""
    if loop.mark != "unroll":
        return 1
    gaps = [constant_difference(end, loop.lo) for end in operands("min", loop.hi)]
    return max(1, min((g for g in gaps if g is not None), default=1))


def _copies(instance: Instance) -> int:
    return prod(max(1, d.extent) for d in instance.dims if d.mark == "unroll")


def _versions(instance: Instance) -> int:
    """One where all blocks are full, and those of the tails."""
    open_ = [d for d in instance.dims if d.count is not None]
    if not open_ and instance.always is None:
        return 1
    return 1 + prod(_cases(d) for d in open_)


def _cases(dim: Dim) -> int:
    if dim.mark == "vector" or dim.tail not in ("", "cases"):
        return 1
    assert dim.count is not None
    symbolic = any(isinstance(e, Size) for e in walk(dim.count))
    return dim.extent if symbolic else 2
