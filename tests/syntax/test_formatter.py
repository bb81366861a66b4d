"""Printing keeps the tree; formatting keeps the tree and the comments, and settles at once."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tdsl.schedule.directives import Directive
from tdsl.syntax import tree as t
from tdsl.syntax.formatter import (
    format_file,
    print_directive,
    print_directives,
    print_expr,
    print_file,
)
from tdsl.syntax.layout import WIDTH, Page
from tdsl.syntax.parser import parse, parse_directives, parse_expr
from tests.syntax import strategies as trees

SAMPLE = """\
def relu(v) = max(v, 0.0)
combine later(v, i; w, j) { identity -inf, -1 let n = max(v, w) give n, select(w >= v, j, i) }
record q4_0 { d: f16  q: u8[16] }
const G: f32[2, 2] = [[1/2, 0], [0, -1/2]]
kernel k<pad = 1, T: type = f32, act = relu>(N, M) {
    assume N >= 1, M % 8 == 0
    in x, z: f32[N, (M, 2)] strides [lda, 1] align 64
    in p: i32[N] range 0..N
    out y: f32[N]
    S: y[i] = act(sum[j in 0..M where j <= i](x[i, j] * 2.0)) where i != pad
    for t in N-1 downto 0, i in 1..N-1 step 2 { for j in 0..M { y[i] += x[t, j] } }
}
schedule k.fast for avx512+vnni, neon when N >= 64 {
    on y { split i by 8 -> io, ii tail cases unroll ii }
    on y { vectorize j }
    pack y.x at y.io as Q: T[i, j] in stack order { S[i] -> [0, i]; T[] -> [1] } -> a
}
recipe r(P, MR = 6) { parallel P.i }
graph g<N = 1> { in x: f32[N] h = relu(x, pad = 1) out y = h + x }
select conv2d { direct when R == 1 and S == 1 winograd otherwise }
"""


def comments(text: str) -> list[str]:
    return [line.partition("#")[2].rstrip() for line in text.splitlines() if "#" in line]


def corpus() -> list[Path]:
    root = Path(__file__).resolve().parents[2]
    folders = (root / "examples", root.parent / "shared/language", root.parent / "shared/kernels")
    return [path for folder in folders for path in sorted(folder.glob("*.tdsl"))]


@given(trees.files)
@settings(max_examples=100)
def test_printed_file_parses_to_the_same_tree(file: t.File) -> None:
    text = print_file(file)
    assert parse(text) == file
    assert format_file(text) == text


@given(trees.exprs)
@settings(max_examples=200)
def test_printed_expression_parses_to_the_same_tree(expr: t.Expr) -> None:
    assert parse_expr(print_expr(expr)) == expr


@given(st.lists(trees.directives, max_size=4).map(tuple), st.sampled_from((0, 4, 8)))
@settings(max_examples=100)
def test_printed_directives_parse_to_the_same(ds: tuple[Directive, ...], indent: int) -> None:
    text = print_directives(ds, indent)
    assert parse_directives(text) == ds
    assert all(line.startswith(" " * indent) for line in text.splitlines())


@pytest.mark.parametrize(
    "text",
    [
        "a + b * c", "(a + b) * c", "a - (b - c)", "a - b - c", "a // (b * c)", "-x[i]", "-(a + b)",
        "-(-a)", "not a and b", "not (a and b)", "(a or b) and c", "a < b <= c", "(a < b) == c",
        "a & b == c", "a & (b == c)", "a | b ^ c & d << e", "sum[k in 0..N-1 where k < i](a[k])",
        "sum[k in i+1..N // 2](a[k])", "saturate<u8>(x)", "x[b].q[i] & 15", "f(a, pad = 1)",
        'uses(S, "vpdpbusd")', "1_000 + 0x1F + 1e-5 + 2.50", "1 / 6", "-inf",
    ],
)  # fmt: skip
def test_expressions_have_one_spelling(text: str) -> None:
    assert print_expr(parse_expr(text)) == text


def test_numbers_made_by_the_compiler_are_exact() -> None:
    def number(value: str, is_float: bool) -> str:
        return print_expr(t.Number(Fraction(value), is_float))

    assert number("12", False) == "12"
    assert number("1/4", True) == "0.25"
    assert number("3", True) == "3.0"
    assert number("-1/2", True) == "-0.5"
    assert number("1/3", True) == "1.0 / 3.0"
    assert number("1e30", True) == "1e30"
    assert print_expr(t.Binary("*", t.Number(Fraction(1, 3), False), t.Name("x"))) == "1 / 3 * x"


def test_directives_print_as_a_person_writes_them() -> None:
    text = "on y {\n    split i by 8 -> io, ii tail cases\n    unroll ii by 2 plain\n}"
    assert print_directive(parse_directives(text)[0]) == text
    assert print_directives(parse_directives("on y { vectorize i }"), 4) == (
        "    on y { vectorize i }"
    )


@pytest.mark.parametrize("path", corpus(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_files_settle_and_keep_their_comments(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    once = format_file(text)
    assert parse(once) == parse(text)
    assert format_file(once) == once
    assert sorted(comments(once)) == sorted(comments(text))
    assert all(len(line) <= WIDTH for line in once.splitlines() if "#" not in line)
    assert parse(print_file(parse(text))) == parse(text)


# Every place between two tokens of SAMPLE.
_TOKENS = re.findall(
    r'"[^"]*"|\w+<\w+>|(?:min|max)=|\w+(?:\.\d+)?|\.\.|->|//|[-+*=!<>]=|\S', SAMPLE
)


def _commented(places: dict[int, str]) -> str:
    parts = []
    for index, token in enumerate(_TOKENS):
        parts.append(token)
        parts.append(places.get(index, " "))
    return "".join(parts)


_gaps = st.sampled_from(
    (" # c{}\n", "\n# c{}\n", "\n\n\n# c{}\n\n", "\n", "\n\n\n", " #c{}\n#d{}\n")
)


@given(st.dictionaries(st.integers(0, len(_TOKENS) - 1), _gaps, max_size=12))
@example({})
@settings(max_examples=80)
def test_comments_anywhere_stay_in_their_place(gaps: dict[int, str]) -> None:
    text = _commented({index: gap.format(index, index) for index, gap in gaps.items()})
    once = format_file(text)
    assert parse(once) == parse(text)
    assert format_file(once) == once
    assert comments(once) == comments(text)  # none lost, none overtakes another
    assert "\n\n\n" not in once


# One item a line; comments at the ends of lines and on lines of their own belong to an item.
_LINES = [line for line in format_file(SAMPLE).splitlines() if line]


@given(st.sets(st.integers(0, len(_LINES) - 1)), st.sets(st.integers(0, len(_LINES) - 1)))
@settings(max_examples=50)
def test_comments_stay_with_their_item(above: set[int], behind: set[int]) -> None:
    lines = []
    for index, line in enumerate(_LINES):
        if index in above:
            lines.append(" " * (len(line) - len(line.lstrip())) + f"# above {index}")
        lines.append(line + (f"  # behind {index}" if index in behind else ""))
    formatted = [line for line in format_file("\n".join(lines)).splitlines() if line]
    for index, line in enumerate(_LINES):
        if index in behind:
            assert any(f"{line.strip()}  # behind {index}" in other for other in formatted)
        if index in above and not line.strip().startswith("}"):
            place = next(n for n, other in enumerate(formatted) if f"# above {index}" in other)
            assert formatted[place + 1].strip().startswith(line.strip())


def test_blank_lines() -> None:
    text = (
        "\n\n# top\n\n\n\nkernel f(N) {\n\n\n    out y: f32[N]\n\n\n    y[i] = 0.0\n\n}\n"
        "kernel g() {\n}\n"
    )
    assert format_file(text) == (
        "# top\n\nkernel f(N) {\n    out y: f32[N]\n\n    y[i] = 0.0\n}\n\nkernel g() {\n}\n"
    )
    assert format_file("") == ""
    assert format_file("# only\n\n\n#this\n") == "# only\n\n#this\n"


def test_line_ends_of_other_systems() -> None:
    text = "# a\r\nkernel f(N) {  # b\r\n\r\n    out y: f32[N] # c\r\n}\r\n"
    assert format_file(text) == format_file(text.replace("\r\n", "\n"))
    assert "\r" not in format_file(text)


def test_a_formatter_that_loses_something_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Page, "finish", lambda self: None)
    with pytest.raises(AssertionError, match="would change it"):
        format_file("def f(x) = x\n# lost\n")


def test_long_equations_break_at_the_loosest_operator() -> None:
    term = "alpha[i, j] * beta[i, j]"
    text = f"kernel f(N) {{\n    y[i, j] = {' + '.join([term] * 6)} where i < j\n}}\n"
    once = format_file(text)
    assert all(len(line) <= WIDTH for line in once.splitlines())
    starts = [line.strip()[:2] for line in once.splitlines()[2:-1]]
    assert starts and set(starts) <= {"+ ", "wh"}
    assert format_file(once) == once
