"""Instruction sets: one table each, a row an instruction."""

from tdsl.targets.instructions import instructions
from tdsl.targets.rows import Row, Table
from tdsl.targets.target import (
    TARGETS,
    Target,
    compile_flags,
    cpu_features,
    machine,
    native,
    runnable,
    target,
)

__all__ = [
    "TARGETS",
    "Row",
    "Table",
    "Target",
    "compile_flags",
    "cpu_features",
    "instructions",
    "machine",
    "native",
    "runnable",
    "target",
]
