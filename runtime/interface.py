"""What the runtime needs to know of generated C: its text, how to build it, how to call it.

The driver fills these from the code generator's module and the target; nothing here knows either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tdsl.ir.dtypes import storage_dtype
from tdsl.ir.types import TYPES

SIZE_LIMIT = 2**40  # sizes are below it, so that int64 index arithmetic cannot overflow


@dataclass(frozen=True)
class Argument:
    """One array or scalar of the C function, in declaration order.

    `role` is in, const, out or inout. `by_value`: a rank-0 input that C takes as a value; f16 and
    bf16 are then passed as the uint16_t of their bits. `align`: bytes promised, None for the
    element's own. `strided`: its strides are declared; `free`: the dimensions whose strides, in
    elements, follow the array as int64_t. `record`: NumPy's type of records, of which `elem` is the
    name. `layout`: the order in which a schedule stores it, as text.
    """

    name: str
    elem: str
    rank: int
    role: str
    by_value: bool = False
    align: int | None = None
    strided: bool = False
    free: tuple[int, ...] = ()
    record: np.dtype[Any] | None = None
    layout: str = ""

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type; bf16 arrays hold uint16 bit patterns, for NumPy has no such type."""
        return storage_dtype(TYPES[self.elem]) if self.record is None else self.record

    @property
    def is_written(self) -> bool:
        return self.role in ("out", "inout")

    @property
    def alignment(self) -> int:
        return self.align or self.dtype.alignment


@dataclass(frozen=True)
class PreparedFunctions:
    """Names of `size_t bytes(sizes...)`, `int prepare(sizes..., const arguments..., void
    *prepared)` and `int run(sizes..., arguments..., const void *prepared, void *workspace)`."""

    bytes: str
    prepare: str
    run: str


@dataclass(frozen=True)
class Prepared:
    """What a kernel was prepared with: its const arguments by name, and what was made of them."""

    arguments: Mapping[str, Any]
    buffer: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Entry:
    """A C function `int symbol(int64_t sizes..., arguments..., void *workspace)`.

    `name` is the kernel's, for messages. `sizes` are those of the C signature, in its order;
    `bound` those that were substituted. `results` is the order of what a call returns; None
    means the outputs as declared, or the inout arguments where there is no output.
    The function refuses sizes, assumptions, addresses and overlap by itself (statuses 1 to 4).
    `workspace` and `variant` name `size_t f(sizes...)` and `const char *f(sizes...)`; `prepared`
    is there where an argument is const.
    """

    name: str
    symbol: str
    sizes: tuple[str, ...]
    arguments: tuple[Argument, ...]
    bound: tuple[tuple[str, int], ...] = ()
    results: tuple[str, ...] | None = None
    workspace: str | None = None
    variant: str | None = None
    assumptions: tuple[str, ...] = ()
    prepared: PreparedFunctions | None = None

    @property
    def constants(self) -> tuple[Argument, ...]:
        """The const arguments, in order."""
        return tuple(a for a in self.arguments if a.role == "const")

    @property
    def strided(self) -> bool:
        """Whether an argument has strides of its own or holds records: such calls are checked
        whole each time."""
        return any(a.strided or a.record is not None for a in self.arguments)

    @property
    def returned(self) -> tuple[str, ...]:
        """Names of the arrays that a call gives back, in order."""
        if self.results is not None:
            return self.results
        outputs = tuple(a.name for a in self.arguments if a.role == "out")
        return outputs or tuple(a.name for a in self.arguments if a.role == "inout")


class SizePlan(Protocol):
    """How the sizes of a kernel follow from its arrays: `tdsl.ir.arguments.ArgumentPlan`."""

    def sizes(
        self, arrays: Mapping[str, np.ndarray[Any, Any]], given: Mapping[str, int]
    ) -> Mapping[str, int]:
        """Every unbound size by name, from the arrays at hand and the sizes given as keywords.

        `arrays` has every argument but outputs that are still to be made; numbers are arrays of
        rank 0. Raises ValueError or TypeError, naming the argument, where they do not agree or a
        size stays unknown. Depends on shapes alone, since its answer is remembered for a shape;
        where an entry has strided arguments, nothing is remembered.
        """

    def known(
        self, arrays: Mapping[str, np.ndarray[Any, Any]], given: Mapping[str, int]
    ) -> Mapping[str, int]:
        """The sizes that some of the arguments determine, and those given."""

    def shape(self, name: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of an array argument. Raises KeyError for a size that is not there."""

    def strides(self, name: str, sizes: Mapping[str, int]) -> tuple[int | None, ...] | None:
        """The strides of an array argument in elements, None for one that the caller chooses;
        None where the array is row-major and contiguous."""

    @property
    def layouts(self) -> Mapping[str, str]:
        """The orders in which a schedule stores arguments, as text."""

    def laid_out(self, name: str, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The values of an argument as it is stored."""

    def natural(
        self, name: str, stored: np.ndarray[Any, Any], shape: tuple[int, ...]
    ) -> np.ndarray[Any, Any]:
        """The values of this shape of an argument as it is stored."""

    def check_ranges(
        self, arrays: Mapping[str, np.ndarray[Any, Any]], sizes: Mapping[str, int]
    ) -> None:
        """Raise ValueError for an argument that holds a value outside the range it promises."""


@dataclass(frozen=True)
class BuildRequest:
    """One C module and how it is to be built.

    `name` is the stem of its files, and `#include "name.h"` in the source finds the header.
    `cdef` declares the functions in what cffi reads. `machine` is the processor family (as
    `platform.machine()` says it), None for this one. `compilers` are commands to try instead of
    the usual ones, in this order. `features` enter the cache's key.
    """

    name: str
    c_source: str
    header: str
    cdef: str
    flags: tuple[str, ...] = ("-O1", "-ffp-contract=off")
    openmp: bool = False
    features: tuple[str, ...] = ()
    machine: str | None = None
    compilers: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ("m",)
    time_limit: float = 120.0  # seconds for one run of the compiler

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", self.name):
            raise ValueError(f"not a plain file name: {self.name!r}")
