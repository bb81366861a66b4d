"""The pipelines that Halide runs beside our kernels give right values on the row's buffers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ops.harness import Array, close, conv

pytest.importorskip("halide", reason="the extra `halide` is not installed", exc_type=ImportError)

ROOT = Path(__file__).resolve().parents[2]
case: Any = import_module("benchmarks.case")
pipelines: Any = import_module("benchmarks.pipelines")


def given(*shape: int) -> Array:
    made: Array = case.normal(np.random.default_rng(sum(shape)), *shape)
    return made


def test_chain() -> None:
    x, c, y = given(1000), given(1001)[:1000].copy(), case.output(1000)
    c = case.aligned(c, np.float32)
    run = pipelines.chain(x, np.float32(1.25), np.float32(-0.5), c, y)
    close(y, np.maximum(x.astype(np.float64) * 1.25 - 0.5, 0) + c)
    x[...] = 2.0  # the same buffers at every call
    run()
    close(y, 2.0 + c.astype(np.float64))


@pytest.mark.parametrize("h,w", [(40, 50), (98, 131), (66, 34)])
def test_blur(h: int, w: int) -> None:
    x, y = given(h, w), case.output(h - 2, w - 2)
    pipelines.blur(x, y)
    wide = x.astype(np.float64)
    across = (wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]) / 3
    close(y, (across[:-2] + across[1:-1] + across[2:]) / 3)


@pytest.mark.parametrize("m,n", [(5, 64), (3, 128), (4, 100)])
def test_softmax(m: int, n: int) -> None:
    x, y = given(m, n), case.output(m, n)
    pipelines.softmax(x, y)
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    close(y, powers / powers.sum(1, keepdims=True))


@pytest.mark.parametrize("m,n,k", [(64, 64, 64), (13, 131, 7), (1, 5, 3), (7, 64, 1)])
def test_product(m: int, n: int, k: int) -> None:
    a, b, y = given(m, k), given(k, n), case.output(m, n)
    pipelines.product(a, b, y)
    close(y, a.astype(np.float64) @ b, 1e-5)


@pytest.mark.parametrize("side,c,k,taps,stride,pad", [
    (9, 16, 32, 3, 1, 1), (17, 5, 64, 3, 1, 0), (15, 3, 64, 7, 2, 3), (20, 16, 32, 1, 1, 0),
])  # fmt: skip
def test_convolution(side: int, c: int, k: int, taps: int, stride: int, pad: int) -> None:
    x, w, b = given(1, side, side, c), given(taps, taps, c, k), given(k)
    want = np.maximum(conv(x, w, stride, pad) + b, 0)
    y = case.output(*want.shape)
    pipelines.convolution(x, w, b, y, stride=stride, pad=pad)
    close(y, want, 1e-5)


@pytest.mark.parametrize("m,n,k", [(20, 70, 9), (3, 5, 2)])
def test_the_peer_of_the_example(tmp_path: Path, m: int, n: int, k: int) -> None:
    """`tdsl bench` compares values before it times."""
    for name in ("matmul.tdsl", "matmul.bench.py"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    sizes = [f"--size={name}={value}" for name, value in (("M", m), ("N", n), ("K", k))]
    command = [sys.executable, "-m", "tdsl", "bench", "matmul.tdsl", *sizes, "--seconds=0.05"]
    done = subprocess.run(
        [*command, "--against", "halide", "--json"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["kernels"][0]["rows"]
    assert "halide" in [r["name"] for r in rows]
