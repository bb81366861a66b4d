"""What a target is: its registers, features and compilers; which one this machine is."""

from __future__ import annotations

import difflib
import platform
import shutil
import subprocess
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tdsl.diagnostics import Diagnostic, Note, UnsupportedTarget
from tdsl.ir.types import ElemType

LANES_OF_C = 4  # `lanes(f32)` where there are no vectors, so that schedules still resolve


@dataclass(frozen=True)
class Target:
    """An instruction set.

    name        as the user writes it, extensions included: "avx512+vnni"
    family      "x86", "neon" or "c"
    features    what the processor must have (names of `__builtin_cpu_supports`, on AArch64 of
                gcc's -march), the extensions' too
    registers   vector registers
    widths      usable register widths in bytes, widest first; () on c
    compilers   programs to try, in this order
    """

    name: str
    family: str
    features: frozenset[str]
    registers: int
    widths: tuple[int, ...]
    has_fma: bool
    compilers: tuple[str, ...] = ("gcc", "clang", "cc")

    @property
    def base(self) -> str:
        """The name without extensions."""
        return self.name.split("+")[0]

    @property
    def required(self) -> frozenset[str]:
        """What all code for the target needs; features of extensions only where rows use them."""
        return TARGETS[self.base].features

    @property
    def vector_bytes(self) -> int:
        """Bytes of the widest register; 0 where there are none."""
        return self.widths[0] if self.widths else 0

    @property
    def has_mask_registers(self) -> bool:
        """Masks are bits in a register of their own, not lanes of ones."""
        return "avx512f" in self.features

    def lanes(self, elem: ElemType) -> int:
        """Elements in the widest register."""
        if not self.widths:
            return max(1, LANES_OF_C * 4 // elem.bytes)
        return self.vector_bytes // elem.bytes

    def register_bytes(self, elem: ElemType, lanes: int) -> int | None:
        """Width of the narrowest register that holds the vector, or None."""
        need = elem.bytes * lanes
        return min((w for w in self.widths if w >= need), default=None)


_AVX2 = frozenset({"avx2", "fma"})
_AVX512 = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma"})
_CROSS = ("aarch64-linux-gnu-gcc", "clang")

TARGETS: dict[str, Target] = {
    "c": Target("c", "c", frozenset(), 16, (), False),
    "avx2": Target("avx2", "x86", _AVX2, 16, (32, 16), True),
    "avx512": Target("avx512", "x86", _AVX512, 32, (64, 32, 16), True),
    "neon": Target("neon", "neon", frozenset(), 32, (16, 8), True),
}
# Base -> extension -> the features that it stands for.
EXTENSIONS: dict[str, dict[str, frozenset[str]]] = {
    "avx512": {"vnni": frozenset({"avx512vnni"}), "bf16": frozenset({"avx512bf16"})},
    "avx2": {"vnni": frozenset({"avxvnni"})},
    "neon": {
        "dotprod": frozenset({"dotprod"}),
        "i8mm": frozenset({"i8mm", "dotprod"}),
        "bf16": frozenset({"bf16"}),
        "fp16": frozenset({"fp16"}),
    },
}
_DETECTED = {"avx2": _AVX2 | {"f16c"}, "avx512": _AVX512 | {"f16c"}}
_ARM = {"asimddp": "dotprod", "asimdhp": "fp16"}  # what Linux calls them


def target(name: str) -> Target:
    """The target of that name, `native` included; extensions follow a plus: "avx512+vnni"."""
    if name == "native":
        return native()
    base, *extensions = name.split("+")
    if base not in TARGETS:
        raise _unknown(name, base, (*TARGETS, "native"))
    found = _for_this_machine(TARGETS[base])
    for extension in extensions:
        possible = EXTENSIONS.get(base, {})
        if extension not in possible:
            raise _unknown(name, extension, tuple(possible))
        found = replace(found, features=found.features | possible[extension])
    return replace(found, name="+".join([base, *sorted(set(extensions))]))


def _unknown(name: str, part: str, known: tuple[str, ...]) -> UnsupportedTarget:
    close = difflib.get_close_matches(part, known, n=3, cutoff=0.5)
    notes = (Note("known here: " + ", ".join(known)),) if known else ()
    return UnsupportedTarget(
        Diagnostic(
            f"there is no target {name!r}" + (f": {part!r} is unknown" if part != name else ""),
            code=UnsupportedTarget.code,
            notes=notes,
            help=f"did you mean {' or '.join(map(repr, close))}?" if close else None,
        )
    )


def _for_this_machine(found: Target) -> Target:
    """NEON code for another machine wants a cross compiler; on AArch64 the system's will do."""
    if found.family == "neon" and machine() != "aarch64":
        return replace(found, compilers=_CROSS)
    return found


def machine() -> str:
    """The processor's architecture: "x86_64", "aarch64", or what the system calls it."""
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


@cache
def cpu_features() -> frozenset[str]:
    """Names of the processor's features as compilers spell them."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("flags", "Features"):
                words = (word.replace("_", "") for word in value.split())
                return frozenset(_ARM.get(word, word) for word in words)
        return frozenset()
    sysctl = shutil.which("sysctl")
    if sysctl is None:
        return frozenset()
    keys = ("machdep.cpu.features", "machdep.cpu.leaf7_features")
    done = subprocess.run([sysctl, "-n", *keys], capture_output=True, text=True, check=False)
    return frozenset(word.lower().replace("_", "") for word in done.stdout.split())


@cache
def native() -> Target:
    """The widest target that this machine runs, with all extensions that it has."""
    base = "c"
    if machine() == "aarch64":
        base = "neon"
    elif machine() == "x86_64":
        fitting = (name for name in ("avx512", "avx2") if cpu_features() >= _DETECTED[name])
        base = next(fitting, "c")
    has = (e for e, needs in EXTENSIONS.get(base, {}).items() if needs <= cpu_features())
    return target("+".join([base, *has]))


def runnable(of: Target) -> str | None:
    """Why code for the target cannot run on this machine directly; None where it can."""
    if of.family == "c":
        return None
    if of.family == "neon":
        if machine() != "aarch64":
            return f"this machine is {machine()}, not aarch64"
        missing = of.features - cpu_features()
    else:
        if machine() != "x86_64":
            return f"this machine is {machine()}, not x86_64"
        missing = (of.features | _DETECTED[of.base]) - cpu_features()
    return f"this processor lacks {', '.join(sorted(missing))}" if missing else None


def compile_flags(of: Target) -> tuple[str, ...]:
    """Flags that generated code is compiled with, besides those of the output's kind.

    -O1: every vector operation is spelt out, and -O2 carries loads of unrolled bodies across
    iterations until they spill. Plain C has no vectors to protect and gains from -O2.
    -fno-math-errno lets sqrt, floor and the like be one instruction; nothing reads errno.
    -fno-move-loop-invariants: what gcc 12 moves out of loops that late, such as zeros, takes the
    registers of a tile that just fits. -mtune=skylake-avx512: with it, gcc 12 finds registers for
    more of the long straight code of AVX-512.
    No -march: functions carry their target as an attribute.
    """
    level = "-O2" if of.family == "c" else "-O1"
    flags = (level, "-std=gnu11", "-ffp-contract=off", "-fno-math-errno")
    if of.family != "x86":
        return flags
    tune = ("-mtune=skylake-avx512",) if of.has_mask_registers else ()
    return (*flags, "-fno-move-loop-invariants", *tune)
