"""Texts that no one should write: `check` has an answer to each, and no traceback."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tdsl.checking import check_text
from tests.cli.conftest import MATMUL, TWO, WRONG, Tdsl

TEXTS = (MATMUL, TWO, WRONG)
PIECES = (
    "[",
    "]",
    "{",
    "}",
    "sum[",
    "-1",
    "i",
    "N",
    " // 0",
    "1e999",
    "\x00",
    "\u202e",
    "0",
    "=",
    ";",
)


@settings(max_examples=200)
@given(
    st.sampled_from(TEXTS),
    st.lists(
        st.tuples(st.integers(0, 700), st.integers(0, 12), st.sampled_from(PIECES)),
        min_size=1,
        max_size=3,
    ),
)
def test_a_damaged_text_is_refused_in_words(text: str, edits: list[tuple[int, int, str]]) -> None:
    for place, length, piece in edits:
        start = place % len(text)
        text = text[:start] + piece + text[start + length :]
    report = check_text(text, "damaged.tdsl")
    assert report.ok or report.error is not None
    assert all(d.message for d in report.diagnostics)


HOSTILE = {
    "nested": "kernel f(N) { out y: f32[N] y[i] = " + "(" * 5000 + "1.0" + ")" * 5000 + " }",
    "long sum": "kernel f(N) { out y: f32[N] y[i] = " + " + ".join(["1.0"] * 5000) + " }",
    "long number": "kernel f(N) { out y: i64[N] y[i] = " + "9" * 20000 + " }",
    "long exponent": "kernel f(N) { out y: f64[N] y[i] = 1e999999999 }",
    "nested blocks": "kernel f(N) { inout y: f32[N] " + "for i in 0..N { " * 300 + "}" * 301,
    "wide table": "const T: f32[2000] = [" + ", ".join(["1"] * 2000) + "]",
    "huge table": "const T: f32[1000000, 1000000] = [[1]]",
    "huge split": MATMUL.replace("by 4, 2 * lanes(f32)", "by 4, 99999999999999999999"),
    "huge unroll": MATMUL.replace("unroll ii", "unroll k by 1000000000 plain"),
    "huge extent": "kernel f() { out y: f32[1099511627776] y[i] = 1.0 }",
    "negative extent": "kernel f() { out y: f32[-5] y[i] = 1.0 }",
    "recursive def": "def f(v) = f(v)\nkernel k(N) { out y: f32[N] y[i] = f(1.0) }",
    "growing defs": "".join(f"def f{n}(v) = f{n - 1}(v) + f{n - 1}(v)\n" for n in range(1, 40))
    + "def f0(v) = v\nkernel k(N) { out y: f32[N] y[i] = f39(1.0) }",
    "recursive recipe": "recipe r(S) { use r(S) }\n"
    + MATMUL.replace("reorder i, k, j", "use r(C)"),
    "null bytes": "\x00" * 100,
    "many errors": "kernel f(N) { out y: f32[N]\n" + "y[i] = q\n" * 500 + "}",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_texts(tdsl: Tdsl, folder: Path, case: str) -> None:
    (folder / "hostile.tdsl").write_text(HOSTILE[case])
    result = tdsl("check", "hostile.tdsl")
    assert result.status in (0, 1), result.err[-2000:]
    assert len(result.err) < 1_000_000
