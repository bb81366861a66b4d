"""Which kernels of `examples/` run, with which constants and sizes.

Sizes include 0, 1, 2, 3, primes, and numbers one below and above the tiles of all targets: vectors
have 4, 8 or 16 elements of f32, tiles 1, 2 or 4 vectors by 4, 6, 12 or 14.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

Sizes = Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Case:
    """One kernel with constants; `sizes` lists the calls, `scale` shrinks values of arguments."""

    file: str
    kernel: str
    sizes: tuple[Sizes, ...]
    constants: Mapping[str, int | str] = field(default_factory=dict)
    scale: Mapping[str, float] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return EXAMPLES / f"{self.file}.tdsl"

    def __str__(self) -> str:
        given = "".join(f",{name}={value}" for name, value in self.constants.items())
        return f"{self.kernel}{given}"


def sizes(names: str, text: str) -> tuple[Sizes, ...]:
    """`sizes("M N", "1 2, 3 4")`: two calls."""
    rows = [row.split() for row in text.split(",")]
    return tuple(dict(zip(names.split(), map(int, row), strict=True)) for row in rows)


MATMUL = sizes(
    "M N K",
    """0 0 0, 0 3 2, 3 0 2, 3 4 0, 1 1 1, 2 2 2, 3 3 3, 1 16 4, 5 7 11, 4 15 3, 6 16 4, 7 17 5, 5
    31 2, 6 32 7, 7 33 8, 11 32 3, 12 31 4, 13 17 5, 13 16 9, 6 63 3, 12 64 4, 7 65 5, 5 64 1,
    13 67 13, 11 127 2, 6 128 6, 19 129 3, 7 35 257, 6 64 512""",
)
CONV = sizes(
    "N H W C K R S",
    """0 9 9 3 2 3 3, 1 7 9 0 2 3 3, 1 7 9 2 0 3 3, 1 3 3 1 1 1 1, 1 2 2 2 2 1 2, 2 5 5 3 3 3 3,
    1 9 16 3 7 3 2, 1 7 15 2 8 3 3, 1 7 16 2 9 3 3, 1 6 17 1 15 2 3, 1 6 8 2 16 3 3, 1 6 9 2
    17 3 3, 1 7 30 3 31 3 3, 1 7 31 1 32 3 3, 2 5 11 5 33 2 2, 1 5 7 4 67 1 1, 1 8 31 1 16 2 1""",
)
PAD = sizes(
    "N H W C",
    """0 1 1 1, 1 0 0 1, 1 1 1 0, 1 1 1 1, 2 2 3 3, 1 3 5 15, 1 2 1 16, 1 1 2 17, 3 2 2 37""",
)
NO_PAD = sizes(
    "N H W C",
    """1 0 2 3, 1 1 1 1, 2 2 3 17""",
)
DILATED = sizes(
    "N H W C K R S",
    """1 9 15 2 8 2 3, 1 7 19 3 33 3 3, 2 6 33 1 16 2 2""",
)
SOBEL = sizes(
    "H W",
    """3 3, 3 4, 4 5, 5 7, 3 9, 4 10, 3 11, 4 17, 5 18, 3 19, 7 33, 4 34, 3 35, 11 67""",
)
DEPTHWISE = sizes(
    "N H W C",
    """0 3 3 1, 1 1 1 0, 1 1 1 1, 1 2 2 2, 2 3 3 3, 1 1 5 7, 1 4 3 8, 1 3 4 9, 1 2 7 15, 1 5 2
    16, 1 3 3 17, 2 3 5 31, 1 2 3 33""",
)
STRIDED = sizes(
    "N H W C",
    """1 3 3 1, 1 4 5 3, 1 7 7 16, 2 5 6 19""",
)
BLUR = sizes(
    "H W",
    """3 3, 3 4, 4 10, 5 18, 18 19, 19 34, 34 33, 35 65, 36 67, 67 5, 99 131""",
)
BIAS_RELU = sizes(
    "M N",
    """0 0, 0 5, 5 0, 1 1, 2 2, 3 3, 1 4, 2 7, 3 8, 1 9, 5 15, 2 16, 3 17, 7 31, 2 33, 1 67""",
)
QMATMUL = sizes(
    "M N K",
    """0 0 0, 0 3 2, 3 0 2, 3 4 0, 1 1 1, 2 2 2, 3 3 3, 4 8 5, 5 9 7, 3 7 1, 4 15 2, 3 16 5, 5 17
    3, 4 31 4, 8 32 3, 7 33 11, 4 63 2, 9 67 5""",
)
LU = sizes(
    "N",
    """0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 18, 19""",
)

CASES = (
    Case("matmul", "matmul", MATMUL),
    Case("conv2d", "pad2d", PAD),
    Case("conv2d", "pad2d", NO_PAD, {"pad": 0}),
    Case("conv2d", "conv2d", CONV),
    Case("conv2d", "conv2d", CONV, {"stride": 2, "act": "relu"}),
    Case("conv2d", "conv2d", DILATED, {"dilation": 2}),
    Case("sobel", "sobel", SOBEL),
    Case("depthwise", "depthwise", DEPTHWISE),
    Case("depthwise", "depthwise", STRIDED, {"stride": 2, "pad": 0}),
    Case("blur", "blur", BLUR),
    Case("bias_relu", "bias_relu", BIAS_RELU),
    Case("qmatmul", "qmatmul", QMATMUL, scale={"scale": 0.01}),
    Case("lu", "lu", LU),
)
