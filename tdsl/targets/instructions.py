"""The table of a target."""

from __future__ import annotations

from tdsl.targets.neon import NEON
from tdsl.targets.rows import Table
from tdsl.targets.target import Target
from tdsl.targets.x86 import AVX2, AVX512

_TABLES: dict[str, Table] = {"c": {}, "avx2": AVX2, "avx512": AVX512, "neon": NEON}


def instructions(target: Target) -> Table:
    """All rows of the target's instruction set."""
    return _TABLES[target.base]
