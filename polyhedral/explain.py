"""A violation in words: the two iterations, what joins them, and what would help."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tdsl.diagnostics import BudgetExceeded, Diagnostic, IllegalSchedule, Note, Span
from tdsl.polyhedral.program import Program, Violation, Witness
from tdsl.polyhedral.text import element_text, instance_text, sizes_text

Candidate = tuple[str, Callable[[], bool]]  # a directive's text, and whether it makes it legal


def describe_violation(
    program: Program,
    violation: Violation,
    *,
    directive: str | None = None,
    span: Span | None = None,
    help: str | None = None,
) -> Diagnostic:
    """error: `reorder j, i` would run S(i=1, j=0) before S(i=0, j=1), which must run first.

    directive: its text; span: where it stands; help: a directive that makes it legal.
    """
    subject = "this order" if directive is None else f"`{directive}`"
    pair = violation.witness
    at = f", with {sizes_text(pair.sizes)}" if pair is not None and pair.sizes else ""
    return Diagnostic(
        f"{subject} {_effect(program, violation)}{at}",
        span,
        IllegalSchedule.code,
        (*_dependence_notes(program, violation),),
        help,
    )


def first_that_works(candidates: Iterable[Candidate]) -> str | None:
    """The first suggestion that holds when it is checked; undecided counts as no."""
    for text, makes_legal in candidates:
        try:
            if makes_legal():
                return text
        except BudgetExceeded:
            continue
    return None


def _effect(program: Program, violation: Violation) -> str:
    source, sink = _ends(program, violation, violation.witness)
    match violation.kind:
        case "parallel":
            return f"would run {source} and {sink} at the same time"
        case "vector":
            return f"would run {source} and {sink} in lanes of one vector"
        case "once" if violation.witness is None:
            return f"does not run {source} exactly once"
        case "once" if source == sink:
            return f"gives {source} no place"
        case "once":
            return f"gives {source} and {sink} the same place"
        case _:
            return f"would run {sink} before {source}, which must run first"


def _ends(program: Program, violation: Violation, pair: Witness | None) -> tuple[str, str]:
    if pair is None:
        return violation.source, violation.sink
    source = program.statements[violation.source]
    sink = program.statements[violation.sink]
    return (
        instance_text(source.name, source.indices, pair.source),
        instance_text(sink.name, sink.indices, pair.sink),
    )


def _dependence_notes(program: Program, violation: Violation) -> tuple[Note, ...]:
    dependence = violation.dependence
    if dependence is None:
        return ()
    pair = violation.witness
    shared = dependence.array
    if pair is not None and pair.element is not None:
        shared = element_text(dependence.array, pair.element)
    first, second = _verbs(program, violation)
    source, sink = _ends(program, violation, pair)
    what = "reduction" if dependence.relaxable else f"{dependence.kind} dependence"
    return (
        Note(f"{what} through {shared}: {source} {first} it", dependence.source_span),
        Note(f"and then {sink} {second} it", dependence.sink_span),
    )


def _verbs(program: Program, violation: Violation) -> tuple[str, str]:
    dependence = violation.dependence
    assert dependence is not None
    source = program.statements[dependence.source]
    sink = program.statements[dependence.sink]
    if dependence.relaxable is not None:
        return "updates", "updates"
    match dependence.kind:
        case "flow":
            own = sink.is_update and sink.write.array == dependence.array
            reads = any(a.array == dependence.array for a in sink.reads)
            return "writes", "updates" if own and not reads else "reads"
        case "anti":
            return "reads", "overwrites"
        case _:
            return ("updates" if source.is_update else "writes"), "overwrites"
