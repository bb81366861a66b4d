"""Pieces of C text: expressions with their precedence, comments, line breaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

LIMIT = 108  # columns of a line of C

# Precedence, loosest first.
TERNARY, OR, AND, BITOR, BITXOR, BITAND, EQUAL, RELATION, SHIFT, SUM, PRODUCT, UNARY, ATOM = range(
    13
)


class C(NamedTuple):
    """An expression and how tightly its outermost operator binds."""

    text: str
    level: int = ATOM

    def at(self, level: int) -> str:
        """The text, in parentheses if it binds less tightly than `level`."""
        return self.text if self.level >= level else f"({self.text})"


def call(name: str, *args: C | str) -> C:
    """A call; arguments need no parentheses."""
    return C(f"{name}({', '.join(a if isinstance(a, str) else a.text for a in args)})")


def binary(operator: str, level: int, left: C, right: C) -> C:
    """A left-associative operator. Mixed with bit operators, shifts or `||`, compilers ask for
    parentheses that the grammar does not need."""
    inner = SUM if level == SHIFT else level
    if level in (BITAND, BITXOR, BITOR):
        left_text = left.text if left.level == level else left.at(UNARY)
        return C(f"{left_text} {operator} {right.at(UNARY)}", level)
    if level == OR:
        left_text = left.text if left.level == OR else left.at(BITOR)
        return C(f"{left_text} || {right.at(BITOR)}", OR)
    if level == SHIFT:
        return C(f"{left.at(UNARY)} {operator} {right.at(UNARY)}", level)
    if level in (EQUAL, RELATION):
        inner = SHIFT
        return C(f"{left.at(inner)} {operator} {right.at(inner)}", level)
    return C(f"{left.at(inner)} {operator} {right.at(inner + 1)}", level)


def cast(ctype: str, arg: C) -> C:
    """`(ctype)arg`."""
    return C(f"({ctype}){arg.at(UNARY)}", UNARY)


def negate(arg: C) -> C:
    """`-arg`, never `--arg`."""
    text = arg.at(UNARY)
    return C(f"-({text})" if text.startswith("-") else f"-{text}", UNARY)


def ternary(condition: C, then: C, other: C) -> C:
    """`condition ? then : other`; chains to the right stay open."""
    return C(f"{condition.at(OR)} ? {then.at(OR)} : {other.text}", TERNARY)


def prototype(start: str, params: Sequence[str], end: str) -> list[str]:
    """A function's head, over several lines where it is long."""
    return wrap(f"{start}({', '.join(params) if params else 'void'}){end}")


def comment_text(text: str) -> str:
    """One line that cannot end a comment, continue a line, or hold a trigraph."""
    plain = "".join(
        c if " " <= c <= "~" and c != "\\" else " " if c < " " else f"<U+{ord(c):04X}>"
        for c in text
    )
    return plain.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")


def comment(lines: Sequence[str], indent: str) -> list[str]:
    """A block comment over what follows."""
    plain = [comment_text(line).rstrip() for text in lines for line in text.split("\n")]
    if len(plain) == 1 and len(indent) + len(plain[0]) + 6 <= LIMIT:
        return [f"{indent}/* {plain[0]} */"]
    out = [f"{indent}/*"]
    out += [f"{indent} * {line}".rstrip() for line in plain]
    return [*out, f"{indent} */"]


def wrap(line: str) -> list[str]:
    """A long line cut at spaces of low nesting, continued eight columns further in."""
    if len(line) <= LIMIT:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    out: list[str] = []
    rest, first = line.strip(), True
    while True:
        lead = indent if first else indent + " " * 8
        room = LIMIT - len(lead)
        if len(rest) <= room:
            return [*out, lead + rest]
        cut = _cut(rest, room)
        if cut is None:
            return [*out, lead + rest]
        out.append(lead + rest[:cut].rstrip())
        rest, first = rest[cut:].lstrip(), False


_OPERATORS = (*"+-*/%&|^?:=<>", "&&", "||", "==", "!=", "<=", ">=", "<<", ">>")


def _cut(text: str, room: int) -> int | None:
    """The space to break at: the least nested of those in the last two thirds of the line, the
    furthest right among equals; else the last before, else the first beyond."""
    places = list(_breaks(text))
    late = [(-depth, at) for depth, at in places if room // 3 < at <= room]
    if late:
        return max(late)[1]
    early = [at for _, at in places if at <= room]
    return early[-1] if early else next((at for _, at in places), None)


def _breaks(text: str) -> Iterator[tuple[int, int]]:
    """(nesting, position) of spaces behind a comma or an operator, outside strings."""
    depth, quoted = 0, False
    for position, char in enumerate(text):
        if char == '"' and (position == 0 or text[position - 1] != "\\"):
            quoted = not quoted
        if quoted:
            continue
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == " ":
            before = text[:position].rsplit(" ", 1)[-1]
            if before[-1:] in (",", ";") or before in _OPERATORS:
                yield depth, position
