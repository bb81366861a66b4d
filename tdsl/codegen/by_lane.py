"""Products with one lane of a register, or with one group of its lanes, in C."""

from __future__ import annotations

from collections.abc import Callable

from tdsl.codegen.text import UNARY, C, cast
from tdsl.codegen.unit import Unit
from tdsl.ir.types import TYPES
from tdsl.ir.vector import Dot, Op, Part, Repeat, Splat, Value, VType
from tdsl.targets import by_lane

Print = Callable[[Value], C]


def fused_by_lane(unit: Unit, op: Op, text: Print) -> C | None:
    """a * b + c where a or b is a lane of a register; None for what is not so."""
    template = by_lane.fused_by_lane(unit.target, op.op, op.type.elem.name)
    if template is None or op.type.lanes * op.type.elem.bytes != by_lane.REGISTER:
        return None
    for one, other in (op.args[:2], op.args[1::-1]):
        match one:
            case Splat(Part(arg, lane, VType(lanes=1))) if arg.type == op.type:
                parts = (text(op.args[2]).text, text(other).text, text(arg).text, lane)
                return C(template.format(*parts))
            case _:
                pass
    return None


def dot_by_group(unit: Unit, dot: Dot, text: Print) -> C | None:
    """A sum of groups of products where all lanes share one of the groups of a register."""
    kinds = dot.first.type.elem.name, dot.second.type.elem.name
    for which, (one, other) in enumerate(((dot.first, dot.second), (dot.second, dot.first))):
        match one:
            case Repeat(Part(arg, start, part), type) if arg.type == type and not dot.columns:
                found = by_lane.dot_by_group(unit.target, *kinds, which)
            case _:
                continue
        if found is None:
            continue
        template, feature = found
        unit.features.add(feature)
        unit.headers.add("arm_neon.h")
        sum_type = VType(TYPES["i32"], dot.type.lanes) if dot.type.elem.is_integer else dot.type
        ctype, own = unit.ctype(sum_type), unit.ctype(dot.type)
        acc = text(dot.acc) if ctype == own else cast(ctype, text(dot.acc))
        group = start // part.lanes
        result = C(template.format(acc.text, text(other).at(UNARY), text(arg).at(UNARY), group))
        return result if ctype == own else cast(own, result)
    return None
