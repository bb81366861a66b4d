"""Sizes from shapes, and what is said about arguments that do not fit."""

from __future__ import annotations

import re
import time
from typing import Any

import numpy as np
import pytest

from tdsl.ir.arguments import ArgumentPlan, check_arguments
from tdsl.ir.interp import reference
from tdsl.ir.kernel import INDEX, Kernel
from tdsl.ir.types import BF16, BOOL, F32, I32
from tests.ir.build import (
    add,
    array,
    between,
    cast,
    iop,
    ix,
    kernel,
    mul,
    nest,
    op,
    read,
    statement,
)


def conv(**more: Any) -> Kernel:
    x = array("x", F32, add("H", 2), add("W", 2), "C")
    w = array("w", F32, 3, 3, "C", role="const")
    y = array("y", F32, "H", "W", role="out")
    return kernel((x, w, y), **more)


def f32(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


FIT = {"x": f32(6, 7, 16), "w": f32(3, 3, 16)}


def test_sizes_from_plain_and_linear_extents() -> None:
    assert check_arguments(conv(), FIT) == {"H": 4, "W": 5, "C": 16}
    assert check_arguments(conv(), {**FIT, "y": f32(4, 5)}) == {"H": 4, "W": 5, "C": 16}
    a = array("a", F32, mul(2, "N"))
    assert check_arguments(kernel((a,)), {"a": f32(6)}) == {"N": 3}
    b = array("b", F32, op("sub", add("N", "N", 5), iop("add", "N", 1)))
    assert check_arguments(kernel((b,)), {"b": f32(9)}) == {"N": 5}


def refused(
    k: Kernel, arrays: dict[str, Any], error: type[Exception], message: str, **given: Any
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        check_arguments(k, arrays, given)


def test_shapes_that_do_not_fit() -> None:
    refused(
        conv(),
        {**FIT, "w": f32(3, 3, 8)},
        ValueError,
        "argument 'w': expected shape [3, 3, 16] = [3, 3, C] with C = 16, got [3, 3, 8]",
    )
    refused(
        conv(),
        {**FIT, "y": f32(6, 7)},
        ValueError,
        "argument 'x': expected shape [8, 9, 16] = [H + 2, W + 2, C] with H = 6, W = 7, C = 16, "
        "got [6, 7, 16]",
    )
    refused(
        conv(),
        {**FIT, "w": f32(3, 16)},
        ValueError,
        "argument 'w': expected 3 dimensions, got 2 (shape [3, 16])",
    )
    refused(
        conv(),
        {**FIT, "x": f32(1, 7, 16)},
        ValueError,
        "size 'H': expected 0 <= H < 2**40, got -1 (dimension 0 of 'x' is 1)",
    )
    a = array("a", F32, mul(2, "N"))
    refused(
        kernel((a,)),
        {"a": f32(7)},
        ValueError,
        "argument 'a': expected 2 * N, but dimension 0 of 'a' is 7",
    )


def test_types_that_do_not_fit() -> None:
    refused(
        conv(),
        {**FIT, "w": np.zeros((3, 3, 16))},
        TypeError,
        "argument 'w': expected dtype float32, got float64",
    )
    refused(
        conv(), {**FIT, "w": [1.0]}, TypeError, "argument 'w': expected a NumPy array, got list"
    )
    swapped = FIT["w"].astype(np.dtype(np.float32).newbyteorder())
    refused(
        conv(), {**FIT, "w": swapped}, TypeError, "argument 'w': expected dtype float32, got >f4"
    )
    b = array("b", BF16, "N")
    refused(
        kernel((b,)),
        {"b": f32(3)},
        TypeError,
        "argument 'b': expected dtype uint16 (bf16 bit patterns), got float32",
    )
    flag = array("flag", BOOL, "N")
    refused(
        kernel((flag,)),
        {"flag": np.zeros(3, np.uint8)},
        TypeError,
        "argument 'flag': expected dtype bool, got uint8",
    )


def test_names_that_do_not_fit() -> None:
    refused(conv(), {"x": FIT["x"]}, TypeError, "k: the argument 'w' is missing")
    refused(conv(), {**FIT, "z": f32(1)}, TypeError, "k has no argument 'z' (it has x, w, y)")
    refused(conv(), FIT, TypeError, "k has no size 'Q'", Q=3)


def test_sizes_that_are_given() -> None:
    steps = conv(extra_sizes=("T",))
    assert check_arguments(steps, FIT, {"T": 7})["T"] == 7
    number: Any = np.int64(7)
    assert check_arguments(steps, FIT, {"T": number, "H": 4})["T"] == 7
    refused(
        steps,
        FIT,
        TypeError,
        "k: no shape determines the size T; pass it by keyword (T=...)",
    )
    refused(steps, FIT, TypeError, "size 'T': expected an integer, got 2.5", T=2.5)
    refused(steps, FIT, TypeError, "size 'T': expected an integer, got True", T=True)
    refused(steps, FIT, ValueError, "size 'T': expected 0 <= T < 2**40, got -1", T=-1)
    refused(steps, FIT, ValueError, f"got {1 << 40}", T=1 << 40)
    refused(
        steps,
        FIT,
        ValueError,
        "argument 'x': expected shape [5, 7, 16] = [H + 2, W + 2, C] with H = 3, W = 5, C = 16, "
        "got [6, 7, 16]",
        H=3,
        T=1,
    )


def test_bound_sizes() -> None:
    a = array("a", F32, "N", 16)
    k = kernel((a,), bound=(("C", 16),))
    assert check_arguments(k, {"a": f32(3, 16)}, {"C": 16}) == {"N": 3}
    refused(k, {"a": f32(3, 16)}, ValueError, "size 'C': it is bound to 16, got 8", C=8)
    refused(
        k,
        {"a": f32(3, 8)},
        ValueError,
        "argument 'a': expected shape [3, 16] = [N, 16] with N = 3, got [3, 8]",
    )


def test_assumptions() -> None:
    a, b = array("a", F32, "N"), array("b", F32, "M")
    assumptions = (
        iop("eq", iop("mod", "N", 8), 0),
        op("or", iop("ge", mul(2, add("M", 1)), "N"), iop("eq", "M", 0)),
    )
    k = kernel((a, b), assume=assumptions)
    assert check_arguments(k, {"a": f32(8), "b": f32(0)}) == {"N": 8, "M": 0}
    refused(
        k,
        {"a": f32(12), "b": f32(9)},
        ValueError,
        "k assumes N % 8 == 0, which does not hold: N = 12",
    )
    refused(
        k,
        {"a": f32(16), "b": f32(2)},
        ValueError,
        "k assumes 2 * (M + 1) >= N or M == 0, which does not hold: M = 2, N = 16",
    )


def test_a_negative_extent_is_empty() -> None:
    x, y = array("x", F32, "N"), array("y", F32, iop("sub", "N", 2), role="out")
    s = statement(y, ("i",), read(x, "i"), *between("i", 0, iop("sub", "N", 2)))
    k = kernel((x, y), s)
    for n in range(4):
        plan = ArgumentPlan(k)
        assert plan.shape("y", {"N": n}) == (max(0, n - 2),)
        assert reference(k, {}, {"x": f32(n)})["y"].shape == (max(0, n - 2),)


def test_promised_ranges() -> None:
    column = array("column", I32, "P", range=(ix(0), ix("N")))
    x, y = array("x", F32, "N"), array("y", F32, "P", role="out")
    gather = statement(y, ("i",), read(x, cast(read(column, "i"), INDEX)), *between("i", 0, "P"))
    k = kernel((column, x, y), gather)
    data = {"x": np.arange(4, dtype=np.float32), "column": np.array([3, 0, 0], np.int32)}
    np.testing.assert_array_equal(reference(k, {}, data)["y"], [3, 0, 0])
    for wrong in (4, -1):
        data["column"] = np.array([0, wrong], np.int32)
        message = rf"argument 'column': expected values in 0\.\.4, got {wrong} at \[1\]"
        with pytest.raises(ValueError, match=message):
            reference(k, {}, data)


def test_a_plan_is_quick() -> None:
    plan = ArgumentPlan(conv(assume=(iop("ge", "H", 1),)))
    start = time.perf_counter()
    for _ in range(1000):
        plan.sizes(FIT)
    assert (time.perf_counter() - start) / 1000 < 1e-3


def test_a_time_size_by_keyword_runs() -> None:
    a = array("a", I32, "N", role="inout")
    one = statement(
        a, ("i",), cast(add("t", 1), I32), *between("i", 0, "N"), op="add", indices=("t", "i")
    )
    k = kernel((a,), nest("t", 0, "T", one), extra_sizes=("T",))
    got = reference(k, {"T": 4}, {"a": np.zeros(3, np.int32)})["a"]
    np.testing.assert_array_equal(got, [10, 10, 10])
