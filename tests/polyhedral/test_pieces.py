"""isl gives up on joining some pieces: that is no failure of a compilation."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import tdsl
import tdsl.polyhedral.pieces

Floats = NDArray[np.float32]

SLIDING = """
kernel blur3(H, W) {
    assume H >= 1, W >= 1
    in  x: f32[H, W]
    out y: f32[H, W]
    a[i, j] = x[clamp(i - 1, 0, H - 1), j] + 2.0 * x[i, j] + x[clamp(i + 1, 0, H - 1), j]
    b[i, j] = a[i, clamp(j - 1, 0, W - 1)] + a[i, clamp(j + 2, 0, W - 1)]
    y[i, j] = b[i, j] - padded(b[i - 2, j], 3.0) + padded(b[i + 1, j + 1], 1.0)
}

schedule blur3 for any {
    tile y.j, y.i by 8, 2 -> jo, io, ji, ii tail balanced
    compute b at y.ii WHERE
}
"""


def expected(x: Floats) -> Floats:
    h, w = x.shape
    rows, columns = np.arange(h), np.arange(w)
    a = x[np.maximum(rows - 1, 0)] + 2 * x + x[np.minimum(rows + 1, h - 1)]
    b = a[:, np.maximum(columns - 1, 0)] + a[:, np.minimum(columns + 2, w - 1)]
    above, beside = np.full((h, w), 3.0), np.full((h, w), 1.0)
    above[2:] = b[:-2]
    beside[:-1, :-1] = b[1:, 1:]
    result: Floats = b - above + beside
    return result


def test_pieces_that_isl_does_not_join_stay_apart() -> None:
    text = SLIDING.replace("WHERE", "in stack")
    kernel = tdsl.parse(text, name="sliding.tdsl")["blur3"].compile("c")
    x = np.random.default_rng(0).integers(-9, 9, (13, 21)).astype(np.float32)
    np.testing.assert_array_equal(kernel(x=x), expected(x))


STORED = """
    tile y.i, y.j by 5, 16 -> io, jo, ii, ji
    inline b
    compute a at y.ii
    store a at root
}
"""


def test_a_window_in_many_pieces_slides() -> None:
    head = SLIDING[: SLIDING.index("    tile")]
    kernel = tdsl.parse(head + STORED, name="sliding.tdsl")["blur3"].compile("c")
    for h, w in ((1, 1), (5, 16), (13, 21)):
        x = np.random.default_rng(0).integers(-9, 9, (h, w)).astype(np.float32)
        np.testing.assert_array_equal(kernel(x=x), expected(x))


def test_a_store_that_cannot_be_is_refused_at_its_line() -> None:
    text = SLIDING.replace("WHERE", "in stack\n    store b at root")
    with pytest.raises(tdsl.Error, match="extents are not constant") as caught:
        tdsl.parse(text, name="sliding.tdsl")["blur3"].compile("c")
    assert "store b at root" in str(caught.value)


def test_one_module_asks_isl_to_join_pieces() -> None:
    folder = Path(tdsl.polyhedral.pieces.__file__).parent
    asking = {
        path.name
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "coalesce"
    }
    assert asking == {"pieces.py"}
