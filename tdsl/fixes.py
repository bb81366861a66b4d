"""`tdsl check --fix`: directives that make refused ones legal are written into the text.

Each fix was checked when it was suggested, and the whole file is checked again after each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tdsl.checking import Report, check_text
from tdsl.diagnostics import Diagnostic, Fix
from tdsl.targets import Target

MOST = 32  # fixes of one file


@dataclass(frozen=True)
class Fixed:
    """The text with what was inserted, and what is left to say about it."""

    text: str
    report: Report
    inserted: tuple[str, ...] = ()


def fixed(
    text: str,
    name: str,
    constants: Mapping[str, int | float | str] | None = None,
    sizes: Mapping[str, int] | None = None,
    on: Target | None = None,
) -> Fixed:
    """One fix after the other, as long as each makes what is wrong go away. `on`: the one target
    that is asked about."""
    report = check_text(text, name, constants, sizes, on)
    inserted: list[str] = []
    left = MOST
    while left and (fix := _first(report.diagnostics, text)) is not None:
        left -= 1
        new = with_lines(text, fix)
        again = check_text(new, name, constants, sizes, on)
        if again.errors >= report.errors and _later(again, fix, len(new) - len(text)) is False:
            break
        text, report = new, again
        inserted += fix.lines
    return Fixed(text, report, tuple(inserted))


def _first(diagnostics: list[Diagnostic], text: str) -> Fix | None:
    found = [d.fix for d in diagnostics if d.fix is not None]
    return next((f for f in found if f.at.source.text == text), None)


def _later(report: Report, fix: Fix, grown: int) -> bool:
    """Whether the directive itself is no longer refused: what is wrong now comes behind it."""
    own = [d for d in report.diagnostics if d.span is not None and d.severity == "error"]
    return all(d.span is None or d.span.start > fix.at.start + grown for d in own)


def with_lines(text: str, fix: Fix) -> str:
    """The lines before the directive, as far to the right as it."""
    start = text.rfind("\n", 0, fix.at.start) + 1
    before = text[start : fix.at.start]
    end = "\r\n" if "\r\n" in text else "\n"
    pad = before if not before.strip() else " " * (len(before) - len(before.lstrip()) + 4)
    lines = f"{end}{pad}".join(fix.lines)
    return f"{text[: fix.at.start]}{lines}{end}{pad}{text[fix.at.start :]}"
