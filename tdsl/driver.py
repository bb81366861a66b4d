"""THE PIPELINE: from a parsed file to C, pass by pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tdsl.codegen.module import CModule, emit_module
from tdsl.diagnostics import Diagnostic
from tdsl.ir.kernel import Kernel
from tdsl.ir.verify_kernel import verify_kernel
from tdsl.lower.check_instances import check_instances
from tdsl.lower.lower import Lowered, lower
from tdsl.lower.storage import Stored, store
from tdsl.polyhedral import dependences, fresh, model, proofs, validate
from tdsl.polyhedral.program import Dependence, Program
from tdsl.runtime.interface import Argument, BuildRequest, Entry
from tdsl.schedule import apply, builder
from tdsl.schedule.choose import choose, size_lets
from tdsl.schedule.resolve import Resolved, resolve
from tdsl.schedule.state import Scheduled
from tdsl.syntax import tree as surface
from tdsl.syntax.elaborate import elaborate
from tdsl.syntax.print_directive import print_directives
from tdsl.targets.target import Target, compile_flags, machine


@dataclass(frozen=True)
class Options:
    """What a person asks of one kernel. `schedule`: a variant's name, a `builder.Schedule`, or
    None to take the first whose target and condition hold."""

    kernel: str
    target: Target
    sizes: Mapping[str, int] = field(default_factory=dict)
    constants: Mapping[str, int | float | str] = field(default_factory=dict)
    schedule: str | builder.Schedule | None = None
    knobs: Mapping[str, int] = field(default_factory=dict)
    strict_fp: bool = False


@dataclass(frozen=True)
class Compilation:
    """One kernel on its way; each pass fills in what it makes."""

    file: surface.File
    options: Options
    kernel: Kernel = None  # type: ignore[assignment]  # made by the first pass
    program: Program = None  # type: ignore[assignment]
    dependences: tuple[Dependence, ...] = ()
    variant: surface.Schedule | None = None
    undecided: tuple[surface.Schedule, ...] = ()
    resolved: Resolved = Resolved(())
    scheduled: Scheduled = None  # type: ignore[assignment]
    stored: Stored = None  # type: ignore[assignment]
    lowered: Lowered = None  # type: ignore[assignment]
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def label(self) -> str:
        """The name of the schedule that runs; "" is the program's own order."""
        if isinstance(self.options.schedule, builder.Schedule):
            return self.options.schedule.variant or self.kernel.name
        return "" if self.variant is None else self.variant.variant or self.kernel.name


def _elaborate(c: Compilation) -> Compilation:
    kernel = elaborate(c.file, c.options.kernel, c.options.constants, c.options.sizes)
    verify_kernel(kernel)
    return replace(c, kernel=kernel)


def _model(c: Compilation) -> Compilation:
    return replace(c, program=model.build(c.kernel))


def _prove(c: Compilation) -> Compilation:
    proofs.prove(c.program)
    return c


def _dependences(c: Compilation) -> Compilation:
    return replace(c, dependences=dependences.compute(c.program))


def _choose(c: Compilation) -> Compilation:
    if isinstance(c.options.schedule, builder.Schedule):
        return c
    choice = choose(c.file, c.kernel, c.options.target, {}, c.options.schedule)
    warnings = (*c.warnings, *choice.warnings)
    return replace(c, variant=choice.schedule, undecided=choice.undecided, warnings=warnings)


def _resolve(c: Compilation) -> Compilation:
    chosen = c.options.schedule
    if isinstance(chosen, builder.Schedule):
        directives = chosen.directives
    else:
        directives = () if c.variant is None else c.variant.directives
    recipes = {i.name: i for i in c.file.items if isinstance(i, surface.Recipe)}
    lets = size_lets(c.file, c.kernel.name)
    resolved = resolve(
        directives, c.options.target, c.kernel, recipes, c.options.knobs, c.options.strict_fp, lets
    )
    return replace(c, resolved=resolved)


def _schedule(c: Compilation) -> Compilation:
    scheduled = apply.schedule(
        c.program,
        c.resolved,
        c.options.target,
        strict_fp=c.options.strict_fp,
        known=c.dependences,
    )
    return replace(c, scheduled=scheduled, warnings=(*c.warnings, *scheduled.warnings))


def _store(c: Compilation) -> Compilation:
    s = c.scheduled
    stored = store(s.program, s.tree, s.stages, lanes=bool(c.options.target.widths))
    return replace(c, stored=stored)


def _lower(c: Compilation) -> Compilation:
    text = print_directives(c.resolved.directives) if c.resolved.steps else ""
    head = f"schedule {c.label or 'none: the order of the program'} for {c.options.target.name}"
    notes = (head, *text.splitlines())
    lowered = lower(c.stored, c.options.target, strict_fp=c.options.strict_fp, notes=notes)
    return replace(c, lowered=lowered)


def _validate(c: Compilation) -> Compilation:
    program, lowered = c.lowered.program, c.lowered
    # Copies of stages are statements of a new program, whose order is the tree's.
    if program is c.scheduled.program:
        known = c.scheduled.dependences
    else:
        known = dependences.compute(program, lowered.tree)
        copies = program.arrays.keys() - c.scheduled.program.arrays.keys()
        threads = {a: fresh.thread_homes(program, lowered.tree, a) for a in sorted(copies)}
        for array, homes in {**c.scheduled.private, **threads}.items():
            known = fresh.only_private(known, lowered.tree, array, homes)
    order = validate.Order(known, c.scheduled.reassociate, c.options.strict_fp)
    validate.validate(program, lowered.loops, order)
    validate.validate_versions(program, lowered.loops, lowered.versions)
    check_instances(program, lowered, order)
    return c


Pass = tuple[str, Callable[[Compilation], Compilation]]

PIPELINE: tuple[Pass, ...] = (
    ("kernel", _elaborate),  # names, types and ranges: nothing below knows the spelling
    ("program", _model),  # instances and accesses as isl objects
    ("proofs", _prove),  # before any schedule: they are about the program alone
    ("dependences", _dependences),  # of the program's own order, once for all directives
    ("variant", _choose),  # needs bound sizes and the target
    ("directives", _resolve),  # expressions become integers: only those reach the tree
    ("tree", _schedule),  # each directive checked, then applied
    ("storage", _store),  # the last thing that can refuse a schedule: copies, registers
    ("vector", _lower),  # loops, copies, lanes; verified at its end
    ("validated", _validate),  # all that was lowered, against the program: before any C
)


def run(file: surface.File, options: Options, *, until: str = "validated") -> Compilation:
    """All passes up to the one named. Raises tdsl.Error where the program is refused."""
    return _through(PIPELINE, Compilation(file, options), until)


def resume(
    compilation: Compilation,
    options: Options,
    variant: surface.Schedule | None,
    *,
    until: str = "validated",
) -> Compilation:
    """The passes below the choice of a variant, for this one. What is above does not depend on the
    target or the schedule, so that one model serves all variants of a kernel."""
    start = [name for name, _ in PIPELINE].index("directives")
    chosen = replace(compilation, options=options, variant=variant)
    return _through(PIPELINE[start:], chosen, until)


def _through(passes: Sequence[Pass], compilation: Compilation, until: str) -> Compilation:
    for name, step in passes:
        compilation = step(compilation)
        if name == until:
            break
    return compilation


def emit(name: str, parts: Sequence[Compilation], *, prefix: str = "") -> CModule:
    """One C file and header for kernels that were compiled for one target."""
    return emit_module(
        name,
        [p.lowered.function for p in parts],
        parts[0].options.target,
        prefix=prefix,
        variants={p.kernel.name: p.label for p in parts},
    )


def build_request(module: CModule, target: Target) -> BuildRequest:
    """How the runtime is to compile a module."""
    wanted = {"neon": "aarch64", "x86": "x86_64"}.get(target.family, machine())
    foreign = wanted if machine() != wanted else None
    return BuildRequest(
        module.name,
        module.c_source,
        module.header,
        module.cdef,
        flags=compile_flags(target),
        openmp="#pragma omp" in module.c_source,
        features=tuple(sorted(target.features)),
        machine=foreign,
        compilers=target.compilers if foreign == "aarch64" else (),
    )


def entries(module: CModule, parts: Sequence[Compilation]) -> tuple[Entry, ...]:
    """The C functions as the runtime calls them, one a kernel."""
    kernels = {p.kernel.name: p.kernel for p in parts}
    return tuple(
        Entry(
            f.name,
            f.c_name,
            f.sizes,
            tuple(
                Argument(
                    a.name, kernels[f.name].array(a.name).type.name, a.rank, a.role, a.by_value,
                    kernels[f.name].array(a.name).align,
                )
                for a in f.arguments
            ),
            kernels[f.name].bound,
            None,
            f.workspace_bytes,
            f.variant,
        )
        for f in module.functions
    )  # fmt: skip
