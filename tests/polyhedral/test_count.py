"""Instances are counted as a loop over them would."""

import pytest

from tdsl import driver
from tdsl.operations import work
from tdsl.polyhedral.count import instances
from tdsl.syntax.parser import parse
from tdsl.targets import TARGETS

TRIANGLE = """
kernel lu(N) {
    inout a: f32[N, N]

    for k in 0..N, i in k + 1..N {
        a[i, k] = a[i, k] / a[k, k]
        for j in k + 1..N { a[i, j] -= a[i, k] * a[k, j] }
    }
}
"""
CONVOLUTION = """
kernel conv(H, W, C, K) {
    in  x: f32[H + 2, W + 2, C]
    in  w: f32[3, 3, C, K]
    out y: f32[H, W, K]

    y[p, q, k] = sum[r, s, c](x[p + r, q + s, c] * w[r, s, c, k])
}
"""
STRIDED = """
kernel every(N) {
    inout a: f64[N]

    for i in 0..N step 3 { a[i] = exp(a[i]) + 1.0 }
}
"""


def compilation(text: str) -> driver.Compilation:
    file = parse(text, "count.tdsl")
    (kernel,) = (item.name for item in file.items if hasattr(item, "name"))
    return driver.run(file, driver.Options(kernel, TARGETS["c"]), until="program")


@pytest.mark.parametrize("n", [0, 1, 2, 7, 40])
def test_a_triangle(n: int) -> None:
    found = instances(compilation(TRIANGLE).program, {"N": n})
    assert found["a_1"] == sum(1 for k in range(n) for _ in range(k + 1, n))
    assert found["a_2"] == sum((n - k - 1) ** 2 for k in range(n))


def test_a_large_box_costs_nothing() -> None:
    sizes = {"H": 4096, "W": 4096, "C": 1024, "K": 1024}
    found = instances(compilation(CONVOLUTION).program, sizes)
    assert found["y"] == 4096 * 4096 * 1024 * 1024 * 9


@pytest.mark.parametrize("n", [0, 1, 3, 4, 100])
def test_steps(n: int) -> None:
    assert instances(compilation(STRIDED).program, {"N": n})["a"] == len(range(0, n, 3))


def test_operations_are_those_on_data() -> None:
    sizes = {"H": 8, "W": 6, "C": 5, "K": 4}
    found = work(compilation(CONVOLUTION).program, sizes)
    assert found.operations == {"f32": 2 * 8 * 6 * 5 * 4 * 9}
    assert found.bytes == 4 * (10 * 8 * 5 + 9 * 5 * 4 + 8 * 6 * 4)
    found = work(compilation(STRIDED).program, {"N": 30})
    assert found.operations == {"f64": 2 * 10}
    assert found.bytes == 2 * 8 * 30  # read and written
    found = work(compilation(TRIANGLE).program, {"N": 3})
    assert found.operations == {"f32": 3 + 2 * 5}
