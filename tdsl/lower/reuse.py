"""Values that straight-line code needs twice are made once.

before: C_0 = fma(f32(B_0), x, C_0); C_1 = fma(f32(B_0), y, C_1)
after:  t_0 = f32(B_0); C_0 = fma(t_0, x, C_0); C_1 = fma(t_0, y, C_1)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from tdsl.ir import vector as v
from tdsl.ir.walk_vector import items as walk
from tdsl.ir.walk_vector import operands, uniform_part, with_blocks
from tdsl.lower.builder import Names, rebuild


def share(block: v.Block, names: Names, changing: frozenset[str] = frozenset()) -> v.Block:
    """The block with repeated operations named. `changing`: variables that Assign changes."""
    changing = changing | _assigned(block.items)
    items: list[v.Item] = []
    for run in runs(block.items):
        if isinstance(run, list):
            items += _shared(run, names, changing)
        else:
            items.append(_inside(run, names, changing))
    return v.Block(tuple(items))


def runs(items: Iterable[v.Item]) -> list[list[v.Item] | v.Item]:
    """Stretches of straight-line items, and between them the items with blocks."""
    result: list[list[v.Item] | v.Item] = []
    for item in items:
        if isinstance(item, v.Let | v.LetIndex | v.Declare | v.Assign | v.Store):
            if not result or not isinstance(result[-1], list):
                result.append([])
            last = result[-1]
            assert isinstance(last, list)
            last.append(item)
        else:
            result.append(item)
    return result


def _inside(item: v.Item, names: Names, changing: frozenset[str]) -> v.Item:
    return with_blocks(item, lambda block: share(block, names.inside(), changing))


def _shared(run: list[v.Item], names: Names, changing: frozenset[str]) -> list[v.Item]:
    counts: Counter[v.Value] = Counter()
    for item in run:
        for value in values_of(item):
            _count(value, counts, changing)
    wanted = {value for value, count in counts.items() if count > 1}
    if not wanted:
        return run
    made: dict[v.Value, v.Ref] = {}
    result: list[v.Item] = []
    for item in run:
        shared = [_use(value, wanted, made, names, result) for value in values_of(item)]
        if shared:
            item = with_values(item, shared)
        result.append(item)
    return result


def _count(value: v.Value, counts: Counter[v.Value], changing: frozenset[str]) -> bool:
    """Counts operations that read nothing that changes; whether this one does not."""
    below = [_count(arg, counts, changing) for arg in operands(value)]
    steady = all(below)
    match value:
        case v.Ref(name):
            return name not in changing
        case v.Op() | v.Cast() | v.Choose() | v.Reduce() | v.Splat() | v.Repeat() | v.Dot():
            # A mask with a condition in it is seen where it is used, which may test that alone.
            if steady and not (value.type.is_mask and uniform_part(value) is not None):
                counts[value] += 1
            return steady
        case v.Load() | v.Gather():
            return False
        case _:
            return True


def _use(
    value: v.Value,
    wanted: set[v.Value],
    made: dict[v.Value, v.Ref],
    names: Names,
    before: list[v.Item],
) -> v.Value:
    known = made.get(value)
    if known is not None:
        return known
    new = rebuild(value, [_use(a, wanted, made, names, before) for a in operands(value)])
    if value not in wanted:
        return new
    ref = v.Ref(names.fresh("t"), value.type)
    before.append(v.Let(ref.name, new))
    made[value] = ref
    return ref


def values_of(item: v.Item) -> list[v.Value]:
    """The values of an item of straight-line code."""
    match item:
        case v.Let(_, value) | v.Assign(_, value):
            return [value]
        case v.Declare(_, _, value):
            return [] if value is None else [value]
        case v.Store(_, _, value):
            return [value] if item.mask is None else [value, item.mask]
        case _:
            return []


def with_values(item: v.Item, values: list[v.Value]) -> v.Item:
    """The same item with others."""
    match item:
        case v.Store():
            mask = values[1] if len(values) > 1 else None
            return replace(item, value=values[0], mask=mask)
        case v.Let() | v.Assign() | v.Declare():
            return replace(item, value=values[0])
        case _:
            return item


def defined(code: Iterable[v.Item]) -> frozenset[str]:
    """Names of all variables of some code."""
    inside = list(walk(v.Block(tuple(code))))
    loops = (i.var for i in inside if isinstance(i, v.For))
    named = v.Let | v.LetIndex | v.Declare | v.Assign | v.Misaligned
    return frozenset([*loops, *(i.name for i in inside if isinstance(i, named))])


def _assigned(code: Iterable[v.Item]) -> frozenset[str]:
    inside = walk(v.Block(tuple(code)))
    return frozenset(i.name for i in inside if isinstance(i, v.Declare | v.Assign))
