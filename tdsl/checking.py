"""`tdsl check`: everything that can be said about a file without running anything of it.

Syntax, names and types, bounds and coverage, and for every schedule and every target that it names
the legality of each directive. All that is wrong is collected, not only the first of it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tdsl import driver
from tdsl.diagnostics import Diagnostic, Error, ParseError, Span, UnsupportedTarget
from tdsl.imports import linked
from tdsl.schedule.choose import holds, size_lets, unreachable, variants
from tdsl.schedule.target import serves
from tdsl.syntax import tree
from tdsl.syntax.check import check_file, kernels
from tdsl.syntax.parser import parse
from tdsl.targets import TARGETS, Target, target

JSON_VERSION = 1


@dataclass(frozen=True)
class ScheduleCheck:
    """One schedule for one target."""

    schedule: str
    target: str
    ok: bool


@dataclass(frozen=True)
class KernelCheck:
    name: str
    ok: bool  # types, bounds and coverage
    schedules: tuple[ScheduleCheck, ...] = ()


@dataclass
class Report:
    """What is known of one file. `error` is the class of the first error."""

    name: str
    kernels: list[KernelCheck] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    error: type[Error] | None = None
    _seen: set[Diagnostic] = field(default_factory=set, repr=False)

    @property
    def ok(self) -> bool:
        return not self.errors

    @property
    def errors(self) -> int:
        return sum(d.severity == "error" for d in self.diagnostics)

    @property
    def warnings(self) -> int:
        return len(self.diagnostics) - self.errors

    def add(self, *diagnostics: Diagnostic) -> None:
        """Told once: several kernels and targets may find the same."""
        for diagnostic in diagnostics:
            if diagnostic not in self._seen:
                self._seen.add(diagnostic)
                self.diagnostics.append(diagnostic)

    def refuse(self, error: Error) -> None:
        self.error = self.error or type(error)
        self.add(*error.diagnostics)

    def raise_errors(self) -> None:
        """All errors as one exception."""
        found = [d for d in self.diagnostics if d.severity == "error"]
        if found:
            assert self.error is not None
            raise self.error(*found)

    def as_json(self) -> dict[str, Any]:
        """The stable form of `tdsl check --json`."""
        return {
            "version": JSON_VERSION,
            "file": self.name,
            "ok": self.ok,
            "errors": self.errors,
            "warnings": self.warnings,
            "kernels": [
                {
                    "name": k.name,
                    "ok": k.ok and all(s.ok for s in k.schedules),
                    "schedules": [
                        {"name": s.schedule, "target": s.target, "ok": s.ok} for s in k.schedules
                    ],
                }
                for k in self.kernels
            ],
            "diagnostics": [d.as_json() for d in self.diagnostics],
        }

    def summary(self) -> str:
        """One line: what was looked at, and what came of it."""
        checks = [s for k in self.kernels for s in k.schedules]
        names = {(k.name, s.schedule) for k in self.kernels for s in k.schedules}
        looked = _count(len(self.kernels), "kernel")
        if checks:
            looked += f", {_count(len(names), 'schedule')} ({_count(len(checks), 'target check')})"
        found = [_count(self.errors, "error")] if self.errors else []
        found += [_count(self.warnings, "warning")] if self.warnings else []
        return f"{self.name}: {looked}: {', '.join(found) or 'ok'}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def check_text(
    text: str,
    name: str,
    constants: Mapping[str, int | float | str] | None = None,
    sizes: Mapping[str, int] | None = None,
    on: Target | None = None,
) -> Report:
    """Everything about a file. A constant or size counts for the kernels that have it.

    `on`: the one target that schedules are checked for. They are then lowered for it too, up to
    C, since some of what can refuse them is only known there.
    """
    report = Report(name)
    try:
        file = linked(parse(text, name), name)
    except Error as error:
        report.refuse(error)
        return report
    try:
        check_items(file)
    except Error as error:
        report.refuse(error)
        if not all(_is_local(file, d) for d in error.diagnostics):
            return report  # a def or a type that all share: the kernels would only repeat it
    for item in file.items:
        if isinstance(item, tree.Kernel):
            mine = {p.name for p in item.constants}
            options = driver.Options(
                item.name,
                TARGETS["c"],
                {n: v for n, v in (sizes or {}).items() if n in item.sizes},
                {n: v for n, v in (constants or {}).items() if n in mine},
            )
            report.kernels.append(_kernel(file, options, report, on))
    return report


def _is_local(file: tree.File, diagnostic: Diagnostic) -> bool:
    """Whether it stands in a kernel or a schedule, which the others do not see."""
    place = diagnostic.span
    own = [i.span for i in file.items if isinstance(i, tree.Kernel | tree.Schedule)]
    return place is not None and any(
        span is not None and span.source is place.source and span.start <= place.start < span.end
        for span in own
    )


def check_items(file: tree.File) -> None:
    """Raise for what is wrong with the file's items, whichever kernel is compiled: names, and the
    kernels and targets that schedules name."""
    problems: list[Diagnostic] = []
    error: type[Error] = ParseError
    try:
        check_file(file)
    except Error as found:
        problems += found.diagnostics
        error = type(found)
    problems += _schedule_heads(file)
    if problems:
        raise error(*problems)


def _schedule_heads(file: tree.File) -> Iterator[Diagnostic]:
    known = kernels(file)
    for item in file.items:
        if not isinstance(item, tree.Schedule):
            continue
        if item.kernel not in known:
            close = difflib.get_close_matches(item.kernel, known, n=1)
            yield Diagnostic(
                f"there is no kernel `{item.kernel}` in this file",
                head_of(item),
                ParseError.code,
                help=f"did you mean `{close[0]}`?"
                if close
                else f"its kernels are {', '.join(known) or 'none'}",
            )
        for name in item.targets:
            if name != "any":
                try:
                    target(name)
                except UnsupportedTarget as unknown:
                    yield from (replace(d, span=head_of(item)) for d in unknown.diagnostics)


def head_of(schedule: tree.Schedule) -> Span | None:
    """A schedule's first line: all of it would underline a page."""
    span = schedule.span
    brace = -1 if span is None else span.text.find("{")
    if span is None or brace < 1:
        return span
    return Span(span.source, span.start, span.start + len(span.text[:brace].rstrip()))


def _kernel(
    file: tree.File, options: driver.Options, report: Report, on: Target | None
) -> KernelCheck:
    name = options.kernel
    try:
        front = driver.run(file, options, until="dependences")
    except Error as error:
        report.refuse(error)
        return KernelCheck(name, False)
    report.add(*kernel_warnings(front))
    every = variants(file, name)
    report.add(*unreachable(every))
    checks: list[ScheduleCheck] = []
    for schedule in every:
        checks += _schedule(front, schedule, report, on)
    return KernelCheck(name, True, tuple(checks))


def kernel_warnings(compilation: driver.Compilation) -> tuple[Diagnostic, ...]:
    """What elaboration found odd, at the kernel's name."""
    span = next(
        i.name_span
        for i in compilation.file.items
        if isinstance(i, tree.Kernel) and i.name == compilation.kernel.name
    )
    return tuple(
        Diagnostic(text, span, "kernel", severity="warning") for text in compilation.kernel.warnings
    )


def _named(schedule: tree.Schedule) -> Iterator[tuple[str, Target | None]]:
    """The targets that a schedule is for; None stands for one that is unknown."""
    # The widest first: what is said of it says most.
    every = sorted(TARGETS, key=lambda name: -TARGETS[name].vector_bytes)
    names = [n for t in schedule.targets for n in (every if t == "any" else (t,))]
    for name in dict.fromkeys(names):
        try:
            yield name, target(name)
        except UnsupportedTarget:  # told with the head of the schedule
            yield name, None


def _targets(
    front: driver.Compilation,
    schedule: tree.Schedule,
    candidates: Iterable[tuple[str, Target | None]],
    report: Report,
) -> list[tuple[str, Target | None]]:
    """The candidates that a schedule's condition does not rule out; all of them where it rules out
    all, since it may be taken by name. None stands for one whose condition is wrong, too."""
    lets = size_lets(front.file, front.kernel.name)
    found: list[tuple[str, Target | None]] = []
    excluded: list[tuple[str, Target | None]] = []
    for name, on in candidates:
        if on is None:
            found.append((name, None))
            continue
        try:
            possible = holds(schedule.condition, front.kernel, {}, on, lets) is not False
        except Error as error:
            report.refuse(error)
            found.append((name, None))
        else:
            (found if possible else excluded).append((name, on))
    return found or excluded


def _schedule(
    front: driver.Compilation, schedule: tree.Schedule, report: Report, only: Target | None
) -> Iterator[ScheduleCheck]:
    label = schedule.variant or schedule.kernel
    told: set[tuple[Span | None, str]] = set()
    candidates = _named(schedule)
    if only is not None:
        candidates = iter([(only.name, only)] * any(serves(only, t) for t in schedule.targets))
    for name, on in _targets(front, schedule, candidates, report):
        if on is None:
            yield ScheduleCheck(label, name, False)
            continue
        try:
            options = replace(front.options, target=on)
            until = "plan" if only is None else "validated"
            made = driver.resume(front, options, schedule, until=until)
        except Error as error:
            # What is wrong at one place is wrong there for other targets too, in other numbers.
            new = [d for d in error.diagnostics if (d.span, d.code) not in told]
            told |= {(d.span, d.code) for d in new}
            if new:
                report.refuse(type(error)(*new))
            yield ScheduleCheck(label, name, False)
        else:
            report.add(*made.warnings)
            yield ScheduleCheck(label, name, True)
