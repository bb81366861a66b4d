"""Typed values: what a number becomes, what is converted, what each operator means."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tdsl.diagnostics import Error, TypeMismatch
from tdsl.ir.kernel import INDEX, Cast, Const, Expr, Op, Read, Select, walk
from tdsl.ir.printer import print_expr
from tdsl.ir.types import BF16, BOOL, F16, F32, F64, I32, U8, ElemType
from tdsl.ir.verify_kernel import verify_kernel
from tdsl.syntax.elaborate import elaborate
from tdsl.syntax.literals import rounded
from tdsl.syntax.parser import parse


def value(text: str, result: str = "f32", sizes: dict[str, int] | None = None) -> Expr:
    """The value of `y[i] = text` among arrays of several types."""
    kernel = elaborate(
        parse(
            "def relu(v) = max(v, 0.0)\ndef mix(a, b) = a * 0.25 + b * 0.75\n"
            "kernel f<c = 3, h = 0.5>(N, M) { in x: f32[N]\n in d: f64[N]\n in n: i32[N]\n"
            f" in u: u8[N]\n in b: bool[N]\n in s: f32\n in A: f32[N, M]\n out y: {result}[N]\n"
            f" let P = N + 1\n y[i] = {text} }}"
        ),
        "f",
        sizes=sizes or {},
    )
    verify_kernel(kernel)
    return kernel.statement("y").value


def constants(expr: Expr) -> list[tuple[object, ElemType]]:
    return [(e.value, e.type) for e in walk(expr) if isinstance(e, Const)]


# ---------------------------------------------------------------- numbers


def test_a_number_takes_the_type_of_its_context() -> None:
    assert constants(value("x[i] * 2")) == [(2.0, F32)]
    assert constants(value("d[i] * 2", "f64")) == [(2.0, F64)]
    assert constants(value("n[i] * 2", "i32")) == [(2, I32)]
    assert constants(value("2 * u[i]", "u8")) == [(2, U8)]
    assert constants(value("0.1")) == [(float(np.float32(0.1)), F32)]


def test_constants_of_the_kernel_are_numbers_too() -> None:
    assert constants(value("x[i] * c + h")) == [(3.0, F32), (0.5, F32)]
    assert constants(value("n[i] * c", "i32")) == [(3, I32)]
    with pytest.raises(TypeMismatch, match=r"0\.5 is a floating-point number"):
        value("n[i] * h", "i32")


def test_numbers_are_folded_exactly_and_rounded_once() -> None:
    assert constants(value("x[i] * (1/3)")) == [(float(np.float32(1 / 3)), F32)]
    assert constants(value("n[i] + 200 - 100 * 3", "i32"))[0] == (200, I32)
    assert constants(value("u[i] + (200 + 55)", "u8")) == [(255, U8)]
    assert constants(value("n[i] + 7 // -2", "i32")) == [(-4, I32)]
    assert constants(value("n[i] + 7 % -2", "i32")) == [(-1, I32)]


def test_infinity() -> None:
    assert value("-inf") == Const(-math.inf, F32)
    with pytest.raises(TypeMismatch, match="inf is a floating-point number"):
        value("min(n[i], inf)", "i32")


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("256", "u8"),
        ("-1", "u8"),
        ("128", "i8"),
        ("2147483648", "i32"),
        ("-9223372036854775809", "i64"),
    ],
)
def test_a_number_that_does_not_fit_is_refused(text: str, result: str) -> None:
    with pytest.raises(TypeMismatch, match="does not fit"):
        value(text, result)


@pytest.mark.parametrize(
    ("text", "result"), [("255", "u8"), ("-128", "i8"), ("-9223372036854775808", "i64")]
)
def test_the_ends_of_a_type_fit(text: str, result: str) -> None:
    (pair,) = constants(value(text, result))
    assert pair[0] == int(text)


@given(st.fractions())
def test_rounding_to_f64_is_pythons(number: Fraction) -> None:
    assert rounded(number, F64) == float(number)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(-3, 3))
def test_rounding_to_f32_finds_the_nearest(near: float, part: int) -> None:
    number = Fraction(near) + Fraction(part, 7) * Fraction(float(np.spacing(np.float32(near))))
    got = rounded(number, F32)
    assert got is not None
    candidates = [np.float32(got), np.nextafter(np.float32(got), np.float32(np.inf)),
                  np.nextafter(np.float32(got), np.float32(-np.inf))]  # fmt: skip
    distances = [abs(Fraction(float(c)) - number) for c in candidates if np.isfinite(c)]
    assert distances[0] == min(distances)


@given(st.floats(width=16, allow_nan=False, allow_infinity=False))
def test_f16_and_bf16_hold_their_own_numbers(number: float) -> None:
    assert rounded(Fraction(number), F16) == number
    top = np.frombuffer(np.float32(number).tobytes(), np.uint32)[0] & np.uint32(0xFFFF0000)
    cut = float(np.frombuffer(np.uint32(top).tobytes(), np.float32)[0])
    assert rounded(Fraction(cut), BF16) == cut


def test_overflow_has_no_rounding() -> None:
    assert rounded(Fraction(65504), F16) == 65504.0
    assert rounded(Fraction(65520), F16) is None
    assert rounded(Fraction(2) ** 128, F32) is None
    assert rounded(Fraction(1, 10**60), F32) == 0.0


# ---------------------------------------------------------------- types


@pytest.mark.parametrize(
    "text",
    ["x[i] + n[i]", "x[i] * d[i]", "n[i] + u[i]", "x[i] + i", "x[i] * N", "x[i] + b[i]",
     "select(b[i], x[i], d[i])", "max(x[i], n[i])", "x[i] < n[i]", "i + x[i]", "P * x[i]"],
)  # fmt: skip
def test_nothing_is_converted_silently(text: str) -> None:
    with pytest.raises(TypeMismatch, match=r"joins|truth value"):
        value(text)


def test_a_bound_size_is_still_a_size() -> None:
    with pytest.raises(TypeMismatch, match="joins f32 and an index"):
        value("x[i] * N", sizes={"N": 4})
    assert constants(value("x[i] * f32(N)", sizes={"N": 4})) == [(4.0, F32)]


def test_conversions() -> None:
    assert value("f32(n[i])") == Cast("convert", Read("n", (_i(),), I32), F32)
    assert value("f32(x[i])") == Read("x", (_i(),), F32)
    assert value("f32(i)") == Cast("convert", _i(), F32)
    assert print_expr(value("f32(2 * i + 1 - 1)")) == "f32(2 * i)"
    assert print_expr(value("saturate<u8>(round(x[i]))", "u8")) == "saturate<u8>(round(x[i]))"
    assert print_expr(value("bitcast<u32>(x[i])", "u32")) == "bitcast<u32>(x[i])"
    assert value("i32(2.9)", "i32") == Const(2, I32)
    assert value("u8(-2.5)", "u8") == Const(0, U8)


def test_an_index_wraps_in_a_narrow_type_as_data_do() -> None:
    assert value("u8(N)", "u8", {"N": 300}) == Const(44, U8)


def test_arithmetic_of_indices_is_folded() -> None:
    assert print_expr(value("f32(i * c - 0 + (P - N))")) == "f32(3 * i + 1)"
    assert print_expr(value("f32((4 * i + 9) // 4)")) == "f32(i + 2)"
    assert print_expr(value("f32((4 * i + 9) % 4)")) == "f32(1)" or value(
        "f32((4 * i + 9) % 4)"
    ) == Const(1.0, F32)
    assert print_expr(value("f32(i * N)")) == "f32(i * N)"


def test_comparisons_are_chained() -> None:
    expr = value("select(0.0 < x[i] <= 1.0, x[i], s)")
    assert print_expr(expr) == "select(0.0 < x[i] and x[i] <= 1.0, x[i], s)"
    assert value(
        "select(c == 3, x[i], d[i] < 1.0)" if False else "select(c == 3, x[i], s)"
    ) == Read("x", (_i(),), F32)


def test_select_of_numbers_takes_the_context() -> None:
    expr = value("n[i] + select(b[i], 1, 0)", "i32")
    assert constants(expr) == [(1, I32), (0, I32)]
    assert value("select(b[i], 1.0, 0.0)").type == F32


def test_logic() -> None:
    expr = value("b[i] and not x[i] > 0.5 or n[i] == 3", "bool")
    assert expr.type == BOOL
    assert print_expr(expr) == "b[i] and not x[i] > 0.5 or n[i] == 3"


def test_bits() -> None:
    assert print_expr(value("~u[i] & 15 | u[i] << 2 ^ 1", "u8")) == "~u[i] & 15 | u[i] << 2 ^ 1"
    for text in ("x[i] & 1", "b[i] | b[i]", "i << 2"):
        with pytest.raises(TypeMismatch, match="bits of integers"):
            value(text)


def test_functions() -> None:
    assert print_expr(value("clamp(x[i], 0, 6)")) == "min(max(x[i], 0.0), 6.0)"
    assert print_expr(value("max(x[i], s, 0)")) == "max(max(x[i], s), 0.0)"
    assert print_expr(value("pow(x[i], 2) + sqrt(abs(x[i]))")) == "pow(x[i], 2.0) + sqrt(abs(x[i]))"


def test_defs_are_written_out() -> None:
    assert print_expr(value("relu(mix(x[i], s))")) == "max(x[i] * 0.25 + s * 0.75, 0.0)"


# ---------------------------------------------------------------- indices


@pytest.mark.parametrize(
    ("index", "printed"),
    [
        ("i + 0 * N", "x[i]"),
        ("i * 1 - 0", "x[i]"),
        ("c * i // c", "x[i]"),
        ("wrap(i + 1, 8)", "x[(i + 1) % 8]"),
        ("clamp(i - 1, 0, N - 1)", "x[min(max(i - 1, 0), N - 1)]"),
        ("min(i, i + 3)", "x[i]"),
        ("u[i]", "x[u[i]]"),
        ("clamp(n[i] + 1, 0, N - 1)", "x[min(max(n[i] + 1, 0), N - 1)]"),
        ("select(i < 3, i, 0)", "x[select(i < 3, i, 0)]"),
    ],
)
def test_subscripts(index: str, printed: str) -> None:
    assert print_expr(value(f"x[{index}]")) == printed


def test_data_in_an_index_are_cast() -> None:
    expr = value("x[u8(n[i])]")
    assert isinstance(expr, Read)
    (index,) = expr.indices
    assert index == Cast("convert", Cast("convert", Read("n", (_i(),), I32), U8), INDEX)


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("e", range(-9, 12))
def test_mirror_is_numpys_reflect(n: int, e: int) -> None:
    expr = value(f"x[mirror(i + {e}, {n})]" if e >= 0 else f"x[mirror(i - {-e}, {n})]")
    assert isinstance(expr, Read)
    wanted = np.pad(np.arange(n), 12, mode="reflect" if n > 1 else "edge")[e + 12]
    assert _evaluate(expr.indices[0], 0) == wanted


def test_mirror_of_an_unknown_size_reflects_once() -> None:
    expr = value("x[mirror(i - 2, N)]")
    assert isinstance(expr, Read)
    assert not any(isinstance(e, Op) and e.op == "mod" for e in walk(expr))


def test_padded_takes_a_value_from_data() -> None:
    expr = value("padded(x[i + 1], s)")
    assert isinstance(expr, Select)
    assert print_expr(expr) == "select(i + 1 < N, x[i + 1], s)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x[i * N]", "multiplies two unknowns"),
        ("x[i % N]", "not known at compile time"),
        ("x[i // M]", "not known at compile time"),
        ("x[1.0]", "floating-point number"),
        ("x[i / 2]", "`/` divides floats"),
        ("x[x[i]]", "an index is an integer"),
        ("A[i]", "2 dimensions, and 1 index"),
        ("s[i]", "is a scalar"),
    ],
)
def test_refused_subscripts(text: str, said: str) -> None:
    with pytest.raises(Error, match=said):
        value(text)


def _i() -> Expr:
    read = value("x[i]")
    assert isinstance(read, Read)
    return read.indices[0]


def _evaluate(expr: Expr, i: int) -> int:
    """An index expression at one value of i."""
    match expr:
        case Const(number):
            return int(number)
        case Op(op, args):
            a = [_evaluate(e, i) for e in args]
            table = {"add": lambda: a[0] + a[1], "sub": lambda: a[0] - a[1],
                     "mul": lambda: a[0] * a[1], "min": lambda: min(a), "max": lambda: max(a),
                     "neg": lambda: -a[0], "mod": lambda: a[0] % a[1] if a[1] else 0}  # fmt: skip
            return table[op]()
        case _:
            return i
