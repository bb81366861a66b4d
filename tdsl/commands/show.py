"""`tdsl show`: a kernel at one level of the compiler, in text."""

from __future__ import annotations

from collections.abc import Callable

import click

from tdsl import driver
from tdsl.commands import console
from tdsl.commands.options import Request, Variants, WrongUse, compiled, request, shared, warn
from tdsl.ir.print_loops import print_loops
from tdsl.ir.print_vector import print_function
from tdsl.ir.printer import print_kernel
from tdsl.listing import Listing
from tdsl.polyhedral.printer import print_program
from tdsl.runtime.build import assembly
from tdsl.schedule.apply import apply, begin
from tdsl.schedule.printer import print_tree
from tdsl.syntax.print_directive import print_directive


def _program(part: driver.Compilation) -> str:
    return print_program(part.program, part.dependences)


def _tree(part: driver.Compilation) -> str:
    return print_tree(part.scheduled.program, part.scheduled.tree)


# Stage, the last pass it needs, and its text.
STAGES: dict[str, tuple[str, Callable[[driver.Compilation], str]]] = {
    "kernel": ("kernel", lambda part: print_kernel(part.kernel)),
    "program": ("dependences", _program),
    "tree": ("tree", _tree),
    "loops": ("vector", lambda part: print_loops(part.lowered.loops)),
    "vector": ("vector", lambda part: print_function(part.lowered.final)),
}
FILES = ("c", "asm")


@click.command("show")
@shared
@click.option(
    "--stage",
    type=click.Choice((*STAGES, *FILES)),
    required=True,
    help="The level: what follows from the text, down to the machine's instructions.",
)
@click.option("--after", metavar="N", type=click.IntRange(min=0),
              help="With --stage tree: the nest after the N-th directive, recipes written out; "
              "works up to a directive that is refused.")  # fmt: skip
def command(
    file: str,
    kernel: str | None,
    schedule: str | None,
    target: str,
    sizes: tuple[str, ...],
    constants: tuple[str, ...],
    strict_fp: bool,
    stage: str,
    after: int | None,
) -> None:
    """Print the kernels of FILE as one level of the compiler sees them."""
    if after is not None and stage != "tree":
        raise WrongUse("--after goes with --stage tree")
    asked = request(file, kernel, schedule, target, sizes, constants, strict_fp)
    if after is not None:
        parts = compiled(asked, until="directives")
        _print(asked, parts, lambda part: _after(part, after))
    elif stage in STAGES:
        until, text = STAGES[stage]
        _print(asked, compiled(asked, until=until), text)
    else:
        _file(asked, stage)


def _print(
    asked: Request, kernels: list[Variants], text: Callable[[driver.Compilation], str]
) -> None:
    parts = [(part, len(variants) > 1) for variants in kernels for part in variants]
    for number, (part, several) in enumerate(parts):
        if len(parts) > 1:
            name = part.kernel.name
            if several:
                name += f", {part.label or 'its own order'}"
            click.echo(f"{chr(10) if number else ''}# {name}")
        click.echo(console.harmless(text(part)), nl=False)


def _after(part: driver.Compilation, count: int) -> str:
    """The tree after the first directives, of a schedule that need not be complete or legal."""
    steps = part.resolved.steps
    if count > len(steps):
        raise WrongUse(
            f"--after {count}: the schedule of {part.kernel.name} has {len(steps)} directives"
        )
    options = part.options
    state = begin(
        part.program, options.target.lanes, strict_fp=options.strict_fp, known=part.dependences
    )
    for step in steps[:count]:
        state = apply(state, step)
    last = f": {print_directive(steps[count - 1].written)}" if count else ""
    return f"# after {count} of {len(steps)}{last}\n{print_tree(state.program, state.tree)}"


def _file(asked: Request, stage: str) -> None:
    parts = compiled(asked)
    for part in parts:
        warn(part)
    module = driver.emit(asked.module, [v for part in parts for v in part])
    if stage == "c":
        click.echo(module.c_source, nl=False)
        return
    with console.progress(f"compiling the C of {asked.name}"):
        text = assembly(driver.build_request(module, asked.target), marked=True)
    sign = "//" if driver.probe(asked.target).machine == "aarch64" else "#"
    for row in Listing.of(module, text).annotated(text, sign):
        click.echo(row)
