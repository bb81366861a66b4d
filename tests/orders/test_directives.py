"""`wavefront`, `extend`, `sequence`, `order`: what they accept runs and equals the interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tdsl
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq
from tests.orders.oracle import TARGETS, held

SEIDEL = """
kernel seidel(T, N) {
    assume N >= 3
    inout A: f64[N, N]
    for t in 0..T, i in 1..N-1, j in 1..N-1 {
        S: A[i, j] = (A[i-1, j] + A[i, j-1] + A[i, j] + A[i, j+1] + A[i+1, j]) / 5.0
    }
}
"""
CALLS: list[Any] = [{"T": t, "N": n} for t, n in ((0, 3), (1, 3), (2, 5), (3, 8), (5, 11), (7, 6))]

STAGES = """
kernel stages(N) {
    in  x: f64[N]
    out a: f64[N]
    out b: f64[N]
    out s: f64[N]
    P: a[i] = 2.0 * x[i]
    Q: b[i] = x[i] - 1.0
    R: s[i] = a[i] + b[i]
}
"""
CHAIN_CALLS: list[Any] = [{"N": n} for n in (0, 1, 2, 7, 16, 19)]


def outline(node: Node) -> str:
    match node:
        case Leaf(name):
            return name
        case Loop(name=name, body=body):
            return f"{name}({outline(body)})"
        case Seq(children):
            return " ".join(outline(c) for c in children)


def with_schedule(text: str, name: str, directives: str) -> tdsl.Module:
    return tdsl.parse(f"{text}\nschedule {name} for any {{\n{directives}\n}}\n")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "directives",
    [
        "skew j by i  wavefront i, j -> front, cell",
        "wavefront i, j -> front, cell  parallel cell",
        "skew i by t  skew j by t  tile t, i by 2, 3 -> to, io, ti, ii  "
        "wavefront to, io -> front, cell  parallel cell",
        "skew i by t  skew j by i  skew j by t  tile t, i, j by 2, 3, 4 -> to, io, jo, ti, ii, ji  "
        "wavefront to, io -> front, cell  parallel cell",
        "order { S[t, i, j] -> [2 * t + i + j, t, i] } -> front, time, row  parallel time",
    ],
)
def test_seidel(directives: str, target: str) -> None:
    held(with_schedule(SEIDEL, "seidel", directives), "seidel", CALLS, target=target)


def test_wavefront_adds_the_coordinates() -> None:
    s = tdsl.parse(SEIDEL)["seidel"].schedule("c")
    s.wavefront("i", "j", into=("front", "cell"))
    assert outline(s.tree) == "t(front(cell(S)))"
    assert "wavefront i, j -> front, cell" in str(s)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("directives", "shape"),
    [
        ("sequence Q, P", "i(Q) i(P) i(R)"),
        ("extend P by n = N - 1", "i(n(P)) i(Q) i(R)"),
        ("extend P by n = i  extend Q by n = 0", "i(n(P)) i(n(Q)) i(R)"),
        ("order { P[i] -> [i, 0]; Q[i] -> [i, 1]; R[i] -> [i, 2] }", "t0(P Q R)"),
        ("order { P[i] -> [i, 0]; Q[i] -> [i, 1]; R[i] -> [i + 1] } -> k", "k(P R Q)"),
        ("order { P[i] -> [1, -i]; Q[i] -> [0, i]; R[k] -> [2, k] } -> phase, i",
         "i(Q) i(P) i(R)"),
    ],
)  # fmt: skip
def test_stages(directives: str, shape: str, target: str) -> None:
    module = with_schedule(STAGES, "stages", directives)
    s = tdsl.parse(STAGES)["stages"].schedule("c")
    s.add(directives)
    assert outline(s.tree) == shape
    held(module, "stages", CHAIN_CALLS, target=target)


def test_methods_print_what_parses() -> None:
    s = tdsl.parse(STAGES)["stages"].schedule("c")
    s.sequence("Q", "P")
    s.extend("R", "n", "N - 1")
    again = tdsl.parse(STAGES)["stages"].schedule("c")
    again.order({"P": "[i] -> [0, i]", "Q": "[i] -> [1, i]", "R": "[i] -> [2, i]"}, into=("i",))
    for made in (s, again):
        held(tdsl.parse(STAGES + str(made)), "stages", CHAIN_CALLS)


@pytest.mark.parametrize(
    ("directives", "said"),
    [
        ("sequence R, P", "would run R"),
        ("sequence P, P", "P is named twice"),
        ("sequence P", "two statements or more"),
        ("extend P by i = 0", "already the name of a loop around P"),
        ("extend P by n = j", "`j` is no index, size or constant here"),
        ("extend P by n = i * i", "a sum of constants"),
        ("wavefront P.i, Q.i -> a, b", "does not stand directly inside"),
        ("order { P[i] -> [i] }", "gives no time to Q and R"),
        ("order { P[i] -> [0]; Q[i] -> [1, i]; R[i] -> [2, i] }", "the same place"),
        ("order { P[i] -> [2, i]; Q[i] -> [1, i]; R[i] -> [0, i] }", "which must run first"),
        ("order { P[i] -> [i]; Q[i] -> [i]; R[i] -> [i] } -> a, b, c", "1 time dimension"),
        ("vectorize P.i  order { P[i] -> [0, i]; Q[i] -> [1, i]; R[i] -> [2, i] }", "vectorized"),
    ],
)
def test_refusals(directives: str, said: str) -> None:
    s = tdsl.parse(STAGES)["stages"].schedule("native")
    with pytest.raises(tdsl.Error, match=said):
        s.add(directives)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["fdtd2d", "seidel2d", "lu"])
def test_files_of_the_tour(name: str, target: str) -> None:
    folder = Path(__file__).parents[3] / "shared" / "language"
    if not folder.exists():
        pytest.skip("the tour is not beside the checkout")
    calls: dict[str, list[Any]] = {
        "fdtd2d": [{"T": t, "NX": x, "NY": y} for t, x, y in ((0, 2, 2), (1, 2, 3), (9, 33, 130))],
        "seidel2d": [{"T": t, "N": n} for t, n in ((1, 3), (2, 5), (9, 66), (17, 67))],
        "lu": [{"N": n} for n in (0, 1, 2, 5, 33, 40)],
    }
    held(tdsl.load(folder / f"{name}.tdsl"), name, calls[name], target=target)
