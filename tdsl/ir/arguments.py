"""The sizes of a call from the shapes of its arrays, and the checks of a call that need no C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tdsl.ir.dtypes import storage_dtype
from tdsl.ir.interp_ops import load
from tdsl.ir.intervals import evaluate
from tdsl.ir.kernel import Array, Const, Expr, Kernel, Op, Size, walk
from tdsl.ir.printer import print_expr

LIMIT = 1 << 40  # sizes are below


@dataclass(frozen=True)
class _Argument:
    array: Array
    dtype: np.dtype[Any]
    required: bool


@dataclass(frozen=True)
class _Source:
    """A dimension whose extent is coefficient * size + offset."""

    size: str
    argument: str
    dimension: int
    coefficient: int
    offset: int


class ArgumentPlan:
    """What a kernel expects of its arguments, worked out once for many calls.

    An `out` argument may be absent (the caller makes it); when it is there it is checked and its
    shape may determine sizes like any other. Extents that are negative count as 0.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._bound = dict(kernel.bound)
        self._arguments = {
            a.name: _Argument(a, storage_dtype(a.type), a.role != "out") for a in kernel.arguments
        }
        self._sources = _sources(kernel)

    def sizes(
        self, arrays: Mapping[str, npt.NDArray[Any]], given: Mapping[str, int] | None = None
    ) -> dict[str, int]:
        """The unbound sizes, from the shapes and from those `given` by keyword.

        Raises TypeError for an argument that is missing, unknown, no array or of another element
        type; ValueError for shapes and sizes that do not fit together or break an assumption.
        """
        for name, argument in self._arguments.items():
            if name in arrays:
                self._check_array(argument, arrays[name])
            elif argument.required:
                raise TypeError(f"{self.kernel.name}: the argument '{name}' is missing")
        for name in arrays:
            if name not in self._arguments:
                known = ", ".join(self._arguments)
                raise TypeError(f"{self.kernel.name} has no argument '{name}' (it has {known})")
        sizes = self._given(given or {})
        self._solve(arrays, sizes)
        missing = [name for name in self.kernel.sizes if name not in sizes]
        if missing:
            names = ", ".join(missing)
            raise TypeError(
                f"{self.kernel.name}: no shape determines the size {names}; "
                f"pass it by keyword ({missing[0]}=...)"
            )
        for name in arrays:
            self._check_shape(name, arrays[name].shape, sizes)
        for assumption in self.kernel.assumptions:
            if not evaluate(assumption, sizes, {}):
                used = _sizes_of(assumption)
                values = ", ".join(f"{s} = {sizes[s]}" for s in used)
                what = print_expr(assumption)
                raise ValueError(
                    f"{self.kernel.name} assumes {what}, which does not hold: {values}"
                )
        return sizes

    def known(
        self, arrays: Mapping[str, npt.NDArray[Any]], given: Mapping[str, int] | None = None
    ) -> dict[str, int]:
        """The sizes that some of the arguments determine, and those given; others are left out."""
        for name, array in arrays.items():
            self._check_array(self._arguments[name], array)
        sizes = self._given(given or {})
        self._solve(arrays, sizes)
        return sizes

    def shape(self, name: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of an argument for these sizes."""
        shape = self._arguments[name].array.shape
        return tuple(max(0, evaluate(e, sizes, {})) for e in shape)

    def check_ranges(
        self, arrays: Mapping[str, npt.NDArray[Any]], sizes: Mapping[str, int]
    ) -> None:
        """Raise ValueError where an argument holds a value outside the range it promises."""
        for name, argument in self._arguments.items():
            promised = argument.array.range
            if promised is None or name not in arrays or argument.array.role == "out":
                continue
            low, high = (evaluate(e, sizes, {}) for e in promised)
            values = np.asarray(load(arrays[name], argument.array.type))
            bad = ~((values >= low) & (values < high))
            if bad.any():
                place = [int(i) for i in np.argwhere(bad)[0]]
                raise ValueError(
                    f"{self.kernel.name}: argument '{name}': expected values in {low}..{high}, "
                    f"got {values[tuple(place)]} at {place}"
                )

    def _given(self, given: Mapping[str, int]) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for name, value in given.items():
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise TypeError(
                    f"{self.kernel.name}: size '{name}': expected an integer, got {value!r}"
                )
            if name in self._bound:
                if value != self._bound[name]:
                    raise ValueError(
                        f"{self.kernel.name}: size '{name}': it is bound to "
                        f"{self._bound[name]}, got {value}"
                    )
            elif name not in self.kernel.sizes:
                raise TypeError(f"{self.kernel.name} has no size '{name}'")
            else:
                sizes[name] = self._in_range(name, int(value), "it was given")
        return sizes

    def _solve(self, arrays: Mapping[str, npt.NDArray[Any]], sizes: dict[str, int]) -> None:
        """Add the sizes that a shape determines; those given stay, and are checked later."""
        for source in self._sources:
            if source.size in sizes or source.argument not in arrays:
                continue
            extent = arrays[source.argument].shape[source.dimension]
            value, rest = divmod(extent - source.offset, source.coefficient)
            place = f"dimension {source.dimension} of '{source.argument}' is {extent}"
            if rest:
                form = print_expr(self._arguments[source.argument].array.shape[source.dimension])
                raise ValueError(
                    f"{self.kernel.name}: argument '{source.argument}': expected {form}, "
                    f"but {place}"
                )
            sizes[source.size] = self._in_range(source.size, value, place)

    def _check_shape(self, name: str, got: tuple[int, ...], sizes: Mapping[str, int]) -> None:
        expected = self.shape(name, sizes)
        if got == expected:
            return
        array = self._arguments[name].array
        form = ", ".join(print_expr(e) for e in array.shape)
        used = dict.fromkeys(s for e in array.shape for s in _sizes_of(e))
        where = ", ".join(f"{s} = {sizes[s]}" for s in used)
        where = f" with {where}" if where else ""
        raise ValueError(
            f"{self.kernel.name}: argument '{name}': expected shape {list(expected)} = "
            f"[{form}]{where}, got {list(got)}"
        )

    def _in_range(self, name: str, value: int, reason: str) -> int:
        if not 0 <= value < LIMIT:
            raise ValueError(
                f"{self.kernel.name}: size '{name}': expected 0 <= {name} < 2**40, "
                f"got {value} ({reason})"
            )
        return value

    def _check_array(self, argument: _Argument, value: object) -> None:
        name = f"{self.kernel.name}: argument '{argument.array.name}'"
        if not isinstance(value, np.ndarray):
            kind = type(value).__name__
            raise TypeError(f"{name}: expected a NumPy array, got {kind}")
        if value.dtype != argument.dtype:
            held = " (bf16 bit patterns)" if argument.array.type.name == "bf16" else ""
            raise TypeError(f"{name}: expected dtype {argument.dtype}{held}, got {value.dtype}")
        if value.ndim != len(argument.array.shape):
            raise ValueError(
                f"{name}: expected {len(argument.array.shape)} dimensions, "
                f"got {value.ndim} (shape {list(value.shape)})"
            )


def check_arguments(
    kernel: Kernel,
    arrays: Mapping[str, npt.NDArray[Any]],
    given: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """`ArgumentPlan(kernel).sizes(arrays, given)`, for a single call."""
    return ArgumentPlan(kernel).sizes(arrays, given)


def sizes_told_by(kernel: Kernel, roles: frozenset[str]) -> frozenset[str]:
    """The unbound sizes that the shapes of arguments of these roles determine."""
    names = {a.name for a in kernel.arguments if a.role in roles}
    return frozenset(s.size for s in _sources(kernel) if s.argument in names)


def _sizes_of(expr: Expr) -> list[str]:
    return list(dict.fromkeys(e.name for e in walk(expr) if isinstance(e, Size)))


def _sources(kernel: Kernel) -> tuple[_Source, ...]:
    """Dimensions that determine a size; plain ones come first, then linear ones."""
    found = []
    for array in kernel.arguments:
        for dimension, extent in enumerate(array.shape):
            linear = _linear(extent)
            if linear is not None and linear[0] is not None and linear[1] != 0:
                found.append(_Source(linear[0], array.name, dimension, linear[1], linear[2]))
    return tuple(sorted(found, key=lambda s: (s.coefficient, s.offset) != (1, 0)))


def _linear(expr: Expr) -> tuple[str | None, int, int] | None:
    """(size, coefficient, offset) of an expression that is linear in at most one size."""
    match expr:
        case Const(value):
            return None, 0, int(value)
        case Size(name):
            return name, 1, 0
        case Op("add" | "sub" as op, (a, b)):
            left, right = _linear(a), _linear(b)
            sign = 1 if op == "add" else -1
            if left is None or right is None or (left[0] and right[0] and left[0] != right[0]):
                return None
            return left[0] or right[0], left[1] + sign * right[1], left[2] + sign * right[2]
        case Op("mul", (a, b)):
            left, right = _linear(a), _linear(b)
            if left is None or right is None or (left[0] and right[0]):
                return None
            if left[0] is None:
                left, right = right, left
            return left[0], left[1] * right[2], left[2] * right[2]
        case _:
            return None
