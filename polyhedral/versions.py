"""Loops with versions of blocks, against the loops that they were made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tdsl.ir.index import const
from tdsl.ir.loops import Block, For, If, Instance, Item, Scope, Switch


class NotVersions(Exception):
    """Some code is not a choice of versions of the other."""


Parts = tuple[tuple[For, ...], ...]
"""The parts of a loop, in order: each a loop, in one or several versions."""


def correspondence(before: Block, after: Block) -> tuple[tuple[int, ...], list[Parts]]:
    """For each instance of `after`, in order of the text, the number of its one in `before`; and
    the loops that were taken apart.

    Each choice that `after` adds has to be between versions of one item of `before`, which
    differ in the extents and counts of dims and in guards alone, and each part of a loop has to
    begin where the one before it ends; else NotVersions.
    """
    parts: list[Parts] = []
    return tuple(_pairs(before, after, 0, parts)), parts


def with_defaults(block: Block) -> Block:
    """The same code, where a switch that runs nothing by default has a version that does so."""
    return Block(tuple(_completed(item) for item in block.items))


# ---------------------------------------------------------------- along both


def _pairs(before: Item, after: Item, number: int, parts: list[Parts]) -> Iterator[int]:
    """`number`: that of the first instance in `before`. Adds to `parts`."""
    match before, after:
        case Block(items), Block(versions) if len(items) == len(versions):
            for item, version in zip(items, versions, strict=True):
                yield from _pairs(item, version, number, parts)
                number += _count(item)
        case Block(items), Block(versions) if 1 < len(versions) < len(items):
            yield from _joined(items, versions, number, parts)
        case Block((item,)), _:
            yield from _pairs(item, after, number, parts)
        case _, Block((version,)):
            yield from _pairs(before, version, number, parts)
        case For(), Block(items):
            yield from _in_parts(before, items, number, parts)
        case If(condition, then, None), If(same, first, None) if condition == same:
            yield from _pairs(then, first, number, parts)
        case If(condition, then, Block() as other), If(same, first, Block() as second) if (
            condition == same
        ):
            yield from _pairs(then, first, number, parts)
            yield from _pairs(other, second, number + _count(then), parts)
        case _, If(_, then, Block() as other):
            yield from _pairs(before, then, number, parts)
            yield from _pairs(before, other, number, parts)
        case _, Switch(_, cases, Block() as default):
            for arm in (*(body for _, body in cases), default):
                yield from _pairs(before, arm, number, parts)
        case For(), For() if replace(before, body=after.body) == after:
            yield from _pairs(before.body, after.body, number, parts)
        case Scope(), Scope() if replace(before, body=after.body) == after:
            yield from _pairs(before.body, after.body, number, parts)
        case Instance(), Instance() if _plain(before) == _plain(after):
            yield number
        case _:
            raise NotVersions


def _in_parts(
    before: For, items: tuple[Item, ...], number: int, parts: list[Parts]
) -> Iterator[int]:
    """A loop in parts, of which some have versions."""
    found = tuple(tuple(_heads(item)) for item in items)
    end = before.lo
    for heads in found:
        if not heads or any((h.lo, h.hi) != (end, heads[0].hi) for h in heads):
            raise NotVersions
        end = heads[0].hi
    if end != before.hi or before.step != 1:
        raise NotVersions
    parts.append(found)
    for item, heads in zip(items, found, strict=True):
        one = replace(before, lo=heads[0].lo, hi=heads[0].hi, notes=heads[0].notes)
        yield from _pairs(one, item, number, parts)


def _heads(item: Item) -> Iterator[For]:
    """The loop that an item is, in each of its versions."""
    match item:
        case For():
            yield item
        case If(_, then, Block() as other):
            yield from _heads(then)
            yield from _heads(other)
        case Switch(_, cases, Block() as default):
            for arm in (*(body for _, body in cases), default):
                yield from _heads(arm)
        case Block((inner,)):
            yield from _heads(inner)


def _joined(
    items: Sequence[Item], versions: Sequence[Item], number: int, parts: list[Parts]
) -> Iterator[int]:
    """Items one after the other, some of which have their versions in one test together."""
    for position, version in enumerate(versions):
        most = len(items) - (len(versions) - position - 1)
        for taken in range(1, most + 1):
            own: list[Parts] = []
            try:
                found = list(_pairs(Block(tuple(items[:taken])), version, number, own))
            except NotVersions:
                continue
            yield from found
            parts += own
            break
        else:
            raise NotVersions
        number += sum(_count(item) for item in items[:taken])
        items = items[taken:]
    if items:
        raise NotVersions


def _count(item: Item) -> int:
    match item:
        case Instance():
            return 1
        case For(body=body) | Scope(body=body):
            return _count(body)
        case Block(items):
            return sum(_count(inner) for inner in items)
        case If(_, then, other):
            return _count(then) + (0 if other is None else _count(other))
        case Switch(_, cases, default):
            arms = [body for _, body in cases] + ([] if default is None else [default])
            return sum(_count(arm) for arm in arms)


def _plain(instance: Instance) -> Instance:
    dims = tuple(replace(d, extent=0, count=None, chosen=False) for d in instance.dims)
    return replace(instance, dims=dims, guard=None, always=None, plain=None, decided=False)


# ---------------------------------------------------------------- defaults


def _completed(item: Item) -> Item:
    match item:
        case Instance():
            return item
        case For() | Scope():
            return replace(item, body=with_defaults(item.body))
        case Block():
            return with_defaults(item)
        case If(condition, then, other):
            rest = None if other is None else with_defaults(other)
            return If(condition, with_defaults(then), rest)
        case Switch(on, cases, default):
            arms = tuple((n, with_defaults(body)) for n, body in cases)
            rest = _idle(arms[0][1]) if default is None else with_defaults(default)
            return Switch(on, arms, rest)


def _idle(block: Block) -> Block:
    """The same code with no iteration in any dim."""
    return Block(tuple(_idle_item(item) for item in block.items))


def _idle_item(item: Item) -> Item:
    match item:
        case Instance(dims=dims):
            if not dims:
                raise NotVersions
            return replace(item, dims=tuple(replace(d, count=const(0)) for d in dims))
        case For() | Scope():
            return replace(item, body=_idle(item.body))
        case Block():
            return _idle(item)
        case If(condition, then, other):
            return If(condition, _idle(then), None if other is None else _idle(other))
        case Switch(on, cases, default):
            rest = None if default is None else _idle(default)
            return Switch(on, tuple((n, _idle(body)) for n, body in cases), rest)
