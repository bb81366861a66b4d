"""Variants whose conditions ask about sizes: one compiled function picks at each call."""

import time

import numpy as np
import pytest

import tdsl
from tdsl import driver
from tdsl.built import Built
from tdsl.ir.types import F32
from tdsl.targets import target


@pytest.fixture(params=["c", "native"])
def fast(module: tdsl.Module, request: pytest.FixtureRequest) -> Built:
    with pytest.warns(tdsl.CompileWarning, match="for some sizes wide, low may hold"):
        return module["scale"].compile(target=request.param)


SIZES = {0: "low", 1: "low", 3: "low", 4: "", 63: "", 64: "wide", 1000: "wide"}


@pytest.mark.parametrize("size", SIZES)
def test_the_size_picks_the_variant(fast: Built, size: int) -> None:
    x = np.arange(size, dtype=np.float32)
    assert fast.variant(size) == fast.variant(N=size) == SIZES[size]
    for _ in range(3):
        assert (fast(x=x, a=1.0) == 3 * x + 1).all()


def test_one_source_has_all_variants(fast: Built) -> None:
    for name in ("scale_run_wide", "scale_run_low", "scale_run_as_written"):
        assert name in fast.c_source
    assert fast.workspace_bytes(100) == 0
    assert fast.header.count("int scale(") == 1


def test_the_schedule_is_all_of_them_with_their_conditions(fast: Built) -> None:
    text = str(fast.schedule)
    assert text.index("schedule scale.wide") < text.index("schedule scale.low")
    assert "when N >= 64" in text and "when N < 4" in text
    again = tdsl.parse(SCALE_KERNEL + text)["scale"]
    assert again.schedules == ("wide", "low")


SCALE_KERNEL = """
kernel scale(N) {
    in a: f32
    in x: f32[N]
    out y: f32[N]
    y[i] = 3.0 * x[i] + a
}
"""


def test_a_bound_size_decides_when_it_is_compiled(module: tdsl.Module) -> None:
    kernel = module["scale"].compile(target="c", sizes={"N": 100})
    assert kernel.variant() == "wide"
    assert "low" not in kernel.c_source


def test_a_name_overrides_the_condition(module: tdsl.Module) -> None:
    kernel = module["scale"].compile(target="c", schedule="wide")
    x = np.arange(2, dtype=np.float32)
    assert kernel.variant(2) == "wide"
    assert (kernel(x=x, a=0.0) == 3 * x).all()


@pytest.mark.filterwarnings("ignore::tdsl.CompileWarning")
def test_sizes_that_are_bound_leave_conditions() -> None:
    kernel = tdsl.parse(MATMUL, "mm.tdsl")["matmul"].compile(target="avx2", sizes={"N": 17, "K": 1})
    assert "tiled" not in kernel.c_source  # N is odd
    assert "if ((tdsl_wide)" not in kernel.c_source and "M * 17 <= 4096" in kernel.c_source
    assert [kernel.variant(m) for m in (0, 1, 240, 241)] == ["small", "row", "small", ""]


MATMUL = """
kernel matmul(M, N, K) {
    in A: f32[M, K]
    in B: f32[K, N]
    out C: f32[M, N]
    C[i, j] = sum[k](A[i, k] * B[k, j])
}
schedule matmul.row for any when M == 1 { reorder k, j  vectorize j }
schedule matmul.small for any when M * N * K <= 4096 { vectorize j }
schedule matmul.tiled for any when M >= 4 and N >= 2 * lanes(f32) and N % 2 == 0 {
    tile i, j by 4, 16 -> io, jo, ii, ji
    reorder io, jo, k, ii, ji
    unroll ii
    vectorize ji
}
"""


def expected_variant(m: int, n: int, k: int, lanes: int) -> str:
    """The table, as Python reads it."""
    if m == 1:
        return "row"
    if m * n * k <= 4096:
        return "small"
    return "tiled" if m >= 4 and n >= 2 * lanes and n % 2 == 0 else ""


@pytest.mark.filterwarnings("ignore::tdsl.CompileWarning")
def test_a_table_of_a_matrix_product() -> None:
    kernel = tdsl.parse(MATMUL, "mm.tdsl")["matmul"].compile(target="native")
    lanes = target("native").lanes(F32)
    rng = np.random.default_rng(0)
    reached = set()
    shapes = [(m, n, k) for m in (0, 1, 2, 4, 7) for n in (0, 1, 33, 34, 70) for k in (0, 1, 40)]
    for m, n, k in [*shapes, (1, 4096, 1), (2, 2048, 1), (2, 2048, 2), (64, 64, 1), (64, 64, 2)]:
        a = rng.integers(-3, 4, (m, k)).astype(np.float32)
        b = rng.integers(-3, 4, (k, n)).astype(np.float32)
        np.testing.assert_array_equal(kernel(A=a, B=b), a @ b)
        assert kernel.variant(m, n, k) == expected_variant(m, n, k, lanes)
        reached.add(kernel.variant(m, n, k))
    assert reached == {"row", "small", "tiled", ""}


@pytest.mark.filterwarnings("ignore::tdsl.CompileWarning")
def test_products_of_sizes_do_not_overflow() -> None:
    kernel = tdsl.parse(MATMUL, "mm.tdsl")["matmul"].compile(target="c")
    most = 2**40 - 1
    assert kernel.variant(most, most, most) == ""  # odd
    assert kernel.variant(2, 2**32, 2**32) == ""  # 2^65, which is 0 in 64 bits
    assert kernel.variant(4, 2**39, 2**39) == "tiled"
    assert kernel.variant(0, most, most) == "small"


def test_many_variants_compile_in_seconds() -> None:
    start = time.process_time()
    file = tdsl.parse(MATMUL, "mm.tdsl").file
    options = driver.Options("matmul", target("avx2"))
    parts = driver.complete(driver.run(file, options, until="variant"))
    driver.emit("mm", parts)
    assert [p.label for p in parts] == ["row", "small", "tiled", ""]
    assert time.process_time() - start < 4


CONDITION = """
kernel tail(N) {
    in x: f32[N]
    out y: f32[N]
    y[i] = 2.0 * x[i]
}
schedule tail.whole for any when N % 8 == 0 and N * N >= 64 { vectorize i by 8 }
schedule tail.rest for any { vectorize i by 8 }
"""


def test_the_affine_part_of_a_condition_is_assumed() -> None:
    file = tdsl.parse(CONDITION, "tail.tdsl").file
    options = driver.Options("tail", target("avx2"))
    whole, rest = driver.complete(driver.run(file, options, until="variant"))
    assert len(whole.program.kernel.assumptions) == 1  # N * N is not affine
    assert whole.kernel.assumptions == rest.program.kernel.assumptions == ()
    source = driver.emit("tail", [whole, rest]).c_source
    runs = source.split("tail_run_")
    assert "maskload" not in runs[1] and "maskload" in runs[2]  # whole has no rest, rest has one
    kernel = tdsl.parse(CONDITION, "tail.tdsl")["tail"].compile(target="native")
    for n in (0, 4, 8, 9, 16, 24, 25):
        x = np.arange(n, dtype=np.float32)
        assert kernel.variant(n) == ("whole" if n % 8 == 0 and n >= 8 else "rest")
        np.testing.assert_array_equal(kernel(x=x), 2 * x)


def test_a_variant_that_is_refused_is_named() -> None:
    text = CONDITION.replace(
        "N % 8 == 0 and N * N >= 64 { vectorize i by 8 }", "N > 9 { parallel k }"
    )
    with pytest.raises(tdsl.IllegalSchedule, match="in the schedule whole, which the sizes of a"):
        tdsl.parse(text, "tail.tdsl")["tail"].compile(target="c")


def test_knobs_go_to_the_variants_that_have_them() -> None:
    text = CONDITION.replace(
        "{ vectorize i by 8 }\nschedule", "{ let F = tune(4, 8) vectorize i by F }\nschedule"
    )
    kernel = tdsl.parse(text, "tail.tdsl")["tail"]
    assert "vectorize i by 8" in kernel.compile(target="c", knobs={"F": 8}).schedule
    with pytest.raises(tdsl.IllegalSchedule, match="no knob G"):
        kernel.compile(target="c", knobs={"G": 8})


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("N + 1", "`when` wants a condition"),
        ("N >= 1.5", "compares sizes with integers"),
        ("N * N * N * N >= 2", "beyond 2^126"),
    ],
)
def test_conditions_that_no_call_can_test(condition: str, message: str) -> None:
    text = CONDITION.replace("N % 8 == 0 and N * N >= 64", condition)
    with pytest.raises(tdsl.IllegalSchedule, match=message.replace("^", r"\^")):
        tdsl.parse(text, "tail.tdsl")["tail"].compile(target="c")
