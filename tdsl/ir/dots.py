"""Which products are added in groups, by one instruction in each lane."""

from __future__ import annotations

from tdsl.ir.kernel import Cast, Expr, Op, Read
from tdsl.ir.types import ElemType

BYTES = (("u8", "i8"), ("i8", "i8"), ("u8", "u8"))
# (first, second, accumulator): the products that one lane adds.
DOTS = {
    **{(a, b, acc): 4 for a, b in BYTES for acc in ("i32", "u32")},
    **{("i16", "i16", acc): 2 for acc in ("i32", "u32")},
    ("bf16", "bf16", "f32"): 2,
}
# The products that one lane of a tile adds: of each of two rows with each of two columns.
TILE = (2, 2)
TILES = {kind: 2 * count for kind, count in DOTS.items() if "i16" not in kind}


def factors(term: Expr | None) -> tuple[Read, Read] | None:
    """The two elements that a term multiplies, u8 before i8; None for any other value.

    Their conversions keep their values, modulo the width of the product.
    """
    match term:
        case Op("mul", (left, right)):
            first, second = _widened(left), _widened(right)
        case _:
            return None
    if first is None or second is None:
        return None
    swapped = second.type.kind == "uint" and first.type.kind != "uint"
    return (second, first) if swapped else (first, second)


def group(reads: tuple[Read, Read], accumulator: ElemType, *, tile: bool = False) -> int | None:
    """How many products one lane adds; None where no instruction adds such ones. tile: the lanes
    are rows and columns."""
    first, second = reads
    known = TILES if tile else DOTS
    return known.get((first.type.name, second.type.name, accumulator.name))


def _widened(expr: Expr) -> Read | None:
    match expr:
        case Read():
            return expr
        case Cast("convert", arg, type):
            read = _widened(arg)
            if read is None or read.type.is_float != type.is_float:
                return None
            inexact = isinstance(arg, Cast) and not _holds(arg.type, read.type)
            return None if inexact else read
        case _:
            return None


def _holds(wide: ElemType, narrow: ElemType) -> bool:
    """Whether a type has all values of another one."""
    if wide.is_float or wide.kind == narrow.kind:
        return wide.bits >= narrow.bits
    return wide.kind == "int" and wide.bits > narrow.bits
