"""Runs a kernel of text: the interpreter, and compiled code on c and on this machine's vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tdsl import driver
from tdsl.ir.arguments import ArgumentPlan
from tdsl.ir.interp import reference
from tdsl.runtime.build import load
from tdsl.runtime.callable import CompiledKernel
from tdsl.syntax.elaborate import elaborate
from tdsl.syntax.parser import parse
from tdsl.targets import runnable, target

Array = np.ndarray[Any, Any]


def targets() -> list[str]:
    """`c`, and the widest vectors that run here."""
    wide = [name for name in ("avx512", "avx2", "neon") if runnable(target(name)) is None]
    return ["c", *wide[:1]]


def interpreted(text: str, kernel: str, arrays: Mapping[str, Array], **sizes: int) -> Any:
    """What the oracle computes."""
    item = elaborate(parse(text, "t.tdsl"), kernel)
    made = {n: np.asarray(a) for n, a in arrays.items()}
    return reference(item, sizes, made)


def compiled(
    text: str, kernel: str, on: str, variant: str | None = None, **options: Any
) -> CompiledKernel:
    """The kernel as C, loaded."""
    made = driver.Options(kernel, target(on), schedule=variant, **options)
    return loaded(driver.run(parse(text, "t.tdsl"), made))


def loaded(c: driver.Compilation) -> CompiledKernel:
    """A compilation as C, loaded."""
    module = driver.emit("t", [c])
    (entry,) = driver.entries(module, [c])
    request = driver.build_request(module, c.options.target)
    return CompiledKernel(entry, ArgumentPlan(c.kernel), load(request))


def lowered(
    text: str, kernel: str, on: str = "c", variant: str | None = None
) -> driver.Compilation:
    """All passes, without a compiler of C."""
    return driver.run(parse(text, "t.tdsl"), driver.Options(kernel, target(on), schedule=variant))


def everywhere(test: Any) -> Any:
    """A test for every target that runs here."""
    return pytest.mark.parametrize("on", targets())(test)
