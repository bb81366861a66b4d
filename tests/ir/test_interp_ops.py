"""Every operation on every type, at edge values, against exact arithmetic."""

from __future__ import annotations

import itertools
import math
import operator
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tdsl.ir.dtypes import compute_dtype, storage_dtype
from tdsl.ir.interp_ops import apply, cast, constant, load, store
from tdsl.ir.kernel import INDEX, Const
from tdsl.ir.types import BF16, BOOL, F16, F32, F64, I8, I32, I64, TYPES, U8, U64, ElemType
from tests.ir.exact import FORMATS, clamp, integer_op, limits, nearest, wrap

BINARY = (
    *("add", "sub", "mul", "floordiv", "mod", "min", "max"),
    *("band", "bor", "bxor", "shl", "shr"),
)
COMPARE = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
INTEGERS = [t for t in TYPES.values() if t.is_integer]
FLOATS = [F64, F32, F16, BF16]
RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


def values(numbers: Any, type_: ElemType) -> np.ndarray:
    return np.array(numbers, dtype=compute_dtype(type_))


def edges(type_: ElemType) -> list[int]:
    low, high = limits(type_)
    near = [-129, -128, -127, -3, -2, -1, 0, 1, 2, 3, 7, type_.bits - 1, type_.bits, 127, 128, 255]
    some = [int(v) for v in RNG.integers(low, high, 8, dtype=compute_dtype(type_))]
    half = [low // 2, high // 2, high // 2 + 1]
    ends = [low, low + 1, high - 1, high]
    return [v for v in dict.fromkeys(near + some + half + ends) if low <= v <= high]


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("type_", [I8, U8], ids=str)
def test_all_pairs_of_bytes(op: str, type_: ElemType) -> None:
    low, high = limits(type_)
    every = range(low, high + 1)
    a, b = np.meshgrid(values(every, type_), values(every, type_), indexing="ij")
    got = apply(op, type_, (a, b))
    assert got.dtype == compute_dtype(type_)
    want = [[integer_op(op, type_, x, y) for y in every] for x in every]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("type_", INTEGERS, ids=str)
def test_integers_at_their_ends(op: str, type_: ElemType) -> None:
    pairs = list(itertools.product(edges(type_), repeat=2))
    a, b = (values(side, type_) for side in zip(*pairs, strict=True))
    got = apply(op, type_, (a, b))
    assert got.dtype == compute_dtype(type_)
    assert got.tolist() == [integer_op(op, type_, x, y) for x, y in pairs]
    for i in range(0, len(pairs), 7):  # single values take other paths in NumPy
        assert apply(op, type_, (a[i], b[i])) == got[i]


@pytest.mark.parametrize("type_", INTEGERS, ids=str)
def test_integers_with_one_operand_and_comparisons(type_: ElemType) -> None:
    numbers = edges(type_)
    x = values(numbers, type_)
    assert apply("neg", type_, (x,)).tolist() == [wrap(-v, type_) for v in numbers]
    assert apply("abs", type_, (x,)).tolist() == [wrap(abs(v), type_) for v in numbers]
    assert apply("bnot", type_, (x,)).tolist() == [wrap(~v, type_) for v in numbers]
    for name, compare in COMPARE.items():
        got = apply(name, type_, (x[:, None], x[None, :]))
        assert got.dtype == np.bool_
        assert got.tolist() == [[compare(a, b) for b in numbers] for a in numbers]


@pytest.mark.parametrize("op", [*BINARY[:7], *COMPARE])
def test_indices_alone_and_in_arrays_agree(op: str) -> None:
    numbers = [-(2**40), -9, -8, -3, -1, 0, 1, 2, 8, 11, 2**40]
    if op == "mul":
        numbers = numbers[1:-1]
    x = np.array(numbers)
    got = apply(op, INDEX, (x[:, None], x[None, :]))
    for i, a in enumerate(numbers):
        for j, b in enumerate(numbers):
            alone = apply(op, INDEX, (a, b))
            assert isinstance(alone, int)
            want = COMPARE[op](a, b) if op in COMPARE else integer_op(op, I64, a, b)
            assert alone == want
            assert got[i, j] == want


@pytest.mark.parametrize("op", ["and", "or", "bxor", "eq", "ne"])
def test_bool_pairs(op: str) -> None:
    table: dict[str, Callable[[bool, bool], bool]] = {
        "and": lambda a, b: a and b,
        "or": lambda a, b: a or b,
        "bxor": lambda a, b: a != b,
        "eq": lambda a, b: a == b,
        "ne": lambda a, b: a != b,
    }
    pairs = list(itertools.product([False, True], repeat=2))
    a, b = (np.array(side) for side in zip(*pairs, strict=True))
    assert apply(op, BOOL, (a, b)).tolist() == [table[op](x, y) for x, y in pairs]
    assert apply("not", BOOL, (a,)).tolist() == [not x for x in a]


# ---------------------------------------------------------------- floats


def numbers_of(type_: ElemType) -> list[float]:
    """Finite numbers of a float type: ends, subnormals, neighbours of 1, random ones."""
    digits, most, least = FORMATS[type_]
    tiny = Fraction(2) ** (least - digits + 1)
    ulp = Fraction(2) ** (1 - digits)
    large = (2 - ulp) * Fraction(2) ** most
    exact = [tiny, 3 * tiny, Fraction(2) ** least, 1 - ulp / 2, Fraction(1), 1 + ulp, 1 + 3 * ulp]
    exact += [large, large / 2, Fraction(2), Fraction(3), Fraction(10)]
    exact += [nearest_fraction(Fraction(float(v)), type_) for v in RNG.standard_normal(12)]
    return [float(v) for v in exact] + [-float(v) for v in exact]


def nearest_fraction(value: Fraction, type_: ElemType) -> Fraction:
    return Fraction(nearest(value, type_))


FRACTIONS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
}


@pytest.mark.parametrize("op", FRACTIONS)
@pytest.mark.parametrize("type_", FLOATS, ids=str)
def test_float_arithmetic_rounds_once(op: str, type_: ElemType) -> None:
    pairs = list(itertools.product(numbers_of(type_), repeat=2))
    a, b = (values(side, type_) for side in zip(*pairs, strict=True))
    got = apply(op, type_, (a, b))
    assert got.dtype == compute_dtype(type_)
    want = [nearest(FRACTIONS[op](Fraction(x), Fraction(y)), type_) for x, y in pairs]
    np.testing.assert_array_equal(got, values(want, type_))


@pytest.mark.parametrize("type_", FLOATS, ids=str)
def test_square_roots_are_the_nearest(type_: ElemType) -> None:
    numbers = [v for v in numbers_of(type_) if v > 0]
    got = apply("sqrt", type_, (values(numbers, type_),))
    for x, root in zip(numbers, got.tolist(), strict=True):
        # 200 bits of the root decide the rounding: a root of such a number is never so near a tie.
        scale = 2 ** (2 * 1200)
        precise = Fraction(math.isqrt(int(Fraction(x) * scale)), 2**1200)
        assert root == nearest(precise, type_)


NAN, INF = math.nan, math.inf


def bits(value: float) -> bytes:
    """Distinguishes the zeros; all NaNs are one."""
    return struct.pack("<d", NAN if math.isnan(value) else value)


@pytest.mark.parametrize("type_", FLOATS, ids=str)
def test_special_values(type_: ElemType) -> None:
    def run(op: str, *args: list[float]) -> list[bytes]:
        result = apply(op, type_, tuple(values(a, type_) for a in args))
        return [bits(float(v)) for v in result]

    def want(*numbers: float) -> list[bytes]:
        return [bits(v) for v in numbers]

    a = [NAN, 1.0, NAN, 0.0, -0.0, 0.0, -0.0, INF, -INF, 2.0]
    b = [1.0, NAN, NAN, -0.0, 0.0, 0.0, -0.0, 1.0, 1.0, 3.0]
    assert run("max", a, b) == want(NAN, NAN, NAN, 0.0, 0.0, 0.0, -0.0, INF, 1.0, 3.0)
    assert run("min", a, b) == want(NAN, NAN, NAN, -0.0, -0.0, 0.0, -0.0, 1.0, -INF, 2.0)
    assert run("div", [1.0, -1.0, 0.0, 1.0], [0.0, 0.0, 0.0, -INF]) == want(INF, -INF, NAN, -0.0)
    assert run("sub", [INF, 1.0], [INF, 1.0]) == want(NAN, 0.0)
    assert run("neg", [0.0, -INF, NAN]) == want(-0.0, INF, NAN)
    assert run("abs", [-0.0, -INF, NAN]) == want(0.0, INF, NAN)
    ties = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.75, -0.25, INF, NAN]
    assert run("round", ties) == want(0.0, 2.0, 2.0, -0.0, -2.0, -2.0, 1.0, -0.0, INF, NAN)
    assert run("floor", ties) == want(0.0, 1.0, 2.0, -1.0, -2.0, -3.0, 0.0, -1.0, INF, NAN)
    assert run("ceil", ties) == want(1.0, 2.0, 3.0, -0.0, -1.0, -2.0, 1.0, -0.0, INF, NAN)
    assert run("trunc", ties) == want(0.0, 1.0, 2.0, -0.0, -1.0, -2.0, 0.0, -0.0, INF, NAN)
    assert run("sigmoid", [-INF, 0.0, INF, NAN]) == want(0.0, 0.5, 1.0, NAN)
    assert run("rsqrt", [0.0, 4.0, INF, -1.0]) == want(INF, 0.5, 0.0, NAN)
    assert run("log", [0.0, 1.0, -1.0]) == want(-INF, 0.0, NAN)
    assert run("pow", [2.0, 0.0, NAN, 1.0], [3.0, 0.0, 0.0, NAN]) == want(8.0, 1.0, 1.0, 1.0)
    nan = values([NAN], type_)
    assert [bool(apply(c, type_, (nan, nan))[0]) for c in COMPARE] == [
        *(False, True, False),
        *(False, False, False),
    ]


MATH: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "exp2": math.exp2,
    "log": math.log,
    "log2": math.log2,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "erf": math.erf,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "rsqrt": lambda x: 1 / math.sqrt(x),
}


@pytest.mark.parametrize("op", MATH)
@pytest.mark.parametrize("type_", FLOATS, ids=str)
def test_functions_are_rounded_from_double(op: str, type_: ElemType) -> None:
    x = [nearest(Fraction(v), type_) for v in (0.125, 0.3, 0.9, 1.0, 2.7, 5.5)]
    got = apply(op, type_, (values(x, type_),)).tolist()
    for argument, result in zip(x, got, strict=True):
        exact = MATH[op](argument)
        if type_ == F64:
            assert result == pytest.approx(exact, rel=4e-16)
        else:
            assert result == nearest(Fraction(exact), type_)


# ---------------------------------------------------------------- conversions


@pytest.mark.parametrize("source", INTEGERS, ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_integer_conversions(source: ElemType, target: ElemType) -> None:
    numbers = edges(source)
    x = values(numbers, source)
    got = cast("convert", x, source, target)
    assert got.dtype == compute_dtype(target)
    assert got.tolist() == [wrap(v, target) for v in numbers]
    clamped = cast("saturate", x, source, target)
    assert clamped.dtype == compute_dtype(target)
    assert clamped.tolist() == [clamp(v, target) for v in numbers]
    if source.bits == target.bits:
        assert cast("bitcast", x, source, target).tolist() == [wrap(v, target) for v in numbers]
    assert cast("convert", x, source, BOOL).tolist() == [v != 0 for v in numbers]


@pytest.mark.parametrize("source", FLOATS, ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=str)
@pytest.mark.parametrize("mode", ["convert", "saturate"])
def test_floats_to_integers(source: ElemType, target: ElemType, mode: str) -> None:
    low, high = limits(target)
    about = [low - 1, low, low + 1, high - 1, high, high + 1]
    numbers = [nearest(Fraction(v), source) for v in about] + numbers_of(source)
    numbers += [0.0, -0.0, 0.5, -0.5, 1.5, -1.5, -1.0]
    x = values([*numbers, INF, -INF, NAN], source)
    ends = {INF: high, -INF: low}
    want = [ends[v] if v in ends else clamp(math.trunc(v), target) for v in x[:-1].tolist()] + [0]
    got = cast(mode, x, source, target)
    assert got.dtype == compute_dtype(target)
    assert got.tolist() == want


@pytest.mark.parametrize("source", [*INTEGERS, INDEX], ids=str)
@pytest.mark.parametrize("target", FLOATS, ids=str)
def test_integers_to_floats_round_once(source: ElemType, target: ElemType) -> None:
    numbers = edges(source)
    low, high = limits(source)
    for shift in range(6, 63):  # at and beside the ties of every format
        for digits in (8, 11, 24, 53):
            tie = ((1 << digits) + 1) << shift
            numbers += [s * (tie + d) for s in (1, -1) for d in (-1, 0, 1)]
    numbers = [v for v in numbers if low <= v <= high]
    got = cast("convert", values(numbers, source), source, target)
    want = values([nearest(Fraction(v), target) for v in numbers], target)
    np.testing.assert_array_equal(got, want)
    assert float(cast("convert", 3, INDEX, target)) == 3.0


@pytest.mark.parametrize("source", FLOATS, ids=str)
@pytest.mark.parametrize("target", FLOATS, ids=str)
def test_float_conversions_round_once(source: ElemType, target: ElemType) -> None:
    numbers = numbers_of(source)
    if source == F64:  # beside a tie by less than f32 can tell
        tie = 1 + 2.0 ** -FORMATS[target][0]
        numbers += [tie, math.nextafter(tie, 2), math.nextafter(tie, 0), 1e300, 1e-300, -1e-300]
    x = values(numbers, source)
    want = [nearest(Fraction(v), target) for v in x.tolist()]
    got = cast("convert", x, source, target)
    np.testing.assert_array_equal(got, values(want, target))
    digits, most, _ = FORMATS[target]
    largest = float((2 - Fraction(2) ** (1 - digits)) * Fraction(2) ** most)
    inside = [math.copysign(largest, w) if math.isinf(w) else w for w in want]
    clamped = cast("saturate", x, source, target) if source != target else got
    np.testing.assert_array_equal(clamped, values(inside, target))
    special = cast("convert", values([INF, -INF, NAN, -0.0], source), source, target)
    assert [bits(float(v)) for v in special] == [bits(v) for v in (INF, -INF, NAN, -0.0)]


def test_bool_conversions() -> None:
    flags = np.array([False, True])
    for type_ in (*INTEGERS, *FLOATS):
        assert cast("convert", flags, BOOL, type_).tolist() == [0, 1]
        assert cast("saturate", flags, BOOL, type_).tolist() == [0, 1]
    assert cast("bitcast", flags, BOOL, U8).tolist() == [0, 1]
    x = values([0.0, -0.0, 0.5, NAN], F32)
    assert cast("convert", x, F32, BOOL).tolist() == [False, False, True, True]


def test_bit_patterns() -> None:
    words = np.array([0, 1, 0x3F800000, 0x80000000, 0x7F800000, 0xDEADBEEF], np.uint32)
    floats = cast("bitcast", words, TYPES["u32"], F32)
    want = [struct.unpack("<f", struct.pack("<I", int(w)))[0] for w in words]
    assert floats.tolist() == want
    np.testing.assert_array_equal(cast("bitcast", floats, F32, TYPES["u32"]), words)
    for narrow in (F16, BF16):
        every = np.arange(1 << 16, dtype=np.uint16)
        there = cast("bitcast", every, TYPES["u16"], narrow)
        number = ~np.isnan(there)
        back = cast("bitcast", there, narrow, TYPES["u16"])
        np.testing.assert_array_equal(back[number], every[number])
    assert cast("bitcast", values([1.0], F64), F64, I64).tolist() == [0x3FF0000000000000]
    assert cast("bitcast", np.float32(-2.0), F32, I32) == -0x40000000


def test_an_index_from_data_is_an_integer() -> None:
    assert isinstance(cast("convert", np.uint8(200), U8, INDEX), int)
    assert cast("convert", np.array([200, 3], np.uint8), U8, INDEX).dtype == np.int64
    assert cast("convert", -1, INDEX, U64) == 2**64 - 1
    assert cast("convert", 300, INDEX, U8) == 44
    assert cast("saturate", 300, INDEX, U8) == 255


@pytest.mark.parametrize("type_", [t for t in TYPES.values() if t != BOOL], ids=str)
def test_literals_and_storage(type_: ElemType) -> None:
    value = constant(Const(1.5 if type_.is_float else limits(type_)[1], type_))
    assert value.dtype == compute_dtype(type_)
    kept = np.asarray(store(value, type_))
    assert kept.dtype == storage_dtype(type_)
    assert load(kept, type_) == value


def test_more_than_two_operands() -> None:
    flags = [np.array(f) for f in itertools.product([False, True], repeat=3)]
    a, b, c = (np.array(side) for side in zip(*flags, strict=True))
    kept = c.copy()
    assert apply("and", BOOL, (a, b, c)).tolist() == [all(f) for f in flags]
    assert apply("or", BOOL, (a, b, c)).tolist() == [any(f) for f in flags]
    np.testing.assert_array_equal(c, kept)  # NumPy would take a third operand for the result
    assert apply("max", INDEX, (3, 9, 4)) == 9
    assert apply("min", I32, tuple(values([v], I32) for v in (3, 9, 2, 4))) == 2
    with pytest.raises(ValueError, match="sub does not take 3 operands"):
        apply("sub", INDEX, (1, 2, 3))


def test_what_is_not_defined_is_refused() -> None:
    for op, type_ in (("div", I32), ("floordiv", F32), ("exp", I32), ("shl", F32), ("add", BOOL)):
        with pytest.raises(ValueError, match=f"the operation {op} is not defined on {type_}"):
            apply(op, type_, (np.zeros(2), np.zeros(2)))
