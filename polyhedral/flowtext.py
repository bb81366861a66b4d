"""A read that gets another value, in words: the instance, what is due, and what is there."""

from __future__ import annotations

import islpy as isl

from tdsl.polyhedral.flowgroup import Group, initial
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


def changed(group: Group, read: Read, points: isl.Set) -> FlowChanged:
    """The exception for the smallest of the points, which do not get their value."""
    final = group.new.program
    reader = None if read.stmt is None else read.stmt.name
    elements = group.elements(read)
    array = next(iter(elements), None)
    found = smallest(points, final.context)
    if found is None:
        return FlowChanged(f"{reader} gets other values of {read.array}", reader, array)
    point = _fixed(points, found.sizes, found.values)
    due, got = _due(group, read, point), _got(group, read, point)
    if read.stmt is None or read.at is None:
        who = f"at the end, {element_text(read.array, found.values)}"
    else:
        name = array or read.array
        element = smallest(point.apply(elements[name]), final.context) if array else None
        what = name if element is None else element_text(name, element.values)
        who = f"{_instance(read.stmt, point.apply(read.at), final)} reads {what}: it"
    sizes = sizes_text(dict(zip(final.params, found.sizes, strict=True)))
    at = f", with {sizes}" if sizes else ""
    text = f"{who} should be {due}, and is {got}{at}"
    if got == due:
        text = f"{who} should be {due}, and is that with other terms or out of date{at}"
    return FlowChanged(text, reader, array)


def _fixed(points: isl.Set, sizes: tuple[int, ...], values: tuple[int, ...]) -> isl.Set:
    for position, size in enumerate(sizes):
        points = points.fix_val(PARAM, position, isl.Val(size))
    for position, value in enumerate(values):
        points = points.fix_val(SET, position, isl.Val(value))
    return points


def _instance(stmt: Stmt, points: isl.Set, program: Program) -> str:
    found = smallest(points, program.context)
    return stmt.name if found is None else instance_text(stmt.name, stmt.indices, found.values)


def _due(group: Group, read: Read, point: isl.Set) -> str:
    if read.constant is not None:
        return expr_text(read.constant)
    if read.base is not None:
        there = point.apply(read.base.to)
        for key, pairs in group.base(read.base.array).last.writes[read.key].items():
            instance = there.apply(pairs)
            if not instance.is_empty():
                return f"of {_instance(_of(group.old.program, key), instance, group.old.program)}"
        return "what was there before"
    return "its last value"


def _got(group: Group, read: Read, point: isl.Set) -> str:
    final, base = group.new.program, group.old.program
    own_reads = {stmt.name: (read, at) for read, stmt, at in group.copies}
    for _ in range(MOST_COPIES):
        seen = [
            (k, w)
            for k, p in group.seen[read.key][0].items()
            if not (w := point.apply(p)).is_empty()
        ]
        if not seen:
            known = initial(group.new, read.array)
            return "what was there before" if known else "nothing that was written"
        key, there = seen[0]
        stmt = _of(final, key)
        if stmt.copies is None:
            was, origin = group.matched.origins[stmt.name]
            return f"of {_instance(was, there.apply(origin), base)}"
        read, at = own_reads[stmt.name]
        point = there.apply(at.reverse())
        if point.is_empty():
            return f"a constant of {stmt.name}"
    return "something else"


def _of(program: Program, tuple_name: str) -> Stmt:
    return next(s for s in program.statements.values() if s.tuple_name == tuple_name)
