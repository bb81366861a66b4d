"""Records as elements: structs of C, structured arrays of NumPy."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import tdsl
from tdsl.runtime.toolchain import find_compiler
from tdsl.syntax.formatter import print_file
from tdsl.syntax.parser import parse
from tests.language.run import compiled, everywhere, interpreted, lowered

BLOCKS = """
record block { d: f16  q: u8[16] }

kernel quantize(NB) {
    in  x: f32[NB, 16]
    out y: block[NB]

    m[b] = max[i](abs(x[b, i]))
    y[b].d = f16(m[b] / 127.0)
    y[b].q[i] = saturate<u8>(round(x[b, i] / m[b] * 127.0) + 128.0)
}
"""
BLOCK = np.dtype([("d", np.float16), ("q", np.uint8, 16)])
PARTS = """
record part { a: u8  f: f32  b: i16[3]  ok: bool }

kernel parts(M, N) {
    in    x: part[M, N] strides [free, 2]
    in    one: part
    inout y: part[M]

    y[i].f += sum[j](x[i, j].f) + one.f
    y[i].b[k] = y[i].b[k] + one.b[k]
    y[i].ok = all[j](x[i, j].ok)
}
"""
PART = np.dtype([("a", "u1"), ("f", "f4"), ("b", "i2", 3), ("ok", "?")], align=True)


@everywhere
def test_records_are_written(on: str) -> None:
    x = np.random.default_rng(2).uniform(-1, 1, (5, 16)).astype(np.float32)
    most = np.abs(x).max(1)
    want = np.rint(x / most[:, None] * np.float32(127)) + 128
    for y in (
        compiled(BLOCKS, "quantize", on, strict_fp=True)(x=x),
        interpreted(BLOCKS, "quantize", {"x": x})["y"],
    ):
        assert y.dtype == BLOCK and y.itemsize == 18
        np.testing.assert_array_equal(y["d"], (most / np.float32(127)).astype(np.float16))
        np.testing.assert_array_equal(y["q"], np.clip(want, 0, 255))


@everywhere
def test_fields_apart(on: str) -> None:
    rng = np.random.default_rng(3)
    x, one, y = np.zeros((4, 6), PART)[:, ::2], np.zeros((), PART), np.zeros(4, PART)
    x["f"], x["ok"] = rng.integers(-9, 9, x.shape), rng.integers(0, 3, x.shape) > 0
    one["f"], one["b"] = 2, [1, 2, 3]
    y["a"], y["f"], y["b"] = 9, 1, 7
    before = y.copy()
    compiled(PARTS, "parts", on)(x=x, one=one, y=y)
    oracle = interpreted(PARTS, "parts", {"x": x, "one": one, "y": before})["y"]
    for name in ("f", "b", "ok"):
        np.testing.assert_array_equal(oracle[name], y[name])
    np.testing.assert_array_equal(y["f"], 1 + x["f"].sum(1) + 2)
    np.testing.assert_array_equal(y["b"], np.tile([8, 9, 10], (4, 1)))
    np.testing.assert_array_equal(y["ok"], x["ok"].all(1))
    assert (y["a"] == 9).all()  # nothing writes it


def test_another_type_is_refused() -> None:
    kernel = compiled(BLOCKS.replace("out y", "inout y"), "quantize", "c")
    x = np.ones((2, 16), np.float32)
    with pytest.raises(TypeError, match=r'np.dtype\(\[\("d", "f2"\), \("q", "u1", 16\)\]'):
        kernel(x=x, y=np.zeros(2, np.dtype([("q", np.uint8, 16), ("d", np.float16)])))
    with pytest.raises(TypeError, match="expected block"):
        kernel(x=x, y=np.zeros((2, 18), np.uint8))
    with pytest.raises(ValueError, match="shape"):
        kernel(x=x, y=np.zeros(3, BLOCK))


def test_the_struct_is_one_of_c(tmp_path: Path) -> None:
    """Offsets and size as a C compiler says them, in a program that includes the header."""
    kernel = compiled(PARTS, "parts", "c")
    (tmp_path / "t.h").write_text(kernel.header)
    offsets = [PART.fields[n][1] for n in PART.names]  # type: ignore[index,union-attr]
    tests = " && ".join(
        f"offsetof(struct part, {n}) == {o}" for n, o in zip(PART.names or (), offsets, strict=True)
    )
    (tmp_path / "main.c").write_text(
        '#include "t.h"\n#include "t.h"\n'
        f"int main(void) {{ return sizeof(struct part) == {PART.itemsize} && {tests} ? 0 : 1; }}\n"
    )
    compiler = find_compiler(kernel.library.request).command
    subprocess.run([*compiler, "main.c", "-o", "main"], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "main"], check=True)


def test_names_that_c_reserves() -> None:
    text = "record int { double: f32  union: u8[2] } kernel f(N) { in x: int[N]  out y: f32[N]  "
    kernel = compiled(text + "y[i] = x[i].double }", "f", "c")
    x = np.zeros(3, np.dtype([("double", "f4"), ("union", "u1", 2)], align=True))
    x["double"] = [1, 2, 3]
    np.testing.assert_array_equal(kernel(x=x), [1, 2, 3])


def test_lanes_take_a_field_with_its_stride() -> None:
    text = BLOCKS + "schedule quantize for any { vectorize y_q.i }"
    buffers = {b.name: b for b in lowered(text, "quantize", "avx2").lowered.function.buffers}
    assert buffers["y.q"].field == ("y", 2) and buffers["y.d"].field == ("y", 0)
    assert "&y_q[18 * b]" in compiled(text, "quantize", "avx2", "quantize").c_source


PREPARED = (
    BLOCKS.split("kernel")[0]
    + """
kernel dense(M, N, K) {
    in    x: f32[M, K] strides [free, 1]
    const w: f32[K, N] strides [ld, 1]
    const r: block[N]
    out   y: f32[M, N]

    u[k, j] = 2.0 * w[k, j] * f32(r[j].d)
    y[i, j] = sum[k](x[i, k] * u[k, j])
}
schedule dense for any {
    compute u at prepare
    reorder y.k, y.j
    vectorize y.j
}
"""
)


@everywhere
def test_constant_arguments_are_prepared_where_they_lie(on: str) -> None:
    rng = np.random.default_rng(10)
    x = rng.integers(-4, 5, (3, 9)).astype(np.float32)[:, :5]
    w = rng.integers(-4, 5, (5, 12)).astype(np.float32)[:, 2:9]
    r = np.zeros(7, BLOCK)
    r["d"] = np.arange(7)
    want = x @ (2 * w * r["d"].astype(np.float32))
    kernel = tdsl.parse(PREPARED)["dense"].compile(target=on)
    np.testing.assert_array_equal(kernel(x=x, w=w, r=r), want)
    np.testing.assert_array_equal(kernel.prepare(w=w, r=r)(x=x), want)


def test_fields_on_the_left_are_printed_as_written() -> None:
    file = parse(PARTS, "t.tdsl")
    text = print_file(file)
    assert "    y[i].f += sum[j](x[i, j].f) + one.f\n" in text
    assert "    y[i].b[k] = y[i].b[k] + one.b[k]\n" in text
    assert parse(text, "t.tdsl") == file
