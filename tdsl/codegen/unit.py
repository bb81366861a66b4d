"""One C file in the making: the helpers, vector types, headers and features that it uses."""

from __future__ import annotations

from collections.abc import Sequence

from tdsl.codegen.names import Names
from tdsl.codegen.text import C, call
from tdsl.ir.types import BOOL, ElemType
from tdsl.ir.vector import VType
from tdsl.targets import Row, Target, instructions

SCALARS = {
    "f64": "double", "f32": "float", "f16": "uint16_t", "bf16": "uint16_t", "bool": "uint8_t",
    "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t", "index": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
}  # fmt: skip
# Elements that a vector keeps as other elements of the same width.
KEPT = {"f16": "u16", "bf16": "u16", "bool": "u8", "index": "i64"}
_NEON = {"f": "float", "i": "int", "u": "uint"}


def kept(elem: ElemType) -> str:
    """The name of the elements that stand for `elem` in a vector register."""
    return KEPT.get(elem.name, elem.name)


def memory_type(elem: ElemType) -> str:
    """The C type of an element in memory."""
    return f"struct {record_tag(elem)}" if elem.fields else SCALARS[elem.name]


def record_tag(elem: ElemType) -> str:
    """The tag of a record's struct."""
    return Names(external=True).add("record", elem.name)


class Unit:
    """What the functions of one file share. Helpers come out in the order of their first use."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.table = instructions(target)
        self.helpers: dict[str, str] = {}
        self.typedefs: dict[str, str] = {}
        self.headers: set[str] = set()
        self.features: set[str] = set()
        self.functions: dict[str, tuple[str, VType]] = {}  # elementary ones that are called

    @property
    def attribute(self) -> str:
        """What stands before functions over vectors: a macro for the instructions they may use."""
        extended = self.target.family == "neon" and self.target.features
        return "TDSL_TARGET " if self.target.family == "x86" or extended else ""

    @property
    def required(self) -> frozenset[str]:
        """The features that the code needs."""
        return self.target.required | self.features

    # ------------------------------------------------------------ rows

    def row(self, op: str, elem: str, lanes: int) -> Row | None:
        """The instruction for `op`, if the target has one; its header and feature are noted."""
        found = self.table.get((op, elem, lanes))
        if found is not None:
            self.headers.add(found.header)
            if found.feature:
                self.features.add(found.feature)
        return found

    def apply(self, op: str, elem: str, lanes: int, *args: C) -> C | None:
        """The row's C with these operands, or None where there is no row."""
        found = self.row(op, elem, lanes)
        if found is None:
            return None
        # Operands stand between commas, or behind a cast where they are addresses: `&x[i]`.
        return C(found.template.format(*(a.text for a in args)))

    # ------------------------------------------------------------ types

    def physical(self, elem: ElemType, lanes: int) -> int:
        """Lanes of the register that holds the vector; those beyond `lanes` have any value."""
        width = self.target.register_bytes(elem, lanes)
        if width is None:
            raise ValueError(f"{elem}x{lanes} fits no register of {self.target.name}")
        return width // elem.bytes

    def ctype(self, type: VType) -> str:
        """The C type of a variable of that type."""
        if type.lanes == 1:
            return "_Bool" if type.elem == BOOL else SCALARS[type.elem.name]
        if not type.is_mask:
            return self.register(type.elem, type.lanes)
        if self.target.has_mask_registers:
            self.headers.add("immintrin.h")
            return f"__mmask{max(8, type.lanes)}"
        return self.register(self.mask_elem(type), type.lanes)

    def mask_elem(self, type: VType) -> ElemType:
        """Elements of a mask that is a vector of lanes of ones."""
        kind = "uint" if self.target.family == "neon" else "int"
        return ElemType(f"{kind[0]}{type.bits}", kind, type.bits)

    def register(self, elem: ElemType, lanes: int) -> str:
        """The target's own name of the register's type."""
        count, name = self.physical(elem, lanes), kept(elem)
        if self.target.family == "neon":
            self.headers.add("arm_neon.h")
            return f"{_NEON[name[0]]}{elem.bits}x{count}_t"
        self.headers.add("immintrin.h")
        bits = count * elem.bytes * 8
        return f"__m{bits}{ {'f32': '', 'f64': 'd'}.get(name, 'i') }"

    def gnu(self, elem: str, bytes: int, lanes: int) -> str:
        """A vector type with plain elements, for operators: `u8x16`."""
        name = f"{elem}x{lanes}"
        size = bytes * lanes
        self.typedefs[name] = (
            f"typedef {SCALARS[elem]} {name} __attribute__((vector_size({size})));"
        )
        return name

    # ------------------------------------------------------------ helpers

    def helper(self, name: str, text: str) -> None:
        """Note a function that is called; `text` is its whole definition."""
        self.helpers.setdefault(name, text)
        for word, header in (
            ("memcpy(", "string.h"), ("memset(", "string.h"), ("INFINITY", "math.h"),
            ("free(", "stdlib.h"), ("_alloc(", "stdlib.h"), ("fma(", "math.h"), ("fmaf(", "math.h"),
        ):  # fmt: skip
            if word in text:
                self.headers.add(header)

    def elementary(self, op: str, type: VType, arg: C) -> C:
        """A call of an elementary function, which is defined when all code is printed."""
        name = f"tdsl_{op}_{type}"
        self.functions[name] = (op, type)
        return call(name, arg)

    def function(
        self, result: str, name: str, parameters: Sequence[str], body: Sequence[str]
    ) -> None:
        """A helper over vectors: it carries the target as an attribute."""
        head = f"static inline {self.attribute}{result} {name}({', '.join(parameters)})"
        lines = [head, "{", *(f"    {line}" for line in body), "}"]
        self.helper(name, "\n".join(lines))
