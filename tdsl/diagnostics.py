"""Where things stand in a source file, what is wrong with them, and how that is told.

Every error that a user can cause is an `Error` with a `Diagnostic`; anything else that
escapes is a defect of the compiler.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Source:
    """One text with the name that messages show for it."""

    name: str
    text: str = field(repr=False)

    def line_column(self, offset: int) -> tuple[int, int]:
        """1-based line and column of a character offset."""
        before = self.text[:offset]
        return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1

    def line(self, number: int) -> str:
        """Text of the 1-based line `number`, without its newline."""
        lines = self.text.split("\n")
        return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""


@dataclass(frozen=True)
class Span:
    """Characters `start` to `end` (exclusive) of a source."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        return self.source.line_column(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.line_column(self.start)[1]

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """From the start of this to the end of `other`."""
        return Span(self.source, min(self.start, other.start), max(self.end, other.end))


@dataclass(frozen=True)
class Note:
    """A further place or fact: the other access, the witness, what was expected."""

    message: str
    span: Span | None = None


@dataclass(frozen=True)
class Fix:
    """Lines of their own, checked, that make it right when they stand before `at`."""

    at: Span
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Diagnostic:
    """One message: what is wrong (`message`), where, why (`notes`), what to do (`help`)."""

    message: str
    span: Span | None = None
    code: str = "error"  # a stable word for --json: "syntax", "name", "type", "bounds", ...
    notes: tuple[Note, ...] = ()
    help: str | None = None
    severity: str = "error"  # or "warning"
    fix: Fix | None = field(default=None, compare=False)

    def as_json(self) -> dict[str, Any]:
        """The stable form of `--json`."""
        return {
            "severity": self.severity,
            "code": self.code,
            "message": self.message,
            **_place(self.span),
            "notes": [{"message": n.message, **_place(n.span)} for n in self.notes],
            "help": self.help,
        }


def _place(span: Span | None) -> dict[str, Any]:
    if span is None:
        return {"file": None, "line": None, "column": None}
    return {"file": span.source.name, "line": span.line, "column": span.column}


class Error(Exception):
    """A program, schedule or call was refused. `diagnostics` says why."""

    code = "error"

    def __init__(self, *diagnostics: Diagnostic) -> None:
        self.diagnostics = diagnostics
        super().__init__("\n".join(render(d) for d in diagnostics))

    @classmethod
    def at(cls, span: Span | None, message: str, *notes: Note, help: str | None = None) -> Error:
        """An error of this class with one diagnostic."""
        return cls(Diagnostic(message, span, cls.code, notes, help))


class ParseError(Error):
    """The text is not of the language, or a name or number in it is not allowed."""

    code = "syntax"


class TypeMismatch(Error):
    """Element types or ranks do not fit."""

    code = "type"


class BoundsError(Error):
    """An access can leave its array, or an element is missed, written twice or never written."""

    code = "bounds"


class IllegalSchedule(Error):
    """A directive would change what the kernel computes, or names what is not there."""

    code = "schedule"

    def __init__(
        self,
        *diagnostics: Diagnostic,
        violations: tuple[Any, ...] = (),
        earlier: bool = False,
        instead: Any = None,
    ) -> None:
        """earlier, instead: what the help names is to be tried out before it is said: the same
        directive before others, or another directive."""
        super().__init__(*diagnostics)
        self.violations = violations
        self.earlier = earlier
        self.instead = instead


class UnsupportedTarget(Error):
    """The target lacks an instruction, a feature or a type that the kernel needs."""

    code = "target"


class ToolchainError(Error):
    """A compiler, linker or emulator is missing or failed; its output is in the notes."""

    code = "toolchain"


class BudgetExceeded(Error):
    """A proof or a compilation was stopped at its budget: undecided, hence refused."""

    code = "budget"

    def within(self, span: Span | None, help: str | None = None) -> BudgetExceeded:
        """The same at the place whose question it was, where no nearer one is known."""
        told = (
            d if d.span is not None else replace(d, span=span, help=help or d.help)
            for d in self.diagnostics
        )
        return BudgetExceeded(*told)


def render(diagnostic: Diagnostic) -> str:
    """Plain text in the form of modern compilers: place, source line, caret, notes, help."""
    out = [f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}"]
    if diagnostic.span is not None:
        out += _excerpt(diagnostic.span)
    for note in diagnostic.notes:
        out.append(f"note: {note.message}")
        if note.span is not None:
            out += _excerpt(note.span)
    if diagnostic.help is not None:
        out.append(f"help: {diagnostic.help}")
    return "\n".join(out)


# A line is shown whole up to this length, else in part.
_LONG_LINE = 200


def _excerpt(span: Span) -> list[str]:
    line, column = span.source.line_column(span.start)
    text = span.source.line(line)
    width = max(1, min(span.end - span.start, len(text) - column + 1))
    before = text[: column - 1]
    if len(text) > _LONG_LINE:
        cut = max(0, column - _LONG_LINE // 2)
        before = ("..." if cut else "") + before[cut:]
        shown = before + text[column - 1 : cut + _LONG_LINE]
        width = max(1, min(width, len(shown) - len(before)))
        text = shown + ("..." if cut + _LONG_LINE < len(text) else "")
    margin = " " * len(str(line))
    # Tabs stay tabs in the caret line, so that the caret stands under its character.
    pad = "".join("\t" if c == "\t" else " " for c in before)
    return [
        f"{margin}--> {span.source.name}:{line}:{column}",
        f"{margin} |",
        f"{line} | {text}",
        f"{margin} | {pad}{'^' * width}",
    ]
