"""Versions of a nest for full and incomplete blocks, so that full ones have no tests inside.

before: for io { for k { S with ii < min(6, M - 6 * io) } }
after:  for io { if (M - 6 * io >= 6) { for k { S with ii < 6 } }
                 else switch (M - 6 * io) { case 5: for k { S with ii < 5 } ... } }

The choice stands directly inside the innermost loop that the counts depend on, outside all
loops further in. Only the code changes, never which instances run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import gcd

from tdsl.ir.index import add, compare, conjunction, const, poly, simplify, variables
from tdsl.ir.kernel import INDEX, Const, Expr, Op
from tdsl.ir.loops import Block, Dim, For, If, Instance, Item, Scope, Switch
from tdsl.ir.types import BOOL
from tdsl.polyhedral.borders import written_out

MOST_CASES = 16  # an unrolled loop of more iterations is tested one by one instead
MOST_VERSIONS = 32  # of one nest; further dimensions are tested one by one


@dataclass(frozen=True)
class Specializer:
    """`lanes`: the lanes of one vector register for a statement (1 on targets without). `whole`:
    whether a loop has no versions, since its vectors are cut at run time (`tdsl.lower.peel`).
    `made`: how many versions there are already of what stands here. `kept`: a scope of registers is
    around."""

    lanes: Callable[[str], int]
    whole: Callable[[For], bool] = lambda loop: False
    made: int = 1
    kept: bool = False

    def block(self, block: Block, known: frozenset[str]) -> Block:
        """`known`: the loop variables that have a value here."""
        return Block(tuple(_joined((item, self._item(item, known)) for item in block.items)))

    def _item(self, item: Item, known: frozenset[str]) -> Item:
        if isinstance(item, If) and item.other is not None:
            return If(item.condition, self.block(item.then, known), self.block(item.other, known))
        every, always = _pending(item), _always(item)
        # The groups of a sum are decided further in, at its last ones.
        pending = [d for d in every if d.mark != "dot"] or every
        counts = [d.count for d in pending if d.count is not None]
        if (pending or always) and all(variables(c) <= known for c in (*counts, *always)):
            chosen = self._choose(item, pending, always)
            return chosen if len(pending) == len(every) else self._item(chosen, known)
        match item:
            case For():
                if self.whole(item):
                    return item
                inside = replace(self, made=self.made * written_out(item))
                return replace(item, body=inside.block(item.body, known | {item.var}))
            case If(condition, then, other):
                rest = None if other is None else self.block(other, known)
                return If(condition, self.block(then, known), rest)
            case Switch(on, cases, default):
                # Versions inside of versions: all of them together have the limit.
                inside = replace(self, made=self.made * len(cases))
                rest = None if default is None else inside.block(default, known)
                return Switch(on, tuple((n, inside.block(b, known)) for n, b in cases), rest)
            case Scope():
                # What a scope keeps has one set of registers: what is known is decided outside.
                here = [d for d in pending if d.count is None or variables(d.count) <= known]
                if here:
                    return self._item(self._choose(item, here, []), known)
                return replace(item, body=replace(self, kept=True).block(item.body, known))
            case Block():
                return self.block(item, known)
            case Instance():
                return item

    def _choose(self, item: Item, dims: list[Dim], always: list[Expr]) -> Item:
        """One version where all blocks are full; one with the tails of all of them."""
        alone = len(dims) == 1 and not always
        tested = _unguarded(item, decided=False) if always else item
        partial = self._partial(tested, dims, self.made, alone=alone)
        many = 4 * self.made > MOST_VERSIONS  # most of these are of tails: no full one in each
        if many or any(d.tail == "guard" for d in dims):
            return partial
        full = _unguarded(item, decided=True) if always else item
        for dim in dims:
            full = _with(full, dim, replace(dim, count=None, chosen=True))
        tests = (*(_is_full(d) for d in dims), *always)
        test = FALSE if FALSE in tests else conjunction(tests)
        if test is None:
            return full
        return partial if test == FALSE else If(test, Block((full,)), Block((partial,)))

    def _partial(self, item: Item, dims: list[Dim], versions: int, *, alone: bool) -> Item:
        """`versions`: how many there are of the item; `alone`: this block is surely not full."""
        if not dims:
            return item
        dim, rest = dims[0], dims[1:]
        assert dim.count is not None
        step = self._case_step(item, dim)
        cases = [] if step is None else self._cases(dim, step, alone)
        if not cases or versions * len(cases) > MOST_VERSIONS:
            tested = _with(item, dim, replace(dim, chosen=True))
            return self._partial(tested, rest, versions, alone=False)
        versions *= len(cases)
        blocks = tuple(
            (n, Block((self._partial(_with(item, dim, new), rest, versions, alone=False),)))
            for n, new in cases
        )
        default = None
        if not all(any(_same(d, dim) for d in i.dims) for i in instances(item)):
            # Statements of other counts run also where this one has nothing to do.
            tested = _with(item, dim, replace(dim, chosen=True))
            default = Block((self._partial(tested, rest, versions, alone=False),))
        on = dim.count
        if step is not None and step > 1:
            on = simplify(Op("floordiv", (add(dim.count, const(step - 1)), const(step)), INDEX))
        return Switch(on, blocks, default)

    def _case_step(self, item: Item, dim: Dim) -> int | None:
        """By how many iterations the cases of a switch differ; None: no switch."""
        if dim.mark == "dot":
            return None
        if dim.mark == "vector":
            lanes = min(self.lanes(s) for s in _statements_with(item, dim))
            if dim.tail == "cases":
                return lanes if dim.extent > lanes else None
            return max(1, lanes // 4) if dim.tail == "narrow" else None
        if dim.mark == "transpose":
            return None
        # In a scope the count differs between terms: at a border, where few of them are.
        default = dim.tail == "" and dim.extent <= MOST_CASES and not self.kept
        return 1 if dim.tail == "cases" or default else None

    def _cases(self, dim: Dim, step: int, alone: bool) -> list[tuple[int, Dim]]:
        """(number of steps, the dimension then); the last step of lanes is masked."""
        assert dim.count is not None
        if step == 1:
            numbers = range(1, dim.extent if alone else dim.extent + 1)
            return [
                (n, replace(dim, extent=n, count=None, chosen=True))
                for n in numbers
                if _possible(dim.count, n) or n == dim.extent
            ]
        steps = -(-dim.extent // step)
        return [
            (n, replace(dim, extent=min(n * step, dim.extent), chosen=True))
            for n in range(1, steps + 1)
        ]


FALSE = compare("lt", const(0), const(0))


def _joined(items: Iterable[tuple[Item, Item]]) -> list[Item]:
    """The versions of items (each behind its item) one after the other that ask the same, in one
    test. Tests that the loops have themselves are no versions."""
    result: list[Item] = []
    own = False
    for original, item in items:
        before = result[-1] if result and not own else None
        own = isinstance(original, If)
        if (
            isinstance(item, If) and isinstance(before, If) and not own
            and item.condition == before.condition
            and item.other is not None and before.other is not None
        ):  # fmt: skip
            then = Block((*before.then.items, *item.then.items))
            result[-1] = If(item.condition, then, Block((*before.other.items, *item.other.items)))
        else:
            result.append(item)
    return result


def _bounds(count: Expr) -> list[Expr]:
    """The expressions that a count is the least of."""
    if isinstance(count, Op) and count.op == "min":
        return [bound for arg in count.args for bound in _bounds(arg)]
    return [count]


def _is_full(dim: Dim) -> Expr:
    """Whether all iterations of a dimension run."""
    assert dim.count is not None
    tests = tuple(compare("ge", b, const(dim.extent)) for b in _bounds(dim.count))
    return FALSE if FALSE in tests else conjunction(tests) or Const(True, BOOL)


def _possible(count: Expr, value: int) -> bool:
    """Whether a count that is not full can be this number, as far as divisibility tells."""
    bounds = [b for b in _bounds(count) if not isinstance(b, Const)]
    if len(bounds) != 1:
        return True
    terms = dict(poly(bounds[0]))
    rest = terms.pop((), 0)
    return (value - rest) % gcd(*terms.values()) == 0


def instances(item: Item) -> Iterator[Instance]:
    """All instances below, in order."""
    match item:
        case Instance():
            yield item
        case For(body=body) | Scope(body=body):
            yield from instances(body)
        case If(_, then, other):
            yield from instances(then)
            if other is not None:
                yield from instances(other)
        case Switch(_, cases, default):
            for _, block in cases:
                yield from instances(block)
            if default is not None:
                yield from instances(default)
        case Block(items):
            for below in items:
                yield from instances(below)


def _overruns(dim: Dim) -> bool:
    """Whether all terms of a group are added, though some are no instances: those are 0."""
    return dim.mark == "dot" and dim.tail == "overrun"


def _pending(item: Item) -> list[Dim]:
    """The dimensions below whose version is not chosen, each once; of those that are the same
    block, one that says how its tail runs."""
    found: list[Dim] = []
    for instance in instances(item):
        for dim in instance.dims:
            if dim.count is None or dim.chosen or _overruns(dim):
                continue
            known = next((k for k, d in enumerate(found) if _same(dim, d)), None)
            if known is None:
                found.append(dim)
            elif not found[known].tail:
                found[known] = dim
    return found


def _always(item: Item) -> list[Expr]:
    """Where the guards below hold in all iterations, for those that a version can leave out, and
    where copies read in all."""
    found = [i.always for i in instances(item) if i.guard is not None]
    found += [i.plain for i in instances(item)]
    return list(dict.fromkeys(a for a in found if a is not None))


def _unguarded(item: Item, *, decided: bool) -> Item:
    """Without the guards that always hold, and what copies ask for (`decided`), or with them for
    good."""

    def edit(instance: Instance) -> Instance:
        if instance.plain is not None:
            instance = replace(instance, plain=None, decided=decided)
        if instance.always is None:
            return instance
        guard = None if decided else instance.guard
        return replace(instance, guard=guard, always=None)

    return _edited(item, edit)


def _statements_with(item: Item, dim: Dim) -> set[str]:
    return {i.statement for i in instances(item) if any(_same(d, dim) for d in i.dims)}


def _same(a: Dim, b: Dim) -> bool:
    """One block, of one loop or of loops that run alike: a nest that was computed inside another
    inherits how its tail runs."""
    return replace(a, var="", name="", tail="") == replace(b, var="", name="", tail="")


def _with(item: Item, old: Dim, new: Dim) -> Item:
    """The item with one dimension replaced in all instances."""

    def edit(instance: Instance) -> Instance:
        dims = tuple(
            replace(new, var=d.var, name=d.name, tail=d.tail) if _same(d, old) else d
            for d in instance.dims
        )
        return replace(instance, dims=dims)

    return _edited(item, edit)


def _edited(item: Item, edit: Callable[[Instance], Instance]) -> Item:
    """The item with all its instances edited."""

    def block(old: Block) -> Block:
        return Block(tuple(_edited(i, edit) for i in old.items))

    match item:
        case Instance():
            return edit(item)
        case For() | Scope():
            return replace(item, body=block(item.body))
        case If(condition, then, other):
            return If(condition, block(then), None if other is None else block(other))
        case Switch(on, cases, default):
            rest = None if default is None else block(default)
            return Switch(on, tuple((n, block(b)) for n, b in cases), rest)
        case Block():
            return block(item)
