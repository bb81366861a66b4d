"""`tdsl show`: each level as text."""

from pathlib import Path

import pytest

from tests.cli.conftest import Tdsl

PROGRAM = """\
sizes M, N, K
statement C.init(i, j)    where 0 <= i < M and 0 <= j < N
    writes  C[i, j]
statement C(i, j, k)    where 0 <= i < M and 0 <= j < N and 0 <= k < K
    updates C[i, j] by +
    reads   A[i, k]
    reads   B[k, j]
flow through C: C.init(i, j) -> C(i', j', k')    where i' == i and j' == j
flow through C, of one reduction by +: C(i, j, k) -> C(i', j', k')    where k' >= k + 1 and \
i' == i and j' == j
"""

TREE = """\
for io = i // 4
    for jo = j // 16
        for k
            unroll ii = i
                vector ji = j
                    C[i, j] += ...
"""

AFTER_ONE = """\
# after 1 of 4: tile i, j by 4, 16 -> io, jo, ii, ji
for io = i // 4
    for jo = j // 16
        for ii = i
            for ji = j
                for k
                    C[i, j] += ...
"""

LOOPS = """\
for i in 0..M
    for k in 0..K
        for j in 0..N
            keep C in registers
                if k == 0
                    C.init(i, j)
                C(i, j, k)
    if K == 0
        for j in 0..N
            keep C in registers
                C.init(i, j)
"""


def test_the_kernel(tdsl: Tdsl) -> None:
    result = tdsl("show", "matmul.tdsl", "--stage", "kernel", "--size", "K=8")
    assert (result.status, result.err) == (0, "")
    assert "C: C[i, j] += A[i, k] * B[k, j]" in result.out
    assert "# K = 8" in result.out


def test_the_program_in_the_user_s_names(tdsl: Tdsl) -> None:
    result = tdsl("show", "matmul.tdsl", "--stage", "program")
    assert (result.status, result.out, result.err) == (0, PROGRAM, "")


def test_the_tree(tdsl: Tdsl) -> None:
    result = tdsl("show", "matmul.tdsl", "--stage", "tree", "--target", "avx2")
    assert (result.status, result.out) == (0, TREE)


def test_the_tree_after_a_directive(tdsl: Tdsl) -> None:
    result = tdsl("show", "matmul.tdsl", "--stage", "tree", "--target", "avx2", "--after", "1")
    assert (result.status, result.out) == (0, AFTER_ONE)


def test_the_tree_before_a_directive_that_is_refused(tdsl: Tdsl) -> None:
    stage = ("--kernel", "scan", "--schedule", "lanes", "--stage", "tree")
    assert tdsl("show", "wrong.tdsl", *stage, "--after", "0").out == (
        "# after 0 of 1\nfor i\n    a[i] = ...\n"
    )
    assert tdsl("show", "wrong.tdsl", *stage, "--after", "1").status == 1


def test_the_loops(tdsl: Tdsl) -> None:
    result = tdsl("show", "matmul.tdsl", "--stage", "loops", "--target", "c")
    assert (result.status, result.out) == (0, LOOPS)


def test_loops_with_lanes_copies_and_registers(tdsl: Tdsl) -> None:
    out = tdsl("show", "matmul.tdsl", "--stage", "loops", "--target", "avx2").out
    assert "keep C in registers" in out
    assert "unroll ii" in out
    assert "vector ji" in out
    assert "of which" in out


@pytest.mark.parametrize(
    ("stage", "part"),
    [("vector", "f32x8"), ("c", "_mm256_fmadd_ps("), ("asm", "vfmadd")],
)
def test_the_levels_of_machines(tdsl: Tdsl, stage: str, part: str) -> None:
    result = tdsl("show", "matmul.tdsl", "--stage", stage, "--target", "avx2")
    assert result.status == 0, result.err
    assert part in result.out


def test_c_is_what_compile_writes(tdsl: Tdsl) -> None:
    shown = tdsl("show", "matmul.tdsl", "--stage", "c", "--target", "avx2").out
    assert tdsl("compile", "matmul.tdsl", "--target", "avx2").status == 0
    with open("build/matmul.c") as file:
        assert shown == file.read()


def test_several_kernels_have_headings(tdsl: Tdsl) -> None:
    out = tdsl("show", "two.tdsl", "--stage", "kernel").out
    assert out.startswith("# first\nkernel first<")
    assert "\n\n# second\nkernel second<" in out


def test_a_lifted_reduction_is_shown_by_its_indices(tdsl: Tdsl, folder: Path) -> None:
    text = (
        "kernel f(M, N) {\n  in x: f32[M, N]\n  out y: f32[M]\n  y[i] = sum[j](x[i, j]) + 1.0\n}\n"
    )
    (folder / "lifted.tdsl").write_text(text)
    result = tdsl("show", "lifted.tdsl", "--stage", "tree")
    assert "y_r1[i] += ..." in result.out


def test_the_tree_has_the_statements_that_a_schedule_made(tdsl: Tdsl, folder: Path) -> None:
    text = (
        "kernel f(N) {\n  in x: f32[N]\n  out s: f32\n  s = sum[i](x[i])\n}\n"
        "schedule f for any { split i by 8 -> io, ii  factor s.io -> part }\n"
    )
    (folder / "blocks.tdsl").write_text(text)
    for after in ((), ("--after", "2")):
        result = tdsl("show", "blocks.tdsl", "--stage", "tree", *after)
        assert result.status == 0, result.err
        assert "for io\n    for ii = i\n        part[io] += ...\nfor io\n    s += ..." in result.out


def test_assembly_says_what_a_trip_of_each_inner_loop_does(tdsl: Tdsl) -> None:
    options = ("--stage", "asm", "--target", "avx2", "--size", "N=64")
    rows = tdsl("show", "matmul.tdsl", *options).out.splitlines()
    heads = [n for n, row in enumerate(rows) if row == "# ---- innermost loop of C"]
    assert heads
    at = heads[0]
    assert rows[at + 1].startswith("# ---- matmul.c:") and "for (int64_t k = 0;" in rows[at + 1]
    # 4 rows of 2 vectors; each row is broadcast, each vector loaded once.
    assert "8 fma, 0 dot, 6 loads, 0 stores, 0 spills, 0 gathers, 0 masked" in rows[at + 2]
    end = next(n for n in range(at + 4, len(rows)) if rows[n].startswith("\tj"))
    assert sum("vfmadd" in row for row in rows[at + 3 : end]) == 8
    assert not any(".loc" in row or "fintrin.h" in row for row in rows)
