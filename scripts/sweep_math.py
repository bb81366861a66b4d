"""The greatest errors of the elementary functions of f32, over all of its 2^32 bit patterns.

    python -m scripts.sweep_math [--target c] [--stride 1] [--strict] [function ...]

The whole range takes some minutes a function; `--stride 64` asks every 64th pattern. The
references are double; errors are in ulp of the exact value. Exits with 1 where one is above 2.
"""

from __future__ import annotations

import argparse

import numpy as np

import tdsl
from tests.math.reference import NAMES, ULP, every_f32, of_f32, ulps

SLICES = 256  # of the range, one at a time in memory

KERNEL = """
kernel sweep(N) {{ in x: f32[N]  out y: f32[N]  y[i] = {op}(x[i]) }}
schedule sweep.vectors for any {{ vectorize i }}
"""


def greatest(op: str, target: str, stride: int, strict: bool) -> tuple[float, float]:
    """The greatest error and where it is."""
    kernel = tdsl.parse(KERNEL.format(op=op))["sweep"].compile(target=target, strict_fp=strict)
    worst, place = 0.0, 0.0
    for number in range(SLICES):
        first = number * (2**32 // SLICES)
        x = every_f32(stride, first, first + 2**32 // SLICES)
        error = ulps(kernel(x=x), of_f32(op, x))
        at = int(np.argmax(error))
        if error[at] > worst:
            worst, place = float(error[at]), float(x[at])
    return worst, place


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("functions", nargs="*", metavar="function")
    parser.add_argument("--target", default="native")
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--strict", action="store_true", help="without fused operations")
    options = parser.parse_args()
    unknown = sorted(set(options.functions) - set(NAMES))
    if unknown:
        parser.error(f"no such function: {', '.join(unknown)}")
    good = True
    for op in options.functions or NAMES:
        worst, place = greatest(op, options.target, options.stride, options.strict)
        print(f"{op:8} {worst:.3f} ulp at {place!r}", flush=True)
        good = good and worst <= ULP
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
