"""Times of the compiler itself, each in processes of its own, with nothing in the cache."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.case import EXAMPLES

ROOT = EXAMPLES.parent


class CommandFailed(Exception):
    """A command that was to be timed did not succeed."""


@dataclass(frozen=True)
class Command:
    """What is run; `goal` in seconds, None for what the others are to be compared with."""

    name: str
    goal: float | None
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Spent:
    """Medians over several runs, in seconds. `cpu` counts all processes that took part, and is
    the figure to go by where the machine has other work."""

    wall: float
    cpu: float


def commands() -> Iterator[Command]:
    """Every command with a goal."""
    python = sys.executable
    yield Command("import numpy", None, (python, "-c", "import numpy"))
    yield Command("import tdsl", 0.35, (python, "-c", "import tdsl"))
    yield Command("import tdsl.api", None, (python, "-c", "import tdsl.api"))
    tool = (python, "-c", "from tdsl.cli import main; main()")
    for path in sorted(EXAMPLES.glob("*.tdsl")):
        yield Command(f"tdsl check {path.name}", 1.0, (*tool, "check", str(path)))
    compile_ = ("compile", str(EXAMPLES / "conv2d.tdsl"), "--emit", "c,h,so", "-o", "{folder}")
    yield Command("tdsl compile conv2d.tdsl", 3.0, (*tool, *compile_))


def spent(command: Command, runs: int = 5) -> Spent:
    """Run it several times, after once that does not count: it leaves Python's bytecode."""
    with tempfile.TemporaryDirectory(prefix="tdsl-bench-") as bytecode:
        _once(command, bytecode)
        found = [_once(command, bytecode) for _ in range(runs)]
    return Spent(statistics.median(s.wall for s in found), statistics.median(s.cpu for s in found))


def _once(command: Command, bytecode: str) -> Spent:
    with tempfile.TemporaryDirectory(prefix="tdsl-bench-") as folder:
        arguments = [a.replace("{folder}", folder) for a in command.arguments]
        environment = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = bytecode
        environment["TDSL_CACHE_DIR"] = str(Path(folder) / "cache")
        before, start = os.times(), time.perf_counter()
        done = subprocess.run(
            arguments, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        wall, after = time.perf_counter() - start, os.times()
    if done.returncode != 0:
        raise CommandFailed(f"{command.name}: status {done.returncode}\n{done.stderr.strip()}")
    user = after.children_user - before.children_user
    return Spent(wall, user + after.children_system - before.children_system)
