"""One argument of a call: its type, shape, strides and place; or why it cannot be taken.

The rules are those of `tdsl.runtime.arguments`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isinf
from typing import Any

import numpy as np

from tdsl.ir.dtypes import record_text
from tdsl.ir.lowfloat import to_bf16
from tdsl.ir.steps import filled, share_elements
from tdsl.runtime.interface import Argument, SizePlan
from tdsl.runtime.memory import Array, address, empty, empty_strided

BEYOND = (1 << 1024) - (1 << 970)  # the least integer that f64 rounds to infinity


@dataclass(frozen=True)
class Values:
    """Checks single arguments. `name`: the kernel's, for messages."""

    name: str
    plan: SizePlan

    def value(self, argument: Argument, value: Any) -> Array:
        if argument.rank == 0 and not argument.is_written and not isinstance(value, np.ndarray):
            return self._scalar(argument, value)
        return self._array(argument, value)

    def _array(self, argument: Argument, value: Any) -> Array:
        name, dtype = argument.name, argument.dtype
        if not isinstance(value, np.ndarray) or isinstance(value, np.ma.MaskedArray):
            advice = "" if argument.is_written else f"; np.asarray(..., dtype=np.{dtype}) makes one"
            got = described(value) + advice
            raise self.wrong(name, _expected(argument), got, TypeError)
        array = value
        if argument.elem == "bf16" and array.dtype.name == "bfloat16":
            array = array.view(dtype)
        if array.dtype != dtype:
            got = f"{array.dtype}{_order(array)}"
            raise self.wrong(name, _expected(argument), got, TypeError)
        if array.ndim != argument.rank:
            order = f", stored {argument.layout}" if argument.layout else ""
            raise self.wrong(
                name,
                f"{_dimensions(argument.rank)}{order}",
                f"{array.ndim}, of shape {array.shape}",
            )
        if argument.is_written or argument.strided:
            self._usable(argument, array)
            return array
        if not array.flags.c_contiguous or address(array) % argument.alignment:
            copied = empty(array.shape, dtype)
            copied[...] = array
            return copied
        return array

    def _usable(self, argument: Argument, array: Array) -> None:
        """What is not copied is as it has to be."""
        because = "since it is written" if argument.is_written else "since its strides are declared"
        if argument.is_written and not array.flags.writeable:
            raise self.wrong(argument.name, "an array that may be written", "a read-only one")
        if not argument.strided and not array.flags.c_contiguous:
            raise self.wrong(
                argument.name,
                f"a C-contiguous array, {because}",
                f"strides {array.strides} with shape {array.shape}",
            )
        if address(array) % argument.alignment and (array.size or not argument.strided):
            raise self.wrong(
                argument.name,
                f"an address that is a multiple of {argument.alignment}, {because}",
                f"{address(array):#x}",
            )

    def steps(self, argument: Argument, array: Array, sizes: Mapping[str, int]) -> None:
        """The strides are those that are declared; a dimension of one element has any."""
        wanted = self.plan.strides(argument.name, sizes)
        assert wanted is not None
        item = array.itemsize
        if array.size == 0:
            return
        for place, (step, want) in enumerate(zip(array.strides, wanted, strict=True)):
            if array.shape[place] < 2:
                continue
            if step % item:
                raise self.wrong(
                    argument.name,
                    f"strides of whole elements of {item} bytes",
                    f"strides {array.strides} in bytes",
                )
            if want is not None and step != want * item:
                raise self.wrong(
                    argument.name,
                    f"a stride of {want} elements in dimension {place}",
                    f"{step // item}, with shape {array.shape}",
                )
        steps = [s // item for s in array.strides]
        if argument.is_written and share_elements(array.shape, steps):
            raise self.wrong(
                argument.name,
                "elements apart in memory, since it is written",
                f"strides {array.strides} with shape {array.shape}",
            )

    def _scalar(self, argument: Argument, value: Any) -> Array:
        """A number as an array of rank 0: NumPy's by exact type, Python's where it fits."""
        expected = f"a number of type {argument.elem}"
        if isinstance(value, np.generic):
            return self._array(argument, np.asarray(value))
        dtype = argument.dtype
        integral = isinstance(value, int) and not isinstance(value, bool)
        is_float = argument.elem == "bf16" or dtype.kind == "f"
        if is_float and (integral or isinstance(value, float)):
            return self._float(argument, value)
        match dtype.kind:
            case "b":
                fits = isinstance(value, bool)
            case _:
                fits = integral
        if not fits:
            raise self.wrong(argument.name, expected, described(value), TypeError)
        if dtype.kind in "iu" and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
            raise self.wrong(argument.name, expected, f"{value}, which it cannot hold")
        return np.asarray(value, dtype)

    def _float(self, argument: Argument, value: float) -> Array:
        """The nearest number of a floating-point type; refused where there is none."""
        is_bf16 = argument.elem == "bf16"
        expected = f"a number of type {argument.elem}"
        if isinstance(value, int) and abs(value) >= BEYOND:
            raise self.wrong(argument.name, expected, "an integer beyond its largest number")
        wide = float(value)
        with np.errstate(over="ignore"):
            made = np.asarray(to_bf16(wide) if is_bf16 else wide, argument.dtype)
        infinite = int(made) & 0x7FFF == 0x7F80 if is_bf16 else np.isinf(made)
        if infinite and not isinf(wide):
            raise self.wrong(argument.name, expected, f"{value}, beyond its largest number")
        return made

    def allocate(
        self,
        argument: Argument,
        shape: tuple[int, ...],
        strides: Sequence[int | None] | None,
    ) -> Array:
        try:
            if strides is not None:
                return empty_strided(shape, argument.dtype, filled(shape, strides))
            if argument.layout:  # what lies between its elements is 0
                made = empty(shape, argument.dtype)
                made.fill(0)
                return made
            return empty(shape, argument.dtype)
        except (MemoryError, ValueError) as error:
            raise MemoryError(
                f"{self.name}: no memory for {argument.name!r} of shape {shape}"
            ) from error

    def wrong(
        self,
        name: str,
        expected: str,
        got: str,
        error: Callable[[str], Exception] = ValueError,
    ) -> Exception:
        return error(f"{self.name}: argument {name!r}: expected {expected}, got {got}")


def _expected(argument: Argument) -> str:
    kind = "bf16 (uint16 bit patterns)" if argument.elem == "bf16" else str(argument.dtype)
    if argument.record is not None:
        kind = f"{argument.elem} ({record_text(argument.record)})"
    return f"{kind} array of {_dimensions(argument.rank)}"


def _dimensions(rank: int) -> str:
    return f"{rank} dimension" if rank == 1 else f"{rank} dimensions"


def described(value: Any) -> str:
    if isinstance(value, np.ma.MaskedArray):
        return "a masked array"
    if isinstance(value, np.generic):
        return f"a number of type {value.dtype}"
    if value is None or isinstance(value, (bool, int, float)):
        return f"{value!r}"
    return f"a value of type {type(value).__name__}"


def _order(array: Array) -> str:
    if array.dtype.isnative:
        return ""
    return " of the other byte order; x.astype(x.dtype.newbyteorder('=')) has this machine's"
