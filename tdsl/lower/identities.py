"""Values of the vector level that are simpler than they were written, with the same bits."""

from __future__ import annotations

from tdsl.ir import vector as v
from tdsl.ir.types import BOOL, ElemType


def uniform(mask: v.Value | None) -> v.Value | None:
    """The mask as one scalar condition, where it is the same in all lanes."""
    match mask:
        case None:
            return None
        case v.Condition(condition):
            return v.Condition(condition, v.VType(BOOL))
        case _ if mask.type.lanes == 1:
            return mask
        case v.Op("and" | "or" | "not" as op, args):
            parts = [uniform(a) for a in args]
            if any(p is None for p in parts):
                return None
            return v.Op(op, tuple(p for p in parts if p is not None), v.VType(BOOL))
        case _:
            return None


def zero_elsewhere(value: v.Value, chosen: v.Value) -> bool:
    """Whether a load that is masked gives 0 where a condition does not hold."""
    match value:
        case v.Load(mask=mask):
            return mask is not None
        case v.Splat(v.Load(mask=mask)):
            return mask is not None and uniform(chosen) is not None
        case _:
            return False


def without_one(args: list[v.Value]) -> v.Value | None:
    """The other factor of a product with 1, which is exact."""
    for one, other in (args, reversed(args)):
        if isinstance(one, v.Const) and one.value == 1.0:
            return other
    return None


def fuse(op: str, left: v.Value, right: v.Value) -> v.Value | None:
    """x + a * b, a * b + x, x - a * b with one rounding."""
    if isinstance(right, v.Op) and right.op == "mul":
        name = "fma" if op == "add" else "fnma"
        return v.Op(name, (*right.args, left), left.type)
    if op == "add" and isinstance(left, v.Op) and left.op == "mul":
        return v.Op("fma", (*left.args, right), right.type)
    return None


def wrap(value: int, type: ElemType) -> int:
    """An integer as its type holds it."""
    value &= (1 << type.bits) - 1
    if type.kind == "int" and value >> (type.bits - 1):
        value -= 1 << type.bits
    return value


def is_zero(value: v.Value) -> bool:
    return isinstance(value, v.Const) and str(value.value) in ("0", "0.0", "False")


def one_of(type: ElemType) -> int | float:
    return 1.0 if type.is_float else 1


def zero_of(type: ElemType) -> int | float:
    return 0.0 if type.is_float else 0
