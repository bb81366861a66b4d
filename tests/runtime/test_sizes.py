"""Calls whose sizes come from a kernel's own plan, as the driver puts them together."""

import numpy as np
import pytest

from tdsl.ir.arguments import ArgumentPlan
from tdsl.ir.kernel import INDEX, Array, Const, Kernel, Op, Size
from tdsl.ir.types import BOOL, F32
from tdsl.runtime.callable import CompiledKernel
from tests.runtime.support import compiled, entry, module

PROTOTYPE = "int window(int64_t N, float scale, const float *x, float *y, void *workspace)"
REQUEST = module(
    "window",
    f"{PROTOTYPE};\n",
    f"{PROTOTYPE} {{\n"
    "  (void)workspace;\n"
    "  for (int64_t i = 0; i < N; i++) y[i] = scale * (x[i] + x[i + 1] + x[i + 2]);\n"
    "  return 0;\n"
    "}\n",
)
N = Size("N")
KERNEL = Kernel(
    "window",
    ("N",),
    (Op("ge", (N, Const(1, INDEX)), BOOL),),
    (
        Array("scale", F32, (), "in"),
        Array("x", F32, (Op("add", (N, Const(2, INDEX)), INDEX),), "in"),
        Array("y", F32, (N,), "out"),
    ),
    (),
    bound=(("K", 3),),
    all_sizes=("N", "K"),
)
ENTRY = entry("window", "N", "in scale: f32", "in x: f32[1]", "out y: f32[1]", bound=KERNEL.bound)


@pytest.fixture
def window() -> CompiledKernel:
    return compiled(REQUEST, ENTRY, ArgumentPlan(KERNEL))


def test_sizes_follow_from_shapes_that_are_expressions(window: CompiledKernel) -> None:
    for n in (1, 5, 5, 40):
        x = np.arange(n + 2, dtype=np.float32)
        np.testing.assert_array_equal(window(scale=0.5, x=x), 1.5 * np.arange(1, n + 1))
        np.testing.assert_array_equal(window(scale=0.5, x=x, K=3, N=n), 1.5 * np.arange(1, n + 1))


def test_what_the_plan_refuses_reaches_the_caller(window: CompiledKernel) -> None:
    x = np.zeros(5, np.float32)
    for _ in range(2):
        with pytest.raises(ValueError, match="window assumes N >= 1, which does not hold: N = 0"):
            window(scale=1.0, x=x[:2])
        # A plain extent tells a size before an expression does.
        message = r"'x': expected shape \[6\] = \[N \+ 2\] with N = 4, got \[5\]"
        with pytest.raises(ValueError, match=message):
            window(scale=1.0, x=x, y=np.zeros(4, np.float32))
        with pytest.raises(ValueError, match=r"'x': expected shape \[6\]"):
            window(scale=1.0, x=x, N=4)
        with pytest.raises(ValueError, match="size 'K': compiled for K = 3, got 4"):
            window(scale=1.0, x=x, K=4)
        window(scale=1.0, x=x)
