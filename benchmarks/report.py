"""The figures as tables for the terminal and as `RESULTS.md`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True)
class Row:
    """A kernel against a peer. `ratio` is the peer's time over ours; times in seconds."""

    name: str
    peer: str
    goal: float
    ratio: float
    spread: float
    ours: float
    theirs: float
    gflops: float
    error: float
    rounds: int
    schedule: str


@dataclass(frozen=True)
class Started:
    """A command; times in seconds."""

    name: str
    goal: float | None
    wall: float
    cpu: float


@dataclass(frozen=True)
class Measured:
    """One run of all benchmarks."""

    facts: dict[str, str]
    kernels: list[Row]
    commands: list[Started]


TEXT = """\
# Results

Written by `{command}`; `make bench` measures again.

{facts}

## Kernels

One thread. Both sides run in turn, in batches of 3 ms, on buffers aligned to 64 bytes; times are
the thread's processor time. `peer/ours` is the median of the paired ratios of all rounds, above 1
where TDSL is faster; `spread` is the width of the middle half of the ratios, relative to their
median. `error` is the largest difference from double precision.

{kernels}

Products: `np.matmul(A, B, C)` against `kernel(A, B, C)`, both through Python with all their checks,
sizes bound when the kernel was compiled. Convolution: NHWC, input padded beforehand, bias added.
onnxruntime runs a model of one Conv node with constant weights and all graph optimizations, on NCHW
data, with input and output bound to the buffers. Its time includes the run of a session, the bias,
and whatever reordering its optimized graph does on the way in and out; it includes neither padding
nor reordering of the weights, which is done once beforehand. Ours reads the weights as they are.

The schedules, with integers:

{schedules}

## Commands

Each in processes of its own, with an empty cache of kernels and Python's bytecode at hand, as after
a first run; medians. `processor` counts all processes, the C compiler among them, and is the figure
to go by where the machine had other work; that of `import numpy` tells how fast the machine was.
`compile` writes C, header and shared library.

{commands}
"""

KERNELS = ("case", "peer", "peer/ours", "spread", "goal", "ours", "peer's", "GFLOP/s", "error")
COMMANDS = ("command", "wall", "processor", "goal")


def tables(measured: Measured) -> Iterator[Table]:
    """For the terminal; green where the goal is met."""
    table = Table(*KERNELS, title="kernels, one thread, peer's time over ours")
    for row, cells in zip(measured.kernels, _kernel_cells(measured), strict=True):
        table.add_row(*_coloured(cells, 2, row.ratio >= row.goal))
    yield table
    table = Table(*COMMANDS, title="commands, no kernel cached")
    for command, cells in zip(measured.commands, _command_cells(measured), strict=True):
        table.add_row(*_coloured(cells, 2, command.goal is None or command.cpu <= command.goal))
    yield table


def markdown(measured: Measured, options: str) -> str:
    """The text of RESULTS.md."""
    return TEXT.format(
        command=f"python -m benchmarks.run {options}",
        facts="\n".join(f"- {name}: {value}" for name, value in measured.facts.items()),
        kernels="\n".join(_rows(KERNELS, _kernel_cells(measured))),
        schedules="\n\n".join(
            f"```\n{schedule}\n```"
            for schedule in dict.fromkeys(r.schedule for r in measured.kernels)
        ),
        commands="\n".join(_rows(COMMANDS, _command_cells(measured))),
    )


def _kernel_cells(measured: Measured) -> list[tuple[str, ...]]:
    return [
        (
            r.name,
            r.peer,
            f"{r.ratio:.3f}",
            f"{r.spread:.1%}",
            f">= {r.goal}",
            f"{r.ours * 1e6:.2f} us",
            f"{r.theirs * 1e6:.2f} us",
            f"{r.gflops:.0f}",
            f"{r.error:.1e}",
        )
        for r in measured.kernels
    ]


def _command_cells(measured: Measured) -> list[tuple[str, ...]]:
    return [
        (
            c.name,
            f"{c.wall:.2f} s",
            f"{c.cpu:.2f} s",
            "" if c.goal is None else f"< {c.goal} s",
        )
        for c in measured.commands
    ]


def _rows(head: tuple[str, ...], cells: list[tuple[str, ...]]) -> list[str]:
    rows = [head, tuple("---" for _ in head), *cells]
    return [f"| {' | '.join(row)} |" for row in rows]


def _coloured(cells: tuple[str, ...], place: int, good: bool) -> tuple[str, ...]:
    colour = "green" if good else "red"
    marked = f"[{colour}]{cells[place]}[/]"
    return (*cells[:place], marked, *cells[place + 1 :])
