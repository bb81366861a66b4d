"""`dot i2, j2, kk`: tiles of two rows and two columns in one register, against NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tdsl
from tdsl import driver
from tdsl.ir import vector as v
from tdsl.ir.index import add, const
from tdsl.lower.check_instances import check_instances
from tdsl.polyhedral.rebuild import Miscompiled
from tdsl.polyhedral.validate import Order
from tdsl.syntax.parser import parse
from tdsl.targets import runnable, target
from tests.lower.mutants import mutants

Array = np.ndarray[Any, Any]
DTYPES: dict[str, Any] = {"u8": np.uint8, "i8": np.int8, "i32": np.int32, "u32": np.uint32}
KERNELS = Path(__file__).resolve().parents[3] / "shared" / "kernels"
SIZES = ((1, 1, 1), (2, 2, 8), (3, 5, 7), (4, 4, 0), (5, 7, 9), (8, 12, 16), (9, 3, 17))

GEMM = """
kernel gemm(M, N, K) {{
    in  A: {a}[M, K]
    in  B: {b}[K, N]
    out C: {acc}[M, N]

    ab[i, j] = sum[k]({acc}(A[i, k]) * {acc}(B[k, j]))
    C[i, j] = ab[i, j]
}}
schedule gemm for any {{
    {first}
    on C {{
        split i by 4 -> io, i1
        split j by 4 -> jo, j1
        split i1 by 2 -> ii, i2
        split j1 by 2 -> ji, j2
        reorder jo, io, ii, ji, {lanes}
        unroll ii, ji
        vectorize {lanes}
    }}
    compute ab at C.io in registers
    on ab {{
        split k by {group} -> kg, kk tail {tail}
        split i by 2 -> ii, i2
        split j by 2 -> ji, j2
        reorder kg, ii, ji, {lanes}, kk
        unroll ii, ji
        dot {lanes}, kk
    }}
    pack ab.A at C.io as [kg, ii, i2, kk]
    pack ab.B at root as [jo, kg, ji, j2, kk]
}}
"""


def gemm(
    a: str, b: str, acc: str, *, first: str = "", tail: str = "mask", lanes: str = "i2, j2"
) -> str:
    group = 4 if a == "bf16" else 8
    return GEMM.format(a=a, b=b, acc=acc, group=group, first=first, tail=tail, lanes=lanes)


def compiled(text: str, level: str) -> Any:
    of = target(level)
    if runnable(of) is not None and of.family != "neon":
        pytest.skip(str(runnable(of)))
    return tdsl.parse(text)["gemm"].compile(level)


def drawn(elem: str, shape: tuple[int, ...], seed: int) -> Array:
    """Values of which half are the least or the greatest."""
    rng = np.random.default_rng(seed)
    bounds = np.iinfo(DTYPES[elem])
    ends = rng.choice([bounds.min, bounds.max], shape)
    inside = rng.integers(bounds.min, bounds.max + 1, shape)
    return np.where(rng.random(shape) < 0.5, ends, inside).astype(DTYPES[elem])


def product(A: Array, B: Array, acc: str) -> Array:
    """Modulo 2^32."""
    exact = A.astype(np.int64) @ B.astype(np.int64)
    return exact.astype(np.uint64).astype(np.uint32).view(DTYPES[acc])


def holds(function: Any, a: str, b: str, acc: str) -> None:
    for m, n, k in SIZES:
        A, B = drawn(a, (m, k), m), drawn(b, (k, n), n)
        got = function(A=A, B=B)
        np.testing.assert_array_equal(got, product(A, B, acc), err_msg=f"{m}, {n}, {k}")


@pytest.mark.neon
@pytest.mark.parametrize(
    ("a", "b", "acc"),
    [("u8", "i8", "i32"), ("i8", "i8", "i32"), ("u8", "u8", "u32"), ("i8", "i8", "u32")],
)
def test_integers_are_exact(a: str, b: str, acc: str) -> None:
    function = compiled(gemm(a, b, acc), "neon+i8mm")
    assert "mmlaq_" in function.c_source
    holds(function, a, b, acc)


@pytest.mark.neon
def test_a_large_tile_stays_in_registers() -> None:
    """8 x 12 sums in 24 registers: what is loaded in a step is the operands."""
    text = gemm("u8", "i8", "i32", first='expect spills(ab) == 0, uses(ab, "usmmla")')
    text = text.replace("split i by 4", "split i by 8").replace("split j by 4", "split j by 12")
    function = compiled(text, "neon+i8mm")
    holds(function, "u8", "i8", "i32")


@pytest.mark.neon
@pytest.mark.skipif(not KERNELS.exists(), reason="the kernels are not there")
def test_the_shared_kernel() -> None:
    """Products of bytes with zero points, requantised, at sizes that leave parts of tiles."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the schedule above it is taken
        kernel = tdsl.load(KERNELS / "qgemm.tdsl")["qgemm"]
        function = kernel.compile("neon+i8mm", schedule="mmla")
    for m, n, k in ((1, 1, 1), (8, 12, 8), (7, 11, 9), (9, 13, 7), (3, 5, 0), (17, 25, 33)):
        A, B = drawn("u8", (m, k), m), drawn("i8", (k, n), n)
        scale = np.random.default_rng(k).uniform(1e-5, 1e-3, n).astype(np.float32)
        za, zb, zc = np.uint8(3), np.int8(-5), np.uint8(90)
        t = (A.astype(np.int64) - int(za)) @ (B.astype(np.int64) - int(zb))
        want = np.rint(t.astype(np.float32) * scale) + np.float32(zc)
        got = function(A=A, B=B, scale=scale, za=za, zb=zb, zc=zc)
        np.testing.assert_array_equal(got, np.clip(want, 0, 255).astype(np.uint8))


@pytest.mark.neon
def test_columns_may_come_first() -> None:
    """Of i8 and u8 the unsigned ones are the rows of the instruction."""
    function = compiled(gemm("i8", "u8", "i32", lanes="j2, i2"), "neon+i8mm")
    assert "vusmmlaq_" in function.c_source
    holds(function, "i8", "u8", "i32")


@pytest.mark.neon
def test_terms_behind_a_sum_add_nothing() -> None:
    function = compiled(gemm("u8", "i8", "i32", tail="overrun"), "neon+i8mm")
    holds(function, "u8", "i8", "i32")


@pytest.mark.parametrize(
    "level", ["c", "avx2", "avx512", pytest.param("neon+dotprod", marks=pytest.mark.neon)]
)
def test_levels_without_the_instruction(level: str) -> None:
    holds(compiled(gemm("u8", "i8", "i32"), level), "u8", "i8", "i32")


@pytest.mark.neon
def test_bf16() -> None:
    """Within rounding; what lies behind K counts for nothing."""
    function = compiled(gemm("bf16", "bf16", "f32", first="reassociate ab"), "neon+bf16")
    assert "vbfmmlaq_f32" in function.c_source

    def numbers(bits: Array) -> Array:
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)

    for m, n, k in SIZES:
        rng = np.random.default_rng(k)
        A, B = (
            (rng.normal(size=s).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
            for s in ((m, k), (k, n))
        )
        want = numbers(A) @ numbers(B)
        np.testing.assert_allclose(function(A=A, B=B), want, rtol=1e-5, atol=1e-4)


IN_MEMORY = """
kernel gemm(M, N, K) {
    in    A: i8[M, K, 2, 8]
    in    B: i8[N, K, 2, 8]
    inout C: i32[M, N, 2, 2]

    C[i, j, r, c] += sum[k, t](i32(A[i, k, r, t]) * i32(B[j, k, c, t]))
}
schedule gemm for neon+i8mm {
    reorder i, j, k, r, c, t
    dot r, c, t
}
"""


@pytest.mark.neon
def test_tiles_that_lie_so_in_memory() -> None:
    function = compiled(IN_MEMORY, "neon+i8mm")
    for m, n, k in ((1, 1, 1), (2, 3, 0), (2, 2, 5)):
        A, B = drawn("i8", (m, k, 2, 8), 1), drawn("i8", (n, k, 2, 8), 2)
        C = drawn("i32", (m, n, 2, 2), 3)
        sums = np.einsum("ikrt,jkct->ijrc", A.astype(np.int64), B.astype(np.int64))
        want = (C + sums).astype(np.uint64).astype(np.uint32).view(np.int32)
        got = C.copy()
        function(A=A, B=B, C=got)
        np.testing.assert_array_equal(got, want)


def test_lanes_that_are_exchanged_are_seen() -> None:
    """Operands, rows and parts of a tile have their places."""
    sizes = {"M": 8, "N": 8, "K": 9}
    options = driver.Options("gemm", target("neon+i8mm"), sizes=sizes)
    made = driver.run(parse(gemm("i8", "i8", "i32"), "gemm.tdsl"), options, until="validated")
    program, lowered = made.scheduled.program, made.lowered
    order = Order(made.dependences, made.scheduled.reassociate)
    check_instances(program, lowered, order)

    def exchanged(node: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(node, v.Dot):
            yield "operands exchanged", replace(node, first=node.second, second=node.first)
        if isinstance(node, v.Part):
            yield "the other half", replace(node, start=2 - node.start)
        if isinstance(node, v.Load) and node.type.lanes == 16:
            yield "the next group", replace(node, offset=add(node.offset, const(8)))

    tried = list(mutants(lowered.function.body, (exchanged,)))
    assert {m.name for m in tried} == {"operands exchanged", "the other half", "the next group"}
    for mutant in tried:
        function = replace(lowered.function, body=mutant.tree)
        with pytest.raises(Miscompiled):
            check_instances(program, replace(lowered, function=function), order)


ROWS = """
kernel gemm(M, N) {
    in  x: f32[M, N]
    in  w: f32[N]
    out y: f32[N, M]
    out s: f32[M]
    out c: f32[N]

    y[j, i] = select(i > j, x[i, j] * w[j], 0.5)
    s[i] = sum[j](x[i, j])
    c[j] = sum[i](x[i, j])
}
schedule gemm for any {
    reassociate s, c
    on y {
        split i by 2 -> io, i2
        split j by 4 -> jo, j2 tail mask
        reorder io, jo, i2, j2
        vectorize i2, j2
    }
    on s, c {
        split i by 2 -> io, i2
        split j by 8 -> jo, j2 tail mask
        reorder io, jo, i2, j2
        vectorize i2, j2
    }
}
"""


@pytest.mark.parametrize(
    "level", ["c", "avx2", "avx512", pytest.param("neon", marks=pytest.mark.neon)]
)
def test_rows_of_any_statement(level: str) -> None:
    """Two vector loops: elements that are apart, conditions, sums over the lanes of a row."""
    function = compiled(ROWS, level)
    for m, n in ((1, 1), (2, 4), (3, 9), (4, 8), (5, 17), (2, 0)):
        x = np.random.default_rng(m).integers(-8, 9, (m, n)).astype(np.float32)
        w = np.arange(n, dtype=np.float32)
        y, s, c = function(x=x, w=w)
        below = np.arange(m)[:, None] > np.arange(n)[None, :]
        np.testing.assert_array_equal(y, np.where(below, x * w, np.float32(0.5)).T)
        np.testing.assert_array_equal(s, x.sum(1))
        np.testing.assert_array_equal(c, x.sum(0))


def refused(text: str) -> str:
    with pytest.raises(tdsl.IllegalSchedule) as caught:
        compiled(text, "neon+i8mm")
    return str(caught.value)


def test_operands_that_lie_in_another_way_are_refused() -> None:
    """The refusal names the copy that would lie right."""
    text = gemm("u8", "i8", "i32")
    said = refused(text.replace("    pack ab.B at root as [jo, kg, ji, j2, kk]\n", ""))
    assert "what ab reads of B is not contiguous over [j2, kk]" in said
    assert "pack ab.B as Bp[kg, ji, jo, j2, kk]" in said
    said = refused(text.replace("[kg, ii, i2, kk]", "[kg, ii, kk, i2]"))
    assert "what ab reads of A_pack is not contiguous over [i2, kk]" in said


def test_rows_without_a_sign_come_first() -> None:
    said = refused(gemm("i8", "u8", "i32"))
    assert "A_pack is i8" in said or "B_pack is u8, and it is indexed by j2" in said
    assert "reorder j2, i2, kk and `dot j2, i2, kk`" in said


def test_factors_of_rows_alone_are_refused() -> None:
    text = IN_MEMORY.replace("B[j, k, c, t]", "B[j, k, 0, t]")
    assert "what C reads of B does not depend on c" in refused(text)


def test_tiles_that_do_not_lie_so_are_refused() -> None:
    text = IN_MEMORY.replace("[M, N, 2, 2]", "[M, 2, N, 2]").replace(
        "C[i, j, r, c]", "C[i, r, j, c]"
    )
    said = refused(text)
    assert "the rows and columns that a `dot` adds to are not next to each other in C" in said
    assert "in registers" in said
