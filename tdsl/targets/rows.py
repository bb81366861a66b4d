"""An instruction is a row: which operation on which vector, and how C spells it.

The semantics of a row are those of the operation (`tdsl.ir.vector`), lane by lane.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """`op` on `lanes` elements of `elem`, written as `template` with {0}, {1}, ... for operands.

    Beside the names of `tdsl.ir.vector.Op` there are: load, store, maskload, maskstore (operand 0
    is the address), splat, choose (mask, then, other), low and high (halves), upper (the upper half
    of so many lanes, which may be fewer than the register's, in the lowest lanes), any and all of
    a mask that is lanes of ones, and the casts "convert.FROM", "saturate.FROM" whose `elem` is the
    result. min.number and max.number are exact only where operand 0 is a constant that is no NaN.
    scale: operand 0 times 2 to the power of operand 1 (whole), rounded once. shl.const, shr.const:
    operand 1 is a literal below the width. stream: as store, past the
    caches, to an address that is a multiple of the vector's bytes; stream.fence orders such stores.
    zip.low, zip.high: the lower or upper halves of two vectors, lanes in turn, inside each 16 bytes
    where there are groups: groups2.low, groups2.high: the lower or upper 16 bytes of each operand;
    groups4.even, groups4.odd: of 16-byte groups 0 and 2, or 1 and 3, of each operand. slide: two
    vectors, one behind the other, from lane operand 2 (a literal) on. `feature`: what the
    processor must have beyond the target's own.
    """

    op: str
    elem: str
    lanes: int
    template: str
    feature: str = ""
    header: str = "immintrin.h"


Table = dict[tuple[str, str, int], Row]


def table(rows: Iterable[Row]) -> Table:
    """Rows by (op, elem, lanes); a second row of one key is a defect."""
    found: Table = {}
    for row in rows:
        key = (row.op, row.elem, row.lanes)
        if key in found:
            raise ValueError(f"two rows for {key}")
        found[key] = row
    return found
