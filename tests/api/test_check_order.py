"""`check_order`: orders given whole, against what is known of them."""

import pytest

import tdsl

SEIDEL = """\
kernel seidel(T, N) {
    inout A: f64[N, N]
    for t in 0..T, i in 1..N - 1, j in 1..N - 1 {
        S: A[i, j] = A[i - 1, j] + A[i, j - 1] + A[i, j] + A[i + 1, j] + A[i, j + 1]
    }
}
"""

STAGES = """\
kernel stages(N, M) {
    in  x: f32[N, M]
    out r: f32[N]
    out y: f32[N, M]
    R: r[i] = sum[k](x[i, k])
    Y: y[i, j] = x[i, j] - r[i]
}
"""


@pytest.fixture(scope="module")
def seidel() -> tdsl.Kernel:
    return tdsl.parse(SEIDEL)["seidel"]


@pytest.fixture(scope="module")
def stages() -> tdsl.Kernel:
    return tdsl.parse(STAGES)["stages"]


@pytest.mark.parametrize(
    ("times", "parallel", "kinds"),
    [
        ("[t, i, j] -> [t, i, j]", None, set()),
        ("[a, b, c] -> [a, b, c]", None, set()),
        ("[t, i, j] -> [t, j, i]", None, set()),
        ("[t, i, j] -> [i, t, j]", None, {"order"}),
        ("[t, i, j] -> [t, -i, j]", None, {"order"}),
        ("[t, i, j] -> [t, i, j]", 1, {"parallel"}),
        # The wavefront of Gauss-Seidel: 2t + i + j takes every dependence forward.
        ("[t, i, j] -> [2 * t + i + j, t, i]", None, set()),
        ("[t, i, j] -> [2 * t + i + j, t, i]", 1, set()),
        ("[t, i, j] -> [t + i + j, t, i]", 1, {"parallel", "order"}),
        ("[t, i, j] -> [t, i]", None, {"once", "order"}),
    ],
)
def test_gauss_seidel(
    seidel: tdsl.Kernel, times: str, parallel: int | None, kinds: set[str]
) -> None:
    found = tdsl.check_order(seidel, {"S": times}, parallel)
    assert {v.kind for v in found} <= kinds
    assert bool(found) == bool(kinds)


def test_a_violation_names_two_iterations(seidel: tdsl.Kernel) -> None:
    first = tdsl.check_order(seidel, {"S": "[t, i, j] -> [t, -i, j]"})[0]
    assert (first.kind, first.source, first.sink, first.array) == ("order", "S", "S", "A")
    assert first.witness is not None
    source, sink = first.witness.source, first.witness.sink
    # The source is earlier in the program, and the order runs it later.
    assert source < sink
    assert (source[0], -source[1], source[2]) > (sink[0], -sink[1], sink[2])


def test_constants_make_sequences(stages: tdsl.Kernel) -> None:
    apart = {"R": "[i, k] -> [0, i, k]", "Y": "[i, j] -> [1, i, j]"}
    fused = {"R": "[i, k] -> [i, 0, k]", "Y": "[i, j] -> [i, 1, j]"}
    swapped = {"R": "[i, k] -> [1, i, k]", "Y": "[i, j] -> [0, i, j]"}
    assert tdsl.check_order(stages, apart) == []
    assert tdsl.check_order(stages, fused, parallel=0) == []
    assert {(v.source, v.sink) for v in tdsl.check_order(stages, swapped)} >= {("R", "Y")}


def test_float_sums_keep_their_order_unless_told(stages: tdsl.Kernel) -> None:
    order = {"R": "[i, k] -> [0, i, -k]", "Y": "[i, j] -> [1, i, j]"}
    assert [v.kind for v in tdsl.check_order(stages, order)] == ["order"]
    assert tdsl.check_order(stages, order, reassociate=["R"]) == []


def test_a_statement_that_is_left_out_does_not_run_once(stages: tdsl.Kernel) -> None:
    found = tdsl.check_order(stages, {"R": "[i, k] -> [i, k]"})
    assert [(v.kind, v.source) for v in found] == [("once", "Y")]


def test_sizes_and_constants_in_times() -> None:
    text = "kernel f<c = 3>(N, M) { out y: f32[N] for i in 0..N { S: y[i] = 1.0 } }"
    kernel = tdsl.parse(text)["f"]
    assert tdsl.check_order(kernel, {"S": "[i] -> [c * i + M - N // 2]"}, sizes={"M": 4}) == []


def test_a_statement_without_loops() -> None:
    kernel = tdsl.parse("kernel f() { out a: i32 out b: i32 S: a = 1 Q: b = a }")["f"]
    assert tdsl.check_order(kernel, {"S": "[] -> [0]", "Q": "[] -> [1]"}) == []
    assert tdsl.check_order(kernel, {"S": "[] -> [1]", "Q": "[] -> [0]"}) != []


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ({"Q": "[t, i, j] -> [t, i, j]"}, "has no statement Q"),
        ({"S": "[t, i] -> [t, i]"}, "S has 3 indices"),
        ({"S": "[t, i, j] -> [t, i, q]"}, "`q` is no index, size or constant"),
        ({"S": "[t, i, j] -> [t, i * j]"}, "a time is an affine expression"),
        ({"S": "[t, i, j] -> [t, A[i]]"}, "a time is an affine expression"),
        ({"S": "x[t, i, j] -> [t]"}, "expected [indices] -> [times]"),
        ({"S": "[t, i, j] -> [t"}, "a `]` is missing"),
        ({"S": "[t, i, j] -> [t]; R[i] -> [i]"}, "expected [indices]"),
    ],
)
def test_wrong_orders(seidel: tdsl.Kernel, order: dict[str, str], said: str) -> None:
    with pytest.raises(tdsl.Error, match=said.replace("[", r"\[")):
        tdsl.check_order(seidel, order)


def test_a_position_without_a_loop(seidel: tdsl.Kernel) -> None:
    with pytest.raises(ValueError, match="parallel=3: no statement has a loop"):
        tdsl.check_order(seidel, {"S": "[t, i, j] -> [t, i, j]"}, parallel=3)


def test_an_order_has_to_say_something() -> None:
    kernel = tdsl.parse("kernel f(N) { out y: f32[N]  y[i] = 1.0 }")["f"]
    with pytest.raises(ValueError, match="names no statement of f"):
        tdsl.check_order(kernel, {})
    with pytest.raises(tdsl.ParseError, match=r"y: expected \[indices\] -> \[times\]"):
        tdsl.check_order(kernel, {"y": "[i]"})
