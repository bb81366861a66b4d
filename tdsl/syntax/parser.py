"""Text to surface tree.

    parse("def relu(v) = max(v, 0.0)")  ->  File((Def("relu", ("v",), Call("max", ...)),))

Everything that is wrong with a text is a `ParseError` at the token where it shows.
"""

from __future__ import annotations

from typing import Any

from lark import Token, Tree
from lark.exceptions import UnexpectedToken

from tdsl.diagnostics import ParseError, Source, Span
from tdsl.schedule.directives import Directive
from tdsl.syntax import build, build_kernel, build_schedule, messages, tables
from tdsl.syntax.lexer import StrayText, acceptable
from tdsl.syntax.tree import Expr, File

MAX_CHARACTERS = 1_000_000

_HANDLERS = {**build.HANDLERS, **build_kernel.HANDLERS, **build_schedule.HANDLERS}


def parse(text: str, name: str = "<text>") -> File:
    """The tree of a `.tdsl` file; `name` is what messages call the text."""
    file = _parse(text, name, "file")
    assert isinstance(file, File)
    return file


def parse_directives(text: str, name: str = "<text>") -> tuple[Directive, ...]:
    """The directives of a schedule's body, without its braces."""
    directives: tuple[Directive, ...] = _parse(text, name, "directives")
    return directives


def parse_expr(text: str, name: str = "<text>") -> Expr:
    """One expression, or a list of values as in a table."""
    expr: Expr = _parse(text, name, "expression")
    return expr


def _parse(text: str, name: str, start: str) -> Any:
    source = Source(name, text)
    if len(text) > MAX_CHARACTERS:
        raise ParseError.at(
            None, f"{name} has {len(text)} characters; at most {MAX_CHARACTERS} are read"
        )
    try:
        root: Tree[Token] = tables.parser().parse(text, start=start)
    except StrayText as stray:
        raise messages.stray(source, stray.offset, stray.text) from None
    except UnexpectedToken as error:
        token = error.token
        offset = len(text.rstrip()) if token.type == "$END" else token.start_pos
        end = offset if token.type == "$END" else token.end_pos
        expected = {_spelling(name) for name in acceptable(error.state)}
        raise messages.unexpected(
            Span(source, offset or 0, end or 0), token.type, expected
        ) from None
    return build.build(source, root, _HANDLERS)


def _spelling(terminal: str) -> str:
    """A keyword or sign as it is written; NAME, NUMBER and such stay what they are."""
    return tables.spellings().get(terminal, terminal)
