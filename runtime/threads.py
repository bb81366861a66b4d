"""OpenMP threads of compiled kernels.

GNU's OpenMP keeps a pool of threads for each thread that entered a parallel region, whoever's it
was. After a fork the pool is on record but its threads are gone, and the next region waits for
them for ever. Where OpenMP was there before a fork, parallel kernels therefore run on one thread
in the thread that survived it; results do not depend on the number of threads. Threads that the
child starts have no pool yet and are not limited.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator
from operator import index
from typing import SupportsIndex

RUNTIMES = ("libgomp.so.1", "libomp.so", "libomp.dylib")

_survivor: int | None = None  # the thread that may have lost its pool in a fork
_known: tuple[ctypes.CDLL, ...] = ()  # runtimes found: asking the loader takes 0.1 ms


def note_load() -> None:
    """After a library was loaded, which may have brought a runtime with it."""
    global _known
    _known = ()


def note_parallel_call() -> None:
    """Before each call of a parallel kernel."""
    if _survivor is not None and _survivor == threading.get_ident():
        for runtime in _runtimes():
            runtime.omp_set_num_threads(1)


def set_threads(number: int) -> None:
    """Let parallel kernels called from this thread use `number` threads.

    It speaks to the OpenMP runtimes in this process: load the kernels first. Raises RuntimeError
    for more than one thread where a fork took them away.
    """
    if isinstance(number, bool) or not isinstance(number, SupportsIndex):
        raise TypeError(f"expected a number of threads, got {number!r}")
    number = index(number)
    if number < 1:
        raise ValueError(f"expected at least 1 thread, got {number}")
    if number > 1 and _survivor == threading.get_ident():
        raise RuntimeError(
            "this process was forked from one that uses OpenMP, whose threads a fork does not "
            "copy: parallel kernels run on one thread here. Start processes with the method "
            "'spawn' of multiprocessing, or call the kernels from a new thread"
        )
    for runtime in _runtimes():
        runtime.omp_set_num_threads(number)


def max_threads() -> int:
    """How many threads a parallel kernel called from this thread may use."""
    return max((int(runtime.omp_get_max_threads()) for runtime in _runtimes()), default=1)


def _runtimes() -> tuple[ctypes.CDLL, ...]:
    """The OpenMP runtimes that loaded kernels brought into this process."""
    global _known
    if not _known:
        _known = tuple(_present())
    return _known


def _present() -> Iterator[ctypes.CDLL]:
    # By ctypes: asked for a library that is not loaded, cffi reads an error text that is NULL.
    for name in RUNTIMES:
        with contextlib.suppress(OSError):
            yield ctypes.CDLL(name, os.RTLD_NOW | os.RTLD_NOLOAD)


def _after_fork() -> None:
    global _survivor
    if _survivor is not None or _runtimes():
        _survivor = threading.get_ident()


os.register_at_fork(after_in_child=_after_fork)
