"""Rows by Halide: the same algorithm in its language with a schedule by hand, compiled for this
machine and for the sizes of the row, on one thread and on the buffers of the row.

Without Halide (the extra `halide`) each of these is None, and the rows say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.case import Array, Call, aligned

try:
    import halide as hl
except ImportError:  # an extra: rows are run against the others without it
    hl = None

ABSENT = () if hl is not None else ("halide",)  # what a row says of it
Sizes = Sequence[int]


def _vector() -> int:
    """f32 in a vector of this machine."""
    return int(hl.get_host_target().natural_vector_size(hl.Float(32)))


def _input(shape: Sizes, name: str) -> Any:
    """An f32 array whose shape the code knows. Halide names the innermost dimension first."""
    param = hl.ImageParam(hl.Float(32), len(shape), name)
    _fix(param, shape)
    param.set_host_alignment(64)
    return param


def _fix(param: Any, shape: Sizes) -> None:
    stride = 1
    for position, extent in enumerate(reversed(shape)):
        param.dim(position).set_bounds(0, extent).set_stride(stride)
        stride *= extent


def _call(result: Any, params: Sequence[Any], arrays: Sequence[Array], out: Array) -> Call:
    """The pipeline, compiled and run once, on these buffers."""
    _fix(result.output_buffer(), out.shape)
    result.output_buffer().set_host_alignment(64)
    compiled = result.compile_to_callable(list(params), hl.get_host_target())
    buffers = [hl.Buffer(a) for a in (*arrays, out)]

    def run(*, _alive: object = (arrays, out)) -> None:
        compiled(*buffers)

    run()
    return run


def chain(x: Array, a: np.float32, b: np.float32, c: Array, y: Array) -> Call | None:
    """relu(x * a + b) + c."""
    if hl is None:
        return None
    i, lanes = hl.Var("i"), _vector()
    given, added = _input(x.shape, "x"), _input(c.shape, "c")
    out = hl.Func("chain")
    out[i] = hl.max(given[i] * hl.f32(float(a)) + hl.f32(float(b)), hl.f32(0)) + added[i]
    out.vectorize(i, 4 * lanes)
    return _call(out, [given, added], [x, c], y)


def blur(x: Array, y: Array) -> Call | None:
    """Means of three across in a window of rows that slides down a strip, then of three down."""
    if hl is None:
        return None
    i, j, strip, inner, lanes = *map(hl.Var, ("i", "j", "strip", "inner")), _vector()
    image, third = _input(x.shape, "image"), hl.f32(1 / 3)
    across, out = hl.Func("across"), hl.Func("blur")
    across[j, i] = (image[j, i] + image[j + 1, i] + image[j + 2, i]) * third
    out[j, i] = (across[j, i] + across[j, i + 1] + across[j, i + 2]) * third
    out.split(i, strip, inner, 32).vectorize(j, lanes)
    across.store_at(out, strip).compute_at(out, inner).vectorize(j, lanes)
    return _call(out, [image], [x], y)


def softmax(x: Array, y: Array) -> Call | None:
    """The largest, exponentials with their sum, the quotient: a row at a time."""
    if hl is None:
        return None
    columns = x.shape[1]
    i, j, lane, lanes = *map(hl.Var, ("i", "j", "lane")), _vector()
    given, terms = _input(x.shape, "x"), hl.RDom([(0, columns)])
    top, power, total, inverse = map(hl.Func, ("top", "power", "total", "inverse"))
    out = hl.Func("softmax")
    top[i] = hl.f32(-np.inf)
    top[i] = hl.max(top[i], given[terms.x, i])
    power[j, i] = hl.exp(given[j, i] - top[i])
    total[i] = hl.f32(0)
    total[i] += power[terms.x, i]
    inverse[i] = hl.f32(1) / total[i]
    out[j, i] = power[j, i] * inverse[i]
    width = 4 * lanes if columns % (4 * lanes) == 0 else 1
    out.vectorize(j, lanes)
    for func in (top, power, total, inverse):
        func.compute_at(out, i)
    power.vectorize(j, lanes)
    if width > 1:
        for func in (top, total):
            outer, inner = hl.RVar("outer"), hl.RVar("inner")
            func.update().split(terms.x, outer, inner, width)
            part = func.update().rfactor(inner, lane)
            part.compute_at(out, i).vectorize(lane, width)
            part.update().vectorize(lane, width)
    return _call(out, [given], [x], y)


def product(a: Array, b: Array, y: Array) -> Call | None:
    """Tiles of sums in registers; a strip of the second factor is copied, as it is read."""
    if hl is None:
        return None
    (m, n), terms = y.shape, a.shape[1]
    i, j, io, jo, ii, ji, lanes = *map(hl.Var, ("i", "j", "io", "jo", "ii", "ji")), _vector()
    left, right = _input(a.shape, "left"), _input(b.shape, "right")
    k = hl.RDom([(0, terms)])
    strip, sums, out = hl.Func("strip"), hl.Func("sums"), hl.Func("product")
    strip[j, i] = right[j, i]
    sums[j, i] = hl.f32(0)
    sums[j, i] += left[k.x, i] * strip[j, k.x]
    out[j, i] = sums[j, i]
    tall, wide = min(6, m), min((4 if lanes == 16 else 2) * lanes, n)
    lanes = lanes if wide % lanes == 0 else 1
    out.tile(j, i, jo, io, ji, ii, wide, tall).reorder(ji, ii, io, jo)
    out.vectorize(ji, lanes).unroll(ji).unroll(ii)
    sums.compute_at(out, io).vectorize(j, lanes).unroll(j).unroll(i)
    sums.update().reorder(j, i, k.x).vectorize(j, lanes).unroll(j).unroll(i).unroll(k.x, 4)
    strip.compute_at(out, jo).vectorize(j, lanes).unroll(j)
    return _call(out, [left, right], [a, b], y)


def convolution(x: Array, w: Array, b: Array, y: Array, *, stride: int, pad: int) -> Call | None:
    """Bias and relu on tiles of sums; the image is padded inside. Weights, which are the same in
    every call, are put beforehand into the order in which they are read."""
    if hl is None:
        return None
    taps_r, taps_s, channels, filters = w.shape
    lanes = _vector()
    wide, pixels = 2 * lanes, min(14 if lanes == 16 else 6, y.shape[2])
    if filters % wide:
        raise ValueError(f"{filters} output channels are not in blocks of {wide}")
    blocks = w.reshape(taps_r, taps_s, channels, filters // wide, wide).transpose(3, 0, 1, 2, 4)
    blocks = aligned(blocks, np.float32)
    names = ("n", "p", "q", "f", "fo", "fi", "qo", "qi", "c")
    n, p, q, f, fo, fi, qo, qi, c = map(hl.Var, names)
    image, weights = _input(x.shape, "image"), _input(blocks.shape, "weights")
    bias = _input(b.shape, "bias")
    k = hl.RDom([(0, channels), (0, taps_s), (0, taps_r)])
    padded, sums, out = hl.Func("padded"), hl.Func("sums"), hl.Func("convolution")
    border = hl.BoundaryConditions.constant_exterior(image, hl.f32(0))
    padded[c, q, p, n] = border[c, q - pad, p - pad, n]
    sums[f, q, p, n] = bias[f]
    sums[f, q, p, n] += (
        padded[k.x, q * stride + k.y, p * stride + k.z, n]
        * weights[f % wide, k.x, k.y, k.z, f // wide]
    )  # fmt: skip
    out[f, q, p, n] = hl.max(sums[f, q, p, n], hl.f32(0))
    out.split(f, fo, fi, wide).split(q, qo, qi, pixels).reorder(fi, qi, qo, p, fo, n)
    out.vectorize(fi, lanes).unroll(fi).unroll(qi)
    sums.compute_at(out, qo).vectorize(f, lanes).unroll(f).unroll(q)
    update = sums.update().reorder(f, q, k.x, k.y, k.z)
    update.vectorize(f, lanes).unroll(f).unroll(q).unroll(k.x, 2 if channels % 2 == 0 else 1)
    padded.compute_at(out, n)
    if channels % lanes == 0:
        padded.vectorize(c, lanes)
    return _call(out, [image, weights, bias], [x, blocks, b], y)
