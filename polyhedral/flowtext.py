"""A read that gets another value, in words: the instance, what is due, and what is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import islpy as isl

from tdsl.polyhedral.flowreads import Read
from tdsl.polyhedral.program import Program, Stmt
from tdsl.polyhedral.text import element_text, expr_text, instance_text, sizes_text
from tdsl.polyhedral.witness import smallest

MOST_COPIES = 8  # that a message looks through
PARAM, SET = isl.dim_type.param, isl.dim_type.set


class FlowChanged(Exception):
    """A read gets another value than in the base, or it is not seen that it gets the same.

    The text names the smallest instance with its sizes, what it should get and what it gets.
    reader: the statement; None: a caller of the program, who reads the outputs. array: of the
    base, where known.
    """

    def __init__(self, text: str, reader: str | None = None, array: str | None = None) -> None:
        super().__init__(text)
        self.reader = reader
        self.array = array


@dataclass(frozen=True)
class Wrong:
    """Points of a read that do not get their value."""

    read: Read
    points: isl.Set


@dataclass(frozen=True)
class Sources:
    """What a message needs to know of value flow.

    seen: by memory, for each read the writes and the points that see none; due: for each read of
    the base the last write of its element; copies: statement -> its own read.
    """

    base: Program
    final: Program
    origins: Mapping[str, tuple[Stmt, isl.Map]]
    seen: Mapping[str, tuple[Mapping[str, isl.Map], isl.Set]]
    due: Callable[[Read], Mapping[str, isl.Map]]
    copies: Mapping[str, Read]


def changed(sources: Sources, wrong: Wrong) -> FlowChanged:
    """The exception for the smallest of the wrong points."""
    read, final = wrong.read, sources.final
    found = smallest(wrong.points, final.context)
    reader = None if read.stmt is None else read.stmt.name
    if found is None:
        return FlowChanged(f"{reader} gets other values of {read.array}", reader, read.of)
    point = _fixed(wrong.points, found.sizes, found.values)
    got = _got(sources, read, point)
    due = _due(sources, read, point)
    if read.stmt is None or read.at is None:
        who = f"at the end, {element_text(read.array, found.values)}"
    else:
        element = (
            None if read.element is None else smallest(point.apply(read.element), final.context)
        )
        what = read.of or read.array
        name = what if element is None else element_text(what, element.values)
        who = f"{_instance(read.stmt, point.apply(read.at), final)} reads {name}: it"
    sizes = sizes_text(dict(zip(final.params, found.sizes, strict=True)))
    at = f", with {sizes}" if sizes else ""
    text = f"{who} should be {due}, and is {got}{at}"
    if got == due:
        text = f"{who} should be {due}, and is that with other terms or out of date{at}"
    return FlowChanged(text, reader, read.of)


def _fixed(points: isl.Set, sizes: tuple[int, ...], values: tuple[int, ...]) -> isl.Set:
    for position, size in enumerate(sizes):
        points = points.fix_val(PARAM, position, isl.Val(size))
    for position, value in enumerate(values):
        points = points.fix_val(SET, position, isl.Val(value))
    return points


def _instance(stmt: Stmt, points: isl.Set, program: Program) -> str:
    found = smallest(points, program.context)
    return stmt.name if found is None else instance_text(stmt.name, stmt.indices, found.values)


def _due(sources: Sources, read: Read, point: isl.Set) -> str:
    if read.constant is not None:
        return expr_text(read.constant)
    for key, pairs in sources.due(read).items():
        there = point.apply(pairs)
        if not there.is_empty():
            stmt = next(s for s in sources.base.statements.values() if s.tuple_name == key)
            return f"of {_instance(stmt, there, sources.base)}"
    return "what was there before"


def _got(sources: Sources, read: Read, point: isl.Set) -> str:
    for _ in range(MOST_COPIES):
        writes, _nothing = sources.seen[read.key]
        seen = None
        for key, pairs in writes.items():
            there = point.apply(pairs)
            if not there.is_empty():
                seen = there, key
        if seen is None:
            initial = sources.final.arrays[read.array].role in ("in", "inout", "const", "table")
            return "what was there before" if initial else "nothing that was written"
        there, key = seen
        stmt = next(s for s in sources.final.statements.values() if s.tuple_name == key)
        if stmt.copies is None:
            was, origin = sources.origins[stmt.name]
            return f"of {_instance(was, there.apply(origin), sources.base)}"
        read = sources.copies[stmt.name]
        assert read.at is not None
        point = there.apply(read.at.reverse())
        if point.is_empty():
            return f"a constant of {stmt.name}"
    return "something else"
