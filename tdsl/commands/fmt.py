"""`tdsl fmt`: the one layout of a file, its comments and meaning kept."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from tdsl.commands.options import WrongUse, read
from tdsl.runtime.files import write_atomically
from tdsl.syntax.formatter import format_file


@click.command("fmt")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where a file would change.")
def command(files: tuple[str, ...], check: bool) -> int:
    """Rewrite each FILE in canonical layout; `-` formats standard input to standard output."""
    if "-" in files and len(files) > 1:
        raise WrongUse("`-` stands alone")
    # All are read and formatted before the first is written: one that does not parse stops all.
    texts = [read(file) for file in files]
    formatted = [format_file(text, name) for name, text in texts]
    changed = [(name, new) for (name, old), new in zip(texts, formatted, strict=True) if old != new]
    if check:
        for name, _ in changed:
            click.echo(f"would reformat {name}")
        return 1 if changed else 0
    if files == ("-",):
        sys.stdout.flush()
        sys.stdout.buffer.write(formatted[0].encode())
        return 0
    for name, new in changed:
        # A link stays a link, and the file keeps its mode.
        path = Path(name).resolve()
        mode = path.stat().st_mode
        write_atomically(path, new)
        os.chmod(path, mode)
        click.echo(f"reformatted {name}")
    return 0
