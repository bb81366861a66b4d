"""All lanes of a vector joined to a scalar: halves by instructions, else a tree of lanes."""

from __future__ import annotations

from tdsl.codegen.scalar import scalar_op
from tdsl.codegen.text import C, call, cast
from tdsl.codegen.unit import SCALARS, Unit, kept
from tdsl.codegen.vectors import plain_op
from tdsl.ir.vector import VType


def reduce_lanes(unit: Unit, op: str, arg: C, type: VType) -> C:
    """Lane l is joined with lane l + n/2, and so on down."""
    name = f"tdsl_reduce_{op}_{type.elem}x{type.lanes}"
    elem, physical = kept(type.elem), unit.physical(type.elem, type.lanes)
    scalar, ctype = SCALARS[type.elem.name], unit.ctype(type)
    half = VType(type.elem, type.lanes // 2)
    # f16 and bf16 are kept as integers, which instructions would join.
    plain = not (type.elem.is_float and type.elem.bits == 16)
    halves = _halves(unit, type, elem, physical) if plain else None
    if halves is not None and half.lanes > 1:
        joined = plain_op(unit, op, halves, half, half)
        body = [f"return {reduce_lanes(unit, op, joined, half).text};"]
    elif halves is not None:
        joined = plain_op(unit, op, halves, type, type)
        lanes = cast(unit.gnu(elem, type.elem.bytes, physical), joined)
        body = [f"return ({lanes.text})[0];"]
    else:
        pair = scalar_op(unit, op, [C("vs[l]"), C("vs[l + n]")], type.elem)
        body = [
            f"{scalar} vs[{physical}];",
            "memcpy(vs, &v, sizeof vs);",
            f"for (int n = {type.lanes // 2}; n > 0; n /= 2)",
            "    for (int l = 0; l < n; l++)",
            f"        vs[l] = {pair.text};",
            "return vs[0];",
        ]
    unit.function(scalar, name, [f"{ctype} v"], body)
    return call(name, arg)


def _halves(unit: Unit, type: VType, elem: str, physical: int) -> tuple[C, C] | None:
    """The lower and the upper half of a vector `v`; lanes beyond them have any value."""
    if physical == type.lanes:
        low = unit.apply("low", elem, physical, C("v"))
        high = unit.apply("high", elem, physical, C("v"))
        if low is not None and high is not None:
            return low, high
    upper = unit.apply("upper", elem, type.lanes, C("v"))
    return None if upper is None else (C("v"), upper)
