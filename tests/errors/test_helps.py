"""A help that names a change is true: with the change the program passes."""

from dataclasses import dataclass

import pytest

from tdsl.checking import check_text
from tdsl.diagnostics import Error

MATMUL = """kernel mm(M, N, K) {
    in  A: f32[M, K]
    in  B: f32[K, N]
    out C: f32[M, N]
    C[i, j] = sum[k](A[i, k] * B[k, j])
}
"""
TURN = """kernel turn(M, N) {
    in  x: f32[M, N]
    out y: f32[N, M]
    y[j, i] = x[i, j]
}
"""
TWO = """kernel two(N) {
    in  x: f32[N, N]
    out z: f32[N, N]
    y[i, j] = 2.0 * x[i, j]
    z[i, j] = y[i, j] + 1.0
}
"""


def scheduled(kernel: str, *directives: str) -> str:
    name = kernel.split("(")[0].split()[1]
    return kernel + f"schedule {name} for any {{\n" + "\n".join(directives) + "\n}\n"


def of_vector(declared: str, value: str) -> str:
    return f"kernel f(N) {{\n{declared}\n    y[i] = {value}\n}}\n"


@dataclass(frozen=True)
class Case:
    """A program that is refused; what its help names, and the change that this is."""

    text: str
    help: str
    old: str
    new: str


MIXED = "in a: f32[N]\nin b: f64[N]\nout y: {}[N]"
COUNTS = "in n: i32[N]\nin h: i8[N]\nout y: {}[N]"
CASES = {
    "stage at a loop of the copy": Case(
        scheduled(
            MATMUL.replace("A: f32[M, K]", "A: f32[K, M]").replace("A[i, k]", "A[k, i]"),
            "tile i, j by 16, 4 -> io, jo, ii, ji",
            "reorder jo, io, k, ji, ii",
            "pack A at root as [io, k, ii]",
            "stage C at io",
        ),
        "write C.io, or put the directive in `on C { ... }`",
        "stage C at io",
        "stage C at C.io",
    ),
    "the same in a block": Case(
        scheduled(TWO, "reorder j, i"),
        "put the directive in `on y { ... }`",
        "reorder j, i",
        "on y { reorder j, i }",
    ),
    "vectorize twice": Case(
        scheduled(MATMUL, "vectorize j", "vectorize j"),
        "leave this directive out",
        "vectorize j\nvectorize j",
        "vectorize j",
    ),
    "unroll twice": Case(
        scheduled(MATMUL, "unroll i by 4", "unroll i by 2"),
        "leave this directive out",
        "unroll i by 2",
        "",
    ),
    "the name of a vector is taken": Case(
        scheduled(MATMUL, "split i by 4 -> io, j_v", "vectorize j by 8"),
        "split it with names of your own: `split C.j by 8 -> j2, j2_i`, and `vectorize C.j2_i`",
        "vectorize j by 8",
        "split C.j by 8 -> j2, j2_i\nvectorize C.j2_i",
    ),
    "the name of copies is taken": Case(
        scheduled(MATMUL, "split i by 4 -> j2, j_u", "unroll j by 4"),
        "split it with names of your own: `split C.j by 4 -> j3, j3_i`, and `unroll C.j3_i`",
        "unroll j by 4",
        "split C.j by 4 -> j3, j3_i\nunroll C.j3_i",
    ),
    "transpose of loops of any size": Case(
        scheduled(TURN, "transpose j, i"),
        "write `split y.j by 8 -> jo, ji`, `split y.i by 8 -> io, ii`, "
        "`reorder y.jo, y.io, y.ji, y.ii`, `transpose y.ji, y.ii`",
        "transpose j, i",
        "split y.j by 8 -> jo, ji\nsplit y.i by 8 -> io, ii\nreorder y.jo, y.io, y.ji, y.ii\n"
        "transpose y.ji, y.ii",
    ),
    "transpose of other loops": Case(
        scheduled(TURN, "tile j, i by 8, 8 -> jo, io, ji, ii", "transpose jo, ii"),
        "`transpose y.ji, y.ii` would be legal",
        "transpose jo, ii",
        "transpose y.ji, y.ii",
    ),
    "transpose of loops that are not innermost": Case(
        scheduled(
            TURN, "tile j, i by 8, 8 -> jo, io, ji, ii", "reorder ji, io", "transpose ji, ii"
        ),
        "put `reorder y.jo, y.io, y.ji, y.ii` before it",
        "transpose ji, ii",
        "reorder y.jo, y.io, y.ji, y.ii\ntranspose ji, ii",
    ),
    "two types, the narrow one wanted": Case(
        of_vector(MIXED.format("f32"), "a[i] * (b[i] + 1.0)"),
        "write `f32(f64(a[i]) * (b[i] + 1.0))`",
        "a[i] * (b[i] + 1.0)",
        "f32(f64(a[i]) * (b[i] + 1.0))",
    ),
    "two types, the wide one wanted": Case(
        of_vector(MIXED.format("f64"), "b[i] * a[i]"),
        "write `f64(a[i])`",
        "b[i] * a[i]",
        "b[i] * f64(a[i])",
    ),
    "two types in a function, the narrow one wanted": Case(
        of_vector(MIXED.format("f32"), "max(b[i], a[i])"),
        "write `f32(max(b[i], f64(a[i])))`",
        "max(b[i], a[i])",
        "f32(max(b[i], f64(a[i])))",
    ),
    "half an integer": Case(
        of_vector(COUNTS.format("i32"), "n[i] * 1.5 + n[i]"),
        "write `i32(f64(n[i]) * 1.5)`",
        "n[i] * 1.5",
        "i32(f64(n[i]) * 1.5)",
    ),
    "half an integer, for a float": Case(
        of_vector(COUNTS.format("f32"), "1.5 * n[i]"),
        "write `f32(n[i])`",
        "n[i]",
        "f32(n[i])",
    ),
    "half an index": Case(
        of_vector(COUNTS.format("f32"), "1.5 * i"),
        "write `f32(i)`",
        "* i",
        "* f32(i)",
    ),
    "half of a small integer": Case(
        of_vector(COUNTS.format("i8"), "(h[i] - 1) / 0.5"),
        "write `i8((f32(h[i] - 1)) / 0.5)`",
        "(h[i] - 1) / 0.5",
        "i8((f32(h[i] - 1)) / 0.5)",
    ),
    "an integer compared with a half": Case(
        of_vector(COUNTS.format("i32"), "select(n[i] < 1.5, 1, 2)"),
        "write `f64(n[i])`",
        "n[i] <",
        "f64(n[i]) <",
    ),
    "the least integer": Case(
        of_vector(COUNTS.format("i32"), "-inf"),
        "the last of i32 is `-2147483648`",
        "-inf",
        "-2147483648",
    ),
}


TWO_EXTENTS = """kernel dot(N, M) {
    in  a: f32[N + 1]
    in  b: f32[M]
    out s: f32
    s = sum[k](a[k] * b[k])
}
"""
CASES |= {
    "one extent of two, by an assumption": Case(
        TWO_EXTENTS, "write `assume N + 1 == M`, or", "(N, M) {", "(N, M) {\nassume N + 1 == M"
    ),
    "one extent of two, by a range": Case(
        TWO_EXTENTS,
        "or give the range, such as `k in 0..min(N + 1, M)`",
        "sum[k]",
        "sum[k in 0..min(N + 1, M)]",
    ),
    "one extent of two numbers": Case(
        TWO_EXTENTS.replace("[N + 1]", "[3]").replace("[M]", "[4]"),
        "give the range, such as `k in 0..min(3, 4)`",
        "sum[k]",
        "sum[k in 0..min(3, 4)]",
    ),
    "a directive that comes too late": Case(
        scheduled(MATMUL, "reorder k, i, j", "stage C at i", "split i by 8 -> io, ii"),
        "put this directive before it, and write io for i behind it",
        "stage C at i\nsplit i by 8 -> io, ii",
        "split i by 8 -> io, ii\nstage C at io",
    ),
    "a directive that comes too late for a mark": Case(
        scheduled(MATMUL, "parallel i", "tile i, j by 8, 8 -> io, jo, ii, ji"),
        "put this directive before the one that makes i parallel, and write io for i and jo for j "
        "behind it",
        "parallel i\ntile i, j by 8, 8 -> io, jo, ii, ji",
        "tile i, j by 8, 8 -> io, jo, ii, ji\nparallel io",
    ),
    "a stage of any size on the stack": Case(
        scheduled(
            MATMUL, "split k by 4 -> ko, ki", "reorder i, ko, ki, j", "stage A at i in stack"
        ),
        "split the loops that index it and go inside one, or leave it to the workspace",
        "stage A at i in stack",
        "stage A at ko in stack",
    ),
}


def said(text: str) -> str:
    with pytest.raises(Error) as refused:
        check_text(text, "f.tdsl").raise_errors()
    return "\n".join(d.help or "" for d in refused.value.diagnostics)


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_help_holds(case: Case) -> None:
    assert case.help in said(case.text)
    assert case.old in case.text
    check_text(case.text.replace(case.old, case.new, 1), "f.tdsl").raise_errors()


@pytest.mark.parametrize(
    ("value", "sizes", "help"),
    [
        ("x[i * N + j]", {"N": 8}, "bind N (`--size N=64`)"),
        ("x[i * M * N + j]", {"M": 8, "N": 8}, "bind M and N (`--size M=64 --size N=64`)"),
        ("x[j % N]", {"N": 8}, "bind N (`--size N=64`)"),
    ],
)
def test_sizes_to_bind(value: str, sizes: dict[str, int], help: str) -> None:
    text = "kernel f(M, N) {\n in x: f32[5000]\n out y: f32[8, 8]\n y[i, j] = " + value + "\n}\n"
    assert help in said(text)
    check_text(text, "f.tdsl", sizes=sizes).raise_errors()


@pytest.mark.parametrize("value", ["x[i * i]", "x[(i * N * i) % 4]", "x[N // (i + 1)]"])
def test_no_size_to_bind(value: str) -> None:
    text = of_vector("in x: f32[N]\nout y: f32[N]", value)
    assert "--size" not in said(text)


def test_numbers_of_an_index_as_data() -> None:
    assert "an integer argument with a `range`" in said(
        of_vector("in x: f32[N]\nout y: f32[N]", "x[i * i]")
    )
    as_data = of_vector("in x: f32[N]\nin at: i32[N] range 0..N\nout y: f32[N]", "x[at[i]]")
    check_text(as_data, "f.tdsl").raise_errors()


@pytest.mark.parametrize(
    "directives",
    [
        ("stage A at i in scratch", "unroll i"),  # nor by 4: `stage` stands on it
        ("parallel C.i", "order { C[i, j, k] -> [0, k, i, j] }"),  # which has no loop i
    ],
)
def test_no_help_where_none_is_true(directives: tuple[str, ...]) -> None:
    assert said(scheduled(MATMUL, *directives)) == ""
