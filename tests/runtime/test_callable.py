"""What calls of a compiled kernel give back, and what they refuse."""

import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tdsl.diagnostics import UnsupportedTarget
from tdsl.runtime.arguments import ALIGNMENT, address
from tdsl.runtime.callable import REMEMBERED, CompiledKernel
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
    request = module(
        "where",
        f"{prototype};\n",
        f"{prototype} {{ (void)workspace; (void)N; *y = (uint64_t)x % 64; return 0; }}\n",
    )
    plan = Shapes(x=("N",), y=(1,))
    kernel = compiled(request, entry("where", "N", "in x: f32[1] align 64", "out y: u64[1]"), plan)
    base = np.zeros(64, np.float32)
    for start in range(20):
        for _ in range(2):
            assert kernel(x=base[start:]) == 0
    strict = entry("where", "N", "in x: f32[1]", "out y: u64[1] align 64")
    kernel = CompiledKernel(strict, plan, kernel.library)
    aligned = kernel(x=base)
    kernel(x=base, y=aligned)
    for start in range(1, 8):
        off = np.zeros(16 + 64, np.uint64)
        place = -address(off) % 64 // 8 + start
        message = "argument 'y': expected an address that is a multiple of 64"
        with pytest.raises(ValueError, match=message):
            kernel(x=base, y=off[place : place + 1])


# ---------------------------------------------------------------- wrong calls

X = np.ones(3, np.float32)
READ_ONLY = np.ones(3, np.float32)
READ_ONLY.flags.writeable = False
MISALIGNED = np.zeros(13, np.uint8)[1:].view(np.float32)

WRONG = [
    # arguments, error, message
    ({}, TypeError, "axpy: missing arguments 'a', 'x'"),
    ({"a": 1.0}, TypeError, "axpy: missing argument 'x'"),
    ({"a": 1.0, "x": None}, TypeError, "axpy: missing argument 'x'"),
    ({"a": 1.0, "xx": X}, TypeError, "axpy: there is no argument 'xx'; did you mean 'x'?"),
    (
        {"a": 1.0, "x": X, "weights": X},
        TypeError,
        "axpy: there is no argument 'weights'; it has a, x, y, N",
    ),
    (
        {"a": 1.0, "x": X.astype(np.float64)},
        TypeError,
        "axpy: argument 'x': expected float32 array of 1 dimension, got float64",
    ),
    (
        {"a": 1.0, "x": X.astype(np.int32)},
        TypeError,
        "axpy: argument 'x': expected float32 array of 1 dimension, got int32",
    ),
    (
        {"a": 1.0, "x": X.astype(">f4")},
        TypeError,
        "axpy: argument 'x': expected float32 array of 1 dimension, got >f4 of the other byte "
        "order; x.astype(x.dtype.newbyteorder('=')) has this machine's",
    ),
    (
        {"a": 1.0, "x": [1.0, 2.0]},
        TypeError,
        "axpy: argument 'x': expected float32 array of 1 dimension, got a value of type list; "
        "np.asarray(..., dtype=np.float32) makes one",
    ),
    (
        {"a": 1.0, "x": np.ma.array(X, mask=[0, 1, 0])},
        TypeError,
        "axpy: argument 'x': expected float32 array of 1 dimension, got a masked array; "
        "np.asarray(..., dtype=np.float32) makes one",
    ),
    (
        {"a": 1.0, "x": X, "y": [0.0] * 3},
        TypeError,
        "axpy: argument 'y': expected float32 array of 1 dimension, got a value of type list",
    ),
    (
        {"a": 1.0, "x": X.reshape(3, 1)},
        ValueError,
        "axpy: argument 'x': expected 1 dimension, got 2, of shape (3, 1)",
    ),
    (
        {"a": 1.0, "x": X, "y": np.zeros(4, np.float32)},
        ValueError,
        "argument 'y': expected N = 3, got 4",
    ),
    ({"a": 1.0, "x": X, "N": 4}, ValueError, "argument 'x': expected N = 4, got 3"),
    ({"a": 1.0, "x": X, "N": -1}, ValueError, "axpy: size 'N': expected 0 <= N < 2^40, got -1"),
    (
        {"a": 1.0, "x": X, "N": 2**40},
        ValueError,
        f"axpy: size 'N': expected 0 <= N < 2^40, got {2**40}",
    ),
    ({"a": 1.0, "x": X, "N": 3.0}, TypeError, "axpy: size 'N': expected an integer, got 3.0"),
    (
        {"a": "1", "x": X},
        TypeError,
        "axpy: argument 'a': expected a number of type f32, got a value of type str",
    ),
    (
        {"a": True, "x": X},
        TypeError,
        "axpy: argument 'a': expected a number of type f32, got True",
    ),
    (
        {"a": np.float64(1), "x": X},
        TypeError,
        "axpy: argument 'a': expected float32 array of 0 dimensions, got float64",
    ),
    (
        {"a": X, "x": X},
        ValueError,
        "axpy: argument 'a': expected 0 dimensions, got 1, of shape (3,)",
    ),
    (
        {"a": 1.0, "x": X, "y": READ_ONLY},
        ValueError,
        "axpy: argument 'y': expected an array that may be written, got a read-only one",
    ),
    (
        {"a": 1.0, "x": X, "y": np.zeros(6, np.float32)[::2]},
        ValueError,
        "axpy: argument 'y': expected a C-contiguous array, since it is written, "
        "got strides (8,) with shape (3,)",
    ),
    (
        {"a": 1.0, "x": X, "y": np.zeros(3, np.float32)[::-1]},
        ValueError,
        "axpy: argument 'y': expected a C-contiguous array, since it is written, "
        "got strides (-4,) with shape (3,)",
    ),
    (
        {"a": 1.0, "x": X, "y": np.broadcast_to(np.float32(0), (3,))},
        ValueError,
        "axpy: argument 'y': expected an array that may be written, got a read-only one",
    ),
    (
        {"a": 1.0, "x": X, "y": MISALIGNED},
        ValueError,
        "axpy: argument 'y': expected an address that is a multiple of 4, since it is written, "
        f"got {MISALIGNED.__array_interface__['data'][0]:#x}",
    ),
    (
        {"a": 1.0, "x": X, "y": X},
        ValueError,
        "axpy: arguments 'y' and 'x': expected arrays apart in memory, since 'y' is written, "
        "got 12 bytes that they share",
    ),
]


@pytest.mark.parametrize("warm", [False, True], ids=["first", "later"])
@pytest.mark.parametrize(("arguments", "error", "message"), WRONG)
def test_wrong_arguments(
    arguments: dict[str, Any], error: type[Exception], message: str, warm: bool
) -> None:
    """The same words whether or not calls of that shape went well before."""
    kernel = compiled(AXPY, AXPY_ENTRY, AXPY_SHAPES)
    if warm:
        kernel(a=1.0, x=X)
        kernel(a=1.0, x=X, y=np.zeros(3, np.float32))
    with pytest.raises(error) as caught:
        kernel(**arguments)
    assert str(caught.value) == message


def test_wrong_positions() -> None:
    kernel = compiled(AXPY, AXPY_ENTRY, AXPY_SHAPES)
    with pytest.raises(TypeError, match=r"axpy: takes 3 arguments \(a, x, y\), got 4"):
        kernel(1.0, X, None, None)
    with pytest.raises(TypeError, match="axpy: argument 'x' is given twice"):
        kernel(1.0, X, x=X)


def test_a_stride_of_zero_in_an_output_is_refused() -> None:
    kernel = compiled(AXPY, AXPY_ENTRY, AXPY_SHAPES)
    one = np.zeros(1, np.float32)
    y = np.lib.stride_tricks.as_strided(one, (3,), (0,), writeable=True)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"C-contiguous.*strides \(0,\)"):
            kernel(a=1.0, x=X, y=y)
    assert one[0] == 0


@pytest.mark.parametrize("shift", range(-4, 5))
def test_overlap_is_exactly_shared_bytes(shift: int) -> None:
    kernel = compiled(AXPY, AXPY_ENTRY, AXPY_SHAPES)
    base = np.zeros(12, np.float32)
    x, y = base[4:7], base[4 + shift : 7 + shift]
    kernel(a=1.0, x=X, y=np.zeros(3, np.float32))
    for _ in range(2):
        if abs(shift) < 3:
            with pytest.raises(ValueError, match="'y' and 'x': expected arrays apart"):
                kernel(a=1.0, x=x, y=y)
            assert (base == 0).all()
        else:
            kernel(a=1.0, x=x, y=y)
            assert (y == 1).all()
            y[...] = 0


def test_overlap_of_two_that_are_written(rows: CompiledKernel) -> None:
    memory = np.zeros(4, np.int64)
    x, flag = np.ones((2, 1), np.int32), np.ones(2, bool)
    seen = np.zeros(2, np.int32)
    for _ in range(2):
        with pytest.raises(ValueError, match="'sums' and 'seen': expected arrays apart"):
            rows(x=x, flag=flag, sums=memory[:2], seen=memory[1:2].view(np.int32))
        with pytest.raises(ValueError, match="'sums' and 'total'"):
            rows(x=x, flag=flag, sums=memory[:2], total=memory[1:2].reshape(()), seen=seen)
        rows(x=x, flag=flag, sums=memory[:2], total=memory[2:3].reshape(()), seen=seen)
    empty = np.zeros((0, 1), np.int32)
    rows(x=empty, flag=flag[:0], sums=memory[:0], total=memory[:1].reshape(()), seen=seen)


def test_inputs_may_share_memory() -> None:
    prototype = "int add(int64_t N, const float *a, const float *b, float *y, void *workspace)"
    body = "{ (void)workspace; for (int64_t i = 0; i < N; i++) y[i] = a[i] + b[i]; return 0; }\n"
    request = module("add", f"{prototype};\n", f"{prototype} {body}")
    which = entry("add", "N", "in a: f32[1]", "in b: f32[1]", "out y: f32[1]")
    kernel = compiled(request, which, Shapes(a=("N",), b=("N",), y=("N",)))
    for _ in range(2):
        np.testing.assert_array_equal(kernel(a=X, b=X), [2, 2, 2])


def test_integers_must_fit() -> None:
    prototype = "int fill(int64_t N, int8_t v, int8_t *y, void *workspace)"
    body = "{ (void)workspace; for (int64_t i = 0; i < N; i++) y[i] = v; return 0; }\n"
    request = module("fill", f"{prototype};\n", f"{prototype} {body}")
    which = entry("fill", "N", "in v: i8", "out y: i8[1]")
    kernel = compiled(request, which, Shapes(y=("N",)))
    for _ in range(2):
        np.testing.assert_array_equal(kernel(v=-128, N=2), [-128, -128])
        with pytest.raises(ValueError, match="'v': expected a number of type i8, got 128, which"):
            kernel(v=128, N=2)
        with pytest.raises(TypeError, match=r"'v': expected a number of type i8, got 1\.0"):
            kernel(v=1.0, N=2)
    with pytest.raises(ValueError, match="size 'N' is not determined"):
        kernel(v=1)


def test_bound_sizes_are_still_checked() -> None:
    which = replace(ROWS_ENTRY, bound=(("K", 64),))
    kernel = compiled(ROWS, which, ROWS_SHAPES)
    arrays: dict[str, Any] = {"x": np.ones((1, 1), np.int32), "flag": np.ones(1, bool)}
    kernel(**arrays, seen=np.zeros(2, np.int32), K=64)
    with pytest.raises(ValueError, match="size 'K': compiled for K = 64, got 32"):
        kernel(**arrays, seen=np.zeros(2, np.int32), K=32)


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
