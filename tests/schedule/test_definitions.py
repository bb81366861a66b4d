"""`compute` of an array that several statements define: each by its label, all at one loop."""

from __future__ import annotations

import numpy as np
import pytest

import tdsl
from tdsl.diagnostics import IllegalSchedule

TARGETS = [
    "avx512+vnni", "avx512", "avx2", "c", pytest.param("neon+dotprod", marks=pytest.mark.neon),
]  # fmt: skip

# Two halves of 4-bit weights, as llama.cpp stores them.
Q4 = """
record q4_0 { d: f16  q: u8[16] }
record q8_0 { d: f16  q: i8[32] }

kernel dot(NB) {
    in  x: q4_0[NB]
    in  y: q8_0[NB]
    out s: f32

    lo: w[b, i]      = i8(x[b].q[i] & 15) - 8   where i < 16
    hi: w[b, i + 16] = i8(x[b].q[i] >> 4) - 8   where 0 <= i < 16
    p[b, l] = sum[g in 0..4](i32(w[b, 4 * l + g]) * i32(y[b].q[4 * l + g]))
    s = sum[b, l in 0..8](f32(p[b, l]) * (f32(x[b].d) * f32(y[b].d)))
}

schedule dot for any {
    reassociate s
    on s { vectorize l }
    compute p at s.b in registers
    on p { vectorize l dot g }
    compute lo at s.b in registers
    compute hi at s.b in registers
    on lo, hi { vectorize i }
}
"""

HALVES = """
kernel halves(N) {
    in  x: f32[N]
    out y: f32[N]
    even: t[i, 0] = x[i] * 2.0   where 0 <= i < N
    odd:  t[i, 1] = x[i] + 1.0   where 0 <= i < N
    y[i] = t[i, 0] * t[i, 1]
}

schedule halves for any { %s }
"""


def _blocks(count: int) -> tuple[dict[str, np.ndarray], float]:
    rng = np.random.default_rng(count)
    x = np.zeros(count, np.dtype([("d", np.float16), ("q", np.uint8, 16)]))
    y = np.zeros(count, np.dtype([("d", np.float16), ("q", np.int8, 32)]))
    x["d"], y["d"] = rng.uniform(0.1, 1, count), rng.uniform(0.1, 1, count)
    x["q"], y["q"] = rng.integers(0, 256, (count, 16)), rng.integers(-128, 128, (count, 32))
    w = np.concatenate([x["q"] & 15, x["q"] >> 4], 1).astype(np.int64) - 8
    scale = x["d"].astype(float) * y["d"].astype(float)
    return {"x": x, "y": y}, float(((w * y["q"]).sum(1) * scale).sum())


@pytest.mark.parametrize("target", TARGETS)
def test_halves_of_a_register(target: str) -> None:
    run = tdsl.parse(Q4, name="q4.tdsl")["dot"].compile(target)
    for count in (0, 1, 7):
        arrays, want = _blocks(count)
        np.testing.assert_allclose(run(**arrays), want, rtol=1e-4)


@pytest.mark.parametrize("memory", ["", " in stack", " in registers"])
@pytest.mark.parametrize("target", ["avx2", "c"])
def test_both_definitions(memory: str, target: str) -> None:
    text = HALVES % f"compute even at y.i{memory} compute odd at y.i"
    run = tdsl.parse(text, name="halves.tdsl")["halves"].compile(target)
    x = np.arange(11, dtype=np.float32)
    np.testing.assert_array_equal(run(x=x), x * 2 * (x + 1))


def test_one_definition_leaves_the_array_where_it_is() -> None:
    run = tdsl.parse(HALVES % "compute even at y.i", name="halves.tdsl")["halves"].compile("avx2")
    x = np.arange(11, dtype=np.float32)
    np.testing.assert_array_equal(run(x=x), x * 2 * (x + 1))
    one = tdsl.parse(HALVES % "compute even at y.i in stack", name="halves.tdsl")["halves"]
    with pytest.raises(IllegalSchedule, match="odd uses t outside i"):
        one.compile("avx2")


@pytest.mark.parametrize(
    ("directives", "message"),
    [
        ("compute even at y.i compute even at y.i", "t is computed at y.i already"),
        ("split y.i by 4 -> io, ii compute even at y.io compute odd at y.ii", "at y.io already"),
        ("compute even at y.i compute odd at root", "t is computed at y.i already"),
        ("compute even at y.i in stack compute odd at y.i in registers", "t is in stack already"),
    ],
)
def test_refused(directives: str, message: str) -> None:
    with pytest.raises(IllegalSchedule, match=message):
        tdsl.parse(HALVES % directives, name="halves.tdsl")["halves"].compile("avx2")
