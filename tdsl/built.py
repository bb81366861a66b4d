"""From a compilation to something that can be called, on this machine or under an emulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tdsl import contracts, driver
from tdsl.diagnostics import Diagnostic, Note, ToolchainError, UnsupportedTarget
from tdsl.ir.arguments import ArgumentPlan
from tdsl.ir.kernel import Kernel
from tdsl.runtime.build import assembly, load
from tdsl.runtime.callable import CompiledKernel
from tdsl.runtime.emulate import EmulatedKernel, build_program
from tdsl.runtime.interface import BuildRequest, Entry
from tdsl.runtime.toolchain import find_emulator, is_host
from tdsl.schedule.builder import Schedule
from tdsl.schedule.choose import variants
from tdsl.syntax import tree
from tdsl.syntax.formatter import print_file
from tdsl.targets import runnable


class GeneratedKernel:
    """C for a machine that is neither here nor emulated: it can be read, not called."""

    def __init__(self, entry: Entry, request: BuildRequest, reason: str, schedule: str) -> None:
        self.entry = entry
        self.request = request
        self.reason = reason
        self.schedule = schedule

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def c_source(self) -> str:
        """The generated C."""
        return self.request.c_source

    @property
    def header(self) -> str:
        """The generated header."""
        return self.request.header

    @property
    def assembly(self) -> str:
        """The cross compiler's assembly text, where there is one."""
        return assembly(self.request)

    @property
    def library_path(self) -> str:
        """There is none: raises UnsupportedTarget."""
        raise self._refusal()

    @property
    def layouts(self) -> Mapping[str, str]:
        """For each argument with a `layout` where its elements are, as the schedule says it."""
        return {a.name: a.layout for a in self.entry.arguments if a.layout}

    def workspace_bytes(self, *_: int, **__: int) -> int:
        """The C would have to run: raises UnsupportedTarget."""
        raise self._refusal()

    def variant(self, *_: int, **__: int) -> str:
        """The C would have to run: raises UnsupportedTarget."""
        raise self._refusal()

    def prepared_bytes(self, *_: int, **__: int) -> int:
        """The C would have to run: raises UnsupportedTarget."""
        raise self._refusal()

    def prepare(self, **_: Any) -> GeneratedKernel:
        """The C would have to run: raises UnsupportedTarget."""
        raise self._refusal()

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise self._refusal()

    def _refusal(self) -> Exception:
        return UnsupportedTarget.at(
            None,
            f"{self.name} cannot run here: {self.reason}",
            help="compile for the target native",
        )

    def __repr__(self) -> str:
        return f"<kernel {self.name}, C alone: {self.reason}>"


Built = CompiledKernel | EmulatedKernel | GeneratedKernel


def build(parts: Sequence[driver.Compilation], name: str) -> Built:
    """Compile the C of one kernel and load it, or wrap it for the emulator. `parts`: the variants
    that the sizes of a call choose from; `name` is that of the C files."""
    first = parts[0]
    target = first.options.target
    module = driver.emit(name, parts)
    request = driver.build_request(module, target)
    contracts.check(parts, module, request)
    (entry,) = driver.entries(module, parts)
    plan, text = ArgumentPlan(first.interface), schedule_text(parts)
    reason = runnable(target)
    if reason is None:
        return CompiledKernel(entry, plan, load(request), schedule=text)
    if is_host(request.machine):
        return GeneratedKernel(entry, request, reason, text)
    try:
        find_emulator(request.machine)
    except ToolchainError as missing:
        why = f"{reason}, and {missing.diagnostics[0].message}"
        return GeneratedKernel(entry, request, why, text)
    return EmulatedKernel(entry, plan, build_program(request, [entry]), schedule=text)


def unchecked(parts: Sequence[driver.Compilation]) -> tuple[Diagnostic, ...]:
    """The warning that no compiler can tell whether what a schedule expects of its code holds."""
    return contracts.unchecked(parts, driver.probe(parts[0].options.target))


def schedule_text(parts: Sequence[driver.Compilation]) -> str:
    """The schedules that run, with integers, ready to paste; "" for the program's own order. Where
    sizes choose, each with its condition, in the order in which they are tried."""
    blocks = []
    for part in parts:
        asked = part.options.schedule
        chosen = asked if isinstance(asked, Schedule) else part.variant
        if chosen is not None:
            condition = None
            if part.condition is not None and part.variant is not None:
                condition = part.variant.condition
            blocks.append(
                tree.Schedule(
                    part.kernel.name,
                    chosen.variant,
                    (part.options.target.name,),
                    condition,
                    part.resolved.directives,
                )
            )
    return print_file(tree.File(tuple(blocks))).rstrip("\n") if blocks else ""


def messages(compilation: driver.Compilation) -> tuple[Diagnostic, ...]:
    """The warnings of a compilation, and that no schedule runs where none does."""
    if compilation.options.schedule is not None or compilation.variant is not None:
        return compilation.warnings
    name, target = compilation.kernel.name, compilation.options.target.name
    notes: tuple[Note, ...] = ()
    if compilation.undecided:
        waiting = ", ".join(s.variant or s.kernel for s in compilation.undecided)
        notes = (Note(f"for some sizes {waiting} may hold"),)
        message = f"no schedule of {name} holds for every size: else its own order runs"
    elif not variants(compilation.file, name):
        message = f"{name} has no schedule: the program's own order runs"
    else:
        message = f"no schedule of {name} holds for {target}: the program's own order runs"
    said = Diagnostic(message, None, "schedule", notes, severity="warning")
    return (*compilation.warnings, said)


def plain_entry(kernel: Kernel) -> Entry:
    """The kernel as its callers see it, before there is C: for the checks of arguments."""
    arguments = tuple(map(driver.argument, kernel.arguments))
    return Entry(kernel.name, "", kernel.sizes, arguments, kernel.bound)
