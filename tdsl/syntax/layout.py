"""Lines: where a long one breaks, where comments and blank lines go.

A `Page` is written top to bottom. Comments of the source are put where they were, relative to
the items: on lines of their own before the item they precede or stand in, or behind the item
that they follow on its line.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tdsl.diagnostics import Span

WIDTH = 110
STEP = 4

# Where a line may end: before these words and signs, the loosest first, or behind a comma.
_LOOSENESS = (("where", "when", "->", "tail"), ("or",), ("and",), ("+", "-"))
_OPERATORS = re.compile(r"(->|==|!=|<<|>>|[<>]=?|//|[-+*/%&|^]|and|or|where|when|tail) ")


def fit(text: str, indent: int) -> list[str]:
    """`text` on lines of at most WIDTH columns where that is possible.

    A line ends at the outermost, loosest operator or comma in its second half, the last of
    those.
    """
    lines = []
    pad = " " * indent
    while len(pad) + len(text) > WIDTH:
        cut = _cut(text, WIDTH - len(pad))
        if cut is None:
            break
        lines.append(pad + text[:cut].rstrip())
        text = text[cut:].lstrip()
        pad = " " * (indent + STEP)
    return [*lines, pad + text]


def _cut(text: str, room: int) -> int | None:
    depth, quoted = 0, False
    places: list[tuple[tuple[int, int], int]] = []  # (how far inside, where the next line starts)
    for position, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == " " and position > 0:
            looseness = _looseness(text, position)
            if looseness is not None:
                places.append(((depth, looseness), position + 1))
    fitting = [place for place in places if place[1] <= room + 1]
    choice = [place for place in fitting if place[1] >= room // 2] or fitting
    if choice:
        outermost = min(inside for inside, _ in choice)
        return max(cut for inside, cut in choice if inside == outermost)
    return places[0][1] if places else None


def _looseness(text: str, position: int) -> int | None:
    """How well a line ends at this space: the smaller the better, None not at all."""
    before = text[position - 1]
    if before in ",;" or (before == "=" and text[position - 2] not in "=!<>"):
        return 0
    operator = _OPERATORS.match(text, position + 1)
    if operator is None:
        return None
    ranks = [rank for rank, words in enumerate(_LOOSENESS) if operator.group(1) in words]
    return ranks[0] if ranks else len(_LOOSENESS)


class Comment(NamedTuple):
    start: int
    end: int
    text: str


def comments_of(text: str) -> list[Comment]:
    """All comments of a text, in order; `#` in quotes begins none."""
    found = re.finditer(r'"[^"\n]*"|#[^\n]*', text)
    return [
        Comment(m.start(), m.end(), m.group().rstrip()) for m in found if m.group().startswith("#")
    ]


class Page:
    """Lines written so far, and how far the source has been followed."""

    def __init__(self, source: str | None) -> None:
        self.lines: list[str] = []
        self.source = source
        self._comments = comments_of(source) if source is not None else []
        self._next = 0
        self._end: int | None = None  # of what was written last; None at the start of a block
        # The source without comments and strings, so that a brace in it is a brace.
        self._bare = re.sub(
            r'"[^"\n]*"|#[^\n]*', lambda m: " " * len(m.group()), source if source else ""
        )

    def before(self, span: Span | None, indent: int, inside_to: int | None = None) -> None:
        """Comments that precede an item, then those inside it up to `inside_to`."""
        if self.source is None or span is None:
            return
        self._own_lines(span.start, indent)
        self._blank(span.start)
        for comment in self._take(span.end if inside_to is None else inside_to):
            self.lines.append(" " * indent + comment.text)

    def after(self, end: int) -> None:
        """The comment that follows on the line of an item or brace that ends at `end`."""
        if self.source is None:
            return
        self._end = end
        if self._next < len(self._comments):
            comment = self._comments[self._next]
            if re.fullmatch(r"[ \t]*", self.source[end : comment.start]):
                self.lines[-1] += f"  {comment.text}"
                self._end = comment.end
                self._next += 1

    def leaf(self, text: str, span: Span | None, indent: int) -> None:
        """An item of one line, or of several where it is long."""
        self.before(span, indent)
        self.lines += fit(text, indent)
        if span is not None:
            self.after(span.end)

    def open(self, header: str, span: Span | None, indent: int) -> None:
        """`header {`, with the comments that stand in it before it."""
        brace = self.brace(span)
        self.before(span, indent, brace)
        self.lines += fit(header + " {", indent)
        self.after(brace + 1)
        self._end = None

    def close(self, span: Span | None, indent: int) -> None:
        """Comments left in the block, then `}`."""
        if self.source is not None and span is not None:
            self._own_lines(span.end - 1, indent + STEP)
        self.lines.append(" " * indent + "}")
        if span is not None:
            self.after(span.end)

    def finish(self) -> None:
        """Comments behind the last item."""
        if self.source is not None:
            self._own_lines(len(self.source), 0)

    def brace(self, span: Span | None) -> int:
        """Where the block of an item opens."""
        return self._bare.index("{", span.start) if self.source is not None and span else 0

    def was_one_line(self, span: Span | None) -> bool:
        """Did the author write this item on one line, without a comment in it?"""
        if self.source is None or span is None:
            return False
        text = self.source[span.start : span.end]
        return "\n" not in text and not comments_of(text)

    def blank(self) -> None:
        """An empty line here, unless there is one or this is the top."""
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def _own_lines(self, until: int, indent: int) -> None:
        for comment in self._take(until):
            self._blank(comment.start)
            self.lines.append(" " * indent + comment.text)
            self._end = comment.end

    def _take(self, until: int) -> list[Comment]:
        taken = []
        while self._next < len(self._comments) and self._comments[self._next].start < until:
            taken.append(self._comments[self._next])
            self._next += 1
        return taken

    def _blank(self, start: int) -> None:
        """Keep one of the empty lines between what was written last and `start`."""
        if self._end is not None and self._bare[self._end : start].count("\n") > 1:
            self.blank()
