"""A compiled kernel as a Python function of NumPy arrays.

    y = conv(x=x, w=w)             # the output is made
    y = conv(x=x, w=w, y=out)      # written into out, which is returned
    conv(x, w, out)                # in the order of declaration

A call returns the kernel's output; several outputs are a named tuple; a kernel that has none
returns its inout array (or a named tuple of them), otherwise inout arrays are updated in place and
not returned. An output of rank 0 is an array of shape (). How arguments are checked is said in
`tdsl.runtime.arguments`. Calls release the GIL and may run side by side.

    fast = conv.prepare(w=w)       # what is made of const arguments alone is made now
    y = fast(x=x)
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tdsl.runtime.arguments import Bound, Checker, passed
from tdsl.runtime.build import Library, assembly
from tdsl.runtime.interface import Argument, Entry, Prepared, SizePlan
from tdsl.runtime.laid_out import LaidOut
from tdsl.runtime.memory import address, empty
from tdsl.runtime.quick import Known, Slot, Surroundings, quick_call, remembered_key
from tdsl.runtime.shortcall import short_call
from tdsl.runtime.threads import note_parallel_call

REMEMBERED = 256  # shapes, and then they are forgotten
KEPT_WORKSPACE = 2**26  # bytes that a thread keeps from one call to the next


class CompiledKernel(LaidOut):
    """One entry of a loaded module. See the head of this file for calls."""

    def __init__(
        self,
        entry: Entry,
        plan: SizePlan,
        library: Library,
        *,
        schedule: Any = None,
        prepared: Prepared | None = None,
    ) -> None:
        self.entry = entry
        self.library = library
        self.schedule = schedule
        self._plan, self._prepared = plan, prepared
        self._checker = Checker(entry, plan, None if prepared is None else prepared.arguments)
        self._ffi = library.ffi
        self._null = library.ffi.NULL
        self._from_buffer = library.ffi.from_buffer
        self._symbol = entry.symbol
        self._extra: tuple[Any, ...] = ()  # what follows the arguments, before the workspace
        if prepared is not None:
            assert entry.prepared is not None
            self._symbol = entry.prepared.run
            self._extra = (self._ffi.from_buffer("char *", prepared.buffer),)
        self._function = getattr(library.lib, self._symbol)
        self._slots = self._make_slots()
        self._names = tuple(slot.name for slot in self._slots if not slot.is_given)
        self._known: dict[tuple[Any, ...], Known] = {}
        self._local = threading.local()
        self._parallel = library.request.openmp
        # Python looks `__call__` up in the class, and this one is written for this kernel.
        if entry.strided:
            return  # shapes alone do not say whether an array will do
        around = self._surroundings(plan)
        quick = quick_call(entry, self._slots, around)
        self._short = short_call(self, quick, self._symbol, library, self._slots, self._extra)
        if around.fixed is not None:
            self._remember_shortly(around.fixed)
        call = quick if self._short is None else self._short
        self.__class__ = type(CompiledKernel.__name__, (CompiledKernel,), {"__call__": call})

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

    def prepared_bytes(self, *sizes: int, **named: int) -> int:
        """Bytes that `prepare` fills for these sizes; only those of const arguments matter."""
        if self.entry.prepared is None:
            return 0
        values = self._checker.sizes(sizes, named)
        return int(getattr(self.library.lib, self.entry.prepared.bytes)(*values))

    def __repr__(self) -> str:
        return f"<compiled kernel {self.name}({', '.join(self._names)})>"

    def prepare(self, **constants: Any) -> CompiledKernel:
        """The kernel with its const arguments bound, and what is made of them alone made once.

        They must not change while it is used. Calls take the other arguments."""
        bound = self._checker.bind_const(constants)
        functions = self.entry.prepared
        assert functions is not None  # it has const arguments
        size = int(getattr(self.library.lib, functions.bytes)(*bound.sizes))
        buffer = self._memory(size, "what is prepared")
        slots = {slot.name: slot for slot in self._slots}
        given: list[Any] = []
        for argument, value, free in zip(
            self.entry.constants, bound.values, bound.free, strict=True
        ):
            given += [self._as_passed(slots[argument.name], argument, value), *free]
        prepare = getattr(self.library.lib, functions.prepare)
        if self._parallel:
            note_parallel_call()
        status = prepare(*bound.sizes, *given, self._from_buffer("char *", buffer, True))
        if status:
            raise self._checker.prepare_refused(bound, status)
        names = (a.name for a in self.entry.constants)
        arguments = dict(zip(names, bound.given, strict=True))
        made = Prepared(arguments, buffer)
        return CompiledKernel(
            self.entry, self._plan, self.library, schedule=self.schedule, prepared=made
        )

    # ------------------------------------------------------------ calls

    def __call__(self, *positional: Any, **keywords: Any) -> Any:
        return self._checked_call(positional, keywords)

    def _checked_call(self, positional: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Check everything, run, and remember what was found."""
        bound = self._checker.bind(positional, keywords)
        self._run(bound)
        if not self.entry.strided:
            self._remember(bound, positional, keywords)
        return self._checker.give(bound.given)

    def _remember(
        self, bound: Bound, positional: Sequence[Any], keywords: Mapping[str, Any]
    ) -> None:
        """Keep what this call found out, for calls with the same shapes and size keywords."""
        named = {**dict(zip(self._names, positional, strict=False)), **keywords}
        sizes = {n: v for n, v in keywords.items() if n in self._checker.size_names}
        key = remembered_key(self._slots, named, sizes)
        if key is None:
            return
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        known = self._known[key] = Known(
            bound.sizes,
            self._workspace_bytes(bound.sizes),
            tuple(v.shape if isinstance(v, np.ndarray) else () for v in bound.values),
        )
        if not sizes:  # else shapes alone may not determine them
            self._remember_shortly(known)

    def _remember_shortly(self, known: Known) -> None:
        if self._short is not None and not known.workspace:
            shapes = zip(self._slots, known.shapes, strict=True)
            self._short.remember(known.sizes, tuple(s for slot, s in shapes if not slot.is_given))

    def _run(self, bound: Bound) -> None:
        given: list[Any] = []
        for slot, argument, value, free in zip(
            self._slots, self.entry.arguments, bound.values, bound.free, strict=True
        ):
            given += [self._as_passed(slot, argument, value), *free]
        status = self._invoke(bound.sizes, given, self._workspace_bytes(bound.sizes))
        if status:
            raise self._checker.refused(bound, status)

    def _as_passed(self, slot: Slot, argument: Argument, value: Any) -> Any:
        if slot.dtype is None:
            return value
        if argument.strided:
            return self._ffi.cast(slot.pointer, address(value))
        return self._from_buffer(slot.pointer, value, slot.written)

    def _invoke(self, sizes: tuple[int, ...], given: list[Any], workspace: int) -> int:
        if self._parallel:
            note_parallel_call()
        scratch = self._workspace(workspace) if workspace else self._null
        status: int = self._function(*sizes, *given, *self._extra, scratch)
        return status

    # ------------------------------------------------------------ preparations

    def _surroundings(self, plan: SizePlan) -> Surroundings:
        return Surroundings(
            function=self._function,
            from_buffer=self._from_buffer,
            null=self._null,
            size_names=self._checker.size_names,
            workspace=self._workspace,
            remembered=self._known.get,
            extra=self._extra,
            full=CompiledKernel._checked_call,
            give=self._checker.give,
            before=note_parallel_call if self._parallel else None,
            fixed=None if self.entry.sizes else self._fixed(plan),
        )

    def _fixed(self, plan: SizePlan) -> Known:
        shapes = tuple(tuple(plan.shape(slot.name, {})) for slot in self._slots)
        return Known((), self._workspace_bytes(()), shapes)

    def _make_slots(self) -> tuple[Slot, ...]:
        parameters = self._ffi.typeof(self._function).args
        first = len(self.entry.sizes)
        free = [len(a.free) for a in self.entry.arguments]
        expected = first + len(free) + sum(free) + len(self._extra) + 1
        if len(parameters) != expected:
            raise ValueError(
                f"{self._symbol} has {len(parameters)} parameters, the entry says {expected}"
            )
        return tuple(
            self._slot(argument, parameters[first + place + sum(free[:place])])
            for place, argument in enumerate(self.entry.arguments)
        )

    def _slot(self, argument: Argument, parameter: Any) -> Slot:
        prepared = {} if self._prepared is None else self._prepared.arguments
        slot = self._bare_slot(argument, parameter)
        if argument.name not in prepared:
            return slot
        value = passed(argument, prepared[argument.name])
        return slot._replace(is_given=True, value=self._as_passed(slot, argument, value))

    def _bare_slot(self, argument: Argument, parameter: Any) -> Slot:
        dtype = argument.dtype
        if argument.by_value:
            kinds = {"f": float, "b": bool, "i": int, "u": int}
            numbers: tuple[type, ...] = (kinds[dtype.kind], dtype.type)
            if dtype.kind == "b":
                numbers = (bool,)
            elif argument.elem in ("f16", "bf16"):
                numbers = ()  # passed as bits, which the full check makes
            return Slot(argument.name, None, numbers, None, False, False)
        pointer = parameter
        if pointer.item.kind == "void":
            pointer = self._ffi.typeof("char *")
        written, may_be_made = argument.is_written, argument.role == "out"
        return Slot(argument.name, dtype, (), pointer, written, may_be_made)

    def _workspace_bytes(self, sizes: tuple[int, ...]) -> int:
        if self.entry.workspace is None:
            return 0
        return int(getattr(self.library.lib, self.entry.workspace)(*sizes))

    def _workspace(self, size: int) -> Any:
        """Scratch memory for one call: a thread's own, kept for its next call unless it is big."""
        raw = getattr(self._local, "workspace", None)
        if raw is None or raw.nbytes < size:
            raw = self._memory(size, "scratch")
            if size <= KEPT_WORKSPACE:
                self._local.workspace = raw
        return self._ffi.from_buffer("char *", raw, True)

    def _memory(self, size: int, purpose: str) -> Any:
        try:
            return empty((size,), np.dtype(np.uint8))
        except MemoryError as error:
            raise MemoryError(f"{self.name}: no memory for {size} bytes of {purpose}") from error
