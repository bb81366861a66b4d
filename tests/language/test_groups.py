"""Grouped dimensions: two indices in one dimension of the caller's array."""

from __future__ import annotations

import numpy as np
import pytest

import tdsl
from tests.language.run import compiled, everywhere, interpreted

TEXT = """
kernel scaled(N, G, C) {
    in  x: f32[N, (G, C)]
    in  s: f32[G]
    out y: f32[(N, G), C] strides [free, 1]

    y[n, g, c] = x[n, g, c] * s[g]
}
"""


@everywhere
def test_values(on: str) -> None:
    x = np.random.default_rng(1).uniform(-1, 1, (4, 6)).astype(np.float32)
    s = np.array([1, 10, 100], np.float32)
    want = (x.reshape(4, 3, 2) * s[:, None]).reshape(12, 2)
    kernel = compiled(TEXT, "scaled", on)
    np.testing.assert_array_equal(kernel(x=x, s=s), want)
    np.testing.assert_array_equal(interpreted(TEXT, "scaled", {"x": x, "s": s})["y"], want)
    out = np.zeros((12, 5), np.float32)[:, 1:3]
    np.testing.assert_array_equal(kernel(x=x[::1], s=s, y=out), want)
    copied = np.zeros((4, 12), np.float32)[:, ::2]
    copied[...] = x
    np.testing.assert_array_equal(kernel(x=copied, s=s), want)  # an input without strides


def test_shapes() -> None:
    kernel = compiled(TEXT, "scaled", "c")
    s = np.ones(3, np.float32)
    with pytest.raises(ValueError, match=r"a multiple of 3 = G, but dimension 1 of 'x' is 7"):
        kernel(x=np.ones((4, 7), np.float32), s=s)
    with pytest.raises(ValueError, match="expected 2 dimensions"):
        kernel(x=np.ones((4, 3, 2), np.float32), s=s)
    with pytest.raises(ValueError, match=r"\[G \* C\]|\[N, G \* C\]"):
        kernel(x=np.ones((4, 6), np.float32), s=s, C=4)
    one = tdsl.parse("kernel f(G, C) { in x: f32[(G, C)]  out y: f32[(C, G)]  y[c, g] = x[g, c] }")[
        "f"
    ].compile(target="c")
    with pytest.raises(TypeError, match="no shape determines the size G, C"):
        one(x=np.ones(6, np.float32))
    np.testing.assert_array_equal(one(x=np.arange(6, dtype=np.float32), G=2), [0, 3, 1, 4, 2, 5])


def test_what_is_said_of_them() -> None:
    kernel = tdsl.parse(TEXT)["scaled"]
    assert kernel.arguments["x"].shape == ("N", "G * C")
    header = kernel.compile(target="c").header
    assert "x: in, f32[N, G * C]" in header
    assert "y: out, f32[N * G, C], strides [y_stride0, 1] in elements" in header
