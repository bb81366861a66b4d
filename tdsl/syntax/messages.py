"""What is said about a text that does not parse: what is wrong, and what to write instead.

`expected` holds keywords and signs as they are written, and NAME, NUMBER, STRING.
"""

from __future__ import annotations

import re

from tdsl.diagnostics import Diagnostic, ParseError, Source, Span
from tdsl.syntax.lexer import RESERVED
from tdsl.syntax.mistakes import RULES
from tdsl.syntax.scene import Answer, Scene, tokens_before
from tdsl.syntax.vocabulary import (
    DIRECTIVES,
    EXAMPLES,
    FILE_ITEMS,
    ITEM_EXAMPLES,
    OPERAND,
    OPERATORS,
    STRAY,
)


def stray(source: Source, offset: int, text: str) -> ParseError:
    """Characters that begin no token."""
    span = Span(source, offset, offset + len(text))
    if text.isascii() and text.isdigit():
        match = re.compile(r"[\w.]*(?:(?<=[eE])[+-]\w*)?").match(source.text, offset)
        span = Span(source, offset, match.end() if match else offset + 1)
        message = f"`{_clip(span.text)}` is not a number of the language"
        return _error(span, message, f"write {_number_like(span.text)}")
    if text == '"':
        return _error(span, "this text is not closed on its line", 'write a `"` at its end')
    if text in STRAY:
        return _error(span, f"`{text}` is not part of the language", STRAY[text])
    if text.isalpha():
        message = f"`{text}` cannot be part of a name: names are of ASCII letters, digits and `_`"
        return _error(span, message)
    shown = f"`{text}`" if text.isprintable() else f"the character U+{ord(text):04X}"
    return _error(span, f"{shown} is not part of the language")


def _clip(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "..."


def _number_like(text: str) -> str:
    if re.fullmatch(r"[\d.]+[a-zA-Z]\w*", text):
        return "it without the letters behind it: a number takes the type of its context"
    return "numbers as `12`, `0x1F`, `1.0` or `1e-5`"


def unexpected(span: Span, kind: str, expected: set[str]) -> ParseError:
    """A token that cannot stand where it stands."""
    before, brackets = tokens_before(span.source, span.start)
    text = "" if kind == "$END" else _clip(span.text)
    scene = Scene(span, text, kind, frozenset(expected), before, brackets)
    for rule in RULES:
        answer = rule(scene)
        if answer is not None:
            break
    else:
        answer = _expected(scene)
    return ParseError(
        Diagnostic(answer.message, answer.span or span, ParseError.code, answer.notes, answer.help)
    )


def _error(span: Span, message: str, help: str | None = None) -> ParseError:
    return ParseError(Diagnostic(message, span, ParseError.code, help=help))


# ---------------------------------------------------------------- where no rule fits


def _expected(scene: Scene) -> Answer:
    found = f"`{scene.text}`" if scene.text else "the end of the text"
    example = _example(scene)
    return Answer(
        f"expected {_describe(scene.expected)}, found {found}",
        f"write for example `{example}`" if example else None,
    )


def _example(scene: Scene) -> str | None:
    """An example of the item that the token interrupts: the one its line begins with."""
    line = scene.line()
    if not line and scene.before:  # the item stands on the line above
        start = scene.span.source.text.rfind("\n", 0, scene.before[-1].start) + 1
        line = [s.text for s in scene.before if s.start >= start]
    if not line or not scene.before:
        return None
    match scene.block():
        case "schedule" | "recipe":
            used = next((word for word in reversed(line) if word in EXAMPLES), line[0])
            return EXAMPLES.get(used)
        case "graph" if line[0] == "out":
            return "out y = relu(x)"
    return ITEM_EXAMPLES.get(line[0])


def _describe(expected: frozenset[str]) -> str:
    left, out = set(expected), []
    if "NUMBER" in left:
        out.append("an expression")
        left -= OPERAND
    elif "NAME" in left and "let" in left:
        out.append("an equation, a declaration")
        left -= {"NAME", "align", "range", "strides", *RESERVED}
    elif "NAME" in left:
        out.append("a name")
    if left >= {"split", "tile"}:
        out.append("a directive")
        left -= set(DIRECTIVES)
    if left >= {"kernel", "schedule"}:
        out.append("an item such as `kernel`")
        left -= {*FILE_ITEMS, "const"}
    if "*" in left:
        out.append("an operator")
        left -= {*OPERATORS, ".", "[", "(", "="}
    left -= {"NAME", "TYPED_NAME", "STRING"}
    if left == {"$END"} and not out:
        return "the end of the text"
    left -= {"$END"}
    out += [f"`{word}`" for word in sorted(left)]
    return " or ".join([", ".join(out[:-1]), out[-1]] if len(out) > 1 else out)
