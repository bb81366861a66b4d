"""The functions that a caller sees: checks on entry, the workspace, the variant's name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tdsl.codegen.index import IndexPrinter
from tdsl.codegen.names import Names
from tdsl.codegen.processors import arm_feature
from tdsl.codegen.text import comment, wrap
from tdsl.codegen.unit import SCALARS, Unit
from tdsl.ir import kernel
from tdsl.ir.types import ElemType
from tdsl.ir.vector import Buffer, Function

STATUS = (
    (0, "done"),
    (1, "a size is negative or too large, or an array has 2^62 bytes or more"),
    (2, "an assumption of the kernel, or a promised range, does not hold"),
    (3, "a pointer is NULL or misaligned"),
    (4, "an output overlaps another argument"),
    (5, "no memory for the workspace"),
    (6, "the processor lacks an instruction that this code uses"),
    (7, "the workspace is not aligned to 64 bytes"),
)

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
ALLOCATE = """static void *tdsl_allocate(size_t bytes)
{
    return aligned_alloc(64, bytes);
}"""


@dataclass(frozen=True)
class CArgument:
    """An argument of an entry, sizes apart. `by_value`: a scalar that is only read."""

    name: str
    c_name: str
    elem: ElemType
    role: str
    rank: int
    by_value: bool
    align: int


@dataclass(frozen=True)
class CFunction:
    """An entry: `int c_name(int64_t sizes..., arguments..., void *workspace)`."""

    name: str
    c_name: str
    sizes: tuple[str, ...]
    arguments: tuple[CArgument, ...]
    workspace_bytes: str
    variant: str


def is_argument(buffer: Buffer) -> bool:
    return buffer.role in ("in", "const", "out", "inout")


def is_scalar(buffer: Buffer) -> bool:
    """Passed by value."""
    return buffer.role in ("in", "const") and not buffer.shape


def pointer(buffer: Buffer) -> str:
    """`const float *` or `float *`."""
    const = "const " if buffer.role in ("in", "const") else ""
    return f"{const}{SCALARS[buffer.elem.name]} *"


def describe(function: Function, names: Names, c_name: str, space: str, variant: str) -> CFunction:
    """The entry's description; mangles sizes and arguments in declaration order."""
    for size in function.sizes:
        names.add("index", size)
    arguments = tuple(
        CArgument(
            b.name, names.add("buffer", b.name), b.elem, b.role, len(b.shape), is_scalar(b),
            max(b.align or 1, b.elem.bytes),
        )
        for b in function.buffers if is_argument(b)
    )  # fmt: skip
    return CFunction(function.name, c_name, function.sizes, arguments, space, variant)


def parameters(function: Function, names: Names) -> list[str]:
    """Of the entry, with the types and names of the header."""
    out = [f"int64_t {names['index', size]}" for size in function.sizes]
    for buffer in function.buffers:
        if is_argument(buffer):
            name = names["buffer", buffer.name]
            kind = f"{SCALARS[buffer.elem.name]} " if is_scalar(buffer) else pointer(buffer)
            out.append(kind + name)
    return [*out, "void *workspace"]


def prototype(start: str, params: Sequence[str], end: str) -> list[str]:
    """A function's head, over several lines where it is long."""
    return wrap(f"{start}({', '.join(params) if params else 'void'}){end}")


class EntryPrinter:
    """Prints what surrounds `run`, the function that computes."""

    def __init__(
        self, unit: Unit, function: Function, names: Names, described: CFunction, prefix: str
    ) -> None:
        self._unit, self._function, self._names = unit, function, names
        self._described, self._prefix = described, prefix
        self._index = IndexPrinter(lambda kind, name: names[kind, name], unit.helper, frozenset())
        self._temps = [b for b in function.buffers if b.role == "temp"]
        self._arrays = [b for b in function.buffers if is_argument(b) and not is_scalar(b)]

    def _bytes(self, buffer: Buffer) -> str:
        """A call that gives the buffer's bytes or -1."""
        self._unit.helper("tdsl_array_bytes", ARRAY_BYTES)
        if not buffer.shape:
            return str(buffer.elem.bytes)
        extents = ", ".join(self._index(e).text for e in buffer.shape)
        return (
            f"tdsl_array_bytes({buffer.elem.bytes}, {len(buffer.shape)}, "
            f"(const int64_t[]){{{extents}}})"
        )

    def _size_checks(self, failure: str) -> list[str]:
        """Statements that leave with `failure` where a size is not allowed."""
        tests = []
        for size in self._function.sizes:
            name = self._names["index", size]
            tests.append(f"{name} < 0 || {name} >= (int64_t)1 << 40")
        return [line for t in tests for line in (f"    if ({t})", f"        {failure}")]

    # ------------------------------------------------------------ beside the entry

    def workspace(self) -> list[str]:
        """`NAME_workspace_bytes`."""
        sizes = [f"int64_t {self._names['index', s]}" for s in self._function.sizes]
        lines = prototype(f"size_t {self._described.workspace_bytes}", sizes, "")
        lines.append("{")
        if not self._temps:
            lines += [f"    (void){self._names['index', s]};" for s in self._function.sizes]
            return [*lines, "    return 0;", "}"]
        lines += self._size_checks("return 0;")
        lines.append("    int64_t total = 0, bytes;")
        for buffer in self._temps:
            lines += wrap(f"    bytes = {self._bytes(buffer)};")
            lines.append("    if (bytes < 0 || bytes >= ((int64_t)1 << 62) - 64 - total)")
            lines.append("        return 0;")
            lines.append("    total += (bytes + 63) / 64 * 64;")
        return [*lines, "    return (size_t)total;", "}"]

    def variant(self, text: str) -> list[str]:
        """`NAME_variant`."""
        sizes = [f"int64_t {self._names['index', s]}" for s in self._function.sizes]
        lines = prototype(f"const char *{self._described.variant}", sizes, "")
        lines.append("{")
        lines += [f"    (void){self._names['index', s]};" for s in self._function.sizes]
        return [*lines, f"    return {string(text)};", "}"]

    # ------------------------------------------------------------ the entry

    def entry(self, run: str, used: set[tuple[str, str]]) -> list[str]:
        """The checks in the order of their status, then the call."""
        lines = prototype(
            f"int {self._described.c_name}", parameters(self._function, self._names), ""
        )
        lines.append("{")
        lines += self._size_checks("return 1;")
        lines += self._argument_bytes()
        for assumption in self._function.assumptions:
            lines += [*wrap(f"    if (!({self._index(assumption).text}))"), "        return 2;"]
        lines += self._pointer_checks()
        lines += self._range_checks()
        lines += self._overlap_checks()
        lines += self._processor_check()
        lines += self._call(run, used)
        return [*lines, "}"]

    def _local(self, text: str) -> str:
        """A name of ours that no argument has."""
        return self._names.add("entry", text)

    def _bytes_name(self, buffer: Buffer) -> str:
        return self._local(f"{self._names['buffer', buffer.name]}_bytes")

    def _argument_bytes(self) -> list[str]:
        lines = []
        for buffer in self._arrays:
            name = self._bytes_name(buffer)
            lines += wrap(f"    const int64_t {name} = {self._bytes(buffer)};")
            if buffer.shape:
                lines += [f"    if ({name} < 0)", "        return 1;"]
        return lines

    def _pointer_checks(self) -> list[str]:
        lines = []
        for buffer in self._arrays:
            self._unit.helper("tdsl_unusable", UNUSABLE)
            name, size = self._names["buffer", buffer.name], self._bytes_name(buffer)
            align = max(buffer.align or 1, buffer.elem.bytes)
            lines.append(f"    if (tdsl_unusable({name}, {size}, {align}))")
            lines.append("        return 3;")
        return lines

    def _range_checks(self) -> list[str]:
        """The values that arguments promise; pointers were checked before."""
        lines = []
        for buffer in self._function.buffers:
            if not is_argument(buffer) or buffer.range is None:
                continue
            elem, name = buffer.elem.name, self._names["buffer", buffer.name]
            lo, hi = (self._index(end).text for end in buffer.range)
            where = name
            if is_scalar(buffer):
                where, size = f"&{name}", f"(int64_t)sizeof {name}"
            else:
                size = self._bytes_name(buffer)
            text = OUTSIDE_U64
            if elem != "u64":
                text = OUTSIDE.format(name=elem, ctype=SCALARS[elem])
            self._unit.helper(f"tdsl_outside_{elem}", text)
            lines += wrap(f"    if (tdsl_outside_{elem}({where}, {size}, {lo}, {hi}))")
            lines.append("        return 2;")
        return lines

    def _overlap_checks(self) -> list[str]:
        lines = []
        for i, first in enumerate(self._arrays):
            for second in self._arrays[i + 1 :]:
                if {first.role, second.role} <= {"in", "const"}:
                    continue
                self._unit.helper("tdsl_overlap", OVERLAP)
                pairs = (f"{self._names['buffer', b.name]}, {self._bytes_name(b)}"
                         for b in (first, second))  # fmt: skip
                lines += [f"    if (tdsl_overlap({', '.join(pairs)}))", "        return 4;"]
        return lines

    def _processor_check(self) -> list[str]:
        features = sorted(self._unit.required)
        if not features:
            return []
        if self._unit.target.family == "x86":
            tests = " && ".join(f'__builtin_cpu_supports("{f}")' for f in features)
        else:
            for feature in features:
                self._unit.helper(f"tdsl_has_{feature}", arm_feature(feature))
            tests = " && ".join(f"tdsl_has_{f}()" for f in features)
        return [*wrap(f"    if (!({tests}))"), "        return 6;"]

    def _call(self, run: str, used: set[tuple[str, str]]) -> list[str]:
        arguments = [self._names["index", s] for s in self._function.sizes if ("index", s) in used]
        lines: list[str] = []
        free: list[str] = []
        if self._temps:
            lines, free = self._obtain()
        else:
            lines = ["    if ((uintptr_t)workspace % 64 != 0)", "        return 7;"]
        for buffer in self._function.buffers:
            if ("buffer", buffer.name) not in used:
                continue
            name = self._names["buffer", buffer.name]
            if is_argument(buffer):
                arguments.append(name)
            elif buffer.role == "temp":
                arguments.append(f"({SCALARS[buffer.elem.name]} *)({self._local('memory')} + "
                                 f"{self._local(name + '_at')})")  # fmt: skip
        lines += wrap(f"    {run}({', '.join(arguments)});")
        return [*lines, *free, "    return 0;"]

    def _obtain(self) -> tuple[list[str], list[str]]:
        """Statements that find the workspace, and those that give it back."""
        self._unit.helper("tdsl_allocate", ALLOCATE)
        self._unit.headers.add("stdlib.h")
        need, memory, own = (self._local(n) for n in ("needed", "memory", "allocated"))
        sizes = ", ".join(self._names["index", s] for s in self._function.sizes)
        lines = ["    int64_t " + self._local("offset") + " = 0;"]
        offset = self._local("offset")
        for buffer in self._temps:
            at = self._local(self._names.add("buffer", buffer.name) + "_at")
            size = self._bytes_name(buffer)
            lines.append(f"    const int64_t {at} = {offset};")
            lines += wrap(f"    const int64_t {size} = {self._bytes(buffer)};")
            lines += [f"    if ({size} < 0 || {size} >= ((int64_t)1 << 62) - 64 - {offset})"]
            lines += ["        return 1;", f"    {offset} += ({size} + 63) / 64 * 64;"]
        lines += [
            "    if ((uintptr_t)workspace % 64 != 0)",
            "        return 7;",
            f"    const size_t {need} = {self._described.workspace_bytes}({sizes});",
            f"    void *{own} = NULL;",
            f"    if (workspace == NULL && {need} > 0) {{",
            f"        {own} = tdsl_allocate({need});",
            f"        if ({own} == NULL)",
            "            return 5;",
            "    }",
            f"    char *const {memory} = workspace != NULL ? workspace : {own};",
        ]
        return lines, [f"    free({own});"]


def string(text: str) -> str:
    """A string literal: bytes of UTF-8, those that mean something to C in octal."""
    plain = (
        chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in text.encode()
    )
    return f'"{"".join(plain)}"'


def document(described: CFunction, function: Function, names: Names) -> list[str]:
    """The comment over a prototype."""
    lines = [f"{function.name}: sizes and arguments in the order of the kernel."]
    for argument, buffer in zip(
        described.arguments, (b for b in function.buffers if is_argument(b)), strict=True
    ):
        index = IndexPrinter(lambda kind, name: names[kind, name], lambda a, b: None, frozenset())
        shape = ", ".join(_shape_text(index, e) for e in buffer.shape)
        kind = f"{argument.elem}[{shape}]" if buffer.shape else str(argument.elem)
        align = f", aligned to {buffer.align} bytes" if buffer.align else ""
        values = ""
        if buffer.range is not None:
            values = ", values in " + "..".join(_shape_text(index, e) for e in buffer.range)
        lines.append(f"  {argument.c_name}: {argument.role}, {kind}{align}{values}")
    return comment(lines, "")


def _shape_text(index: IndexPrinter, extent: kernel.Expr) -> str:
    return index(extent).text.replace("tdsl_", "")
