"""Cases: a kernel in text, schedules that all have to give the same result, and that result.

All cases of a target are built as one C file, since most of the C compiler's time goes into the
headers of intrinsics.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tdsl import driver
from tdsl.ir.arguments import ArgumentPlan
from tdsl.ir.dtypes import storage_dtype
from tdsl.ir.kernel import Kernel
from tdsl.runtime.build import load
from tdsl.runtime.callable import CompiledKernel
from tdsl.runtime.emulate import EmulatedKernel, build_program
from tdsl.runtime.guard import guarded, guarded_copy
from tdsl.syntax.parser import parse
from tdsl.targets import native, runnable
from tdsl.targets import target as find_target
from tdsl.targets.target import Target

Array = np.ndarray[Any, Any]
TAILS = ("guard", "mask", "peel", "cases", "narrow", "balanced")
HERE = tuple(
    name
    for name in dict.fromkeys((native().name, "avx2", "c"))
    if runnable(find_target(name)) is None
)


@dataclass(frozen=True, eq=False)
class Case:
    """`text` is a kernel named NAME; each of `schedules` is the inside of a schedule block."""

    name: str
    text: str
    schedules: tuple[str, ...]
    strict: bool
    sizes: Mapping[str, int]
    neon: bool
    check: Callable[[Callable[..., Any]], None]

    def __str__(self) -> str:
        return self.name

    def compiled(self, number: int, target: Target, prefix: str = "") -> driver.Compilation:
        """The case with one of its schedules, as far as to C."""
        name = f"{prefix}{self.name}_{number}"
        schedule = f"schedule {name} for any {{ {self.schedules[number]} }}"
        text = re.sub(r"\bNAME\b", name, self.text) + schedule
        options = driver.Options(name, target, self.sizes, strict_fp=self.strict)
        return driver.run(parse(text, f"{self.name}.tdsl"), options)


CASES: list[Case] = []


def case(
    text: str,
    *schedules: str,
    strict: bool = True,
    sizes: Mapping[str, int] | None = None,
    neon: bool = False,
) -> Callable[[Callable[[Callable[..., Any]], None]], Callable[[Callable[..., Any]], None]]:
    """Makes a case of a function that checks results: it gets a function that runs the kernel.

    The program's own order is always among the schedules.
    """

    def made(check: Callable[[Callable[..., Any]], None]) -> Callable[[Callable[..., Any]], None]:
        name = check.__name__
        CASES.append(Case(name, text, ("", *schedules), strict, sizes or {}, neon, check))
        return check

    return made


@functools.cache
def built(target: str) -> Mapping[str, list[Any]]:
    """For each case its functions, one a schedule; an exception where the case was refused."""
    machine = find_target(target)
    compiled: dict[str, Any] = {}
    for one in CASES:
        if target == "neon" and not one.neon:
            continue
        try:
            compiled[one.name] = [one.compiled(n, machine) for n in range(len(one.schedules))]
        except Exception as error:  # it fails the test of this case alone
            compiled[one.name] = error
    good = [p for parts in compiled.values() if isinstance(parts, list) for p in parts]
    made = iter(functions(good, machine, "cases"))
    return {
        name: [next(made) for _ in parts] if isinstance(parts, list) else [parts]
        for name, parts in compiled.items()
    }


def functions(parts: Sequence[driver.Compilation], target: Target, module: str) -> list[Any]:
    """The callables of several compilations, built as one C file."""
    text = driver.emit(module, parts)
    request = driver.build_request(text, target)
    entries = driver.entries(text, parts)
    plans = [ArgumentPlan(p.kernel) for p in parts]
    if runnable(target) is None:
        library = load(request, mode="shared")
        return [CompiledKernel(e, p, library) for e, p in zip(entries, plans, strict=True)]
    program = build_program(request, entries)
    return [EmulatedKernel(e, p, program) for e, p in zip(entries, plans, strict=True)]


def runner(kernel: Kernel, function: Any) -> Callable[..., Any]:
    """Runs a kernel with arrays between forbidden pages, twice; a single result or a tuple.

    Arguments are arrays and sizes by name; outputs need the sizes that no array determines.
    """

    def run(**given: Any) -> Any:
        sizes = {n: v for n, v in given.items() if n in (*kernel.sizes, *dict(kernel.bound))}
        arrays = {n: np.asarray(v) for n, v in given.items() if n not in sizes}
        plan = ArgumentPlan(kernel)
        known = {**plan.known(arrays), **sizes, **dict(kernel.bound)}
        results = []
        for end in (True, False):
            passed = {n: guarded_copy(a, end=end) for n, a in arrays.items()}
            for a in kernel.arguments:
                if a.role == "out":
                    shape = plan.shape(a.name, known)
                    passed[a.name] = poisoned(shape, storage_dtype(a.type), end=end)
            free = {n: known[n] for n in kernel.sizes if n not in plan.known(passed)}
            function(**passed, **free)
            for a in kernel.arguments:
                if a.role == "in":
                    assert passed[a.name].tobytes() == arrays[a.name].tobytes(), a.name
            results.append([passed[a.name] for a in kernel.arguments if a.role != "in"])
        for one, two in zip(*results, strict=True):
            assert one.tobytes() == two.tobytes(), "the result depends on where arrays lie"
        return results[0][0] if len(results[0]) == 1 else tuple(results[0])

    return run


def poisoned(shape: tuple[int, ...], dtype: np.dtype[Any], *, end: bool) -> Array:
    """An output between forbidden pages, full of what no kernel is asked to compute."""
    array = guarded(shape, dtype, end=end)
    if dtype.kind == "b":
        array.view(np.uint8)[...] = 0xAB
    else:
        array[...] = np.nan if dtype.kind == "f" else 101
    return array


def same(got: Array, want: Any) -> None:
    """Equal, every NaN to every other; zeros have their signs."""
    expected = np.asarray(want, got.dtype)
    np.testing.assert_array_equal(got, expected)
    if got.dtype.kind == "f":
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))


def tails(template: str, words: Sequence[str] = TAILS) -> list[str]:
    """A schedule once with each tail in the place of TAIL, and once without any."""
    return [template.replace("TAIL", "")] + [template.replace("TAIL", f"tail {w}") for w in words]


def product(template: str, **choices: Sequence[str]) -> list[str]:
    """A schedule with every combination of texts for words in capitals."""
    found = []
    for values in itertools.product(*choices.values()):
        text = template
        for word, value in zip(choices, values, strict=True):
            text = text.replace(word, value)
        found.append(text)
    return found
