"""Words for messages: lists, closest names, the source of an expression."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches

from tdsl.diagnostics import Diagnostic, Error, IllegalSchedule, Note, Span


def listing(names: Iterable[str], joint: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    items = list(names)
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {joint} {items[-1]}"


def closest(name: str, candidates: Iterable[str], kind: str) -> str:
    """A help line: the names that are alike, else all there are."""
    known = list(dict.fromkeys(candidates))
    alike = get_close_matches(name, known, n=3, cutoff=0.6)
    if alike:
        return f"did you mean {listing(alike, 'or')}?"
    if known:
        return f"the {kind} are {listing(known)}"
    return f"there are no {kind}"


def refusal(
    span: Span | None,
    message: str,
    *notes: Note,
    help: str | None = None,
    via: Sequence[Span] = (),
) -> IllegalSchedule:
    """An `IllegalSchedule`; `via` are the uses of recipes that led here, outermost first."""
    trail = tuple(Note("in the recipe used here", use) for use in reversed(via))
    return IllegalSchedule(Diagnostic(message, span, IllegalSchedule.code, notes + trail, help))


def with_via(error: Error, via: Sequence[Span]) -> Error:
    """The same refusal with the uses of recipes that led to it."""
    if not via:
        return error
    trail = tuple(Note("in the recipe used here", use) for use in reversed(via))
    first, *rest = error.diagnostics
    first = replace(first, notes=first.notes + trail)
    if isinstance(error, IllegalSchedule):
        return IllegalSchedule(first, *rest, violations=error.violations)
    return type(error)(first, *rest)
