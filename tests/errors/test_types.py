"""What is said about programs that parse and mean nothing: names, types, ranks, ranges."""

from pathlib import Path

import pytest

from tdsl.syntax.elaborate import check_file, elaborate, kernels
from tdsl.syntax.later import LATER
from tdsl.syntax.parser import parse
from tests.errors.runner import HERE, cases, checked, hold, name_of, refusal


@pytest.mark.parametrize("case", cases("types"), ids=name_of)
def test_message(case: Path, pytestconfig: pytest.Config) -> None:
    hold(case, checked, update=pytestconfig.getoption("--update"))


def test_there_are_cases() -> None:
    assert len(cases("types")) >= 60


@pytest.mark.parametrize("feature", sorted(LATER))
def test_every_refusal_of_the_table_is_reached(feature: str) -> None:
    said = "".join(refusal(case, checked) for case in (HERE / "types").glob("later_*.tdsl"))
    assert LATER[feature].what in said


# What a message tells to write, in place of what was written.
REPAIRS = {
    "free_index": ("A[i, k] * B[k, j]", "sum[k](A[i, k] * B[k, j])"),
    "free_index_update": ("+= A[i, k] * B[k, j]", "+= sum[k](A[i, k] * B[k, j])"),
    "negative_index": ("x[-1]", "x[N - 1]"),
    "scan_outside_for": (
        "A[i] = A[i - 1] + x[i]",
        "for i in 1..N { A[i] = A[i - 1] + x[i] }",
    ),
    "mixed_types": ("n[i]\n}", "f32(n[i])\n}"),
    "index_in_value": ("* i", "* f32(i)"),
    "size_in_value": ("/ N", "/ f32(N)"),
    "wide_and_narrow": ("a[i] *", "i32(a[i]) *"),
    "integer_division": ("/", "//"),
    "float_floor_division": ("x[i] // 2.0", "floor(x[i] / 2.0)"),
    "float_modulo": ("x[i] % 2.0", "x[i] - floor(x[i] / 2.0) * 2.0"),
    "float_literal_in_integer": ("2.0", "2"),
    "float_as_index": ("x[p[i]]", "x[i32(p[i])]"),
    "wrong_result_type": ("x[i] * 255.0", "u8(x[i] * 255.0)"),
    "truth_value_arithmetic": ("(x[i] > 0.0)", "(select(x[i] > 0.0, 1, 0))"),
    "sqrt_of_integer": ("x[i])", "f32(x[i]))"),
    "bits_of_float": ("= x[i] & 1", "= bitcast<f32>(bitcast<u32>(x[i]) & 1)"),
    "unknown_type": ("float32", "f32"),
    "unknown_array": ("imput", "input"),
    "unknown_function": ("sqr(", "sqrt("),
    "reduction_without_index": ("sum(", "sum[i]("),
    "duplicate_label": ("S: z", "z"),
    "size_not_declared": ("f(N)", "f(N, M)"),
    "write_to_input": ("in  x", "inout x"),
    "index_hidden": ("sum[i](A[i, i])", "sum[k](A[i, k])"),
    "unequal_ranges": ("sum[k]", "sum[k in 0..N]"),
    "range_unknown": ("sum[k]", "sum[k in 0..N]"),
    "range_of_left_index": ("x[2 * i]", "x[2 * i] where 0 <= i < N"),
    "where_names_reduced": ("sum[k](x[k]) where k < 4", "sum[k in 0..N where k < 4](x[k])"),
    "type_of_numbers": ("t[i] = 1.0", "temp t: f32[N]\n    t[i] = 1.0"),
    "extent_circular": ("a[i] = f32(i)", "temp a: f32[N]\n    a[i] = f32(i)"),
    "index_array": ("= i // 2", "= i32(i // 2)"),
    "constant_missing": ("stride,", "stride = 2,"),
    "constant_no_value": ("rely", "relu"),
    "scatter_define": (
        "inout h: i32[256]\n\n    h[x[i]] = 1",
        "out h: i32[256]\n    h[b] = sum[i](select(i64(x[i]) == i64(b), 1, 0))",
    ),
    "argmax_type": ("m: i32", "m: i64"),
    "argmax_empty": ("in  x", "assume N >= 1\n    in  x"),
    "range_of_inout": (
        " range 0..N\n    in    t: f32[N]\n    out   y: f32[N]\n\n    y[i] = t[idx[i]]",
        "\n    in    t: f32[N]\n    out   y: f32[N]\n\n    y[i] = t[clamp(idx[i], 0, N - 1)]",
    ),
}


def typed(text: str, name: str) -> None:
    """Names and types alone: a repair need not make a program whose bounds hold."""
    file = parse(text, name)
    check_file(file)
    for kernel in kernels(file):
        elaborate(file, kernel)


@pytest.mark.parametrize("name", REPAIRS)
def test_what_the_help_says_is_accepted(name: str) -> None:
    text = (HERE / "types" / f"{name}.tdsl").read_text(encoding="utf-8")
    before, after = REPAIRS[name]
    assert before in text
    typed(text.replace(before, after), name)
