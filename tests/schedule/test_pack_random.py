"""Random packs of random nests: what is accepted computes what NumPy does."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tdsl
from tdsl.diagnostics import Error
from tests.schedule.test_pack import numbers

KERNELS = {
    "product": """
    kernel product(M, N, K) {
        in  A: i32[M, K]
        in  B: i32[K, N]
        out C: i32[M, N]
        C[i, j] = sum[k](A[i, k] * B[k, j])
    }""",
    "filter": """
    kernel filter(N, K) {
        in  x: i32[N + 2]
        in  w: i32[3, K]
        out C: i32[N, K]
        C[i, k] = sum[r in 0..3](padded(x[i + r - 1], 0) * w[r, k])
    }""",
}
LOOPS = {"product": "ijk", "filter": "ikr"}
ARRAYS = {"product": {"A": "ik", "B": "kj"}, "filter": {"x": "ir", "w": "rk"}}
TAILS = ("", "tail balanced", "tail peel", "tail mask", "tail cases", "tail guard")


def directives(rng: random.Random, kernel: str) -> str:
    """Splits, an order, marks of inner loops, and packs by the loops that each array needs."""
    order: list[str] = []
    lines: list[str] = []
    for name in LOOPS[kernel]:
        if rng.random() < 0.7:
            factor, tail = rng.choice((2, 3, 4, 8)), rng.choice(TAILS)
            lines.append(f"split {name} by {factor} -> {name}o, {name}i {tail}")
            order += [f"{name}o", f"{name}i"]
        else:
            order.append(name)
    rng.shuffle(order)
    lines.append(f"reorder {', '.join(order)}")
    if rng.random() < 0.6:
        lines.append(rng.choice((f"vectorize {order[-1]}", f"unroll {order[-1]}")))
    for array, indices in ARRAYS[kernel].items():
        place = rng.randrange(-1, len(order) - 1)
        at = "root" if place < 0 else f"C.{order[place]}"
        listed = [name for name in order[place + 1 :] if name[0] in indices]
        rng.shuffle(listed)
        if listed:
            lines.append(f"pack {array} at {at} as Q{array}[{', '.join(listed)}]")
            lines.append(f"on Q{array} {{ vectorize {listed[-1]} }}" if rng.random() < 0.3 else "")
    return "\n".join(lines)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("seed", range(4))
def test_random_packs(kernel: str, seed: int) -> None:
    rng = random.Random(f"{kernel} {seed}")
    accepted = 0
    while accepted < 2:
        text = f"{KERNELS[kernel]}\nschedule {kernel} for any {{\n{directives(rng, kernel)}\n}}"
        try:
            function = tdsl.parse(text, name="random.tdsl")[kernel].compile("native")
        except Error:
            continue  # marks that the order does not allow
        accepted += 1
        for n in (1, 4, 9, 13):
            if kernel == "product":
                a, b = numbers(n, n, n + 2), numbers(n + 1, n + 2, max(1, n - 1))
                np.testing.assert_array_equal(function(A=a, B=b), a @ b, err_msg=text)
            else:
                x, w = numbers(n, n + 2), numbers(n + 1, 3, n)
                shifted = np.concatenate([[0], x])
                want = sum(shifted[r : r + n, None] * w[r] for r in range(3))
                np.testing.assert_array_equal(function(x=x, w=w), want, err_msg=text)
