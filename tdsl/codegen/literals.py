"""Constants in C, exact to the last bit."""

from __future__ import annotations

import math
import struct

from tdsl.codegen.text import UNARY, C
from tdsl.codegen.unit import Unit
from tdsl.ir.types import ElemType


def literal(unit: Unit, value: int | float | bool, elem: ElemType) -> C:
    """A scalar constant of the element type; f16 and bf16 as their bits."""
    if elem.name == "bool":
        return C("1" if value else "0")
    if elem.is_float:
        if elem.name in ("f16", "bf16"):
            return C(f"0x{_half_bits(float(value), elem.name):04x}")
        return _float(unit, float(value), elem.name)
    return _integer(int(value), elem)


def _float(unit: Unit, value: float, name: str) -> C:
    if math.isnan(value) or math.isinf(value):
        unit.headers.add("math.h")
        text = "NAN" if math.isnan(value) else "INFINITY"
        negative = value < 0
    else:
        text = _shortest(abs(value), name)
        negative = math.copysign(1.0, value) < 0
    return C("-" + text, UNARY) if negative else C(text)


def _shortest(value: float, name: str) -> str:
    """The fewest digits that read back as the same number."""
    text = repr(value)
    if name == "f32":
        if struct.unpack("f", struct.pack("f", value))[0] != value:
            raise ValueError(f"{value!r} is no f32")
        digits = (f"{value:.{d}g}" for d in range(1, 10))
        text = next(t for t in digits if struct.unpack("f", struct.pack("f", float(t)))[0] == value)
    if "." not in text and "e" not in text:
        text += ".0"
    return text + ("f" if name == "f32" else "")


def _integer(value: int, elem: ElemType) -> C:
    low = -(1 << elem.bits - 1) if elem.kind == "int" else 0
    high = (1 << elem.bits - (elem.kind == "int")) - 1
    if not low <= value <= high:
        raise ValueError(f"{value} is no {elem}")
    if elem.kind == "int":
        if elem.bits >= 32 and value == low:
            return C(f"INT{elem.bits}_MIN")
        suffix = "" if -(2**31) < value < 2**31 else "LL"
        return C(f"{value}{suffix}", UNARY) if value < 0 else C(f"{value}{suffix}")
    # By the type, not by the value: ~1u has 32 bits.
    suffix = {32: "u", 64: "ULL"}.get(elem.bits, "")
    return C(f"{value}{suffix}")


def _half_bits(value: float, name: str) -> int:
    if name == "f16":
        return int(struct.unpack("<H", struct.pack("<e", value))[0])
    bits = int(struct.unpack("<I", struct.pack("<f", value))[0])
    if bits & 0xFFFF and not math.isnan(value):
        raise ValueError(f"{value!r} is no bf16")
    return bits >> 16 | (0x40 if math.isnan(value) else 0)
