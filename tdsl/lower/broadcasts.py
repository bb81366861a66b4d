"""Neighbours in memory that instructions multiply by, loaded as one vector.

before: A_0 = splat A[8 k]; C_0 = fma(A_0, B_0, C_0); A_1 = splat A[8 k + 1]; C_1 = fma(A_1, ...
after:  A_0 = A[8 k..+4]; C_0 = fma(splat A_0.0, B_0, C_0); C_1 = fma(splat A_0.1, B_0, C_1); ...

Where instructions take one lane of a register (NEON) that is one load for several. Elements, or
groups of a `dot`, stay where they are few instructions apart: a vector takes a register until its
last lane is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tdsl.ir import vector as v
from tdsl.ir.index import constant_difference
from tdsl.ir.walk_vector import item_values, items, operands, values_in, with_blocks
from tdsl.lower.builder import rebuild
from tdsl.lower.reuse import runs, values_of, with_values
from tdsl.targets.by_lane import REGISTER, dot_by_group, fused_by_lane
from tdsl.targets.target import Target

WINDOW = 32  # items from the first of some neighbours to the last


def by_lanes(block: v.Block, target: Target) -> v.Block:
    """The block with lanes of vectors in place of broadcasts, where the target has them."""
    if target.family != "neon":
        return block
    counts: dict[str, int] = {}
    for item in items(block):
        for top in item_values(item):
            for value in values_in(top):
                if isinstance(value, v.Ref):
                    counts[value.name] = counts.get(value.name, 0) + 1
    result: list[v.Item] = []
    for run in runs(block.items):
        result += _run(run, target, counts) if isinstance(run, list) else [_inside(run, target)]
    return v.Block(tuple(result))


def _inside(item: v.Item, target: Target) -> v.Item:
    return with_blocks(item, lambda block: by_lanes(block, target))


def _run(run: list[v.Item], target: Target, counts: Mapping[str, int]) -> list[v.Item]:
    """Straight-line code: a name counts where all its uses are here and multiply. counts: the uses
    in the whole block."""
    places = {
        item.name: n
        for n, item in enumerate(run)
        if isinstance(item, v.Let) and _spread(item) is not None
    }
    used: dict[str, int] = {}
    for item in run:
        for value in values_of(item):
            _count(value, frozenset(places), target, used)
    names = [n for n in places if used.get(n, 0) == counts.get(n, 0)]
    lanes: dict[str, v.Value] = {}
    loads: dict[int, v.Item] = {}
    for group in _groups(run, names, places):
        load = group[0][1]
        type = v.VType(load.type.elem, REGISTER // load.type.elem.bytes)
        first = min((name for name, _ in group), key=lambda name: places[name])
        ref = v.Ref(first, type)
        loads[places[first]] = v.Let(ref.name, replace(load, type=type))
        for number, (name, part) in enumerate(group):
            one = v.Part(ref, number * part.type.lanes, part.type)
            lanes[name] = v.Splat(one, type) if part.type.lanes == 1 else v.Repeat(one, type)
    if not lanes:
        return run
    result: list[v.Item] = []
    for place, item in enumerate(run):
        if place in loads:
            result.append(loads[place])
        elif not (isinstance(item, v.Let) and item.name in lanes):
            new = [_with_lanes(x, lanes) for x in values_of(item)]
            result.append(with_values(item, new) if new else item)
    return result


Neighbour = tuple[str, v.Load]


def _groups(
    run: Sequence[v.Item], names: Sequence[str], places: Mapping[str, int]
) -> list[list[Neighbour]]:
    """Loads that fill a register together, in the order of their elements."""
    left: dict[str, v.Load] = {}
    for name in names:
        load = _spread(run[places[name]])
        assert load is not None
        left[name] = load
    found: list[list[Neighbour]] = []
    for name in names:
        if name not in left:
            continue
        load = left[name]
        size = REGISTER // (load.type.elem.bytes * load.type.lanes)
        group: list[Neighbour] = []
        for number in range(size):
            group += [
                (other, near)
                for other, near in left.items()
                if (near.buffer, near.type) == (load.buffer, load.type)
                and constant_difference(near.offset, load.offset) == number * load.type.lanes
            ][:1]
        at = [places[other] for other, _ in group]
        between = run[min(at) : max(at)]
        stored = any(isinstance(i, v.Store) and i.buffer == load.buffer for i in between)
        if len(group) == size and len(between) <= WINDOW and not stored:
            found.append(group)
            for other, _ in group:
                del left[other]
    return found


def _spread(item: v.Item) -> v.Load | None:
    """What a name spreads over all lanes of a register: one element, or one group of a `dot`."""
    match item:
        case v.Let(_, v.Splat(v.Load(_, _, of, None, None) as load, type)) if of.elem.is_float:
            pass
        case v.Let(_, v.Repeat(v.Load(_, _, of, None, None) as load, type)):
            pass
        case _:
            return None
    whole = type.lanes * type.elem.bytes == REGISTER and not type.is_mask
    return load if whole and load.type.lanes < type.lanes else None


def _count(value: v.Value, names: frozenset[str], target: Target, used: dict[str, int]) -> None:
    """Counts the uses of names that an instruction with lanes may be."""
    pair: tuple[v.Value, ...] = ()
    match value:
        case v.Op(op, (a, b, _), type) if fused_by_lane(target, op, type.elem.name) is not None:
            pair = (a, b)
        case v.Dot(_, a, b, _, 0):
            pair = (a, b)
        case _:
            pass
    found = [n for n, x in enumerate(pair) if isinstance(x, v.Ref) and x.name in names]
    if len(found) == 1 and _takes(value, found[0], target):
        name = pair[found[0]]
        assert isinstance(name, v.Ref)
        used[name.name] = used.get(name.name, 0) + 1
    for arg in operands(value):
        _count(arg, names, target, used)


def _takes(value: v.Value, which: int, target: Target) -> bool:
    if not isinstance(value, v.Dot):
        return True
    first, second = value.first.type.elem.name, value.second.type.elem.name
    return dot_by_group(target, first, second, which) is not None


def _with_lanes(value: v.Value, lanes: Mapping[str, v.Value]) -> v.Value:
    if isinstance(value, v.Ref):
        return lanes.get(value.name, value)
    return rebuild(value, [_with_lanes(a, lanes) for a in operands(value)])
