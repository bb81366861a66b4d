"""From a compilation to something that can be called, on this machine or under an emulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import RLock
from typing import Any

from tdsl import driver
from tdsl.diagnostics import Diagnostic, Note, ToolchainError, UnsupportedTarget
from tdsl.ir.arguments import ArgumentPlan
from tdsl.ir.kernel import Kernel
from tdsl.runtime.arguments import Checker
from tdsl.runtime.build import assembly, load
from tdsl.runtime.callable import CompiledKernel
from tdsl.runtime.emulate import EmulatedKernel, build_program
from tdsl.runtime.interface import BuildRequest, Entry
from tdsl.runtime.toolchain import find_emulator, is_host
from tdsl.schedule.builder import Schedule
from tdsl.schedule.choose import choose
from tdsl.syntax import tree
from tdsl.syntax.formatter import print_file
from tdsl.targets import runnable

REMEMBERED = 256  # shapes of calls, and then they are forgotten


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

    def workspace_bytes(self, *_: int, **__: int) -> int:
        """The C would have to run: raises UnsupportedTarget."""
        raise self._refusal()

    def variant(self, *_: int, **__: int) -> str:
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


def build(compilation: driver.Compilation, name: str) -> Built:
    """Compile the C of one kernel and load it, or wrap it for the emulator. `name` is that of the
    C files."""
    target = compilation.options.target
    module = driver.emit(name, [compilation])
    request = driver.build_request(module, target)
    (entry,) = driver.entries(module, [compilation])
    plan, text = ArgumentPlan(compilation.kernel), schedule_text(compilation)
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


def schedule_text(compilation: driver.Compilation) -> str:
    """The schedule that runs, with integers, ready to paste; "" for the program's own order."""
    asked = compilation.options.schedule
    chosen = asked if isinstance(asked, Schedule) else compilation.variant
    if chosen is None:
        return ""
    block = tree.Schedule(
        compilation.kernel.name,
        chosen.variant,
        (compilation.options.target.name,),
        None,
        compilation.resolved.directives,
    )
    return print_file(tree.File((block,))).rstrip("\n")


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
    else:
        message = f"no schedule of {name} holds for {target}: the program's own order runs"
    said = Diagnostic(message, None, "schedule", notes, severity="warning")
    return (*compilation.warnings, said)


def plain_entry(kernel: Kernel) -> Entry:
    """The kernel as its callers see it, before there is C: for the checks of arguments."""
    arguments = tuple(map(driver.argument, kernel.arguments))
    return Entry(kernel.name, "", kernel.sizes, arguments, kernel.bound)


class DispatchingKernel:
    """A kernel whose schedule the sizes of each call choose; called like a `CompiledKernel`.

    A variant is compiled when it is first needed and kept. The texts (`c_source`, `schedule`, ...)
    are those of the variant that runs where no condition holds; `for_sizes` gives the others.
    """

    def __init__(
        self,
        front: driver.Compilation,
        name: str,
        report: Callable[[Diagnostic], None] | None = None,
    ) -> None:
        self._front = front
        self._module = name
        self._report = report
        self._plan = ArgumentPlan(front.kernel)
        self.entry = plain_entry(front.kernel)
        self._checker = Checker(self.entry, self._plan)
        self._names = tuple(a.name for a in self.entry.arguments)
        self._built: dict[int | None, Built] = {}
        self._known: dict[tuple[Any, ...], Built] = {}
        self._lock = RLock()

    @property
    def name(self) -> str:
        return self.entry.name

    def for_sizes(self, *sizes: int, **named: int) -> Built:
        """The compiled variant that a call with these sizes runs."""
        return self._select(self._checker.sizes(sizes, named))

    def variant(self, *sizes: int, **named: int) -> str:
        """Name of the schedule that a call with these sizes runs."""
        chosen = self._choose(self._checker.sizes(sizes, named))
        return "" if chosen is None else chosen.variant or chosen.kernel

    def workspace_bytes(self, *sizes: int, **named: int) -> int:
        """Bytes of scratch memory that a call with these sizes uses."""
        return self.for_sizes(*sizes, **named).workspace_bytes(*sizes, **named)

    @property
    def c_source(self) -> str:
        """The generated C of the variant without a condition."""
        return self._default.c_source

    @property
    def header(self) -> str:
        """Its header."""
        return self._default.header

    @property
    def assembly(self) -> str:
        """Its assembly text."""
        return self._default.assembly

    @property
    def library_path(self) -> str:
        """Its library, in the cache."""
        return self._default.library_path

    @property
    def schedule(self) -> str:
        """Its schedule."""
        return str(self._default.schedule)

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self._names)}), its schedule chosen by sizes>"

    def __call__(self, *positional: Any, **keywords: Any) -> Any:
        named = {**dict(zip(self._names, positional, strict=False)), **keywords}
        strided = self.entry.strided
        key = tuple(
            (
                n,
                v
                if type(v) is int and n in self._checker.size_names
                else (getattr(v, "shape", None), strided and getattr(v, "strides", None)),
            )
            for n, v in named.items()
        )
        built = self._known.get(key)
        if built is None:
            built = self._select(self._checker.bind(positional, keywords).sizes)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[key] = built
        return built(*positional, **keywords)

    # ------------------------------------------------------------ variants

    @property
    def _default(self) -> Built:
        return self._compiled(self._front.variant)

    def _select(self, sizes: tuple[int, ...]) -> Built:
        return self._compiled(self._choose(sizes))

    def _choose(self, values: tuple[int, ...]) -> tree.Schedule | None:
        sizes: Mapping[str, int] = dict(zip(self.entry.sizes, values, strict=True))
        front = self._front
        return choose(front.file, front.kernel, front.options.target, sizes).schedule

    def _compiled(self, variant: tree.Schedule | None) -> Built:
        key = None if variant is None else id(variant)  # the file's own object, which it keeps
        with self._lock:
            if key not in self._built:
                made = driver.resume(self._front, self._front.options, variant)
                for warning in made.scheduled.warnings:
                    if self._report is not None:
                        self._report(warning)
                self._built[key] = build(made, self._module)
            return self._built[key]
