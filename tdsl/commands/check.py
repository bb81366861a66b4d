"""`tdsl check`: is the file right? Nothing of it is executed.

The form of --json, in which fields are added but none changes its meaning:

    {"version": 1, "file": ..., "ok": ..., "errors": n, "warnings": n,
     "kernels": [{"name": ..., "ok": ..., "schedules": [{"name", "target", "ok"}]}],
     "diagnostics": [{"severity", "code", "message", "file", "line", "column", "help",
                      "notes": [{"message", "file", "line", "column"}]}]}
"""

from __future__ import annotations

import json

import click

from tdsl import fixes
from tdsl.checking import check_text
from tdsl.commands import console
from tdsl.commands.options import WrongUse, pairs, read, sizes_of, target_of


@click.command("check")
@click.argument("file", metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@click.option(
    "--fix",
    is_flag=True,
    help="Write the directives into FILE that make refused ones legal, where such are known.",
)
@click.option(
    "--untrusted",
    is_flag=True,
    help="Say that the file is a stranger's. Nothing of a file is ever executed by `check`, "
    "with this option or without.",
)
@click.option("--target", metavar="T",
              help="For this target alone, and lowered for it up to C: this says what only the "
              "lowering shows, and takes as long.")  # fmt: skip
@click.option("--size", "sizes", metavar="N=64", multiple=True, help="Bind a size. Repeated.")
@click.option("--const", "constants", metavar="C=1", multiple=True,
              help="A constant, where the default is not meant. Repeated.")  # fmt: skip
def command(
    file: str,
    as_json: bool,
    fix: bool,
    untrusted: bool,
    target: str | None,
    sizes: tuple[str, ...],
    constants: tuple[str, ...],
) -> int:
    """Parse FILE, prove types and bounds, and check every schedule for every target it names."""
    values, bound = pairs(constants, "--const", "pad=1"), sizes_of(sizes)
    on = None if target is None else target_of(target)
    name, text = read(file)
    with console.progress(f"checking {name}"):
        done = fixes.fixed(text, name, values, bound, on) if fix else None
        report = check_text(text, name, values, bound, on) if done is None else done.report
    if done is not None:
        _write(file, text, done)
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        console.show(report.diagnostics)
        click.echo(report.summary())
    return 0 if report.ok else 1


def _write(file: str, text: str, done: fixes.Fixed) -> None:
    """The file with what was inserted; what was done goes to standard error."""
    if done.text != text:
        if file == "-":
            raise WrongUse("--fix writes into a file, and this is standard input")
        with open(file, "w", encoding="utf-8", newline="") as out:
            out.write(done.text)
    for line in done.inserted:
        click.echo(f"inserted: {line}", err=True)
    if not done.inserted:
        click.echo("nothing was fixed: no directive is known that would help", err=True)
