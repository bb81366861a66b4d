"""The shortest way of a call, in C: `shortcall.c`, built once and kept in the cache.

It serves what small kernels are called with, arrays that are there, and leaves everything else to
the function that `tdsl.runtime.quick` wrote. Where it cannot be built, that one serves alone.
"""

from __future__ import annotations

import functools
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np

from tdsl.diagnostics import Error
from tdsl.runtime.build import Library, artifact, extension_flags, import_extension, python_headers
from tdsl.runtime.interface import BuildRequest, Entry
from tdsl.runtime.quick import Slot
from tdsl.runtime.toolchain import find_compiler

MODULE = "_tdsl_shortcall"
SOURCE = Path(__file__).with_name("shortcall.c")
MOST_WORDS = 12  # MOST_WORDS, MOST_DIMENSIONS of the C file
MOST_DIMENSIONS = 8


def short_call(
    kernel: Any,
    slow: Callable[..., Any],
    symbol: str,
    library: Library,
    slots: Sequence[Slot],
    extra: Sequence[Any] = (),
) -> Any | None:
    """A callable in front of `slow`, the kernel's own `__call__`; None for kernels that it does not
    serve: with numbers by value, scratch memory in every call, threads, or several results."""
    entry: Entry = kernel.entry
    open_ = [slot for slot in slots if not slot.is_given]
    words = len(entry.sizes) + len(slots) + len(extra) + 1
    plain = len(entry.returned) == 1 and all(slot.dtype is not None for slot in slots)
    small = words <= MOST_WORDS and all(a.rank <= MOST_DIMENSIONS for a in entry.arguments)
    if not plain or not small or library.request.openmp:
        return None
    built = _module()
    if built is None:
        return None

    def address(pointer: Any) -> int:
        return int(library.ffi.cast("uintptr_t", pointer))

    place = [slot.name for slot in open_].index(entry.returned[0])
    given = [address(slot.value) if slot.is_given else None for slot in slots]
    return built.ShortCall(
        MethodType(slow, kernel),
        library.address(symbol),
        np.ndarray,
        tuple((sys.intern(s.name), _format(s.dtype), s.written) for s in open_),
        place,
        (*given, *map(address, extra), 0),  # no workspace
    )


def _format(dtype: Any) -> str:
    """What the buffer protocol calls the type."""
    return np.empty(0, dtype).data.format


@functools.cache
def _module() -> Any | None:
    headers = python_headers()
    without_lock = sysconfig.get_config_var("Py_GIL_DISABLED")
    if headers is None or without_lock or sys.implementation.name != "cpython":
        return None
    request = BuildRequest(MODULE, SOURCE.read_text(), "", "", flags=("-O2",), libraries=())
    name = f"{MODULE}.so"
    try:
        compiler = find_compiler(request)
        command = [*compiler.command, *request.flags, *extension_flags(), "-fPIC", f"-I{headers}"]
        steps = [[[*command, f"{MODULE}.c", "-o", name]]]
        abi = (sysconfig.get_config_var("SOABI") or sys.version, str(headers))
        return import_extension(
            MODULE, artifact(request, compiler, "shortcall", (name,), lambda _: steps, abi)[name]
        )
    except Error:
        return None  # it is a matter of speed alone
