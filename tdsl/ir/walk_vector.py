"""Going through the vector level: what lies inside a value, an item, a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import assert_never

from tdsl.ir.kernel import Expr
from tdsl.ir.vector import (
    Assign,
    Block,
    Cast,
    Choose,
    Column,
    Comment,
    Condition,
    Const,
    Declare,
    Dot,
    Fence,
    FirstLanes,
    For,
    Gather,
    If,
    Iota,
    Item,
    Join,
    Let,
    LetIndex,
    Load,
    Misaligned,
    Op,
    Part,
    Prefetch,
    Reduce,
    Ref,
    Repeat,
    Scatter,
    Slide,
    Splat,
    Store,
    Switch,
    Value,
)

VALUES = (
    Const, Ref, Iota, Splat, Load, Gather, Op, Cast, Choose, FirstLanes, Condition, Reduce,
    Repeat, Join, Part, Slide, Dot, Column,
)  # fmt: skip


def operands(value: Value) -> tuple[Value, ...]:
    """The values that a value is made of, left to right."""
    match value:
        case Const() | Ref() | Iota() | FirstLanes() | Condition():
            return ()
        case Splat(arg) | Cast(_, arg) | Reduce(_, arg) | Repeat(arg) | Part(arg):
            return (arg,)
        case Load(_, _, _, _, mask):
            return () if mask is None else (mask,)
        case Gather(_, offset, _, mask):
            return (offset,) if mask is None else (offset, mask)
        case Op(_, args) | Column(args):
            return args
        case Choose(mask, then, other):
            return (mask, then, other)
        case Join(low, high) | Slide(low, high):
            return (low, high)
        case Dot(acc, first, second):
            return (acc, first, second)
        case _:
            assert_never(value)


def uniform_part(mask: Value) -> tuple[Value, Value | None] | None:
    """Of a mask that a condition clears whole: that condition, and the mask that is left (None:
    all lanes); None where there is no such condition."""
    match mask:
        case Condition(condition):
            return Condition(condition, replace(mask.type, lanes=1)), None
        case Splat(arg):
            return arg, None
        case Op("and" | "band", (first, second)):
            for one, other in ((first, second), (second, first)):
                found = uniform_part(one)
                if found is not None and found[1] is None:
                    return found[0], other
            return None
        case _:
            return None


def values_in(value: Value) -> Iterator[Value]:
    """The value and all below it."""
    yield value
    for operand in operands(value):
        yield from values_in(operand)


def blocks(item: Item) -> tuple[Block, ...]:
    """The blocks directly inside an item."""
    match item:
        case For():
            return (item.body,)
        case If(_, then, other):
            return (then,) if other is None else (then, other)
        case Switch(_, cases, default):
            return (*(b for _, b in cases), default)
        case Block():
            return (item,)
        case _:
            return ()


def with_blocks(item: Item, edit: Callable[[Block], Block]) -> Item:
    """The item with each block directly inside it edited; itself where none of them changed."""
    match item:
        case For(body=body):
            new = edit(body)
            return item if new is body else replace(item, body=new)
        case If(condition, then, other):
            first, second = edit(then), None if other is None else edit(other)
            return item if first is then and second is other else If(condition, first, second)
        case Switch(on, cases, default):
            arms, rest = tuple((n, edit(b)) for n, b in cases), edit(default)
            same = all(new is old for (_, new), (_, old) in zip(arms, cases, strict=True))
            return item if same and rest is default else Switch(on, arms, rest)
        case Block():
            return edit(item)
        case _:
            return item


def items(block: Block) -> Iterator[Item]:
    """All items below a block, outer ones first."""
    for item in block.items:
        yield item
        for inner in blocks(item):
            yield from items(inner)


def item_values(item: Item) -> tuple[Value, ...]:
    """The values that an item itself evaluates."""
    match item:
        case Let(_, value) | Assign(_, value):
            return (value,)
        case Declare(_, _, value):
            return () if value is None else (value,)
        case Store():
            return (item.value,) if item.mask is None else (item.value, item.mask)
        case Scatter(_, offset, value):
            return (offset, value)
        case If(condition):
            return (condition,) if isinstance(condition, VALUES) else ()
        case _:
            return ()


def item_indices(item: Item) -> tuple[Expr, ...]:
    """The index expressions that an item itself evaluates, those of its values included."""
    found: list[Expr] = []
    match item:
        case LetIndex(_, expr):
            found.append(expr)
        case For():
            found += [item.lo, item.hi]
        case If(condition):
            if not isinstance(condition, VALUES):
                found.append(condition)
        case Switch(on):
            found.append(on)
        case Store():
            found.append(item.offset)
            if item.stride is not None:
                found.append(item.stride)
        case Misaligned():
            found.append(item.offset)
        case Prefetch():
            found += [item.offset, item.count]
        case Let() | Declare() | Assign() | Scatter() | Comment() | Block() | Fence():
            pass
        case _:
            assert_never(item)
    for top in item_values(item):
        for value in values_in(top):
            match value:
                case Iota(base):
                    found.append(base)
                case Load(_, offset, _, stride):
                    found += [offset] if stride is None else [offset, stride]
                case FirstLanes(expr) | Condition(expr):
                    found.append(expr)
                case _:
                    pass
    return tuple(found)


def buffers_used(block: Block) -> frozenset[str]:
    """Names of the buffers that are read or written."""
    found = set()
    for item in items(block):
        if isinstance(item, Store | Scatter | Misaligned | Prefetch):
            found.add(item.buffer)
        for top in item_values(item):
            for value in values_in(top):
                if isinstance(value, Load | Gather):
                    found.add(value.buffer)
    return frozenset(found)
