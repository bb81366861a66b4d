"""The command line: finds a command, runs it, and turns what went wrong into an exit status.

    0  done                            2    wrong use: options, files, arguments
    1  the program was refused         3    the C toolchain failed
    70 a defect of the compiler        130  interrupted        141  nobody reads the output

Diagnostics go to standard error.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

import click

from tdsl.commands import console
from tdsl.diagnostics import Error, ToolchainError

# What --help says of each, since their modules bring the whole compiler.
COMMANDS = {
    "compile": "Compile kernels to C and a header, and further.",
    "run": "Compile a kernel, run it on arrays, and check the result.",
    "check": "Prove types, bounds, and the legality of every schedule.",
    "show": "Print a kernel at one level of the compiler.",
    "bench": "Time the schedules of kernels against each other and against peers.",
    "fmt": "Rewrite files in the canonical layout.",
    "targets": "List what there is to compile for, and what runs here.",
}
DONE, REFUSED, WRONG_USE, TOOLCHAIN, DEFECT, INTERRUPTED, CLOSED = 0, 1, 2, 3, 70, 130, 141


class _OutputClosed(Exception):
    """Whoever read standard output has gone."""


class _Commands(click.Group):
    """Loads the module of a command when it is asked for: `tdsl --version` needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(f"tdsl.commands.{cmd_name}"), "command", None)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click would make it a failure
            raise _OutputClosed from None


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="tdsl", prog_name="tdsl", message="%(prog)s %(version)s")
@click.pass_context
def tdsl(context: click.Context) -> None:
    """Compile tensor kernels: what is computed, and apart from it how it runs.

    Exit status: 0 done, 1 the program was refused, 2 wrong use, 3 the C toolchain failed.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(WRONG_USE)


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point of `tdsl`."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """One command line; the exit status."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its number instead of a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warned
            status = tdsl.main(arguments, prog_name="tdsl", standalone_mode=False)
        sys.stdout.flush()
    except (_OutputClosed, BrokenPipeError):
        _forget_output()
        return CLOSED
    except click.exceptions.Exit as done:
        return done.exit_code
    except (KeyboardInterrupt, click.Abort):
        return _failed("interrupted", INTERRUPTED)
    except click.ClickException as error:
        return _wrong_use(error)
    except OSError as error:
        place = f"{error.filename}: " if error.filename is not None else ""
        return _failed(f"error: {place}{error.strerror or error}", WRONG_USE)
    except MemoryError as error:
        return _failed(f"error: not enough memory{f': {error}' if str(error) else ''}", WRONG_USE)
    except Error as error:
        console.show(error.diagnostics)
        return TOOLCHAIN if isinstance(error, ToolchainError) else REFUSED
    except Exception as error:
        return _defect(error)
    return status if isinstance(status, int) else DONE


def _warned(message: Warning | str, *_: object, **__: object) -> None:
    """What the library warns of, as all else is said; where in the library does not matter."""
    console.write(f"warning: {message}")


def _failed(message: str, status: int) -> int:
    with contextlib.suppress(BrokenPipeError):
        console.write(message)
    return status


def _wrong_use(error: click.ClickException) -> int:
    lines = [f"error: {error.format_message()}"]
    hint = getattr(error, "hint", None)
    context = getattr(error, "ctx", None)
    if not hasattr(error, "hint") and context is not None:
        hint = f"{context.command_path} --help says what there is"
    if hint is not None:
        lines.append(f"help: {hint}")
    return _failed("\n".join(lines), WRONG_USE)


def _defect(error: Exception) -> int:
    if os.environ.get("TDSL_DEBUG") == "1":
        traceback.print_exception(error)
    return _failed(
        f"internal error: {type(error).__name__}: {error}\n"
        "This is a defect of the compiler: please report it with the file and the command.\n"
        "TDSL_DEBUG=1 shows where it happened.",
        DEFECT,
    )


def _forget_output() -> None:
    """What is still buffered has no reader; the interpreter would complain when it ends."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
