"""Vectors that lie across two others which are loaded anyway, taken out of those.

before: x_0 = A[i..+8]; x_1 = A[i + 1..+8]; x_2 = A[i + 8..+8]
after:  x_0 = A[i..+8]; x_2 = A[i + 8..+8]; x_1 = slide x_0, x_2 by 1

A vector as wide as a line of the cache lies in two lines unless it starts with one, which costs
two accesses, and of a stencil's neighbours at most one does. Targets whose vectors are narrower
have no such row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tdsl.ir import vector as v
from tdsl.ir.index import Monomial, poly
from tdsl.ir.walk_vector import with_blocks
from tdsl.lower.reuse import runs
from tdsl.targets import instructions
from tdsl.targets.target import Target

WINDOW = 32  # items that a vector may come earlier, where it takes a register


@dataclass(frozen=True)
class _Loaded:
    """A load: its place in the code and, of its offset, the constant part."""

    place: int
    let: v.Let
    at: int


def slid(block: v.Block, target: Target) -> v.Block:
    """The block with fewer loads."""
    items: list[v.Item] = []
    for run in runs(block.items):
        if isinstance(run, list):
            items += _run(run, target)
        else:
            items.append(with_blocks(run, lambda inner: slid(inner, target)))
    return v.Block(tuple(items))


def _run(run: list[v.Item], target: Target) -> list[v.Item]:
    taken: dict[int, tuple[_Loaded, _Loaded, _Loaded]] = {}
    for group in _groups(run, target):
        taken |= {one[0].place: one for one in _across(group)}
    result: list[v.Item] = []
    done: set[int] = set()
    for place, item in enumerate(run):
        if place in taken:
            wanted, low, high = taken[place]
            for part in (low, high):
                if part.place not in done:
                    done.add(part.place)
                    result.append(part.let)
            type = wanted.let.value.type
            below, above = (v.Ref(part.let.name, type) for part in (low, high))
            slide = v.Slide(below, above, wanted.at - low.at, type)
            result.append(v.Let(wanted.let.name, slide))
        elif place not in done:
            done.add(place)
            result.append(item)
    return result


def _groups(run: Sequence[v.Item], target: Target) -> Iterator[list[_Loaded]]:
    """Loads whose offsets differ by constants, with no store to their buffer between."""
    table = instructions(target)
    open_: dict[tuple[str, v.VType, frozenset[tuple[Monomial, int]]], list[_Loaded]] = {}
    for place, item in enumerate(run):
        match item:
            case v.Let(_, v.Load(buffer, offset, type, None, None)) as let:
                if ("slide", type.elem.name, type.lanes) in table:
                    terms = dict(poly(offset))
                    at = terms.pop((), 0)
                    key = (buffer, type, frozenset(terms.items()))
                    open_.setdefault(key, []).append(_Loaded(place, let, at))
            case v.Store(stored):
                for key in [key for key in open_ if key[0] == stored]:
                    yield open_.pop(key)
            case _:
                pass
    yield from open_.values()


def _across(group: Sequence[_Loaded]) -> list[tuple[_Loaded, _Loaded, _Loaded]]:
    """Loads that lie across two others of the group, with those two: as many as can be, and where
    that leaves a choice, across those that may start with a line."""
    lanes = group[0].let.value.type.lanes
    places = [_among(group, start, lanes) for start in dict.fromkeys(x.at % lanes for x in group)]
    return max(places, key=lambda found: (len(found), any(x[1].at % lanes == 0 for x in found)))


def _among(
    group: Sequence[_Loaded], start: int, lanes: int
) -> list[tuple[_Loaded, _Loaded, _Loaded]]:
    """Those across loads `start` elements behind a multiple of the lanes."""
    whole: dict[int, _Loaded] = {}
    for one in group:
        if one.at % lanes == start:
            whole.setdefault(one.at, one)
    found = []
    for one in group:
        below = one.at - (one.at - start) % lanes
        low, high = whole.get(below), whole.get(below + lanes)
        if below == one.at or low is None or high is None:
            continue
        if max(low.place, high.place) - one.place <= WINDOW:
            found.append((one, low, high))
    return found
