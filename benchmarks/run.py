"""`make bench`, or `python -m benchmarks.run [--seconds S] [--json] [--write]`.

Everything runs on one thread. Both sides of a comparison run in turn, in short batches on the same
64-byte-aligned buffers; the time is that of the thread, and the result the median of the paired
ratios, with the width of their middle half as spread.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from itertools import chain
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

from benchmarks.cases import Differs, cases
from benchmarks.machine import FORCED, environment, facts
from benchmarks.report import Measured, Row, Started, markdown, tables
from benchmarks.rows import row_cases, sweep_cases
from benchmarks.startup import CommandFailed, commands, spent
from tdsl.runtime.measure import compare

MARK = "TDSL_BENCH_PREPARED"
RESULTS = Path(__file__).resolve().parent / "RESULTS.md"


@click.command()
@click.option("--seconds", default=3.0, show_default=True, help="Time for each side of a case.")
@click.option("--runs", default=5, show_default=True, help="Runs of each command.")
@click.option("--json", "as_json", is_flag=True, help="Print figures for programs.")
@click.option("--write", is_flag=True, help="Write benchmarks/RESULTS.md.")
def main(seconds: float, runs: int, as_json: bool, write: bool) -> None:
    """Time kernels against NumPy and onnxruntime, and the compiler itself."""
    if MARK not in os.environ:
        _start_again()
    screen, out = Console(stderr=True), Console()
    if not out.is_terminal:
        out = Console(width=120)  # tables in a file keep their columns whole
    about = facts()
    if not as_json:
        for name, value in about.items():
            screen.print(f"{name}: {value}", highlight=False)
    try:
        measured = Measured(about, _kernels(screen, seconds), _commands(screen, runs))
    except (Differs, CommandFailed) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print(json.dumps(asdict(measured), indent=2))
    else:
        for table in tables(measured):
            out.print(table)
    if write:
        RESULTS.write_text(markdown(measured, f"--seconds {seconds:g} --runs {runs} --write"))
        screen.print(f"written: {RESULTS}", highlight=False)


def _start_again() -> None:
    """In an environment that counts from the first import of NumPy on."""
    forced = [f"{name}={os.environ[name]}" for name in FORCED if name in os.environ]
    if forced:
        print(f"left out of the environment: {', '.join(forced)}", file=sys.stderr)
    arguments = [sys.executable, "-m", "benchmarks.run", *sys.argv[1:]]
    os.execve(sys.executable, arguments, {**environment(), MARK: "1"})


def _kernels(screen: Console, seconds: float) -> list[Row]:
    rows = []
    with Progress(console=screen, transient=True) as progress:
        task = progress.add_task("kernels", total=None)
        for case in chain(cases(), row_cases(), sweep_cases()):
            progress.update(task, description=case.name)
            sides = {case.peer: case.theirs, "tdsl": case.ours}
            found = compare(sides, baseline=case.peer, seconds=seconds, clock=case.clock)
            ours, theirs = found["tdsl"], found[case.peer]
            rows.append(
                Row(
                    case.name, case.peer, case.goal, ours.speed, ours.spread, ours.seconds,
                    theirs.seconds, case.flops / ours.seconds * 1e-9, case.error, found.rounds,
                    case.schedule,
                )
            )  # fmt: skip
            progress.advance(task)
    return rows


def _commands(screen: Console, runs: int) -> list[Started]:
    wanted = list(commands())
    rows = []
    with Progress(console=screen, transient=True) as progress:
        task = progress.add_task("commands", total=len(wanted))
        for command in wanted:
            progress.update(task, description=command.name)
            time = spent(command, runs)
            rows.append(Started(command.name, command.goal, time.wall, time.cpu))
            progress.advance(task)
    return rows


if __name__ == "__main__":
    main()
