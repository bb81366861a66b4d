"""`dot`: sums of narrow products by one instruction a group, against NumPy, on every target."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tdsl
from tdsl import driver
from tdsl.ir import vector as v
from tdsl.lower.check_instances import check_instances
from tdsl.polyhedral.rebuild import Miscompiled
from tdsl.polyhedral.validate import Order
from tdsl.syntax.parser import parse
from tdsl.targets import native, runnable, target
from tests.lower.mutants import mutants

Array = np.ndarray[Any, Any]
LEVELS = (
    "c", "avx2", "avx2+vnni", "avx512", "avx512+vnni", "avx512+bf16",
    *(pytest.param(f"neon{e}", marks=pytest.mark.neon) for e in ("", "+dotprod", "+i8mm", "+bf16")),
)  # fmt: skip
DTYPES: dict[str, Any] = {
    "u8": np.uint8,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "u32": np.uint32,
}
KINDS = (
    ("u8", "i8", "i32"), ("i8", "u8", "i32"), ("i8", "i8", "i32"), ("u8", "u8", "u32"),
    ("i16", "i16", "i32"), ("i8", "i8", "u32"),
)  # fmt: skip
SIZES = tuple((7, n, k) for n in (1, 15, 16, 17, 33) for k in (0, 1, 3, 4, 5, 63, 64))

PACKED = """
kernel gemm(M, N, K) {{
    in  A: {a}[M, K]
    in  B: {b}[(K + {last}) // {group}, N, {group}]
    out C: {acc}[M, N]

    C[i, j] = sum[k in 0..K]({acc}(A[i, k]) * {acc}(B[k // {group}, j, k % {group}]))
}}
schedule gemm for any {{
    {first}
    split i by 3 -> io, ii tail cases
    split j by 2 * lanes(i32) -> jo, ji tail {tail}
    split k by {group} -> kg, kk tail mask
    reorder io, jo, kg, ii, ji, kk
    unroll ii
    vectorize ji
    dot kk
}}
"""

OVERRUN = """
kernel gemm(M, N, K) {
    in  A: u8[M, K]
    in  B: i8[K, N]
    temp t: u8[M, K]
    out C: i32[M, N]

    t[i, k] = A[i, k]
    C[i, j] = sum[k](i32(t[i, k]) * i32(B[k, j]))
}
schedule gemm for any {
    on C {
        split j by lanes(i32) -> jo, ji
        split k by 4 -> kg, kk tail overrun
        reorder jo, i, kg, ji, kk
        vectorize ji
        dot kk
    }
    pack C.B at root as Bp[jo, kg, ji, kk]
}
"""


def compiled(text: str, level: str) -> Any:
    of = target(level)
    if runnable(of) is not None and of.family != "neon":
        pytest.skip(str(runnable(of)))
    return tdsl.parse(text)["gemm"].compile(level)


def packed(a: str, b: str, acc: str, tail: str = "mask", first: str = "") -> str:
    group = 2 if a in ("i16", "bf16") else 4
    return PACKED.format(a=a, b=b, acc=acc, group=group, last=group - 1, tail=tail, first=first)


def extremes(elem: str, shape: tuple[int, ...], seed: int) -> Array:
    """Values of which half are the least or the greatest."""
    rng = np.random.default_rng(seed)
    bounds = np.iinfo(DTYPES[elem])
    drawn = rng.integers(bounds.min, bounds.max + 1, shape)
    ends = rng.choice([bounds.min, bounds.max], shape)
    return np.where(rng.random(shape) < 0.5, ends, drawn).astype(DTYPES[elem])


def expected(A: Array, B: Array, k: int, acc: str) -> Array:
    """The product modulo 2^32; rows of B lie in groups, of which the last one may be cut."""
    groups, n, group = B.shape
    rows = B.transpose(0, 2, 1).reshape(groups * group, n)[:k].astype(np.int64)
    product = A.astype(np.int64) @ rows
    return product.astype(np.uint64).astype(np.uint32).view(DTYPES[acc])


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
@pytest.mark.parametrize("level", LEVELS)
def test_integers_are_exact(level: str, kind: tuple[str, str, str]) -> None:
    a, b, acc = kind
    function = compiled(packed(a, b, acc), level)
    group = 2 if a == "i16" else 4
    sizes = SIZES[::5] if level.startswith("neon") else SIZES
    for m, n, k in sizes:
        A = extremes(a, (m, k), k)
        B = extremes(b, (-(-k // group), n, group), n)  # what lies behind K is no zero
        got = function(A=A, B=B)
        np.testing.assert_array_equal(got, expected(A, B, k, acc), err_msg=f"{m}, {n}, {k}")


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_saturates(level: str) -> None:
    """Two products of 255 and 127 are more than 16 bits hold."""
    function = compiled(packed("u8", "i8", "i32"), level)
    for k, value, want in ((4, 127, 129540), (4, -128, -130560), (64, 127, 2072640)):
        A, B = np.full((1, k), 255, np.uint8), np.full((k // 4, 16, 4), value, np.int8)
        assert function(A=A, B=B).tolist() == [[want] * 16]


@pytest.mark.parametrize("tail", ["mask", "cases", "narrow", "peel", "guard"])
def test_tails_of_the_lanes(tail: str) -> None:
    function = compiled(packed("u8", "i8", "i32", tail), native().name)
    for m, n, k in itertools.product((1, 3, 5), (1, 15, 16, 17, 33, 40), (0, 3, 4, 9)):
        A, B = extremes("u8", (m, k), 1), extremes("i8", (-(-k // 4), n, 4), 2)
        np.testing.assert_array_equal(function(A=A, B=B), expected(A, B, k, "i32"))


@pytest.mark.parametrize("level", LEVELS)
def test_pairs_of_bf16(level: str) -> None:
    """Within rounding; and what lies behind K counts for nothing, not even a NaN."""
    function = compiled(packed("bf16", "bf16", "f32", first="reassociate C"), level)
    rng = np.random.default_rng(3)

    def drawn(*shape: int) -> Array:
        return (rng.normal(size=shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)

    def numbers(bits: Array) -> Array:
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)

    for m, n, k in SIZES[:: 5 if level.startswith("neon") else 1]:
        A, B = drawn(m, k), drawn(-(-k // 2), n, 2)
        if k % 2:
            B[-1, :, 1] = 0x7FC0
        rows = B.transpose(0, 2, 1).reshape(-1, n)[:k]
        want = numbers(A) @ numbers(rows)
        np.testing.assert_allclose(function(A=A, B=B), want, rtol=1e-5, atol=1e-4)


def test_operands_that_lie_in_another_way_are_refused() -> None:
    """The refusal names the copy that would lie right."""
    plain = packed("u8", "i8", "i32").replace("[(K + 3) // 4, N, 4]", "[K, N]")
    text = plain.replace("B[k // 4, j, k % 4]", "B[k, j]")
    with pytest.raises(tdsl.IllegalSchedule) as caught:
        compiled(text, "native")
    assert "what C reads of B is not contiguous over [ji, kk]" in str(caught.value)
    assert "pack C.B as Bp[kg, jo, ji, kk]" in str(caught.value)


def test_lanes_that_share_both_operands_are_refused() -> None:
    text = packed("u8", "i8", "i32").replace("B[k // 4, j, k % 4]", "B[k // 4, 0, k % 4]")
    with pytest.raises(tdsl.IllegalSchedule, match="nothing that C multiplies differs between"):
        compiled(text.replace("out C", "assume N >= 1\n    out C"), "native")


def test_both_operands_may_lie_in_lanes() -> None:
    text = """
    kernel gemm(N) {
        in  x: i8[N, 16, 4]
        in  y: i8[N, 16, 4]
        out s: i32[16]

        s[l] = sum[n, g in 0..4](i32(x[n, l, g]) * i32(y[n, l, g]))
    }
    schedule gemm for any {
        reorder n, l, g
        vectorize l
        dot g
    }
    """
    function = compiled(text, "native")
    for n in (0, 1, 5):
        x, y = extremes("i8", (n, 16, 4), 1), extremes("i8", (n, 16, 4), 2)
        want = (x.astype(np.int64) * y).sum(axis=(0, 2)).astype(np.int32)
        np.testing.assert_array_equal(function(x=x, y=y), want)


def test_lanes_may_be_terms_too() -> None:
    """A product of two vectors of bytes: lanes of partial sums of groups."""
    text = """
    kernel gemm(N) {
        in  x: i8[N]
        in  y: i8[N]
        out s: i32
        assume N % 64 == 0

        s = sum[k](i32(x[k]) * i32(y[k]))
    }
    schedule gemm for any {
        split k by 64 -> ko, k1
        split k1 by 4 -> l, g
        vectorize l
        dot g
    }
    """
    function = compiled(text, "native")
    for n in (0, 64, 192):
        x, y = extremes("i8", (n,), 3), extremes("i8", (n,), 4)
        want = np.int64(x.astype(np.int64) @ y.astype(np.int64)).astype(np.int32)
        assert function(x=x, y=y) == want


def test_a_float_that_is_masked_on_one_side_is_seen() -> None:
    """0 times what lies behind the end may be NaN."""
    made = driver.run(
        parse(packed("bf16", "bf16", "f32", first="reassociate C"), "gemm.tdsl"),
        driver.Options("gemm", target("avx512")),
        until="validated",
    )
    program, lowered = made.scheduled.program, made.lowered
    order = Order(made.dependences, made.scheduled.reassociate)
    check_instances(program, lowered, order)

    def unmasked(node: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(node, v.Load) and node.mask is not None and node.type.lanes > 2:
            yield "mask dropped", replace(node, mask=None)

    tried = list(mutants(lowered.function.body, (unmasked,)))
    assert tried
    for mutant in tried:
        function = replace(lowered.function, body=mutant.tree)
        with pytest.raises(Miscompiled):
            check_instances(program, replace(lowered, function=function), order)


@pytest.mark.parametrize("level", LEVELS)
def test_terms_behind_a_sum_add_nothing(level: str) -> None:
    """The rows of t end where the next ones begin; the copy of B is 0 there."""
    function = compiled(OVERRUN.replace("jo, ji", "jo, ji tail mask"), level)
    for m, n, k in SIZES[:: 5 if level.startswith("neon") else 2]:
        A, B = extremes("u8", (m, k), k), extremes("i8", (k, n), n)
        want = (A.astype(np.int64) @ B.astype(np.int64)).astype(np.int32)
        np.testing.assert_array_equal(function(A=A, B=B), want)
    if level.endswith("+vnni"):
        loop = function.c_source.split("gemm_run")[1].split("tdsl_dot_u8_i8_to_")
        assert len(loop) == 3, "a loop of whole vectors and one of the last ones"


@pytest.mark.parametrize("by", ["", " by 16"])
@pytest.mark.parametrize("level", LEVELS)
def test_operands_may_be_in_registers(level: str, by: str) -> None:
    """Weights of four bits that are unpacked just before: no memory holds them."""
    text = """
    kernel gemm(N) {
        in  x: u8[N, 32]
        in  y: i8[N, 32]
        out s: i32[N, 8]

        w[n, i] = i8(x[n, i] & 15) - 8
        s[n, l] = sum[g in 0..4](i32(w[n, 4 * l + g]) * i32(y[n, 4 * l + g]))
    }
    schedule gemm for any {
        on s {
            vectorize l
            dot g
        }
        compute w at s.n in registers
        on w { vectorize i }
    }
    """
    if level == "c":
        pytest.skip("there are no lanes to keep")
    function = compiled(text.replace("vectorize i }", f"vectorize i{by} }}"), level)
    assert function.workspace_bytes(3) == 0
    for n in (0, 1, 5):
        x, y = extremes("u8", (n, 32), 1), extremes("i8", (n, 32), 2)
        w = (x & 15).astype(np.int64) - 8
        want = (w * y).reshape(n, 8, 4).sum(axis=2)
        np.testing.assert_array_equal(function(x=x, y=y), want)
