"""Runs programs with a time limit, their output captured, and none left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


class CannotStart(Exception):
    """A program is not there any more, or may not be executed."""


@dataclass(frozen=True)
class Outcome:
    """How a program ended: `status` is negative for a signal, None where the time ran out."""

    command: tuple[str, ...]
    status: int | None
    output: str

    @property
    def failed(self) -> bool:
        return self.status != 0


def run_all(commands: Sequence[Sequence[str]], folder: Path, *, time_limit: float) -> list[Outcome]:
    """Run the commands side by side in `folder`, which also holds their temporary files.

    Standard output and error go to files there, so that no pipe can fill. Whatever ends the wait,
    Ctrl-C included, the programs and their children are killed before this returns.
    """
    environment = {**os.environ, "TMPDIR": str(folder), "LC_ALL": "C"}
    logs = [folder / f"output-{number}.txt" for number in range(len(commands))]
    running: list[subprocess.Popen[bytes]] = []
    deadline = time.monotonic() + time_limit
    timed_out: set[int] = set()
    try:
        for command, log in zip(commands, logs, strict=True):
            with log.open("wb") as output:
                running.append(_start(command, folder, environment, output))
        for number, process in enumerate(running):
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                timed_out.add(number)
                _kill(process)
    finally:
        for process in running:
            _kill(process)
    return [
        Outcome(
            tuple(command),
            None if number in timed_out else process.returncode,
            log.read_text(errors="replace"),
        )
        for number, (command, process, log) in enumerate(zip(commands, running, logs, strict=True))
    ]


def _start(
    command: Sequence[str], folder: Path, environment: dict[str, str], output: BinaryIO
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(command),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # In a group of its own: Ctrl-C at the terminal reaches Python alone, which cleans up.
            process_group=0,
        )
    except OSError as error:
        raise CannotStart(f"{command[0]} cannot be started: {error.strerror}") from error


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a program and its children, if it still runs, and wait until it is gone."""
    if process.poll() is not None:
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()
    process.wait()
