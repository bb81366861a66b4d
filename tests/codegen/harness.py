"""Runs hand-made functions of the vector level on a target, natively or under qemu-aarch64.

All calls of a test go into one program: it reads the arrays from a file, places each so that it
ends at an inaccessible page, calls, and writes statuses and arrays back.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from tdsl.codegen import CFunction, CModule, emit_module
from tdsl.ir.types import ElemType
from tdsl.ir.vector import Function
from tdsl.ir.verify_vector import verify
from tdsl.targets import Target, compile_flags, machine, runnable, target

NAMES = ("c", "avx2", "avx512", pytest.param("neon", marks=pytest.mark.neon))
WARNINGS = ("-Wall", "-Wextra", "-Werror")
DTYPES = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.uint16, "bool": np.uint8,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip

MAIN_HEAD = """#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static FILE *in, *out;

static void *take(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t whole = (bytes + page - 1) / page * page;
    unsigned char *p = mmap(NULL, whole + 2 * page, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p, page, PROT_NONE) != 0
            || mprotect(p + page + whole, page, PROT_NONE) != 0)
        exit(10);
    p += page + whole - bytes;
    if (fread(p, 1, bytes, in) != bytes)
        exit(11);
    return p;
}

static void put(const void *p, size_t bytes)
{
    if (fwrite(p, 1, bytes, out) != bytes)
        exit(12);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 13;
    in = fopen(argv[1], "rb");
    out = fopen(argv[2], "wb");
    if (in == NULL || out == NULL)
        return 14;
"""


@dataclass(frozen=True)
class Call:
    """One call of a function: sizes by name, arrays by buffer (scalars as arrays of rank 0)."""

    function: str
    sizes: Mapping[str, int]
    arrays: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Outcome:
    status: int
    arrays: Mapping[str, np.ndarray]


def need(name: str) -> Target:
    """The target, or a skip that says why its code cannot run here."""
    found = target(name)
    reason = runnable(found)
    if found.family == "neon" and machine() != "aarch64":
        for program in ("aarch64-linux-gnu-gcc", "qemu-aarch64"):
            if shutil.which(program) is None:
                pytest.skip(f"{program} is not installed")
    elif reason is not None:
        pytest.skip(reason)
    return found


def compiler(of: Target) -> str:
    """The first compiler of the target that is installed."""
    found = next((c for c in of.compilers if shutil.which(c)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(of.compilers)} is installed")
    return found


def emit(functions: Sequence[Function], of: Target, name: str = "module") -> CModule:
    for function in functions:
        verify(function, of)
    return emit_module(name, [replace(f, variant="v") for f in functions], of)


def write(module: CModule, folder: Path) -> Path:
    """The two files of a module; the path of the C."""
    (folder / f"{module.name}.h").write_text(module.header)
    path = folder / f"{module.name}.c"
    path.write_text(module.c_source)
    return path


def execute(command: Sequence[str | Path]) -> None:
    done = subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, f"{command[0]} gave {done.returncode}: {done.stderr[-4000:]}"


def run(
    functions: Sequence[Function], calls: Sequence[Call], of: Target, folder: Path,
    flags: Sequence[str] = (),
) -> tuple[CModule, list[Outcome]]:  # fmt: skip
    """Emit, compile and make the calls in order."""
    module = emit(functions, of)
    source = write(module, folder)
    entries = {f.name: f for f in module.functions}
    main = [f'#include "{module.name}.h"', MAIN_HEAD]
    blob = []
    for call in calls:
        main += _call(entries[call.function], call)
        blob += [call.arrays[a.name].tobytes() for a in entries[call.function].arguments]
    main += ["    return fclose(out);", "}"]
    (folder / "main.c").write_text("\n".join(main) + "\n")
    (folder / "in.bin").write_bytes(b"".join(blob))
    program = folder / "program"
    cross = of.family == "neon" and machine() != "aarch64"
    execute(
        [compiler(of), *compile_flags(of), *WARNINGS, *flags, source, folder / "main.c",
         "-o", program, *(["-static"] if cross else []), "-lm"]
    )  # fmt: skip
    emulator = ["qemu-aarch64", "-cpu", "max"] if cross else []
    execute([*emulator, program, folder / "in.bin", folder / "out.bin"])
    data = (folder / "out.bin").read_bytes()
    outcomes, at = [], 0
    for call in calls:
        status = int(np.frombuffer(data, np.int32, 1, at)[0])
        at += 4
        arrays = {}
        for argument in entries[call.function].arguments:
            given = call.arrays[argument.name]
            flat = np.frombuffer(data, given.dtype, given.size, at)
            arrays[argument.name] = flat.reshape(given.shape)
            at += given.nbytes
        outcomes.append(Outcome(status, arrays))
    assert at == len(data)
    return module, outcomes


def _call(entry: CFunction, call: Call) -> list[str]:
    lines, names = ["    {"], []
    for number, argument in enumerate(entry.arguments):
        given = call.arrays[argument.name]
        assert given.dtype == DTYPES[argument.elem.name], argument.name
        lines.append(f"        void *a{number} = take({given.nbytes});")
        ctype = np.dtype(DTYPES[argument.elem.name]).name.replace("float16", "uint16") + "_t"
        ctype = {"float32_t": "float", "float64_t": "double"}.get(ctype, ctype)
        names.append(f"*({ctype} *)a{number}" if argument.by_value else f"a{number}")
    values = [str(call.sizes[s]) for s in entry.sizes] + names + ["NULL"]
    lines.append(f"        const int32_t status = {entry.c_name}({', '.join(values)});")
    lines.append("        put(&status, 4);")
    for number, argument in enumerate(entry.arguments):
        lines.append(f"        put(a{number}, {call.arrays[argument.name].nbytes});")
    return [*lines, "    }"]


def dtype(elem: ElemType) -> np.dtype:
    return np.dtype(DTYPES[elem.name])
