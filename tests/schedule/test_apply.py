"""What directives make of the tree."""

from __future__ import annotations

import pytest

from tdsl.diagnostics import IllegalSchedule
from tdsl.polyhedral.tree import Loop, Tail, loops_of
from tdsl.schedule.state import Scheduled, StageRequest
from tests.schedule import programs
from tests.schedule.run import on_matmul, scheduled


def loop(made: Scheduled, statement: str, name: str) -> Loop:
    return next(x for x in loops_of(made.tree, statement) if x.name == name)


def names(made: Scheduled, statement: str = "C") -> list[str]:
    return [x.name for x in loops_of(made.tree, statement)]


def order(made: Scheduled, statement: str, **sizes: int) -> list[tuple[int, ...]]:
    return [x for s, x in programs.order(made.program, made.tree, sizes) if s == statement]


def test_tile_puts_outer_loops_first_in_the_order_named() -> None:
    made = on_matmul("tile C.j, C.i by 3, 2 -> jo, io, ji, ii")
    assert names(made) == ["jo", "io", "ji", "ii", "k"]
    expected = sorted(programs.box(3, 5, 2), key=lambda x: (x[1] // 3, x[0] // 2, x[1], x[0], x[2]))
    assert order(made, "C", M=3, N=5, K=2) == expected


def test_split_factors_beyond_the_extent_and_of_one_are_legal() -> None:
    made = on_matmul("split C.i by 1 -> io, ii split C.j by 100 -> jo, ji")
    assert order(made, "C", M=2, N=3, K=1) == programs.box(2, 3, 1)


def test_tails_are_kept() -> None:
    made = on_matmul("split C.k by 4 -> ko, ki tail balanced, peel")
    info = loop(made, "C", "ki").inner_of
    assert info is not None and info.tail == Tail("peel", balanced=True)
    blocks = [x.name for x in loops_of(made.tree, "C")]
    assert blocks == ["i", "j", "ko", "ki"]


def test_vectorize_splits_a_loop_of_symbolic_extent() -> None:
    made = on_matmul("vectorize C.j")
    assert names(made) == ["i", "j", "j_v", "k"]
    lanes = loop(made, "C", "j_v")
    assert lanes.mark == "vector" and lanes.width is None
    assert lanes.inner_of is not None
    assert (lanes.inner_of.factor, lanes.inner_of.tail.mode) == (16, "mask")


def test_vectorize_by_and_the_widest_type() -> None:
    made = on_matmul("vectorize C.j by 8")
    lanes = loop(made, "C", "j_v")
    assert lanes.width == 8 and lanes.inner_of is not None and lanes.inner_of.factor == 8
    text = """
    kernel widen(N) {
        in  x: u8[N]
        out y: i32[N]
        y[i] = i32(x[i])
    }
    schedule widen for any { vectorize i }
    """
    info = loop(scheduled(text), "y", "i_v").inner_of
    assert info is not None and info.factor == 16  # of i32 in 64 bytes


def test_vectorize_takes_a_constant_loop_whole() -> None:
    made = on_matmul("split C.j by 40 -> jo, ji vectorize ji by 8")
    assert names(made) == ["i", "jo", "ji", "k"]
    assert (loop(made, "C", "ji").mark, loop(made, "C", "ji").width) == ("vector", 8)


def test_a_long_constant_loop_becomes_a_loop_over_vectors() -> None:
    # Bound sizes must not turn a good schedule into a thousand vectors side by side.
    made = on_matmul("split C.j by 1000 -> jo, ji vectorize ji")
    assert names(made) == ["i", "jo", "ji", "ji_v", "k"]
    made = on_matmul("split C.j by 256 -> jo, ji vectorize ji")
    assert names(made) == ["i", "jo", "ji", "k"]


def test_copies_are_counted_over_all_loops() -> None:
    on_matmul("split C.i by 32 -> io, ii split C.j by 32 -> jo, ji unroll ii, ji")
    with pytest.raises(IllegalSchedule, match="1056 times, and 1024 is the limit"):
        on_matmul("split C.i by 32 -> io, ii split C.j by 33 -> jo, ji unroll ii, ji")


def test_float_sums_need_reassociate_integers_and_maxima_do_not() -> None:
    with pytest.raises(IllegalSchedule, match="reassociate C"):
        on_matmul("vectorize C.k")
    assert names(on_matmul("reassociate C vectorize C.k")) == ["i", "j", "k", "k_v"]
    assert names(reduction("sum", "i32"), "s") == ["i", "j", "j_v"]
    assert names(reduction("max", "f32"), "s") == ["i", "j", "j_v"]
    # Of zeros with signs, max depends on the order.
    kept = "strict_fp keeps the order of every reduction of floats"
    with pytest.raises(IllegalSchedule, match=kept):
        reduction("max", "f32", strict_fp=True)


def reduction(operator: str, kind: str, strict_fp: bool = False) -> Scheduled:
    text = f"""
    kernel reduce(N, M) {{
        assume M >= 1
        in  x: {kind}[N, M]
        out s: {kind}[N]
        s[i] = {operator}[j](x[i, j])
    }}
    schedule reduce for any {{ vectorize j }}
    """
    return scheduled(text, strict_fp=strict_fp)


def test_reassociate_of_integers_is_a_warning() -> None:
    text = """
    kernel total(N) {
        in  x: i64[N]
        out s: i64
        s = sum[j](x[j])
    }
    schedule total for any { reassociate s vectorize j }
    """
    assert "exact" in scheduled(text).warnings[0].message


def test_unroll_by_splits_first() -> None:
    made = on_matmul("unroll C.k by 4 plain")
    inner = loop(made, "C", "k_u")
    assert (inner.mark, inner.plain) == ("unroll", True)
    assert inner.inner_of is not None and inner.inner_of.factor == 4


def test_loops_unrolled_together_keep_their_order() -> None:
    # Each of r and s alone would be jammed past the other; c is inside both.
    text = """
    kernel taps(N) {
        in  x: f32[N + 8]
        in  w: f32[3, 3]
        out y: f32[N]
        y[i] = sum[r, s](x[i + 3 * r + s] * w[r, s])
    }
    schedule taps for any {
        split i by 16 -> io, ii
        reorder io, r, s, ii
        unroll r, s
        vectorize ii
    }
    """
    assert [x.mark for x in loops_of(scheduled(text).tree, "y")] == [
        "serial", "unroll", "unroll", "vector",
    ]  # fmt: skip


def test_collapse_of_constant_and_symbolic_extents() -> None:
    made = on_matmul("split Y.j by 4 -> jo, ji reorder jo, Y.i, ji collapse Y.i, ji -> c")
    assert names(made, "Y") == ["jo", "c"]
    made = on_matmul("collapse Y.i, Y.j -> ij parallel ij")
    assert loop(made, "Y", "ij").mark == "parallel"
    with pytest.raises(IllegalSchedule, match="collapsed with a loop of symbolic extent"):
        on_matmul("collapse Y.i, Y.j -> ij split ij by 8 -> a, b")
    with pytest.raises(IllegalSchedule, match="does not stand directly inside"):
        on_matmul("collapse C.i, C.k -> ik")


def test_parallel_of_a_symbolic_collapse_asks_both_loops() -> None:
    text = """
    kernel rows(N) {
        inout A: f32[N, N]
        for i in 0..N, j in 1..N { S: A[i, j] = A[i, j - 1] + 1.0 }
    }
    schedule rows for any { collapse i, j -> ij parallel ij }
    """
    with pytest.raises(IllegalSchedule, match="at the same time"):
        scheduled(text)


def test_stage_is_recorded() -> None:
    made = on_matmul("on C { reorder k, i, j } stage C at C.k in registers stage C.A at C.i")
    assert made.stages == (
        StageRequest("C", None, ("C", "k"), "registers"),
        StageRequest("A", "C", ("C", "i"), None),
    )


def test_every_directive_leaves_a_tree() -> None:
    made = on_matmul("on C { split i by 8 -> io, ii\n unroll ii } parallel io")
    assert len(made.trail) == 3
    first, second, third = (tree for _, tree in made.trail)
    assert [x.mark for x in loops_of(first, "C")][:2] == ["serial", "serial"]
    assert [x.mark for x in loops_of(second, "C")][:2] == ["serial", "unroll"]
    assert [x.mark for x in loops_of(third, "C")][:2] == ["parallel", "unroll"]
    assert third == made.tree


def test_marks_are_checked_again_at_the_end() -> None:
    # Lanes over i are fine while t is outside; not once it is inside the lanes.
    text = """
    kernel march(T, N) {
        inout A: f32[N]
        inout B: f32[N]
        for t in 0..T, i in 0..8 { S: A[i] = A[i + 1] * 0.5 where i + 1 < N and i < N }
    }
    schedule march for any { vectorize i }
    """
    made = scheduled(text)
    assert loop(made, "S", "i").mark == "vector"
    with pytest.raises(IllegalSchedule):
        scheduled(text.replace("vectorize i }", "vectorize i reorder i, t }"))


def test_skews_make_a_wavefront_parallel() -> None:
    text = """
    kernel wave(N) {
        assume N >= 2
        inout A: f64[N, N]
        for i in 1..N, j in 1..N { S: A[i, j] = A[i - 1, j] + A[i, j - 1] }
    }
    schedule wave for any {
        skew j by i
        reorder j, i
        parallel i
    }
    """
    made = scheduled(text)
    expected = sorted(
        ((i, j) for i in range(1, 5) for j in range(1, 5)), key=lambda x: (x[0] + x[1], x[0])
    )
    assert order(made, "S", N=5) == expected


def test_downto_gives_minus_the_index() -> None:
    text = """
    kernel down(N) {
        inout A: f64[N]
        for i in N-2 downto 0 { S: A[i] = A[i] + A[i + 1] }
    }
    schedule down for any { split i by 3 -> io, ii }
    """
    made = scheduled(text)
    assert order(made, "S", N=8) == [(i,) for i in range(6, -1, -1)]
    blocks = programs.loop_values(made.program, made.tree, "S", {"N": 8})
    assert [blocks[i,][0] for i in range(6, -1, -1)] == [0, 0, 0, 1, 1, 1, 2]


def test_fuse_and_distribute_are_inverse() -> None:
    made = on_matmul("fuse C.i, Y.i -> r distribute r")
    assert names(made, "C") == ["r", "j", "k"] and names(made, "Y") == ["r", "j"]
    assert order(made, "Y", M=2, N=2, K=1) == programs.box(2, 2)
