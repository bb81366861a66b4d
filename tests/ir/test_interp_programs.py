"""Whole programs: factorizations, stencils, histograms, convolutions; narrow floats; records."""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
import pytest

from tdsl.ir.dtypes import STORAGE
from tdsl.ir.interp import reference
from tdsl.ir.kernel import INDEX
from tdsl.ir.lowfloat import from_bf16, to_bf16
from tdsl.ir.types import BF16, BOOL, F16, F32, F64, I32, TYPES, U8, ElemType
from tests.ir.build import (
    add,
    array,
    between,
    cast,
    const,
    iop,
    kernel,
    mul,
    nest,
    op,
    read,
    select,
    statement,
    table,
)
from tests.ir.exact import nearest

RNG = np.random.default_rng(11)


def test_lu_without_pivoting() -> None:
    """The update reads rows and columns of the array that it writes, but no element it writes."""
    a = array("A", F64, "N", "N", role="inout")
    rows = between("i", add("k", 1), "N")
    scale = statement(
        a,
        ("i", "k"),
        op("div", read(a, "i", "k"), read(a, "k", "k")),
        *rows,
        indices=("k", "i"),
        name="S1",
    )
    update = statement(
        a,
        ("i", "j"),
        op("mul", read(a, "i", "k"), read(a, "k", "j")),
        *rows,
        *between("j", add("k", 1), "N"),
        op="sub",
        indices=("k", "i", "j"),
        name="S2",
    )
    k = kernel((a,), nest("k", 0, "N", scale, update))
    start = RNG.random((40, 40)) + 40 * np.eye(40)
    got = reference(k, {}, {"A": start})["A"]
    want = start.copy()
    for p in range(40):
        want[p + 1 :, p] /= want[p, p]
        want[p + 1 :, p + 1 :] -= np.outer(want[p + 1 :, p], want[p, p + 1 :])
    np.testing.assert_array_equal(got, want)
    lower, upper = np.tril(got, -1) + np.eye(40), np.triu(got)
    np.testing.assert_allclose(lower @ upper, start, rtol=1e-12)


def test_a_nest_in_both_directions_with_steps() -> None:
    """Each visit shifts in a digit: the final number is the order of the visits."""
    seen = array("seen", I32, role="inout")
    digit = op("add", op("mul", read(seen), const(10, I32)), cast(add("i", 0), I32))
    visit = statement(seen, (), digit, indices=("i",))
    for down, step, want in (
        (False, 1, 1234567),
        (True, 1, 7654321),
        (False, 3, 147),
        (True, 3, 741),
        (True, 4, 73),
        (False, 4, 15),
    ):
        k = kernel((seen,), nest("i", 1, 8, visit, down=down, step=step))
        got = reference(k, {}, {"seen": np.array(0, np.int32)})["seen"]
        assert got == want


def test_an_empty_nest() -> None:
    a = array("a", I32, "N", role="inout")
    k = kernel((a,), nest("i", 0, "N", statement(a, ("i",), const(1, I32))))
    assert reference(k, {}, {"a": np.zeros(0, np.int32)})["a"].shape == (0,)


def test_an_update_outside_a_nest_runs_in_order() -> None:
    """a[i] += a[i - 1] in program order is a running sum."""
    a = array("a", I32, "N", role="inout")
    s = statement(a, ("i",), read(a, add("i", -1)), *between("i", 1, "N"), op="add")
    data = np.arange(1, 50, dtype=np.int32)
    np.testing.assert_array_equal(reference(kernel((a,), s), {}, {"a": data})["a"], np.cumsum(data))


def test_a_histogram_of_a_picture_is_fast() -> None:
    x, h = array("x", U8, "H", "W"), array("h", I32, 256, role="out")
    zero = statement(h, ("b",), const(0, I32), *between("b", 0, 256), name="Z")
    where = cast(read(x, "i", "j"), INDEX)
    domain = (*between("i", 0, "H"), *between("j", 0, "W"))
    count = statement(h, (where,), const(1, I32), *domain, op="add", indices=("i", "j"), name="S")
    k = kernel((x, h), zero, count)
    picture = RNG.integers(0, 256, (500, 400)).astype(np.uint8)
    picture[:100] = 7
    start = time.perf_counter()
    got = reference(k, {}, {"x": picture})["h"]
    assert time.perf_counter() - start < 5
    np.testing.assert_array_equal(got, np.bincount(picture.ravel(), minlength=256))


def test_scattered_sums_of_floats_keep_their_order() -> None:
    x, at = array("x", F32, "N"), array("at", I32, "N")
    h = array("h", F32, 4, role="inout")
    place = cast(read(at, "i"), INDEX)
    s = statement(h, (place,), read(x, "i"), *between("i", 0, "N"), op="add", indices=("i",))
    values = (RNG.standard_normal(999) * 10.0 ** RNG.integers(-3, 4, 999)).astype(np.float32)
    places = RNG.integers(0, 4, 999).astype(np.int32)
    start = RNG.standard_normal(4).astype(np.float32)
    got = reference(kernel((x, at, h), s), {}, {"x": values, "at": places, "h": start})["h"]
    want = start.copy()
    for v, p in zip(values, places, strict=True):
        want[p] += v
    np.testing.assert_array_equal(got, want)


def test_a_padded_convolution_in_time() -> None:
    x, w = array("x", F32, "H", "W", "C"), array("w", F32, 3, 3, "C", "O")
    y = array("y", F32, "H", "W", "O", role="out")
    r, c = add("i", "ky", -1), add("j", "kx", -1)
    inside = op(
        "and",
        op("and", iop("le", 0, r), iop("lt", r, "H")),
        op("and", iop("le", 0, c), iop("lt", c, "W")),
    )
    padded = select(inside, read(x, r, c, "ci"), const(0.0, F32))
    domain = [*between("i", 0, "H"), *between("j", 0, "W"), *between("o", 0, "O")]
    domain += [*between("ky", 0, 3), *between("kx", 0, 3), *between("ci", 0, "C")]
    s = statement(
        y,
        ("i", "j", "o"),
        op("mul", padded, read(w, "ky", "kx", "ci", "o")),
        *domain,
        op="add",
        reduce=("ky", "kx", "ci"),
        init=0.0,
    )
    data = RNG.standard_normal((20, 20, 16)).astype(np.float32)
    weights = RNG.standard_normal((3, 3, 16, 16)).astype(np.float32)
    start = time.perf_counter()
    got = reference(kernel((x, w, y), s), {}, {"x": data, "w": weights})["y"]
    assert time.perf_counter() - start < 2
    wide = np.pad(data, ((1, 1), (1, 1), (0, 0)))
    want = np.zeros((20, 20, 16), np.float32)
    for ky in range(3):
        for kx in range(3):
            for ci in range(16):
                part = wide[ky : ky + 20, kx : kx + 20, ci, None]
                want += part * weights[ky, kx, ci]
    np.testing.assert_array_equal(got, want)


def test_terms_outside_the_array_are_left_out() -> None:
    """A maximum over a window at the border: padding by 0 would win over negative elements."""
    x, y = array("x", F32, "N"), array("y", F32, "N", role="out")
    at = add("i", "k", -1)
    domain = (*between("i", 0, "N"), *between("k", 0, 3), *between(at, 0, "N"))
    lowest = float("-inf")
    s = statement(y, ("i",), read(x, at), *domain, op="max", reduce=("k",), init=lowest)
    got = reference(kernel((x, y), s), {}, {"x": np.array([-3, -1, -2, -5], np.float32)})["y"]
    np.testing.assert_array_equal(got, [-1, -1, -1, -2])


@pytest.mark.parametrize("join", ["any", "all"])
def test_any_and_all(join: str) -> None:
    x, y = array("x", I32, "M", "N"), array("y", BOOL, "M", role="out")
    domain = (*between("i", 0, "M"), *between("j", 0, "N"))
    positive = op("gt", read(x, "i", "j"), const(0, I32))
    s = statement(y, ("i",), positive, *domain, op=join, reduce=("j",), init=join == "all")
    data = np.array([[0, 0], [0, 5], [3, 4], [-1, 2]], np.int32)
    fold = np.any if join == "any" else np.all
    k = kernel((x, y), s)
    np.testing.assert_array_equal(reference(k, {}, {"x": data})["y"], fold(data > 0, axis=1))
    nothing = reference(k, {}, {"x": np.zeros((2, 0), np.int32)})["y"]
    np.testing.assert_array_equal(nothing, [join == "all"] * 2)


@pytest.mark.parametrize("type_", [F16, BF16], ids=str)
def test_narrow_sums_round_every_step(type_: ElemType) -> None:
    x, y = array("x", type_, "N"), array("y", type_, "N", role="out")
    domain = (*between("i", 0, "N"), *between("k", 0, "N"))
    product = op("mul", read(x, "i"), read(x, "k"))
    k = kernel((x, y), statement(y, ("i",), product, *domain, op="add", reduce=("k",), init=0.0))
    numbers = RNG.standard_normal(40)
    data = to_bf16(numbers) if type_ == BF16 else numbers.astype(np.float16)
    exact = [Fraction(float(v)) for v in (from_bf16(data) if type_ == BF16 else data)]
    want = []
    for a in exact:
        total = Fraction(0)
        for b in exact:
            total = Fraction(nearest(total + Fraction(nearest(a * b, type_)), type_))
        want.append(float(total))
    got = reference(k, {}, {"x": data})["y"]
    assert got.dtype == STORAGE[type_]
    np.testing.assert_array_equal(from_bf16(got) if type_ == BF16 else got, want)


@pytest.mark.parametrize("type_", TYPES.values(), ids=str)
def test_a_copy_of_every_type(type_: ElemType) -> None:
    x, t = array("x", type_, "N"), array("t", type_, "N", role="temp")
    y, z = array("y", type_, "N", role="out"), array("z", type_, "N", role="inout")
    box = between("i", 0, "N")
    k = kernel(
        (x, t, y, z),
        statement(t, ("i",), read(x, "i"), *box),
        statement(y, ("i",), read(t, "i"), *box),
        statement(z, ("i",), read(y, "i"), *box, iop("ge", "i", 2)),
    )
    data = RNG.integers(0, 2, 6).astype(STORAGE[type_])
    result = reference(k, {}, {"x": data, "z": 1 - data if type_ != BOOL else ~data})
    assert result["y"].dtype == result["z"].dtype == STORAGE[type_]
    np.testing.assert_array_equal(result["y"], data)
    np.testing.assert_array_equal(result["z"][2:], data[2:])
    assert (result["z"][:2] != data[:2]).all()


def test_tables_of_numbers_and_a_scalar() -> None:
    g = table("G", F32, (2, 3), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0))
    s = table("s", F32, (), (0.5,))
    y = array("y", F32, 2, 3, role="out")
    box = (*between("i", 0, 2), *between("j", 0, 3))
    k = kernel((g, s, y), statement(y, ("i", "j"), op("mul", read(g, "i", "j"), read(s)), *box))
    np.testing.assert_array_equal(reference(k, {}, {})["y"], [[0.5, 1, 1.5], [2, 2.5, 3]])


def test_a_strided_definition_by_cases() -> None:
    x, y = array("x", I32, "N"), array("y", I32, mul(2, "N"), role="out")
    box = between("i", 0, "N")
    even = statement(y, (mul(2, "i"),), read(x, "i"), *box, name="E")
    odd = statement(y, (add(mul(2, "i"), 1),), op("neg", read(x, "i")), *box, name="O")
    data = np.array([4, 5, 6], np.int32)
    got = reference(kernel((x, y), even, odd), {}, {"x": data})["y"]
    np.testing.assert_array_equal(got, [4, -4, 5, -5, 6, -6])


def test_large_elementwise_kernels_run_in_slabs() -> None:
    x, y = array("x", F32, "M", "N"), array("y", F32, "M", "N", role="out")
    box = (*between("i", 0, "M"), *between("j", 0, "N"))
    k = kernel((x, y), statement(y, ("i", "j"), op("exp", read(x, "i", "j")), *box))
    data = RNG.standard_normal((700, 900)).astype(np.float32)
    want = np.exp(data.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(reference(k, {}, {"x": data})["y"], want)


def test_the_record_of_a_reduction() -> None:
    x, y = array("x", I32, 2, 2), array("y", I32, 2, role="out")
    domain = (*between("i", 0, 2), *between("k", 0, 2), iop("le", "k", "i"))
    s = statement(y, ("i",), read(x, "i", "k"), *domain, op="add", reduce=("k",), init=0)
    events: list[tuple[object, ...]] = []
    k = kernel((x, y), s)
    got = reference(k, {}, {"x": np.array([[1, 2], [3, 4]], np.int32)}, lambda *e: events.append(e))
    np.testing.assert_array_equal(got["y"], [1, 7])
    want: list[tuple[object, ...]] = [("y.init", (i,), "y", (i,), "write") for i in (0, 1)]
    for i, step in ((0, 0), (1, 0), (1, 1)):
        want += [
            ("y", (i, step), "x", (i, step), "read"),
            ("y", (i, step), "y", (i,), "read"),
            ("y", (i, step), "y", (i,), "write"),
        ]
    assert events == want


def test_the_record_holds_the_chosen_arm_alone() -> None:
    x, y = array("x", I32, 2), array("y", I32, 3, role="out")
    chosen = select(iop("lt", "i", 2), read(x, "i"), const(0, I32))
    events: list[tuple[object, ...]] = []
    k = kernel((x, y), statement(y, ("i",), chosen, *between("i", 0, 3)))
    reference(k, {}, {"x": np.array([1, 2], np.int32)}, lambda *e: events.append(e))
    assert [e[3] for e in events if e[4] == "read"] == [(0,), (1,)]
