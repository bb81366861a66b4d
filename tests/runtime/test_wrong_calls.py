"""Calls that a compiled kernel refuses, and in which words."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

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
        {"a": 1.0, "x": np.ma.array(X, mask=[False, True, False])},
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
    with pytest.raises(TypeError, match=r"axpy\(\) got multiple values for argument 'x'"):
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


def test_overlap_of_two_that_are_written() -> None:
    rows = compiled(ROWS, ROWS_ENTRY, ROWS_SHAPES)
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


def test_floats_must_fit() -> None:
    """What f32 rounds to infinity is refused; infinities and NaN are numbers of its own."""
    prototype = "int fill(int64_t N, float v, float *y, void *workspace)"
    body = "{ (void)workspace; for (int64_t i = 0; i < N; i++) y[i] = v; return 0; }\n"
    request = module("fill", f"{prototype};\n", f"{prototype} {body}")
    which = entry("fill", "N", "in v: f32", "out y: f32[1]")
    kernel = compiled(request, which, Shapes(y=("N",)))
    largest = float(np.finfo(np.float32).max)
    for _ in range(2):
        for good in (1, 0.5, largest, -largest, 3.4028235e38, np.inf, -np.inf, np.nan):
            np.testing.assert_array_equal(kernel(v=good, N=2), np.full(2, good, np.float32))
        for bad in (1e300, -1e39, float(2**128 - 2**103), 10**39):
            with pytest.raises(ValueError, match=r"a number of type f32, got .*beyond"):
                kernel(v=bad, N=2)
        with pytest.raises(ValueError, match="got an integer beyond its largest number"):
            kernel(v=10**400, N=2)


def test_bound_sizes_are_still_checked() -> None:
    which = replace(ROWS_ENTRY, bound=(("K", 64),))
    kernel = compiled(ROWS, which, ROWS_SHAPES)
    arrays: dict[str, Any] = {"x": np.ones((1, 1), np.int32), "flag": np.ones(1, bool)}
    kernel(**arrays, seen=np.zeros(2, np.int32), K=64)
    with pytest.raises(ValueError, match="size 'K': compiled for K = 64, got 32"):
        kernel(**arrays, seen=np.zeros(2, np.int32), K=32)
