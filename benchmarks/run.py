"""`make bench`, or `python -m benchmarks.run [--seconds S] [--json] [--write]`.

Everything runs on one thread. Both sides of a comparison run in turn, in short batches on the same
64-byte-aligned buffers; the time is that of the thread, and the result the median of the paired
ratios, with the width of their middle half as spread.
"""

from __future__ import annotations

import fnmatch
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

from benchmarks import attention, convolutions, memory, others, products
from benchmarks.case import Absent, Benchmark, Case, Differs
from benchmarks.machine import FORCED, environment, facts
from benchmarks.report import Measured, Row, Started, markdown, tables
from benchmarks.startup import CommandFailed, commands, spent
from tdsl.runtime.measure import compare
from tdsl.runtime.peak import busy
from tdsl.targets import native

MARK = "TDSL_BENCH_PREPARED"
PEAK = "peak"  # a side that is no peer
RESULTS = Path(__file__).resolve().parent / "RESULTS.md"


@click.command()
@click.option("--seconds", default=3.0, show_default=True, help="Time for each side of a case.")
@click.option("--runs", default=5, show_default=True, help="Runs of each command.")
@click.option("--only", default="*", show_default=True, help="Rows by name; * and ? are any.")
@click.option("--json", "as_json", is_flag=True, help="Print figures for programs.")
@click.option("--write", is_flag=True, help="Write benchmarks/RESULTS.md.")
def main(seconds: float, runs: int, only: str, as_json: bool, write: bool) -> None:
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
        rows = _kernels(screen, seconds, only)
        measured = Measured(about, rows, _commands(screen, runs) if only == "*" else [])
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


def every_row() -> list[Benchmark]:
    """All rows in the order in which they run; those that start threads come last."""
    rows = (
        products.benchmarks(), convolutions.benchmarks(), memory.benchmarks(),
        attention.benchmarks(), others.generic(), others.threaded(),
    )  # fmt: skip
    return [row for part in rows for row in part]


def _kernels(screen: Console, seconds: float, only: str) -> list[Row]:
    chosen = [b for b in every_row() if fnmatch.fnmatch(b.name, only)]
    if not chosen:
        names = ", ".join(b.name for b in every_row())
        raise click.UsageError(f"no row is called {only}; there are {names}")
    rows = []
    with Progress(console=screen, transient=True) as progress:
        task = progress.add_task("kernels", total=len(chosen))
        for benchmark in chosen:
            progress.update(task, description=benchmark.name)
            try:
                case = benchmark.build()
            except (Absent, Differs) as error:
                screen.print(f"{benchmark.name} is left out: {error}", style="red")
                progress.advance(task)
                continue
            rows.append(_row(benchmark.name, case, seconds))
            progress.advance(task)
    return rows


def _row(name: str, case: Case, seconds: float) -> Row:
    """One comparison, measured."""
    sides = {"tdsl": case.ours, **case.peers}
    sides |= {alone(side): call for side, call in case.alone.items()}
    of = native()
    full = busy(case.bound_by, of.features, of.vector_bytes) if case.bound_by else None
    if full is not None:
        sides[PEAK] = full.call
    found = compare(sides, baseline="tdsl", seconds=seconds, clock=case.clock, pause=case.pause)
    best = min(case.peers, key=lambda peer: found[peer].ratio)
    ratio = found[best].ratio
    if case.alone:  # speedups, whichever side is the faster
        ratio *= found[alone("tdsl")].ratio / found[alone(best)].ratio
    return Row(
        name, best, case.goal, ratio, found[best].spread,
        {name: timing.seconds for name, timing in found.timings.items() if name != PEAK},
        case.work / found["tdsl"].seconds * 1e-9, case.unit, case.error,
        found.rounds, case.schedule, case.absent,
        None if full is None else case.work / full.operations * found[PEAK].ratio, case.share,
    )  # fmt: skip


def alone(side: str) -> str:
    """What a side is called where it runs on one thread and otherwise on several."""
    return f"{side}, one thread"


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
