"""The oracle's order, domains, reductions and nests."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tdsl.ir.interp import reference
from tdsl.ir.kernel import Kernel
from tdsl.ir.types import F32, I32
from tests.ir.build import (
    add,
    array,
    between,
    const,
    iop,
    kernel,
    nest,
    op,
    read,
    statement,
)

RNG = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def matmul_kernel() -> Kernel:
    a, b = array("A", F32, "M", "K"), array("B", F32, "K", "N")
    c = array("C", F32, "M", "N", role="out")
    product = op("mul", read(a, "i", "k"), read(b, "k", "j"))
    domain = (*between("i", 0, "M"), *between("j", 0, "N"), *between("k", 0, "K"))
    return kernel(
        (a, b, c), statement(c, ("i", "j"), product, *domain, op="add", reduce=("k",), init=0.0)
    )


def matmul_by_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Adds the terms of each element in the order of k, with one rounding an operation."""
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        c += np.outer(a[:, k], b[k, :])
    return c


@pytest.mark.parametrize("m,n,k", [(1, 1, 1), (3, 5, 7), (64, 48, 129), (4, 4, 0), (0, 3, 2)])
def test_matmul_adds_in_order(m: int, n: int, k: int) -> None:
    a, b = floats(m, k), floats(k, n)
    c = reference(matmul_kernel(), {}, {"A": a, "B": b})["C"]
    assert c.dtype == np.float32
    np.testing.assert_array_equal(c, matmul_by_rows(a, b))
    np.testing.assert_allclose(c, a.astype(float) @ b.astype(float), rtol=1e-4, atol=1e-4)


def test_large_matmul_is_fast() -> None:
    a, b = floats(256, 256), floats(256, 256)
    start = time.perf_counter()
    c = reference(matmul_kernel(), {}, {"A": a, "B": b})["C"]
    assert time.perf_counter() - start < 10
    np.testing.assert_array_equal(c, matmul_by_rows(a, b))


def test_a_long_sum_rounds_every_step() -> None:
    x = array("x", F32, "N")
    s = array("s", F32, role="out")
    k = kernel(
        (x, s),
        statement(s, (), read(x, "k"), *between("k", 0, "N"), op="add", reduce=("k",), init=0.0),
    )
    values = np.full(1 << 18, 0.1, np.float32)
    total = np.float32(0)
    for v in values:
        total += v
    assert reference(k, {}, {"x": values})["s"] == total
    assert abs(float(total) - 0.1 * 2**18) > 1  # pairwise summation would be closer


def test_triangular_reduction_and_scan() -> None:
    x, y = array("x", I32, "N"), array("y", I32, "N", role="out")
    domain = (*between("i", 0, "N"), *between("j", 0, "N"), iop("le", "j", "i"))
    k = kernel((x, y), statement(y, ("i",), read(x, "j"), *domain, op="add", reduce=("j",), init=0))
    values = np.arange(9, dtype=np.int32) ** 2
    np.testing.assert_array_equal(reference(k, {}, {"x": values})["y"], np.cumsum(values))


def test_a_definition_in_a_nest_reads_what_was_written() -> None:
    """Gauss-Seidel, ascending and descending."""
    a = array("A", F32, "N", role="inout")
    third = op(
        "mul",
        op("add", op("add", read(a, add("i", -1)), read(a, "i")), read(a, add("i", 1))),
        const(float(np.float32(1 / 3)), F32),
    )
    inner = between("i", 1, add("N", -1))
    s = statement(a, ("i",), third, *inner, indices=("t", "i"))
    start = floats(11)
    for down in (False, True):
        loop = nest("i", 1, add("N", -1), s, down=down)
        k = kernel((a,), nest("t", 0, "T", loop), extra_sizes=("T",))
        got = reference(k, {"T": 3}, {"A": start})["A"]
        want = start.copy()
        for _ in range(3):
            for i in range(9, 0, -1) if down else range(1, 10):
                want[i] = (want[i - 1] + want[i] + want[i + 1]) * np.float32(1 / 3)
        np.testing.assert_array_equal(got, want)
