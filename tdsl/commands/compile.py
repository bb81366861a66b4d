"""`tdsl compile`: C, a header, and what a C compiler makes of them."""

from __future__ import annotations

import re
from pathlib import Path

import click

from tdsl import contracts, driver
from tdsl.commands import console
from tdsl.commands.options import WrongUse, compiled, described, request, shared, warn
from tdsl.runtime.emit import KINDS, emit


@click.command("compile")
@shared
@click.option("-o", "folder", metavar="DIR", default="build", show_default=True,
              help="Where the files go.")  # fmt: skip
@click.option("--emit", "kinds", metavar="KINDS", default="c,h", show_default=True,
              help="Which files: any of c, h, o, so, asm, with commas.")  # fmt: skip
@click.option("--prefix", metavar="P", default="", help="Leads the name of each C function.")
def command(
    file: str,
    kernel: str | None,
    schedule: str | None,
    target: str,
    sizes: tuple[str, ...],
    constants: tuple[str, ...],
    strict_fp: bool,
    folder: str,
    kinds: str,
    prefix: str,
) -> None:
    """Compile the kernels of FILE into one C file and its header, named after it."""
    wanted = _kinds(kinds)
    if not re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]{0,99})?", prefix):
        raise WrongUse(f"--prefix {prefix}: not the start of a C name")
    destination = _folder(folder)
    asked = request(file, kernel, schedule, target, sizes, constants, strict_fp)
    parts = compiled(asked)
    for part in parts:
        warn(part)
    variants = [v for part in parts for v in part]
    module = driver.emit(asked.module, variants, prefix=prefix)
    build = driver.build_request(module, asked.target)
    console.show(contracts.unchecked(variants, build))
    with console.progress(f"compiling the C of {asked.name}"):
        contracts.check(variants, module, build)
        paths = emit(build, destination, wanted)
    for part in parts:
        click.echo(f"{part[0].kernel.name}: {described(part)}, for {asked.target.name}")
    for path in paths:
        click.echo(f"wrote {path}")


def _kinds(text: str) -> list[str]:
    kinds = [k.strip() for k in text.split(",") if k.strip()]
    for kind in kinds:
        if kind not in KINDS:
            raise WrongUse(
                f"--emit {text}: there is no output {kind!r}", f"any of {', '.join(KINDS)}"
            )
    if not kinds:
        raise WrongUse("--emit: expected at least one kind", f"any of {', '.join(KINDS)}")
    return list(dict.fromkeys(kinds))


def _folder(name: str) -> Path:
    path = Path(name)
    if path.exists() and not path.is_dir():
        raise WrongUse(f"-o {name}: this is a file, and a folder is wanted")
    return path
