"""Sums of groups of products in C, and the groups that all lanes share."""

from __future__ import annotations

from collections.abc import Sequence

from tdsl.codegen.text import BITAND, PRODUCT, UNARY, C, binary, call, cast
from tdsl.codegen.unit import Unit, kept
from tdsl.ir.types import TYPES
from tdsl.ir.vector import Dot, VType
from tdsl.targets.dots import dot_row, tile_row
from tdsl.targets.x86 import PREFIX


def dot(unit: Unit, value: Dot, args: Sequence[C]) -> C:
    """The target's instruction, or a helper made of others."""
    type, first, second = value.type, value.first.type.elem, value.second.type.elem
    if value.columns:
        row = tile_row(unit.target, first.name, second.name)
    else:
        row = dot_row(unit.target, first.name, second.name, type.lanes)
    if row is None:
        raise ValueError(f"no row for a dot of {first} and {second} in {type}")
    if row.feature:
        unit.features.add(row.feature)
    # Rows add in s32; so do those of u32, modulo 2^32.
    sum_type = VType(TYPES["i32"], type.lanes) if type.elem.is_integer else type
    accumulator, ctype = args[0], unit.ctype(sum_type)
    if ctype != unit.ctype(type):
        accumulator = cast(ctype, accumulator)
    if row.body:
        name = f"tdsl_dot_{first}_{second}_x{type.lanes}"
        operands = [
            f"{unit.ctype(v.type)} {n}" for v, n in ((value.first, "b"), (value.second, "c"))
        ]
        unit.function(ctype, name, [f"{ctype} a", *operands], [*row.body, f"return {row.value};"])
        result = call(name, accumulator, args[1], args[2])
    else:
        result = C(row.value.format(accumulator.text, args[1].at(UNARY), args[2].at(UNARY)))
    return result if ctype == unit.ctype(type) else cast(unit.ctype(type), result)


def repeat(unit: Unit, arg: C, of: VType, type: VType) -> C:
    """The lanes of a short vector or mask over and over."""
    if type.is_mask and unit.target.has_mask_registers:
        one, every = (1 << of.lanes) - 1, sum(1 << lane for lane in range(0, type.lanes, of.lanes))
        suffix = "ULL" if type.lanes > 32 else "u"
        part = binary("&", BITAND, arg, C(f"0x{one:x}"))
        product = binary("*", PRODUCT, part, C(f"0x{every:x}{suffix}"))
        return cast(unit.ctype(type), product)
    bits = of.lanes * (of.bits if of.is_mask else of.elem.bits)
    word = TYPES[f"u{bits}"]
    whole = unit.physical(word, type.lanes // of.lanes)
    if unit.target.family == "x86":
        letter = {32: "d", 64: "q"}[bits]
        name = f"{PREFIX[whole * bits // 8]}_broadcast{letter}_epi{bits}"
        unit.headers.add("immintrin.h")
        return call(name, arg)
    q = "q" if whole * bits == 128 else ""
    unit.headers.add("arm_neon.h")
    lanes = call(f"vdup{q}_lane_u{bits}", cast(f"uint{bits}x{64 // bits}_t", arg), "0")
    return cast(unit.ctype(type), lanes)


def join(unit: Unit, low: C, high: C, type: VType) -> C:
    """Two vectors that fill their registers as one of twice the width."""
    bits = type.lanes * type.elem.bits
    ctype = unit.ctype(type)
    if unit.target.family == "neon":
        kind = {"float": "f", "int": "s", "uint": "u"}[type.elem.kind]
        return call(f"vcombine_{kind}{type.elem.bits}", low, high)
    halves = [cast(f"__m{bits // 2}i", half) for half in (low, high)]
    if bits == 256:
        return cast(ctype, call("_mm256_set_m128i", halves[1], halves[0]))
    wide = call("_mm512_castsi256_si512", halves[0])
    return cast(ctype, call("_mm512_inserti64x4", wide, halves[1], "1"))


def part(unit: Unit, arg: C, start: int, of: VType, type: VType) -> C:
    """Some lanes of a vector."""
    bits = of.lanes * of.elem.bits
    if unit.target.family == "neon" and bits == 128 and type.lanes * 2 == of.lanes:
        unit.headers.add("arm_neon.h")
        half = "high" if start else "low"
        kind = {"f": "f", "i": "s", "u": "u"}[kept(type.elem)[0]]
        return call(f"vget_{half}_{kind}{type.elem.bits}", arg)
    ctype, elem, size = unit.ctype(type), kept(type.elem), type.elem.bytes
    name = f"tdsl_lanes_{elem}x{type.lanes}_of_{of.lanes}"
    body = [
        f"{ctype} v{' = {0}' if type.lanes > 1 else ''};",
        f"memcpy(&v, (const char *)&x + {size} * start, {size * type.lanes});",
        "return v;",
    ]
    unit.function(ctype, name, [f"{unit.ctype(of)} x", "int start"], body)
    return call(name, arg, C(str(start)))


def repeat_load(unit: Unit, address: C, of: VType, type: VType) -> C:
    """Elements of memory over and over: a load that goes to all lanes."""
    bits = of.lanes * of.elem.bits
    if unit.target.family == "x86":
        return repeat(unit, call(f"_mm_loadu_si{bits}", address), of, type)
    name = f"tdsl_word_u{bits}"
    body = [f"uint{bits}_t v;", "memcpy(&v, p, sizeof v);", "return v;"]
    unit.function(f"uint{bits}_t", name, ["const void *p"], body)
    q = "q" if type.lanes * type.elem.bits == 128 else ""
    unit.headers.add("arm_neon.h")
    return cast(unit.ctype(type), call(f"vdup{q}_n_u{bits}", call(name, address)))
