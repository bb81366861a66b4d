"""THE PIPELINE: from a parsed file to C, pass by pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace

from tdsl.codegen.module import CModule, emit_module
from tdsl.diagnostics import BudgetExceeded, Diagnostic, Error, IllegalSchedule, Note
from tdsl.ir.dtypes import storage_dtype
from tdsl.ir.index import conjuncts
from tdsl.ir.kernel import Array, Const, Expr, Kernel
from tdsl.ir.laid_out import layout_text
from tdsl.ir.steps import written_strides
from tdsl.ir.vector import Function
from tdsl.ir.verify_kernel import verify_kernel
from tdsl.lower.check_instances import check_instances
from tdsl.lower.layouts import with_layouts
from tdsl.lower.lower import Lowered, lower
from tdsl.lower.storage import Stored, store
from tdsl.polyhedral import budget, dependences, fresh, model, proofs, validate, valueflow
from tdsl.polyhedral.assume import assuming, under
from tdsl.polyhedral.inits import with_inits
from tdsl.polyhedral.program import Dependence, Program
from tdsl.polyhedral.rebuild import Miscompiled
from tdsl.runtime.interface import Argument, BuildRequest, Entry, PreparedFunctions
from tdsl.schedule import apply, builder, scratch
from tdsl.schedule.choose import choose, size_lets
from tdsl.schedule.conditions import size_condition
from tdsl.schedule.resolve import Resolved, offered, resolve
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
    condition: Expr | None = None  # of the sizes for which the variant runs; None: all
    undecided: tuple[surface.Schedule, ...] = ()
    resolved: Resolved = Resolved(())
    scheduled: Scheduled = None  # type: ignore[assignment]
    stored: Stored = None  # type: ignore[assignment]
    lowered: Lowered = None  # type: ignore[assignment]
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def interface(self) -> Kernel:
        """The kernel as its callers see it: with the arguments that the schedule lays out."""
        made = {} if self.lowered is None else self.lowered.program.arrays
        arrays = (
            made[a.name] if a.name in made and made[a.name].layout is not None else a
            for a in self.kernel.arrays
        )
        return replace(self.kernel, arrays=tuple(arrays))

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


def _assume(c: Compilation) -> Compilation:
    """A variant that is named runs for all sizes; else those are left that its `when` allows."""
    if c.options.schedule is not None or c.variant is None or c.variant.condition is None:
        return c
    lets = size_lets(c.file, c.kernel.name)
    condition = size_condition(c.variant.condition, c.kernel, c.options.target, lets)
    if isinstance(condition, Const):
        return c
    program = assuming(c.program, conjuncts(condition))
    known = c.dependences if program is c.program else under(program, c.dependences)
    return replace(c, condition=condition, program=program, dependences=known)


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
    stored = store(
        s.program, s.tree, s.stages, s.computed, s.private, lanes=bool(c.options.target.widths),
        streams=s.streams, prefetches=s.prefetches,
    )  # fmt: skip
    return replace(c, stored=stored)


def _plan(c: Compilation) -> Compilation:
    lets = size_lets(c.file, c.kernel.name)
    known = () if c.condition is None else (c.condition,)
    scratch.check(c.stored.program, c.stored.of_threads, c.resolved.steps, known, lets)
    return c


def _lay_out(c: Compilation) -> Compilation:
    return replace(c, stored=with_layouts(c.stored, c.scheduled.layouts))


def _flow(c: Compilation) -> Compilation:
    """Where a placement made statements or moved arrays: every read still gets its value."""
    s = c.scheduled
    if s.base is None and c.stored.program is s.program:
        return c
    base, tree = s.base or (s.program, s.tree)
    try:
        valueflow.check(
            base,
            with_inits(base, tree),
            c.stored.program,
            c.stored.tree,
            s.reassociate,
            private=c.stored.private,
            strict_fp=c.options.strict_fp,
        )
    except valueflow.FlowChanged as error:
        raise Miscompiled(str(error)) from None
    return c


def _lower(c: Compilation) -> Compilation:
    text = print_directives(c.resolved.directives) if c.resolved.steps else ""
    head = f"schedule {c.label or 'none: the order of the program'} for {c.options.target.name}"
    notes = (head, *text.splitlines())
    lowered = lower(
        c.stored,
        c.options.target,
        strict_fp=c.options.strict_fp,
        notes=notes,
        reassociate=c.scheduled.reassociate,
    )

    def named(function: Function) -> Function:
        return replace(
            function,
            assumptions=c.kernel.assumptions,  # those of the condition are the dispatch's affair
            variant=c.label,
            condition=c.condition,
        )

    folded = None if lowered.folded is None else named(lowered.folded)
    return replace(c, lowered=replace(lowered, function=named(lowered.function), folded=folded))


def _validate(c: Compilation) -> Compilation:
    program, lowered = c.lowered.program, c.lowered
    # Copies of stages are statements of a new program, whose order is the tree's.
    if program is c.scheduled.program:
        known = c.scheduled.dependences
    else:
        known = dependences.compute(program, lowered.tree)
        for array, homes in c.stored.private.items():
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
    ("assumed", _assume),  # the affine part of its condition serves all proofs below
    ("directives", _resolve),  # expressions become integers: only those reach the tree
    ("tree", _schedule),  # each directive checked, then applied
    ("storage", _store),  # the last thing that can refuse a schedule: copies, registers
    ("plan", _plan),  # what the schedule expects of the workspace
    ("flow", _flow),  # copies and new places against the program before them, while it is one
    ("layouts", _lay_out),  # above, arguments are indexed as the program does
    ("vector", _lower),  # loops, copies, lanes; verified at its end
    ("validated", _validate),  # all that was lowered, against the program: before any C
)


_NAMES = [name for name, _ in PIPELINE]
ABOVE_VARIANTS = frozenset(_NAMES[: _NAMES.index("variant") + 1])
"""Passes whose results all variants of a kernel share."""


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
    start = _NAMES.index("assumed")
    chosen = replace(compilation, options=options, variant=variant)
    return _through(PIPELINE[start:], chosen, until)


def complete(front: Compilation, *, until: str = "validated") -> tuple[Compilation, ...]:
    """All variants that the sizes of a call may choose, in their order, after `front` came to the
    choice. A knob goes to the variants that have it."""
    picks = (*front.undecided, front.variant)
    if len(picks) == 1:
        return (resume(front, front.options, front.variant, until=until),)
    knobs = front.options.knobs
    known = [_offered(front, variant) if knobs else frozenset() for variant in picks]
    every = frozenset().union(*known)
    parts = []
    for variant, mine in zip(picks, known, strict=True):
        given = {name: v for name, v in knobs.items() if name in mine or name not in every}
        try:
            parts.append(resume(front, replace(front.options, knobs=given), variant, until=until))
        except Error as error:
            raise _in_variant(error, front.kernel.name, variant) from None
    _check_interfaces(parts)
    return tuple(parts)


def _check_interfaces(parts: Sequence[Compilation]) -> None:
    """Variants of one entry take their arguments alike: a layout of one is that of all."""
    if any(part.lowered is None for part in parts):
        return
    first = parts[0]
    for part in parts[1:]:
        pairs = zip(first.lowered.function.arguments, part.lowered.function.arguments, strict=True)
        for a, b in pairs:
            if a != b:
                labels = [
                    f"the schedule {p.label}" if p.label else "its own order" for p in (first, part)
                ]
                raise IllegalSchedule.at(
                    None,
                    f"{labels[0]} of {first.kernel.name} lays {a.name} out in another way than "
                    f"{labels[1]}, and one function takes it for both",
                    help="give all variants the same layout, name one of them, or bind the sizes "
                    "that their conditions ask about",
                )


def _offered(front: Compilation, variant: surface.Schedule | None) -> frozenset[str]:
    directives = () if variant is None else variant.directives
    recipes = {i.name: i for i in front.file.items if isinstance(i, surface.Recipe)}
    lets = size_lets(front.file, front.kernel.name)
    return frozenset(offered(directives, front.options.target, front.kernel, recipes, lets))


def _in_variant(error: Error, kernel: str, variant: surface.Schedule | None) -> Error:
    """Says which of several variants is refused."""
    label = "the program's own order"
    if variant is not None:
        label = f"the schedule {variant.variant or kernel}"
    note = Note(f"in {label}, which the sizes of a call to {kernel} may choose")
    told = tuple(replace(d, notes=(*d.notes, note)) for d in error.diagnostics)
    if isinstance(error, IllegalSchedule):
        return IllegalSchedule(*told, violations=error.violations)
    return type(error)(*told)


def _through(passes: Sequence[Pass], compilation: Compilation, until: str) -> Compilation:
    try:
        with budget.compilation():
            for name, step in passes:
                compilation = step(compilation)
                if name == until:
                    break
    except BudgetExceeded as error:
        raise _placed(error, compilation) from None
    return compilation


def _placed(error: BudgetExceeded, compilation: Compilation) -> BudgetExceeded:
    """A question that no directive asks is one of the schedule as a whole, or of the kernel."""
    variant = compilation.variant
    if variant is not None and compilation.resolved.steps:
        return error.within(variant.span, "bind sizes, or leave out some of its directives")
    kernels = (i for i in compilation.file.items if isinstance(i, surface.Kernel))
    name = compilation.options.kernel
    return error.within(next((k.name_span for k in kernels if k.name == name), None))


def emit(name: str, parts: Sequence[Compilation], *, prefix: str = "") -> CModule:
    """One C file and header for kernels that were compiled for one target."""
    return emit_module(
        name,
        [p.lowered.final for p in parts],
        parts[0].options.target,
        prefix=prefix,
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


def probe(target: Target) -> BuildRequest:
    """A request for nothing: which compiler there is for a target."""
    return build_request(CModule("probe", "", "", "", ()), target)


def argument(array: Array, *, by_value: bool = False) -> Argument:
    """An argument as the runtime sees it."""
    written = written_strides(array) or ()
    return Argument(
        array.name,
        array.type.name,
        len(array.grouped),
        array.role,
        by_value,
        array.align,
        array.strides is not None,
        tuple(n for n, s in enumerate(written) if isinstance(s, str)),
        storage_dtype(array.type) if array.type.fields else None,
        layout_text(array),
    )


def entries(module: CModule, parts: Sequence[Compilation]) -> tuple[Entry, ...]:
    """The C functions as the runtime calls them, one a kernel."""
    kernels = {p.kernel.name: p.interface for p in parts}
    return tuple(
        Entry(
            f.name,
            f.c_name,
            f.sizes,
            tuple(
                argument(kernels[f.name].array(a.name), by_value=a.by_value) for a in f.arguments
            ),
            kernels[f.name].bound,
            None,
            f.workspace_bytes,
            f.variant,
            prepared=None if f.prepared is None else PreparedFunctions(*astuple(f.prepared)),
        )
        for f in module.functions
    )  # fmt: skip
