"""Transposes in registers, stores past the caches, hints: what comes of them, and their C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tdsl.ir.kernel import INDEX, Op, Size, Var
from tdsl.ir.types import TYPES, ElemType
from tdsl.ir.vector import (
    Block,
    Buffer,
    Column,
    Fence,
    For,
    Function,
    Item,
    Let,
    Misaligned,
    Prefetch,
    Ref,
    Store,
    VType,
)
from tdsl.ir.verify_vector import VectorError, verify
from tdsl.targets import Target, instructions
from tests.codegen.build import I, function, load, num, over, vector_buffer
from tests.codegen.harness import NAMES, Call, dtype, need, run

VECTORS = [name for name in NAMES if name != "c"]


def squares(of: Target, elem: ElemType) -> list[int]:
    """Lanes of the registers that a matrix of so many rows can be transposed in."""
    return [w // elem.bytes for w in of.widths if w // elem.bytes > 1]


def transposing(name: str, elem: ElemType, rows: int, lanes: int, columns: list[int]) -> Function:
    """y[c, r] = x[r, c] for some columns of a matrix, a row a vector."""
    made = [Ref(f"x_{r}", VType(elem, lanes)) for r in range(rows)]
    items: list[Item] = [
        Let(ref.name, load("x", elem, lanes, num(r * lanes))) for r, ref in enumerate(made)
    ]
    column = VType(elem, rows)
    items += [Let(f"c_{c}", Column(tuple(made), c, column)) for c in columns]
    items += [Store("y", num(c * rows), Ref(f"c_{c}", column)) for c in columns]
    sides = (
        Buffer("x", elem, (num(rows), num(lanes)), "in"),
        Buffer("y", elem, (num(lanes), num(rows)), "inout"),
    )
    return Function(name, (), sides, (), Block(tuple(items)))


@pytest.mark.parametrize("name", VECTORS)
def test_square_matrices_are_transposed(name: str, tmp_path: Path) -> None:
    of = need(name)
    functions, calls = [], []
    for elem in TYPES.values():
        for lanes in squares(of, elem):
            f = transposing(f"turn_{elem}_{lanes}", elem, lanes, lanes, list(range(lanes)))
            functions.append(f)
            x = (np.arange(lanes * lanes) % 251).astype(dtype(elem)).reshape(lanes, lanes)
            if elem.name == "bool":
                x = x % 2
            calls.append(Call(f.name, {}, {"x": x, "y": np.zeros_like(x)}))
    module, outcomes = run(functions, calls, of, tmp_path)
    for call, outcome in zip(calls, outcomes, strict=True):
        np.testing.assert_array_equal(outcome.arrays["y"], call.arrays["x"].T, call.function)
    has_network = {e for op, e, _ in instructions(of) if op == "zip.low"}
    assert "f32" in has_network
    assert "tdsl_transpose_f32x" in module.c_source
    assert "tdsl_column_f32x4" not in module.c_source


@pytest.mark.parametrize("name", VECTORS)
def test_columns_alone_and_of_oblong_matrices(name: str, tmp_path: Path) -> None:
    """What is no whole square goes lane by lane."""
    of, elem = need(name), TYPES["f32"]
    few = transposing("few", elem, 4, 4, [2, 1])
    oblong = transposing("oblong", elem, 2, 4, [0, 1, 2, 3])
    x4 = np.arange(16, dtype=np.float32).reshape(4, 4)
    x2 = np.arange(8, dtype=np.float32).reshape(2, 4)
    y4, y2 = np.full((4, 4), -1, np.float32), np.zeros((4, 2), np.float32)
    calls = [Call("few", {}, {"x": x4, "y": y4}), Call("oblong", {}, {"x": x2, "y": y2})]
    _, (first, second) = run([few, oblong], calls, of, tmp_path)
    want = y4.copy()
    want[1:3] = x4.T[1:3]
    np.testing.assert_array_equal(first.arrays["y"], want)
    np.testing.assert_array_equal(second.arrays["y"], x2.T)


@pytest.mark.parametrize("name", VECTORS)
def test_stores_past_the_caches(name: str, tmp_path: Path) -> None:
    """The arrays end at a page, so that a size decides whether they are aligned."""
    of = need(name)
    functions, calls = [], []
    for elem in TYPES.values():
        for lanes in squares(of, elem):
            store = Store("y", I, load("x", elem, lanes, I), stream=True)
            sides = [vector_buffer("x", elem, "in"), vector_buffer("y", elem, "out")]
            f = function(f"past_{elem}_{lanes}", sides, over(lanes, store), Fence())
            functions.append(f)
            for extra in (0, 64 // elem.bytes):
                x = (np.arange(lanes + extra) % 2).astype(dtype(elem))
                calls.append(Call(f.name, {"N": x.size}, {"x": x, "y": np.zeros_like(x)}))
            # One element behind an array that ends at a page: never aligned.
            odd = Store("y", num(1), load("x", elem, lanes, num(0)), stream=True)
            f = function(f"odd_{elem}_{lanes}", sides, odd, Fence())
            functions.append(f)
            x = (np.arange(lanes + 1) % 2).astype(dtype(elem))
            calls.append(Call(f.name, {"N": lanes + 1}, {"x": x, "y": np.zeros_like(x)}))
    module, outcomes = run(functions, calls, of, tmp_path)
    for call, outcome in zip(calls, outcomes, strict=True):
        x = call.arrays["x"]
        want = np.r_[x[:1] * 0, x[:-1]] if call.function.startswith("odd") else x
        np.testing.assert_array_equal(outcome.arrays["y"], want, call.function)
    if of.family == "x86":
        assert "_mm_sfence();" in module.c_source
        assert "_mm256_stream_ps(p, v);" in module.c_source


@pytest.mark.parametrize("name", NAMES)
def test_where_an_address_lies(name: str, tmp_path: Path) -> None:
    """y ends at a page: y[k] lies (k - N) % 16 elements behind a multiple of 64 bytes."""
    of, elem = need(name), TYPES["f32"]
    sides = [vector_buffer("x", elem, "in"), vector_buffer("y", elem, "inout")]
    functions = []
    for k in (0, 5, 31):
        ones = For("i", num(0), Var("past"), Block((Store("y", I, load("x", elem, 1, num(0))),)))
        functions.append(function(f"lies_{k}", sides, Misaligned("past", "y", num(k), 64), ones))
    calls = [
        Call(f.name, {"N": n}, {"x": np.ones(n, np.float32), "y": np.zeros(n, np.float32)})
        for f in functions
        for n in range(32, 48)
    ]
    _, outcomes = run(functions, calls, of, tmp_path)
    for call, outcome in zip(calls, outcomes, strict=True):
        past = (int(call.function.removeprefix("lies_")) - call.sizes["N"]) % 16
        np.testing.assert_array_equal(outcome.arrays["y"], np.arange(call.sizes["N"]) < past)


@pytest.mark.parametrize("name", NAMES)
def test_hints_may_lie_anywhere(name: str, tmp_path: Path) -> None:
    of, elem = need(name), TYPES["f32"]
    sides = [vector_buffer("x", elem, "in"), vector_buffer("y", elem, "inout")]
    far = Op("mul", (Size("N"), num(1 << 20)), INDEX)
    f = function(
        "hints", sides, Prefetch("x", num(0), Size("N")), Prefetch("y", far, num(200), True),
        Prefetch("x", num(-(1 << 30)), num(7)), Prefetch("x", num(3), num(0)),
        Prefetch("x", num(3), num(-5)),
    )  # fmt: skip
    x = np.arange(5, dtype=np.float32)
    calls = [Call("hints", {"N": 5}, {"x": x, "y": x + 1})]
    module, (outcome,) = run([f], calls, of, tmp_path)
    assert outcome.status == 0
    np.testing.assert_array_equal(outcome.arrays["y"], x + 1)
    assert "__builtin_prefetch((const void *)line, 0, 3);" in module.c_source
    assert "__builtin_prefetch((const void *)line, 1, 3);" in module.c_source
    assert "__builtin_prefetch((const void *)(first + 0), 0, 3);" in module.c_source


def test_what_the_verifier_refuses() -> None:
    of, elem = need("c"), TYPES["f32"]
    sides = [vector_buffer("x", elem, "in"), vector_buffer("y", elem, "out")]
    scalar = Store("y", num(0), load("x", elem, 1, num(0)), stream=True)
    odd = Column((load("x", elem, 1, num(0)),), 1, VType(elem))
    for item in (scalar, Store("y", num(0), odd), Misaligned("a", "y", num(0), 24)):
        with pytest.raises(VectorError):
            verify(function("wrong", sides, item), of)
