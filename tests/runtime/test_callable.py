"""What calls of a compiled kernel give back, and what they refuse."""

import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tdsl.diagnostics import UnsupportedTarget
from tdsl.runtime.arguments import Checker
from tdsl.runtime.callable import REMEMBERED, CompiledKernel
from tdsl.runtime.interface import BuildRequest
from tdsl.runtime.memory import ALIGNMENT, address
from tests.runtime.support import (
    AXPY,
    AXPY_ENTRY,
    AXPY_SHAPES,
    ROWS,
    ROWS_ENTRY,
    ROWS_SHAPES,
    Shapes,
    compiled,
    entry,
    module,
)


@pytest.fixture(params=["extension", "shared"])
def axpy(request: pytest.FixtureRequest) -> CompiledKernel:
    return compiled(AXPY, AXPY_ENTRY, AXPY_SHAPES, request.param)


@pytest.fixture
def rows() -> CompiledKernel:
    return compiled(ROWS, ROWS_ENTRY, ROWS_SHAPES)


X = np.ones(3, np.float32)


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


# ---------------------------------------------------------------- right calls


@pytest.mark.parametrize("n", [0, 1, 2, 7, 64, 1000])
def test_a_made_output_has_the_values(axpy: CompiledKernel, n: int) -> None:
    x = np.arange(n, dtype=np.float32)
    for _ in range(3):  # the first call is checked in full, the others are quick
        y = axpy(a=2.0, x=x)
        assert y.dtype == np.float32 and address(y) % ALIGNMENT == 0
        np.testing.assert_array_equal(y, 2 * x + 1)


def test_a_given_output_is_written_and_returned(axpy: CompiledKernel) -> None:
    x, y = floats(1, 2, 3), np.full(3, np.nan, np.float32)
    for a in (2.0, 3.0, 4.0):
        assert axpy(a=a, x=x, y=y) is y
        np.testing.assert_array_equal(y, a * x + 1)


def test_arguments_go_by_position_too(axpy: CompiledKernel) -> None:
    x, y = floats(1, 2), floats(0, 0)
    for _ in range(2):
        np.testing.assert_array_equal(axpy(2.0, x), [3, 5])
        assert axpy(2.0, x, y) is y
        assert axpy(2.0, x, y=y) is y
    np.testing.assert_array_equal(y, [3, 5])


def test_none_is_an_output_to_be_made(axpy: CompiledKernel) -> None:
    np.testing.assert_array_equal(axpy(a=1.0, x=floats(4), y=None), [5])


@pytest.mark.parametrize("a", [2, 2.0, np.float32(2), np.array(2, np.float32)])
def test_numbers_of_rank_0(axpy: CompiledKernel, a: Any) -> None:
    np.testing.assert_array_equal(axpy(a=a, x=floats(1, 2)), [3, 5])


def test_sizes_may_be_given_where_shapes_agree(axpy: CompiledKernel) -> None:
    for _ in range(3):
        np.testing.assert_array_equal(axpy(a=2.0, x=floats(1, 2), N=2), [3, 5])
    np.testing.assert_array_equal(axpy(a=2.0, x=floats(1, 2), N=np.int64(2)), [3, 5])


def test_several_outputs_are_a_named_tuple_and_inout_is_in_place(rows: CompiledKernel) -> None:
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    flag, seen = np.array([True, False]), np.array([10, 20], np.int32)
    for times in (1, 2, 3):
        result = rows(x=x, flag=flag, seen=seen)
        assert result._fields == ("sums", "total")
        np.testing.assert_array_equal(result.sums, [3, 0])
        assert result.total.shape == () and result.total == 3
        np.testing.assert_array_equal(seen, [10 + 2 * times, 20 + 3 * times])


def test_zero_sizes(rows: CompiledKernel) -> None:
    seen = np.zeros(2, np.int32)
    for _ in range(2):
        result = rows(x=np.zeros((0, 5), np.int32), flag=np.zeros(0, bool), seen=seen)
        assert result.sums.shape == (0,) and result.total == 0
        result = rows(x=np.zeros((3, 0), np.int32), flag=np.ones(3, bool), seen=seen)
        np.testing.assert_array_equal(result.sums, [0, 0, 0])
    np.testing.assert_array_equal(seen, [6, 10])


def test_without_outputs_the_inout_array_is_the_result() -> None:
    request = module(
        "bump",
        "int bump(int64_t N, int16_t *x, void *workspace);\n",
        "int bump(int64_t N, int16_t *x, void *workspace) {\n"
        "  (void)workspace; for (int64_t i = 0; i < N; i++) x[i]++; return 0; }\n",
    )
    kernel = compiled(request, entry("bump", "N", "inout x: i16[1]"), Shapes(x=("N",)))
    x = np.array([1, 2], np.int16)
    assert kernel(x=x) is x
    np.testing.assert_array_equal(x, [2, 3])


def test_the_result_order_can_be_chosen_and_reserved_names_do_not_fail(
    rows: CompiledKernel,
) -> None:
    turned = CompiledKernel(
        replace(ROWS_ENTRY, results=("seen", "total", "sums")), ROWS_SHAPES, rows.library
    )
    arrays = {"x": np.ones((1, 1), np.int32), "flag": np.ones(1, bool)}
    result = turned(**arrays, seen=np.zeros(2, np.int32))
    assert result._fields == ("seen", "total", "sums")
    np.testing.assert_array_equal(result.seen, [1, 1])
    arguments = tuple(
        replace(a, name="lambda" if a.name == "sums" else a.name) for a in ROWS_ENTRY.arguments
    )
    plan = Shapes(**{"x": ("M", "N"), "flag": ("M",), "lambda": ("M",), "total": (), "seen": (2,)})
    reserved = CompiledKernel(replace(ROWS_ENTRY, arguments=arguments), plan, rows.library)
    result = reserved(**arrays, seen=np.zeros(2, np.int32))
    assert (result[0] == [1]).all() and result.total == 1


def test_many_shapes_in_turn(axpy: CompiledKernel) -> None:
    """More than are remembered."""
    for n in [*range(REMEMBERED + 20), 3, 3]:
        x = np.ones(n, np.float32)
        np.testing.assert_array_equal(axpy(a=1.0, x=x), x + 1)


def test_what_can_be_asked_of_a_kernel(axpy: CompiledKernel) -> None:
    assert axpy.c_source == AXPY.c_source and axpy.header == AXPY.header
    assert axpy.schedule == "plain"
    assert axpy.workspace_bytes(10) == 40 and axpy.workspace_bytes(N=3) == 12
    assert axpy.variant(8) == "narrow" and axpy.variant(N=9) == "wide"
    assert Path(axpy.library_path).is_file()
    assert re.search(r"^_?axpy:", axpy.assembly, re.MULTILINE)
    assert "axpy(a, x, y)" in repr(axpy)
    with pytest.raises(TypeError, match="axpy: missing size 'N'"):
        axpy.workspace_bytes()
    with pytest.raises(TypeError, match="there is no argument 'M'"):
        axpy.variant(M=1)
    with pytest.raises(TypeError, match="takes 1 sizes"):
        axpy.variant(1, 2)
    with pytest.raises(ValueError, match="expected 0 <= N < 2\\^40, got -1"):
        axpy.workspace_bytes(-1)


def test_numbers_by_value_of_every_type() -> None:
    types = {
        "f64": ("double", 1.1, 1.1),
        "f32": ("float", 0.1, float(np.float32(0.1))),
        "f16": ("uint16_t", 1.5, float(np.float16(1.5).view(np.uint16))),
        "bf16": ("uint16_t", 1.0, float(0x3F80)),
        "i8": ("int8_t", -128, -128.0),
        "u8": ("uint8_t", 255, 255.0),
        "i64": ("int64_t", -(2**40), -float(2**40)),
        "bool": ("uint8_t", True, 1.0),
    }
    for elem, (kind, value, expected) in types.items():
        prototype = f"int put({kind} v, double *y, void *workspace)"
        request = module(
            "put", f"{prototype};\n", f"{prototype} {{ (void)workspace; *y = v; return 0; }}\n"
        )
        kernel = compiled(request, entry("put", "", f"in v: {elem}", "out y: f64[0]"), Shapes())
        for _ in range(2):
            assert kernel(v=value) == expected, elem


def test_bf16_arrays_are_bit_patterns_or_of_a_type_of_that_name() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    prototype = "int same(int64_t N, const uint16_t *x, uint16_t *y, void *workspace)"
    body = "{ (void)workspace; for (int64_t i = 0; i < N; i++) y[i] = x[i]; return 0; }\n"
    request = module("same", f"{prototype};\n", f"{prototype} {body}")
    which = entry("same", "N", "in x: bf16[1]", "out y: bf16[1]")
    kernel = compiled(request, which, Shapes(x=("N",), y=("N",)))
    x = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    y = np.zeros(2, ml_dtypes.bfloat16)
    assert kernel(x=x, y=y) is y
    np.testing.assert_array_equal(y, x)


# ---------------------------------------------------------------- inputs that are copied


def test_inputs_that_do_not_lie_well_are_copied(axpy: CompiledKernel) -> None:
    base = np.arange(12, dtype=np.float32)
    raw = np.zeros(4 * 4 + 1, np.uint8)
    off = raw[1:].view(np.float32)
    off[...] = [1, 2, 3, 4]
    views = [base[1:], base[::2], base[::-1], base.reshape(3, 4).T[1], off]
    views += [np.broadcast_to(np.float32(3), (5,)), base[:1][::-7]]
    for x in views:
        for _ in range(2):
            np.testing.assert_array_equal(axpy(a=2.0, x=x), 2 * np.ascontiguousarray(x) + 1)


def test_a_transposed_input_and_odd_strides_of_size_1(rows: CompiledKernel) -> None:
    x = np.arange(6, dtype=np.int32).reshape(2, 3).T
    seen = np.zeros(2, np.int32)
    flag = np.ones(3, bool)
    np.testing.assert_array_equal(rows(x=x, flag=flag, seen=seen).sums, x.sum(axis=1))
    odd = np.lib.stride_tricks.as_strided(np.arange(8, dtype=np.int32), (1, 3), (400, 4))
    np.testing.assert_array_equal(rows(x=odd, flag=flag[:1], seen=seen).sums, [3])


def test_a_promised_alignment_is_kept_for_inputs_and_demanded_of_outputs() -> None:
    prototype = "int where(int64_t N, const float *x, uint64_t *y, void *workspace)"
    plan = Shapes(x=("N",), y=(1,))

    def where(pointer: str) -> BuildRequest:
        """It refuses this pointer by itself where it is not aligned, as generated functions do."""
        refuse = f"if ((uintptr_t){pointer} % 64) return 3;"
        body = f"{{ (void)workspace; (void)N; {refuse} *y = (uint64_t)x % 64; return 0; }}"
        return module(f"where_{pointer}", f"{prototype};\n", f"{prototype} {body}\n")

    kernel = compiled(
        where("x"), entry("where", "N", "in x: f32[1] align 64", "out y: u64[1]"), plan
    )
    base = np.zeros(64, np.float32)
    for start in range(20):
        for _ in range(2):
            assert kernel(x=base[start:]) == 0
    strict = entry("where", "N", "in x: f32[1]", "out y: u64[1] align 64")
    kernel = compiled(where("y"), strict, plan)
    aligned = kernel(x=base)
    kernel(x=base, y=aligned)
    for start in range(1, 8):
        off = np.zeros(16 + 64, np.uint64)
        place = -address(off) % 64 // 8 + start
        message = "argument 'y': expected an address that is a multiple of 64"
        with pytest.raises(ValueError, match=message):
            kernel(x=base, y=off[place : place + 1])


# ---------------------------------------------------------------- statuses


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (1, ValueError, "a size is"),
        (2, ValueError, "assumes N >= 1, N % 8 == 0"),
        (3, ValueError, "address is null or not aligned"),
        (4, ValueError, "shares memory"),
        (5, MemoryError, "no memory for the scratch"),
        (6, UnsupportedTarget, "processor lacks instructions"),
        (7, ValueError, "the workspace"),
        (99, RuntimeError, "unknown status 99"),
    ],
)
def test_statuses_become_exceptions(status: int, error: type[Exception], words: str) -> None:
    prototype = "int fails(int64_t status, void *workspace)"
    request = module(
        "fails", f"{prototype};\n", f"{prototype} {{ (void)workspace; return (int)status; }}\n"
    )
    which = entry("fails", "status", assumptions=("N >= 1", "N % 8 == 0"))
    kernel = compiled(request, which, Shapes())
    assert kernel(status=0) is None
    for _ in range(2):
        with pytest.raises(error, match=words):
            kernel(status=status)


def test_a_status_after_a_quick_call_is_told_too(rows: CompiledKernel) -> None:
    x, flag, seen = np.ones((101, 1), np.int32), np.ones(101, bool), np.zeros(2, np.int32)
    for _ in range(2):
        with pytest.raises(ValueError, match="do not satisfy the assumptions: it assumes M <= 100"):
            rows(x=x, flag=flag, seen=seen)


def test_an_entry_that_does_not_fit_the_function_is_a_defect(axpy: CompiledKernel) -> None:
    wrong = replace(AXPY_ENTRY, sizes=("N", "M"))
    with pytest.raises(ValueError, match="has 5 parameters, the entry says 6"):
        CompiledKernel(wrong, AXPY_SHAPES, axpy.library)


def test_memory_that_is_not_there_is_a_memory_error() -> None:
    prototype = "int wide(int64_t M, int64_t N, float *y, void *workspace)"
    request = module("wide", f"{prototype};\n", f"{prototype} {{ return M && N && y && 0; }}\n")
    kernel = compiled(request, entry("wide", "M N", "out y: f32[2]"), Shapes(y=("M", "N")))
    assert kernel(M=2, N=3).shape == (2, 3)
    with pytest.raises(MemoryError, match="wide: no memory for 'y' of shape"):
        kernel(M=2**39, N=2**39)


def test_results_are_ordinary_arrays() -> None:
    y = compiled(AXPY, AXPY_ENTRY, AXPY_SHAPES)(a=1.0, x=X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(y)), y)


def test_numbers_of_numpy_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = compiled(AXPY, AXPY_ENTRY, AXPY_SHAPES)
    x = np.arange(5, dtype=np.float32)
    kernel(a=1.0, x=x)
    with pytest.raises(TypeError, match="argument 'a': expected float32"):
        kernel(a=np.float64(2.0), x=x)
    monkeypatch.setattr(Checker, "bind", None)  # the full check would be seen
    for number in (np.float32(2.0), 2.0):
        np.testing.assert_array_equal(kernel(a=number, x=x), 2 * x + 1)


INTEGERS = module(
    "integers",
    "int integers(int8_t a, uint64_t b, uint8_t c, double d, double *y, void *w);\n",
    "int integers(int8_t a, uint64_t b, uint8_t c, double d, double *y, void *w) {\n"
    "  (void)w;\n"
    "  *y = a + (double)b + c + d;\n"
    "  return 0;\n"
    "}\n",
)


def test_numbers_of_every_type_are_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = ("in a: i8", "in b: u64", "in c: bool", "in d: f64")
    kernel = compiled(INTEGERS, entry("integers", "", *numbers, "out y: f64[0]"), Shapes())
    assert kernel(a=np.int8(-128), b=np.uint64(2**40), c=np.bool_(True), d=np.float64(0.5)) == (
        2**40 - 127 + 0.5
    )
    with pytest.raises(ValueError, match="argument 'a'"):
        kernel(a=128, b=0, c=False, d=0.0)
    with pytest.raises(TypeError, match="argument 'b'"):
        kernel(a=1, b=np.int64(3), c=False, d=0.0)
    monkeypatch.setattr(Checker, "bind", None)
    assert kernel(a=np.int8(7), b=np.uint64(2), c=True, d=np.float64(0.5)) == 10.5
    assert kernel(a=7, b=2, c=False, d=0.5) == 9.5
