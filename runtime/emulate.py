"""Runs kernels that were compiled for another processor, under a user-mode emulator.

A module becomes one static program (see `tdsl.runtime.harness`), which the cache keeps; a call
writes the arrays to a file, runs the program, and reads what it wrote. Slow, but exact: for tests
and for looking at small results.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tdsl.diagnostics import ToolchainError, UnsupportedTarget
from tdsl.runtime.arguments import Bound, Checker
from tdsl.runtime.build import artifact, assembly, compile_command, link_flags
from tdsl.runtime.harness import harness
from tdsl.runtime.interface import Argument, BuildRequest, Entry, Prepared, SizePlan
from tdsl.runtime.laid_out import LaidOut
from tdsl.runtime.memory import address, bytes_of
from tdsl.runtime.process import CannotStart, Outcome, run_all
from tdsl.runtime.toolchain import Compiler, failure, find_compiler, find_emulator, signal_name

RUN_LIMIT = 120.0  # seconds of one emulated call


@dataclass(frozen=True)
class Program:
    """A static program of a foreign machine around a module, and the emulator for it."""

    request: BuildRequest
    entries: tuple[Entry, ...]
    path: Path
    compiler: Compiler
    emulator: str


def build_program(request: BuildRequest, entries: Sequence[Entry]) -> Program:
    """Build, or find in the cache, the program for the entries of a module."""
    emulator = find_emulator(request.machine)
    compiler = find_compiler(request).for_static_programs()
    text = harness(request, entries)
    name, source = f"{request.name}.elf", f"{request.name}-main.c"

    def steps(folder: Path) -> list[list[list[str]]]:
        (folder / source).write_text(text)
        kernel = [*compile_command(request, compiler), "-c", f"{request.name}.c", "-o", "kernel.o"]
        main = [*compiler.command, "-O1", "-w", "-c", source, "-o", "main.o"]
        link = [*compiler.command, "-static", "kernel.o", "main.o", "-o", name]
        return [[kernel, main], [[*link, *link_flags(request)]]]

    entry = artifact(request, compiler, "program", (name,), steps, (text,))
    return Program(request, tuple(entries), entry[name], compiler, emulator)


class EmulatedKernel(LaidOut):
    """One entry of a program; called like a `CompiledKernel`, with the same checks.

    `processor` is the emulator's name of a processor model ("max" has every extension).
    """

    def __init__(
        self,
        entry: Entry,
        plan: SizePlan,
        program: Program,
        *,
        schedule: Any = None,
        processor: str = "max",
        prepared: Prepared | None = None,
    ) -> None:
        self.entry = entry
        self._plan, self._prepared = plan, prepared
        self.program = program
        self.schedule = schedule
        self.processor = processor
        self._checker = Checker(entry, plan, None if prepared is None else prepared.arguments)

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def c_source(self) -> str:
        """The generated C."""
        return self.program.request.c_source

    @property
    def header(self) -> str:
        """The generated header."""
        return self.program.request.header

    @property
    def assembly(self) -> str:
        """The cross compiler's assembly text of the module."""
        return assembly(self.program.request)

    @property
    def library_path(self) -> str:
        """The program, in the cache."""
        return str(self.program.path)

    def workspace_bytes(self, *sizes: int, **named: int) -> int:
        """Bytes of scratch memory that a call with these sizes uses."""
        values = self._checker.sizes(sizes, named)
        if self.entry.workspace is None:
            return 0
        return int(struct.unpack("<q", self._run("workspace", _numbers(values)))[0])

    def variant(self, *sizes: int, **named: int) -> str:
        """Name of the schedule that a call with these sizes runs."""
        values = self._checker.sizes(sizes, named)
        if self.entry.variant is None:
            return ""
        return self._run("variant", _numbers(values)).decode()

    def prepared_bytes(self, *sizes: int, **named: int) -> int:
        """Bytes that `prepare` fills for these sizes; only those of const arguments matter."""
        values = self._checker.sizes(sizes, named)
        if self.entry.prepared is None:
            return 0
        return int(struct.unpack("<q", self._run("prepared_bytes", _numbers(values)))[0])

    def prepare(self, **constants: Any) -> EmulatedKernel:
        """The kernel with its const arguments bound; see `CompiledKernel.prepare`."""
        bound = self._checker.bind_const(constants)
        answer = self._run("prepare", self._input(bound, self.entry.constants))
        status = struct.unpack_from("<q", answer)[0]
        if status:
            raise self._checker.prepare_refused(bound, status)
        names = (a.name for a in self.entry.constants)
        arguments = dict(zip(names, bound.given, strict=True))
        made = Prepared(arguments, np.frombuffer(answer, np.uint8, offset=8))
        return EmulatedKernel(
            self.entry,
            self._plan,
            self.program,
            schedule=self.schedule,
            processor=self.processor,
            prepared=made,
        )

    def __repr__(self) -> str:
        names = ", ".join(a.name for a in self.entry.arguments)
        return f"<emulated kernel {self.name}({names}) for {self.program.request.machine}>"

    def __call__(self, *positional: Any, **keywords: Any) -> Any:
        bound = self._checker.bind(positional, keywords)
        data, mode = self._input(bound, self.entry.arguments), "call"
        if self._prepared is not None:
            made, mode = self._prepared.buffer.tobytes(), "run_prepared"
            data += _numbers((len(made),)) + made
        answer = self._run(mode, data)
        status = struct.unpack_from("<q", answer)[0]
        if status:
            raise self._checker.refused(bound, status)
        self._take(bound, answer[8:])
        return self._checker.give(bound.given)

    def _input(self, bound: Bound, arguments: Sequence[Argument]) -> bytes:
        parts = [_numbers(bound.sizes)]
        for argument, value, free in zip(arguments, bound.values, bound.free, strict=True):
            if argument.strided:
                memory, view, start = _strided(argument, value)
                view[...] = value
                parts += [_numbers((start, memory.nbytes)), memory.tobytes(), _numbers(free)]
                continue
            if argument.by_value and argument.elem == "f16":
                data = np.asarray(value, np.uint16).tobytes()  # its bits already
            else:
                data = np.asarray(value, argument.dtype).tobytes()
            parts += [_numbers((len(data),)), data]
        return b"".join(parts)

    def _take(self, bound: Bound, data: bytes) -> None:
        """Copy what the program wrote into the arrays."""
        start = 0
        for argument, value in zip(self.entry.arguments, bound.values, strict=True):
            if argument.is_written and argument.strided:
                memory, view, _ = _strided(argument, value)
                memory[...] = np.frombuffer(data, np.uint8, memory.nbytes, start)
                value[...] = view
                start += memory.nbytes
            elif argument.is_written:
                written = np.frombuffer(data, argument.dtype, value.size, start)
                value[...] = written.reshape(value.shape)
                start += value.nbytes
        if start != len(data):
            raise RuntimeError(f"{self.name}: the emulated program wrote {len(data)} bytes")

    def _run(self, mode: str, data: bytes) -> bytes:
        with tempfile.TemporaryDirectory(prefix="tdsl-run-") as name:
            folder = Path(name)
            (folder / "input").write_bytes(data)
            program = self.program
            command = [program.emulator, "-cpu", self.processor, str(program.path)]
            command += [mode, self.entry.symbol, "input", "output"]
            try:
                (outcome,) = run_all([command], folder, time_limit=RUN_LIMIT)
            except CannotStart as error:
                raise ToolchainError.at(None, str(error)) from error
            if outcome.failed:
                raise self._failure(outcome)
            return (folder / "output").read_bytes()

    def _failure(self, outcome: Outcome) -> Exception:
        if outcome.status is None or outcome.status > 0:
            return failure(outcome, RUN_LIMIT)
        ended = signal_name(-outcome.status)
        if ended == "SIGILL":
            return UnsupportedTarget.at(
                None,
                f"the emulated processor {self.processor!r} lacks instructions that {self.name} "
                f"was compiled for",
            )
        where = ", an access outside an array" if ended in ("SIGSEGV", "SIGBUS") else ""
        return RuntimeError(f"{self.name} was ended by {ended} under the emulator{where}")


def _strided(
    argument: Argument, value: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], int]:
    """Memory like that of a strided array: its bytes, the array in it, and where that starts."""
    low, high = bytes_of(value)
    below = address(value) - low
    start = -(-below // argument.alignment) * argument.alignment
    memory = np.zeros(high - low + start - below, np.uint8)
    if value.size == 0:
        return memory, np.empty(value.shape, value.dtype), start
    view: np.ndarray[Any, Any] = np.ndarray(value.shape, value.dtype, memory, start, value.strides)
    return memory, view, start


def _numbers(values: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)
