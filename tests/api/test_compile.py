"""Compiled kernels from Python: options, schedules of both kinds, warnings, targets."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tdsl
from tdsl.targets import TARGETS, native, runnable

HERE = [name for name in TARGETS if runnable(TARGETS[name]) is None]


def pair(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Small integers, so that sums are exact in any order."""
    generator = np.random.default_rng(m * 100 + n * 10 + k)
    a = generator.integers(-9, 9, (m, k)).astype(np.float32)
    return a, generator.integers(-9, 9, (k, n)).astype(np.float32)


@pytest.mark.parametrize("target", [*HERE, pytest.param("neon", marks=pytest.mark.neon)])
def test_a_call_on_every_target(module: tdsl.Module, target: str) -> None:
    fast = module["matmul"].compile(target=target)
    for sizes in ((1, 1, 1), (4, 32, 3), (5, 33, 7), (0, 3, 2), (3, 4, 0)):
        a, b = pair(*sizes)
        assert (fast(A=a, B=b) == a @ b).all()


def test_native_is_the_default(module: tdsl.Module) -> None:
    fast = module["matmul"].compile()
    assert f" for {native().name} {{" in fast.schedule or native().name == "c"


def test_the_result_is_written_into_out(module: tdsl.Module) -> None:
    a, b = pair(3, 5, 2)
    c = np.full((3, 5), np.nan, np.float32)
    fast = module["matmul"].compile(target="c")
    assert fast(A=a, B=b, C=c) is c
    assert (c == a @ b).all()


def test_several_outputs_are_a_named_tuple(module: tdsl.Module) -> None:
    x, z = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    with pytest.warns(tdsl.CompileWarning):
        fast = module["several"].compile(target="c")
    result = fast(x=x, z=z, T=3)
    assert (result.s, result.steps) == (6.0, 3)
    assert (z == x).all()


def test_texts_of_a_compiled_kernel(module: tdsl.Module) -> None:
    fast = module["matmul"].compile(target="c")
    assert "matmul(" in fast.header
    assert '#include "programs.h"' in fast.c_source
    assert "matmul" in fast.assembly
    assert Path(fast.library_path).is_file()
    assert fast.workspace_bytes(1, 2, 3) == 0
    assert fast.variant(1, 2, 3) == "rows"
    assert fast.schedule == "schedule matmul.rows for c {\n    reorder i, k, j\n}"


def test_a_schedule_text_can_be_pasted(module: tdsl.Module) -> None:
    fast = module["matmul"].compile(target=HERE[-1], schedule=None)
    kernel = "kernel matmul(M, N, K) { in A: f32[M, K] in B: f32[K, N] out C: f32[M, N]\n"
    text = kernel + "C[i, j] = sum[k](A[i, k] * B[k, j]) }\n" + fast.schedule
    assert tdsl.parse(text)["matmul"].compile(target=HERE[-1]).schedule == fast.schedule


def test_bound_sizes_leave_the_signature_and_are_checked(module: tdsl.Module) -> None:
    fast = module["matmul"].compile(target="c", sizes={"K": 2})
    assert "int64_t K" not in fast.header
    a, b = pair(3, 5, 2)
    assert (fast(A=a, B=b) == a @ b).all()
    a, b = pair(3, 5, 4)
    with pytest.raises(ValueError, match="2"):
        fast(A=a, B=b)


def test_constants_and_types(module: tdsl.Module) -> None:
    x = np.arange(100, dtype=np.float64)
    fast = module["scale"].compile(target="c", constants={"by": 7, "T": "f64"}, schedule="wide")
    assert (fast(x=x, a=0.5) == 7 * x + 0.5).all()


def test_knobs(module: tdsl.Module) -> None:
    target = next((t for t in HERE if t != "c"), None)
    if target is None:
        pytest.skip("no vector target runs here")
    two = module["matmul"].compile(target=target, knobs={"MR": 2})
    assert "tile i, j by 2," in two.schedule
    assert "tile i, j by 4," in module["matmul"].compile(target=target).schedule
    a, b = pair(5, 33, 7)
    assert (two(A=a, B=b) == a @ b).all()


def test_strict_fp_is_bit_for_bit(module: tdsl.Module) -> None:
    generator = np.random.default_rng(3)
    a = generator.standard_normal((9, 50), np.float32)
    b = generator.standard_normal((50, 40), np.float32)
    fast = module["matmul"].compile(target=HERE[-1], strict_fp=True)
    assert fast(A=a, B=b).tobytes() == module["matmul"].reference(A=a, B=b).tobytes()


def test_a_variant_by_name(module: tdsl.Module) -> None:
    assert module["matmul"].compile(schedule="rows", target="c").variant(1, 1, 1) == "rows"
    with pytest.raises(tdsl.IllegalSchedule, match="no schedule named tield"):
        module["matmul"].compile(schedule="tield")
    with pytest.raises(tdsl.IllegalSchedule, match="not for c"):
        module["matmul"].compile(schedule="tiled", target="c")


def test_unknown_things_are_refused(module: tdsl.Module) -> None:
    kernel = module["scale"]
    with pytest.raises(tdsl.UnsupportedTarget, match="there is no target 'avx3'"):
        kernel.compile(target="avx3")
    with pytest.raises(tdsl.ParseError, match="has no constant `bye`"):
        kernel.compile(constants={"bye": 1})
    with pytest.raises(tdsl.Error, match="Q"):
        kernel.compile(sizes={"Q": 1})


# ---------------------------------------------------------------- schedules by methods


def test_a_schedule_by_methods(module: tdsl.Module) -> None:
    s = module["matmul"].schedule(target="c", variant="mine")
    s.tile("i", "j", by=(4, 8), into=("io", "jo", "ii", "ji"))
    s.reorder("io", "jo", "k", "ii", "ji")
    s.vectorize("ji")
    text = str(s)
    assert text.startswith(
        "schedule matmul.mine for c {\n    tile i, j by 4, 8 -> io, jo, ii, ji\n"
    )
    fast = module["matmul"].compile(schedule=s)
    assert fast.schedule == text
    a, b = pair(6, 13, 5)
    assert (fast(A=a, B=b) == a @ b).all()


def test_a_schedule_brings_its_target_sizes_and_constants(module: tdsl.Module) -> None:
    s = module["scale"].schedule(target="c", sizes={"N": 16}, constants={"by": 2})
    s.use("by_eight", "y", "i")
    fast = module["scale"].compile(schedule=s)
    x = np.arange(16, dtype=np.float32)
    assert (fast(x=x, a=0.0) == 2 * x).all()
    with pytest.raises(ValueError, match="16"):
        fast(x=x[:4].copy(), a=0.0)


def test_an_illegal_directive_leaves_the_schedule_as_it_was() -> None:
    scan = tdsl.parse("kernel scan(N) { inout a: f32[N] for i in 1..N { a[i] += a[i - 1] } }")
    s = scan["scan"].schedule(target="c")
    before = str(s)
    with pytest.raises(tdsl.IllegalSchedule) as caught:
        s.reverse("i")
    assert str(s) == before
    (violation,) = caught.value.violations[:1]
    assert (violation.kind, violation.source, violation.sink) == ("order", "a", "a")
    assert violation.witness is not None


def test_a_schedule_of_another_kernel_is_refused(module: tdsl.Module) -> None:
    with pytest.raises(ValueError, match="this schedule is for scale, not for matmul"):
        module["matmul"].compile(schedule=module["scale"].schedule(target="c"))


# ---------------------------------------------------------------- what is told


def test_the_program_s_own_order_is_told(module: tdsl.Module) -> None:
    with pytest.warns(tdsl.CompileWarning, match="step has no schedule") as caught:
        fast = module["step"].compile(target="c")
    assert caught[0].filename == __file__
    assert fast.schedule == ""


def test_a_schedule_that_holds_is_no_warning(module: tdsl.Module) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module["matmul"].compile(target="c")


def test_a_foreign_target_without_tools_can_be_read(
    module: tdsl.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = next(n for n in ("neon", "avx2") if "aarch64" in (runnable(TARGETS[n]) or "x86_64"))
    if runnable(TARGETS[foreign]) is None:
        pytest.skip("every target runs here")
    monkeypatch.setenv("PATH", "/nowhere")
    read = module["matmul"].compile(target=foreign)
    assert "matmul(" in read.c_source
    assert "tile i, j by 4," in read.schedule
    for use in (read, read.variant, read.workspace_bytes):
        with pytest.raises(tdsl.UnsupportedTarget, match="matmul cannot run here"):
            use(1, 2, 3)


@pytest.mark.parametrize("value", ["3", 3.0, True, None])
def test_a_size_that_is_no_integer_is_refused(module: tdsl.Module, value: object) -> None:
    with pytest.raises(TypeError, match="size 'M': expected an integer"):
        module["matmul"].compile(sizes={"M": value})  # type: ignore[dict-item]


def test_sizes_are_a_mapping(module: tdsl.Module) -> None:
    with pytest.raises(TypeError, match="sizes: expected a dict"):
        module["matmul"].compile(sizes=(3, 4))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": 3}, "target: expected a name such as 'avx2', got 3"),
        ({"schedule": 5}, "schedule: expected the name of a variant or a schedule made by methods"),
    ],
)
def test_options_of_a_wrong_type(
    module: tdsl.Module, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        module["matmul"].compile(**options)


def test_a_schedule_for_a_target_of_a_wrong_type(module: tdsl.Module) -> None:
    target: Any = 3
    with pytest.raises(TypeError, match="target: expected a name"):
        module["matmul"].schedule(target)


def test_a_constant_where_there_is_none(module: tdsl.Module) -> None:
    with pytest.raises(tdsl.ParseError, match="has no constant `Z`") as refused:
        module["matmul"].compile(constants={"Z": 3})
    assert refused.value.diagnostics[0].help == "it has no constants"
