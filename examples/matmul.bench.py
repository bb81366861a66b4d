"""Peers of matmul.tdsl: `tdsl bench matmul.tdsl --size M=256 ... --against numpy,torch`."""

from importlib import import_module

import numpy as np


def matmul_numpy(A, B, C):
    return lambda: np.matmul(A, B, C)


def matmul_torch(A, B, C):
    torch = import_module("torch")  # here, since the others work without it
    a, b, c = (torch.from_numpy(x) for x in (A, B, C))
    return lambda: torch.matmul(a, b, out=c)


def matmul_halide(A, B, C):
    """Tiles of 6 rows by 4 vectors of sums, strips of the second factor copied as they are read."""
    hl = import_module("halide")
    a, b = (hl.ImageParam(hl.Float(32), 2, name) for name in "ab")
    x, y, xo, yo, xi, yi = map(hl.Var, ("x", "y", "xo", "yo", "xi", "yi"))
    k = hl.RDom([(0, A.shape[1])])
    strip, sums, out = hl.Func("strip"), hl.Func("sums"), hl.Func("matmul")
    strip[x, y] = b[x, y]
    sums[x, y] = hl.f32(0)
    sums[x, y] += a[k.x, y] * strip[x, k.x]
    out[x, y] = sums[x, y]
    lanes = hl.get_host_target().natural_vector_size(hl.Float(32))
    wide, tall = min(4 * lanes, C.shape[1]), min(6, C.shape[0])
    lanes = lanes if wide % lanes == 0 else 1
    out.tile(x, y, xo, yo, xi, yi, wide, tall).reorder(xi, yi, yo, xo)
    out.vectorize(xi, lanes).unroll(xi).unroll(yi)
    sums.compute_at(out, yo).vectorize(x, lanes).unroll(x).unroll(y)
    sums.update().reorder(x, y, k.x).vectorize(x, lanes).unroll(x).unroll(y)
    strip.compute_at(out, xo).vectorize(x, lanes).unroll(x)
    run = out.compile_to_callable([a, b], hl.get_host_target())
    buffers = [hl.Buffer(array) for array in (A, B, C)]  # these very arrays
    return lambda: run(*buffers)
