"""Small C modules with the interface of generated ones, and sizes that follow from shapes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tdsl.runtime.build import load
from tdsl.runtime.callable import CompiledKernel
from tdsl.runtime.interface import Argument, BuildRequest, Entry, SizePlan

Array = np.ndarray[Any, Any]
ROOT = Path(__file__).resolve().parents[2]


class Shapes:
    """A plan of shapes whose dimensions are names of sizes or numbers."""

    def __init__(self, **shapes: tuple[str | int, ...]) -> None:
        self._shapes = shapes

    def sizes(self, arrays: Mapping[str, Array], given: Mapping[str, int]) -> dict[str, int]:
        found = dict(given)
        for name, array in arrays.items():
            for dimension, size in zip(self._shapes.get(name, ()), array.shape, strict=True):
                if isinstance(dimension, str) and found.setdefault(dimension, size) != size:
                    raise ValueError(
                        f"argument {name!r}: expected {dimension} = {found[dimension]}, got {size}"
                    )
        for shape in self._shapes.values():
            for dimension in shape:
                if isinstance(dimension, str) and dimension not in found:
                    raise ValueError(f"size {dimension!r} is not determined")
        return found

    def shape(self, name: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(d if isinstance(d, int) else sizes[d] for d in self._shapes.get(name, ()))

    def known(self, arrays: Mapping[str, Array], given: Mapping[str, int]) -> dict[str, int]:
        """All of them: these plans have no const arguments."""
        return self.sizes(arrays, given)

    def strides(self, name: str, sizes: Mapping[str, int]) -> None:
        """Arguments are contiguous."""

    @property
    def layouts(self) -> dict[str, str]:
        return {}

    def laid_out(self, name: str, values: Array) -> Array:
        return values

    def natural(self, name: str, stored: Array, shape: tuple[int, ...]) -> Array:
        return stored

    def check_ranges(self, arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> None:
        """Nothing is promised."""


# Generated functions refuse overlap by themselves; these do it where a test is about it.
OVERLAP = """\
#define SHARED(a, n, b, m) \\
  ((n) > 0 && (m) > 0 && (char *)(a) < (char *)(b) + (m) && (char *)(b) < (char *)(a) + (n))
"""


def module(name: str, prototypes: str, body: str, **options: Any) -> BuildRequest:
    """A request for functions with these prototypes."""
    header = f"#include <stdint.h>\n#include <stddef.h>\n{prototypes}"
    source = f'#include "{name}.h"\n{OVERLAP}\n{body}'
    return BuildRequest(name, source, header, prototypes, **options)


def argument(text: str) -> Argument:
    """`in x: f32[2]` has rank 2; `in a: f32` is a number by value; `out y: f32[1] align 64`."""
    declared, _, rest = text.partition(" align ")
    role, name, kind = declared.replace(":", "").split()
    elem, _, rank = kind.rstrip("]").partition("[")
    align = int(rest) if rest else None
    by_value = not rank and role == "in"
    return Argument(name, elem, int(rank or 0), role, by_value=by_value, align=align)


def entry(name: str, sizes: str, *arguments: str, **options: Any) -> Entry:
    """The entry of a C function that is named like its kernel."""
    return Entry(
        name, name, tuple(sizes.split()), tuple(argument(text) for text in arguments), **options
    )


# axpy: y = a * x + 1, by way of the workspace. The tests' values are exact in f32.
AXPY = module(
    "axpy",
    """\
int axpy(int64_t N, float a, const float *x, float *y, void *workspace);
size_t axpy_workspace_bytes(int64_t N);
const char *axpy_variant(int64_t N);
""",
    """\
int axpy(int64_t N, float a, const float *x, float *y, void *workspace) {
  float *scratch = workspace;
  if (((uintptr_t)x | (uintptr_t)y) % 4) return 3;
  if (SHARED(x, 4 * N, y, 4 * N)) return 4;
  if (N > 0 && scratch == 0) return 7;
  for (int64_t i = 0; i < N; i++) scratch[i] = a * x[i];
  for (int64_t i = 0; i < N; i++) y[i] = scratch[i] + 1.0f;
  return 0;
}
size_t axpy_workspace_bytes(int64_t N) { return (size_t)N * sizeof(float); }
const char *axpy_variant(int64_t N) { return N > 8 ? "wide" : "narrow"; }
""",
)
AXPY_ENTRY = entry(
    "axpy",
    "N",
    "in a: f32",
    "in x: f32[1]",
    "out y: f32[1]",
    workspace="axpy_workspace_bytes",
    variant="axpy_variant",
)
AXPY_SHAPES = Shapes(x=("N",), y=("N",))

# rows: several outputs, one of rank 0, an inout, a fixed dimension, all kinds of argument.
ROWS = module(
    "rows",
    """\
int rows(int64_t M, int64_t N, const int32_t *x, const uint8_t *flag, int64_t *sums,
         int64_t *total, int32_t *seen, void *workspace);
""",
    """\
int rows(int64_t M, int64_t N, const int32_t *x, const uint8_t *flag, int64_t *sums,
         int64_t *total, int32_t *seen, void *workspace) {
  (void)workspace;
  if (M > 100) return 2;
  const void *in[] = {x, flag}, *out[] = {sums, total, seen};
  const int64_t read[] = {4 * M * N, M}, written[] = {8 * M, 8, 8};
  for (int o = 0; o < 3; o++) {
    for (int i = 0; i < 2; i++)
      if (SHARED(in[i], read[i], out[o], written[o])) return 4;
    for (int p = o + 1; p < 3; p++)
      if (SHARED(out[p], written[p], out[o], written[o])) return 4;
  }
  *total = 0;
  for (int64_t i = 0; i < M; i++) {
    int64_t sum = 0;
    for (int64_t j = 0; j < N; j++) sum += x[i * N + j];
    sums[i] = flag[i] ? sum : 0;
    *total += sums[i];
  }
  seen[0] += (int32_t)M;
  seen[1] += (int32_t)N;
  return 0;
}
""",
)
ROWS_ENTRY = entry(
    "rows",
    "M N",
    "in x: i32[2]",
    "in flag: bool[1]",
    "out sums: i64[1]",
    "out total: i64[0]",
    "inout seen: i32[1]",
    assumptions=("M <= 100",),
)
ROWS_SHAPES = Shapes(x=("M", "N"), flag=("M",), sums=("M",), total=(), seen=(2,))


def compiled(
    request: BuildRequest, which: Entry, plan: SizePlan, mode: str = "extension"
) -> CompiledKernel:
    """The entry, built (or from the cache) and loaded."""
    return CompiledKernel(which, plan, load(request, mode=mode), schedule="plain")


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, which must end well."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done
