"""A compiled kernel as a Python function of NumPy arrays.

    y = conv(x=x, w=w)             # the output is made
    y = conv(x=x, w=w, y=out)      # written into out, which is returned
    conv(x, w, out)                # in the order of declaration

A call returns the kernel's output; several outputs are a named tuple; a kernel that has none
returns its inout array (or a named tuple of them), otherwise inout arrays are updated in place and
not returned. An output of rank 0 is an array of shape (). How arguments are checked is said in
`tdsl.runtime.arguments`. Calls release the GIL and may run side by side.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from tdsl.runtime.arguments import Bound, Checker, empty
from tdsl.runtime.build import Library, assembly
from tdsl.runtime.interface import Argument, Entry, SizePlan
from tdsl.runtime.status import status_error
from tdsl.runtime.threads import note_parallel_call

REMEMBERED = 256  # shapes, and then they are forgotten
KEPT_WORKSPACE = 2**26  # bytes that a thread keeps from one call to the next


class _Slot(NamedTuple):
    """How one argument is passed. A tuple, because taking one apart is fast."""

    name: str
    dtype: np.dtype[Any] | None  # None for a number by value
    number: type | None
    pointer: Any
    written: bool
    align: int  # bytes, where more than the element's own; else 0
    units: int  # what the pointer points to, in one element


@dataclass(frozen=True)
class _Known:
    """What follows from the arguments' shapes, from an earlier call that was checked in full."""

    sizes: tuple[int, ...]
    workspace: int
    shapes: tuple[tuple[int, ...], ...]


class CompiledKernel:
    """One entry of a loaded module. See the head of this file for calls."""

    def __init__(
        self, entry: Entry, plan: SizePlan, library: Library, *, schedule: Any = None
    ) -> None:
        self.entry = entry
        self.library = library
        self.schedule = schedule
        self._checker = Checker(entry, plan)
        self._give = self._checker.give
        self._ffi = library.ffi
        self._null = library.ffi.NULL
        self._from_buffer = library.ffi.from_buffer
        self._function = getattr(library.lib, entry.symbol)
        self._slots = self._make_slots()
        self._names = tuple(slot.name for slot in self._slots)
        self._known: dict[tuple[Any, ...], _Known] = {}
        self._local = threading.local()
        self._parallel = library.request.openmp

    # ------------------------------------------------------------ what it is

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def c_source(self) -> str:
        """The generated C."""
        return self.library.request.c_source

    @property
    def header(self) -> str:
        """The generated header."""
        return self.library.request.header

    @property
    def assembly(self) -> str:
        """The compiler's assembly text of the module, made when it is asked for."""
        return assembly(self.library.request)

    @property
    def library_path(self) -> str:
        """The loaded file, in the cache."""
        return str(self.library.path)

    def workspace_bytes(self, *sizes: int, **named: int) -> int:
        """Bytes of scratch memory that a call with these sizes uses."""
        return self._workspace_bytes(self._checker.sizes(sizes, named))

    def variant(self, *sizes: int, **named: int) -> str:
        """Name of the schedule that a call with these sizes runs."""
        values = self._checker.sizes(sizes, named)
        if self.entry.variant is None:
            return ""
        text = self._ffi.string(getattr(self.library.lib, self.entry.variant)(*values))
        return str(text.decode())

    def __repr__(self) -> str:
        names = ", ".join(a.name for a in self.entry.arguments)
        return f"<compiled kernel {self.name}({names})>"

    # ------------------------------------------------------------ calls

    def __call__(self, *positional: Any, **keywords: Any) -> Any:
        if positional and not keywords and len(positional) <= len(self._slots):
            positional, keywords = (), dict(zip(self._names, positional, strict=False))
        # Arguments like those of an earlier call take a short way, which gives up, without having
        # done anything, wherever something is unusual; the full check then finds the words.
        values = None if positional else self._quick(keywords)
        if values is None:
            bound = self._checker.bind(positional, keywords)
            self._run(bound)
            if not positional:
                self._remember(bound, keywords)
            values = bound.given
        return self._give(values)

    def _quick(self, keywords: dict[str, Any]) -> Sequence[Any] | None:
        """The arguments after a call like an earlier one, or None where it is not like one.

        One loop over tuples, since this is what a call of a small kernel costs.
        """
        try:
            from_buffer = self._from_buffer
            values: list[Any] = []
            passed: list[Any] = []
            key: list[Any] = []
            places: list[tuple[Any, int, bool]] = []
            made: list[int] = []
            for name, dtype, number, pointer, written, align, units in self._slots:
                value = keywords.get(name)
                if dtype is None:
                    if type(value) is not number:
                        return None
                    passed.append(value)
                elif value is None:
                    made.append(len(values))
                    key.append(None)  # only ever known where it is an output
                    passed.append(None)
                elif type(value) is ndarray and value.dtype is dtype and value.flags.aligned:
                    start = from_buffer(pointer, value, written)
                    if align and int(self._ffi.cast("uintptr_t", start)) % align:
                        return None
                    length = value.size * units
                    if places and not _apart(start, length, places, written):
                        return None
                    places.append((start, length, written))
                    passed.append(start)
                    key.append(value.shape)
                else:
                    return None
                values.append(value)
            if len(values) - len(made) != len(keywords):
                sizes = self._given_sizes(keywords)
                if len(values) - len(made) + len(sizes) != len(keywords):
                    return None
                key.append(sizes)
            known = self._known.get(tuple(key))
            if known is None:
                return None
            for place in made:
                _, dtype, _, pointer, _, _, _ = self._slots[place]
                assert dtype is not None
                values[place] = empty(known.shapes[place], dtype)
                passed[place] = from_buffer(pointer, values[place], True)
            status = self._invoke(known.sizes, passed, known.workspace)
        except (ValueError, TypeError, OverflowError):
            return None  # not contiguous, read-only, a number too large
        if status:
            raise status_error(self.entry, status)
        return values

    def _remember(self, bound: Bound, keywords: dict[str, Any]) -> None:
        """Keep what this call found out, for calls with the same shapes and size keywords."""
        key: list[Any] = []
        for slot in self._slots:
            if slot.dtype is not None:
                value = keywords.get(slot.name)
                if value is not None and not isinstance(value, np.ndarray):
                    return
                key.append(None if value is None else value.shape)
        sizes = self._given_sizes(keywords)
        if sizes:
            key.append(sizes)
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[tuple(key)] = _Known(
            bound.sizes,
            self._workspace_bytes(bound.sizes),
            tuple(v.shape if isinstance(v, np.ndarray) else () for v in bound.values),
        )

    def _given_sizes(self, keywords: dict[str, Any]) -> tuple[tuple[str, int], ...]:
        names = self._checker.size_names
        return tuple((n, v) for n, v in keywords.items() if type(v) is int and n in names)

    def _run(self, bound: Bound) -> None:
        passed = [
            value
            if slot.dtype is None
            else self._ffi.from_buffer(slot.pointer, value, slot.written)
            for slot, value in zip(self._slots, bound.values, strict=True)
        ]
        status = self._invoke(bound.sizes, passed, self._workspace_bytes(bound.sizes))
        if status:
            raise status_error(self.entry, status)

    def _invoke(self, sizes: tuple[int, ...], passed: list[Any], workspace: int) -> int:
        if self._parallel:
            note_parallel_call()
        scratch = self._workspace(workspace) if workspace else self._null
        status: int = self._function(*sizes, *passed, scratch)
        return status

    # ------------------------------------------------------------ preparations

    def _make_slots(self) -> tuple[_Slot, ...]:
        parameters = self._ffi.typeof(self._function).args
        first = len(self.entry.sizes)
        expected = first + len(self.entry.arguments) + 1
        if len(parameters) != expected:
            raise ValueError(
                f"{self.entry.symbol} has {len(parameters)} parameters, the entry says {expected}"
            )
        return tuple(
            self._slot(argument, parameters[first + place])
            for place, argument in enumerate(self.entry.arguments)
        )

    def _slot(self, argument: Argument, parameter: Any) -> _Slot:
        dtype = argument.dtype
        if argument.by_value:
            # f16 is passed as its bits, which the full check makes.
            kinds = {"f": float, "b": bool, "i": int, "u": int}
            number = object if argument.elem in ("f16", "bf16") else kinds[dtype.kind]
            return _Slot(argument.name, None, number, None, False, 0, 0)
        pointer = parameter
        if pointer.item.kind == "void":
            pointer = self._ffi.typeof("char *")
        units = dtype.itemsize // self._ffi.sizeof(pointer.item)
        align = argument.alignment if argument.alignment > dtype.alignment else 0
        return _Slot(argument.name, dtype, None, pointer, argument.is_written, align, units)

    def _workspace_bytes(self, sizes: tuple[int, ...]) -> int:
        if self.entry.workspace is None:
            return 0
        return int(getattr(self.library.lib, self.entry.workspace)(*sizes))

    def _workspace(self, size: int) -> Any:
        """Scratch memory for one call: a thread's own, kept for its next call unless it is big."""
        raw = getattr(self._local, "workspace", None)
        if raw is None or raw.nbytes < size:
            try:
                raw = empty((size,), np.dtype(np.uint8))
            except MemoryError as error:
                raise MemoryError(f"{self.name}: no memory for {size} bytes of scratch") from error
            if size <= KEPT_WORKSPACE:
                self._local.workspace = raw
        return self._ffi.from_buffer("char *", raw, True)


def _apart(start: Any, length: int, others: Sequence[tuple[Any, int, bool]], written: bool) -> bool:
    """Whether an array shares memory with none of `others` where either of the two is written."""
    for other_start, other_length, other_written in others:
        if not (written or other_written):
            continue
        if start < other_start:
            if start + length > other_start:
                return False
        elif other_start + other_length > start:
            return False
    return True
