"""Names of kernels that C, its library or Python's headers have taken."""

from __future__ import annotations

import numpy as np
import pytest

import tdsl
from tdsl.codegen.names import Names

COPY = """
kernel %s(N) {
    in  x: f32[N]
    out y: f32[N]
    y[i] = 2.0 * x[i]
}
schedule %s for any { vectorize i }
"""

# Sums that round to a narrower type, functions of C23, types of the system.
TAKEN = [
    "fadd",
    "dsqrtl",
    "f32mulf64",
    "rsqrt",
    "sinf64",
    "fmaximum",
    "uint",
]
FREE = ["result", "pysum", "fadder", "dadd3", "unit", "pyramid", "setter"]


@pytest.mark.parametrize("name", TAKEN)
def test_what_a_header_declares_is_another_name(name: str) -> None:
    assert Names(external=True).add("kernel", name) == name + "_"


@pytest.mark.parametrize("name", ["PyObject", "Py_None", "PyLong_AsLong"])
def test_what_begins_like_python_s_own_begins_otherwise(name: str) -> None:
    assert Names(external=True).add("kernel", name) == "u_" + name


@pytest.mark.parametrize("name", FREE)
def test_what_none_declares_stays(name: str) -> None:
    assert Names(external=True).add("kernel", name) == name


@pytest.mark.parametrize("name", ["fadd", "PyObject", "result", "self", "x0", "setter", "uint"])
def test_a_kernel_of_any_name_is_called(name: str) -> None:
    kernel = tdsl.parse(COPY % (name, name))[name].compile(target="c")
    for n in (0, 1, 5):  # the second call of a shape is a shorter one
        x = np.arange(n, dtype=np.float32)
        for _ in range(3):
            np.testing.assert_array_equal(kernel(x=x), 2 * x)


def test_a_record_of_any_name_is_an_argument() -> None:
    text = "record timespec { a: f32  b: f32 }  kernel k(N) { in x: timespec[N]  out y: f32[N]"
    text += "  y[i] = x[i].a - x[i].b }  schedule k for any { unroll i by 2 }"
    kernel = tdsl.parse(text)["k"].compile(target="c")
    x = np.array([(5, 2), (7, 3)], dtype=[("a", "f4"), ("b", "f4")])
    np.testing.assert_array_equal(kernel(x=x), [3, 4])
