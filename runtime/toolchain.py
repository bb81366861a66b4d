"""Finds C compilers and emulators, and runs the compilers."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tdsl.diagnostics import Error, Note, ToolchainError, UnsupportedTarget
from tdsl.runtime.interface import BuildRequest
from tdsl.runtime.process import CannotStart, Outcome, run_all

OUTPUT_LINES = 30  # of a failed compiler, in its message


@dataclass(frozen=True)
class Machine:
    """A processor family that is built for and emulated on another one."""

    name: str
    compiler: str
    zig: str
    emulators: tuple[str, ...]
    package: str  # Debian's, of the compiler


MACHINES = {
    m.name: m
    for m in (
        Machine(
            "aarch64",
            "aarch64-linux-gnu-gcc",
            "aarch64-linux-gnu",
            ("qemu-aarch64", "qemu-aarch64-static"),
            "gcc-aarch64-linux-gnu",
        ),
        Machine(
            "x86_64",
            "x86_64-linux-gnu-gcc",
            "x86_64-linux-gnu",
            ("qemu-x86_64", "qemu-x86_64-static"),
            "gcc-x86-64-linux-gnu",
        ),
    )
}
ALIASES = {"arm64": "aarch64", "amd64": "x86_64"}


@dataclass(frozen=True)
class Compiler:
    """A C compiler that is there: how it is called and what it says of itself."""

    command: tuple[str, ...]
    path: str
    version: str

    @property
    def is_clang(self) -> bool:
        return "clang" in self.version.lower()

    @property
    def is_zig(self) -> bool:
        return "ziglang" in self.command

    @property
    def patience(self) -> float:
        """Least time limit in seconds: zig builds its C library when it first links."""
        return 900.0 if self.is_zig else 0.0

    def for_static_programs(self) -> Compiler:
        """The compiler that links whole programs: zig has musl as a static library, not glibc."""
        if not self.is_zig:
            return self
        command = tuple(part.replace("-linux-gnu", "-linux-musl") for part in self.command)
        return replace(self, command=command)

    def __str__(self) -> str:
        return f"{shlex.join(self.command)} ({self.version})"


def machine_name(name: str | None = None) -> str:
    """The family's one name; None is the machine that this runs on."""
    found = (name or platform.machine()).lower()
    return ALIASES.get(found, found)


def is_host(machine: str | None) -> bool:
    """Whether code for `machine` runs here without an emulator."""
    return machine_name(machine) == machine_name()


def find_compiler(request: BuildRequest) -> Compiler:
    """The first compiler that is installed; ToolchainError says what to install.

    For this machine the environment's CC comes first, and must work where it is set.
    """
    own = os.environ.get("CC", "").strip() if is_host(request.machine) else ""
    if own:
        chosen = probe(own)
        if chosen is None:
            raise ToolchainError.at(
                None,
                f"the environment variable CC names a compiler that cannot be run: {own}",
                help="unset CC, or set it to the command of a C compiler",
            )
        return chosen
    names = candidates(request)
    for name in names:
        found = probe(name)
        if found is not None:
            return found
    tried = Note(f"tried: {', '.join(names)}")
    if is_host(request.machine):
        raise ToolchainError.at(
            None,
            "no C compiler was found",
            tried,
            help="install one (Debian, Ubuntu: apt-get install gcc libc6-dev) or set CC",
        )
    machine = foreign(request.machine)
    raise ToolchainError.at(
        None,
        f"no C compiler for {machine.name} was found",
        tried,
        help=f"apt-get install {machine.package}, or pip install 'tdsl[cross]' (ziglang)",
    )


def candidates(request: BuildRequest) -> tuple[str, ...]:
    """Commands to try, the best first."""
    if is_host(request.machine):
        return request.compilers or ("gcc", "clang", "cc")
    machine = foreign(request.machine)
    named = request.compilers or (machine.compiler,)
    # clang is a compiler for every machine, and has to be told which.
    aimed = (f"clang --target={machine.name}-linux-gnu" if n == "clang" else n for n in named)
    return (*aimed, f"zig:{machine.zig}")


def foreign(machine: str | None) -> Machine:
    """The row of a machine that is not this one."""
    name = machine_name(machine)
    if name not in MACHINES:
        raise UnsupportedTarget.at(
            None,
            f"nothing is known about building for {name}",
            help=f"known machines: {', '.join(sorted(MACHINES))}",
        )
    return MACHINES[name]


def probe(name: str) -> Compiler | None:
    """The compiler of a command line (`zig:TRIPLE` is the ziglang package), or None."""
    if name.startswith("zig:"):
        if importlib.util.find_spec("ziglang") is None:
            return None
        # Without -g0 zig adds debugging information, with paths of this machine.
        triple = name.removeprefix("zig:")
        command = [sys.executable, "-m", "ziglang", "cc", "-target", triple, "-g0"]
    else:
        try:
            command = shlex.split(name)
        except ValueError:  # an unclosed quote in CC
            return None
    path = shutil.which(command[0]) if command else None
    if path is None:
        return None
    version = _version(tuple(command), path, os.stat(path).st_mtime_ns)
    return None if version is None else Compiler(tuple(command), os.path.realpath(path), version)


_versions: dict[tuple[tuple[str, ...], str, int], str | None] = {}


def _version(command: tuple[str, ...], path: str, mtime: int) -> str | None:
    """First line of --version, asked once a process for a file as it is; None if it fails."""
    key = (command, path, mtime)
    if key not in _versions:
        _versions[key] = _ask_version(command)
    return _versions[key]


def _ask_version(command: tuple[str, ...]) -> str | None:
    try:
        done = subprocess.run(
            [*command, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else None


def find_emulator(machine: str | None) -> str:
    """Path of the user-mode emulator of a machine."""
    row = foreign(machine)
    for name in row.emulators:
        path = shutil.which(name)
        if path is not None:
            return path
    raise ToolchainError.at(
        None,
        f"no emulator for {row.name} was found",
        Note(f"tried: {', '.join(row.emulators)}"),
        help="apt-get install qemu-user",
    )


def compile_all(commands: Sequence[Sequence[str]], folder: Path, *, time_limit: float) -> None:
    """Run compiler commands side by side in `folder`; the first that fails is the error."""
    try:
        outcomes = run_all(commands, folder, time_limit=time_limit)
    except CannotStart as error:
        raise ToolchainError.at(None, str(error)) from error
    for outcome in outcomes:
        if outcome.failed:
            raise failure(outcome, time_limit)


def failure(outcome: Outcome, time_limit: float) -> Error:
    """The error of a program that failed: its command, the first lines it wrote, what to do."""
    program = outcome.command[0]
    if outcome.status is None:
        what = f"took longer than {time_limit:g} s and was stopped"
    elif outcome.status < 0:
        what = f"was ended by {signal_name(-outcome.status)}"
    else:
        what = f"failed with status {outcome.status}"
    lines = outcome.output.strip().splitlines()
    notes = [Note(f"the command was: {shlex.join(outcome.command)}")]
    if lines:
        more = len(lines) - OUTPUT_LINES
        shown = lines[:OUTPUT_LINES] + ([f"({more} more lines)"] if more > 0 else [])
        notes.append(Note("it said:\n" + "\n".join(shown)))
    return ToolchainError.at(None, f"{program} {what}", *notes, help=_advice(outcome))


def _advice(outcome: Outcome) -> str | None:
    text = outcome.output
    if re.search(r"Python\.h(:|' file) (No such|not found)", text):
        return "apt-get install python3-dev"
    if "omp" in text and ("-fopenmp" in text or "cannot find -l" in text or "omp.h" in text):
        return "OpenMP is missing: apt-get install libgomp1 (gcc) or libomp-dev (clang)"
    if "No such file or directory" in text and ".h:" in text:
        return "a C header is missing: apt-get install libc6-dev"
    if "No space left on device" in text:
        return "free some space, or set TDSL_CACHE_DIR to another disk"
    if outcome.status is None:
        return "unroll less, or split the kernel"
    return None


def signal_name(number: int) -> str:
    """SIGSEGV for 11, and so on."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
