"""Masks in C: bits of a mask register on AVX-512, lanes of ones elsewhere."""

from __future__ import annotations

from tdsl.codegen.text import EQUAL, C, call, cast, negate
from tdsl.codegen.unit import SCALARS, Unit
from tdsl.codegen.vectors import splat, wrap_braces
from tdsl.ir.vector import VType


def uniform(unit: Unit, condition: C, type: VType) -> C:
    """All lanes as the condition says."""
    ctype = unit.ctype(type)
    if unit.target.has_mask_registers:
        if condition.text in ("0", "1"):
            return cast(ctype, C("0" if condition.text == "0" else "-1", 11))
        return cast(ctype, negate(C(condition.text, min(condition.level, EQUAL))))
    elem = VType(unit.mask_elem(type), type.lanes)
    scalar = SCALARS[elem.elem.name]
    return splat(unit, cast(scalar, negate(C(condition.text, min(condition.level, EQUAL)))), elem)


def first_lanes(unit: Unit, count: C, type: VType) -> C:
    """Lanes below a count, which may be negative or beyond the lanes."""
    ctype, lanes = unit.ctype(type), type.lanes
    if unit.target.has_mask_registers:
        name = f"tdsl_first_{lanes}"
        every, one = ("~0ULL", "1ULL") if lanes == 64 else (f"0x{(1 << lanes) - 1:x}", "1u")
        body = [
            f"return ({ctype})(count <= 0 ? 0 : count >= {lanes} ? {every} : ({one} << count) - 1);"
        ]
        unit.function(ctype, name, ["int64_t count"], body)
        return call(name, count)
    elem = unit.mask_elem(type)
    name = f"tdsl_first_{elem}x{lanes}"
    physical = unit.physical(elem, lanes)
    signed = unit.gnu(f"i{type.bits}", elem.bytes, physical)
    numbers = ", ".join(str(lane) for lane in range(physical))
    limit = ", ".join(["n"] * physical)
    body = [
        f"const {SCALARS[f'i{type.bits}']} n = ({SCALARS[f'i{type.bits}']})"
        f"(count < 0 ? 0 : count > {lanes} ? {lanes} : count);",
        *wrap_braces(f"const {signed} lane = ", numbers),
        *wrap_braces(f"const {signed} limit = ", limit),
        f"return ({ctype})(lane < limit);",
    ]
    unit.function(ctype, name, ["int64_t count"], body)
    return call(name, count)


def reduce_mask(unit: Unit, op: str, arg: C, type: VType) -> C:
    """`any` or `all` of the mask's lanes."""
    if op not in ("any", "all"):
        raise ValueError(f"{op} does not reduce a mask")
    if unit.target.has_mask_registers:
        name = f"tdsl_{op}_{type.lanes}"
        every = f"0x{(1 << type.lanes) - 1:x}" + ("ULL" if type.lanes == 64 else "")
        test = "!= 0" if op == "any" else f"== {every}"
        body = [f"return (m & {every}) {test};"]
        unit.function("_Bool", name, [f"{unit.ctype(type)} m"], body)
        return call(name, arg)
    elem = unit.mask_elem(type)
    name = f"tdsl_{op}_{elem}x{type.lanes}"
    physical = unit.physical(elem, type.lanes)
    if physical == type.lanes:
        found = unit.apply(op, elem.name, physical, arg)
        if found is not None:
            return found
    scalar = SCALARS[elem.name]
    joined = "|=" if op == "any" else "&="
    unit.function(
        "_Bool",
        name,
        [f"{unit.ctype(type)} m"],
        [
            f"{scalar} ms[{physical}];",
            "memcpy(ms, &m, sizeof ms);",
            f"for (int l = 1; l < {type.lanes}; l++)",
            f"    ms[0] {joined} ms[l];",
            "return ms[0] != 0;",
        ],
    )
    return call(name, arg)
