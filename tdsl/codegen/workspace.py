"""Memory that a kernel asks its caller for: helpers in C, and what `run` is given of it.

An array that each thread has of its own is a row of slices: `run` gets the first one and the
elements from one to the next, and the body of a parallel loop takes its thread's.
"""

from __future__ import annotations

from collections.abc import Sequence

from tdsl.codegen.names import Names
from tdsl.codegen.unit import SCALARS, Unit
from tdsl.ir.vector import OVER, Buffer

ROOM = f"""__attribute__((noinline))
static int64_t tdsl_room(int64_t bytes, int64_t slices)
{{
    if (bytes < 0 || bytes >= ((int64_t)1 << 62) / slices - {OVER + 63})
        return -1;
    return (bytes + {OVER + 63}) / 64 * 64 * slices;
}}"""
SLICES = """static int tdsl_slices(void)
{
#ifdef _OPENMP
    static int fixed; /* by the first call: what a caller was told stays right */
    int most = omp_get_num_procs();
    most = most > omp_get_max_threads() ? most : omp_get_max_threads();
    most = most > 1024 ? 1024 : most;
    int before = 0;
    if (__atomic_compare_exchange_n(&fixed, &before, most, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return most;
    return before;
#else
    return 1;
#endif
}"""
THREADS = """static int tdsl_threads(void)
{
#ifdef _OPENMP
    const int slices = tdsl_slices(), threads = omp_get_max_threads();
    return threads < slices ? threads : slices;
#else
    return 1;
#endif
}"""
THREAD = """static inline int64_t tdsl_thread(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}"""


def in_workspace(buffers: Sequence[Buffer]) -> list[Buffer]:
    """Those that lie in the workspace, in order."""
    return [b for b in buffers if b.role in ("temp", "scratch")]


def is_sliced(buffer: Buffer) -> bool:
    """Whether each thread has a slice of its own."""
    return buffer.role == "scratch" and buffer.per_thread


def room(unit: Unit, buffer: Buffer, size: str) -> str:
    """A call that gives the bytes that the buffer takes in the workspace, or -1; `size`: the
    bytes of its elements, or -1."""
    unit.helper("tdsl_room", ROOM)
    return f"tdsl_room({size}, {_slices(unit) if is_sliced(buffer) else 1})"


def _slices(unit: Unit) -> str:
    unit.headers.add("omp.h")
    unit.helper("tdsl_slices", SLICES)
    return "tdsl_slices()"


# ---------------------------------------------------------------- run's parameters


def slice_parameters(names: Names, buffer: Buffer) -> list[str]:
    """The first slice, and the elements from one to the next."""
    first, step = slice_names(names, buffer)
    return [f"{SCALARS[buffer.elem.name]} *restrict {first}", f"const int64_t {step}"]


def slice_names(names: Names, buffer: Buffer) -> tuple[str, str]:
    """Their names in `run`."""
    first = names.add("slices", f"{buffer.name}_slices")
    return first, names.add("slice", f"{buffer.name}_slice")


def threads_name(names: Names) -> str:
    """The name of the number of threads in `run`."""
    return names.add("threads", "threads")


def slice_arguments(unit: Unit, buffer: Buffer, address: str, size: str) -> list[str]:
    """What is passed for them; `size`: the bytes of the elements of one slice."""
    unit.helper("tdsl_room", ROOM)
    return [address, f"tdsl_room({size}, 1) / {buffer.elem.bytes}"]


def threads_argument(unit: Unit) -> str:
    """No more than there are slices."""
    _slices(unit)
    unit.helper("tdsl_threads", THREADS)
    return "tdsl_threads()"


# ---------------------------------------------------------------- in the code


def thread_slice(unit: Unit, names: Names, buffer: Buffer, *, parallel: bool) -> str:
    """The declaration of a thread's own slice; outside of parallel loops there is one thread."""
    first, step = slice_names(names, buffer)
    own = names.add("buffer", buffer.name)
    at = first
    if parallel:
        unit.headers.add("omp.h")
        unit.helper("tdsl_thread", THREAD)
        at = f"{first} + tdsl_thread() * {step}"
    return f"{SCALARS[buffer.elem.name]} *restrict const {own} = {at};"
