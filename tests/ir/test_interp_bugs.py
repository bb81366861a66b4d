"""Arithmetic and domains that compilers have got wrong; the numbers are those of the case list."""

from __future__ import annotations

import numpy as np
import pytest

from tdsl.ir.interp import reference
from tdsl.ir.kernel import INDEX, Array, Expr, Kernel
from tdsl.ir.types import F16, F32, I8, I16, I32, U8, U16, ElemType
from tests.ir.build import (
    add,
    array,
    between,
    cast,
    const,
    iop,
    ix,
    kernel,
    mul,
    op,
    read,
    select,
    statement,
)

NAN, INF = float("nan"), float("inf")


def same(got: np.ndarray, want: object) -> None:
    """Equal, the sign of zeros included; NaNs are equal."""
    expected = np.array(want, got.dtype)
    np.testing.assert_array_equal(got, expected)
    if got.dtype.kind == "f":
        number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(expected)[number])


def pointwise(inputs: tuple[Array, ...], value: Expr) -> Kernel:
    """y[i] = value for 0 <= i < N."""
    y = array("y", value.type, "N", role="out")
    return kernel((*inputs, y), statement(y, ("i",), value, *between("i", 0, "N")))


def at_i(name: str, type_: ElemType) -> tuple[Array, Expr]:
    a = array(name, type_, "N")
    return a, read(a, "i")


def test_b08_a_select_over_an_inner_reduction() -> None:
    s = array("s", I32, 2, 2, role="temp")
    out = array("out", I32, 2, 2, 4, role="out")
    box = (*between("y", 0, 2), *between("x", 0, 2))
    total = statement(
        s,
        ("y", "x"),
        cast(ix("r"), I32),
        *box,
        *between("r", 1, 3),
        op="add",
        reduce=("r",),
        init=0,
    )
    pixel = select(iop("eq", "c", 3), const(255, I32), read(s, "y", "x"))
    k = kernel((s, out), total, statement(out, ("y", "x", "c"), pixel, *box, *between("c", 0, 4)))
    same(reference(k, {}, {})["out"], [[[3, 3, 3, 255]] * 2] * 2)


def test_b09_division_where_a_dead_lane_would_trap() -> None:
    want = [3, 3, 4, 4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 7, 7, 8, 9, 10, 11, 12, 14, 16, 20, 25, 33]
    divisor = op("sub", const(27, I32), cast(ix("i"), I32))
    for name, expected in (
        ("floordiv", want),
        ("mod", [100 - q * (27 - x) for x, q in enumerate(want)]),
    ):
        k = pointwise((), op(name, const(100, I32), divisor))
        same(reference(k, {"N": 25}, {})["y"], expected)
        # At x = 27 itself the language defines 0.
        assert reference(k, {"N": 28}, {})["y"][27] == 0


@pytest.mark.parametrize(
    ("join", "identity"), [("add", 0.0), ("mul", 1.0), ("max", -INF), ("min", INF)]
)
def test_b10_reductions_over_nothing(join: str, identity: float) -> None:
    x, s = array("x", F32, "M", "K"), array("s", F32, "M", role="out")
    domain = (*between("i", 0, "M"), *between("k", 0, "K"))
    k = kernel(
        (x, s),
        statement(s, ("i",), read(x, "i", "k"), *domain, op=join, reduce=("k",), init=identity),
    )
    same(reference(k, {}, {"x": np.zeros((3, 0), np.float32)})["s"], [identity] * 3)


def test_b10_empty_matrices() -> None:
    a, b = array("A", F32, "M", "K"), array("B", F32, "K", "N")
    c = array("C", F32, "M", "N", role="out")
    domain = (*between("i", 0, "M"), *between("j", 0, "N"), *between("k", 0, "K"))
    product = op("mul", read(a, "i", "k"), read(b, "k", "j"))
    k = kernel(
        (a, b, c), statement(c, ("i", "j"), product, *domain, op="add", reduce=("k",), init=0.0)
    )
    for m, depth, n in ((4, 0, 4), (0, 3, 4), (4, 3, 0), (0, 0, 0)):
        shapes = {"A": np.ones((m, depth), np.float32), "B": np.ones((depth, n), np.float32)}
        same(reference(k, {}, shapes)["C"], np.zeros((m, n)))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_b10_elementwise_on_nothing(shape: tuple[int, int]) -> None:
    x, y = array("x", F32, "M", "N"), array("y", F32, "M", "N", role="out")
    double = op("add", read(x, "i", "j"), read(x, "i", "j"))
    k = kernel(
        (x, y), statement(y, ("i", "j"), double, *between("i", 0, "M"), *between("j", 0, "N"))
    )
    assert reference(k, {}, {"x": np.zeros(shape, np.float32)})["y"].shape == shape


def test_b24_division_of_negative_indices_and_values() -> None:
    x, y, b = ix("x"), ix("y"), ix("b")
    cases = [
        (iop("floordiv", add(mul(10, x), 5), 10), {"x": -10}, -10),
        (iop("floordiv", add(241, mul(48, x)), 16), {"x": -10}, -15),
        (iop("floordiv", mul(-8040, add(x, -73)), 69), {"x": -85}, 18410),
        (iop("floordiv", add(mul(3, x), y), 3), {"x": 1, "y": -1}, 0),
        (iop("mod", x, 3), {"x": -1}, 2),
    ]
    for expr, point, want in cases:
        names = tuple(point)
        out = array("out", I32, *[1] * len(names), role="out")
        # The index runs over the one value; as an array's index it starts at 0.
        place = tuple(add(n, -v) for n, v in point.items())
        domain = tuple(c for n, v in point.items() for c in between(n, v, v + 1))
        k = kernel((out,), statement(out, place, cast(expr, I32), *domain, indices=names))
        assert reference(k, {}, {})["out"].item() == want
    lanes = iop("mod", add(b, mul(3, "lane")), 8)
    out = array("out", I32, 4, 4, role="out")
    domain = (*between("b", 4, 8), *between("lane", 0, 4))
    k = kernel((out,), statement(out, (add("b", -4), "lane"), cast(lanes, I32), *domain))
    same(reference(k, {}, {})["out"], [[4, 7, 2, 5], [5, 0, 3, 6], [6, 1, 4, 7], [7, 2, 5, 0]])


def test_b24_division_of_negative_data() -> None:
    a, at = at_i("a", I32)
    for divisor in (10, -10, 16, 3, -3, 69, 1, -1, 0):
        for name in ("floordiv", "mod"):
            k = pointwise((a,), op(name, at, const(divisor, I32)))
            data = np.arange(-250, 250, dtype=np.int32)
            want = [divmod(int(v), divisor)[name == "mod"] if divisor else 0 for v in data]
            same(reference(k, {}, {"a": data})["y"], want)


def test_b25_narrow_integers_wrap() -> None:
    c, c_i = at_i("c", U8)
    d, d_i = at_i("d", U8)
    pairs = np.stack(np.meshgrid(np.arange(256), np.arange(256), indexing="ij")).reshape(2, -1)
    data = {"c": pairs[0].astype(np.uint8), "d": pairs[1].astype(np.uint8)}

    def run(value: Expr) -> np.ndarray:
        return reference(pointwise((c, d), value), {}, data)["y"].reshape(256, 256)

    both = [[(x, y) for y in range(256)] for x in range(256)]
    outer = run(op("max", d_i, op("add", op("max", c_i, d_i), const(87, U8))))
    same(outer, [[max(y, (max(x, y) + 87) % 256) for x, y in row] for row in both])
    assert outer[247, 95] == 95
    difference = run(op("sub", cast(d_i, I16), cast(c_i, I16)))
    same(difference, [[y - x for x, y in row] for row in both])
    assert difference[65, 0] == -65
    mean = run(op("floordiv", op("add", c_i, d_i), const(2, U8)))
    same(mean, [[(x + y) % 256 // 2 for x, y in row] for row in both])
    assert mean[246, 246] == 118
    wide = op("floordiv", op("add", cast(c_i, U16), cast(d_i, U16)), const(2, U16))
    halving = run(cast(wide, U8))
    same(halving, [[(x + y) // 2 for x, y in row] for row in both])
    assert halving[246, 246] == 246


def test_b25_the_absolute_value_of_the_least_integer() -> None:
    a, at = at_i("a", I8)
    data = {"a": np.array([-128, -127, 127], np.int8)}
    size = op("abs", at)
    same(reference(pointwise((a,), size), {}, data)["y"], [-128, 127, 127])
    same(reference(pointwise((a,), cast(size, U8)), {}, data)["y"], [128, 127, 127])
    same(reference(pointwise((a,), cast(size, U8, "bitcast")), {}, data)["y"], [128, 127, 127])


def test_b52_nans_go_through_maxima() -> None:
    x, x_i = at_i("x", F32)
    z, z_i = at_i("z", F32)
    data = np.array([NAN, 1, NAN, -2, 0], np.float32)
    relu = pointwise((x,), op("max", x_i, const(0.0, F32)))
    same(reference(relu, {}, {"x": data})["y"], [NAN, 1, NAN, 0, 0])
    other = np.array([1, NAN, NAN, 0, -0.0], np.float32)
    largest = pointwise((x, z), op("max", x_i, z_i))
    same(reference(largest, {}, {"x": data, "z": other})["y"], [NAN, NAN, NAN, 0, 0])


@pytest.mark.parametrize(("join", "identity"), [("max", -INF), ("min", INF)])
def test_b52_a_nan_at_any_place_of_a_reduction(join: str, identity: float) -> None:
    x, s = array("x", F32, "M", "K"), array("s", F32, "M", role="out")
    domain = (*between("i", 0, "M"), *between("k", 0, "K"))
    k = kernel(
        (x, s),
        statement(s, ("i",), read(x, "i", "k"), *domain, op=join, reduce=("k",), init=identity),
    )
    data = np.tile(np.array([1, 2, 0], np.float32), (34, 11))
    data[np.arange(33), np.arange(33)] = NAN
    same(reference(k, {}, {"x": data})["s"], [NAN] * 33 + [2 if join == "max" else 0])


def test_b54_nothing_is_folded() -> None:
    x, x_i = at_i("x", F32)
    big = op("mul", const(INF, F32), x_i)
    ones = {"x": np.array([1, 2, 3, 4], np.float32)}
    same(reference(pointwise((x,), op("sub", big, big)), {}, ones)["y"], [NAN] * 4)
    data = {"x": np.array([INF, NAN, 0, -1], np.float32)}
    for expr, want in (
        (op("mul", x_i, const(0.0, F32)), [NAN, NAN, 0.0, -0.0]),
        (op("sub", x_i, x_i), [NAN, NAN, 0.0, 0.0]),
        (op("div", x_i, x_i), [NAN, NAN, NAN, 1.0]),
    ):
        same(reference(pointwise((x,), expr), {}, data)["y"], want)


def test_b62_saturation_to_the_type_that_is_asked_for() -> None:
    x, x_i = at_i("x", F32)
    to_i8 = pointwise((x,), cast(op("round", x_i), I8, "saturate"))
    data = np.array([300, 127.5, -129, -128.5, 126.5, NAN], np.float32)
    same(reference(to_i8, {}, {"x": data})["y"], [127, 127, -128, -128, 126, 0])
    to_u8 = pointwise((x,), cast(op("round", x_i), U8, "saturate"))
    data = np.array([-1, 255.5, 256, 254.5], np.float32)
    same(reference(to_u8, {}, {"x": data})["y"], [0, 255, 255, 254])
    narrow, at = at_i("x", I32)
    data = np.array([300, 128, -129, -128, 127], np.int32)
    for type_, low, high in ((I8, -128, 127), (U8, 0, 255)):
        k = pointwise((narrow,), cast(at, type_, "saturate"))
        same(reference(k, {}, {"x": data})["y"], np.clip(data, low, high))


def test_b63_ties_go_to_even() -> None:
    x, x_i = at_i("x", F32)
    quantized = pointwise((x,), op("round", op("div", x_i, const(0.5, F32))))
    data = np.array([0.25, 0.75, 1.25, 1.75, -0.25, -0.75], np.float32)
    same(reference(quantized, {}, {"x": data})["y"], [0.0, 2.0, 2.0, 4.0, -0.0, -2.0])
    rounded = pointwise((x,), op("round", x_i))
    data = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 8388609.0], np.float32)
    same(reference(rounded, {}, {"x": data})["y"], [0.0, 2.0, 2.0, -0.0, -2.0, 8388609.0])
    h, h_i = at_i("h", F16)
    halves = pointwise((h,), op("round", op("div", h_i, const(0.09997559, F16))))
    data = np.array([0.05001831, -0.05001831], np.float16)
    same(reference(halves, {}, {"h": data})["y"], [1.0, -1.0])


def test_index_arithmetic_is_exact() -> None:
    """Products of indices beyond 2^31 and 2^53 keep their last digit."""
    out = array("out", I32, 3, role="out")
    far = iop("mod", add(mul(3 * 2**52, "i"), mul("i", "i"), 1), 7)
    k = kernel((out,), statement(out, ("i",), cast(far, I32), *between("i", 0, 3)))
    want = [(3 * 2**52 * i + i * i + 1) % 7 for i in range(3)]
    same(reference(k, {}, {})["out"], want)
    assert far.type == INDEX
