"""Which lines of C run which statements.

While code is printed a line carries its statement behind a mark that no source can hold; `split`
takes the marks off, when lines no longer move.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_MARK = "\0"
_FOR = re.compile(r"( *)for \(")


@dataclass(frozen=True)
class Written:
    """A line that writes what a statement computes, to memory or to its register. `function`: the
    place among the functions that were printed; `line` counts from 1."""

    line: int
    function: int
    statement: str


@dataclass(frozen=True)
class CLoop:
    """A `for`: its first line, the last one of its head, and that of its closing brace."""

    first: int
    head: int
    last: int

    def __contains__(self, line: int) -> bool:
        return self.first <= line <= self.last


def marked(lines: Iterable[str], function: int, statement: str) -> list[str]:
    """The lines of one statement."""
    return [f"{line}{_MARK}{function} {statement}" for line in lines]


def split(lines: Sequence[str]) -> tuple[list[str], tuple[Written, ...]]:
    """The lines without marks, and what these said."""
    plain: list[str] = []
    written: list[Written] = []
    for number, line in enumerate(lines, 1):
        text, _, mark = line.partition(_MARK)
        plain.append(text)
        if mark:
            function, statement = mark.split(" ", 1)
            written.append(Written(number, int(function), statement))
    return plain, tuple(written)


def c_loops(lines: Sequence[str]) -> tuple[CLoop, ...]:
    """All loops of printed C, whose braces stand below the loop they close; outer ones first."""
    found = []
    for number, line in enumerate(lines, 1):
        if start := _FOR.match(line):
            rest = range(number, len(lines) + 1)
            head = next(n for n in rest if lines[n - 1].endswith(("{", ")")))
            if lines[head - 1].endswith("{"):
                last = next(n for n in rest if lines[n - 1] == start[1] + "}")
            else:  # of a helper: the one statement below it
                last = head + 1
            found.append(CLoop(number, head, last))
    return tuple(found)
