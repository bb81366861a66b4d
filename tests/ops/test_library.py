"""The library as a whole: each file is right for every target that it names, and the short
operators, compiled once for all sizes, hold at 0 and at 1 too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tdsl.checking import check_text
from tests.ops.harness import OPS, close, compiled, conv, floats, here

FILES = sorted(OPS.glob("*.tdsl"))
fast = pytest.mark.parametrize("on", here(("c", "avx2")))


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_every_file_checks(path: Path) -> None:
    """Names, bounds, and every schedule on every target that it is for, for all sizes."""
    report = check_text(path.read_text(encoding="utf-8"), path.name)
    assert [d.message for d in report.diagnostics] == []
    assert report.ok and all(s.ok for k in report.kernels for s in k.schedules)


@fast
@pytest.mark.parametrize("name", ["matmul", "matmul_const"])
def test_products(on: str, name: str) -> None:
    kernel = compiled("gemm", name, on)
    for m, n, k in ((1, 1, 1), (0, 3, 4), (3, 0, 4), (3, 5, 0), (1, 70, 9), (17, 35, 3)):
        a, b = floats(1, m, k), floats(2, k, n)
        close(kernel(a, b), a.astype(np.float64) @ b)


@fast
def test_convolutions(on: str) -> None:
    grouped = compiled("conv2d_more", "conv2d_grouped", on, constants={"pad": 1})
    transposed = compiled("conv2d_more", "conv2d_transposed", on)
    depthwise = compiled("depthwise", "depthwise", on)
    for n, h, v, c, k in ((1, 1, 1, 1, 1), (0, 4, 5, 2, 3), (1, 5, 4, 0, 3), (1, 3, 7, 3, 17)):
        x, w = floats(3, n, h, v, 2 * c), floats(4, 2, 3, 3, c, k)
        parts = [conv(x[..., g * c : g * c + c], w[g], 1, 1) for g in (0, 1)]
        close(grouped(x, w), np.concatenate(parts, 3))
        x, w = floats(5, n, h, v, c), floats(6, 3, 3, c, k)
        want = np.zeros((n, 2 * h + 1, 2 * v + 1, k))
        for r in range(3):
            for s in range(3):
                tap = x.astype(np.float64) @ w[r, s]
                want[:, r : r + 2 * h - 1 : 2, s : s + 2 * v - 1 : 2] += tap
        close(transposed(x, w), want)
        w = floats(7, 3, 3, c)
        each = [conv(x[..., g : g + 1], w[..., g, None, None], 1, 1) for g in range(c)]
        close(depthwise(x, w), np.concatenate(each, 3) if each else np.zeros((n, h, v, 0)))


@fast
def test_rows(on: str) -> None:
    softmax, argmax = compiled("norm", "softmax", on), compiled("norm", "argmax", on)
    layernorm, rmsnorm = compiled("norm", "layernorm", on), compiled("norm", "rmsnorm", on)
    for m, n in ((0, 3), (1, 1), (3, 1), (2, 33)):
        x, g, b = floats(8, m, n), floats(9, n), floats(10, n)
        wide = x.astype(np.float64)
        powers = np.exp(wide - wide.max(1, keepdims=True))
        close(softmax(x), powers / powers.sum(1, keepdims=True))
        np.testing.assert_array_equal(argmax(x), x.argmax(1))
        d = wide - wide.mean(1, keepdims=True)
        close(layernorm(x, g, b, 1e-3), d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-3) * g + b)
        close(rmsnorm(x, g, 1e-3), wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-3) * g)


@fast
def test_planes_and_elements(on: str) -> None:
    turn, blur = compiled("image", "transpose", on), compiled("image", "blur", on)
    chain = compiled("elementwise", "scale_shift_relu_add", on)
    for m, n in ((0, 3), (3, 0), (1, 1), (17, 9)):
        x = floats(11, m, n)
        np.testing.assert_array_equal(turn(x), x.T)
        flat = x.reshape(-1)
        close(chain(flat, flat, 1.5, -0.25), np.maximum(flat * 1.5 - 0.25, 0) + flat)
    for m, n in ((3, 3), (4, 21)):
        x = floats(12, m, n).astype(np.float64)
        across = (x[:, :-2] + x[:, 1:-1] + x[:, 2:]) / 3
        close(blur(x.astype(np.float32)), (across[:-2] + across[1:-1] + across[2:]) / 3)
