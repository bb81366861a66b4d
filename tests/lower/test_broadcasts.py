"""Lanes of vectors in place of broadcasts, where instructions take them, against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tdsl
from tdsl import driver
from tdsl.ir import vector as v
from tdsl.ir.index import const
from tdsl.ir.types import F32
from tdsl.lower.broadcasts import by_lanes
from tdsl.lower.check_instances import check_instances
from tdsl.polyhedral.rebuild import Miscompiled
from tdsl.polyhedral.validate import Order
from tdsl.syntax.parser import parse
from tdsl.targets import target
from tests.lower.mutants import mutants

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
        split i by 4 -> io, ii
        split j by {n} -> jo, ji tail mask
        reorder jo, io, ii, ji
        unroll ii
        vectorize ji
    }}
    compute ab at C.io in registers
    on ab {{
        {split}
        reorder {order}
        unroll i
        vectorize j
        {dot}
    }}
    pack ab.A at C.io as Ap[{pack}]
    pack ab.B at root as Bp[jo, {packb}]
}}
"""
DTYPES = {"u8": np.uint8, "i8": np.int8}
SIZES = ((1, 1, 1), (4, 8, 4), (3, 5, 7), (4, 4, 0), (5, 9, 9), (8, 12, 17), (9, 3, 6))


def floats(elem: str) -> str:
    n = 8 if elem == "f32" else 4
    return GEMM.format(
        a=elem, b=elem, acc=elem, first="reassociate ab", n=n, split="", order="k, i, j", dot="",
        pack="k, i", packb="k, j",
    )  # fmt: skip


def groups(a: str, b: str) -> str:
    """The operand that all lanes share is that of A."""
    acc, group = ("f32", 2) if a == "bf16" else ("i32", 4)
    return GEMM.format(
        a=a, b=b, acc=acc, first="reassociate ab" if acc == "f32" else "", n=8,
        split=f"split k by {group} -> kg, kk tail mask", order="kg, i, j, kk", dot="dot kk",
        pack="kg, i, kk", packb="kg, j, kk",
    )  # fmt: skip


def bytes_of(rng: np.random.Generator, elem: str, shape: tuple[int, int]) -> np.ndarray[Any, Any]:
    bounds = np.iinfo(DTYPES[elem])
    return rng.integers(bounds.min, bounds.max + 1, shape).astype(DTYPES[elem])


def compiled(text: str, level: str) -> Any:
    return tdsl.parse(text)["gemm"].compile(level)


@pytest.mark.neon
@pytest.mark.parametrize("elem", ["f32", "f64"])
def test_floats(elem: str) -> None:
    function = compiled(floats(elem), "neon")
    assert f"vfmaq_laneq_{elem}" in function.c_source
    for m, n, k in SIZES:
        rng = np.random.default_rng(m)
        A, B = (rng.integers(-8, 9, s).astype(elem.replace("f", "float")) for s in ((m, k), (k, n)))
        np.testing.assert_array_equal(function(A=A, B=B), A @ B)  # small integers are exact


@pytest.mark.neon
@pytest.mark.parametrize(
    ("a", "b", "level", "name"),
    [
        ("i8", "i8", "neon+dotprod", "vdotq_laneq_s32"),
        ("u8", "u8", "neon+dotprod", "vdotq_laneq_u32"),
        ("u8", "i8", "neon+i8mm", "vsudotq_laneq_s32"),
        ("i8", "u8", "neon+i8mm", "vusdotq_laneq_s32"),
        ("u8", "i8", "neon+dotprod", ""),
        ("i8", "i8", "neon", ""),
    ],
)
def test_groups_of_bytes(a: str, b: str, level: str, name: str) -> None:
    """What has no instruction with a lane keeps its broadcast."""
    function = compiled(groups(a, b), level)
    assert name in function.c_source and ("_laneq_" in function.c_source) == bool(name)
    for m, n, k in SIZES:
        rng = np.random.default_rng(m)
        A, B = (bytes_of(rng, a, (m, k)), bytes_of(rng, b, (k, n)))
        want = A.astype(np.int64) @ B.astype(np.int64)
        np.testing.assert_array_equal(function(A=A, B=B), want)


@pytest.mark.neon
def test_groups_of_bf16() -> None:
    function = compiled(groups("bf16", "bf16"), "neon+bf16")
    assert "vbfdotq_laneq_f32" in function.c_source
    for m, n, k in SIZES:
        rng = np.random.default_rng(m)
        A, B = (rng.integers(-8, 9, s).astype(np.float32) for s in ((m, k), (k, n)))
        bits = ((x.view(np.uint32) >> 16).astype(np.uint16) for x in (A, B))
        np.testing.assert_array_equal(function(**dict(zip("AB", bits, strict=True))), A @ B)


@pytest.mark.parametrize("text", [floats("f32"), groups("i8", "i8")], ids=["floats", "groups"])
def test_lanes_that_are_exchanged_are_seen(text: str) -> None:
    sizes = {"M": 4, "N": 8, "K": 4}
    options = driver.Options("gemm", target("neon+dotprod"), sizes=sizes)
    made = driver.run(parse(text, "gemm.tdsl"), options, until="validated")
    program, lowered = made.scheduled.program, made.lowered
    order = Order(made.dependences, made.scheduled.reassociate)
    check_instances(program, lowered, order)

    def exchanged(node: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(node, v.Part):
            total = node.arg.type.lanes
            yield "the next lane", replace(node, start=(node.start + node.type.lanes) % total)

    tried = list(mutants(lowered.function.body, (exchanged,)))
    assert len(tried) >= 8
    for mutant in tried:
        function = replace(lowered.function, body=mutant.tree)
        with pytest.raises(Miscompiled):
            check_instances(program, replace(lowered, function=function), order)


def test_a_store_between_keeps_broadcasts() -> None:
    """And neighbours that are far apart."""
    level = target("neon")
    type, one = v.VType(F32, 4), v.VType(F32)

    def code(*between: v.Item) -> v.Block:
        made: list[v.Item] = [v.Declare("s", type, v.Const(0.0, type))]
        for n in range(4):
            load = v.Load("A", const(n), one)
            made += [v.Let(f"a{n}", v.Splat(load, type))]
            made += between if n == 1 else ()
        names = [v.Ref(f"a{n}", type) for n in range(4)]
        s = v.Ref("s", type)
        made += [v.Assign("s", v.Op("fma", (a, s, s), type)) for a in names]
        return v.Block(tuple(made))

    def vectors(block: v.Block) -> int:
        loads = [i.value for i in block.items if isinstance(i, v.Let)]
        return sum(isinstance(x, v.Load) and x.type == type for x in loads)

    store = v.Store("A", const(3), v.Const(1.0, one))
    other = v.Store("B", const(3), v.Const(1.0, one))
    assert vectors(by_lanes(code(), level)) == 1
    assert vectors(by_lanes(code(other), level)) == 1
    assert vectors(by_lanes(code(store), level)) == 0
    assert vectors(by_lanes(code(*[other] * 40), level)) == 0
    assert by_lanes(code(), target("avx2")) == code()
