"""Calls of the static functions that compute: memory for their arrays, then the arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tdsl.codegen.checks import array_bytes, is_argument, is_scalar
from tdsl.codegen.index import IndexPrinter
from tdsl.codegen.names import Names
from tdsl.codegen.text import wrap
from tdsl.codegen.unit import SCALARS, Unit, memory_type
from tdsl.codegen.workspace import (
    in_workspace,
    is_sliced,
    room,
    slice_arguments,
    slice_parameters,
    threads_argument,
    threads_name,
)
from tdsl.ir.vector import Buffer, Function

ALLOCATE = """static void *tdsl_allocate(size_t bytes)
{
    return aligned_alloc(64, bytes);
}"""


@dataclass(frozen=True)
class Static:
    """A static function of one variant: `run`, or `fill`, which makes what is prepared. `used`:
    the sizes, strides and buffers that its code names."""

    name: str
    function: Function
    used: frozenset[tuple[str, str]]
    fills: bool = False

    def uses(self, buffer: Buffer) -> bool:
        return ("buffer", buffer.name) in self.used

    def reads(self, buffer: Buffer) -> bool:
        """Whether it uses an argument; of records, one of their fields."""
        return self.uses(buffer) or any(
            b.field is not None and b.field[0] == buffer.name and self.uses(b)
            for b in self.function.buffers
        )

    @property
    def memory(self) -> list[Buffer]:
        """What it needs of the workspace."""
        return [b for b in in_workspace(self.function.buffers) if self.uses(b)]


@dataclass(frozen=True)
class CVariant:
    """One variant of an entry; `fill` makes its prepared arrays."""

    function: Function
    run: Static
    fill: Static | None = None

    @property
    def prepared(self) -> list[Buffer]:
        return [b for b in self.function.buffers if b.role == "prepared"]


def pointer(buffer: Buffer, *, written: bool = True) -> str:
    """`const float *` or `float *`."""
    const = "" if written and buffer.role not in ("in", "const") else "const "
    return f"{const}{memory_type(buffer.elem)} *"


def static_parameters(names: Names, static: Static) -> list[str]:
    """The parameters of a static function, in the order in which it is called."""
    function, used = static.function, static.used
    params = [f"const int64_t {names['index', s]}" for s in function.sizes if ("index", s) in used]
    for buffer in function.buffers:
        if buffer.elem.fields:  # what is used of records are their fields
            params += [f"const int64_t {s}" for s in _strides(names, buffer, static)]
        if not static.uses(buffer) or buffer.role in ("stack", "table"):
            continue
        name = names["buffer", buffer.name]
        if is_sliced(buffer):
            params += slice_parameters(names, buffer)
        elif is_argument(buffer) and is_scalar(buffer):
            params.append(f"const {SCALARS[buffer.elem.name]} {name}")
        else:
            written = buffer.role != "prepared" or static.fills
            params.append(f"{pointer(buffer, written=written)}restrict {name}")
            params += [f"const int64_t {s}" for s in _strides(names, buffer, static)]
    if any(is_sliced(b) and static.uses(b) for b in function.buffers):
        params.append(f"const int {threads_name(names)}")
    return params


@dataclass
class CallPrinter:
    """Prints the calls inside one function. `places`: where arrays are that no argument holds."""

    unit: Unit
    names: Names
    places: dict[str, str] = field(default_factory=dict)

    def local(self, text: str) -> str:
        """A name of ours that no argument has."""
        return self.names.add("entry", text)

    def bytes(self, buffer: Buffer) -> str:
        """A call that gives the buffer's bytes or -1."""
        index = IndexPrinter(
            lambda kind, name: self.names[kind, name], self.unit.helper, frozenset()
        )
        return array_bytes(self.unit, index, buffer)

    def _of(self, buffer: Buffer, what: str) -> str:
        return self.local(f"{self.names.add('buffer', buffer.name)}_{what}")

    def room(self, buffer: Buffer) -> str:
        """A call that gives what the buffer takes in memory or -1."""
        return room(self.unit, buffer, self.bytes(buffer))

    def obtain(
        self, buffers: Sequence[Buffer], workspace: str | None
    ) -> tuple[list[str], list[str]]:
        """Statements that find memory for these, and those that give it back. `workspace`: the
        pointer that the caller gave, which may be NULL."""
        if not buffers:
            return [], []
        self.unit.helper("tdsl_allocate", ALLOCATE)
        self.unit.headers.add("stdlib.h")
        memory, own, offset = (self.local(n) for n in ("memory", "allocated", "offset"))
        lines = [f"    int64_t {offset} = 0;"]
        for buffer in buffers:
            at, size, takes = (self._of(buffer, what) for what in ("at", "bytes", "room"))
            lines.append(f"    const int64_t {at} = {offset};")
            lines += wrap(f"    const int64_t {size} = {self.bytes(buffer)};")
            lines += wrap(f"    const int64_t {takes} = {room(self.unit, buffer, size)};")
            lines += [f"    if ({takes} < 0 || {takes} >= ((int64_t)1 << 62) - {offset})"]
            lines += ["        return 1;", f"    {offset} += {takes};"]
            self.places[buffer.name] = f"{memory} + {at}"
        if workspace is None:
            lines += [
                f"    void *const {own} = tdsl_allocate((size_t){offset});",
                f"    if ({own} == NULL)",
                "        return 5;",
                f"    char *const {memory} = {own};",
            ]
        else:
            lines += [
                f"    void *{own} = NULL;",
                f"    if ({workspace} == NULL) {{",
                f"        {own} = tdsl_allocate((size_t){offset});",
                f"        if ({own} == NULL)",
                "            return 5;",
                "    }",
                f"    char *const {memory} = {workspace} != NULL ? {workspace} : {own};",
            ]
        return lines, [f"    free({own});"]

    def call(self, static: Static) -> list[str]:
        """The call, with the addresses found before."""
        function, used = static.function, static.used
        arguments = [self.names["index", s] for s in function.sizes if ("index", s) in used]
        for buffer in function.buffers:
            if buffer.elem.fields:
                arguments += _strides(self.names, buffer, static)
            if not static.uses(buffer) or buffer.role in ("stack", "table"):
                continue
            if buffer.field is not None:
                arguments.append(self._field(buffer))
                continue
            if is_argument(buffer):
                arguments.append(self.names["buffer", buffer.name])
                arguments += _strides(self.names, buffer, static)
                continue
            written = buffer.role != "prepared" or static.fills
            address = f"({pointer(buffer, written=written)})({self.places[buffer.name]})"
            if is_sliced(buffer):
                size = self._of(buffer, "bytes")
                arguments += slice_arguments(self.unit, buffer, address, size)
            else:
                arguments.append(address)
        if any(is_sliced(b) and static.uses(b) for b in function.buffers):
            arguments.append(threads_argument(self.unit))
        return wrap(f"    {static.name}({', '.join(arguments)});")

    def _field(self, buffer: Buffer) -> str:
        """The address of a field in the first record."""
        assert buffer.field is not None
        record, offset = buffer.field
        char = "const char *" if buffer.role in ("in", "const") else "char *"
        return f"({pointer(buffer)})(({char}){self.names['buffer', record]} + {offset})"


def _strides(names: Names, buffer: Buffer, static: Static) -> list[str]:
    """Those of its free strides that the code uses."""
    return [names["index", s] for s in buffer.free_strides if ("index", s) in static.used]


def indented(lines: Sequence[str]) -> list[str]:
    """One level deeper."""
    return [w for line in lines for w in wrap(f"    {line}")]
