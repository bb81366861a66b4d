"""The elementary functions against references of double or higher precision, on every target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest

from tdsl.elementary import FUNCTIONS
from tdsl.ir.types import F32, F64, ElemType
from tdsl.ir.vector import Op, Store, VType
from tdsl.targets import Target, native
from tests.codegen.build import I, function, load, over, vector_buffer
from tests.codegen.harness import NAMES as TARGETS
from tests.codegen.harness import Call, need, run
from tests.math.reference import (
    FOUND,
    KINDS,
    NAMES,
    SPECIAL,
    ULP,
    Array,
    exact,
    points_f32,
    points_f64,
    ulps,
)

FINE = 4099  # the stride over the bit patterns of f32
COARSE = 4099 * 29
MANY, FEW = 20000, 2000  # points of f64
SLOW = ("neon",)  # code that is emulated

Results = dict[tuple[str, int], Array]


def lanes_of(of: Target, elem: ElemType) -> list[int]:
    """A scalar and every register, a part of one too."""
    full = [w // elem.bytes for w in of.widths]
    return sorted({1, *full, *(max(1, n // 2) for n in full[-1:])})


def compute(
    of: Target, elem: ElemType, points: Mapping[str, Array], folder: Path,
    *, lanes: Iterable[int] | None = None, end: str = "",
) -> Results:  # fmt: skip
    """Each function at its points, for each number of lanes; `end` is put behind the op's name."""
    functions, calls, keys = [], [], []
    for count in lanes or lanes_of(of, elem):
        for op, x in points.items():
            value = Op(op + end, (load("x", elem, count, I),), VType(elem, count))
            buffers = [vector_buffer("x", elem, "in"), vector_buffer("y", elem, "out")]
            f = function(f"{op}_{count}", buffers, over(count, Store("y", I, value)))
            whole = np.resize(x, -(-x.size // count) * count)
            functions.append(f)
            calls.append(Call(f.name, {"N": whole.size}, {"x": whole, "y": np.zeros_like(whole)}))
            keys.append((op, count))
    _, outcomes = run(functions, calls, of, folder)
    assert all(o.status == 0 for o in outcomes)
    return {
        (op, count): outcome.arrays["y"][: points[op].size]
        for (op, count), outcome in zip(keys, outcomes, strict=True)
    }


def same(left: Array, right: Array) -> bool:
    """Equal bit for bit, save what kind of NaN it is."""
    unsigned = np.dtype(f"u{left.dtype.itemsize}")
    equal = left.view(unsigned) == right.view(unsigned)
    return bool((equal | (np.isnan(left) & np.isnan(right))).all())


def check(results: Results, points: Mapping[str, Array], elem: ElemType, amount: int) -> None:
    """Within the errors that were found before, and the same for every number of lanes."""
    for op, x in points.items():
        error = ulps(results[op, 1], exact(op, elem, amount))
        worst = int(np.argmax(error))
        assert error[worst] <= min(ULP, FOUND), (
            f"{op}({x[worst]!r}) = {results[op, 1][worst]!r} is {error[worst]:.2f} ulp off"
        )
    for (op, lanes), found in results.items():
        assert same(found, results[op, 1]), f"{op} of {lanes} lanes is not that of a scalar"


def test_all_functions_are_tested() -> None:
    assert set(NAMES) == set(FUNCTIONS) == set(SPECIAL)


@pytest.mark.parametrize("name", TARGETS)
def test_f32(name: str, tmp_path: Path) -> None:
    of = need(name)
    stride = COARSE if name in SLOW else FINE
    points = dict.fromkeys(NAMES, points_f32(stride))
    wide = lanes_of(of, F32)[-1]
    check(compute(of, F32, points, tmp_path, lanes={1, wide}), points, F32, stride)


@pytest.mark.parametrize("name", TARGETS)
def test_f64(name: str, tmp_path: Path) -> None:
    of = need(name)
    count = FEW if name in SLOW else MANY
    points = {op: points_f64(op, count) for op in NAMES}
    wide = lanes_of(of, F64)[-1]
    check(compute(of, F64, points, tmp_path, lanes={1, wide}), points, F64, count)


@pytest.mark.parametrize("end", ["", "_strict"])
@pytest.mark.parametrize("elem", [F32, F64], ids=str)
@pytest.mark.parametrize("name", TARGETS)
def test_every_width(name: str, elem: ElemType, end: str, tmp_path: Path) -> None:
    of = need(name)
    amount = COARSE if elem == F32 else FEW
    points = {op: points_f32(COARSE) if elem == F32 else points_f64(op, FEW) for op in NAMES}
    check(compute(of, elem, points, tmp_path, end=end), points, elem, amount)


@pytest.mark.parametrize("elem", [F32, F64], ids=str)
@pytest.mark.parametrize("name", TARGETS)
def test_special_values(name: str, elem: ElemType, tmp_path: Path) -> None:
    of, kind = need(name), KINDS[elem.name]
    points = {op: np.array([*(x for x, _ in pairs), np.nan], kind) for op, pairs in SPECIAL.items()}
    for (op, lanes), found in compute(of, elem, points, tmp_path).items():
        want = np.array([*(y for _, y in SPECIAL[op]), np.nan], kind)
        assert same(found, want), f"{op} of {lanes} lanes: {found}, not {want}"


@pytest.mark.parametrize("elem", [F32, F64], ids=str)
@pytest.mark.parametrize("name", ["c", native().name])
def test_symmetry_and_range(name: str, elem: ElemType, tmp_path: Path) -> None:
    """Odd and even functions are so bit for bit; no result leaves the function's range."""
    of = need(name)
    x = points_f32(COARSE) if elem == F32 else points_f64("tanh", 4000)
    x = x[~np.isnan(x)]
    wide = lanes_of(of, elem)[-1:]
    both = compute(of, elem, dict.fromkeys(NAMES, np.concatenate([x, -x])), tmp_path, lanes=wide)
    for (op, _), found in both.items():
        plus, minus = found[: x.size], found[x.size :]
        finite = found[~np.isnan(found)]
        if op in ("tanh", "erf", "sin"):
            assert same(minus, -plus), op
        if op == "cos":
            assert same(minus, plus)
        if op in ("tanh", "erf", "sin", "cos"):
            assert (np.abs(finite) <= 1).all(), op
        if op in ("exp", "exp2", "sigmoid"):
            assert (finite >= 0).all(), op
        if op == "sigmoid":
            assert (finite <= 1).all()


@pytest.mark.parametrize("elem", [F32, F64], ids=str)
@pytest.mark.parametrize("name", TARGETS[1:])
def test_strict_results_are_those_of_every_target(
    name: str, elem: ElemType, tmp_path: Path
) -> None:
    of = need(name)
    points = {op: points_f32(COARSE) if elem == F32 else points_f64(op, FEW) for op in NAMES}
    want = compute(need("c"), elem, points, tmp_path, lanes=[1])
    wide = lanes_of(of, elem)[-1]
    found = compute(of, elem, points, tmp_path, lanes=[wide], end="_strict")
    for op in NAMES:
        assert same(found[op, wide], want[op, 1]), op
