"""Which kernels there are, the sizes at which they run, and inputs that make sense."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import tdsl

HERE = Path(__file__).resolve().parent
NAMES = tuple(sorted(p.stem for p in HERE.glob("*.tdsl")))


def text_of(name: str) -> str:
    return (HERE / f"{name}.tdsl").read_text(encoding="utf-8")


def load(name: str, directives: str = "") -> tdsl.Kernel:
    """The kernel of a file, with a schedule where there are directives."""
    text = text_of(name)
    kernel = text.split("kernel ")[1].split("(")[0]
    if directives:
        text += f"\nschedule {kernel}.given for any {{ {directives} }}\n"
    return tdsl.parse(text, name=f"{name}.tdsl")[kernel]


def sizes(kernel: tdsl.Kernel, base: int) -> dict[str, int]:
    """Different ones, and T small."""
    return {s: 3 if s == "T" else base + n for n, s in enumerate(kernel.sizes)}


def inputs(kernel: tdsl.Kernel, at: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
    """Arguments for a call: matrices with a heavy diagonal, so that all of them can be solved."""
    rng = np.random.default_rng(seed)
    made: dict[str, Any] = {}
    for a in kernel.arguments.values():
        shape = tuple(at[e] for e in a.shape)
        if a.role == "out":
            continue
        if a.type == "i32":
            made[a.name] = rng.integers(0, 4, shape).astype(np.int32)
            continue
        values = rng.random(shape) + 0.25
        if len(shape) == 2 and shape[0] == shape[1]:
            values += shape[0] * np.eye(shape[0])
        if a.name == "float_n":
            values = np.asarray(float(at["N"]))
        if a.name == "r":
            values /= 2 * max(1, values.size)
        made[a.name] = values.astype({"f64": np.float64, "f32": np.float32}[a.type])
    return made


def times(kernel: tdsl.Kernel, at: Mapping[str, int]) -> dict[str, int]:
    """The sizes that no shape determines."""
    shown = {e for a in kernel.arguments.values() for e in a.shape}
    return {s: v for s, v in at.items() if s not in shown}


def named(kernel: tdsl.Kernel, found: Any) -> dict[str, Any]:
    """Results by name."""
    roles = kernel.arguments.values()
    names = [a.name for a in roles if a.role == "out"] or [
        a.name for a in roles if a.role == "inout"
    ]
    return dict(zip(names, found if isinstance(found, tuple) else (found,), strict=True))


def run(kernel: tdsl.Kernel, function: Any, at: Mapping[str, int], seed: int) -> dict[str, Any]:
    """Everything that a call writes."""
    given = {k: v.copy() for k, v in inputs(kernel, at, seed).items()}
    found = named(kernel, function(**given, **times(kernel, at)))
    written = {a.name: given[a.name] for a in kernel.arguments.values() if a.role == "inout"}
    return {**written, **found}
