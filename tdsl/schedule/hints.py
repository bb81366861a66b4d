"""Words for messages: lists, closest names, the source of an expression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from tdsl.diagnostics import Diagnostic, Error, IllegalSchedule, Note, Span
from tdsl.schedule.directives import Directive


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
    earlier: bool = False,
    instead: Directive | None = None,
) -> IllegalSchedule:
    """An `IllegalSchedule`; `via` are the uses of recipes that led here, outermost first. earlier,
    instead: what the help names, the directive before others or another one; it is tried out."""
    trail = tuple(Note("in the recipe used here", use) for use in reversed(via))
    diagnostic = Diagnostic(message, span, IllegalSchedule.code, notes + trail, help)
    return IllegalSchedule(diagnostic, earlier=earlier, instead=instead)


def without_help(error: IllegalSchedule) -> IllegalSchedule:
    """The same refusal where what would have helped does not."""
    first, *rest = error.diagnostics
    return IllegalSchedule(replace(first, help=None), *rest, violations=error.violations)


def with_names(error: IllegalSchedule, names: Mapping[str, str]) -> IllegalSchedule:
    """The same refusal; what would help takes other names of loops in the directives behind it."""
    first, *rest = error.diagnostics
    if names and first.help is not None:
        written = listing(f"{new} for {old}" for old, new in names.items())
        first = replace(first, help=f"{first.help}, and write {written} behind it")
    return IllegalSchedule(first, *rest, violations=error.violations)


def with_via(error: Error, via: Sequence[Span]) -> Error:
    """The same refusal with the uses of recipes that led to it."""
    if not via:
        return error
    trail = tuple(Note("in the recipe used here", use) for use in reversed(via))
    first, *rest = error.diagnostics
    first = replace(first, notes=first.notes + trail)
    if isinstance(error, IllegalSchedule):
        return IllegalSchedule(
            first, *rest, violations=error.violations, earlier=error.earlier, instead=error.instead
        )
    return type(error)(first, *rest)
