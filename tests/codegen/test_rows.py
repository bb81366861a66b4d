"""Every row of every table is used by some operation, so that the other tests execute it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tdsl.codegen import emit_module
from tdsl.ir.kernel import COMPARISONS
from tdsl.ir.types import BOOL, F16, TYPES, ElemType
from tdsl.ir.vector import (
    Cast,
    Choose,
    Column,
    Const,
    Fence,
    FirstLanes,
    Function,
    Let,
    Load,
    Op,
    Reduce,
    Ref,
    Slide,
    Store,
    VType,
)
from tdsl.targets import Row, Target, instructions, target
from tests.codegen.build import I, function, load, mask, num, over, vector_buffer
from tests.codegen.semantics import FLOAT_OPS, INTEGER_OPS, OPERANDS

VECTORS = ("avx2", "avx512", "neon", "neon+bf16+fp16")


def operations(elem: ElemType, lanes: int) -> Iterator[Store]:
    """Stores that use what a table may have for such a vector."""
    vtype, m = VType(elem, lanes), mask(elem, lanes)
    x, first = load("x", elem, lanes, I), FirstLanes(num(1), m)
    yield Store("x", I, x)
    yield Store("x", I, Load("x", I, vtype, None, first), None, first)
    yield Store("x", I, x, stream=True)
    yield Store("x", I, Const(1, vtype))
    yield Store("x", I, Choose(first, x, Const(0, vtype), vtype))
    if elem == BOOL or elem.name == "bf16":
        return
    if elem == F16:
        for op in ("add", "sub", "mul", "div", "min", "max", "sqrt", "neg", "abs", "round",
                   "floor", "ceil", "trunc"):  # fmt: skip
            yield Store("x", I, Op(op, (x,) * OPERANDS.get(op, 2), vtype))
        for op in COMPARISONS:
            yield Store("x", I, Choose(Op(op, (x, x), m), x, x, vtype))
        return
    for op in FLOAT_OPS if elem.is_float else INTEGER_OPS:
        yield Store("x", I, Op(op, (x,) * OPERANDS.get(op, 2), vtype))
    for op in COMPARISONS:
        yield Store("x", I, Choose(Op(op, (x, x), m), x, x, vtype))
    for op in ("min", "max") if elem.is_float else ("shl", "shr"):
        yield Store("x", I, Op(op, (x, Const(1, vtype)), vtype))
    yield Store("y", num(0), Reduce("add", x, VType(elem)))
    for op in ("any", "all"):
        found = Reduce(op, Op("eq", (x, x), m), VType(BOOL))
        yield Store("y", num(0), Cast("convert", found, VType(elem)))


def with_rows(of: Target, elem: ElemType, lanes: int) -> Iterator[Store]:
    """The operations that are only there where there is a row."""
    x, vtype = load("x", elem, lanes, I), VType(elem, lanes)
    if ("scale", elem.name, lanes) in instructions(of):
        yield Store("x", I, Op("scale", (x, x), vtype))
    if ("slide", elem.name, lanes) in instructions(of):
        yield Store("x", I, Slide(x, x, 1, vtype))


def transposed(elem: ElemType, lanes: int) -> list[Let]:
    """A square matrix with its columns."""
    vtype = VType(elem, lanes)
    rows = tuple(Ref(f"r{n}", vtype) for n in range(lanes))
    named = [Let(row.name, load("x", elem, lanes, I)) for row in rows]
    return named + [Let(f"c{n}", Column(rows, n, vtype)) for n in range(lanes)]


def conversions(of: Target, source: ElemType) -> Iterator[Function]:
    for to in TYPES.values():
        wide = max(source.bytes, to.bytes)
        for width in of.widths:
            lanes = width // wide
            if lanes == 1 or to == source:
                continue
            for mode in ("convert", "saturate"):
                value = Cast(mode, load("x", source, lanes, I), VType(to, lanes))
                yield function(
                    f"{mode}_{source}_{to}_{lanes}",
                    [vector_buffer("x", source, "in"), vector_buffer("y", to, "out")],
                    over(lanes, Store("y", I, value)),
                )


def used(of: Target) -> str:
    """The C of all these operations."""
    functions: list[Function] = []
    for elem in TYPES.values():
        sides = [vector_buffer("x", elem, "inout"), vector_buffer("y", elem, "inout")]
        parts = [of.widths[-1] // elem.bytes >> n for n in range(1, 4)]
        for lanes in {w // elem.bytes for w in of.widths} | set(parts):
            if lanes > 1:
                some = [*operations(elem, lanes), *with_rows(of, elem, lanes)]
                body = over(lanes, *some, *transposed(elem, lanes))
                functions.append(function(f"all_{elem}x{lanes}", sides, body, Fence()))
        functions += conversions(of, elem)
    return emit_module("rows", functions, of).c_source


def pattern(row: Row) -> re.Pattern[str]:
    """The row's text with anything for its operands."""
    parts = re.split(r"\{\d\}", row.template)
    return re.compile(r"[^;]*?".join(re.escape(p) for p in parts))


@pytest.mark.parametrize("name", VECTORS)
def test_every_row_is_used(name: str) -> None:
    of = target(name)
    text = " ".join(used(of).split())
    unused = [r for r in instructions(of).values() if not pattern(r).search(text)]
    assert not unused, [f"{r.op} {r.elem}x{r.lanes}: {r.template}" for r in unused]


@pytest.mark.parametrize("name", VECTORS)
def test_rows_fit_the_registers(name: str) -> None:
    of = target(name)
    assert len(instructions(of)) > 300
    for (op, elem, lanes), row in instructions(of).items():
        assert (row.op, row.elem, row.lanes) == (op, elem, lanes)
        if "." not in op or op.startswith(("zip", "groups")):
            assert of.register_bytes(TYPES[elem], lanes) is not None
        assert row.header == ("arm_neon.h" if of.family == "neon" else "immintrin.h")


def test_half_conversions_of_avx2_name_their_feature() -> None:
    of = target("avx2")
    value = Cast("convert", load("x", F16, 8, I), VType(TYPES["f32"], 8))
    sides = [vector_buffer("x", F16, "in"), vector_buffer("y", TYPES["f32"], "out")]
    f = function("widen", sides, over(8, Store("y", I, value)))
    text = emit_module("widen", [f], of).c_source
    assert "_mm256_cvtph_ps" in text
    assert '__builtin_cpu_supports("f16c")' in text
    assert 'target("avx2,f16c,fma")' in text
