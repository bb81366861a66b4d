"""Elementary functions in kernels: whole vectors, tails and plain loops give the same bits."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tdsl
from tests.codegen.harness import need
from tests.math.reference import KINDS, ULP, Exact, ulps

NAMES = ("exp", "log", "erf", "sin")  # one of each kind of formula

SCHEDULES = {
    "scalar": "unroll i by 2",
    "masked": "vectorize i",
    "peeled": "split i by lanes(T) -> o, i tail peel\n vectorize i",
    "narrow": "split i by 2 * lanes(T) -> o, i tail narrow\n vectorize i",
}


def text(elem: str) -> str:
    outputs = "\n".join(f"out y_{op}: {elem}[N]" for op in NAMES)
    equations = "\n".join(f"y_{op}[i] = {op}(x[i])" for op in NAMES)
    schedules = ""
    for name, marks in SCHEDULES.items():
        inside = "\n".join(
            f"on y_{op} {{ {marks.replace('-> o', f'-> o_{op}').replace('T', elem)} }}"
            for op in NAMES
        )
        schedules += f"schedule all.{name} for any when false {{\n{inside}\n}}\n"
    return f"kernel all(N) {{\nin x: {elem}[N]\n{outputs}\n{equations}\n}}\n{schedules}"


@pytest.mark.parametrize(
    ("name", "elem"),
    [
        ("c", "f64"),
        ("avx2", "f64"),
        ("avx512", "f32"),
        pytest.param("neon", "f32", marks=pytest.mark.neon),
    ],
)
def test_all_schedules_give_the_same_bits(name: str, elem: str) -> None:
    of = need(name)
    kernel = tdsl.parse(text(elem))["all"]
    x = np.concatenate(
        [np.linspace(-6, 6, 92), [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310, 1e5, 2e7, -1e30]]
    ).astype(KINDS[elem])
    unsigned = f"u{x.dtype.itemsize}"
    oracle = kernel.reference(x=x)
    first = None
    for schedule in SCHEDULES:
        if schedule == "narrow" and not of.widths:
            continue
        found = kernel.compile(target=name, schedule=schedule)(x=x)
        first = first or found
        for op in NAMES:
            mine, other = getattr(found, f"y_{op}"), getattr(first, f"y_{op}")
            same = (mine.view(unsigned) == other.view(unsigned)) | np.isnan(mine) & np.isnan(other)
            assert same.all(), f"{op} {schedule}"
            want = getattr(oracle, f"y_{op}").astype(np.float64)
            # The interpreter's own double result is rounded, in f64 by NumPy's error too.
            slack = 0.5 if elem == "f32" else 1.0
            assert (ulps(mine, Exact(want, np.zeros_like(want))) <= ULP + slack).all(), op


def test_strict_kernels_call_functions_that_fuse_nothing() -> None:
    kernel = tdsl.parse(text("f32"))["all"]
    plain = kernel.compile(target="avx2", schedule="masked").c_source
    strict = kernel.compile(target="avx2", schedule="masked", strict_fp=True).c_source
    assert "_mm256_fmadd_ps" in plain
    assert "fmadd" not in strict and "fnmadd" not in strict
    for op in NAMES:
        assert not re.search(rf"\b{op}f?\(", plain)  # the C library's
        assert f"tdsl_{op}_f32x8(" in plain
        assert f"tdsl_{op}_strict_f32x8(" in strict


def test_functions_are_defined_once_and_where_used() -> None:
    source = "kernel k(N) { in x: f32[N]\n out y: f32[N]\n y[i] = exp(x[i]) + exp(-x[i]) }\n"
    source += "schedule k.v for any { vectorize i }"
    code = tdsl.parse(source)["k"].compile(target="avx2").c_source
    assert code.count("tdsl_exp_f32x8(__m256 x)") == 1
    assert "tdsl_log" not in code
    assert "expf(" not in code
