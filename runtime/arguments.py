"""What a call hands over: checked, sized, and in the order of the C function.

Rules, the same for compiled and emulated kernels:

- An array has exactly the declared element type, in this machine's byte order. Nothing is
  converted. A bf16 array is uint16 bit patterns, or of a type named bfloat16.
- An input that is not C-contiguous or not aligned is copied for the call.
- An output or inout array must be writable, C-contiguous and aligned, and may not share memory
  with any other argument; inputs may share memory with one another.
- An argument that declares strides is taken as it lies in memory, never copied: its strides are
  what the declaration says, in whole elements. From its lowest to its highest byte it may not share
  memory with what is written; no two elements of an output lie in one place.
- An output that is not given is made. Python numbers are taken for arguments of rank 0.
- Wrong types are a TypeError, wrong shapes, sizes and places in memory a ValueError.
"""

from __future__ import annotations

import collections
import difflib
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tdsl.runtime.interface import SIZE_LIMIT, Argument, Entry, SizePlan
from tdsl.runtime.memory import Array, bytes_of
from tdsl.runtime.status import status_error
from tdsl.runtime.values import Values, described

REMEMBERED = 256  # calls of other shapes or strides, and then they are forgotten


@dataclass(frozen=True)
class Bound:
    """Arguments of one call. `values`: arrays and numbers in C order, `sizes` those of C.

    `given` are the caller's own array objects (or the new outputs), which is what the call returns.
    `free`: for each argument the strides that C is given.
    """

    values: tuple[Any, ...]
    given: tuple[Any, ...]
    sizes: tuple[int, ...]
    free: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Found:
    """What the shapes and strides of a call say: all sizes, and for the outputs that it makes their
    shapes, and strides where they are declared."""

    sizes: Mapping[str, int]
    made: Mapping[str, tuple[tuple[int, ...], tuple[int | None, ...] | None]]


class Checker:
    """Checks the arguments of one entry. `prepared`: those that all its calls have."""

    def __init__(
        self, entry: Entry, plan: SizePlan, prepared: Mapping[str, Any] | None = None
    ) -> None:
        self.entry = entry
        self._prepared = dict(prepared or {})
        self.plan = plan
        self._values = Values(entry.name, plan)
        self._arguments = {a.name: a for a in entry.arguments}
        self._bound_sizes = dict(entry.bound)
        self.size_names = (*entry.sizes, *self._bound_sizes)
        self._seen: dict[Any, Found] = {}
        self.give = _giver(entry)

    def refused(self, bound: Bound, status: int) -> Exception:
        """What a status other than 0 says. Values that break a promise are named."""
        if status == 2:
            arrays = {
                a.name: np.asarray(value, a.dtype)
                for a, value in zip(self.entry.arguments, bound.values, strict=True)
            }
            try:
                self.plan.check_ranges(
                    arrays, dict(zip(self.entry.sizes, bound.sizes, strict=True))
                )
            except ValueError as error:
                return error
        return status_error(self.entry, status)

    def prepare_refused(self, bound: Bound, status: int) -> Exception:
        """The same for a status of `NAME_prepare`, and what `bind_const` made."""
        if status == 2:
            arrays = {
                a.name: np.asarray(value, a.dtype)
                for a, value in zip(self.entry.constants, bound.values, strict=True)
            }
            try:
                self.plan.check_ranges(
                    arrays, dict(zip(self.entry.sizes, bound.sizes, strict=True))
                )
            except ValueError as error:
                return error
        return status_error(self.entry, status)

    # ------------------------------------------------------------ names

    def bind_const(self, keywords: Mapping[str, Any]) -> Bound:
        """The const arguments, all by keyword, and the sizes that they tell; others are 0."""
        name = self.entry.name
        const = {a.name: a for a in self.entry.constants}
        if not const:
            raise TypeError(f"{name}: it has no const arguments, so that nothing can be prepared")
        for given in keywords:
            if given in self._arguments and given not in const:
                raise TypeError(
                    f"{name}: argument {given!r} belongs to each call; "
                    f"prepare takes the const {_listed('argument', list(const))}"
                )
            if given not in const and given not in self.size_names:
                raise self._unknown(given, (*const, *self.size_names))
        missing = [n for n in const if keywords.get(n) is None]
        if missing:
            raise TypeError(f"{name}: missing {_listed('argument', missing)}")
        sizes = {n: self._size(n, v) for n, v in keywords.items() if n not in const}
        arrays = {n: self._values.value(a, keywords[n]) for n, a in const.items()}
        found = {n: self._size(n, int(v)) for n, v in self.plan.known(arrays, sizes).items()}
        for n, argument in const.items():
            try:
                shape = tuple(self.plan.shape(n, found))
            except KeyError as size:
                raise TypeError(
                    f"{name}: no shape of a const argument determines the size {size.args[0]}; "
                    f"pass it by keyword ({size.args[0]}=...)"
                ) from None
            if arrays[n].shape != shape:
                raise self._values.wrong(n, f"shape {shape}", f"{arrays[n].shape}")
            if argument.strided:
                self._values.steps(argument, arrays[n], found)
        return Bound(
            tuple(passed(a, arrays[n]) for n, a in const.items()),
            tuple(arrays[n] for n in const),
            tuple(found.get(n, 0) for n in self.entry.sizes),
            tuple(_free(a, arrays[n]) for n, a in const.items()),
        )

    def bind(self, positional: Sequence[Any], keywords: Mapping[str, Any]) -> Bound:
        """The arguments of a call, or TypeError or ValueError."""
        named = self._named(positional, keywords)
        sizes = {n: self._size(n, v) for n, v in named.items() if n not in self._arguments}
        given = {n: v for n, v in named.items() if n in self._arguments and v is not None}
        self._require(given)
        arrays = {n: self._values.value(self._arguments[n], v) for n, v in given.items()}
        key = (
            tuple((n, a.shape, a.strides) for n, a in arrays.items()),
            tuple(sizes.items()),
        )
        known = self._seen.get(key)
        if known is None:
            known = self._found(arrays, sizes)
            if len(self._seen) >= REMEMBERED:
                self._seen.clear()
            self._seen[key] = known
        found = known.sizes
        for name, (shape, steps) in known.made.items():
            made = self._values.allocate(self._arguments[name], shape, steps)
            arrays[name] = given[name] = made
        self._apart(arrays)
        return Bound(
            tuple(passed(a, arrays[n]) for n, a in self._arguments.items()),
            tuple(given[n] for n in self._arguments),
            tuple(found[n] for n in self.entry.sizes),
            tuple(_free(a, arrays[n]) for n, a in self._arguments.items()),
        )

    def _found(self, arrays: Mapping[str, Array], given: Mapping[str, int]) -> Found:
        """What shapes and strides say of a call, checked."""
        sizes = self._sizes(arrays, given)
        made = {}
        for name, argument in self._arguments.items():
            shape = tuple(self.plan.shape(name, sizes))
            if name not in arrays:
                made[name] = shape, self.plan.strides(name, sizes) if argument.strided else None
                continue
            if arrays[name].shape != shape:
                raise self._values.wrong(name, f"shape {shape}", f"{arrays[name].shape}")
            if argument.strided:
                self._values.steps(argument, arrays[name], sizes)
        return Found(sizes, made)

    def sizes(self, positional: Sequence[int], keywords: Mapping[str, int]) -> tuple[int, ...]:
        """Sizes in C order from numbers alone, for what depends on nothing else."""
        names = self.entry.sizes
        if len(positional) > len(names):
            raise TypeError(
                f"{self.entry.name}: takes {len(names)} sizes ({', '.join(names)}), "
                f"got {len(positional)}"
            )
        named = dict(zip(names, positional, strict=False))
        for name, value in keywords.items():
            if name not in self.size_names:
                raise self._unknown(name, self.size_names)
            if name in named:
                raise TypeError(f"{self.entry.name}: size {name!r} is given twice")
            named[name] = value
        missing = [n for n in names if n not in named]
        if missing:
            raise TypeError(f"{self.entry.name}: missing {_listed('size', missing)}")
        found = {n: self._size(n, v) for n, v in named.items()}
        return tuple(found[n] for n in names)

    def _named(self, positional: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        names = [n for n in self._arguments if n not in self._prepared]
        if len(positional) > len(names):
            raise TypeError(
                f"{self.entry.name}: takes {len(names)} arguments ({', '.join(names)}), "
                f"got {len(positional)}"
            )
        named = dict(zip(names, positional, strict=False))
        for name, value in keywords.items():
            if name in named:
                raise TypeError(f"{self.entry.name}: argument {name!r} is given twice")
            if name in self._prepared:
                raise TypeError(
                    f"{self.entry.name}: argument {name!r} was prepared; for another one call "
                    "prepare of the kernel again"
                )
            if name not in self._arguments and name not in self.size_names:
                raise self._unknown(name, (*names, *self.size_names))
            named[name] = value
        return {**self._prepared, **named}

    def _unknown(self, name: str, known: Sequence[str]) -> TypeError:
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(known)}"
        return TypeError(f"{self.entry.name}: there is no argument {name!r}; {hint}")

    def _require(self, given: Mapping[str, Any]) -> None:
        missing = [a.name for a in self.entry.arguments if a.role != "out" and a.name not in given]
        if missing:
            raise TypeError(f"{self.entry.name}: missing {_listed('argument', missing)}")

    # ------------------------------------------------------------ sizes

    def _sizes(self, arrays: Mapping[str, Array], given: Mapping[str, int]) -> Mapping[str, int]:
        found = {n: int(v) for n, v in self.plan.sizes(arrays, given).items()}
        return {n: self._size(n, v) for n, v in found.items()}

    def _size(self, name: str, value: Any) -> int:
        try:
            size = operator.index(value)
        except TypeError:
            raise TypeError(
                f"{self.entry.name}: size {name!r}: expected an integer, got {described(value)}"
            ) from None
        bound = self._bound_sizes.get(name, size)
        if size != bound:
            raise ValueError(
                f"{self.entry.name}: size {name!r}: compiled for {name} = {bound}, got {size}"
            )
        if not 0 <= size < SIZE_LIMIT:
            raise ValueError(
                f"{self.entry.name}: size {name!r}: expected 0 <= {name} < 2^40, got {size}"
            )
        return size

    # ------------------------------------------------------------ places in memory

    def _apart(self, arrays: Mapping[str, Array]) -> None:
        """From the lowest to the highest byte; of those without strides that is what they hold."""
        places = {
            name: bytes_of(array)
            for name, array in arrays.items()
            if not self._arguments[name].by_value
        }
        for name, (start, end) in places.items():
            if not self._arguments[name].is_written:
                continue
            for other, (other_start, other_end) in places.items():
                if other != name and max(start, other_start) < min(end, other_end):
                    raise ValueError(
                        f"{self.entry.name}: arguments {name!r} and {other!r}: expected arrays "
                        f"apart in memory, since {name!r} is written, got "
                        f"{min(end, other_end) - max(start, other_start)} bytes that they share"
                    )


def _giver(entry: Entry) -> Callable[[Sequence[Any]], Any]:
    """What turns the arguments into the result: one array, a named tuple, or None."""
    order = [a.name for a in entry.arguments]
    places = [order.index(name) for name in entry.returned]
    if not places:
        return lambda arguments: None
    if len(places) == 1:
        return operator.itemgetter(places[0])
    # Names that Python reserves become _0, _1, ...
    make: Any = collections.namedtuple
    results = make("Results", entry.returned, rename=True)
    return lambda arguments: results(*(arguments[place] for place in places))


def passed(argument: Argument, array: Array) -> Any:
    """What C gets: the array, or the number where it is passed by value (f16 and bf16 as bits)."""
    if not argument.by_value:
        return array
    return (array.view(np.uint16) if argument.elem == "f16" else array).item()


def _free(argument: Argument, array: Array) -> tuple[int, ...]:
    """The strides that C is given; what one element has does not matter."""
    return tuple(
        array.strides[d] // array.itemsize if array.shape[d] > 1 and array.size else 0
        for d in argument.free
    )


def _listed(word: str, names: Sequence[str]) -> str:
    return f"{word}{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"
