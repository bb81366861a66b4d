"""Arrays of arguments that a schedule stores in another order: to and from NumPy's own.

layout x[n, c] as [n, c // 16, c % 16]     x[n, c] is element [n, c // 16, c % 16] of what is
                                           passed; what no element has is 0
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tdsl.ir.interp_block import Block
from tdsl.ir.kernel import Array, Const, Expr, Op
from tdsl.ir.printer import print_expr

Values = npt.NDArray[Any]


def layout_text(array: Array) -> str:
    """`[n, c] as [n, c // 16, c % 16]`; "" for an argument in its own order."""
    if array.layout is None:
        return ""
    names, storage = array.layout
    return f"[{', '.join(names)}] as [{', '.join(map(print_expr, storage))}]"


def laid_out(array: Array, values: Values) -> Values:
    """The values in storage order, 0 between them."""
    assert array.layout is not None
    places = _places(array, values.shape)
    shape = tuple(map(_extent, array.layout[1], places))
    stored = np.zeros(shape, values.dtype)
    stored[places] = values
    return stored


def _extent(storage: Expr, places: Values) -> int:
    """Full tiles."""
    match storage:
        case Op("mod", (_, Const(value))):
            return int(value)
        case _:
            return int(places.max(initial=-1)) + 1


def natural(array: Array, stored: Values, shape: tuple[int, ...]) -> Values:
    """The values of this shape that are in storage order."""
    taken = stored[_places(array, shape)]
    return np.ascontiguousarray(np.broadcast_to(taken, shape))


def _places(array: Array, shape: tuple[int, ...]) -> tuple[Values, ...]:
    """The storage indices of all elements, to index a stored array with."""
    assert array.layout is not None
    names, storage = array.layout
    own = np.indices(shape, sparse=True)
    block = Block(array.name, names, dict(zip(names, own, strict=True)), shape, {}, {})
    return tuple(np.asarray(block.value(e, None)) for e in storage)
