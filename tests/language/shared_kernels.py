"""What the kernels of `../shared/kernels` compute, in NumPy: one function a kernel.

Each takes a random generator and gives the constants, the bound sizes, the arguments and the
expected outputs in the order in which a call returns them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Generator = np.random.Generator


@dataclass(frozen=True)
class Case:
    arguments: Mapping[str, Any]
    outputs: tuple[Array, ...]
    constants: Mapping[str, int | float | str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    exact: bool = False


CASES: dict[str, list[Callable[[Generator], Case]]] = {}


def case(kernel: str) -> Callable[[Callable[[Generator], Case]], Callable[[Generator], Case]]:
    """One more case of a kernel."""

    def add(make: Callable[[Generator], Case]) -> Callable[[Generator], Case]:
        CASES.setdefault(kernel, []).append(make)
        return make

    return add


def floats(rng: Generator, *shape: int) -> Array:
    return rng.uniform(-1, 1, shape).astype(np.float32)


def to_f32(x: Any) -> Array:
    return np.asarray(x, np.float32)


def positive(x: Array) -> Array:
    return np.maximum(x, 0)


# ---------------------------------------------------------------- attention


def _attention(rng: Generator, causal: int, group: int, sizes: Mapping[str, int]) -> Case:
    b, h, n, e = 2, 4, 5, 3
    q = floats(rng, b, h, n, e)
    k, v = floats(rng, b, h // group, n, e), floats(rng, b, h // group, n, e)
    scale = np.float32(0.7)
    s = scale * np.einsum("bhid,bhjd->bhij", q, np.repeat(k, group, 1), dtype=np.float64)
    if causal:
        s = np.where(np.tril(np.ones((n, n), bool)), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    o = np.einsum("bhij,bhjd->bhid", p / p.sum(-1, keepdims=True), np.repeat(v, group, 1))
    arguments = {"q": q, "k": k, "v": v, "scale": scale}
    return Case(arguments, (o,), {"causal": causal, "group": group}, sizes)


@case("attention")
def _(rng: Generator) -> Case:
    return _attention(rng, 1, 1, {})


@case("attention")
def _(rng: Generator) -> Case:
    return _attention(rng, 0, 1, {})


@case("attention")
def _(rng: Generator) -> Case:
    return _attention(rng, 1, 2, {"H": 4})  # H // group heads hold all only where group divides H


def _flash(rng: Generator, causal: int, block: int) -> Case:
    made = _attention(rng, causal, 1, {})
    return Case(made.arguments, made.outputs, {"causal": causal, "T": block})


@case("flash")
def _(rng: Generator) -> Case:
    return _flash(rng, 1, 2)


@case("flash")
def _(rng: Generator) -> Case:
    return _flash(rng, 0, 4)


@case("rope")
def _(rng: Generator) -> Case:
    x, angle = floats(rng, 3, 2, 6), rng.uniform(0, 6, (3, 3))
    cs, sn = to_f32(np.cos(angle)), to_f32(np.sin(angle))
    y = np.empty(x.shape)
    c, s = cs[:, None, :], sn[:, None, :]
    y[..., 0::2] = x[..., 0::2] * c - x[..., 1::2] * s
    y[..., 1::2] = x[..., 0::2] * s + x[..., 1::2] * c
    return Case({"x": x, "cs": cs, "sn": sn}, (y,))


# ---------------------------------------------------------------- convolutions


def conv_nhwc(
    x: Array, w: Array, stride: int = 1, dilation: int = 1, pad: int = 0, fill: float = 0
) -> Array:
    """x[n, h, w, c] and w[r, s, c, k] in f64, or i64 for integers."""
    kind = np.int64 if x.dtype.kind in "iu" else np.float64
    xp = np.pad(x.astype(kind), ((0, 0), (pad, pad), (pad, pad), (0, 0)), constant_values=fill)
    rows, cols, _, out = w.shape
    oh = (xp.shape[1] - dilation * (rows - 1) - 1) // stride + 1
    ow = (xp.shape[2] - dilation * (cols - 1) - 1) // stride + 1
    y = np.zeros((x.shape[0], oh, ow, out), kind)
    for r, s in product(range(rows), range(cols)):
        part = xp[:, r * dilation :, s * dilation :][:, ::stride, ::stride][:, :oh, :ow]
        y += part @ w[r, s].astype(kind)
    return y


@case("conv2d_nhwc")
def _(rng: Generator) -> Case:
    x, w, b = floats(rng, 2, 7, 6, 3), floats(rng, 3, 2, 3, 5), floats(rng, 5)
    y = positive(conv_nhwc(x, w, 2, 1, 1) + b)
    return Case({"x": x, "w": w, "b": b}, (y,), {"stride": 2, "pad": 1})


@case("conv2d_nhwc")
def _(rng: Generator) -> Case:
    x, w, b = floats(rng, 1, 7, 8, 2), floats(rng, 2, 3, 2, 4), floats(rng, 4)
    y = conv_nhwc(x, w, 1, 2, 0) + b
    return Case({"x": x, "w": w, "b": b}, (y,), {"dilation": 2, "act": "identity"})


@case("conv2d_nchw")
def _(rng: Generator) -> Case:
    x, w, b = floats(rng, 2, 3, 6, 5), floats(rng, 4, 3, 3, 3), floats(rng, 4)
    y = conv_nhwc(x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), 1, 1, 1)
    return Case({"x": x, "w": w, "b": b}, (positive(y + b).transpose(0, 3, 1, 2),), {"pad": 1})


@case("conv2d_grouped")
def _(rng: Generator) -> Case:
    groups, inner, outer = 3, 2, 4
    x, w = floats(rng, 2, 5, 6, groups * inner), floats(rng, groups, 3, 3, inner, outer)
    parts = [conv_nhwc(x[..., g * inner : (g + 1) * inner], w[g], 2, 1, 1) for g in range(groups)]
    return Case({"x": x, "w": w}, (np.concatenate(parts, -1),), {"stride": 2, "pad": 1})


@case("conv_transpose")
def _(rng: Generator) -> Case:
    stride, pad = 2, 1
    x, w = floats(rng, 1, 3, 4, 2), floats(rng, 3, 3, 2, 5)
    full = np.zeros((1, 2 * stride + 3, 3 * stride + 3, 5))
    for h, v, r, s in product(range(3), range(4), range(3), range(3)):
        full[:, h * stride + r, v * stride + s] += x[:, h, v].astype(float) @ w[r, s]
    y = full[:, pad:-pad, pad:-pad]
    return Case({"x": x, "w": w}, (y,), {"pad": pad})


@case("depthwise")
def _(rng: Generator) -> Case:
    x, w = floats(rng, 2, 5, 6, 7), floats(rng, 3, 3, 7)
    parts = [conv_nhwc(x[..., c : c + 1], w[:, :, c, None, None], 2, 1, 1) for c in range(7)]
    return Case({"x": x, "w": w}, (np.concatenate(parts, -1),), {"stride": 2})


@case("conv_im2col")
def _(rng: Generator) -> Case:
    x, w = floats(rng, 3, 5, 6), floats(rng, 4, 3, 3, 2)
    y = conv_nhwc(x.transpose(1, 2, 0)[None], w.transpose(2, 3, 1, 0), 2, 1, 1)[0]
    return Case({"x": x, "w": w}, (y.transpose(2, 0, 1),), {"stride": 2})


def _winograd(rng: Generator, constants: Mapping[str, int | str]) -> Case:
    x, w, b = floats(rng, 2, 7, 5, 3), floats(rng, 3, 3, 3, 4), floats(rng, 4)
    return Case({"x": x, "w": w, "b": b}, (positive(conv_nhwc(x, w, 1, 1, 1) + b),), constants)


@case("winograd")
def _(rng: Generator) -> Case:
    return _winograd(rng, {})


@case("winograd")
def _(rng: Generator) -> Case:
    return _winograd(rng, {"m": 2, "G": "G2", "BT": "B2", "AT": "A2"})


@case("qconv2d")
def _(rng: Generator) -> Case:
    x = rng.integers(0, 256, (1, 5, 6, 3)).astype(np.uint8)
    w = rng.integers(-128, 128, (3, 3, 3, 5)).astype(np.int8)
    bias = rng.integers(-999, 999, 5).astype(np.int32)
    scale, xz, yz = to_f32(rng.uniform(0.001, 0.01, 5)), np.uint8(7), np.uint8(100)
    acc = conv_nhwc(x, w, 1, 1, 1, int(xz)) + (bias - int(xz) * w.astype(np.int64).sum((0, 1, 2)))
    y = np.clip(np.rint(to_f32(acc) * scale) + np.float32(yz), 0, 255).astype(np.uint8)
    arguments = {"x": x, "w": w, "bias": bias, "scale": scale, "xz": xz, "yz": yz}
    return Case(arguments, (y,), exact=True)
