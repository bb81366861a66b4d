"""The functions that a caller sees: checks on entry, the workspace, the variant's name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tdsl.codegen.checks import ArgumentChecks, array_bytes, is_argument, is_scalar
from tdsl.codegen.index import IndexPrinter
from tdsl.codegen.names import Names
from tdsl.codegen.processors import arm_feature
from tdsl.codegen.text import comment, wrap
from tdsl.codegen.unit import SCALARS, Unit
from tdsl.codegen.workspace import (
    in_workspace,
    is_sliced,
    room,
    slice_arguments,
    threads_argument,
)
from tdsl.ir import kernel
from tdsl.ir.types import ElemType
from tdsl.ir.vector import Buffer, Function

STATUS = (
    (0, "done"),
    (1, "a size or stride is out of range, or an array has 2^62 bytes or more"),
    (2, "an assumption of the kernel, or a promised range, does not hold"),
    (3, "a pointer is NULL or misaligned"),
    (4, "an output overlaps another argument or itself"),
    (5, "no memory for the workspace"),
    (6, "the processor lacks an instruction that this code uses"),
    (7, "the workspace is not aligned to 64 bytes"),
)

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
    """An entry: `int c_name(int64_t sizes..., arguments..., void *workspace)`; the free strides of
    an argument follow it."""

    name: str
    c_name: str
    sizes: tuple[str, ...]
    arguments: tuple[CArgument, ...]
    workspace_bytes: str
    variant: str


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
            b.name, names.add("buffer", b.name), b.elem, b.role, len(b.groups or b.shape),
            is_scalar(b), max(b.align or 1, b.elem.bytes),
        )
        for b in function.buffers if is_argument(b)
    )  # fmt: skip
    for buffer in function.buffers:
        for stride in buffer.free_strides:
            names.add("index", stride)
    return CFunction(function.name, c_name, function.sizes, arguments, space, variant)


def parameters(function: Function, names: Names) -> list[str]:
    """Of the entry, with the types and names of the header."""
    out = [f"int64_t {names['index', size]}" for size in function.sizes]
    for buffer in function.buffers:
        if is_argument(buffer):
            name = names["buffer", buffer.name]
            kind = f"{SCALARS[buffer.elem.name]} " if is_scalar(buffer) else pointer(buffer)
            out.append(kind + name)
            out += [f"int64_t {names['index', stride]}" for stride in buffer.free_strides]
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
        self._temps = in_workspace(function.buffers)

    def _bytes(self, buffer: Buffer) -> str:
        """A call that gives the buffer's bytes or -1."""
        return array_bytes(self._unit, self._index, buffer)

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
            lines += wrap(f"    bytes = {room(self._unit, buffer, self._bytes(buffer))};")
            lines.append("    if (bytes < 0 || bytes >= ((int64_t)1 << 62) - total)")
            lines.append("        return 0;")
            lines.append("    total += bytes;")
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
        checks = ArgumentChecks(self._unit, self._function, self._names, self._local)
        lines += checks.bytes()
        for assumption in self._function.assumptions:
            lines += [*wrap(f"    if (!({self._index(assumption).text}))"), "        return 2;"]
        lines += [*checks.pointers(), *checks.ranges(), *checks.overlaps()]
        lines += self._processor_check()
        lines += self._call(run, used)
        return [*lines, "}"]

    def _local(self, text: str) -> str:
        """A name of ours that no argument has."""
        return self._names.add("entry", text)

    def _bytes_name(self, buffer: Buffer) -> str:
        return self._local(f"{self._names['buffer', buffer.name]}_bytes")

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
                strides = [("index", s) for s in buffer.free_strides]
                arguments += [self._names[key] for key in strides if key in used]
            elif buffer.role in ("temp", "scratch"):
                at = f"({self._local('memory')} + {self._local(name + '_at')})"
                address = f"({SCALARS[buffer.elem.name]} *){at}"
                if is_sliced(buffer):
                    size = self._bytes_name(buffer)
                    arguments += slice_arguments(self._unit, buffer, address, size)
                else:
                    arguments.append(address)
        if any(is_sliced(b) and ("buffer", b.name) in used for b in self._temps):
            arguments.append(threads_argument(self._unit))
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
            takes = self._local(self._names.add("buffer", buffer.name) + "_room")
            lines += wrap(f"    const int64_t {size} = {self._bytes(buffer)};")
            lines += wrap(f"    const int64_t {takes} = {room(self._unit, buffer, size)};")
            lines += [f"    if ({takes} < 0 || {takes} >= ((int64_t)1 << 62) - {offset})"]
            lines += ["        return 1;", f"    {offset} += {takes};"]
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
        if buffer.strides is not None:
            index_names = (
                names["index", s] if isinstance(s, str) else _shape_text(index, s)
                for s in buffer.strides
            )  # fmt: skip
            kind += f", strides [{', '.join(index_names)}] in elements"
        align = f", aligned to {buffer.align} bytes" if buffer.align else ""
        values = ""
        if buffer.range is not None:
            values = ", values in " + "..".join(_shape_text(index, e) for e in buffer.range)
        lines.append(f"  {argument.c_name}: {argument.role}, {kind}{align}{values}")
    return comment(lines, "")


def _shape_text(index: IndexPrinter, extent: kernel.Expr) -> str:
    return index(extent).text.replace("tdsl_", "")
