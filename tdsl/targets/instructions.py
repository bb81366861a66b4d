"""The table of a target."""

from __future__ import annotations

from functools import cache

from tdsl.targets.halves import BF16, FP16
from tdsl.targets.neon import NEON
from tdsl.targets.rows import Table
from tdsl.targets.target import Target
from tdsl.targets.x86 import AVX2, AVX512

_TABLES: dict[str, Table] = {"c": {}, "avx2": AVX2, "avx512": AVX512, "neon": NEON}
_EXTENSIONS: dict[tuple[str, str], Table] = {("neon", "fp16"): FP16, ("neon", "bf16"): BF16}


@cache
def instructions(target: Target) -> Table:
    """All rows of the target's instruction set and its extensions."""
    found = dict(_TABLES[target.base])
    for (base, feature), more in _EXTENSIONS.items():
        if base == target.base and feature in target.features:
            found.update(more)
    return found
