"""Attention block by block, weights of four bits, channels in blocks, convolutions as products:
against NumPy in double precision. Each is compiled once for all sizes, and runs at odd sizes, at 0
and at 1."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.ops.harness import Array, close, compiled, conv, everywhere, floats, here

# ---------------------------------------------------------------- attention


def attention(q: Array, k: Array, v: Array, scale: float, causal: int = 0) -> Array:
    """By its definition; with `causal`, later keys are not seen."""
    s = scale * np.einsum("hid,hjd->hij", q, k, dtype=np.float64)
    if causal:
        i, j = np.indices(s.shape[1:])
        s = np.where(j <= i, s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    weights: Array = e / e.sum(-1, keepdims=True)
    return np.asarray(weights @ v)


ATTENTION_SIZES = [
    (2, 7, 70, 19), (1, 1, 1, 1), (0, 3, 4, 5), (1, 0, 3, 2), (1, 5, 3, 0), (1, 9, 32, 33),
    (1, 41, 35, 5),
]  # fmt: skip


@pytest.mark.slow
@everywhere
@pytest.mark.parametrize("causal", [0, 1])
def test_attention_online(on: str, causal: int) -> None:
    constants = {"causal": causal, "T": 32}
    kernel = compiled("attention_online", "attention_online", on, constants=constants)
    for heads, rows, keys, width in ATTENTION_SIZES:
        q = floats(1, heads, rows, width)
        k, v = floats(2, heads, keys, width), floats(3, heads, keys, width)
        close(kernel(q, k, v, 0.3), attention(q, k, v, 0.3, causal))


@pytest.mark.parametrize("on", here(("c", "avx2")))
def test_attention_of_large_scores(on: str) -> None:
    """Beyond what exp holds, rising and falling from block to block."""
    q, k, v = 40 * floats(4, 1, 5, 8), 40 * floats(5, 1, 200, 8), floats(6, 1, 200, 8)
    sizes = {"H": 1, "L": 5, "S": 200, "E": 8}
    kernel = compiled("attention_online", "attention_online", on, constants={"T": 32}, sizes=sizes)
    close(kernel(q, k, v, 1.0), attention(q, k, v, 1.0), 2e-4)  # exp of scores up to 12800


@everywhere
def test_attention_sizes(on: str) -> None:
    kernel = compiled("attention", "attention", on)
    for heads, rows, keys, width in ATTENTION_SIZES[:5]:
        q = floats(1, heads, rows, width)
        k, v = floats(2, heads, keys, width), floats(3, heads, keys, width)
        close(kernel(q, k, v, 0.3), attention(q, k, v, 0.3))


# ---------------------------------------------------------------- weights of four bits

Q4 = np.dtype([("d", "<f2"), ("q", "u1", 16)])
Q8 = np.dtype([("d", "<f2"), ("q", "i1", 32)])


@pytest.mark.parametrize("on", here(("c", "avx2", "avx512", "avx512+vnni")))
def test_q4_rows(on: str) -> None:
    kernel = compiled("q4", "q4_rows", on)
    for m, nb in ((3, 5), (1, 1), (0, 3), (2, 0), (5, 17)):
        w, x = blocks(m, nb)
        close(kernel(w, x), q4_product(w, x), 1e-6)


@pytest.mark.parametrize("on", here(("c", "avx2", "avx512", "avx512+vnni")))
def test_q4_is_exact_where_floats_are(on: str) -> None:
    """Extreme weights, scales that are powers of two: every sum of these is a float."""
    kernel = compiled("q4", "q4_rows", on)
    w, x = np.zeros((2, 4), Q4), np.zeros(4, Q8)
    w["d"], x["d"] = 0.5, 2.0
    w["q"][0], w["q"][1] = 0x00, 0xFF  # -8 and 7
    x["q"] = -128
    x["q"][::2] = 127
    np.testing.assert_array_equal(kernel(w, x), q4_product(w, x))


@pytest.mark.neon
def test_q4_rows_neon() -> None:
    w, x = blocks(3, 5)
    close(compiled("q4", "q4_rows", "neon+dotprod")(w, x), q4_product(w, x), 1e-6)


def blocks(m: int, nb: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(7)
    w, x = np.zeros((m, nb), Q4), np.zeros(nb, Q8)
    w["d"], x["d"] = rng.uniform(-1, 1, (m, nb)), rng.uniform(-1, 1, nb)
    w["q"], x["q"] = rng.integers(0, 256, (m, nb, 16)), rng.integers(-128, 128, (nb, 32))
    return w, x


def q4_product(w: Array, x: Array) -> Array:
    weights = np.concatenate([w["q"] & 15, w["q"] >> 4], -1).astype(np.int64) - 8
    dots = (weights * x["q"].astype(np.int64)).sum(-1)
    scales = w["d"].astype(np.float64) * x["d"].astype(np.float64)
    return np.asarray((dots * scales).sum(-1))


# ---------------------------------------------------------------- convolutions

# n, h, w, c, k, r, s
CONV_SIZES = [
    (1, 7, 17, 19, 37, 3, 3), (1, 5, 5, 1, 1, 1, 1), (2, 6, 9, 16, 16, 3, 2), (1, 5, 5, 3, 0, 3, 3),
    (1, 5, 6, 0, 3, 3, 3), (0, 5, 5, 2, 4, 3, 3), (1, 7, 16, 3, 5, 3, 3), (1, 4, 15, 9, 8, 1, 1),
]  # fmt: skip
CONV_CONSTANTS = [
    {"stride": 1, "pad": 1, "dilation": 1},
    {"stride": 2, "pad": 0, "dilation": 2},
    {"stride": 2, "pad": 2, "dilation": 1},
]
SLOW = [
    pytest.param(constants, id=name, marks=[] if name == "padded" else pytest.mark.slow)
    for constants, name in zip(CONV_CONSTANTS, ("padded", "dilated", "strided"), strict=True)
]


@pytest.mark.parametrize("on", here(("c", "avx512", "avx2")))
@pytest.mark.parametrize("constants", SLOW)
@pytest.mark.parametrize("file", ["conv2d", "conv2d_blocks"])
def test_convolution_of_all_sizes(on: str, constants: dict[str, int], file: str) -> None:
    """All variants in one entry, which picks by the sizes."""
    kernel = compiled(file, file, on, constants=constants)
    for n, h, v, c, k, r, s in CONV_SIZES:
        x, w, b = floats(8, n, h, v, c), floats(9, r, s, c, k), floats(10, k)
        want = np.maximum(conv(x, w, **constants) + b, 0)
        if file == "conv2d":
            close(kernel(x, w, b), want)
            continue
        weights = np.ascontiguousarray(w.transpose(3, 2, 0, 1))
        block = {"avx512": 16, "avx2": 8, "c": 0}[on]
        if block:
            y = kernel(blocked(x, block), weights, b)
            close(planes(y, k), want.transpose(0, 3, 1, 2))
        else:  # plain C has no schedule, hence no layout
            close(kernel(planar(x), weights, b), want.transpose(0, 3, 1, 2))


def planar(x: Array) -> Array:
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2))


def blocked(x: Array, block: int) -> Array:
    """x[n, h, w, c] as [n, c // block, h, w, c % block], and NaN where there is no channel."""
    n, h, w, c = x.shape
    count = -(-c // block)
    wide = np.full((n, h, w, count * block), np.nan, x.dtype)
    wide[..., :c] = x
    return np.ascontiguousarray(wide.reshape(n, h, w, count, block).transpose(0, 3, 1, 2, 4))


def planes(y: Array, channels: int) -> Array:
    n, count, h, w, block = y.shape
    return y.transpose(0, 1, 4, 2, 3).reshape(n, count * block, h, w)[:, :channels]


@pytest.mark.parametrize("on", here(("c", "avx512", "avx2")))
@pytest.mark.parametrize("variant", ["stored", "implicit"])
@pytest.mark.parametrize("constants", [{"stride": 1, "pad": 1}, {"stride": 2, "pad": 0}])
def test_convolution_as_a_product(on: str, variant: str, constants: dict[str, int]) -> None:
    options: dict[str, Any] = {} if on == "c" else {"schedule": variant}
    kernel = compiled("conv2d_more", "conv2d_im2col", on, constants=constants, **options)
    for _, h, v, c, k, r, s in CONV_SIZES:
        x, w = floats(11, h, v, c), floats(12, r, s, c, k)
        want = conv(x[None], w, **constants)[0].transpose(2, 0, 1)
        weights = np.ascontiguousarray(w.transpose(3, 2, 0, 1))
        close(kernel(np.ascontiguousarray(x.transpose(2, 0, 1)), weights), want)


@pytest.mark.parametrize("on", here(("c", "avx2", "avx512", "avx512+vnni")))
@pytest.mark.parametrize("pad", [0, 1])
def test_qconv2d_of_all_sizes(on: str, pad: int) -> None:
    """Exact sums, the extremes among them, rounded half to even."""
    kernel = compiled("qconv2d", "qconv2d", on, constants={"pad": pad})
    rng = np.random.default_rng(13)
    for n, h, v, c, k, r, s in CONV_SIZES:
        x = rng.integers(0, 256, (n, h, v, c)).astype(np.uint8)
        w = rng.integers(-128, 128, (r, s, c, k)).astype(np.int8)
        x[:, :2], w[:, :, :, :1] = 255, -128
        bias = rng.integers(-999, 999, k).astype(np.int32)
        scale = rng.uniform(0.001, 0.01, k).astype(np.float32)
        t = conv(x.astype(np.float64) - 121, w, 1, pad) + bias
        want = np.clip(np.rint(t.astype(np.float32) * scale) + np.float32(90), 0, 255)
        np.testing.assert_array_equal(kernel(x, w, bias, scale, 121, 90), want.astype(np.uint8))


# ---------------------------------------------------------------- pooling


@everywhere
@pytest.mark.parametrize("ceil_mode,count_include_pad", [*product((0, 1), (0, 1))])
def test_avgpool_counts(on: str, ceil_mode: int, count_include_pad: int) -> None:
    """What a window holds, element by element."""
    constants = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    kernel = compiled("pool", "avgpool", on, constants=constants)
    for n, h, w, c in ((1, 6, 8, 19), (1, 7, 5, 3), (2, 1, 1, 1), (0, 4, 4, 2), (1, 3, 4, 0)):
        x = floats(14, n, h, w, c)
        rows, cols = (starts(extent, ceil_mode) for extent in (h, w))
        want = np.zeros((n, len(rows), len(cols), c))
        for (p, i), (q, j) in product(enumerate(rows), enumerate(cols)):
            part = x[:, max(i, 0) : min(i + 3, h), max(j, 0) : min(j + 3, w)].astype(np.float64)
            edge = 1 if count_include_pad else 0
            high = min(i + 3, h + edge) - max(i, -edge)
            wide = min(j + 3, w + edge) - max(j, -edge)
            want[:, p, q] = part.sum((1, 2)) / (high * wide)
        close(kernel(x), want)


def starts(extent: int, ceil_mode: int) -> list[int]:
    """Where windows of 3 with stride 2 begin in an image padded by 1; with `ceil_mode` one may
    hang over the padding, if it begins before it."""
    found = list(range(-1, extent + 1 - 3 + 1, 2))
    following = found[-1] + 2 if found else -1
    if ceil_mode and found and found[-1] + 3 < extent + 1 and following < extent:
        found.append(following)
    return found
