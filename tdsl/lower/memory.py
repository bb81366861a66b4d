"""Where array elements are: buffers, and offsets in elements in the normal form."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tdsl.ir.index import ZERO, mul, simplify
from tdsl.ir.kernel import INDEX, Array, Const, Expr, Kernel, Op, Size
from tdsl.ir.types import BOOL, U8, ElemType
from tdsl.ir.vector import Buffer


def stored_type(elem: ElemType) -> ElemType:
    """How an element lies in memory: a bool is a byte, 0 or 1."""
    return U8 if elem == BOOL else elem


def buffer(array: Array, of_threads: bool = False) -> Buffer:
    """The memory of an array; `of_threads`: new in the iterations of a parallel loop."""
    values = array.values
    if values is not None and array.type == BOOL:
        values = tuple(int(v) for v in values)
    elem = stored_type(array.type)
    return Buffer(
        array.name, elem, array.shape, array.role, values, array.align, array.range,
        array.strides, array.groups, array.field, array.layout,
        per_thread=of_threads and array.role in ("stack", "scratch"),
    )  # fmt: skip


def buffers(
    kernel: Kernel, arrays: Iterable[Array], of_threads: Collection[str]
) -> Iterator[Buffer]:
    """The memory of all arrays; records stand before the first of their fields."""
    records: set[str] = set()
    for array in arrays:
        if array.field is not None and array.field[0] not in records:
            records.add(array.field[0])
            yield buffer(kernel.array(array.field[0]))
        yield buffer(array, array.name in of_threads)


@dataclass(frozen=True)
class Place:
    """An array with its strides in elements."""

    array: Array
    strides: tuple[Expr, ...]

    def offset(self, subscript: Sequence[Expr]) -> Expr:
        """Offset of an element from the start of the buffer."""
        total: Expr = ZERO
        for index, stride in zip(subscript, self.strides, strict=True):
            total = Op("add", (total, Op("mul", (index, stride), INDEX)), INDEX)
        return simplify(total)

    def entry(self, offset: Expr) -> int | float | None:
        """The constant at an offset that is a number, where the array is a table."""
        values, type = self.array.values, self.array.type
        if values is None or not isinstance(offset, Const) or (type.is_float and type.bits < 32):
            return None
        if not 0 <= int(offset.value) < len(values):
            return None  # of a copy that never runs
        value = values[int(offset.value)]
        return int(value) if type == BOOL else value


def place(array: Array) -> Place:
    """Row-major strides, or those that the array declares."""
    if array.strides is not None:
        return Place(array, tuple(Size(s) if isinstance(s, str) else s for s in array.strides))
    strides: list[Expr] = []
    for position in range(len(array.shape)):
        strides.append(mul(*array.shape[position + 1 :]))
    return Place(array, tuple(strides))
