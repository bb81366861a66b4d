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
    if values.size == 0:
        # What is said of the last element, which there is not: so do expressions of the sizes.
        last = _at(array, tuple(np.array(n - 1) for n in values.shape), values.shape)
        return np.zeros(tuple(map(_extent, array.layout[1], last)), values.dtype)
    places = _places(array, values.shape)
    stored = np.zeros(tuple(map(_extent, array.layout[1], places)), values.dtype)
    stored[places] = values
    return stored


def _extent(storage: Expr, places: Values) -> int:
    """Full tiles."""
    match storage:
        case Op("mod", (_, Const(value))):
            return int(value)
        case _:
            return max(0, int(places.max()) + 1)


def natural(array: Array, stored: Values, shape: tuple[int, ...]) -> Values:
    """The values of this shape that are in storage order."""
    taken = stored[_places(array, shape)]
    return np.ascontiguousarray(np.broadcast_to(taken, shape))


def _places(array: Array, shape: tuple[int, ...]) -> tuple[Values, ...]:
    """The storage indices of all elements, to index a stored array with."""
    return _at(array, np.indices(shape, sparse=True), shape)


def _at(array: Array, own: tuple[Values, ...], shape: tuple[int, ...]) -> tuple[Values, ...]:
    """The storage indices of the elements with these indices."""
    assert array.layout is not None
    names, storage = array.layout
    block = Block(array.name, names, dict(zip(names, own, strict=True)), shape, {}, {})
    return tuple(np.asarray(block.value(e, None)) for e in storage)
