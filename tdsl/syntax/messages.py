"""What is said about a text that does not parse."""

from __future__ import annotations

from tdsl.diagnostics import ParseError, Source, Span


def stray(source: Source, offset: int, text: str) -> ParseError:
    """Characters that begin no token."""
    error = ParseError.at(
        Span(source, offset, offset + len(text)), f"`{text}` is not part of the language."
    )
    assert isinstance(error, ParseError)
    return error


def unexpected(span: Span, kind: str, expected: set[str]) -> ParseError:
    """A token that cannot stand where it stands."""
    found = "the end of the text" if kind == "$END" else f"`{span.text}`"
    error = ParseError.at(span, f"{found} is unexpected here; expected {sorted(expected)}.")
    assert isinstance(error, ParseError)
    return error
