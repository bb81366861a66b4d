"""Elaboration of whole kernels: statements, ranges, extents, names, against the language page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tdsl.diagnostics import BoundsError, ParseError
from tdsl.ir.kernel import INDEX, Const, Kernel, Nest, Read, walk
from tdsl.ir.printer import print_array, print_conditions, print_expr, print_kernel
from tdsl.ir.types import F32
from tdsl.ir.verify_kernel import verify_kernel
from tdsl.syntax.elaborate import check_file, elaborate, kernels
from tdsl.syntax.parser import parse

MATMUL = """
kernel matmul(M, N, K) {
    in  A: f32[M, K]
    in  B: f32[K, N]
    out Y: f32[M, N]

    C[i, j] = sum[k](A[i, k] * B[k, j])
    Y[i, j] = C[i, j] + 1.0
}
"""


def build(text: str, sizes: dict[str, int] | None = None, **constants: int | float | str) -> Kernel:
    """The first kernel of a text, verified."""
    file = parse(text, "test.tdsl")
    kernel = elaborate(file, kernels(file)[0], constants, sizes or {})
    verify_kernel(kernel)
    return kernel


def domain(kernel: Kernel, statement: str) -> str:
    return print_conditions(kernel.statement(statement).domain)


def shapes(kernel: Kernel) -> dict[str, str]:
    return {a.name: ", ".join(map(print_expr, a.shape)) for a in kernel.arrays}


def value(kernel: Kernel, statement: str) -> str:
    return print_expr(kernel.statement(statement).value)


# ---------------------------------------------------------------- reductions


def test_a_whole_reduction_is_one_statement_with_init() -> None:
    kernel = build(MATMUL)
    c = kernel.statement("C")
    assert (c.op, c.reduction, c.indices, c.free) == ("add", ("k",), ("i", "j", "k"), ("i", "j"))
    assert c.init == Const(0.0, F32)
    assert domain(kernel, "C") == "0 <= i < M and 0 <= j < N and 0 <= k < K"
    assert print_conditions(c.outer) == "0 <= i < M and 0 <= j < N"
    y = kernel.statement("Y")
    assert (y.op, y.reduction, y.init) == ("define", (), None)


@pytest.mark.parametrize(
    ("word", "type_", "op", "init"),
    [
        ("sum", "i32", "add", 0),
        ("prod", "f64", "mul", 1.0),
        ("max", "f32", "max", float("-inf")),
        ("min", "f32", "min", float("inf")),
        ("max", "i8", "max", -128),
        ("min", "i8", "min", 127),
        ("max", "u16", "max", 0),
        ("min", "u16", "min", 65535),
        ("any", "bool", "any", False),
        ("all", "bool", "all", True),
    ],
)
def test_identities(word: str, type_: str, op: str, init: float) -> None:
    kernel = build(f"kernel f(N) {{ in x: {type_}[N]\n out y: {type_}\n y = {word}[k](x[k]) }}")
    s = kernel.statement("y")
    assert s.op == op
    assert s.init is not None
    assert s.init.value == init
    assert type(s.init.value) is type(init)


def test_a_reduction_inside_becomes_its_own_statement() -> None:
    kernel = build(
        "kernel f(N, M) { in x: f32[N, M]\n out y: f32[N, M]\n"
        " S: y[i, j] = x[i, j] / sum[k](x[i, k]) }"
    )
    assert [s.name for s in kernel.statements] == ["S_r1", "S"]
    part = kernel.statement("S_r1")
    assert (part.array, part.indices, part.reduction) == ("S_r1", ("i", "k"), ("k",))
    assert shapes(kernel)["S_r1"] == "N"
    assert value(kernel, "S") == "x[i, j] / S_r1[i]"


def test_nested_reductions_are_counted_from_the_inside() -> None:
    kernel = build(
        "kernel f(N, M) { in A: f32[N, M]\n out s: f32[N]\n"
        " s[i] = sum[a in 0..N](A[a, 0] * sum[b](A[a, b] * A[i, b])) }"
    )
    inner = kernel.statement("s_r1")
    assert inner.indices == ("i", "a", "b")
    assert value(kernel, "s") == "A[a, 0] * s_r1[i, a]"
    assert shapes(kernel)["s_r1"] == "N, N"


@pytest.mark.parametrize(
    ("sign", "word", "op"),
    [("+=", "sum", "add"), ("-=", "sum", "sub"), ("*=", "prod", "mul"), ("max=", "max", "max")],
)
def test_an_update_joins_each_term(sign: str, word: str, op: str) -> None:
    kernel = build(
        f"kernel f(N) {{ in x: f32[N, N]\n inout y: f32[N]\n y[i] {sign} {word}[k](x[i, k]) }}"
    )
    (s,) = kernel.statements
    assert (s.op, s.reduction, s.init) == (op, ("k",), None)


def test_an_update_by_another_reduction_is_two_statements() -> None:
    kernel = build("kernel f(N) { in x: f32[N, N]\n inout y: f32[N]\n y[i] += max[k](x[i, k]) }")
    assert [(s.name, s.op) for s in kernel.statements] == [("y_r1", "max"), ("y", "add")]


def test_limited_terms() -> None:
    kernel = build(
        "kernel f(N) { in x: f32[N]\n out y: f32[N]\n y[i] = sum[j in 0..N where j <= i](x[j]) }"
    )
    assert domain(kernel, "y") == "0 <= i < N and 0 <= j < N and j <= i"
    assert print_conditions(kernel.statement("y").outer) == "0 <= i < N"


def test_inside_leaves_terms_out() -> None:
    kernel = build(
        "kernel f(N) { in x: f32[N]\n out y: f32[N]\n"
        " y[i] = sum[r in 0..3 where inside(x[i + r - 1])](x[i + r - 1]) }"
    )
    assert domain(kernel, "y") == ("0 <= i < N and 0 <= r < 3 and 0 <= i + r - 1 and i + r - 1 < N")


def test_equal_extents_by_assumption() -> None:
    text = (
        "kernel f(N, M) {{ {} in x: f32[N]\n in w: f32[M]\n out y: f32\n y = sum[k](x[k] * w[k]) }}"
    )
    assert domain(build(text.format("assume N == M\n")), "y") == "0 <= k < N"
    with pytest.raises(BoundsError, match="`x` and `w`"):
        build(text.format(""))
    assert domain(build(text.format(""), {"N": 8, "M": 8}), "y") == "0 <= k < 8"


# ---------------------------------------------------------------- ranges and extents


def test_an_index_runs_over_its_dimension_and_where_limits_it() -> None:
    kernel = build(
        "kernel f(N) { in x: f32[N]\n out y: f32[N]\n"
        " y[i] = x[i] where i < N - 1\n y[i] = 0.0 where i == N - 1 }"
    )
    assert domain(kernel, "y_1") == "0 <= i < N and i < N - 1"
    assert domain(kernel, "y_2") == "0 <= i < N and i == N - 1"


def test_extent_of_a_temp_is_what_is_read() -> None:
    kernel = build(
        "kernel f(H, W) { assume H >= 3, W >= 3\n in s: f32[H, W]\n out d: f32[H - 2, W - 2]\n"
        " b[i, j] = s[i, j] + s[i, j + 1] + s[i, j + 2]\n"
        " d[i, j] = b[i, j] + b[i + 1, j] + b[i + 2, j] }"
    )
    assert shapes(kernel)["b"] == "H, W - 2"
    assert domain(kernel, "b") == "0 <= i < H and 0 <= j < W - 2"


@pytest.mark.parametrize(
    ("subscript", "extent", "condition"),
    [
        ("2 * i + 1", "2 * N", "1 <= i < 2 * N"),
        ("i // 4", "(N + 3) // 4", "0 <= i < (N + 3) // 4"),
        ("i % 4", "4", "0 <= i < 4"),
        ("N - 1 - i", "N", "0 <= i < N"),
        ("clamp(i, 2, 7)", "min(max(N - 1, 2), 7) + 1", "2 <= i < min(max(N - 1, 2), 7) + 1"),
        ("max(i, 3)", "max(N - 1, 3) + 1", "3 <= i < max(N - 1, 3) + 1"),
    ],
)
def test_hull_of_a_subscript(subscript: str, extent: str, condition: str) -> None:
    kernel = build(f"kernel f(N) {{ out y: f32[N]\n t[i] = f32(i)\n y[i] = t[{subscript}] }}")
    assert shapes(kernel)["t"] == extent
    assert domain(kernel, "t") == condition


def test_hull_of_several_reads_respects_where() -> None:
    kernel = build(
        "kernel f(N) { out y: f32[N]\n t[i] = f32(i)\n"
        " y[i] = t[i + 1] where i < N - 1\n y[i] = t[i] where i == N - 1 }"
    )
    assert shapes(kernel)["t"] == "N"


def test_extent_from_the_definition_where_nothing_else_says() -> None:
    kernel = build(
        "kernel f(P, K) { in x: f32[P, K]\n out s: f32\n"
        " d[p, k] = x[p, k] * x[p, k]\n s = sum[p, k](d[p, k]) }"
    )
    assert shapes(kernel)["d"] == "P, K"


def test_a_reduction_over_a_temp_that_others_read() -> None:
    kernel = build(
        "kernel softmax(M, N) { in x: f32[M, N]\n out y: f32[M, N]\n m[i] = max[j](x[i, j])\n"
        " e[i, j] = exp(x[i, j] - m[i])\n z[i] = sum[j](e[i, j])\n y[i, j] = e[i, j] / z[i] }"
    )
    assert shapes(kernel) == {
        "x": "M, N", "y": "M, N", "m": "M", "e": "M, N", "z": "M"
    }  # fmt: skip
    assert domain(kernel, "z") == "0 <= i < M and 0 <= j < N"


def test_affine_left_side_takes_its_range_from_the_right() -> None:
    kernel = build(
        "kernel rope(L, E) { assume E % 2 == 0\n in x: f32[L, E]\n in c: f32[L, E // 2]\n"
        " out y: f32[L, E]\n even: y[t, 2 * i] = x[t, 2 * i] * c[t, i]\n"
        " odd: y[t, 2 * i + 1] = x[t, 2 * i + 1] where 0 <= i < E // 2 }"
    )
    assert domain(kernel, "even") == "0 <= t < L and 0 <= i < E // 2"
    assert domain(kernel, "odd") == "0 <= t < L and 0 <= i < E // 2"


def test_padded_is_a_select_where_it_can_leave_the_array() -> None:
    text = (
        "kernel f<pad = 1>(N) { in x: f32[N]\n out y: f32[N]\n"
        " xp[i] = padded(x[i - pad], 0.5)\n y[i] = xp[i] + xp[i + 2 * pad] }"
    )
    kernel = build(text)
    assert value(kernel, "xp") == "select(0 <= i - 1 and i - 1 < N, x[i - 1], 0.5)"
    assert shapes(kernel)["xp"] == "N + 2"
    assert value(build(text, pad=0), "xp") == "x[i]"


# ---------------------------------------------------------------- names


def test_names_of_statements() -> None:
    kernel = build(
        "kernel f(N) { in x: f32[N]\n inout y: f32[N]\n out z: f32[N]\n"
        " y[i] = x[i]\n last: y[i] += 1.0\n y[i] *= 2.0\n z[i] = y[i] }"
    )
    assert [s.name for s in kernel.statements] == ["y_1", "last", "y_2", "z"]


def test_a_name_on_the_left_is_an_index_even_if_an_array_has_it() -> None:
    kernel = build(
        "kernel f(N) { in e: f32[N]\n out s: f32[N]\n t[e] = f32(e)\n s[s] = e[s] + t[s] }"
    )
    assert value(kernel, "t") == "f32(e)"
    assert value(kernel, "s") == "e[s] + t[s]"


# ---------------------------------------------------------------- nests


def test_a_nest_keeps_its_loops() -> None:
    kernel = build(
        "kernel f(T, N) { inout A: f64[N]\n in b: f64[N]\n"
        " for t in 0..T { A[0] = b[0]\n for i in 1..N { S: A[i] = A[i - 1] + b[i] } } }"
    )
    (outer,) = kernel.body
    assert isinstance(outer, Nest)
    assert outer.index == "t"
    _, inner = outer.body
    assert isinstance(inner, Nest)
    assert (inner.index, print_expr(inner.lo), print_expr(inner.hi)) == ("i", "1", "N")
    assert domain(kernel, "S") == "0 <= t < T and 1 <= i < N"
    assert kernel.statement("S").indices == ("t", "i")


def test_downto_has_both_ends_and_steps_count_from_the_start() -> None:
    kernel = build("kernel f(N) { inout A: f64[N]\n for i in N-1 downto 0 step 3 { A[i] += 1.0 } }")
    (nest,) = kernel.body
    assert isinstance(nest, Nest)
    assert (print_expr(nest.lo), print_expr(nest.hi), nest.down, nest.step) == ("0", "N", True, 3)
    assert domain(kernel, "A") == "0 <= i < N and (N - i + 2) % 3 == 0"
    up = build("kernel f(N) { inout A: f64[N]\n for i in 1..N step 2 { A[i] += 1.0 } }")
    assert domain(up, "A") == "1 <= i < N and (i + 1) % 2 == 0"


def test_an_equation_in_a_nest_may_have_its_own_indices() -> None:
    kernel = build(
        "kernel f(T, N) { in u: f32[T, N]\n in R: f32[N, N]\n inout h: f32[T, N]\n"
        " for t in 1..T { r[n] = sum[k](h[t - 1, k] * R[k, n])\n"
        " h[t, n] = tanh(u[t, n] + r[n]) } }"
    )
    r = kernel.statement("r")
    assert (r.indices, r.free, r.reduction) == (("t", "n", "k"), ("t", "n"), ("k",))
    assert shapes(kernel)["r"] == "N"
    assert kernel.array("r").local is None


def test_a_lifted_reduction_in_a_nest_is_local() -> None:
    kernel = build(
        "kernel f(N) { in U: f64[N, N]\n inout x: f64[N]\n"
        " for i in N-1 downto 0 { x[i] -= 2.0 * sum[j in i+1..N](U[i, j] * x[j]) } }"
    )
    assert kernel.array("x_r1").local == "i"
    assert kernel.array("x_r1").shape == ()
    assert domain(kernel, "x_r1") == "0 <= i < N and i + 1 <= j < N"


# ---------------------------------------------------------------- constants and sizes


def test_bound_sizes_are_gone() -> None:
    kernel = build(MATMUL, {"K": 64})
    assert kernel.sizes == ("M", "N")
    assert kernel.all_sizes == ("M", "N", "K")
    assert kernel.bound == (("K", 64),)
    assert shapes(kernel)["A"] == "M, 64"


def test_constants_name_defs_tables_and_types() -> None:
    text = (
        "def relu(v) = max(v, 0.0)\ndef twice(v) = v + v\n"
        "const P: f32[2] = [1/3, 2]\nconst Q: f32[2] = [0.5, -1]\n"
        "kernel f<act = relu, w = P, T: type = f32>(N) { in x: T[N]\n out y: T[N]\n"
        " y[i] = act(T(w[i % 2]) * x[i]) }"
    )
    kernel = build(text)
    assert value(kernel, "y") == "max(w[i % 2] * x[i], 0.0)"
    assert kernel.array("w").values == (float.fromhex("0x1.555556p-2"), 2.0)
    other = build(text, act="twice", w="Q", T="f64")
    assert value(other, "y") == "f64(w[i % 2]) * x[i] + f64(w[i % 2]) * x[i]"
    assert other.array("w").values == (0.5, -1.0)
    assert other.constants == (("act", "twice"), ("w", "Q"), ("T", "f64"))


def test_wrong_constants_and_sizes_are_named() -> None:
    with pytest.raises(ParseError, match="no constant `padd`"):
        build("kernel f<pad = 0>(N) { out y: f32[N]\n y[i] = 0.0 }", padd=1)
    with pytest.raises(ParseError, match="no size `Q`"):
        build(MATMUL, {"Q": 3})
    with pytest.raises(ParseError, match="2\\^40"):
        build(MATMUL, {"M": -1})
    with pytest.raises(ParseError, match="no kernel `mat`"):
        elaborate(parse(MATMUL), "mat")


def test_conv2d_sizes_fold() -> None:
    text = (
        "kernel conv<stride = 1, dilation = 1, pad = 0>(H, R) {\n"
        " let OH = (H + 2 * pad - dilation * (R - 1) - 1) // stride + 1\n assume OH >= 1\n"
        " in x: f32[H]\n in w: f32[R]\n out y: f32[OH]\n"
        " xp[h] = padded(x[h - pad], 0.0)\n"
        " y[p] = sum[r](xp[p * stride + r * dilation] * w[r]) }"
    )
    plain = build(text)
    assert shapes(plain) == {"x": "H", "w": "R", "y": "H - R + 1", "xp": "H"}
    assert value(plain, "y") == "xp[p + r] * w[r]"
    strided = build(text, {"R": 3}, stride=2, pad=1)
    assert shapes(strided)["y"] == "(H + 1) // 2"
    assert value(strided, "y") == "xp[2 * p + r] * w[r]"


# ---------------------------------------------------------------- limits


def test_a_chain_of_five_hundred_stages() -> None:
    stages = "".join(f"v{n + 1}[i] = v{n}[i] + v{n}[i]\n" for n in range(500))
    kernel = build(
        f"kernel f(N) {{ in x: f32[N]\n out y: f32[N]\n v0[i] = x[i]\n{stages} y[i] = v500[i] }}"
    )
    assert len(kernel.statements) == 502
    assert shapes(kernel)["v0"] == "N"


@pytest.mark.parametrize("body", ["d{0}(d{0}(v))", "d{0}(v) + d{0}(v)", "d{0}(v) + 1.0"])
def test_defs_that_grow_without_end_are_refused(body: str) -> None:
    defs = "".join(f"def d{n + 1}(v) = {body.format(n)}\n" for n in range(400))
    text = "kernel f(N) { in x: f32[N]\n out y: f32[N]\n y[i] = d400(x[i]) }"
    with pytest.raises(ParseError, match=r"operations once|too deep"):
        build(f"def d0(v) = v * 0.5\n{defs}{text}")


# ---------------------------------------------------------------- spans, warnings, the tour


def test_reads_and_statements_keep_their_places() -> None:
    kernel = build(MATMUL)
    statement = kernel.statement("C")
    assert statement.span is not None
    assert statement.span.text == "C[i, j] = sum[k](A[i, k] * B[k, j])"
    reads = [e for e in walk(statement.value) if isinstance(e, Read)]
    assert [r.span.text for r in reads if r.span is not None] == ["A[i, k]", "B[k, j]"]


def test_what_is_not_used_is_told() -> None:
    kernel = build(
        "kernel f(N) { in x: f32[N]\n in z: f32[N]\n out y: f32[N]\n y[i] = x[i]\n t[i] = x[i] }"
    )
    assert kernel.warnings == ("argument `z` is not used", "nothing reads `t`")


@pytest.mark.parametrize(
    "read,told", [("z", ()), ("x", ("nothing reads `m`", "nothing reads `z`"))]
)
def test_values_of_one_reduction_are_read_together(read: str, told: tuple[str, ...]) -> None:
    kernel = build(
        "combine online(m, z; m2, z2) { identity -inf, 0.0  let n = max(m, m2)\n"
        "give n, z * exp(m - n) + z2 * exp(m2 - n) }\n"
        "kernel f(N, K) { assume K >= 1\n in x: f32[N, K]\n out y: f32[N]\n"
        "m[i], z[i] = online[j](x[i, j], x[i, j])\n"
        f"y[i] = {read}[i{', 0' if read == 'x' else ''}] }}"
    )
    assert kernel.warnings == told


def test_the_printer_writes_the_whole_kernel() -> None:
    assert print_kernel(build(MATMUL)) == (
        "kernel matmul(M, N, K) {\n"
        "    in A: f32[M, K]\n"
        "    in B: f32[K, N]\n"
        "    out Y: f32[M, N]\n"
        "    temp C: f32[M, N]\n"
        "    C: C[i, j] += A[i, k] * B[k, j]\n"
        "        over i, j, k; reduces k from 0.0\n"
        "        where 0 <= i < M and 0 <= j < N and 0 <= k < K\n"
        "    Y: Y[i, j] = C[i, j] + 1.0\n"
        "        over i, j\n"
        "        where 0 <= i < M and 0 <= j < N\n"
        "}\n"
    )
    assert print_array(build(MATMUL).array("A")) == "in A: f32[M, K]"


TOUR = "blur conv2d fdtd2d lu matmul qconv2d seidel2d softmax winograd"


@pytest.mark.parametrize("name", TOUR.split())
def test_the_tour(shared: Path, name: str) -> None:
    file = parse((shared / "language" / f"{name}.tdsl").read_text(encoding="utf-8"), f"{name}.tdsl")
    check_file(file)
    for kernel in kernels(file):
        built = elaborate(file, kernel)
        verify_kernel(built)
        assert built.statements
        assert all(e.type == INDEX for a in built.arrays for e in a.shape)
