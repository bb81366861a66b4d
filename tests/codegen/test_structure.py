"""Loops, parallel loops, buffers on the stack, tables; what a small kernel looks like."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tdsl.codegen import emit_module
from tdsl.ir.kernel import INDEX, Op, Size, Var
from tdsl.ir.print_vector import print_function
from tdsl.ir.types import F32, F64, I64
from tdsl.ir.vector import (
    Assign,
    Block,
    Buffer,
    Comment,
    Const,
    Declare,
    FirstLanes,
    For,
    Function,
    Let,
    Load,
    Ref,
    Splat,
    Store,
    VType,
)
from tdsl.ir.vector import Op as VOp
from tdsl.targets import TARGETS, compile_flags, native, target
from tests.codegen.build import I, add, load, mask, mul, num
from tests.codegen.harness import compiler, need, write
from tests.codegen.library import build, status

GOLDEN = Path(__file__).with_name("golden")
M, N, K = Size("M"), Size("N"), Size("K")
J = Var("j")


def matmul(lanes: int) -> Function:
    """C = A * B, two rows and one masked vector of columns at a time."""
    v, m = VType(F32, lanes), mask(F32, lanes)
    left = FirstLanes(Op("sub", (N, J), INDEX), m)
    tail = Ref("j_tail", m)
    k = Var("k")
    rows = [I, add(I, num(1))]
    start = [Declare(f"C_{r}", v, Const(0.0, v)) for r in range(2)]
    b = Let("B_0", Load("B", add(mul(k, N), J), v, None, tail))
    step: list[Let | Assign] = [b]
    for r, row in enumerate(rows):
        a = Load("A", add(mul(row, K), k), VType(F32))
        a_all = Splat(a, v) if lanes > 1 else a
        product = VOp("fma", (a_all, Ref("B_0", v), Ref(f"C_{r}", v)), v)
        step.append(Assign(f"C_{r}", product))
    loop = For("k", num(0), K, Block(tuple(step)), notes=("reduction over k",))
    stores = [
        Store("C", add(mul(row, N), J), Ref(f"C_{r}", v), None, tail) for r, row in enumerate(rows)
    ]
    note = Comment("C = sum[k](A * B)")
    inner = Block((Let("j_tail", left), *start, note, loop, *stores))
    columns = For("j", num(0), N, inner, lanes, notes=(f"vectorize j by {lanes}",))
    body = Block((For("i", num(0), M, Block((columns,)), 2, notes=("unroll i by 2",)),))
    sides = (
        Buffer("A", F32, (M, K), "in"),
        Buffer("B", F32, (K, N), "in"),
        Buffer("C", F32, (M, N), "out"),
    )
    even = Op("eq", (Op("mod", (M, num(2)), INDEX), num(0)), INDEX)
    return Function("matmul", ("M", "N", "K"), sides, (even,), body, ("schedule matmul.tiled",))


@pytest.mark.parametrize("name", TARGETS)
def test_golden(name: str) -> None:
    """The C of a small kernel, reviewed by people: golden/NAME.c."""
    of = target(name)
    f = matmul(of.lanes(F32) if of.widths else 1)
    module = emit_module("matmul", [replace(f, variant="tiled")], of)
    for path, text in ((f"matmul.{name}.c", module.c_source), ("matmul.h", module.header)):
        assert (GOLDEN / path).read_text() == text, f"compare golden/{path}"
    assert max(len(line) for line in module.c_source.splitlines()) <= 110


def test_printed_text() -> None:
    text = print_function(matmul(8))
    assert text == (GOLDEN / "matmul.vector").read_text()


@pytest.mark.parametrize("name", ["c", "avx2", "avx512"])
def test_matmul(name: str, tmp_path: Path) -> None:
    of = need(name)
    f = matmul(of.lanes(F32) if of.widths else 1)
    library = build(emit_module("matmul", [f], of), of, tmp_path)
    rng = np.random.default_rng(0)
    for m, n, k in ((0, 3, 2), (2, 1, 1), (4, 17, 5), (2, 16, 0), (6, 33, 7)):
        a = rng.integers(-4, 5, (m, k)).astype(np.float32)
        b = rng.integers(-4, 5, (k, n)).astype(np.float32)
        c = np.full((m, n), np.nan, np.float32)
        assert status(library, "matmul", m, n, k, a, b, c, None) == 0
        np.testing.assert_array_equal(c, a @ b)


def test_small_kernel_compiles_quickly(
    tmp_path: Path, record_property: pytest.FixtureRequest
) -> None:
    """immintrin.h costs most of it. The bound is loose: machines differ and are shared."""
    of = native()
    f = matmul(of.lanes(F32) if of.widths else 1)
    source = write(emit_module("matmul", [f], of), tmp_path)
    command = [compiler(of), *compile_flags(of), "-c", str(source), "-o", str(tmp_path / "m.o")]
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run(command, check=True)
        seconds.append(time.perf_counter() - start)
    record_property("compile_seconds", min(seconds))  # type: ignore[operator]
    assert min(seconds) < 3


def doubled(parallel: bool, role: str) -> Function:
    """y[i] = 2 * sum of a table times x[i, :4], each row by way of four elements on the stack."""
    t = VType(F64)
    row = add(mul(I, num(4)), J)
    fill = For("j", num(0), num(4), Block((Store("s", J, Load("x", row, t)),)))
    product = VOp("mul", (Load("s", J, t), Load("w", J, t)), t)
    total = Assign("sum", VOp("add", (Ref("sum", t), product), t))
    add_up = For("j", num(0), num(4), Block((total,)))
    body = Block(
        (
            fill,
            Declare("sum", t, Const(0.0, t)),
            add_up,
            Store("y", I, VOp("mul", (Const(2.0, t), Ref("sum", t)), t)),
        )
    )
    return Function(
        "doubled",
        ("N",),
        (
            Buffer("x", F64, (N, num(4)), "in"),
            Buffer("y", F64, (N,), "out"),
            Buffer("s", F64, (num(4),), role, per_thread=parallel),
            Buffer("w", F64, (num(4),), "table", (1.0, -0.1, 1 / 3, 1e300)),
        ),
        (),
        Block((For("i", num(0), N, body, 1, parallel),)),
    )


@pytest.mark.parametrize("role", ["stack", "scratch"])
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("name", ["c", "native"])
def test_local_buffers_and_tables(name: str, parallel: bool, role: str, tmp_path: Path) -> None:
    of = target(name)
    module = emit_module("doubled", [doubled(parallel, role)], of)
    assert ("#pragma omp parallel for schedule(static)" in module.c_source) == parallel
    library = build(module, of, tmp_path, ("-fopenmp",) if parallel else ())
    rng = np.random.default_rng(1)
    x = rng.standard_normal((5000, 4)) * [1, 1, 1, 1e-300]
    for _ in range(10):  # a shared buffer would not survive two threads
        y = np.zeros(5000)
        assert status(library, "doubled", 5000, x, y, None) == 0
        w = np.array([1.0, -0.1, 1 / 3, 1e300])
        want = 2 * (((x[:, 0] * w[0] + x[:, 1] * w[1]) + x[:, 2] * w[2]) + x[:, 3] * w[3])
        np.testing.assert_array_equal(y, want)


def test_parallel_vectors_keep_their_target(tmp_path: Path) -> None:
    """The loop's body becomes a function of its own, which needs the instructions too."""
    of = native()
    lanes = of.lanes(F32) if of.widths else 1
    v = VType(F32, lanes)
    value = VOp("add", (load("x", F32, lanes, I), Const(1.0, v)), v)
    f = Function(
        "plus",
        ("N",),
        (Buffer("x", F32, (N,), "in"), Buffer("y", F32, (N,), "out")),
        (),
        Block((For("i", num(0), N, Block((Store("y", I, value),)), lanes, True),)),
    )
    library = build(emit_module("plus", [f], of), of, tmp_path, ("-fopenmp",))
    x = np.arange(64 * lanes, dtype=np.float32)
    y = np.zeros_like(x)
    assert status(library, "plus", x.size, x, y, None) == 0
    np.testing.assert_array_equal(y, x + 1)


def test_unused_arguments_and_helpers_stay_out() -> None:
    f = Function(
        "idle",
        ("N",),
        (Buffer("x", I64, (N,), "in"), Buffer("y", I64, (), "out")),
        (),
        Block((Store("y", num(0), Const(1, VType(I64))),)),
    )
    text = emit_module("idle", [f], target("avx512")).c_source
    assert "immintrin.h" not in text
    assert "idle_run(int64_t *restrict y)" in text
    assert "tdsl_floordiv" not in text
    assert "typedef" not in text
