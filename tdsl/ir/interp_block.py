"""Evaluation of expressions at many instances of a statement at once.

A block is a box of instances. Its axes are the steps of the reduction, then the left-hand
indices; an index is a Python integer where the block holds one value of it, otherwise an array
that lies along its axis. `active` masks (None: everywhere) say at which instances a value counts;
elsewhere it is arbitrary, and reads there are harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tdsl.diagnostics import BoundsError, Span
from tdsl.ir.interp_ops import Value, apply, cast, constant, load
from tdsl.ir.kernel import Array, Cast, Const, Expr, Op, Read, Select, Size, Var

Mask = npt.NDArray[np.bool_] | None
Offsets = npt.NDArray[np.int64]

# statement, instance, array, element, "read" or "write"
Recorder = Callable[[str, tuple[int, ...], str, tuple[int, ...], str], None]


class Conflict(Exception):
    """An instance of the block reads or writes what another one writes: run them in order."""


@dataclass
class Buffer:
    """An array's elements as they are stored. `written`: which have a value; None: all."""

    array: Array
    data: npt.NDArray[Any]
    written: npt.NDArray[np.bool_] | None = None

    def offsets(self, subscript: tuple[Value, ...], shape: tuple[int, ...]) -> Offsets:
        """Row-major positions of elements, in the shape of a block."""
        total: Value = 0
        for index, extent in zip(subscript, self.data.shape, strict=True):
            total = total * extent + index
        return np.broadcast_to(np.asarray(total, dtype=np.int64), shape)

    def known(self, offsets: Offsets) -> npt.NDArray[np.bool_]:
        """Which of the elements at these positions have a value."""
        if self.written is None:
            return np.ones(offsets.shape, np.bool_)
        return np.asarray(self.written.reshape(-1)[offsets])

    def know(self, offsets: Offsets, known: npt.NDArray[np.bool_] | bool) -> None:
        """Set which of the elements at these positions have a value."""
        if self.written is not None:
            self.written.reshape(-1)[offsets] = known


@dataclass(frozen=True)
class Written:
    """The elements that a block writes, sorted, and the instance that writes each."""

    array: str
    offsets: Offsets
    instances: Offsets

    def by_others(self, offsets: Offsets, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
        """Where an element that is read is written by another instance."""
        place = np.minimum(np.searchsorted(self.offsets, offsets), self.offsets.size - 1)
        own = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
        return np.asarray((self.offsets[place] == offsets) & (self.instances[place] != own))


@dataclass
class Block:
    """`indices` of the statement in order, `values` of them, `shape` of the axes."""

    statement: str
    indices: tuple[str, ...]
    values: Mapping[str, Value]
    shape: tuple[int, ...]
    sizes: Mapping[str, int]
    buffers: Mapping[str, Buffer]
    written: Written | None = None
    record: Recorder | None = None
    span: Span | None = field(default=None)

    def value(self, expr: Expr, active: Mask) -> Value:
        """The expression at every instance, of a shape that broadcasts to the block's."""
        match expr:
            case Const():
                return constant(expr)
            case Var(name):
                return self.values[name]
            case Size(name):
                return self.sizes[name]
            case Op(op, args):
                operands = tuple(self.value(a, active) for a in args)
                return apply(op, args[0].type, operands)
            case Read(array, indices):
                subscript = tuple(self.value(i, active) for i in indices)
                return self.read(array, subscript, active, expr.span)
            case Cast(mode, arg, target):
                return cast(mode, self.value(arg, active), arg.type, target)
            case Select():
                return self._select(expr, active)

    def _select(self, expr: Select, active: Mask) -> Value:
        condition = self.value(expr.condition, active)
        if np.ndim(condition) == 0:
            return self.value(expr.then if condition else expr.other, active)
        if condition.all():
            return self.value(expr.then, active)
        if not condition.any():
            return self.value(expr.other, active)
        then = self.value(expr.then, both(active, condition))
        other = self.value(expr.other, both(active, ~condition))
        return np.where(condition, then, other)

    def mask(self, conditions: tuple[Expr, ...]) -> tuple[bool, Mask]:
        """Whether any instance satisfies all conditions, and which."""
        mask: Mask = None
        for condition in conditions:
            holds = self.value(condition, None)
            if holds is True or np.all(holds):
                continue
            if not np.any(holds):
                return False, None
            mask = both(mask, holds)
        return mask is None or bool(mask.any()), mask

    def read(
        self, array: str, subscript: tuple[Value, ...], active: Mask, span: Span | None
    ) -> Value:
        """Elements of an array; refuses those that do not exist or were never written."""
        buffer = self.buffers[array]
        subscript = self.inside(array, subscript, active, "reads", span)
        if 0 in buffer.data.shape:  # nothing is active, and there is nothing to take
            return load(np.zeros((), buffer.data.dtype), buffer.array.type)
        if self.written is not None and self.written.array == array:
            others = self.written.by_others(buffer.offsets(subscript, self.shape), self.shape)
            if np.any(both(active, others)):
                raise Conflict
        if buffer.written is not None:
            bad = ~buffer.written[subscript]
            if np.any(bad):
                self.refuse(bad, active, array, subscript, "reads", "which was never written", span)
        if self.record is not None:  # a block of one instance, which is active
            element = tuple(int(i) for i in subscript)
            self.record(self.statement, self.instance(), array, element, "read")
        return load(buffer.data[subscript], buffer.array.type)

    def inside(
        self,
        array: str,
        subscript: tuple[Value, ...],
        active: Mask,
        verb: str,
        span: Span | None,
    ) -> tuple[Value, ...]:
        """The subscript, moved into the array where it does not count."""
        shape = self.buffers[array].data.shape
        result = []
        for index, extent in zip(subscript, shape, strict=True):
            if _within(index, extent):
                result.append(index)
                continue
            bad = np.logical_or(np.less(index, 0), np.greater_equal(index, extent))
            reason = f"outside its shape {list(shape)}"
            self.refuse(bad, active, array, subscript, verb, reason, span)
            result.append(np.clip(index, 0, max(extent - 1, 0)))
        return tuple(result)

    def refuse(
        self,
        bad: Value,
        active: Mask,
        array: str,
        subscript: tuple[Value, ...],
        verb: str,
        reason: str,
        span: Span | None,
    ) -> None:
        """Raise BoundsError for the first instance that is active and `bad`, if there is one."""
        where = np.broadcast_to(both(active, np.asarray(bad)), self.shape)
        if not where.any():
            return
        first = np.unravel_index(int(np.argmax(where)), self.shape)
        element = [_at(i, self.shape, first) for i in subscript]
        instance = zip(self.indices, self.instance(first), strict=True)
        at = "".join(f", {name} = {value}" for name, value in instance)
        at = f" at {at[2:]}" if at else ""
        place = f"{array}{element}" if element else array
        message = f"{self.statement} {verb} {place}, {reason}{at}"
        raise BoundsError.at(span or self.span, message)

    def instance(self, place: tuple[Any, ...] | None = None) -> tuple[int, ...]:
        """The indices at one place of the block (by default at its first)."""
        place = place if place is not None else (0,) * len(self.shape)
        return tuple(_at(self.values[i], self.shape, place) for i in self.indices)


def both(a: Mask, b: Any) -> Any:
    """The conjunction of a mask and a condition."""
    return b if a is None else a & b


def _within(index: Value, extent: int) -> bool:
    if isinstance(index, int):
        return 0 <= index < extent
    return bool(index.min() >= 0 and index.max() < extent)


def _at(value: Value, shape: tuple[int, ...], place: tuple[Any, ...]) -> int:
    return int(np.broadcast_to(value, shape)[place])


def index_array(first: int, end: int, axis: int, rank: int) -> Value:
    """The values first..end along an axis of a block of `rank` axes."""
    if end - first == 1:
        return first
    shape = [1] * rank
    shape[axis] = end - first
    return np.arange(first, end, dtype=np.int64).reshape(shape)
