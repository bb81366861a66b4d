"""More of what the kernels of `../shared/kernels` compute: products, norms, pooling, others."""

from __future__ import annotations

from collections.abc import Callable
from math import erf

import numpy as np

from tests.language.shared_kernels import Array, Case, Generator, case, floats, positive, to_f32

# ---------------------------------------------------------------- products


@case("gemm")
def _(rng: Generator) -> Case:
    a, b, d, bias = floats(rng, 5, 7), floats(rng, 7, 6), floats(rng, 5, 6), floats(rng, 6)
    y = 0.5 * (a.astype(float) @ b) - 2.0 * d + bias
    arguments = {"A": a, "B": b, "D": d, "bias": bias, "alpha": 0.5, "beta": -2.0}
    return Case(arguments, (positive(y),), {"act": "relu"})


@case("gemm_blas")
def _(rng: Generator) -> Case:
    a, b, c = floats(rng, 5, 7), floats(rng, 7, 6), floats(rng, 5, 6)
    y = 0.5 * (a.astype(float) @ b) + 3.0 * c
    return Case({"A": a, "B": b, "alpha": 0.5, "beta": 3.0, "C": c}, (y,))


@case("gemm_blas")
def _(rng: Generator) -> Case:
    a, b = floats(rng, 5, 7), floats(rng, 7, 6)
    c = np.full((5, 6), np.nan, np.float32)  # beta is 0: what was there does not count
    return Case({"A": a, "B": b, "alpha": 2.0, "beta": 0.0, "C": c}, (2.0 * (a.astype(float) @ b),))


@case("gemm_nt")
def _(rng: Generator) -> Case:
    a, b = floats(rng, 5, 7), floats(rng, 6, 7)
    return Case({"A": a, "B": b}, (a.astype(float) @ b.T,))


@case("gemm_tn")
def _(rng: Generator) -> Case:
    a, b = floats(rng, 7, 5), floats(rng, 7, 6)
    return Case({"A": a, "B": b}, (a.T.astype(float) @ b,))


@case("batched")
def _(rng: Generator) -> Case:
    a, b = floats(rng, 3, 5, 7), floats(rng, 3, 7, 6)
    return Case({"A": a, "B": b}, (a.astype(float) @ b,))


@case("gemm_pitch")
def _(rng: Generator) -> Case:
    a, b = floats(rng, 5, 20)[:, 2:9], floats(rng, 7, 16)[:, :6]
    return Case({"A": a, "B": b}, (a.astype(float) @ b,))


@case("gemm_const")
def _(rng: Generator) -> Case:
    a, b, bias = floats(rng, 5, 7), floats(rng, 7, 6), floats(rng, 6)
    return Case({"A": a, "B": b, "bias": bias}, (positive(a.astype(float) @ b + bias),))


@case("qgemm")
def _(rng: Generator) -> Case:
    a = rng.integers(0, 256, (4, 9)).astype(np.uint8)
    b = rng.integers(-128, 128, (9, 5)).astype(np.int8)
    scale, za, zb, zc = to_f32(rng.uniform(0.001, 0.01, 5)), np.uint8(3), np.int8(-5), np.uint8(90)
    t = (a.astype(np.int64) - int(za)) @ (b.astype(np.int64) - int(zb))
    y = np.clip(np.rint(to_f32(t) * scale) + np.float32(zc), 0, 255).astype(np.uint8)
    arguments = {"A": a, "B": b, "scale": scale, "za": za, "zb": zb, "zc": zc}
    return Case(arguments, (y,), exact=True)


def bf16(x: Array) -> Array:
    """The bits of values that bf16 holds."""
    return (x.view(np.uint32) >> 16).astype(np.uint16)


@case("bgemm")
def _(rng: Generator) -> Case:
    a, b = (to_f32(rng.integers(-8, 9, shape)) / 4 for shape in ((4, 6), (6, 5)))
    return Case({"A": bf16(a), "B": bf16(b)}, (a.astype(float) @ b,))


# ---------------------------------------------------------------- norms and maps


@case("softmax")
def _(rng: Generator) -> Case:
    x = floats(rng, 4, 9)
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    return Case({"x": x}, (e / e.sum(1, keepdims=True),))


@case("layernorm")
def _(rng: Generator) -> Case:
    x, g, b = floats(rng, 4, 9), floats(rng, 9), floats(rng, 9)
    d = x - x.mean(1, keepdims=True, dtype=float)
    y = d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * g + b
    return Case({"x": x, "g": g, "b": b, "eps": 1e-5}, (y,))


@case("rmsnorm")
def _(rng: Generator) -> Case:
    x, g = floats(rng, 4, 9), floats(rng, 9)
    y = x / np.sqrt((x.astype(float) ** 2).mean(1, keepdims=True) + 1e-5) * g
    return Case({"x": x, "g": g, "eps": 1e-5}, (y,))


def _map(rng: Generator, name: str, function: Callable[[float], float]) -> Case:
    x = 3 * floats(rng, 17)
    return Case({"x": x}, (np.array([function(float(v)) for v in x]),), {"f": name})


@case("map")
def _(rng: Generator) -> Case:
    return _map(rng, "gelu", lambda v: 0.5 * v * (1 + erf(v / np.sqrt(2))))


@case("map")
def _(rng: Generator) -> Case:
    return _map(rng, "silu", lambda v: v / (1 + np.exp(-v)))


@case("map")
def _(rng: Generator) -> Case:
    inner = np.sqrt(2 / np.pi)
    return _map(rng, "gelu_tanh", lambda v: 0.5 * v * (1 + np.tanh(inner * (v + 0.044715 * v**3))))


@case("add_relu")
def _(rng: Generator) -> Case:
    a, b = floats(rng, 17), floats(rng, 17)
    return Case({"a": a, "b": b}, (np.maximum(a + b, 0),), exact=True)


@case("pointwise_bn")
def _(rng: Generator) -> Case:
    x, w = floats(rng, 6, 5), floats(rng, 5, 4)
    gamma, beta, mean = floats(rng, 4), floats(rng, 4), floats(rng, 4)
    var, eps = to_f32(rng.uniform(0.1, 1, 4)), 1e-3
    y = (x.astype(float) @ w - mean) / np.sqrt(var + eps) * gamma + beta
    arguments = {"x": x, "w": w, "gamma": gamma, "beta": beta, "mean": mean, "var": var}
    return Case({**arguments, "eps": eps}, (positive(y),))


# ---------------------------------------------------------------- pooling


def _windows(x: Array, size: int, stride: int, pad: int, p: int, q: int) -> Array:
    h, w = max(0, p * stride - pad), max(0, q * stride - pad)
    return x[:, h : p * stride - pad + size, w : q * stride - pad + size]


@case("maxpool")
def _(rng: Generator) -> Case:
    x = floats(rng, 2, 6, 7, 3)
    y = np.stack(
        [np.stack([_windows(x, 3, 2, 1, p, q).max((1, 2)) for q in range(4)], 1) for p in range(3)],
        1,
    )
    return Case({"x": x}, (y,), exact=True)


@case("maxpool")
def _(rng: Generator) -> Case:
    x = floats(rng, 1, 5, 6, 2)  # windows of 2, stride 2: the last row is half a window
    y = np.stack(
        [np.stack([_windows(x, 2, 2, 0, p, q).max((1, 2)) for q in range(3)], 1) for p in range(3)],
        1,
    )
    return Case({"x": x}, (y,), {"R": 2, "pad": 0, "ceil_mode": 1}, exact=True)


def _avgpool(rng: Generator, with_pad: int) -> Case:
    x = floats(rng, 2, 6, 7, 3)
    rows = []
    for p in range(3):
        row = []
        for q in range(4):
            window = _windows(x.astype(float), 3, 2, 1, p, q)
            count = 9 if with_pad else window.shape[1] * window.shape[2]
            row.append(window.sum((1, 2)) / count)
        rows.append(np.stack(row, 1))
    return Case({"x": x}, (np.stack(rows, 1),), {"count_include_pad": with_pad})


@case("avgpool")
def _(rng: Generator) -> Case:
    return _avgpool(rng, 0)


@case("avgpool")
def _(rng: Generator) -> Case:
    return _avgpool(rng, 1)


# ---------------------------------------------------------------- others


@case("argmax")
def _(rng: Generator) -> Case:
    x = to_f32(rng.integers(-3, 3, (6, 9)))
    return Case({"x": x}, (x.argmax(1),), exact=True)


@case("argmax_last")
def _(rng: Generator) -> Case:
    x = to_f32(rng.integers(-3, 3, (6, 9)))
    return Case({"x": x}, (x.max(1), 8 - x[:, ::-1].argmax(1)), exact=True)


@case("embedding")
def _(rng: Generator) -> Case:
    idx, table = rng.integers(0, 5, 7), floats(rng, 5, 4)
    return Case({"idx": idx, "table": table}, (table[idx],), exact=True)


Q4 = np.dtype([("d", np.float16), ("q", np.uint8, 16)])
Q8 = np.dtype([("d", np.float16), ("q", np.int8, 32)])


@case("dot_q4_0")
def _(rng: Generator) -> Case:
    x, y = np.zeros(5, Q4), np.zeros(5, Q8)
    x["d"], y["d"] = rng.uniform(0.1, 1, 5), rng.uniform(0.1, 1, 5)
    x["q"], y["q"] = rng.integers(0, 256, (5, 16)), rng.integers(-128, 128, (5, 32))
    w = np.concatenate([x["q"] & 15, x["q"] >> 4], 1).astype(np.int64) - 8
    total = (w * y["q"]).sum(1) * (x["d"].astype(float) * y["d"].astype(float))
    return Case({"x": x, "y": y}, (np.asarray(total.sum()),))


@case("transpose")
def _(rng: Generator) -> Case:
    x = floats(rng, 5, 7)
    return Case({"x": x}, (x.T,), exact=True)


@case("blur")
def _(rng: Generator) -> Case:
    x = floats(rng, 7, 9)
    b = (x[:, :-2].astype(float) + x[:, 1:-1] + x[:, 2:]) / 3
    return Case({"src": x}, ((b[:-2] + b[1:-1] + b[2:]) / 3,))


def _lines(extent: int, out: int) -> tuple[Array, Array, Array]:
    """Where a resized line reads: the lower element, the upper one, the upper one's weight."""
    ratio = np.float32(extent / out)
    place = np.maximum((to_f32(np.arange(out)) + np.float32(0.5)) * ratio - np.float32(0.5), 0)
    low = np.clip(np.floor(place).astype(np.int64), 0, extent - 1)
    return low, np.minimum(low + 1, extent - 1), place - low


@case("resize")
def _(rng: Generator) -> Case:
    x = floats(rng, 2, 5, 4, 3)
    y0, y1, wy = _lines(5, 8)
    x0, x1, wx = _lines(4, 7)
    wx, wy = wx[None, None, :, None], wy[None, :, None, None]
    top = x[:, y0][:, :, x0] * (1 - wx) + x[:, y0][:, :, x1] * wx
    bottom = x[:, y1][:, :, x0] * (1 - wx) + x[:, y1][:, :, x1] * wx
    arguments = {"x": x, "sy": np.float32(5 / 8), "sx": np.float32(4 / 7)}
    return Case(
        {**arguments, "y": np.zeros((2, 8, 7, 3), np.float32)}, (top * (1 - wy) + bottom * wy,)
    )


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


@case("lstm_cell")
def _(rng: Generator) -> Case:
    batch, size, hidden = 3, 4, 5
    x, h, c = floats(rng, batch, size), floats(rng, batch, hidden), floats(rng, batch, hidden)
    w, r, bias = (
        floats(rng, 4, hidden, size),
        floats(rng, 4, hidden, hidden),
        floats(rng, 4, hidden),
    )
    a = np.einsum("bk,gnk->gbn", x, w, dtype=float) + np.einsum("bk,gnk->gbn", h, r, dtype=float)
    a += bias[:, None]
    c1 = _sigmoid(a[2]) * c + _sigmoid(a[0]) * np.tanh(a[3])
    arguments = {"x": x, "h": h, "c": c, "W": w, "R": r, "bias": bias}
    return Case(arguments, (_sigmoid(a[1]) * np.tanh(c1), c1))


@case("gru_like")
def _(rng: Generator) -> Case:
    steps, batch, hidden = 4, 2, 5
    u, h0, r = (
        floats(rng, steps, batch, hidden),
        floats(rng, batch, hidden),
        floats(rng, hidden, hidden),
    )
    h = [np.tanh(u[0].astype(float) + h0)]
    for t in range(1, steps):
        h.append(np.tanh(u[t] + h[-1] @ r))
    # The text defines h[0] whatever T is, so that T = 0 is refused unless it is bound.
    return Case({"u": u, "h0": h0, "R": r}, (np.stack(h),), sizes={"T": steps})
