"""Records as structs of C.

record q4_0 { d: f16  q: u8[16] }   ->   struct q4_0 { uint16_t d; uint8_t q[16]; };
"""

from __future__ import annotations

from collections.abc import Iterable

from tdsl.codegen.names import Names
from tdsl.codegen.unit import SCALARS, record_tag
from tdsl.ir.types import ElemType
from tdsl.ir.vector import Function


def records(functions: Iterable[Function]) -> list[ElemType]:
    """The records that arguments hold, each once."""
    found = {b.elem.name: b.elem for f in functions for b in f.buffers if b.elem.fields}
    return list(found.values())


def struct(elem: ElemType) -> list[str]:
    """The declaration."""
    names = Names()
    lines = [f"struct {record_tag(elem)} {{"]
    for f in elem.fields:
        count = "" if f.count is None else f"[{f.count}]"
        lines.append(f"    {SCALARS[f.type.name]} {names.add('field', f.name)}{count};")
    return [*lines, "};"]


def guarded(elem: ElemType) -> list[str]:
    """The declaration in a header, once for all headers, and that its size is what it has to be."""
    tag = record_tag(elem)
    return [
        "",
        f"#ifndef TDSL_RECORD_{tag}",
        f"#define TDSL_RECORD_{tag}",
        *struct(elem),
        f"typedef char tdsl_size_of_{tag}[sizeof(struct {tag}) == {elem.bytes} ? 1 : -1];",
        "#endif",
    ]
