"""The excerpt of a message: the caret stands under its character, also in long lines."""

import pytest

from tdsl.diagnostics import ParseError, Source, Span, render
from tdsl.syntax.parser import parse


@pytest.mark.parametrize("before", [0, 3, 150, 5000])
@pytest.mark.parametrize("behind", [0, 3, 150, 5000])
def test_the_caret_stands_under_its_character(before: int, behind: int) -> None:
    text = "first\n" + "\t" * min(before, 2) + "y" * before + "$" + "z" * behind
    place = text.index("$")
    error = ParseError.at(Span(Source("a.tdsl", text), place, place + 1), "wrong")
    lines = render(error.diagnostics[0]).splitlines()
    caret = lines[4].index("^")
    assert lines[3][caret] == "$"
    assert [c == "\t" for c in lines[3][:caret]] == [c == "\t" for c in lines[4][:caret]]
    assert max(map(len, lines)) < 250


@pytest.mark.parametrize("text", ["y" * 5000, "def f(x) = x " + "y" * 5000, "9" * 5000 + "x"])
def test_long_words_are_not_repeated_whole(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert max(map(len, str(caught.value).splitlines())) < 250


def test_a_span_of_many_lines_is_shown_by_its_first() -> None:
    text = "kernel f(N) {\n    y = 1\n}\n"
    error = ParseError.at(Span(Source("a.tdsl", text), 0, len(text)), "all of it")
    assert render(error.diagnostics[0]).splitlines()[-1] == "  | " + "^" * len("kernel f(N) {")
