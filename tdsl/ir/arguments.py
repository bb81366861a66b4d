"""The sizes of a call from the shapes of its arrays, and the checks of a call that need no C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tdsl.ir.dtypes import record_text, storage_dtype
from tdsl.ir.interp_ops import load
from tdsl.ir.intervals import evaluate
from tdsl.ir.kernel import Array, Const, Expr, Kernel, Op, Size, walk
from tdsl.ir.laid_out import laid_out, layout_text, natural
from tdsl.ir.printer import print_expr
from tdsl.ir.steps import filled, shape_of, strides_of, written_strides

LIMIT = 1 << 40  # sizes are below


@dataclass(frozen=True)
class _Argument:
    array: Array
    dtype: np.dtype[Any]
    required: bool


@dataclass(frozen=True)
class _Source:
    """A dimension whose extent (or stride) is coefficient * size + offset."""

    size: str
    argument: str
    dimension: int
    coefficient: int
    offset: int
    stride: bool = False

    @property
    def rank(self) -> tuple[bool, bool]:
        """Extents before strides, plain ones before linear ones."""
        return self.stride, (self.coefficient, self.offset) != (1, 0)


class ArgumentPlan:
    """What a kernel expects of its arguments, worked out once for many calls.

    An `out` argument may be absent (the caller makes it); when it is there it is checked and its
    shape may determine sizes like any other. Extents that are negative count as 0. A size that
    is a stride and no extent follows from the array's strides; where no array tells it, the
    array's elements are taken to lie close together.
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
            self._known(name)
        sizes = self._given(given or {})
        self._solve(arrays, sizes)
        self._complete(sizes)
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
        self._complete(sizes)
        return sizes

    def shape(self, name: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of an argument for these sizes, as the caller sees it."""
        return shape_of(self._arguments[name].array, sizes)

    def strides(self, name: str, sizes: Mapping[str, int]) -> tuple[int | None, ...] | None:
        """The strides of an argument in elements, None for a free one; None where it is
        row-major and contiguous."""
        return strides_of(self._arguments[name].array, sizes)

    @property
    def layouts(self) -> dict[str, str]:
        """The storage orders of arguments that a schedule lays out."""
        found = {n: layout_text(a.array) for n, a in self._arguments.items()}
        return {name: text for name, text in found.items() if text}

    def laid_out(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The values of an argument as it is stored: themselves where it has no layout."""
        array = self._known(name).array
        if array.layout is None:
            return values
        self._check_rank(array, len(array.layout[0]), values)
        return laid_out(array, values)

    def natural(
        self, name: str, stored: npt.NDArray[Any], shape: tuple[int, ...]
    ) -> npt.NDArray[Any]:
        """The values of this shape of an argument as it is stored."""
        array = self._known(name).array
        if array.layout is None:
            return stored
        self._check_rank(array, len(array.layout[1]), stored)
        return natural(array, stored, shape)

    def _known(self, name: str) -> _Argument:
        if name not in self._arguments:
            known = ", ".join(self._arguments)
            raise TypeError(f"{self.kernel.name} has no argument '{name}' (it has {known})")
        return self._arguments[name]

    def _check_rank(self, array: Array, rank: int, values: object) -> None:
        name = f"{self.kernel.name}: argument '{array.name}'"
        if not isinstance(values, np.ndarray):
            raise TypeError(f"{name}: expected a NumPy array, got {type(values).__name__}")
        if values.ndim != rank:
            raise ValueError(
                f"{name}: expected {rank} dimensions, got {values.ndim} "
                f"(shape {list(values.shape)})"
            )

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
            array = arrays[source.argument]
            extent, word = array.shape[source.dimension], "dimension"
            if source.stride:
                if extent < 2 or not array.size or array.strides[source.dimension] % array.itemsize:
                    continue  # any stride will do, or none
                extent, word = array.strides[source.dimension] // array.itemsize, "stride"
            value, rest = divmod(extent - source.offset, source.coefficient)
            place = f"{word} {source.dimension} of '{source.argument}' is {extent}"
            if rest:
                form = self._form(source)
                raise ValueError(
                    f"{self.kernel.name}: argument '{source.argument}': expected {form}, "
                    f"but {place}"
                )
            sizes[source.size] = self._in_range(source.size, value, place)

        for group in self._arguments.values():
            self._divide(group.array, arrays, sizes)

    def _divide(
        self, array: Array, arrays: Mapping[str, npt.NDArray[Any]], sizes: dict[str, int]
    ) -> None:
        """Add the only size of a group that is not known."""
        if array.name not in arrays:
            return
        for dimension, group in enumerate(array.grouped):
            unknown = {s for e in group for s in _sizes_of(e) if s not in sizes}
            plain = [e for e in group if isinstance(e, Size) and e.name in unknown]
            rest = [e for e in group if e not in plain]
            if len(group) < 2 or len(unknown) != 1 or len(plain) != 1:
                continue
            extent = arrays[array.name].shape[dimension]
            others = prod(evaluate(e, sizes, {}) for e in rest)
            place = f"dimension {dimension} of '{array.name}' is {extent}"
            if others > 0 and extent % others:
                raise ValueError(
                    f"{self.kernel.name}: argument '{array.name}': expected a multiple of "
                    f"{others} = {dimension_text(tuple(rest))}, but {place}"
                )
            if others > 0:
                sizes[plain[0].name] = self._in_range(plain[0].name, extent // others, place)

    def _form(self, source: _Source) -> str:
        array = self._arguments[source.argument].array
        if source.stride:
            stride = (written_strides(array) or ())[source.dimension]
            return stride if isinstance(stride, str) else print_expr(stride)
        return print_expr(array.grouped[source.dimension][0])

    def _complete(self, sizes: dict[str, int]) -> None:
        """Strides that no array tells, for arrays close together."""
        for source in self._sources:
            if not source.stride or source.size in sizes:
                continue
            array = self._arguments[source.argument].array
            extents = {s for e in array.shape for s in _sizes_of(e)}
            if extents <= sizes.keys():
                known = strides_of(array, sizes)
                assert known is not None
                wanted = filled(shape_of(array, sizes), known)[source.dimension] - source.offset
                sizes[source.size] = max(0, -(-wanted // abs(source.coefficient)))

    def _check_shape(self, name: str, got: tuple[int, ...], sizes: Mapping[str, int]) -> None:
        expected = self.shape(name, sizes)
        if got == expected:
            return
        array = self._arguments[name].array
        form = ", ".join(map(dimension_text, array.grouped))
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
            wanted = str(argument.dtype)
            if argument.array.type.fields:
                wanted = record_text(argument.dtype)
            raise TypeError(f"{name}: expected dtype {wanted}{held}, got {value.dtype}")
        rank = len(argument.array.grouped)
        if value.ndim != rank:
            raise ValueError(
                f"{name}: expected {rank} dimensions, got {value.ndim} (shape {list(value.shape)})"
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


def dimension_text(group: tuple[Expr, ...]) -> str:
    """A dimension of the caller's array, `G * CG` for a group."""
    texts = [print_expr(e) for e in group]
    if len(group) == 1:
        return texts[0]
    return " * ".join(
        f"({t})" if isinstance(e, Op) else t for e, t in zip(group, texts, strict=True)
    )


def _sources(kernel: Kernel) -> tuple[_Source, ...]:
    """Dimensions and strides that determine a size."""
    found = []
    extents = {s for a in kernel.arguments for e in a.shape for s in _sizes_of(e)}
    for array in kernel.arguments:
        for dimension, group in enumerate(array.grouped):
            linear = _linear(group[0]) if len(group) == 1 else None
            if linear is not None and linear[0] is not None and linear[1] != 0:
                found.append(_Source(linear[0], array.name, dimension, linear[1], linear[2]))
        for dimension, stride in enumerate(written_strides(array) or ()):
            linear = None if isinstance(stride, str) else _linear(stride)
            if linear is None or linear[0] is None or linear[1] == 0 or linear[0] in extents:
                continue
            found.append(_Source(linear[0], array.name, dimension, linear[1], linear[2], True))
    return tuple(sorted(found, key=lambda s: s.rank))


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
        case Op("neg", (a,)):
            inner = _linear(a)
            return None if inner is None else (inner[0], -inner[1], -inner[2])
        case Op("mul", (a, b)):
            left, right = _linear(a), _linear(b)
            if left is None or right is None or (left[0] and right[0]):
                return None
            if left[0] is None:
                left, right = right, left
            return left[0], left[1] * right[2], left[2] * right[2]
        case _:
            return None
