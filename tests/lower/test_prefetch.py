"""Hints: one for each line of what an iteration touches, which change no value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np
import pytest

import tdsl
from tdsl.diagnostics import BudgetExceeded, Error
from tdsl.driver import Options, run
from tdsl.ir import vector as v
from tdsl.ir.walk_vector import items
from tdsl.lower.tables import Table, TooMany, start
from tdsl.lower.walk_instances import Walk
from tdsl.syntax.parser import parse
from tdsl.targets import TARGETS
from tests.lower.moving import EVERYWHERE, compiled

MATMUL = """
kernel matmul(M, N, K) {
    in  A: f32[M, K]
    in  B: f32[K, N]
    out C: f32[M, N]
    C[i, j] = sum[k](A[i, k] * B[k, j])
}
schedule matmul for any { DIRECTIVES }
"""
TILE = "tile i, j by 4, 32 -> io, jo, ii, ji  reorder jo, io, k, ii, ji  unroll ii  vectorize ji  "
PLACED = (
    TILE + "prefetch C at io",
    TILE + "prefetch C at io ahead 1  prefetch B at k ahead 8  prefetch A at io",
    TILE + "parallel jo  prefetch C.A at k ahead 3",
    "prefetch B at i",
    "split k by 4 -> ko, ki  unroll ki plain  prefetch B at ki",
    "split i by 3 -> io, ii tail cases  reorder io, k, j, ii  unroll ii  prefetch B at k ahead 2",
    "split i by 5 -> io, ii tail peel  prefetch A at ii ahead 4096",
)
SHAPES = ((0, 3, 2), (3, 0, 2), (3, 4, 0), (1, 1, 1), (8, 32, 4), (9, 67, 5), (13, 35, 11))


@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize("directives", PLACED)
def test_products_stay_right(directives: str, target: str) -> None:
    product = compiled(MATMUL.replace("DIRECTIVES", directives), "matmul", target)
    assert "__builtin_prefetch" in product.c_source
    rng = np.random.default_rng(1)
    for m, n, k in SHAPES:
        a = rng.integers(-9, 9, (m, k)).astype(np.float32)
        b = rng.integers(-9, 9, (k, n)).astype(np.float32)
        np.testing.assert_array_equal(product(A=a, B=b), a @ b)


def function(text: str, kernel: str, target: str, sizes: Mapping[str, int]) -> v.Function:
    file = parse(text, f"{kernel}.tdsl")
    return run(file, Options(kernel, TARGETS[target], sizes)).lowered.function


def hints(block: v.Block, table: Table) -> Iterator[tuple[str, int, int]]:
    """Buffer, offset and count of all hints that a block gives, in order of the text."""
    for item in block.items:
        match item:
            case v.Prefetch(buffer, offset, count):
                pairs = zip(table.value(offset), table.value(count), strict=True)
                yield from ((buffer, int(o), int(c)) for o, c in pairs)
            case v.LetIndex(name, value):
                table = table.having(name, table.value(value))
            case v.For():
                yield from hints(item.body, table.loop(item.var, item.lo, item.hi, item.step))
            case v.If(condition, then, other) if not isinstance(condition, v.Ref):
                holds = table.holds(condition)  # type: ignore[arg-type]
                yield from hints(then, table.where(holds))
                yield from hints(other or v.Block(()), table.where(~holds))
            case v.Switch(on, cases, default):
                chosen = table.value(on)
                for number, body in cases:
                    yield from hints(body, table.where(chosen == number))
                yield from hints(default, table.where(~np.isin(chosen, [n for n, _ in cases])))
            case v.Block():
                yield from hints(item, table)
            case _:
                pass


def elements(text: str, target: str, **sizes: int) -> dict[str, list[int]]:
    """The elements that are asked for, by buffer, each as often as it is."""
    found: dict[str, list[int]] = {}
    body = function(text, "matmul", target, {}).body
    for buffer, offset, count in hints(body, start([sizes])):
        found.setdefault(buffer, []).extend(range(offset, offset + count))
    return found


@pytest.mark.parametrize("target", ["c", "avx512"])
def test_each_tile_is_asked_for_as_a_whole(target: str) -> None:
    """At sizes of whole tiles the hints name every element of C once."""
    text = MATMUL.replace("DIRECTIVES", TILE + "prefetch C at io")
    found = elements(text, target, M=8, N=64, K=3)
    assert sorted(found["C"]) == list(range(8 * 64))


@pytest.mark.parametrize("target", ["c", "avx2"])
def test_ahead_moves_the_hints(target: str) -> None:
    text = MATMUL.replace("DIRECTIVES", "prefetch B at k ahead 3")
    found = elements(text.replace("sum[k]", "sum[k]"), target, M=1, N=1, K=5)
    # Row k + 3 of a matrix of one column, also beyond its end.
    assert found["B"] == [3, 4, 5, 6, 7]


def test_the_rows_of_a_symbolic_box_are_a_loop() -> None:
    body = function(MATMUL.replace("DIRECTIVES", "prefetch B at i"), "matmul", "c", {}).body
    (row,) = [i for i in items(body) if isinstance(i, v.For) and i.var == "B_row"]
    (hint,) = [i for i in items(row.body) if isinstance(i, v.Prefetch)]
    assert not hint.write
    found = elements(MATMUL.replace("DIRECTIVES", "prefetch B at i"), "c", M=2, N=5, K=3)
    assert sorted(found["B"]) == sorted([*range(15), *range(15)])


def test_what_is_written_is_asked_for_so() -> None:
    body = function(MATMUL.replace("DIRECTIVES", TILE + "prefetch C at io"), "matmul", "c", {}).body
    assert all(i.write for i in items(body) if isinstance(i, v.Prefetch))


def test_a_loop_of_one_iteration_keeps_its_hints() -> None:
    text = MATMUL.replace("DIRECTIVES", "prefetch B at k")
    body = function(text, "matmul", "c", {"K": 1}).body
    assert [i for i in items(body) if isinstance(i, v.Prefetch)]


def test_one_reader_alone() -> None:
    text = """
    kernel pair(N) {
        in  x: f32[N]
        out y: f32[N]
        out z: f32[N]
        y[i] = x[i]
        z[i] = x[N - 1 - i]
    }
    schedule pair for any { fuse y.i, z.i -> i  prefetch z.x at z.i }
    """
    body = function(text, "pair", "c", {}).body
    found = [o for _, o, _ in hints(body, start([{"N": 6}]))]
    assert found == [5, 4, 3, 2, 1, 0]


def test_the_c_has_defined_addresses() -> None:
    product = compiled(MATMUL.replace("DIRECTIVES", PLACED[1]), "matmul", "c")
    calls = re.findall(r"tdsl_prefetch_\w+\(.*", product.c_source)
    assert all("(uintptr_t)" in call or "uintptr_t first" in call for call in calls)
    assert "prefetch C at io ahead 1" in product.c_source


@pytest.mark.parametrize(
    ("directives", "words"),
    [
        ("prefetch Z at k", "there is no array Z"),
        ("prefetch A at nowhere", "nowhere"),
        ("prefetch A at k ahead -1", "0 to 4096"),
        ("prefetch A at k ahead 5000", "0 to 4096"),
        ("vectorize j  prefetch A at j_v", "no place for a prefetch"),
        ("prefetch A at k  split k by 4 -> ko, ki", "prefetch A at k"),
    ],
)
def test_refused(directives: str, words: str) -> None:
    with pytest.raises(Error, match=words):
        compiled(MATMUL.replace("DIRECTIVES", directives), "matmul", "c")


def test_elements_that_data_choose_are_refused() -> None:
    text = """
    kernel pick(N, M) {
        in  at: i32[N] range 0..M
        in  x: f32[M]
        out y: f32[N]
        y[i] = x[at[i]]
    }
    schedule pick for any { prefetch x at y.i }
    """
    with pytest.raises(Error, match="data choose"):
        compiled(text, "pick", "c")


STRIDED = """
kernel strided(M, N, lda) {
    assume lda >= N
    in  A: f32[M, N] strides [lda, 1]
    in  B: f32[N, M] strides [free, free]
    in  v: f32[N] strides [-1]
    out y: f32[M, N]

    t[i, j] = A[i, j] + B[j, i]
    y[i, j] = t[i, j] - v[j]
}

schedule strided for any {
    skew t.i by j
    vectorize t.j
    prefetch B at t.i ahead 1
}
"""


@pytest.mark.parametrize("target", EVERYWHERE)
def test_many_hints_are_not_too_many_iterations(target: str) -> None:
    """In a skewed loop a hint asks for a box that grows with both sizes."""
    kernel = tdsl.parse(STRIDED, name="strided.tdsl")["strided"].compile(target)
    rng = np.random.default_rng(3)
    for m, n in ((1, 1), (5, 9), (19, 34)):
        a = rng.integers(-9, 9, (m, n)).astype(np.float32)
        b = rng.integers(-9, 9, (n, m)).astype(np.float32)
        v_ = rng.integers(-9, 9, n).astype(np.float32)
        np.testing.assert_array_equal(kernel(A=a, B=b, v=v_[::-1].copy()[::-1]), a + b.T - v_)


def test_too_many_iterations_of_the_lanes_are_refused_at_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(self: Walk, blocks: object, table: Table) -> None:
        raise TooMany(table.choice)

    monkeypatch.setattr(Walk, "function", never)
    file = parse(STRIDED, "strided.tdsl")
    with pytest.raises(BudgetExceeded, match="too many to be checked") as caught:
        run(file, Options("strided", TARGETS["avx2"]))
    assert "schedule strided for any" in str(caught.value)
    assert "help: bind sizes, or leave out some of its directives" in str(caught.value)


def test_a_few_lines_are_asked_for_without_a_loop() -> None:
    text = """
    kernel double(N) {
        in  x: f32[N]
        out y: f32[N]
        y[i] = 2.0 * x[i]
    }
    schedule double for any { split i by 48 -> io, ii  prefetch x at io ahead 4 }
    """
    product = compiled(text, "double", "c", sizes={"N": 480})
    hints = re.findall(r"__builtin_prefetch\(\(const void \*\)\(first \+ (\d+)\), 0, 3\)",
                       product.c_source)  # fmt: skip
    assert hints == ["0", "64", "128"]
