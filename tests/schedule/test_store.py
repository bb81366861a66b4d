"""`store`: what is recorded, the methods, arrays that live in others."""

from __future__ import annotations

import numpy as np
import pytest

import tdsl
from tdsl.diagnostics import IllegalSchedule
from tdsl.schedule.builder import Schedule
from tdsl.syntax.parser import parse_directives
from tests.schedule.run import front, scheduled, target

CHAIN = """
kernel chain(N) {
    in  x: f32[N]
    out y: f32[N]
    temp a: f32[N]
    temp b: f32[N]
    a[i] = x[i] + 1.0
    b[i] = a[i] * 2.0
    y[i] = b[i] - 3.0
}
"""


def chain(directives: str) -> str:
    return f"{CHAIN}\nschedule chain for any {{ {directives} }}"


def test_methods_make_what_the_text_says() -> None:
    made = front(CHAIN)
    s = Schedule(made.program, target())
    s.split("y.i", by=8, into=("io", "ii"))
    s.add("compute b at y.ii")
    s.store("b", at="y.io", memory="scratch", fold={"i": "2 * 4"})
    s.store("a", layout=("i // 4", "i % 4"))
    s.stage("x", at="a.i", layout=("i",))
    assert s.directives == parse_directives(
        """
        split y.i by 8 -> io, ii
        compute b at y.ii
        store b at y.io in scratch fold i by 2 * 4
        store a as [i // 4, i % 4]
        stage x at a.i as [i]
        """
    )
    s.complete()
    other = Schedule(made.program, target())
    other.store("a", inside="y")
    assert other.directives == parse_directives("store a in y")


@pytest.mark.parametrize(
    "wrong", [{}, {"at": "y.i", "inside": "y"}, {"inside": "y", "fold": {"i": 2}}]
)
def test_methods_want_one_place(wrong: dict[str, object]) -> None:
    s = Schedule(front(CHAIN).program, target())
    with pytest.raises(TypeError, match="one of at="):
        s.store("a", **wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a sequence"):
        s.store("a", layout="i")


@pytest.mark.parametrize(
    ("directives", "left"),
    [
        ("store a in y", {"b"}),
        ("store a in b  store b in y", set()),
        ("store a in y  store b in y", set()),
        ("fuse a.i, b.i -> i  store a in y", {"b"}),
    ],
)
def test_arrays_live_in_others(directives: str, left: set[str]) -> None:
    temps = {n for n, a in scheduled(chain(directives)).program.arrays.items() if a.role == "temp"}
    assert temps == left
    fast = tdsl.parse(chain(directives), name="chain.tdsl")["chain"].compile("c")
    x = np.arange(37, dtype=np.float32)
    np.testing.assert_array_equal(fast(x=x), (x + 1) * 2 - 3)
    assert (fast.workspace_bytes(N=37) > 0) == bool(left)


def test_an_array_that_lives_elsewhere_holds_no_other() -> None:
    with pytest.raises(IllegalSchedule, match="which lives in y") as refused:
        scheduled(chain("store b in y  store a in b"))
    assert refused.value.diagnostics[0].help == "store a in y"


def test_two_values_alive_do_not_share() -> None:
    text = """
kernel both(N) {
    in  x: f32[N]
    out y: f32[N]
    temp a: f32[N]
    temp b: f32[N]
    a[i] = x[i] + 1.0
    b[i] = x[i] * 2.0
    y[i] = a[i] - b[i]
}
schedule both for any { DIRECTIVES }
"""
    for directives in ("store a in b", "store a in y  store b in y", "store b in a"):
        with pytest.raises(IllegalSchedule, match="cannot live in") as refused:
            scheduled(text.replace("DIRECTIVES", directives))
        (violation,) = refused.value.violations
        assert violation.kind == "storage"
        assert violation.witness is not None and violation.witness.sizes == {"N": 1}
    # Where one iteration does all, one of them may take the place of the other's last reader.
    scheduled(text.replace("DIRECTIVES", "store a in y"))


def test_marks_are_checked_with_the_memory() -> None:
    """Rings and shared memory order iterations that nothing else orders."""
    text = """
kernel rows(M, N) {
    in  x: f32[M, N]
    out y: f32[M, N]
    temp t: f32[M, N]
    t[i, j] = x[i, j] + 1.0
    y[i, j] = t[i, j] * 2.0
}
schedule rows for any { compute t at y.i  store t at root fold i by 1  DIRECTIVES }
"""
    scheduled(text.replace("DIRECTIVES", ""))
    with pytest.raises(IllegalSchedule, match="at the same time"):
        scheduled(text.replace("DIRECTIVES", "parallel y.i"))


def test_the_memory_of_a_reduction_is_kept_from_its_first_term() -> None:
    text = """
kernel sums(M, N) {
    in  x: f32[M, N]
    out y: f32[M]
    s[i] = sum[j](x[i, j])
    y[i] = s[i] * 2.0
}
schedule sums for any { DIRECTIVES }
"""
    scheduled(text.replace("DIRECTIVES", "compute s at y.i  store s at root fold i by 1"))
    scheduled(text.replace("DIRECTIVES", "store s in y"))
    # The sums of all rows grow together: one place for them is not enough.
    with pytest.raises(IllegalSchedule, match="too short"):
        scheduled(text.replace("DIRECTIVES", "reorder s.j, s.i  store s at root fold i by 1"))


def test_a_layout_may_come_before_the_place() -> None:
    for directives in (
        "store b as [i // 4, i % 4]  compute b at y.i",
        "compute b at y.i  store b as [i // 4, i % 4]",
    ):
        assert len(scheduled(chain(directives)).program.arrays["b"].shape) == 2
    with pytest.raises(IllegalSchedule, match="put `compute` before"):
        scheduled(chain("store b at root fold i by 64  compute b at y.i"))
    with pytest.raises(IllegalSchedule, match=r"b is computed at y\.i already"):
        scheduled(chain("compute b at y.i  compute b at root"))


@pytest.mark.parametrize("on", ["c", "native"])
def test_copies_of_whole_windows_stay_together(on: str) -> None:
    """Without lanes the loops that were vectors do not jam the copies around them."""
    text = """
kernel window(N) {
    assume N >= 3
    in  x: f32[N]
    out y: f32[N - 2]
    t[i] = x[i] + 1.0
    y[i] = t[i] + t[i + 1] + t[i + 2]
}
schedule window for any {
    split y.i by 8 -> io, ii
    compute t at y.ii
    store t at y.io fold i by 3
    vectorize t.i
    unroll y.ii
}
"""
    fast = tdsl.parse(text, name="window.tdsl")["window"].compile(on)
    for n in (3, 4, 10, 11, 40):
        t = np.arange(n, dtype=np.float32) ** 2 + 1
        np.testing.assert_array_equal(fast(x=t - 1), t[:-2] + t[1:-1] + t[2:])


TAPS = """
kernel taps(N) {
    assume N >= 6
    in  x: f32[N]
    out y: f32[N - 5]
    t[i] = x[i] + 1.0
    y[i] = SUM
}
schedule taps for any {
    split y.i by 8 -> io, ii
    compute t at y.ii
    store t at y.io fold i by LENGTH
}
"""


@pytest.mark.parametrize("taps", [(0,), (2,), (0, 1), (0, 3), (1, 2, 5), (0, 2, 4)])
def test_rings_are_as_long_as_the_window(taps: tuple[int, ...]) -> None:
    """From its first use to its last one an element meets those between the outermost taps."""
    needed = max(taps) - min(taps) + 1
    total = " + ".join(f"t[i + {d}]" for d in taps)
    for length in range(1, needed + 3):
        text = TAPS.replace("SUM", total).replace("LENGTH", str(length))
        if length >= needed:
            scheduled(text)
            continue
        with pytest.raises(IllegalSchedule, match=f"a ring of {length} for t is too short") as no:
            scheduled(text)
        assert no.value.diagnostics[0].help == f"a ring of {needed} is long enough"
