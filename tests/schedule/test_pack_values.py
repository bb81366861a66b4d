"""What packed copies hold: other types, values around arrays, temps, several readers."""

from __future__ import annotations

import numpy as np
import pytest

import tdsl
from tdsl.diagnostics import IllegalSchedule
from tdsl.ir.types import TYPES, ElemType
from tdsl.schedule.packs import is_exact
from tests.schedule.test_pack import compiled, numbers


def values(elem: ElemType) -> set[float]:
    """Values that tell types apart: the ends of integers, numbers of many digits."""
    if elem.is_integer:
        low = -(2 ** (elem.bits - 1)) if elem.kind == "int" else 0
        high = 2 ** (elem.bits - (elem.kind == "int")) - 1
        return {low, high, 1}
    digits, largest = {
        "f16": (11, 65504.0),
        "bf16": (8, (2 - 2**-7) * 2.0**127),
        "f32": (24, (2 - 2**-23) * 2.0**127),
        "f64": (53, (2 - 2**-52) * 2.0**1023),
    }[elem.name]
    smallest = {"f16": 2.0**-24, "bf16": 2.0**-133, "f32": 2.0**-149, "f64": 2.0**-1074}
    return {1.0 + 2.0 ** (1 - digits), largest, smallest[elem.name], 2.0**digits - 1}


def holds(wanted: ElemType, value: float | int) -> bool:
    if wanted.is_integer:
        low = -(2 ** (wanted.bits - 1)) if wanted.kind == "int" else 0
        return value == int(value) and low <= value < 2 ** (wanted.bits - (wanted.kind == "int"))
    if wanted.name == "f64":
        return isinstance(value, float) or int(float(value)) == value
    if abs(value) > max(values(wanted)):
        return False
    single = float(np.float32(value))
    if single != value:
        return False
    if wanted.name == "f16":
        return float(np.float16(single)) == value
    if wanted.name == "bf16":
        return int(np.array(single, np.float32).view(np.uint32)) & 0xFFFF == 0
    return True


@pytest.mark.parametrize("source", [t for t in TYPES.values() if t.name != "bool"], ids=str)
@pytest.mark.parametrize("wanted", [t for t in TYPES.values() if t.name != "bool"], ids=str)
def test_conversions_are_exact_where_every_value_is_kept(
    source: ElemType, wanted: ElemType
) -> None:
    if source.is_float and wanted.is_integer:
        assert not is_exact(source, wanted)
        return
    assert is_exact(source, wanted) == all(holds(wanted, v) for v in values(source))


TYPED = """
kernel product(M, N, K) {
    in    A: u8[M, K]
    const B: i8[K, N]
    out   C: i32[M, N]
    ab[i, j] = sum[k](i32(A[i, k]) * i32(B[k, j]))
    C[i, j] = ab[i, j]
}
schedule product for any {
    on C {
        split i by 4 -> io, ii
        split j by 16 -> jo, ji
        reorder io, jo, ii, ji
        unroll ii
        vectorize ji
    }
    compute ab at C.jo
    on ab { reorder k, i, j  unroll i  vectorize j }
    pack B at prepare as Bp: i16[jo, k, j]
    pack ab.A at C.io as Ap: i16[k, i]
}
"""


@pytest.mark.parametrize("target", ["native", "c"])
def test_operands_are_widened_while_they_are_packed(target: str) -> None:
    product = compiled(TYPED, "product", target)
    rng = np.random.default_rng(5)
    for m, n, k in ((1, 1, 1), (4, 16, 8), (5, 17, 3), (9, 40, 11)):
        a = rng.integers(0, 256, (m, k), np.uint8)
        b = rng.integers(-128, 128, (k, n), np.int8)
        want = a.astype(np.int32) @ b.astype(np.int32)
        np.testing.assert_array_equal(product(A=a, B=b), want)
        np.testing.assert_array_equal(product.prepare(B=b)(A=a), want)


PADDED = """
kernel filtered(N, C) {
    in  x: u8[N]
    in  w: i32[C, 3]
    in  zero: u8
    out y: i32[C, N]
    xp[i] = padded(x[i - 1], zero)
    y[c, i] = sum[r in 0..3](i32(xp[i + r]) * w[c, r])
}
schedule filtered for any {
    inline xp
    on y { split i by 8 -> io, ii  reorder io, r, c, ii  vectorize ii }
    pack x at io as xq: i32[r, ii]
}
"""


@pytest.mark.parametrize("target", ["native", "c"])
def test_the_value_around_an_array_is_packed(target: str) -> None:
    filtered = compiled(PADDED, "filtered", target)
    for n, c in ((1, 1), (8, 2), (15, 3), (33, 1)):
        x = np.random.default_rng(n).integers(0, 256, n, np.uint8)
        w = numbers(6, c, 3)
        around = np.concatenate([[7], x, [7]]).astype(np.int32)
        want = sum(w[:, r, None] * around[r : r + n] for r in range(3))
        np.testing.assert_array_equal(filtered(x=x, w=w, zero=np.uint8(7)), want)


def run(text: str, name: str, want: object, **arrays: object) -> None:
    np.testing.assert_array_equal(compiled(text, name, "native")(**arrays), want)


def test_a_temp_is_packed_behind_its_writer() -> None:
    text = """
    kernel turned(N) {
        in  x: i32[N, N]
        out y: i32[N, N]
        for b in 0..N {
            for j in 0..N { S: t[b, j] = 2 * x[b, j] }
            for j in 0..N { T: y[b, j] = t[b, N - 1 - j] + 1 }
        }
    }
    schedule turned for any { split T.j by 4 -> jo, ji  pack t at T.b as [jo, ji] }
    """
    for n in (1, 4, 7):
        x = numbers(n, n, n)
        run(text, "turned", 2 * x[:, ::-1] + 1, x=x)


TWO = """
kernel two(N) {
    in  x: i32[N, N]
    out y: i32[N, N]
    t[i, j] = x[i, j] + 1
    y[i, j] = t[i, j] * x[DIAGONAL]
}
schedule two for any { fuse t.i, y.i -> i  DIRECTIVES }
"""


def test_readers_share_a_copy_or_have_their_own() -> None:
    for n in (1, 5, 16):
        x = numbers(n, n, n)
        shared = TWO.replace("DIAGONAL", "i, j").replace("DIRECTIVES", "pack x at i as [j]")
        run(shared, "two", (x + 1) * x, x=x)
        apart = TWO.replace("DIAGONAL", "j, i")
        both = apart.replace("DIRECTIVES", "pack t.x at i as [j]  pack y.x at y.i as [j]")
        run(both, "two", (x + 1) * x.T, x=x)
        with pytest.raises(IllegalSchedule, match="read different elements"):
            compiled(apart.replace("DIRECTIVES", "pack x at i as [j]"), "two", "c")


def test_a_window_is_packed_by_the_sum_of_its_loops() -> None:
    """x[i + r] has one element for each i + r, whichever pair that is."""
    text = """
    kernel moving(N) {
        in  x: i32[N + 3]
        out y: i32[N]
        y[i] = sum[r in 0..4](x[i + r])
    }
    schedule moving for any {
        split i by 8 -> io, ii
        reorder io, r, ii
        pack x[d] at io as xw[d]
        vectorize ii
    }
    """
    for n in (1, 8, 21):
        x = numbers(n, n + 3)
        run(text, "moving", sum(x[r : r + n] for r in range(4)), x=x)


def test_loops_that_marks_have_split_keep_their_names() -> None:
    text = """
    kernel product(M, N, K) {
        in  A: i32[M, K]
        in  B: i32[K, N]
        out C: i32[M, N]
        C[i, j] = sum[k](A[i, k] * B[k, j])
    }
    schedule product for any {
        on C { reorder i, k, j  vectorize j  unroll k by 4 plain }
        pack B at root as [k, j]
        pack A at i as [k] in scratch
        parallel C.i
    }
    """
    for m, n, k in ((1, 1, 1), (3, 40, 9), (2, 16, 4), (5, 17, 3)):
        a, b = numbers(1, m, k), numbers(2, k, n)
        run(text, "product", a @ b, A=a, B=b)


def test_a_copy_of_a_copy() -> None:
    text = """
    kernel product(M, N, K) {
        in  A: i32[M, K]
        in  B: i32[K, N]
        out C: i32[M, N]
        C[i, j] = sum[k](A[i, k] * B[k, j])
    }
    schedule product for any {
        on C { split j by 16 -> jo, ji  split k by 4 -> ko, ki  reorder jo, ko, i, ki, ji }
        pack B at jo as Bj[ko, ki, ji]
        pack C.Bj at ko as Bk[ji, ki]
    }
    """
    for m, n, k in ((1, 1, 1), (3, 40, 9), (2, 16, 4), (5, 17, 3)):
        a, b = numbers(1, m, k), numbers(2, k, n)
        run(text, "product", a @ b, A=a, B=b)


def test_what_a_call_brings_cannot_be_prepared() -> None:
    text = TYPED.replace("const B", "in    B")
    with pytest.raises(IllegalSchedule, match="no `const` argument"):
        tdsl.parse(text, name="t.tdsl")["product"].compile("c")


LANES = """
kernel scaled(M, N) {
    in  x: f32[M, N]
    out y: f32[M, N]
    y[i, j] = 2.0 * x[i, j]
}
schedule scaled for any { %s }
"""


@pytest.mark.parametrize("order", ["i, j, j_v", "j, i, j_v", "j_v, j, i", "j, j_v, i"])
@pytest.mark.parametrize("mark", ["vectorize j", "vectorize j by 4", "unroll j by 3"])
def test_a_marked_loop_and_its_inner_one_are_two_dimensions(mark: str, order: str) -> None:
    order = order.replace("j_v", "j_u") if "unroll" in mark else order
    scaled = compiled(LANES % f"{mark} pack x at root as [{order}]", "scaled", "avx2")
    for m, n in ((1, 1), (3, 16), (2, 19)):
        x = np.random.default_rng(3).standard_normal((m, n)).astype(np.float32)
        np.testing.assert_array_equal(scaled(x=x), 2 * x)


BLUR = """
kernel blur(H, W) {
    assume W >= 1
    in  x: i32[H, W]
    out y: i32[H, W]
    a[i, j] = 3 * x[i, j]
    y[i, j] = a[i, clamp(j - 1, 0, W - 1)] + 10 * a[i, clamp(j + 2, 0, W - 1)]
}
schedule blur for any { %s }
"""


@pytest.mark.parametrize("part", ["first 1", "last 2", "first 3 last 2"])
@pytest.mark.parametrize("loop", ["uo", "v", "ui"])
def test_a_peeled_copy_may_read_nothing_in_a_part(loop: str, part: str) -> None:
    """The blocks of the copy are whole, so that its last rows may hold zeros alone."""
    text = BLUR % f"pack a[u, v] at root as Q[u // 8, v, u % 8] peel Q.{loop} {part}"
    blur = compiled(text, "blur", "avx2")
    for h, w in ((1, 1), (8, 3), (19, 5)):
        x = np.random.default_rng(h).integers(-99, 99, (h, w), np.int32)
        at = np.arange(w)
        want = 3 * (x[:, (at - 1).clip(0)] + 10 * x[:, (at + 2).clip(0, w - 1)])
        np.testing.assert_array_equal(blur(x=x), want)
