"""What stands around a token that cannot stand where it stands."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tdsl.diagnostics import Note, Source, Span
from tdsl.syntax.vocabulary import FILE_ITEMS

_TOKEN = re.compile(
    r'[ \t\r\n\f\ufeff]+|#[^\n]*|(?P<token>"[^"\n]*"|[A-Za-z_]\w*|\d\w*|\.\.|->|//|[=!<>]=|.)',
)
CLOSER = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Scene:
    """The token that cannot stand where it stands, and what is around it."""

    span: Span
    text: str  # of the token; empty at the end of the text
    kind: str
    expected: frozenset[str]
    before: tuple[Span, ...]  # the tokens before it
    open: tuple[Span, ...]  # brackets that are not closed before it

    def word(self, back: int) -> str:
        """The token `back` places before this one."""
        return self.before[-back].text if len(self.before) >= back else ""

    def line(self) -> list[str]:
        """The tokens before this one on its line."""
        start = self.span.source.text.rfind("\n", 0, self.span.start) + 1
        return [s.text for s in self.before if s.start >= start]

    def rest(self) -> str:
        """The text behind the token."""
        return self.span.source.text[self.span.end :]

    def block(self) -> str:
        """The word that begins the item of the file whose block the token is in."""
        if not self.open:
            return ""
        words = [s.text for s in self.before if s.end <= self.open[0].start]
        return next((word for word in reversed(words) if word in FILE_ITEMS), "")

    def inside(self) -> str:
        """The innermost open bracket."""
        return self.open[-1].text if self.open else ""


@dataclass(frozen=True)
class Answer:
    message: str
    help: str | None = None
    span: Span | None = None
    notes: tuple[Note, ...] = ()


def tokens_before(source: Source, end: int) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    tokens: list[Span] = []
    brackets: list[Span] = []
    for match in _TOKEN.finditer(source.text, 0, end):
        token = match.group("token")
        if token is None:
            continue
        tokens.append(Span(source, match.start("token"), match.end("token")))
        if token in CLOSER:
            brackets.append(tokens[-1])
        elif brackets and token == CLOSER[brackets[-1].text]:
            brackets.pop()
    return tuple(tokens), tuple(brackets)
