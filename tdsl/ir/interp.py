"""The oracle: runs a kernel in program order in NumPy. It knows nothing of schedules.

Instances of a statement run in lexicographic order of its indices, and every operation rounds
once in its element type. What is exact is done for many instances at once: the left-hand indices
form a block of instances that write different elements; the terms of a reduction are evaluated
together but added one after the other. Where an instance reads what another of its block writes,
or two write one element, the block is halved along its outermost index and the halves run in
order, down to single instances.

The oracle checks itself: an access outside its array, a read of an element that was never
written, an element of an output that is missed, or one that a definition writes twice, is a
BoundsError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tdsl.diagnostics import BoundsError
from tdsl.ir.arguments import ArgumentPlan
from tdsl.ir.dtypes import storage_dtype
from tdsl.ir.interp_block import Buffer, Recorder
from tdsl.ir.interp_ops import constant, store
from tdsl.ir.interp_statement import StatementRun
from tdsl.ir.intervals import Box, bounding_box, evaluate
from tdsl.ir.kernel import Array, BodyItem, Const, Kernel, Nest, Statement
from tdsl.ir.steps import shape_of


def reference(
    kernel: Kernel,
    sizes: Mapping[str, int],
    arrays: Mapping[str, npt.NDArray[Any]],
    record: Recorder | None = None,
) -> dict[str, npt.NDArray[Any]]:
    """What the kernel computes: all its `out` and `inout` arrays. The arguments stay as they are.

    `arrays` holds every argument that is read (`out` arrays are not needed); `sizes` those that
    no shape determines, others may be given too. `record` is called with (statement, instance,
    array, element, "read" or "write") for every access in program order, an update's read of its
    own element and the writes of `S.init` included; an instance lists the values of the
    statement's indices. Recording runs one instance after the other.
    """
    plan = ArgumentPlan(kernel)
    known = plan.sizes(arrays, sizes)
    plan.check_ranges(arrays, known)
    machine = _Machine(kernel, known, arrays, record)
    with np.errstate(all="ignore"):
        machine.run(kernel.body, {})
    return machine.results()


class _Machine:
    """The state of a run: the buffers."""

    def __init__(
        self,
        kernel: Kernel,
        sizes: Mapping[str, int],
        arrays: Mapping[str, npt.NDArray[Any]],
        record: Recorder | None,
    ) -> None:
        self.kernel = kernel
        self.sizes = sizes
        self.record = record
        self.buffers: dict[str, Buffer] = {}
        for array in kernel.arrays:
            if array.local is None and not array.type.fields:
                self.buffers[array.name] = self._allocate(array, arrays, {})

    def _allocate(
        self, array: Array, arrays: Mapping[str, npt.NDArray[Any]], indices: Mapping[str, int]
    ) -> Buffer:
        shape = tuple(max(0, evaluate(e, self.sizes, indices)) for e in array.shape)
        dtype = storage_dtype(array.type)
        match array.role:
            case "in" | "const":
                return Buffer(array, np.ascontiguousarray(_given(array, arrays)).reshape(shape))
            case "inout":
                return Buffer(array, np.array(_given(array, arrays), order="C").reshape(shape))
            case "table":
                values = [constant(Const(v, array.type)) for v in array.values or ()]
                stored = [store(v, array.type) for v in values]
                return Buffer(array, np.array(stored, dtype=dtype).reshape(shape))
            case "out" | "temp":
                return Buffer(array, np.zeros(shape, dtype), np.zeros(shape, np.bool_))
            case role:
                raise ValueError(f"{array.name} has the unknown role {role}")

    def results(self) -> dict[str, npt.NDArray[Any]]:
        """The outputs; refuses one with an element that was never written."""
        results = {}
        for array in self.kernel.arrays:
            if not array.is_written:
                continue
            shape = shape_of(array, self.sizes)
            if array.type.fields:
                results[array.name] = np.zeros(shape, storage_dtype(array.type))
                continue
            buffer = self.buffers[array.name]
            if buffer.written is not None and not buffer.written.all():
                element = [int(i) for i in np.argwhere(~buffer.written)[0]]
                message = f"the output element {array.name}{element} is never written"
                raise BoundsError.at(array.span, message)
            if array.field is not None:
                record = array.field[0]
                results[record][array.name.removeprefix(f"{record}.")] = buffer.data
            else:
                results[array.name] = buffer.data.reshape(shape)
        return results

    # ------------------------------------------------------------ order

    def run(self, body: tuple[BodyItem, ...], indices: dict[str, int]) -> None:
        """Everything in `body`, inside loops whose indices have these values."""
        for item in body:
            match item:
                case Statement():
                    self._statement(item, indices)
                case Nest():
                    self._nest(item, indices)

    def _nest(self, nest: Nest, indices: dict[str, int]) -> None:
        low = evaluate(nest.lo, self.sizes, indices)
        high = evaluate(nest.hi, self.sizes, indices)
        values = range(high - 1, low - 1, -nest.step) if nest.down else range(low, high, nest.step)
        fresh = [a for a in self.kernel.arrays if a.local == nest.index]
        for value in values:
            inside = {**indices, nest.index: value}
            for array in fresh:
                self.buffers[array.name] = self._allocate(array, {}, inside)
            self.run(nest.body, inside)

    def _statement(self, statement: Statement, indices: dict[str, int]) -> None:
        if statement.init is not None:
            self._run(_initialization(statement), indices)
        self._run(statement, indices)

    def _run(self, statement: Statement, indices: dict[str, int]) -> None:
        own = [i for i in statement.indices if i not in indices]
        fixed = {i: indices[i] for i in statement.indices if i in indices}
        box = bounding_box(statement.domain, own, self.sizes, fixed) if own else {}
        if box is None:
            return
        ranges: Box = {name: (value, value + 1) for name, value in fixed.items()}
        ranges.update(box)
        StatementRun(statement, ranges, self.sizes, self.buffers, self.record).run()


def _given(array: Array, arrays: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """The argument, or the field of one of records."""
    if array.field is None:
        return arrays[array.name]
    record = array.field[0]
    found: npt.NDArray[Any] = arrays[record][array.name.removeprefix(f"{record}.")]
    return found


def _initialization(statement: Statement) -> Statement:
    """S.init: the identity at every left-hand point."""
    assert statement.init is not None
    return replace(
        statement,
        name=f"{statement.name}.init",
        indices=statement.free,
        domain=statement.outer,
        op="define",
        value=statement.init,
        reduction=(),
        init=None,
    )
