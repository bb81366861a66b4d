"""Words, numbers and signs of a text, as tokens for the parser.

A word is a keyword only where the parser can take that keyword next; elsewhere it is a name.
Lark's own contextual lexer asks the LALR table, in which merged states take too much (`tile`
behind an equation would be a directive); this one follows the pending reductions on the stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lark import Token
from lark.common import LexerConf
from lark.lexer import Lexer

# Words that stand where a name can stand too, hence never names.
RESERVED = frozenset(
    "let assume in out inout const temp for static where and or not".split()  # noqa: SIM905
)
# Behind a declaration these may be a modifier or the array of the next equation.
_MODIFIERS = frozenset(("strides", "align", "range"))
_EQUATION_FOLLOWS = re.compile(r"\s*(?:[:,=]|[-+*]=|min=|max=)")
_SUBSCRIPT_FOLLOWS = re.compile(r"\s*\[")

# Signs of other languages, longer than ours: matched so that they are not taken apart.
_FOREIGN = ("&&", "||", "**", "++", "--", ":=", "::", "=>", "===", "/*", "...", "<>", "%%")

SKIP = re.compile(r"(?:[ \t\r\n\f\ufeff]+|#[^\n]*)+")


class StrayText(Exception):
    """Characters at `offset` begin no token."""

    def __init__(self, offset: int, text: str) -> None:
        super().__init__(text)
        self.offset = offset
        self.text = text


class TdslLexer(Lexer):
    """Matches words whole and signs longest first, both as the grammar file lists them."""

    __future_interface__ = 2

    def __init__(self, conf: LexerConf) -> None:
        strings = {t.pattern.value: t.name for t in conf.terminals if t.pattern.type == "str"}
        patterns = {t.name: t.pattern.value for t in conf.terminals if t.pattern.type == "re"}
        self._keywords = {s: name for s, name in strings.items() if s.isidentifier()}
        self._signs = {s: name for s, name in strings.items() if not s.isidentifier()}
        signs = sorted({*self._signs, *_FOREIGN}, key=len, reverse=True)
        typed, name = patterns.pop("TYPED_NAME"), patterns.pop("NAME")
        groups = {"TYPED_NAME": typed, "UPDATE": r"(?:min|max)=(?!=)", "NAME": name, **patterns}
        parts = [f"(?P<{key}>{value})" for key, value in groups.items()]
        parts.append("(?P<SIGN>" + "|".join(map(re.escape, signs)) + ")")
        self._scan = re.compile("|".join(parts))
        self._name = re.compile(f"(?P<NAME>{name})")

    def lex(self, lexer_state: Any, parser_state: Any) -> Iterator[Token]:
        text: str = getattr(
            lexer_state.text, "text", lexer_state.text
        )  # a TextSlice in newer larks
        position = 0
        while True:
            if skipped := SKIP.match(text, position):
                position = skipped.end()
            if position == len(text):
                return
            match = self._scan.match(text, position)
            if match is None:
                raise StrayText(position, text[position])
            if match.lastgroup == "TYPED_NAME" and not accepts(parser_state, "TYPED_NAME"):
                match = self._name.match(text, position) or match  # as in `kernel f<T>(N)`
            kind, value, end = str(match.lastgroup), match.group(), match.end()
            if kind in ("NAME", "TYPED_NAME") and self._is_stray(text, end):
                raise StrayText(end, text[end])  # else the part before it would be called wrong
            if kind == "NAME" and value in self._keywords:
                kind = self._word(value, text, end, parser_state)
            elif kind in ("SIGN", "UPDATE"):
                if value not in self._signs:
                    raise StrayText(position, value)
                kind = self._signs[value]
            yield Token(kind, value, start_pos=position, end_pos=end)
            position = end

    def _is_stray(self, text: str, position: int) -> bool:
        """Whether the character there begins no token."""
        if position == len(text) or SKIP.match(text, position):
            return False
        return self._scan.match(text, position) is None

    def _word(self, word: str, text: str, end: int, parser_state: Any) -> str:
        keyword = self._keywords[word]
        if word in RESERVED:
            return keyword
        if word in _MODIFIERS and _EQUATION_FOLLOWS.match(text, end):
            return "NAME"
        if word in _MODIFIERS and word != "strides" and _SUBSCRIPT_FOLLOWS.match(text, end):
            return "NAME"
        return keyword if accepts(parser_state, keyword) else "NAME"


def accepts(parser_state: Any, terminal: str) -> bool:
    """Can the parser take this terminal next, after the reductions it asks for?"""
    states = parser_state.parse_conf.states
    stack = parser_state.state_stack
    above: list[Any] = []
    kept = len(stack)  # the stack is stack[:kept] + above
    while True:
        top = above[-1] if above else stack[kept - 1]
        action = states[top].get(terminal)
        if action is None:
            return False
        rule = action[1]
        if isinstance(rule, int):
            return True
        size = len(rule.expansion)
        pops = min(size, len(above))
        if pops:
            del above[-pops:]
        kept -= size - pops
        top = above[-1] if above else stack[kept - 1]
        target = states[top][rule.origin.name][1]
        if terminal == "$END" and target == parser_state.parse_conf.end_state:
            return True
        above.append(target)


def acceptable(parser_state: Any) -> set[str]:
    """The terminals that the parser can take next."""
    row = parser_state.parse_conf.states[parser_state.position]
    return {t for t in row if (t.isupper() or t == "$END") and accepts(parser_state, t)}
