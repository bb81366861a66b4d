"""What the language has and this version does not compile yet: one sentence each.

`refuse(feature, span)` is the only way in which elaboration says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from tdsl.diagnostics import ParseError, Span


@dataclass(frozen=True)
class Later:
    """`what` says what is not compiled yet, `instead` what can be written today."""

    what: str
    instead: str | None = None


LATER: dict[str, Later] = {
    "graph": Later(
        "a `graph` connects named operators, and only single kernels are compiled so far",
        "write the stages as definitions of one kernel",
    ),
    "select": Later(
        "a `select` block picks a kernel for an operator of a graph, and graphs are not compiled "
        "yet",
        "a kernel's schedules with `when` are tried in the order of the file",
    ),
}


def refuse(feature: str, span: Span | None) -> ParseError:
    """The error for a feature of the table; the caller raises it."""
    entry = LATER[feature]
    error = ParseError.at(span, entry.what, help=entry.instead)
    assert isinstance(error, ParseError)
    return error
