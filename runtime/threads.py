"""OpenMP threads of compiled kernels.

GNU's OpenMP keeps a pool of threads for each thread that entered a parallel region. After a fork
the pool is on record but its threads are gone, and the next region waits for them for ever. In a
forked child the thread that survived therefore runs regions alone; results do not depend on the
number of threads. Threads that the child starts have no pool yet and are not limited.
"""

from __future__ import annotations

import contextlib
import ctypes
import os

RUNTIMES = ("libgomp.so.1", "libomp.so", "libomp.dylib")

_parallel_calls: set[int] = set()  # process ids in which a parallel kernel ran


def note_parallel_call() -> None:
    """Tell that this process has threads of OpenMP."""
    _parallel_calls.add(os.getpid())


def set_threads(number: int) -> None:
    """Let parallel kernels called from this thread use `number` threads.

    It speaks to the OpenMP runtimes in this process: load the kernels first.
    """
    if number < 1:
        raise ValueError(f"expected at least 1 thread, got {number}")
    for runtime in _runtimes():
        runtime.omp_set_num_threads(number)


def max_threads() -> int:
    """How many threads a parallel kernel called from this thread may use."""
    return max((int(runtime.omp_get_max_threads()) for runtime in _runtimes()), default=1)


def _runtimes() -> list[ctypes.CDLL]:
    """The OpenMP runtimes that loaded kernels brought into this process."""
    # By ctypes: asked for a library that is not loaded, cffi reads an error text that is NULL.
    found = []
    for name in RUNTIMES:
        with contextlib.suppress(OSError):
            found.append(ctypes.CDLL(name, os.RTLD_NOW | os.RTLD_NOLOAD))
    return found


def _after_fork() -> None:
    if os.getppid() in _parallel_calls:
        set_threads(1)


os.register_at_fork(after_in_child=_after_fork)
