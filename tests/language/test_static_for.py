"""`static for`: bodies that are written out."""

import numpy as np
import pytest

from tdsl.syntax.elaborate import elaborate
from tdsl.syntax.parser import parse
from tests.language.run import compiled, everywhere, interpreted

STAGES = """
kernel stages<P = 3>(N) {
    in  x: f64[N]
    out y: f64[N]
    temp c: f64[P + 1, N]
    c[0, i] = x[i]
    static for s in 0..P {
        T: c[s + 1, i] = 2.0 * c[s, i] + f64(s)
    }
    y[i] = c[P, i]
}
"""

# Butterflies of a Walsh-Hadamard transform of 8: each stage has its own distance.
HADAMARD = """
kernel hadamard(N) {
    in  x: f32[N, 8]
    out y: f32[N, 8]
    for n in 0..N {
        temp a: f32[4, 8]
        a[0, j] = x[n, j]
        static for s in 0..3 {
            static for h in 2 downto 0 step 2, w in -1..1 {
                temp b: f32[2]
                b[0] = 0.0
                b[1] = f32(s) * 0.0
            }
            a[s + 1, j] = a[s, j] + a[s, j + 4]           where s == 0 and j < 4
            a[s + 1, j] = a[s, j - 4] - a[s, j]           where s == 0 and 4 <= j
            a[s + 1, j] = select(j % 4 < 2, a[s, j] + a[s, clamp(j + 2, 0, 7)],
                                 a[s, clamp(j - 2, 0, 7)] - a[s, j])     where s == 1
            a[s + 1, j] = select(j % 2 == 0, a[s, j] + a[s, clamp(j + 1, 0, 7)],
                                 a[s, clamp(j - 1, 0, 7)] - a[s, j])     where s == 2
        }
        y[n, j] = a[3, j]
    }
}
"""


@everywhere
def test_a_stage_after_the_other(on: str) -> None:
    for p in (1, 3, 5):
        fast = compiled(STAGES, "stages", on, constants={"P": p})
        x = np.arange(9.0)
        want = x.copy()
        for s in range(p):
            want = 2.0 * want + s
        assert (fast(x=x) == want).all()
    assert (interpreted(STAGES, "stages", {"x": np.arange(9.0)})["y"]
            == 8.0 * np.arange(9.0) + 4.0).all()  # fmt: skip


def test_statements_are_named_after_their_values() -> None:
    kernel = elaborate(parse(STAGES, "t.tdsl"), "stages")
    assert [s.name for s in kernel.statements] == ["c_1", "T_0", "T_1", "T_2", "y"]
    assert elaborate(parse(STAGES, "t.tdsl"), "stages", {"P": 0}).statements[-1].name == "y"


@everywhere
def test_inside_a_loop_with_temps_of_their_own(on: str) -> None:
    fast = compiled(HADAMARD, "hadamard", on)
    h = np.array([[1]])
    for _ in range(3):
        h = np.block([[h, h], [h, -h]])
    x = np.random.default_rng(1).integers(-9, 9, (5, 8)).astype(np.float32)
    assert (fast(x=x) == x @ h).all()
    assert (interpreted(HADAMARD, "hadamard", {"x": x})["y"] == x @ h).all()
    names = {a.name for a in elaborate(parse(HADAMARD, "t.tdsl"), "hadamard").arrays}
    assert {"b_0_2_n1", "b_0_2_0", "b_2_0_0"} <= names


@pytest.mark.parametrize("order", ["0..4", "3 downto 0"])
def test_the_order_of_the_text(order: str) -> None:
    text = f"kernel f() {{ out y: i64[4] static for s in {order} {{ y[s] = i64(s * s) }} }}"
    kernel = elaborate(parse(text, "t.tdsl"), "f")
    names = [f"y_{s}" for s in range(4)]
    assert [s.name for s in kernel.statements] == (names if ".." in order else names[::-1])
    assert interpreted(text, "f", {})["y"].tolist() == [0, 1, 4, 9]
