"""Every schedule of every example, on every target, equals the interpreter.

Bit for bit under strict_fp; without it (fused multiply-adds) within the error of the sums.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tdsl
from tdsl.ir.interp import reference
from tdsl.ir.kernel import Kernel
from tdsl.schedule.choose import variants
from tdsl.syntax.elaborate import elaborate
from tdsl.targets import native, runnable, target
from tests.examples.arrays import Array, call, inputs, same
from tests.examples.cases import CASES, EXAMPLES, Case, Sizes

Build = tuple[Case, str, str]  # case, target, schedule
NATIVE = native().name
TARGETS = tuple(dict.fromkeys((NATIVE, "c", "avx2", "neon")))


def builds() -> Iterator[Any]:
    """Each schedule with each of the targets that it names."""
    for case in CASES:
        module = tdsl.load(case.path)
        for schedule in variants(module.file, case.kernel):
            name = schedule.variant or case.kernel
            for machine in TARGETS:
                if {"any", machine.partition("+")[0]}.isdisjoint(schedule.targets):
                    continue
                marks = [pytest.mark.neon] if machine == "neon" and NATIVE != "neon" else []
                yield pytest.param(
                    (case, machine, name), id=f"{case}-{name}-{machine}", marks=marks
                )


def compiled(build: Build, strict_fp: bool) -> Any:
    case, machine, schedule = build
    reason = runnable(target(machine))
    if reason is not None and machine != "neon":
        pytest.skip(reason)
    kernel = tdsl.load(case.path)[case.kernel]
    return kernel.compile(machine, constants=case.constants, schedule=schedule, strict_fp=strict_fp)


@functools.cache
def elaborated(case: Case) -> Kernel:
    return elaborate(tdsl.load(case.path).file, case.kernel, case.constants)


@functools.cache
def expected(case: Case, place: int) -> tuple[dict[str, Array], dict[str, Array]]:
    """Inputs and what the interpreter makes of them, for the call at `place`."""
    kernel, sizes = elaborated(case), case.sizes[place]
    arrays = inputs(kernel, sizes, case.scale)
    found = reference(kernel, sizes, {name: array.copy() for name, array in arrays.items()})
    return arrays, {a.name: found[a.name] for a in kernel.arguments if a.is_written}


@pytest.mark.parametrize("build", list(builds()))
def test_equals_the_interpreter_bit_for_bit(build: Build) -> None:
    case = build[0]
    function = compiled(build, strict_fp=True)
    for place, sizes in enumerate(case.sizes):
        arrays, want = expected(case, place)
        for end in (True, False) if place % 3 == 0 else (place % 2 == 0,):
            got = call(elaborated(case), function, sizes, arrays, end=end)
            for name, array in want.items():
                assert same(got[name], array), f"{name} differs with {described(sizes)}"


@pytest.mark.parametrize("build", [p for p in builds() if p.values[0][1] in (NATIVE, "neon")])
def test_equals_the_interpreter_within_rounding(build: Build) -> None:
    case = build[0]
    function = compiled(build, strict_fp=False)
    for place, sizes in enumerate(case.sizes):
        if place % 2 and build[1] == "neon":
            continue
        arrays, want = expected(case, place)
        got = call(elaborated(case), function, sizes, arrays, end=place % 2 == 0)
        for name, array in want.items():
            # Quotients of LU grow; all other values are sums of few terms of size one.
            tolerance = 1e-3 if case.kernel == "lu" else 1e-5
            if array.dtype.kind == "f":
                np.testing.assert_allclose(got[name], array, tolerance, tolerance, equal_nan=True)
            else:
                assert same(got[name], array), f"{name} differs with {described(sizes)}"


def test_every_kernel_of_every_file_is_among_the_cases() -> None:
    here = {(case.file, case.kernel) for case in CASES}
    there = {(p.stem, name) for p in EXAMPLES.glob("*.tdsl") for name in tdsl.load(p).kernels}
    assert here == there


def described(sizes: Sizes) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sizes.items())
