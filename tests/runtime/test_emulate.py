"""Kernels for another processor, run under the emulator."""

import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tdsl.diagnostics import ToolchainError, UnsupportedTarget
from tdsl.runtime.emulate import EmulatedKernel, Program, build_program
from tdsl.runtime.interface import BuildRequest, Entry
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

pytestmark = pytest.mark.neon


def program(request: BuildRequest, *entries: Entry) -> Program:
    return build_program(replace(request, machine="aarch64"), entries)


@pytest.fixture
def axpy() -> EmulatedKernel:
    return EmulatedKernel(AXPY_ENTRY, AXPY_SHAPES, program(AXPY, AXPY_ENTRY), schedule="plain")


@pytest.mark.parametrize("n", [0, 1, 7, 100])
def test_it_computes_what_the_compiled_kernel_does(axpy: EmulatedKernel, n: int) -> None:
    x = np.arange(n, dtype=np.float32)
    y = np.full(n, np.nan, np.float32)
    assert axpy(a=2.0, x=x, y=y) is y
    np.testing.assert_array_equal(y, 2 * x + 1)
    np.testing.assert_array_equal(axpy(3.0, x), 3 * x + 1)


def test_it_is_called_and_asked_alike(axpy: EmulatedKernel) -> None:
    assert axpy.workspace_bytes(10) == 40
    assert axpy.variant(8) == "narrow" and axpy.variant(N=9) == "wide"
    assert axpy.c_source == AXPY.c_source and axpy.header == AXPY.header
    assert axpy.schedule == "plain" and axpy.library_path.endswith("axpy.elf")
    assert ".arch armv8-a" in axpy.assembly
    assert repr(axpy) == "<emulated kernel axpy(a, x, y) for aarch64>"


def test_every_kind_of_argument() -> None:
    """Against the same C on this machine."""
    emulated = EmulatedKernel(ROWS_ENTRY, ROWS_SHAPES, program(ROWS, ROWS_ENTRY))
    native = compiled(ROWS, ROWS_ENTRY, ROWS_SHAPES)
    x = np.arange(12, dtype=np.int32).reshape(3, 4).T
    flag = np.array([True, False, True, True])
    results = []
    for kernel in (emulated, native):
        seen = np.array([5, 6], np.int32)
        results.append((*kernel(x=x, flag=flag, seen=seen), seen))
    for got, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"a": 1.0}, TypeError, "missing argument 'x'"),
        ({"a": 1.0, "x": np.ones(2)}, TypeError, "'x': expected float32 array"),
        ({"a": 1.0, "x": np.ones((2, 2), np.float32)}, ValueError, "'x': expected 1 dimension"),
    ],
)
def test_wrong_arguments_are_refused_alike(
    axpy: EmulatedKernel, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        axpy(**arguments)


def test_statuses_become_exceptions() -> None:
    kernel = EmulatedKernel(ROWS_ENTRY, ROWS_SHAPES, program(ROWS, ROWS_ENTRY))
    x, flag, seen = np.ones((101, 1), np.int32), np.ones(101, bool), np.zeros(2, np.int32)
    with pytest.raises(ValueError, match="it assumes M <= 100"):
        kernel(x=x, flag=flag, seen=seen)


def test_numbers_by_value() -> None:
    for elem, kind, value, expected in [
        ("f64", "double", 1.1, 1.1),
        ("f16", "uint16_t", 1.5, float(np.float16(1.5).view(np.uint16))),
        ("bf16", "uint16_t", 1.0, float(0x3F80)),
        ("i8", "int8_t", -128, -128.0),
        ("bool", "uint8_t", True, 1.0),
    ]:
        prototype = f"int put({kind} v, double *y, void *workspace)"
        request = module(
            "put", f"{prototype};\n", f"{prototype} {{ (void)workspace; *y = v; return 0; }}\n"
        )
        which = entry("put", "", f"in v: {elem}", "out y: f64[0]")
        kernel = EmulatedKernel(which, Shapes(), program(request, which))
        assert kernel(v=value) == expected, elem


TWO = module(
    "two",
    "int first(int64_t N, const float *x, float *y, void *workspace);\n"
    "int second(int64_t N, const float *x, float *y, void *workspace);\n",
    "int first(int64_t N, const float *x, float *y, void *workspace) {\n"
    "  (void)workspace; for (int64_t i = 0; i < N; i++) y[i] = x[i + 1]; return 0; }\n"
    "int second(int64_t N, const float *x, float *y, void *workspace) {\n"
    "  (void)workspace; for (int64_t i = 0; i <= N; i++) y[i] = x[i < N ? i : 0]; return 0; }\n",
)
TWO_ENTRIES = tuple(
    entry(name, "N", "in x: f32[1]", "out y: f32[1]") for name in ("first", "second")
)


@pytest.mark.parametrize("which", TWO_ENTRIES, ids=["reads", "writes"])
def test_one_element_too_far_is_noticed(which: Entry) -> None:
    kernel = EmulatedKernel(which, Shapes(x=("N",), y=("N",)), program(TWO, *TWO_ENTRIES))
    for n in (1, 3, 1024):
        with pytest.raises(RuntimeError, match=r"ended by SIGSEGV .*an access outside an array"):
            kernel(x=np.ones(n, np.float32))


DOT = module(
    "dots",
    "int dots(const int8_t *a, const int8_t *b, int32_t *y, void *workspace);\n",
    "#include <arm_neon.h>\n"
    "int dots(const int8_t *a, const int8_t *b, int32_t *y, void *workspace) {\n"
    "  (void)workspace;\n"
    "  vst1q_s32(y, vdotq_s32(vdupq_n_s32(0), vld1q_s8(a), vld1q_s8(b)));\n"
    "  return 0;\n"
    "}\n",
    flags=("-O1", "-march=armv8.2-a+dotprod"),
)
DOT_ENTRY = entry("dots", "", "in a: i8[1]", "in b: i8[1]", "out y: i32[1]")
DOT_SHAPES = Shapes(a=(16,), b=(16,), y=(4,))


def test_extensions_run_on_the_best_processor_and_are_refused_on_an_older_one() -> None:
    built = program(DOT, DOT_ENTRY)
    a = np.arange(-8, 8, dtype=np.int8)
    b = np.arange(16, dtype=np.int8)[::-1]
    y = EmulatedKernel(DOT_ENTRY, DOT_SHAPES, built)(a=a, b=b)
    products = a.astype(np.int32) * b.astype(np.int32)
    np.testing.assert_array_equal(y, products.reshape(4, 4).sum(axis=1))
    old = EmulatedKernel(DOT_ENTRY, DOT_SHAPES, built, processor="cortex-a57")
    with pytest.raises(UnsupportedTarget, match="'cortex-a57' lacks instructions that dots"):
        old(a=a, b=b)


def test_threads_of_openmp() -> None:
    request = module(
        "threads",
        "int threads(int64_t N, int64_t *y, void *workspace);\n",
        "int threads(int64_t N, int64_t *y, void *workspace) {\n"
        "  (void)workspace;\n"
        "#pragma omp parallel for\n"
        "  for (int64_t i = 0; i < N; i++) y[i] = i * i;\n"
        "  return 0;\n"
        "}\n",
        openmp=True,
    )
    which = entry("threads", "N", "out y: i64[1]")
    kernel = EmulatedKernel(which, Shapes(y=("N",)), program(request, which))
    np.testing.assert_array_equal(kernel(N=100), np.arange(100) ** 2)


def test_the_program_is_kept() -> None:
    first, second = program(AXPY, AXPY_ENTRY), program(AXPY, AXPY_ENTRY)
    assert first == second
    other = program(AXPY, replace(AXPY_ENTRY, variant=None))
    assert other.path != first.path  # another program around the same module


def test_a_missing_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    which = shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda name: None if name.startswith("qemu") else which(name)
    )
    with pytest.raises(ToolchainError, match="no emulator for aarch64 was found") as caught:
        program(AXPY, AXPY_ENTRY)
    assert "help: apt-get install qemu-user" in str(caught.value)


def test_an_unknown_processor_model(axpy: EmulatedKernel) -> None:
    kernel = EmulatedKernel(AXPY_ENTRY, AXPY_SHAPES, axpy.program, processor="no-such")
    with pytest.raises(ToolchainError, match="failed with status"):
        kernel(a=1.0, x=np.ones(1, np.float32))
