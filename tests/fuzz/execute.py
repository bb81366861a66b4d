"""Compiles batches of drawn kernels with their schedules and compares with the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

from tdsl import driver
from tdsl.diagnostics import Error
from tdsl.ir.arguments import ArgumentPlan
from tdsl.ir.dtypes import storage_dtype
from tdsl.ir.interp import reference
from tdsl.ir.kernel import Kernel
from tdsl.runtime.guard import guarded_copy
from tdsl.syntax import tree
from tdsl.syntax.parser import parse
from tdsl.targets.target import Target
from tests.cases.harness import poisoned
from tests.fuzz.kernels import Drawn, drawn
from tests.fuzz.schedules import Grower

Array = np.ndarray[Any, Any]
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 15, 16, 17, 19, 20, 21, 31, 33)


@dataclass(frozen=True)
class Example:
    """A kernel with a schedule, ready to be compiled. `text` is a whole file."""

    name: str
    text: str
    drawn: Drawn
    lines: tuple[str, ...]
    bound: Mapping[str, int]
    strict: bool
    seed: int

    def options(self, target: Target) -> driver.Options:
        return driver.Options(self.name, target, self.bound, strict_fp=self.strict)

    def compiled(self, target: Target) -> driver.Compilation:
        return driver.run(parse(self.text, f"{self.name}.tdsl"), self.options(target))

    def calls(self, count: int) -> list[dict[str, int]]:
        """Sizes of some calls, bound ones included."""
        rng = Random(self.seed)
        least = self.drawn.least
        calls = []
        for n in range(count):
            values = [s for s in SIZES if s >= least]
            sizes = {s: rng.choice(values) for s in self.drawn.sizes}
            if n == 0:
                sizes = dict.fromkeys(self.drawn.sizes, max(least, 1))
            if len(sizes) == 3:
                sizes = {s: min(v, 19) for s, v in sizes.items()}
            calls.append({**sizes, **self.bound})
        return calls

    def __str__(self) -> str:
        bound = " ".join(f"--size {n}={v}" for n, v in self.bound.items())
        return f"# {bound}{' --strict-fp' if self.strict else ''}\n{self.text}"


def example(rng: Random, name: str, target: Target, seconds: float = 20.0) -> Example | None:
    """A random example; None where the kernel itself is refused."""
    strict = rng.random() < 0.6
    kernel = drawn(rng, exact=not strict)
    bound = {s: rng.choice((1, 3, 4, 8, 16, 17, 24)) for s in kernel.sizes if rng.random() < 0.25}
    text = kernel.text.replace("NAME", name)
    options = driver.Options(name, target, bound, strict_fp=strict)
    try:
        front = driver.run(parse(text, "kernel.tdsl"), options, until="variant")
    except Error:
        return None

    def accepts(lines: list[str]) -> bool:
        file = parse(_scheduled(text, name, lines), "kernel.tdsl")
        variant = next(i for i in file.items if isinstance(i, tree.Schedule))
        try:
            driver.resume(replace(front, file=file), options, variant, until="tree")
        except Error:
            return False
        return True

    grower = Grower(rng, {s: list(loops) for s, loops in kernel.loops.items()})
    grower.grow(rng.randint(1, 9), accepts, seconds)
    lines = tuple(grower.lines)
    seed = rng.randint(0, 10**6)
    return Example(name, _scheduled(text, name, lines), kernel, lines, bound, strict, seed)


def _scheduled(text: str, name: str, lines: Sequence[str]) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"{text}schedule {name} for any {{\n{body}}}\n"


def inputs(kernel: Kernel, sizes: Mapping[str, int], rng: np.random.Generator,
           *, exact: bool) -> dict[str, Array]:  # fmt: skip
    """All arguments but outputs. exact: small integers where they are floats."""
    plan, made = ArgumentPlan(kernel), {}
    for argument in kernel.arguments:
        if argument.role == "out":
            continue
        shape, dtype = plan.shape(argument.name, sizes), storage_dtype(argument.type)
        if dtype.kind == "f":
            values = rng.integers(-4, 5, shape).astype(dtype)
            if not exact:
                values = rng.standard_normal(shape).astype(dtype)
                special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30], dtype)
                where = rng.random(shape) < 0.06
                values = np.where(where, rng.choice(special, shape), values).astype(dtype)
        elif dtype.kind == "b":
            values = rng.random(shape) < 0.5
        else:
            limits = np.iinfo(dtype)
            values = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
            small = rng.integers(0 if dtype.kind == "u" else -9, 10, shape).astype(dtype)
            values = np.where(rng.random(shape) < 0.6, small, values)
        made[argument.name] = np.asarray(values, dtype)
    return made


def differences(
    kernel: Kernel, function: Any, calls: Sequence[Mapping[str, int]], strict: bool, seed: int
) -> list[str]:
    """What a compiled kernel computes otherwise than the interpreter."""
    found = []
    for number, sizes in enumerate(calls):
        arrays = inputs(kernel, sizes, np.random.default_rng(seed + number), exact=not strict)
        wanted = reference(kernel, sizes, {n: a.copy() for n, a in arrays.items()})
        end = number % 2 == 0
        passed = {n: guarded_copy(a, end=end) for n, a in arrays.items()}
        plan = ArgumentPlan(kernel)
        for a in kernel.arguments:
            if a.role == "out":
                shape = plan.shape(a.name, sizes)
                passed[a.name] = poisoned(shape, storage_dtype(a.type), end=end)
        free = {n: v for n, v in sizes.items() if n in kernel.sizes}
        known = plan.known(passed)
        function(**passed, **{n: v for n, v in free.items() if n not in known})
        for name, want in wanted.items():
            if not equal(passed[name], want, strict):
                got = passed[name]
                bad = np.argwhere(~((got == want) | ((got != got) & (want != want))))[:3]
                at = [(tuple(int(x) for x in b), got[tuple(b)], want[tuple(b)]) for b in bad]
                found.append(f"{name} with {dict(sizes)}: (place, got, want) {at}")
        for a in kernel.arguments:
            if a.role == "in" and passed[a.name].tobytes() != arrays[a.name].tobytes():
                found.append(f"the input {a.name} was written")
    return found


def equal(got: Array, want: Array, strict: bool) -> bool:
    """Bit for bit under `strict`, but for the payload of NaN; else within rounding."""
    if got.dtype.kind == "b":
        got = got.view(np.uint8).copy()
        return bool(np.array_equal(got, want.astype(np.uint8)))
    if got.dtype.kind != "f":
        return bool(np.array_equal(got, want))
    if not strict:
        return bool(np.allclose(got, want, rtol=1e-4, atol=1e-4, equal_nan=True))
    numbers = ~np.isnan(want)
    return bool(
        np.array_equal(got, want, equal_nan=True)
        and np.array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))
    )
