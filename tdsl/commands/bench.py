"""`tdsl bench`: how fast are a file's kernels, and compared with what?

The form of --json, in which fields are added but none changes its meaning; speeds are operations
a second, times seconds of one call:

    {"version": 1, "file": ..., "target": ..., "threads": n, "seconds": s, "clock": "cpu" | "wall",
     "kernels": [{"name": ..., "sizes": {name: n}, "operations": n, "bytes": n, "baseline": ...,
                  "limit": "fma" | "dot" | "copy" | null,
                  "rows": [{"name": ..., "kind": "schedule" | "peer", "prepared": bool,
                            "seconds": s, "best": s, "ratio": r, "low": r, "high": r,
                            "rounds": n, "speed": x, "of_limit": r | null}]}]}

A ratio is a candidate's time over the baseline's, the median of the paired rounds; the middle half
of the rounds lies between `low` and `high`.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tdsl import driver
from tdsl.commands import console
from tdsl.commands.arrays import Values, difference, fill
from tdsl.commands.options import Request, WrongUse, request, shared, unknown
from tdsl.comparison import Candidate, Row, check, chosen, peer, scheduled, timed
from tdsl.diagnostics import Diagnostic
from tdsl.operations import Work, work
from tdsl.peers import Peers
from tdsl.runtime.threads import set_threads

try:
    import threadpoolctl
except ImportError:  # of the extra `bench`; without it peers must keep to their threads themselves
    threadpoolctl = None

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
FORCED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
WIDTH = 120  # of a table that goes to a file


@click.command("bench")
@shared
@click.option("--against", "peers", metavar="numpy,torch", default="",
              help="Peers: functions KERNEL_PEER of FILE.bench.py, which is run.")  # fmt: skip
@click.option("--seconds", metavar="S", type=click.FloatRange(min=0.0, max=3600.0), default=1.0,
              show_default=True, help="Time for each schedule and each peer.")  # fmt: skip
@click.option(
    "--threads",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Threads of parallel loops and of peers; from 2 on, time is wall time.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    file: str,
    kernel: str | None,
    schedule: str | None,
    target: str,
    sizes: tuple[str, ...],
    constants: tuple[str, ...],
    strict_fp: bool,
    peers: str,
    seconds: float,
    threads: int,
    as_json: bool,
) -> None:
    """Time the schedules of FILE's kernels that serve the target, and peers, in turn.

    FILE.bench.py says what peers do, for example

    \b
        def matmul_numpy(A, B, C):
            return lambda: np.matmul(A, B, C)
    """
    names = [name.strip() for name in peers.split(",") if name.strip()]
    asked = request(file, kernel, schedule, target, sizes, constants, strict_fp)
    with _held_to(threads):
        beside = _beside(file) if names else None
        results = [
            (*found, options)
            for options in asked.options
            for found in [_bench(asked, options, names, beside, seconds, threads)]
        ]
    if as_json:
        kernels = [_as_json(rows, done, options) for rows, done, options in results]
        head: dict[str, Any] = {"version": 1, "file": asked.name, "target": asked.target.name}
        head |= {"threads": threads}
        head |= {"seconds": seconds, "clock": "cpu" if threads == 1 else "wall"}
        click.echo(json.dumps({**head, "kernels": kernels}, indent=2))
        return
    out = Console() if console.on_terminal() else Console(width=WIDTH)
    for rows, done, options in results:
        out.print(_table(rows, done, options))


def _beside(file: str) -> Peers:
    path = Peers.path_of(file)
    if not path.is_file():
        raise WrongUse(
            f"there is no {path}, which would say what the peers of {file} compute",
            "write functions KERNEL_PEER into it: `tdsl bench --help` shows one",
        )
    return Peers(path)


def _known(peers: Peers, kernel: str, names: Sequence[str]) -> None:
    """Refuse a peer that is not there before anything is compiled."""
    known = peers.names(kernel)
    for name in names:
        if name not in known:
            raise unknown("peer", name, known, f"{peers.path} for {kernel}")


def _bench(
    asked: Request,
    options: driver.Options,
    names: Sequence[str],
    peers: Peers | None,
    seconds: float,
    threads: int,
) -> tuple[list[Row], Work]:
    front = driver.run(asked.file, options, until="dependences")
    meaning = front.kernel
    given: dict[str, Values] = {}
    if meaning.sizes:
        example = " ".join(f"--size {s}=64" for s in meaning.sizes)
        raise WrongUse(
            f"{meaning.name} has sizes that are not bound: {', '.join(meaning.sizes)}",
            f"add {example}",
        )
    if peers is not None:
        _known(peers, meaning.name, names)
    fill(meaning, given, seed=0)
    label = options.schedule if isinstance(options.schedule, str) else None
    with console.progress(f"compiling {asked.name}"):
        candidates = [
            scheduled(front, schedule, asked.module, given) for schedule in chosen(front, label)
        ]
    if peers is not None:
        _warn_of_forced()
        candidates += [peer(meaning, name, peers, given) for name in names]
    check(candidates, lambda name, a, b: difference(meaning, name, a, b, exact=False))
    set_threads(threads)
    with (
        _limited(threads),
        Progress(
            console=Console(stderr=True), transient=True, disable=not console.on_terminal()
        ) as progress,
    ):
        task = progress.add_task(meaning.name, total=1.0)
        done = work(front.program, {})
        rows = timed(
            candidates, done, options.target, seconds=seconds, threads=threads,
            tick=lambda part: progress.update(task, completed=part),
        )  # fmt: skip
        return list(rows), done


def _warn_of_forced() -> None:
    """NumPy read these when it was imported."""
    forced = [name for name in FORCED if name in os.environ]
    if forced:
        message = f"the environment sets {' and '.join(forced)} for NumPy's BLAS"
        console.show(
            [
                Diagnostic(
                    message, code="bench", help="unset that, for its own choice", severity="warning"
                )
            ]
        )


@contextlib.contextmanager
def _held_to(threads: int) -> Iterator[None]:
    """Libraries that are loaded from now on read these."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, str(threads)))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextlib.contextmanager
def _limited(threads: int) -> Iterator[None]:
    """NumPy's BLAS is loaded already, and has to be told."""
    if threadpoolctl is None:
        yield
        return
    with threadpoolctl.threadpool_limits(threads):
        yield


# ---------------------------------------------------------------- what is said


def _table(rows: Sequence[Row], done: Work, options: driver.Options) -> Table:
    sizes = " ".join(f"{n}={v}" for n, v in options.sizes.items())
    title = f"{options.kernel} {sizes}, for {options.target.name}".replace("  ", " ")
    table = Table(title=title, title_justify="left")
    for name in ("", "time", "time / first", "spread", "G op/s", f"of {rows[0].limit or 'limit'}"):
        table.add_column(name, justify="left" if not name else "right")
    for number, row in enumerate(rows):
        table.add_row(
            _described(row.candidate),
            _duration(row.timing.seconds),
            f"{row.timing.ratio:.3f}" if number else "-",
            f"{row.timing.spread:.1%}" if number else "-",
            f"{row.speed * 1e-9:.1f}" if done.total else "-",
            "-" if row.of is None else f"{row.of:.1%}",
        )
    return table


def _described(candidate: Candidate) -> str:
    return candidate.name + (", prepared" if candidate.prepared else "")


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _as_json(rows: Sequence[Row], done: Work, options: driver.Options) -> dict[str, Any]:
    return {
        "name": options.kernel,
        "sizes": dict(options.sizes),
        "operations": done.total,
        "bytes": done.bytes,
        "baseline": rows[0].candidate.name,
        "limit": rows[0].limit,
        "rows": [
            {
                "name": row.candidate.name,
                "kind": row.candidate.kind,
                "prepared": row.candidate.prepared,
                "seconds": row.timing.seconds,
                "best": row.timing.best,
                "ratio": row.timing.ratio,
                "low": row.timing.low,
                "high": row.timing.high,
                "rounds": row.rounds,
                "speed": row.speed,
                "of_limit": row.of,
            }
            for row in rows
        ],
    }
