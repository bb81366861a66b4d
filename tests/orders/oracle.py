"""A kernel under a schedule, against the interpreter, bit for bit under strict_fp."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import tdsl
from tdsl.targets import native

TARGETS = tuple(dict.fromkeys(("c", native().name)))


def arrays_for(kernel: tdsl.Kernel, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
    """Random inputs; matrices that are divided by are not near zero."""
    rng = np.random.default_rng(seed)
    made: dict[str, Any] = {}
    for argument in kernel.arguments.values():
        shape = tuple(int(eval(e, {}, dict(sizes))) for e in argument.shape)
        if argument.role == "out":
            continue
        dtype = {"f32": np.float32, "f64": np.float64}.get(argument.type)
        if dtype is None:
            kinds = {"i": "int", "u": "uint"}
            name = kinds[argument.type[0]] + argument.type[1:]
            made[argument.name] = rng.integers(0, 4, shape).astype(name)
        else:
            made[argument.name] = (rng.random(shape) + 0.5).astype(dtype)
    return made


def held(
    module: tdsl.Module,
    name: str,
    calls: list[Mapping[str, int]],
    schedule: Any = None,
    target: str = "c",
    constants: Mapping[str, Any] | None = None,
    strict_fp: bool = True,
    tolerance: float = 0.0,
) -> None:
    """Every call gives what the interpreter gives."""
    kernel = module[name]
    fast = kernel.compile(target, schedule=schedule, strict_fp=strict_fp, constants=constants)
    for seed, sizes in enumerate(calls):
        arrays = arrays_for(kernel, sizes, seed)
        free = {s: sizes[s] for s in fast.free_sizes} if hasattr(fast, "free_sizes") else {}
        want = kernel.reference(constants or {}, **copied(arrays), **unshaped(kernel, sizes))
        got = fast(**copied(arrays), **unshaped(kernel, sizes), **free)
        for one, other in zip(tupled(got), tupled(want), strict=True):
            if tolerance:
                np.testing.assert_allclose(one, other, tolerance, tolerance)
            else:
                np.testing.assert_array_equal(one, other, err_msg=f"{sizes}")


def unshaped(kernel: tdsl.Kernel, sizes: Mapping[str, int]) -> dict[str, int]:
    """Sizes that no shape determines are keywords of the call."""
    shown = {e for a in kernel.arguments.values() for e in a.shape}
    return {name: value for name, value in sizes.items() if name not in shown}


def copied(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: array.copy() for name, array in arrays.items()}


def tupled(values: Any) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) else (values,)
