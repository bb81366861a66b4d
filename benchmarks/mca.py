"""What llvm-mca says of the NEON kernels' innermost loops: `python -m benchmarks.mca`.

No AArch64 machine is needed. The cross compiler's assembly of a loop goes to `llvm-mca`, which
simulates it on a core's published model; the figure is that of multiply-adds a cycle, of which the
cores named here can start two.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tdsl
from benchmarks.case import OPS

CORES = ("neoverse-n1", "neoverse-v1")
PIPES = {"neoverse-n1": 2, "neoverse-v1": 4}
PROGRAMS = ("llvm-mca-20", "llvm-mca-19", "llvm-mca")
ITERATIONS = 200
CYCLES = re.compile(r"^Total Cycles:\s+(\d+)", re.MULTILINE)
LABEL = re.compile(r"^(\.L\w+):")
JUMP = re.compile(r"^\s+(?:b\.?\w*|cbn?z|tbn?z)\s+(?:.*,\s*)?(\.L\w+)")
STACK = re.compile(r"\[(sp|x29)\b")


@dataclass(frozen=True)
class Kernel:
    """One microkernel: what counts in its loop, and how it is made."""

    name: str
    file: str
    kernel: str
    target: str
    schedule: str
    counted: str  # instructions that the loop should be made of
    knobs: dict[str, int]
    sizes: dict[str, int]
    cores: tuple[str, ...] = CORES


SQUARE = {"M": 96, "N": 96, "K": 256}
KERNELS = (
    Kernel("f32 8x12", "gemm", "matmul", "neon", "packed", "fmla", {"MR": 8, "NV": 3}, SQUARE),
    Kernel("s8 8x12 sdot", "qgemm", "igemm", "neon+dotprod", "dot", "sdot", {}, SQUARE),
    Kernel(
        "s8 8x12 smmla", "qgemm", "igemm", "neon+i8mm", "squares", "smmla", {}, SQUARE,
        ("neoverse-v1",),
    ),
)  # fmt: skip


def inner_loop(kernel: Kernel) -> list[str]:
    """The innermost loop with the most instructions that count."""
    module: Any = tdsl.load(OPS / f"{kernel.file}.tdsl")[kernel.kernel]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        built = module.compile(
            target=kernel.target, schedule=kernel.schedule, knobs=kernel.knobs, sizes=kernel.sizes
        )
    rows = built.assembly.splitlines()
    return max(straight(rows), key=lambda found: counted(found, kernel.counted))


def straight(rows: list[str]) -> Iterator[list[str]]:
    """From each label to the first jump, where that goes back to it."""
    for first, row in enumerate(rows):
        label = LABEL.match(row)
        if label is None:
            continue
        for last in range(first + 1, len(rows)):
            jump = JUMP.match(rows[last])
            if jump is not None:
                if jump[1] == label[1]:
                    yield rows[first : last + 1]
                break


def counted(rows: list[str], name: str) -> int:
    """How often the instruction stands there."""
    return sum(re.match(rf"\s+{name}\b", row) is not None for row in rows)


def cycles(rows: list[str], core: str, program: str) -> float:
    """Cycles of one trip through the loop."""
    code = "\n".join(row for row in rows if re.match(r"\s+[a-z]|\.?\w+:", row))
    done = subprocess.run(
        [program, "-mtriple=aarch64", f"-mcpu={core}", f"-iterations={ITERATIONS}"],
        input=code, capture_output=True, text=True, check=True,
    )  # fmt: skip
    total = CYCLES.search(done.stdout)
    if total is None:
        raise RuntimeError(f"{program} gave no cycles:\n{done.stdout}")
    return int(total[1]) / ITERATIONS


def main() -> None:
    """A table of Markdown."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        sys.exit("llvm-mca is not installed (Debian: llvm-19)")
    print("| kernel | core | a trip | cycles | a cycle | of the pipes | accesses to the stack |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for kernel in KERNELS:
        rows = inner_loop(kernel)
        operations = counted(rows, kernel.counted)
        stack = sum(STACK.search(row) is not None for row in rows)
        for core in kernel.cores:
            trip = cycles(rows, core, program)
            rate = operations / trip
            print(
                f"| {kernel.name} | {core} | {operations} {kernel.counted} | {trip:.2f} "
                f"| {rate:.2f} | {rate / PIPES[core]:.1%} | {stack} |"
            )


if __name__ == "__main__":
    main()
