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
    is the address), splat, choose (mask, then, other), low and high (halves), any and all of a
    mask that is lanes of ones, and the casts "convert.FROM", "saturate.FROM" whose `elem` is the
    result. min.number and max.number are exact only where operand 0 is a constant that is no NaN.
    shl.const, shr.const: operand 1 is a literal below the width. `feature`: what the processor
    must have beyond the target's own.
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
