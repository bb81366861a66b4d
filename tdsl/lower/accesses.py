"""What the instances of a statement touch, from the statement alone, at concrete sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tdsl.ir.kernel import Array, Expr, Read, Select, Size, children, walk
from tdsl.lower.memory import place
from tdsl.lower.tables import (
    CHOICE,
    NO,
    YES,
    Bools,
    Env,
    Ints,
    OnData,
    Table,
    evaluate,
    size_column,
)
from tdsl.polyhedral.program import Stmt


@dataclass(frozen=True)
class Access:
    """One read: its element as an offset (None where data decide it), where it may happen and
    where it must; arrays that broadcast to (rows, lanes)."""

    array: str
    element: Ints | None
    may: Bools
    must: Bools


@dataclass(frozen=True)
class Memory:
    """Offsets of elements. By array, and by the number of the choice of sizes: the strides, and
    the least and the greatest offset."""

    arrays: Mapping[str, Array]
    strides: Mapping[str, Sequence[Ints]]
    ends: Mapping[str, tuple[Ints, Ints]]

    @staticmethod
    def of(arrays: Mapping[str, Array], table: Table) -> tuple[Memory, Table]:
        """`table`: a row for each choice; it gets the free strides, with a gap behind rows."""
        strides, ends = {}, {}
        for name, array in arrays.items():
            if array.strides is not None:
                table = _with_free(array, table)
            strides[name] = [_by_choice(table, table.value(s)) for s in place(array).strides]
            ends[name] = _ends(array, table)
        return Memory(arrays, strides, ends), table

    def element(self, array: str, subscript: tuple[Expr, ...], env: Env) -> Ints:
        """The offset of an element; raises OnData where data decide the subscript."""
        total = np.zeros((1, 1), dtype=np.int64)
        choice = env[CHOICE]
        for index, stride in zip(subscript, self.strides[array], strict=True):
            total = total + evaluate(index, env) * stride[choice]
        return total

    def bounds(self, array: str, env: Env) -> tuple[Ints, Ints]:
        """The least and the greatest offset of an element; 0 and -1 where there is none."""
        low, high = self.ends[array]
        return low[env[CHOICE]], high[env[CHOICE]]


def _by_choice(table: Table, values: Ints) -> Ints:
    result = np.zeros(int(table.choice.max(initial=-1)) + 1, dtype=np.int64)
    result[table.choice] = values
    return result


def _with_free(array: Array, table: Table) -> Table:
    """Free strides that keep elements apart, whatever the other strides are."""
    step = np.ones(table.rows, dtype=np.int64)
    waiting: list[tuple[str, Expr]] = []
    for stride, extent in reversed(list(zip(array.strides or (), array.shape, strict=True))):
        unknown = _unknown(stride, table)
        if unknown:
            waiting += [(name, extent) for name in unknown]
        elif not isinstance(stride, str):
            reach = np.abs(table.value(stride)) * (table.value(extent) + 1)
            step = np.maximum(step, reach)
    for name, extent in waiting:
        if name not in table.columns:
            table = table.having(name, step)
            step = step * (table.value(extent) + 1)
    return table


def _unknown(stride: Expr | str, table: Table) -> list[str]:
    """The columns of free strides that a stride is made of and that have no value yet."""
    names = [stride] if isinstance(stride, str) else [
        e.name for e in walk(stride) if isinstance(e, Size)
    ]  # fmt: skip
    return [c for c in map(size_column, names) if c not in table.columns]


def _ends(array: Array, table: Table) -> tuple[Ints, Ints]:
    low = high = np.zeros(table.rows, dtype=np.int64)
    none = np.zeros(table.rows, dtype=np.bool_)
    for extent, stride in zip(array.shape, place(array).strides, strict=True):
        length = table.value(extent)
        none = none | (length <= 0)
        reach = (length - 1) * table.value(stride)
        low, high = low + np.minimum(0, reach), high + np.maximum(0, reach)
    least, greatest = np.where(none, 0, low), np.where(none, -1, high)
    return _by_choice(table, least), _by_choice(table, greatest)


def reads(stmt: Stmt, memory: Memory, env: Env) -> list[Access]:
    """All reads of instances, one for each occurrence; an update reads its element too."""
    found = []
    for expr in (stmt.value, *stmt.write.subscript):
        if expr is not None:
            found += list(_reads(expr, memory, env, YES, YES))
    if stmt.is_update:
        found.append(_access(stmt.write.array, stmt.write.subscript, memory, env, YES, YES))
    return found


def _access(
    array: str, subscript: tuple[Expr, ...], memory: Memory, env: Env, may: Bools, must: Bools
) -> Access:
    try:
        return Access(array, memory.element(array, subscript, env), may, must)
    except OnData:
        return Access(array, None, may, must)


def _reads(expr: Expr, memory: Memory, env: Env, may: Bools, must: Bools) -> Iterator[Access]:
    match expr:
        case Read(array, subscript):
            yield _access(array, subscript, memory, env, may, must)
            for index in subscript:
                yield from _reads(index, memory, env, may, must)
        case Select(condition, then, other):
            yield from _reads(condition, memory, env, may, must)
            try:
                chosen = evaluate(condition, env) != 0
            except OnData:
                yield from _reads(then, memory, env, may, must & NO)
                yield from _reads(other, memory, env, may, must & NO)
                return
            yield from _reads(then, memory, env, may & chosen, must & chosen)
            yield from _reads(other, memory, env, may & ~chosen, must & ~chosen)
        case Size():
            return
        case _:
            for child in children(expr):
                yield from _reads(child, memory, env, may, must)
