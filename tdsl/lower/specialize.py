"""Versions of a nest for full and incomplete blocks, so that full ones have no tests inside.

before: for io { for k { S with ii < min(6, M - 6 * io) } }
after:  for io { if (M - 6 * io >= 6) { for k { S with ii < 6 } }
                 else switch (M - 6 * io) { case 5: for k { S with ii < 5 } ... } }

The choice stands directly inside the innermost loop that the count depends on, outside all
loops further in. Only the code changes, never which instances run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import gcd

from tdsl.ir.index import compare, conjunction, const, poly, variables
from tdsl.ir.kernel import Const, Expr, Op
from tdsl.ir.loops import Block, Dim, For, If, Instance, Item, Scope, Switch

MOST_CASES = 16  # an unrolled loop of more iterations is tested one by one instead


@dataclass(frozen=True)
class Specializer:
    """`lanes`: the lanes of one vector register for a statement (1 on targets without)."""

    lanes: Callable[[str], int]

    def block(self, block: Block, known: frozenset[str]) -> Block:
        """`known`: the loop variables that have a value here."""
        return Block(tuple(self._item(item, known) for item in block.items))

    def _item(self, item: Item, known: frozenset[str]) -> Item:
        pending = _first_pending(item, known)
        if pending is not None:
            return self._choose(item, pending, known)
        match item:
            case For():
                return replace(item, body=self.block(item.body, known | {item.var}))
            case If(condition, then, other):
                rest = None if other is None else self.block(other, known)
                return If(condition, self.block(then, known), rest)
            case Switch(on, cases, default):
                rest = None if default is None else self.block(default, known)
                return Switch(on, tuple((n, self.block(b, known)) for n, b in cases), rest)
            case Scope():
                return replace(item, body=self.block(item.body, known))
            case Block():
                return self.block(item, known)
            case Instance():
                return item

    def _choose(self, item: Item, dim: Dim, known: frozenset[str]) -> Item:
        def version(extent: int, count: Expr | None) -> Block:
            chosen = replace(dim, extent=extent, count=count, chosen=True)
            return self.block(Block((_with(item, dim, chosen),)), known)

        partial = version(dim.extent, dim.count)
        assert dim.count is not None
        full = _is_full(dim.count, dim.extent)
        if dim.tail == "guard" or full == FALSE:
            return partial
        step = self._case_step(item, dim)
        if step is not None:
            partial = self._cases(item, dim, known, step, version, partial)
        return If(full, version(dim.extent, None), partial)

    def _case_step(self, item: Item, dim: Dim) -> int | None:
        """By how many iterations the cases of a switch differ; None: no switch."""
        lanes = min(self.lanes(s) for s in _statements_with(item, dim))
        if dim.mark == "vector":
            if dim.tail == "cases":
                return lanes if dim.extent > lanes else None
            if dim.tail == "narrow":
                return max(1, lanes // 4)
            return None
        if dim.tail == "cases" or (dim.tail == "" and dim.extent <= MOST_CASES):
            return 1
        return None

    def _cases(
        self,
        item: Item,
        dim: Dim,
        known: frozenset[str],
        step: int,
        version: Callable[[int, Expr | None], Block],
        partial: Block,
    ) -> Block:
        assert dim.count is not None
        steps = -(-dim.extent // step)
        if steps <= 1:
            return partial
        if step == 1:
            rests = [n for n in range(1, dim.extent) if _possible(dim.count, n)]
            cases = tuple((n, version(n, None)) for n in rests)
            on = dim.count
        else:
            # Whole steps are full; the last one is masked.
            cases = tuple(
                (n, version(min(n * step, dim.extent), dim.count)) for n in range(1, steps + 1)
            )
            rounded = Op("add", (dim.count, const(step - 1)), dim.count.type)
            on = Op("floordiv", (rounded, const(step)), dim.count.type)
        # Statements of other counts run also where this one has nothing to do.
        default = None if _all_have(item, dim) else partial
        return Block((Switch(on, cases, default),))


FALSE = compare("lt", const(0), const(0))


def _is_full(count: Expr, extent: int) -> Expr:
    """Whether count, `min(extent, a, b, ...)`, is the extent."""
    parts = count.args if isinstance(count, Op) and count.op == "min" else (count,)
    flat: list[Expr] = []
    for part in parts:
        flat += part.args if isinstance(part, Op) and part.op == "min" else (part,)
    tests = tuple(compare("ge", p, const(extent)) for p in flat)
    if FALSE in tests:
        return FALSE
    return conjunction(tests) or Const(True, FALSE.type)


def _possible(count: Expr, value: int) -> bool:
    """Whether a count that is not full can be this number, as far as divisibility tells."""
    for part in count.args if isinstance(count, Op) and count.op == "min" else (count,):
        terms = dict(poly(part))
        rest = terms.pop((), 0)
        if terms and not isinstance(part, Const) and _flat_min(count) == 1:
            return (value - rest) % gcd(*terms.values()) == 0
    return True


def _flat_min(count: Expr) -> int:
    """How many bounds, besides the extent, a count is the least of."""
    if isinstance(count, Op) and count.op == "min":
        return sum(_flat_min(a) for a in count.args)
    return 0 if isinstance(count, Const) else 1


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


def _first_pending(item: Item, known: frozenset[str]) -> Dim | None:
    for instance in instances(item):
        for dim in instance.dims:
            if dim.count is not None and not dim.chosen and variables(dim.count) <= known:
                return dim
    return None


def _statements_with(item: Item, dim: Dim) -> set[str]:
    return {i.statement for i in instances(item) if any(_same(d, dim) for d in i.dims)}


def _all_have(item: Item, dim: Dim) -> bool:
    return all(any(_same(d, dim) for d in i.dims) for i in instances(item))


def _same(a: Dim, b: Dim) -> bool:
    """One block of one loop, whatever its variable is called at each statement."""
    return replace(a, var="") == replace(b, var="")


def _with(item: Item, old: Dim, new: Dim) -> Item:
    """The item with one dimension replaced in all instances."""
    match item:
        case Instance():
            dims = tuple(replace(new, var=d.var) if _same(d, old) else d for d in item.dims)
            return replace(item, dims=dims)
        case For() | Scope():
            return replace(item, body=_with_block(item.body, old, new))
        case If(condition, then, other):
            rest = None if other is None else _with_block(other, old, new)
            return If(condition, _with_block(then, old, new), rest)
        case Switch(on, cases, default):
            rest = None if default is None else _with_block(default, old, new)
            return Switch(on, tuple((n, _with_block(b, old, new)) for n, b in cases), rest)
        case Block():
            return _with_block(item, old, new)


def _with_block(block: Block, old: Dim, new: Dim) -> Block:
    return Block(tuple(_with(item, old, new) for item in block.items))
