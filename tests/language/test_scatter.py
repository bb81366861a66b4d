"""`h[x[i]] += 1`: updates of elements that data choose."""

import numpy as np
import pytest

from tdsl.diagnostics import BoundsError, IllegalSchedule
from tests.language.run import compiled, everywhere, interpreted, lowered

HISTOGRAM = """
kernel histogram(N) {
    in    x: u8[N]
    inout h: i32[256]
    h[x[i]] += 1
}
schedule histogram.none for any when false { }
schedule histogram.copies for any when false { unroll i by 4 }
schedule histogram.backward for any when false { reverse i }
schedule histogram.threads for any when false { parallel i }
schedule histogram.lanes for any when false { vectorize i }
"""

ROWS = """
kernel rows(R, N, B) {
    in  x: i32[R, N] range 0..B
    in  w: f64[R, N]
    out y: f64[R, B]
    out most: i64[R, B]
    assume N >= 1
    most[r, b] = -1
    for r in 0..R {
        temp h: f64[B]
        h[b] = 0.0
        h[x[r, i]] += w[r, i]
        most[r, x[r, i]] max= i64(i)
        y[r, b] = h[b]
    }
}
schedule rows.none for any when false { }
schedule rows.threads for any when false { parallel r }
"""

SUMS = """
kernel sums(N, K, B) {
    in    x: i64[N] range 0..B
    in    a: f32[N, K]
    inout h: f32[B + 1, K]
    inout total: f32[B]
    h[x[i] + 1, k] min= a[i, k]
    total[x[i]] += sum[k](a[i, k])
}
schedule sums.none for any when false { }
schedule sums.swapped for any when false { reorder h.k, h.i }
"""


@everywhere
@pytest.mark.parametrize("variant", ["none", "copies", "backward"])
def test_a_histogram(on: str, variant: str) -> None:
    fast = compiled(HISTOGRAM, "histogram", on, variant)
    rng = np.random.default_rng(3)
    for n in (0, 1, 7, 1000):
        x = rng.integers(0, 256, n).astype(np.uint8)
        start = rng.integers(0, 9, 256).astype(np.int32)
        want = start + np.bincount(x, minlength=256)
        assert (fast(x=x, h=start.copy()) == want).all()
        assert (interpreted(HISTOGRAM, "histogram", {"x": x, "h": start})["h"] == want).all()
    same = np.full(50, 255, np.uint8)
    assert fast(x=same, h=np.zeros(256, np.int32))[255] == 50


@everywhere
@pytest.mark.parametrize("variant", ["none", "threads"])
def test_a_histogram_a_row(on: str, variant: str) -> None:
    fast = compiled(ROWS, "rows", on, variant)
    rng = np.random.default_rng(4)
    for r, n, b in ((3, 40, 5), (1, 1, 1), (0, 2, 2), (20, 9, 30)):
        x = rng.integers(0, b, (r, n)).astype(np.int32)
        w = rng.integers(-8, 8, (r, n)).astype(np.float64)
        sums, most = np.zeros((r, b)), np.full((r, b), -1)
        for row in range(r):
            np.add.at(sums[row], x[row], w[row])
            np.maximum.at(most[row], x[row], np.arange(n))
        got = fast(x=x, w=w, B=b)
        assert (got.y == sums).all() and (got.most == most).all()
        oracle = interpreted(ROWS, "rows", {"x": x, "w": w}, B=b)
        assert (oracle["y"] == sums).all() and (oracle["most"] == most).all()


@everywhere
@pytest.mark.parametrize("variant", ["none", "swapped"])
def test_other_subscripts_and_sums(on: str, variant: str) -> None:
    fast = compiled(SUMS, "sums", on, variant)
    rng = np.random.default_rng(5)
    for n, k, b in ((30, 4, 6), (1, 1, 1), (0, 3, 2), (9, 17, 3)):
        x = rng.integers(0, b, n)
        a = rng.integers(-9, 9, (n, k)).astype(np.float32)
        least = np.full((b + 1, k), 3, np.float32)
        total = np.ones(b, np.float32)
        want, sums = least.copy(), total.copy()
        np.minimum.at(want, x + 1, a)
        np.add.at(sums, x, a.sum(axis=1))
        oracle = interpreted(SUMS, "sums", {"x": x, "a": a, "h": least, "total": total})
        assert (oracle["h"] == want).all() and (oracle["total"] == sums).all()
        got = fast(x=x, a=a, h=least, total=total)
        assert (got.h == want).all() and (got.total == sums).all()


@pytest.mark.parametrize("variant", ["threads", "lanes"])
def test_threads_and_lanes_are_refused(variant: str) -> None:
    with pytest.raises(IllegalSchedule, match="through h"):
        lowered(HISTOGRAM, "histogram", "c", variant)


def test_floats_keep_their_order() -> None:
    text = HISTOGRAM.replace("h: i32", "h: f32").replace("+= 1", "+= 1.5")
    with pytest.raises(IllegalSchedule, match="through h"):
        lowered(text, "histogram", "c", "backward")


def test_the_range_is_proved() -> None:
    text = ROWS.replace("range 0..B", "range 0..B + 1")
    with pytest.raises(BoundsError, match=r"h\[x\[r, i\]\] leaves h"):
        lowered(text, "rows", "c", "none")
