"""Every operation on every element type and register width, against NumPy, on every target."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tdsl.ir.kernel import Const as IndexConst
from tdsl.ir.kernel import Size
from tdsl.ir.types import BOOL, F16, F32, F64, TYPES, ElemType
from tdsl.ir.vector import Buffer, Cast, Const, Function, Op, Splat, Store, Value, VType
from tdsl.targets import Target, instructions
from tests.codegen.build import I, add, function, load, mask, mul, num, over, vector_buffer
from tests.codegen.harness import NAMES, Call, dtype, need, run
from tests.codegen.semantics import (
    COMPARE_OPS,
    FLOAT_OPS,
    INTEGER_OPS,
    MATH_OPS,
    OPERANDS,
    agree,
    expected,
    operand_triples,
)

HALVES = pytest.param("neon+fp16", marks=pytest.mark.neon)
NUMBERS = tuple(t for t in TYPES.values() if t.name not in ("bf16", "bool", "f16"))


def all_lanes(of: Target, elem: ElemType) -> list[int]:
    """A scalar, one vector that fills a part of a register, and every register."""
    if not of.widths:
        return [1]
    full = [w // elem.bytes for w in of.widths]
    part = full[-1] // 2
    return sorted({1, max(1, part), *full})


def operation(op: str, elem: ElemType, lanes: int) -> Value:
    """`op` on elements i of a, b, c."""
    names = "abc"[: OPERANDS.get(op, 2)]
    args = tuple(load(name, elem, lanes, I) for name in names)
    if op not in COMPARE_OPS:
        return Op(op, args, VType(elem, lanes))
    return Cast("convert", Op(op, args, mask(elem, lanes)), VType(BOOL, lanes))


def make(name: str, ops: tuple[str, ...], elem: ElemType, lanes: int) -> Function:
    """A function that does all of `ops`, each into a row of `r` or, for comparisons, of `t`."""
    rows = {"r": [op for op in ops if op not in COMPARE_OPS], "t": list(COMPARE_OPS)}
    if "eq" not in ops:
        del rows["t"]
    stores = [
        Store(array, add(mul(num(row), Size("N")), I), operation(op, elem, lanes))
        for array, of in rows.items()
        for row, op in enumerate(of)
    ]
    buffers = [vector_buffer(n, elem, "in") for n in "abc"]
    buffers += [
        Buffer(array, elem if array == "r" else BOOL, (num(len(of)), Size("N")), "out")
        for array, of in rows.items()
    ]
    return function(name, buffers, over(lanes, *stores))


def result(arrays: Mapping[str, np.ndarray], ops: tuple[str, ...], op: str) -> np.ndarray:
    """The row of one operation."""
    if op in COMPARE_OPS:
        return np.asarray(arrays["t"][COMPARE_OPS.index(op)])
    return np.asarray(arrays["r"][[o for o in ops if o not in COMPARE_OPS].index(op)])


def arguments(f: Function, **given: np.ndarray) -> dict[str, np.ndarray]:
    """The given arrays, and outputs full of a pattern that no result has everywhere."""
    size = next(iter(given.values())).size
    arrays = dict(given)
    for buffer in f.buffers:
        if buffer.name not in arrays:
            shape = [int(e.value) if isinstance(e, IndexConst) else size for e in buffer.shape]
            fill = np.full(int(np.prod(shape)) * buffer.elem.bytes, 0xA5, np.uint8)
            arrays[buffer.name] = fill.view(dtype(buffer.elem)).reshape(shape)
    return arrays


@pytest.mark.parametrize("name", NAMES)
def test_operations(name: str, tmp_path: Path) -> None:
    of = need(name)
    functions, calls, checks = [], [], []
    for elem in NUMBERS:
        ops = (FLOAT_OPS if elem.is_float else INTEGER_OPS) + COMPARE_OPS
        a, b, c = operand_triples(elem)
        for lanes in all_lanes(of, elem):
            f = make(f"all_{elem}x{lanes}", ops, elem, lanes)
            functions.append(f)
            calls.append(Call(f.name, {"N": a.size}, arguments(f, a=a, b=b, c=c)))
            checks.append((elem, lanes, ops))
    _, outcomes = run(functions, calls, of, tmp_path)
    wrong = []
    known: dict[tuple[str, str], np.ndarray] = {}
    for (elem, lanes, ops), call, outcome in zip(checks, calls, outcomes, strict=True):
        assert outcome.status == 0
        for op in ops:
            args = tuple(call.arrays[n] for n in "abc"[: OPERANDS.get(op, 2)])
            if (elem.name, op) not in known:
                known[elem.name, op] = expected(op, elem, args)
            want, got = known[elem.name, op], result(outcome.arrays, ops, op)
            loose = op in ("min", "max", "fma", "fnma")
            if not agree(got, want, signed_zeros=not loose):
                bad = next(
                    i for i in range(want.size)
                    if not agree(got[i : i + 1], want[i : i + 1], signed_zeros=not loose)
                )  # fmt: skip
                shown = [x[bad] for x in args]
                wrong.append(f"{op} {elem}x{lanes} of {shown}: {got[bad]}, not {want[bad]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", NAMES)
def test_functions_of_mathematics(name: str, tmp_path: Path) -> None:
    of = need(name)
    functions, calls = [], []
    for elem in (F32, F64):
        a = np.array([0.0, 0.25, 1.0, -1.5, 2.0, 7.5, -0.75, 10.0, 0.1, 3.25, -6.0, 1e-3, 4.0,
                      88.0, -80.0, np.inf], dtype(elem))  # fmt: skip
        b = np.resize(np.array([2.0, 0.5, 3.0, -1.0], dtype(elem)), a.size)
        for lanes in all_lanes(of, elem):
            f = make(f"math_{elem}x{lanes}", MATH_OPS, elem, lanes)
            functions.append(f)
            calls.append(Call(f.name, {"N": a.size}, arguments(f, a=a, b=b, c=a)))
    _, outcomes = run(functions, calls, of, tmp_path)
    for call, outcome in zip(calls, outcomes, strict=True):
        assert outcome.status == 0
        a, b = call.arrays["a"], call.arrays["b"]
        elem = F32 if a.dtype == np.float32 else F64
        for op in MATH_OPS:
            want = expected(op, elem, (a, b) if op == "pow" else (a,))
            np.testing.assert_allclose(
                result(outcome.arrays, MATH_OPS, op), want, rtol=8 * np.finfo(a.dtype).eps,
                atol=np.finfo(a.dtype).tiny, err_msg=f"{call.function} {op}",
            )  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_scaling_rounds_once(name: str, tmp_path: Path) -> None:
    """Where the target has it; into subnormal numbers and beyond both ends."""
    of = need(name)
    functions, calls = [], []
    for elem in (F32, F64):
        info = np.finfo(dtype(elem))
        rows = [n for op, e, n in instructions(of) if (op, e) == ("scale", elem.name)]
        values = np.array([1.0, -1.0, 0.70710678, 1.41421354, 1 + info.eps, 0.0, -0.0, np.nan])
        powers = np.arange(2.0 * (info.minexp - info.nmant), 2.0 * info.maxexp)
        x, k = (np.ravel(a).astype(dtype(elem)) for a in np.meshgrid(values, powers))
        whole = -(-x.size // 64) * 64
        for lanes in rows:
            f = make(f"scale_{elem}x{lanes}", ("scale",), elem, lanes)
            given = arguments(f, a=np.resize(x, whole), b=np.resize(k, whole))
            functions.append(f)
            calls.append(Call(f.name, {"N": whole}, given | {"c": given["a"]}))
    if not functions:
        assert of.base != "avx512"
        return
    _, outcomes = run(functions, calls, of, tmp_path)
    for call, outcome in zip(calls, outcomes, strict=True):
        with np.errstate(all="ignore"):
            want = np.ldexp(call.arrays["a"], call.arrays["b"].astype(np.int32))
        assert agree(result(outcome.arrays, ("scale",), "scale"), want), call.function


@pytest.mark.parametrize("name", (*NAMES, HALVES))
def test_half_precision_arithmetic(name: str, tmp_path: Path) -> None:
    of = need(name)
    ops = ("add", "sub", "mul", "div", "sqrt", "neg", "abs", "min", "max", "floor", "round",
           "ceil", "trunc", *COMPARE_OPS)  # fmt: skip
    a, b, c = operand_triples(F16)
    functions, calls = [], []
    for lanes in all_lanes(of, F16):
        f = make(f"half_x{lanes}", ops, F16, lanes)
        functions.append(f)
        calls.append(Call(f.name, {"N": a.size}, arguments(f, a=a, b=b, c=c)))
    _, outcomes = run(functions, calls, of, tmp_path)
    for call, outcome in zip(calls, outcomes, strict=True):
        assert outcome.status == 0
        for op in ops:
            want = expected(op, F16, (a, b)[: OPERANDS.get(op, 2)])
            loose = op in ("min", "max")
            assert agree(result(outcome.arrays, ops, op), want, signed_zeros=not loose), (
                call.function, op,
            )  # fmt: skip


def with_constants(elem: ElemType) -> list[tuple[str, int | float, bool]]:
    """(op, constant, whether it stands on the left)."""
    if elem.is_float:
        cases = [("max", 0.0), ("min", 1.5), ("max", float("nan")), ("add", 0.1), ("mul", -0.0)]
        cases += [("max", float("-inf")), ("min", float("inf"))]
        number = np.float32 if elem == F32 else np.float64
        values = [(op, float(number(v))) for op, v in cases]
    else:
        bits, low = elem.bits, -(2 ** (elem.bits - 1)) if elem.kind == "int" else 0
        values = [(op, n) for op in ("shl", "shr") for n in (0, 1, bits - 1, bits, bits + 5)]
        values += [(op, n) for op in ("floordiv", "mod") for n in (1, 4, 3, 64, 0, -1, low)]
        values += [("add", 2 ** (bits - 1) - 1), ("max", low), ("min", 5), ("mul", 3)]
    inside = [(op, v) for op, v in values if elem.is_float or elem.kind == "int" or v >= 0]
    return [(op, value, left) for op, value in inside for left in (False, True)]


@pytest.mark.parametrize("name", NAMES)
def test_operations_with_a_constant(name: str, tmp_path: Path) -> None:
    of = need(name)
    functions, calls, checks = [], [], []
    for elem in NUMBERS:
        a, _, _ = operand_triples(elem)
        for lanes in all_lanes(of, elem):
            vtype, cases = VType(elem, lanes), with_constants(elem)
            stores = []
            for number, (op, value, left) in enumerate(cases):
                x = load("a", elem, lanes, I)
                constant: Value = Const(value, vtype)
                if number % 3 == 0 and lanes > 1:
                    constant = Splat(Const(value, VType(elem)), vtype)
                args = (constant, x) if left else (x, constant)
                place = add(mul(num(number), Size("N")), I)
                stores.append(Store("r", place, Op(op, args, vtype)))
            buffers = [
                vector_buffer("a", elem, "in"),
                Buffer("r", elem, (num(len(cases)), Size("N")), "out"),
            ]
            f = function(f"constants_{elem}x{lanes}", buffers, over(lanes, *stores))
            functions.append(f)
            calls.append(Call(f.name, {"N": a.size}, arguments(f, a=a)))
            checks.append((elem, cases))
    _, outcomes = run(functions, calls, of, tmp_path)
    for (elem, cases), call, outcome in zip(checks, calls, outcomes, strict=True):
        assert outcome.status == 0
        a = call.arrays["a"]
        for row, (op, value, left) in enumerate(cases):
            other = np.full_like(a, value)
            want = expected(op, elem, (other, a) if left else (a, other))
            got = outcome.arrays["r"][row]
            assert agree(got, want, signed_zeros=op not in ("min", "max")), (
                f"{call.function} {op} {value} {left}"
            )
