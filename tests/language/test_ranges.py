"""`range lo..hi`: promised values, used by the proofs and checked on entry."""

from typing import Any

import numpy as np
import pytest

from tdsl import driver
from tdsl.diagnostics import BoundsError
from tdsl.syntax.parser import parse
from tdsl.targets import target
from tests.language.run import compiled, everywhere, interpreted, lowered

SPMV = """
kernel spmv(M, P, N) {
    in  col: i32[M, P] range 0..N
    in  val: f32[M, P]
    in  x: f32[N]
    out y: f32[M]
    y[i] = sum[p](val[i, p] * x[col[i, p]])
}
schedule spmv.none for any when false { }
schedule spmv.lanes for any when false { reorder p, i  vectorize i }
schedule spmv.threads for any when false { parallel i }
"""

TYPES = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
NUMPY: dict[str, type[np.integer[Any]]] = {
    "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32,
    "u32": np.uint32, "i64": np.int64, "u64": np.uint64,
}  # fmt: skip
TAKE = """
kernel take<T: type = i32>(N, K) {
    in  idx: T[N] range 2..K + 2
    in  t: f64[K]
    out y: f64[N]
    y[i] = t[idx[i] - 2]
}
schedule take for any { vectorize i }
"""

SCALAR = """
kernel row(M, N) {
    in  which: i64 range 0..M
    in  A: f32[M, N]
    out y: f32[N]
    y[j] = A[which, j]
}
"""


@everywhere
@pytest.mark.parametrize("variant", ["none", "lanes", "threads"])
def test_gathers_are_proved_by_the_promise(on: str, variant: str) -> None:
    fast = compiled(SPMV, "spmv", on, variant)
    rng = np.random.default_rng(5)
    for m, p, n in ((40, 7, 9), (1, 1, 1), (0, 0, 5), (17, 3, 100)):
        col = rng.integers(0, n, (m, p)).astype(np.int32)
        val = rng.integers(-9, 9, (m, p)).astype(np.float32)
        x = rng.integers(-9, 9, n).astype(np.float32)
        want = (val * x[col]).sum(axis=1)
        assert (fast(col=col, val=val, x=x) == want).all()
        oracle = interpreted(SPMV, "spmv", {"col": col, "val": val, "x": x})
        assert (oracle["y"] == want).all()


@everywhere
@pytest.mark.parametrize("elem", TYPES)
def test_every_type_of_integers(on: str, elem: str) -> None:
    fast = compiled(TAKE, "take", on, constants={"T": elem})
    t = np.arange(20, dtype=np.float64) ** 2
    idx = np.random.default_rng(1).integers(2, 22, 37).astype(NUMPY[elem])
    assert (fast(idx=idx, t=t) == t[idx.astype(int) - 2]).all()
    info = np.iinfo(NUMPY[elem])
    for bad in (1, 22, info.min, info.max):
        for place in (0, 17, 36):
            wrong = idx.copy()
            wrong[place] = bad
            with pytest.raises(ValueError, match=rf"'idx': expected values in 2\.\.22.*{bad}"):
                fast(idx=wrong, t=t)


@everywhere
def test_a_number_keeps_its_promise(on: str) -> None:
    fast = compiled(SCALAR, "row", on)
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert (fast(which=2, A=a) == a[2]).all()
    for bad in (-1, 3):
        with pytest.raises(ValueError, match=r"'which': expected values in 0\.\.3"):
            fast(which=bad, A=a)


def test_the_c_entry_returns_status_2_and_says_so() -> None:
    c = lowered(SPMV, "spmv", "c", "none")
    module = driver.emit("spmv", [c])
    assert "col: in, i32[M, P], values in 0..N" in module.header
    entry = module.c_source[module.c_source.index("int spmv(") :]
    check = entry.index("tdsl_outside_i32(col")
    assert "return 2;" in entry[check : check + 80]
    assert entry.index("return 3;") < check  # nothing is read through a null pointer


def test_a_promise_that_does_not_suffice() -> None:
    text = SPMV.replace("range 0..N", "range 0..N + 1")
    with pytest.raises(BoundsError, match=r"x\[col\[i, p\]\] leaves x"):
        driver.run(parse(text, "t.tdsl"), driver.Options("spmv", target("c")))
