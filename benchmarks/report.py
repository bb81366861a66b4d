"""The figures as tables for the terminal and as `RESULTS.md`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True)
class Row:
    """A kernel against its best peer. `ratio` is the peer's time over ours; `times` in seconds,
    ours under "tdsl"; `speed` in `unit`; `peak`: its share of the multiply-adds' peak, timed
    beside it, of which `share` is wanted."""

    name: str
    peer: str
    goal: float
    ratio: float
    spread: float
    times: dict[str, float]
    speed: float
    unit: str
    error: float
    rounds: int
    schedule: str
    absent: tuple[str, ...] = ()
    peak: float | None = None
    share: float = 0.0

    @property
    def good(self) -> bool:
        """Whether the goal is met; what runs at the peak cannot be asked for more."""
        peak = 0.0 if self.peak is None else self.peak
        wanted = self.peak is None or peak >= self.share
        return wanted and (self.ratio >= self.goal or peak >= ENOUGH)


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


ENOUGH = 0.96  # of the peak

TEXT = """\
# Results

Written by `{command}`; `make bench` measures again.

{facts}

## Kernels

One thread unless the row says threads. All sides run in turn, in batches of 3 ms, on the same
buffers aligned to 64 bytes where the library takes them; times are the thread's processor time,
wall time where there are two threads. `peer/ours` is the median of the paired ratios of all
rounds for the best peer, above 1 where TDSL is faster; `spread` is the width of the middle half
of the ratios, relative to their median. `of peak`: of what independent multiply-adds in registers
reach, timed in the same rounds; 96 % of it meets any goal. `error` is the largest difference from
double precision, relative to the largest value.

{kernels}

Rows: `sgemm` has neither factor packed beforehand; `sgemm_packed`, `qgemm`, `bgemm` and all
layers have constant weights that both sides pack before the run. Layers are NHWC with bias and
relu, padding inside; PyTorch reads the same NHWC buffers (channels last; the faster of the module
and its frozen form), onnxruntime the same numbers in NCHW. `winograd` is compared with the exact
layers of the libraries and counts the operations of the definition; `winograd2` is F(2x2, 3x3).
Numba's sums may be reordered where the text stays safe (E[x^2] - E[x]^2 is not), nothing else of
fast-math. Halide's pipelines are scheduled by hand and compiled for the sizes of the row; its
convolution pads inside. `generic` is the kernel compiled for any sizes against the one whose sizes
are bound.

The schedules, with integers:

{schedules}

## Commands

Each in processes of its own, with an empty cache of kernels and Python's bytecode at hand, as after
a first run; medians. `processor` counts all processes, the C compiler among them, and is the figure
to go by where the machine had other work; that of `import numpy` tells how fast the machine was.
`compile` writes C, header and shared library.

{commands}
"""

KERNELS = (
    "row", "best peer", "peer/ours", "spread", "goal", "ours", "peers, us", "speed", "of peak",
    "error",
)  # fmt: skip
COMMANDS = ("command", "wall", "processor", "goal")


def tables(measured: Measured) -> Iterator[Table]:
    """For the terminal; green where the goal is met."""
    table = Table(*KERNELS, title="kernels, one thread, peer's time over ours")
    for row, cells in zip(measured.kernels, _kernel_cells(measured), strict=True):
        table.add_row(*_coloured(cells, 2, row.good))
    yield table
    if not measured.commands:
        return
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
            f">= {r.goal}" + (f", {r.share:.0%} of peak" if r.share else ""),
            f"{r.times['tdsl'] * 1e6:.1f} us",
            ", ".join(
                [f"{n} {t * 1e6:.1f}" for n, t in r.times.items() if n != "tdsl"]
                + [f"{n} not installed" for n in r.absent]
            ),
            f"{r.speed:.0f} {r.unit}",
            "" if r.peak is None else f"{r.peak:.1%}",
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
