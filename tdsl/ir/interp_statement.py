"""One statement of the oracle: blocks of its instances, in an order that cannot be told from
program order (see `tdsl.ir.interp`)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tdsl.ir.interp_block import (
    Block,
    Buffer,
    Conflict,
    Mask,
    Offsets,
    Recorder,
    Written,
    index_array,
)
from tdsl.ir.interp_ops import Value, apply, load, store
from tdsl.ir.intervals import Box
from tdsl.ir.kernel import Expr, Read, Statement, Var, walk

# Elements of a block: enough that NumPy's cost of a call does not count, few enough for the cache.
BLOCK = 1 << 17

_AGAIN = "which it has already written"


@dataclass(frozen=True)
class _Targets:
    """The elements that the left-hand points of `block` write.

    `touched`: the points that have an instance (None: all). `offsets`: their elements, in program
    order. `order` sorts the offsets; None where two of them agree.
    """

    block: Block
    subscript: tuple[Value, ...]
    touched: Mask
    offsets: Offsets
    order: Offsets | None

    @property
    def positions(self) -> Offsets:
        """The places of the touched points in the flat block."""
        if self.touched is None:
            return np.arange(self.offsets.size)
        return np.flatnonzero(self.touched)

    def taken(self, value: Value) -> npt.NDArray[Any]:
        """A value of the block at the touched points."""
        flat = np.broadcast_to(value, self.block.shape).ravel()
        return flat if self.touched is None else flat[self.touched.ravel()]


class StatementRun:
    """One statement over a box of its instances."""

    def __init__(
        self,
        statement: Statement,
        ranges: Box,
        sizes: Mapping[str, int],
        buffers: Mapping[str, Buffer],
        record: Recorder | None,
    ) -> None:
        self.statement = statement
        self.sizes = sizes
        self.buffers = buffers
        self.record = record
        self.ranges = ranges
        self.free: Box = {name: ranges[name] for name in statement.free}
        self.reduction: Box = {name: ranges[name] for name in statement.reduction}
        self.steps = _volume(self.reduction)
        self.buffer = buffers[statement.array]
        self.type = self.buffer.array.type
        self.elements = self.buffer.data.reshape(-1)
        self.reads_itself = _reads(statement.array, (statement.value,))
        # One instance at a time: it is the only one, or what is written where may depend on every
        # write before.
        self.singly = (
            record is not None
            or _volume(ranges) == 1
            or _reads(statement.array, statement.subscript)
        )
        self.defined: npt.NDArray[np.bool_] | None = None
        if statement.op == "define" and not self._plainly_distinct(self.free):
            self.defined = np.zeros(self.elements.size, np.bool_)

    def run(self) -> None:
        """Execute all instances."""
        if self.singly:
            box = {name: self.ranges[name] for name in self.statement.indices}
            for point in itertools.product(*(range(*ends) for ends in box.values())):
                self._instance(dict(zip(box, point, strict=True)))
        else:
            for block in self._blocks(self.free):
                self._execute(block)

    def _instance(self, point: dict[str, Value]) -> None:
        """One instance, if it is in the domain."""
        block = self._make(self.statement.indices, point, ())
        if block.mask(self.statement.domain)[0]:
            targets = self._targets(block, None, distinct=True)
            value = block.value(self.statement.value, None)
            self._write(targets, targets.taken(value), targets.offsets)

    def _blocks(self, free: Box) -> Iterator[Box]:
        """Boxes of left-hand points in program order, each small enough for one block."""
        if _volume(free) <= BLOCK:
            yield free
        else:
            for half in _halves(free):
                yield from self._blocks(half)

    def _execute(self, free: Box) -> None:
        try:
            self._block(free)
        except Conflict:  # never at a single point
            for half in _halves(free):
                self._execute(half)

    def _block(self, free: Box) -> None:
        """All instances at these left-hand points."""
        touched = self._touched(free)
        if touched is not None and not touched.any():
            return
        distinct = self._plainly_distinct(free) and not self.reads_itself
        targets = self._targets(self._points(free), touched, distinct)
        if targets.order is None and (self.reads_itself or self.reduction):
            raise Conflict
        if self.reads_itself:
            self._in_memory(free, targets)
        elif self.reduction:
            self._accumulate(free, targets)
        else:
            value = targets.block.value(self.statement.value, touched)
            self._write(targets, targets.taken(value), targets.offsets)

    # ------------------------------------------------------------ what is written

    def _touched(self, free: Box) -> Mask:
        """The left-hand points that have an instance; None: all."""
        shape = _shape(free)
        touched = np.zeros(shape, np.bool_)
        for block, mask in self._chunks(free):
            if mask is None:
                return None
            touched = touched | np.broadcast_to(mask, block.shape).any(axis=0)
            if touched.all():
                return None
        return touched

    def _targets(self, block: Block, touched: Mask, distinct: bool) -> _Targets:
        """Where the points write; refuses what lies outside, or is defined twice.

        `distinct`: the elements are known to differ, and nobody asks for their order.
        """
        statement = self.statement
        subscript = tuple(block.value(e, touched) for e in statement.subscript)
        subscript = block.inside(statement.array, subscript, touched, "writes", statement.span)
        offsets = self.buffer.offsets(subscript, block.shape).ravel()
        if touched is not None:
            offsets = offsets[touched.ravel()]
        if distinct:
            return _Targets(block, subscript, touched, offsets, np.arange(0))
        order = np.argsort(offsets, kind="stable")
        again = np.diff(offsets[order]) == 0
        if not again.any():
            return _Targets(block, subscript, touched, offsets, order)
        targets = _Targets(block, subscript, touched, offsets, None)
        if statement.op == "define":
            second = order[1:][again].min()
            bad = np.arange(offsets.size) == second
            self._refuse(targets, bad, "writes", _AGAIN)
        return targets

    def _plainly_distinct(self, free: Box) -> bool:
        """Whether the points write different elements: each wide index stands in the subscript."""
        plain = {e.name for e in self.statement.subscript if isinstance(e, Var)}
        return {name for name, (first, end) in free.items() if end - first > 1} <= plain

    def _refuse(
        self, targets: _Targets, bad: npt.NDArray[np.bool_], verb: str, reason: str
    ) -> None:
        """Raise BoundsError for the first of the touched points that is bad."""
        where = np.zeros(math.prod(targets.block.shape), np.bool_)
        where[targets.positions[bad]] = True
        block, statement = targets.block, self.statement
        shaped = where.reshape(block.shape)
        block.refuse(shaped, None, statement.array, targets.subscript, verb, reason, statement.span)

    # ------------------------------------------------------------ instances

    def _points(self, free: Box) -> Block:
        """The block of left-hand points."""
        shape = _shape(free)
        values = {
            name: index_array(first, end, axis, len(shape))
            for axis, (name, (first, end)) in enumerate(free.items())
        }
        return self._make(self.statement.free, values, shape)

    def _instances(self, free: Box, first: int, end: int) -> Block:
        """The block of the reduction's steps first..end at all left-hand points."""
        shape = (end - first, *_shape(free))
        values = {
            name: index_array(low, high, 1 + axis, len(shape))
            for axis, (name, (low, high)) in enumerate(free.items())
        }
        if self.reduction:
            steps = np.unravel_index(np.arange(first, end), _shape(self.reduction))
            for (name, (low, _)), step in zip(self.reduction.items(), steps, strict=True):
                if end - first == 1:
                    values[name] = int(step[0]) + low
                else:
                    values[name] = (step + low).reshape(-1, *[1] * len(free))
        return self._make(self.statement.indices, values, shape)

    def _make(
        self, indices: tuple[str, ...], values: dict[str, Value], shape: tuple[int, ...]
    ) -> Block:
        statement = self.statement
        return Block(
            statement.name,
            indices,
            values,
            shape,
            self.sizes,
            self.buffers,
            record=self.record,
            span=statement.span,
        )

    def _chunks(self, free: Box, most: int = BLOCK) -> Iterator[tuple[Block, Mask]]:
        """Blocks of the reduction's steps in order, with their masks; empty ones are left out."""
        size = max(1, most // _volume(free))
        for first in range(0, self.steps, size):
            block = self._instances(free, first, min(self.steps, first + size))
            some, mask = block.mask(self.statement.domain)
            if some:
                yield block, mask

    # ------------------------------------------------------------ execution

    def _in_memory(self, free: Box, targets: _Targets) -> None:
        """One step of the reduction after the other, each through memory."""
        assert targets.order is not None
        watch = None
        if _volume(free) > 1:
            instances = targets.positions[targets.order]
            watch = Written(self.statement.array, targets.offsets[targets.order], instances)
        before = self.elements[targets.offsets].copy()
        known = self.buffer.known(targets.offsets)
        try:
            for block, mask in self._chunks(free, most=1):
                block.written = watch
                value = block.value(self.statement.value, mask)
                here = targets.taken(
                    np.broadcast_to(True if mask is None else mask, block.shape)[0]
                )
                taken = targets.taken(np.broadcast_to(value, block.shape)[0])
                self._write(targets, taken[here], targets.offsets[here])
        except Conflict:
            self.elements[targets.offsets] = before
            self.buffer.know(targets.offsets, known)
            raise

    def _accumulate(self, free: Box, targets: _Targets) -> None:
        """The terms of a reduction added in order to accumulators, then stored."""
        old = self._old(targets, targets.offsets)
        total = np.zeros(math.prod(targets.block.shape), old.dtype)
        total[targets.positions] = old
        total = total.reshape(targets.block.shape)
        for block, mask in self._chunks(free):
            terms = np.broadcast_to(block.value(self.statement.value, mask), block.shape)
            where = None if mask is None else np.broadcast_to(mask, block.shape)
            for step in range(block.shape[0]):
                longer = self._join(total, terms[step])
                total = longer if where is None else np.where(where[step], longer, total)
        self.elements[targets.offsets] = store(targets.taken(total), self.type)
        self.buffer.know(targets.offsets, True)

    def _join(self, old: Value, value: Value) -> Value:
        return apply(self.statement.op, self.type, (old, value))

    def _old(self, targets: _Targets, offsets: Offsets) -> Value:
        """The elements that an update reads."""
        known = self.buffer.known(offsets)
        if not np.all(known):
            missing = offsets[~known]
            bad = np.isin(targets.offsets, missing)
            self._refuse(targets, bad, "reads", "which was never written")
        return load(self.elements[offsets], self.type)

    def _write(self, targets: _Targets, value: npt.NDArray[Any], offsets: Offsets) -> None:
        """Define or update the elements at `offsets`, in order where some agree."""
        update = self.statement.op != "define"
        if self.record is not None:
            element = tuple(int(i) for i in targets.subscript)
            access = (self.statement.name, targets.block.instance(), self.statement.array, element)
            for verb in ("read", "write") if update else ("write",):
                self.record(*access, verb)
        if not update:
            if self.defined is not None:
                if self.defined[offsets].any():
                    bad = self.defined[targets.offsets]
                    self._refuse(targets, bad, "writes", _AGAIN)
                self.defined[offsets] = True
            self.elements[offsets] = store(value, self.type)
        else:
            self._old(targets, offsets)
            for part in _rounds(offsets) if targets.order is None else (slice(None),):
                at = offsets[part]
                joined = self._join(load(self.elements[at], self.type), value[part])
                self.elements[at] = store(joined, self.type)
        self.buffer.know(offsets, True)


def _reads(array: str, exprs: tuple[Expr, ...]) -> bool:
    return any(isinstance(e, Read) and e.array == array for x in exprs for e in walk(x))


def _shape(box: Box) -> tuple[int, ...]:
    return tuple(end - first for first, end in box.values())


def _volume(box: Box) -> int:
    return math.prod(_shape(box))


def _halves(box: Box) -> tuple[Box, Box]:
    """The box cut along its outermost index that has more than one value."""
    name = next(n for n, (first, end) in box.items() if end - first > 1)
    first, end = box[name]
    middle = (first + end) // 2
    return {**box, name: (first, middle)}, {**box, name: (middle, end)}


def _rounds(offsets: Offsets) -> Iterator[Offsets]:
    """Places in `offsets` such that each round has different ones and repetitions keep order."""
    order = np.argsort(offsets, kind="stable")
    ordered = offsets[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    repetition = np.arange(offsets.size) - np.repeat(starts, np.diff(np.r_[starts, offsets.size]))
    by_round = np.argsort(repetition, kind="stable")
    ends = np.cumsum(np.bincount(repetition))
    for first, end in zip(np.r_[0, ends[:-1]], ends, strict=True):
        yield order[by_round[first:end]]
