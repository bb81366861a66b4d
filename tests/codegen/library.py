"""Builds a module as a shared library for this process and calls it through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tdsl.codegen import CModule
from tdsl.targets import Target, compile_flags
from tests.codegen.harness import WARNINGS, compiler, execute, write


def build(module: CModule, of: Target, folder: Path, flags: Sequence[str] = ()) -> ctypes.CDLL:
    """The library of a module."""
    source = write(module, folder)
    path = folder / f"lib{module.name}.so"
    execute(
        [compiler(of), *compile_flags(of), *WARNINGS, *flags, "-shared", "-fPIC", source,
         "-o", path, "-lm"]
    )  # fmt: skip
    return ctypes.CDLL(str(path))


def status(library: ctypes.CDLL, name: str, *arguments: Any) -> int:
    """Call an entry: ints are sizes, arrays and None are pointers, ctypes values themselves."""
    return int(getattr(library, name)(*(_pass(a) for a in arguments)))


def _pass(argument: Any) -> Any:
    if isinstance(argument, int):
        return ctypes.c_int64(argument)
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.ctypes.data)
    if argument is None:
        return ctypes.c_void_p(None)
    return argument
