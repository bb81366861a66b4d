"""Sums that stay in one register, and masks that are one condition."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tdsl
from tdsl.built import GeneratedKernel
from tdsl.runtime.callable import CompiledKernel
from tdsl.targets import runnable, target

OPS = Path(tdsl.__file__).resolve().parent / "ops"

# 14 pixels of two vectors, two weights and a pixel: 31 of 32 registers; 6 of them: 15 of 16.
CONV = """
kernel conv(P, C, K, R) {
    assume P % 42 == 0, K % 32 == 0
    in  x: f32[P + R - 1, C]
    in  w: f32[R, C, K]
    out y: f32[P, K]
    s[p, k] = sum[r in 0..R, c](x[p + r, c] * w[r, c, k])
    y[p, k] = max(s[p, k], 0.0)
}
schedule conv for avx512, avx2, neon {
    let QT = tune(14, 6)
    require 2 * QT + 2 + 1 <= registers
    on y {
        split p by QT -> po, pi
        split k by 2 * lanes(f32) -> ko, ki
        reorder ko, po, pi, ki
        unroll pi
        vectorize ki
    }
    compute s at y.po in registers
    on s {
        reorder r, c, p, k
        unroll c by UNROLLED plain
        unroll p
        vectorize k
    }
    expect spills(s) == 0
}
"""

# The border: each load has a condition on its row, one on its column, and the lanes of the tail.
BORDER = """
kernel smooth(H, W, C) {
    in  x: f32[H, W, C]
    in  w: f32[3, 3, C]
    out y: f32[H, W, C]
    y[p, q, c] = sum[r in 0..3, s in 0..3](padded(x[p + r - 1, q + s - 1, c], 0.0) * w[r, s, c])
}
schedule smooth for avx512, avx2, neon {
    split p by 2 -> po, pi  tail cases
    split q by 2 -> qo, qi  tail cases
    split c by lanes(f32) -> co, ci  tail mask
    skew r by pi
    skew s by qi
    reorder po, co, qo, r, s, pi, qi, ci
    unroll r, s, pi, qi
    vectorize ci
    stage w at y.co in registers
    expect spills(y) == 0
}
"""


def compiled(text: str, kernel: str, machine: str, /, **sizes: int) -> Any:
    why = runnable(target(machine))
    if why is not None and not machine.startswith("neon"):
        pytest.skip(why)
    return tdsl.parse(text)[kernel].compile(machine, sizes=sizes)


SIZES = {"P": 42, "C": 9, "K": 32, "R": 3}
MACHINES = ("avx512", "avx2", pytest.param("neon", marks=pytest.mark.neon))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("unrolled", "bound"), ((1, True), (4, True), (4, False)))
def test_a_tile_that_just_fits_has_registers(machine: str, unrolled: int, bound: bool) -> None:
    """Whether or not the C compiler knows how often the loops around it run."""
    text = CONV.replace("UNROLLED", str(unrolled))
    run = compiled(text, "conv", machine, **(SIZES if bound else {}))
    assert callable(run) and not isinstance(run, GeneratedKernel)
    rng = np.random.default_rng(1)
    x = rng.standard_normal((44, 9)).astype(np.float32)
    w = rng.standard_normal((3, 9, 32)).astype(np.float32)
    want = sum(x[r : r + 42].astype(np.float64) @ w[r] for r in range(3))
    got = run(x=x, w=w, **({} if bound else {"P": 42}))
    np.testing.assert_allclose(got, np.maximum(want, 0.0), rtol=1e-4, atol=1e-5)


def test_only_known_lengths_are_hidden() -> None:
    text = CONV.replace("UNROLLED", "4")
    source = tdsl.parse(text)["conv"].compile("avx2").c_source
    assert "tdsl_fma_to_f32x8(" in source and "tdsl_hidden" not in source
    source = tdsl.parse(text)["conv"].compile("avx2", sizes=SIZES).c_source
    hidden = re.findall(r"for \(int64_t (\w+) = .*tdsl_hidden\(([^)]*)\)", source)
    # The one around the others, and the one with the rest of its iterations behind it.
    assert set(hidden) == {("r", "3"), ("c", "2")}


@pytest.mark.parametrize("machine", MACHINES)
def test_blocks_of_a_sum_have_registers(machine: str) -> None:
    """The length of a block is known, though not where it starts."""
    text = (OPS / "gemm.tdsl").read_text(encoding="utf-8")
    head, body = text.split("schedule matmul.packed", 1)
    body = body.replace("NC = NC)\n}", "NC = NC)\n    expect spills(part) == 0\n}", 1)
    assert "expect spills(part)" in body
    head = head[: head.index("# One row, bound by memory")]  # no other variant of matmul
    run = compiled(f"{head}schedule matmul.packed{body}", "matmul", machine, M=12, N=128, K=1024)
    assert callable(run) and not isinstance(run, GeneratedKernel)
    rng = np.random.default_rng(3)
    a = rng.standard_normal((12, 1024)).astype(np.float32)
    b = rng.standard_normal((1024, 128)).astype(np.float32)
    np.testing.assert_allclose(run(A=a, B=b), a.astype(np.float64) @ b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("channels", (19, 32))
def test_skewed_sums_stay_in_registers(machine: str, channels: int) -> None:
    run = compiled(BORDER, "smooth", machine, H=5, W=7, C=channels)
    assert callable(run) and not isinstance(run, GeneratedKernel)
    rng = np.random.default_rng(2)
    x = rng.standard_normal((5, 7, channels)).astype(np.float32)
    w = rng.standard_normal((3, 3, channels)).astype(np.float32)
    around = np.pad(x.astype(np.float64), ((1, 1), (1, 1), (0, 0)))
    want = sum(around[r : r + 5, s : s + 7] * w[r, s] for r in range(3) for s in range(3))
    np.testing.assert_allclose(run(x=x, w=w), want, rtol=1e-4, atol=1e-5)


def test_a_condition_on_all_lanes_is_no_mask() -> None:
    sizes = {"H": 5, "W": 7, "C": 16}
    source = tdsl.parse(BORDER)["smooth"].compile("avx2", sizes=sizes).c_source
    assert re.search(r" \? _mm256_loadu_ps\(&x\[.*\]\)\s*:", source)
    assert "_mm256_set1_epi32((int32_t)-" not in source


PRODUCTS = """
kernel dots(N, G) {
    in  a: u8[G, 4]
    in  b: i8[G, N, 4]
    out y: i32[N]
    y[n] = sum[g, t](i32(a[g, t]) * i32(b[g, n, t]))
}
schedule dots for avx512+vnni {
    split n by lanes(i32) -> no, ni
    reorder no, g, ni, t
    vectorize ni
    dot t
}
"""


def test_dots_add_to_their_own_register() -> None:
    run = compiled(PRODUCTS, "dots", "avx512+vnni")
    assert isinstance(run, CompiledKernel) and '__asm__("vpdpbusd ' in run.c_source
    rng = np.random.default_rng(3)
    a = rng.integers(0, 256, (5, 4), dtype=np.uint8)
    b = rng.integers(-128, 128, (5, 33, 4), dtype=np.int8)
    want = np.einsum("gt,gnt->n", a.astype(np.int32), b.astype(np.int32))
    np.testing.assert_array_equal(run(a=a, b=b), want)
