"""Vectors that lie across two others are taken out of those: neighbours in stencils."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tdsl
from tdsl.ir import vector as v
from tdsl.ir.index import add, const
from tdsl.ir.kernel import Var
from tdsl.ir.types import TYPES
from tdsl.lower.slides import slid
from tdsl.targets import runnable, target

NEAR = """
kernel near(N) {{
    assume N >= 3
    in x: {elem}[N]
    inout y: {elem}[N]
    for i in 1..N-1 {{ y[i] = x[i-1] + x[i] * x[i] + x[i+1] - x[i] }}
}}
schedule near for any {{
    split i by {vectors} * lanes({elem}) -> io, ii
    vectorize ii
}}
"""
# What one vector stores the next one loads: only those of w may be taken earlier.
SMOOTH = """
kernel smooth(N) {
    assume N >= 3
    inout x: f64[N]
    in w: f64[N]
    for i in 1..N-1 { x[i] = x[i+1] + w[i-1] + w[i] + w[i+1] }
}
schedule smooth for any {
    split i by 4 * lanes(f64) -> io, ii
    vectorize ii
}
"""
WIDE = target("avx512")
F64X8 = v.VType(TYPES["f64"], 8)
SIZES = (3, 4, 9, 10, 11, 33, 34, 35, 66, 67, 131, 200)


def numbers(n: int, dtype: str, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng([n, seed]).integers(-8, 9, n).astype(dtype)


@pytest.mark.parametrize("on", ["avx512", "avx2", "c"])
@pytest.mark.parametrize("vectors", [1, 2, 4])
@pytest.mark.parametrize("elem", ["f64", "f32", "i32", "u8"])
def test_neighbours(elem: str, vectors: int, on: str) -> None:
    if reason := runnable(target(on)):
        pytest.skip(reason)
    function = tdsl.parse(NEAR.format(elem=elem, vectors=vectors))["near"].compile(on)
    wide = on == "avx512" and vectors > 1 and elem != "u8"
    assert ("alignr" in function.c_source) == wide
    for n in SIZES:
        x = numbers(n, {"f64": "f8", "f32": "f4", "i32": "i4", "u8": "u1"}[elem])
        y = numbers(n, x.dtype.str, 1)
        expected = y.copy()
        expected[1:-1] = x[:-2] + x[1:-1] * x[1:-1] + x[2:] - x[1:-1]
        function(x=x, y=y)
        np.testing.assert_array_equal(y, expected)


@pytest.mark.skipif(runnable(WIDE) is not None, reason=str(runnable(WIDE)))
def test_what_is_stored_between_is_loaded_behind() -> None:
    function = tdsl.parse(SMOOTH)["smooth"].compile("avx512")
    assert "alignr" in function.c_source
    for n in SIZES:
        x, w = numbers(n, "f8"), numbers(n, "f8", 1)
        expected = x.copy()
        expected[1:-1] = x[2:] + w[:-2] + w[1:-1] + w[2:]
        function(x=x, w=w)
        np.testing.assert_array_equal(x, expected)


# ---------------------------------------------------------------- the pass alone


def load(name: str, at: int, buffer: str = "x") -> v.Let:
    place = add(Var("i"), const(at))
    return v.Let(name, v.Load(buffer, place, F64X8))


def names(*items: v.Item) -> dict[str, str]:
    """What is left of loads, by name."""
    body = slid(v.Block(items), WIDE)
    return {i.name: type(i.value).__name__ for i in body.items if isinstance(i, v.Let)}


def test_two_loads_make_those_between() -> None:
    found = names(load("a", 0), load("b", 3), load("c", 8))
    assert found == {"a": "Load", "c": "Load", "b": "Slide"}


def test_what_one_vector_does_not_reach_is_loaded() -> None:
    assert set(names(load("a", 0), load("b", 3), load("c", 9)).values()) == {"Load"}
    assert set(names(load("a", 0), load("b", -1), load("c", 8)).values()) == {"Load"}
    assert set(names(load("a", 0), load("b", 3), load("c", 8, "y")).values()) == {"Load"}


def test_a_store_to_the_buffer_ends_the_search() -> None:
    store = v.Store("x", Var("i"), v.Ref("a", F64X8))
    assert set(names(load("a", 0), load("b", 3), store, load("c", 8)).values()) == {"Load"}
    other = v.Store("y", Var("i"), v.Ref("a", F64X8))
    assert names(load("a", 0), load("b", 3), other, load("c", 8))["b"] == "Slide"


def test_loads_that_may_start_with_a_line_stay() -> None:
    at = {"a": -1, "b": 0, "c": 7, "d": 8}
    found = names(*(load(name, place) for name, place in at.items()))
    assert found == {"a": "Load", "b": "Load", "d": "Load", "c": "Slide"}


def test_narrow_vectors_are_loaded() -> None:
    body = v.Block((load("a", 0), load("b", 3), load("c", 8)))
    assert slid(body, target("avx2")) == body
