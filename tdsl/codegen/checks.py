"""The checks of arguments on entry: bytes, pointers, promised values, overlap."""

from __future__ import annotations

from collections.abc import Callable

from tdsl.codegen.index import IndexPrinter
from tdsl.codegen.names import Names
from tdsl.codegen.text import wrap
from tdsl.codegen.unit import SCALARS, Unit
from tdsl.ir.index import poly
from tdsl.ir.vector import Buffer, Function

# Not inlined: the checks of many arguments would cost gcc -O2 minutes of jump threading.
ARRAY_BYTES = """__attribute__((noinline))
static int64_t tdsl_array_bytes(int64_t element, int rank, const int64_t *extent)
{
    int64_t bytes = element;
    int empty = 0;
    for (int d = 0; d < rank; d++) {
        if (extent[d] < 0)
            return -1;
        empty |= extent[d] == 0;
    }
    if (empty)
        return 0;
    for (int d = 0; d < rank; d++) {
        if (extent[d] > (((int64_t)1 << 62) - 1) / bytes)
            return -1;
        bytes *= extent[d];
    }
    return bytes;
}"""
OVERLAP = """__attribute__((noinline))
static int tdsl_overlap(const void *a, int64_t a_bytes, const void *b, int64_t b_bytes)
{
    const uintptr_t p = (uintptr_t)a, q = (uintptr_t)b;
    return a_bytes > 0 && b_bytes > 0 && p < q + (uintptr_t)b_bytes && q < p + (uintptr_t)a_bytes;
}"""
UNUSABLE = """__attribute__((noinline))
static int tdsl_unusable(const void *p, int64_t bytes, uintptr_t align)
{
    return bytes > 0 && (p == NULL || (uintptr_t)p % align != 0);
}"""
OUTSIDE = """__attribute__((noinline))
static int tdsl_outside_{name}(const {ctype} *p, int64_t bytes, int64_t lo, int64_t hi)
{{
    int bad = 0;
    for (int64_t i = 0; i < bytes / (int64_t)sizeof *p; i++)
        bad |= p[i] < lo || p[i] >= hi;
    return bad;
}}"""
OUTSIDE_U64 = """__attribute__((noinline))
static int tdsl_outside_u64(const uint64_t *p, int64_t bytes, int64_t lo, int64_t hi)
{
    int bad = 0;
    for (int64_t i = 0; i < bytes / (int64_t)sizeof *p; i++)
        bad |= hi <= 0 || p[i] >= (uint64_t)hi || (lo > 0 && p[i] < (uint64_t)lo);
    return bad;
}"""
SPAN = """__attribute__((noinline))
static int64_t tdsl_span(int64_t element, int rank, const int64_t *extent, const int64_t *stride,
                         int64_t *below)
{
    const int64_t most = (((int64_t)1 << 62) - 1) / element - 1;
    int64_t low = 0, high = 0;
    int empty = 0;
    *below = 0;
    for (int d = 0; d < rank; d++) {
        if (extent[d] < 0 || stride[d] <= -((int64_t)1 << 40) || stride[d] >= (int64_t)1 << 40)
            return -1;
        empty |= extent[d] == 0;
    }
    if (empty)
        return 0;
    for (int d = 0; d < rank; d++) {
        const int64_t step = stride[d] < 0 ? -stride[d] : stride[d];
        if (step > 0 && extent[d] - 1 > (most - low - high) / step)
            return -1;
        if (stride[d] < 0)
            low += step * (extent[d] - 1);
        else
            high += step * (extent[d] - 1);
    }
    *below = low * element;
    return (low + high + 1) * element;
}"""
SHARES = """__attribute__((noinline))
static int tdsl_shares(int rank, const int64_t *extent, const int64_t *stride)
{
    for (int d = 0; d < rank; d++) {
        const int64_t step = stride[d] < 0 ? -stride[d] : stride[d];
        int64_t reach = 0;
        for (int e = 0; e < rank; e++) {
            const int64_t other = stride[e] < 0 ? -stride[e] : stride[e];
            if (extent[e] > 1 && (other < step || (other == step && e < d)))
                reach += other * (extent[e] - 1);
        }
        if (extent[d] > 1 && step <= reach)
            return 1;
    }
    return 0;
}"""
OUTSIDE_STRIDED = """static int tdsl_outside_strided_{name}(const {ctype} *p, int rank,
                                       const int64_t *extent, const int64_t *stride,
                                       int64_t lo, int64_t hi)
{{
    int bad = 0;
    if (rank == 0)
        return tdsl_outside_{name}(p, sizeof *p, lo, hi);
    for (int64_t i = 0; i < extent[0]; i++)
        bad |= tdsl_outside_strided_{name}(p + i * stride[0], rank - 1, extent + 1, stride + 1,
                                           lo, hi);
    return bad;
}}"""


def is_argument(buffer: Buffer) -> bool:
    """Passed by the caller; fields of records are in what is passed."""
    return buffer.role in ("in", "const", "out", "inout") and buffer.field is None


def is_scalar(buffer: Buffer) -> bool:
    """Passed by value."""
    return buffer.role in ("in", "const") and not buffer.shape and not buffer.elem.fields


class ArgumentChecks:
    """Prints the checks of one entry, in the order of their status. `local` makes a name that no
    argument has."""

    def __init__(
        self, unit: Unit, function: Function, names: Names, local: Callable[[str], str]
    ) -> None:
        self._unit, self._function, self._names, self._local = unit, function, names, local
        self._index = IndexPrinter(lambda kind, name: names[kind, name], unit.helper, frozenset())
        self._arrays = [b for b in function.buffers if is_argument(b) and not is_scalar(b)]

    def _name(self, buffer: Buffer, what: str) -> str:
        return self._local(f"{self._names['buffer', buffer.name]}_{what}")

    def _extents(self, buffer: Buffer) -> str:
        return ", ".join(self._index(e).text for e in buffer.shape)

    def _is_strided(self, buffer: Buffer) -> bool:
        return buffer.strides is not None and bool(buffer.shape)

    def _memory(self, buffer: Buffer) -> str:
        """The start and the bytes of all its memory."""
        name, size = self._names["buffer", buffer.name], self._name(buffer, "bytes")
        if not self._is_strided(buffer):
            return f"{name}, {size}"
        start = f"(const void *)((uintptr_t){name} - (uintptr_t){self._name(buffer, 'below')})"
        return f"{start}, {size}"

    # ------------------------------------------------------------ status 1

    def bytes(self) -> list[str]:
        """How much memory each array covers; 1 where it is too much, or a stride is."""
        lines = []
        for buffer in self._arrays:
            name = self._name(buffer, "bytes")
            if self._is_strided(buffer):
                lines += self._span(buffer, name)
            else:
                lines += wrap(
                    f"    const int64_t {name} = {array_bytes(self._unit, self._index, buffer)};"
                )
            if buffer.shape:
                lines += [f"    if ({name} < 0)", "        return 1;"]
        return lines

    def _span(self, buffer: Buffer, name: str) -> list[str]:
        self._unit.helper("tdsl_span", SPAN)
        extent, stride = self._name(buffer, "extent"), self._name(buffer, "stride")
        below, rank = self._name(buffer, "below"), len(buffer.shape)
        strides = ", ".join(
            self._names["index", s] if isinstance(s, str) else self._index(s).text
            for s in buffer.strides or ()
        )
        return [
            *self._products(buffer),
            *wrap(f"    const int64_t {extent}[] = {{{self._extents(buffer)}}};"),
            *wrap(f"    const int64_t {stride}[] = {{{strides}}};"),
            f"    int64_t {below};",
            *wrap(
                f"    const int64_t {name} = tdsl_span({buffer.elem.bytes}, {rank}, {extent}, "
                f"{stride}, &{below});"
            ),
        ]

    def _products(self, buffer: Buffer) -> list[str]:
        """Products of sizes in strides stay small, so that they may be computed."""
        lines = []
        for stride in buffer.strides or ():
            terms = {} if isinstance(stride, str) else poly(stride)
            for factors, coefficient in terms.items():
                if len(factors) < 2:
                    continue
                self._unit.helper("tdsl_array_bytes", ARRAY_BYTES)
                listed = ", ".join(self._index(f).text for f in factors)
                product = (
                    f"tdsl_array_bytes({abs(coefficient)}, {len(factors)}, "
                    f"(const int64_t[]){{{listed}}})"
                )
                lines += wrap(f"    if ((uint64_t){product} >= (uint64_t)1 << 40)")
                lines.append("        return 1;")
        return lines

    # ------------------------------------------------------------ statuses 3, 2, 4

    def pointers(self) -> list[str]:
        """3 where one is NULL or misaligned."""
        lines = []
        for buffer in self._arrays:
            self._unit.helper("tdsl_unusable", UNUSABLE)
            name, size = self._names["buffer", buffer.name], self._name(buffer, "bytes")
            align = max(buffer.align or 1, buffer.elem.align)
            lines.append(f"    if (tdsl_unusable({name}, {size}, {align}))")
            lines.append("        return 3;")
        return lines

    def ranges(self) -> list[str]:
        """2 where a value breaks its promise; pointers were checked before."""
        lines = []
        for buffer in self._function.buffers:
            if not is_argument(buffer) or buffer.range is None:
                continue
            elem, name = buffer.elem.name, self._names["buffer", buffer.name]
            lo, hi = (self._index(end).text for end in buffer.range)
            text = OUTSIDE_U64
            if elem != "u64":
                text = OUTSIDE.format(name=elem, ctype=SCALARS[elem])
            self._unit.helper(f"tdsl_outside_{elem}", text)
            function = f"tdsl_outside_{elem}"
            if is_scalar(buffer):
                where = f"&{name}, (int64_t)sizeof {name}"
            elif self._is_strided(buffer):
                function = f"tdsl_outside_strided_{elem}"
                self._unit.helper(function, OUTSIDE_STRIDED.format(name=elem, ctype=SCALARS[elem]))
                extent, stride = self._name(buffer, "extent"), self._name(buffer, "stride")
                where = f"{name}, {len(buffer.shape)}, {extent}, {stride}"
            else:
                where = f"{name}, {self._name(buffer, 'bytes')}"
            lines += wrap(f"    if ({function}({where}, {lo}, {hi}))")
            lines.append("        return 2;")
        return lines

    def overlaps(self) -> list[str]:
        """4 where memory that is written is that of another argument, or of two elements."""
        lines = []
        for i, first in enumerate(self._arrays):
            if self._is_strided(first) and first.role in ("out", "inout"):
                self._unit.helper("tdsl_shares", SHARES)
                size, rank = self._name(first, "bytes"), len(first.shape)
                extent, stride = self._name(first, "extent"), self._name(first, "stride")
                lines += wrap(f"    if ({size} > 0 && tdsl_shares({rank}, {extent}, {stride}))")
                lines.append("        return 4;")
            for second in self._arrays[i + 1 :]:
                if {first.role, second.role} <= {"in", "const"}:
                    continue
                self._unit.helper("tdsl_overlap", OVERLAP)
                pairs = f"{self._memory(first)}, {self._memory(second)}"
                lines += [*wrap(f"    if (tdsl_overlap({pairs}))"), "        return 4;"]
        return lines

    def apart(self, start: str, size: str, *, written: bool = True) -> list[str]:
        """4 where some memory is that of an argument; of one that is written, unless told so."""
        lines = []
        for buffer in self._arrays:
            if written and buffer.role in ("in", "const"):
                continue
            self._unit.helper("tdsl_overlap", OVERLAP)
            pairs = f"{start}, {size}, {self._memory(buffer)}"
            lines += [*wrap(f"    if (tdsl_overlap({pairs}))"), "        return 4;"]
        return lines


def array_bytes(unit: Unit, index: IndexPrinter, buffer: Buffer) -> str:
    """A call that gives the bytes of a contiguous buffer, or -1."""
    unit.helper("tdsl_array_bytes", ARRAY_BYTES)
    if not buffer.shape:
        return str(buffer.elem.bytes)
    extents = ", ".join(index(e).text for e in buffer.shape)
    return (
        f"tdsl_array_bytes({buffer.elem.bytes}, {len(buffer.shape)}, "
        f"(const int64_t[]){{{extents}}})"
    )
