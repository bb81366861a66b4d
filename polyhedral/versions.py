"""Loops with versions of blocks, against the loops that they were made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tdsl.ir.index import const
from tdsl.ir.loops import Block, For, If, Instance, Item, Scope, Switch


class NotVersions(Exception):
    """Some code is not a choice of versions of the other."""


def correspondence(before: Block, after: Block) -> tuple[int, ...]:
    """For each instance of `after`, in order of the text, the number of its one in `before`.

    Each choice that `after` adds has to be between versions of one item of `before`, which
    differ in the extents and counts of dims and in guards alone; else NotVersions.
    """
    return tuple(_pairs(before, after, 0))


def with_defaults(block: Block) -> Block:
    """The same code, where a switch that runs nothing by default has a version that does so."""
    return Block(tuple(_completed(item) for item in block.items))


# ---------------------------------------------------------------- along both


def _pairs(before: Item, after: Item, number: int) -> Iterator[int]:
    """`number`: that of the first instance in `before`."""
    match before, after:
        case Block(items), Block(versions) if len(items) == len(versions):
            for item, version in zip(items, versions, strict=True):
                yield from _pairs(item, version, number)
                number += _count(item)
        case Block((item,)), _:
            yield from _pairs(item, after, number)
        case _, Block((version,)):
            yield from _pairs(before, version, number)
        case If(condition, then, None), If(same, first, None) if condition == same:
            yield from _pairs(then, first, number)
        case If(condition, then, Block() as other), If(same, first, Block() as second) if (
            condition == same
        ):
            yield from _pairs(then, first, number)
            yield from _pairs(other, second, number + _count(then))
        case _, If(_, then, Block() as other):
            yield from _pairs(before, then, number)
            yield from _pairs(before, other, number)
        case _, Switch(_, cases, Block() as default):
            for arm in (*(body for _, body in cases), default):
                yield from _pairs(before, arm, number)
        case For(), For() if replace(before, body=after.body) == after:
            yield from _pairs(before.body, after.body, number)
        case Scope(), Scope() if replace(before, body=after.body) == after:
            yield from _pairs(before.body, after.body, number)
        case Instance(), Instance() if _plain(before) == _plain(after):
            yield number
        case _:
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
