"""The files of the language's tour as written: every schedule, on targets that it names, by value,
with what they `expect` of the code."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tdsl
from tdsl.ir.interp import reference
from tdsl.ir.kernel import Kernel
from tdsl.schedule.choose import variants
from tdsl.syntax.elaborate import elaborate
from tdsl.syntax.parser import parse
from tdsl.targets import runnable, target
from tests.examples.arrays import Array, call, inputs
from tests.examples.cases import Sizes, sizes

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "language"
EXTENSIONS = {"qconv2d": {"avx512": "avx512+vnni", "neon": "neon+i8mm"}}

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the folder ../shared/language is not beside the checkout"
)


@dataclass(frozen=True, eq=False)
class Tour:
    """A kernel of a file, the calls that are compared, and the targets besides AVX."""

    file: str
    kernel: str
    sizes: tuple[Sizes, ...]
    more: tuple[str, ...] = ("neon",)
    scale: Mapping[str, float] = field(default_factory=dict)


KERNELS = (
    Tour("attention", "attention", sizes("B H L E", "1 1 1 1, 1 2 70 19"), ()),
    Tour("blur", "blur", sizes("H W", "3 3, 67 37, 40 261")),
    Tour("conv2d", "conv2d", sizes("N H W C K R S", "1 3 3 1 1 1 1, 2 5 17 3 35 1 1"), ()),
    Tour("dynamic", "nussinov", sizes("N", "0, 1, 13"), ("c",)),
    Tour("dynamic", "doitgen", sizes("NR NQ NP", "1 1 1, 2 9 35")),
    Tour("dynamic", "bicg", sizes("N M", "0 3, 5 70")),
    Tour("dynamic", "nearest", sizes("P K D", "1 1 1, 19 37 5")),
    Tour("fdtd2d", "fdtd2d", sizes("T NX NY", "0 2 2, 9 11 9"), ("c",)),
    Tour("lu", "lu", sizes("N", "0, 1, 37")),
    Tour("matmul", "matmul", sizes("M N K", "1 33 9, 1 2100 17, 17 65 40, 7 3 0"), ()),
    Tour("qconv2d", "qconv2d", sizes("N H W C K R S", "1 5 17 7 35 3 3"), (), {"scale": 1e-3}),
    Tour("seidel2d", "seidel2d", sizes("T N", "1 3, 9 18"), ("c",)),
    Tour("softmax", "softmax", sizes("M N", "0 1, 5 1, 3 133")),
    Tour("winograd", "winograd", sizes("N H W C K", "1 5 17 5 19"), ()),
)
# A 3 x 3 window is not for the schedule of 1 x 1 ones, which assumes nothing when taken by name.
WINDOWS = sizes("N H W C K R S", "1 4 16 2 33 3 2, 2 9 17 5 35 3 3")


def builds() -> Iterator[Any]:
    for tour in KERNELS if FOLDER.is_dir() else ():
        file = parse((FOLDER / f"{tour.file}.tdsl").read_text("utf-8"), tour.file)
        for schedule in variants(file, tour.kernel):
            name = schedule.variant or tour.kernel
            for machine in ("avx512", "avx2", *tour.more):
                full = EXTENSIONS.get(tour.file, {}).get(machine, machine)
                if {"any", machine, full}.isdisjoint(schedule.targets):
                    continue
                marks = [pytest.mark.neon] if machine == "neon" else []
                yield pytest.param(tour, full, name, id=f"{tour.kernel}-{name}-{full}", marks=marks)


@functools.cache
def text_of(file: str) -> str:
    return (FOLDER / f"{file}.tdsl").read_text("utf-8")


@functools.cache
def elaborated(tour: Tour) -> Kernel:
    return elaborate(parse(text_of(tour.file), tour.file), tour.kernel)


def given(tour: Tour, at: Sizes) -> dict[str, Array]:
    """Values as `inputs` makes them; a matrix to decompose has a heavy diagonal."""
    arrays = inputs(elaborated(tour), at, tour.scale)
    if tour.kernel == "lu":
        arrays["A"] += 2 * at["N"] * np.eye(at["N"])
    if tour.kernel == "qconv2d":
        arrays["bias"] //= 1 << 16
    return arrays


@functools.cache
def expected(tour: Tour, at: tuple[tuple[str, int], ...]) -> dict[str, Array]:
    kernel = elaborated(tour)
    arrays = given(tour, dict(at))
    found = reference(kernel, dict(at), {name: array.copy() for name, array in arrays.items()})
    return {a.name: found[a.name] for a in kernel.arguments if a.is_written}


@pytest.mark.parametrize(("tour", "machine", "schedule"), list(builds()))
def test_equals_the_interpreter(tour: Tour, machine: str, schedule: str) -> None:
    reason = runnable(target(machine))
    if reason is not None and not machine.startswith("neon"):
        pytest.skip(reason)
    function = tdsl.parse(text_of(tour.file))[tour.kernel].compile(machine, schedule=schedule)
    wide = tour.kernel == "conv2d" and schedule != "pointwise"
    for at in (*tour.sizes, *(WINDOWS if wide else ())):
        arrays = given(tour, at)
        told = {"T": at["T"]} if tour.kernel == "seidel2d" else {}
        run = functools.partial(function, **told)
        got = call(elaborated(tour), run, at, arrays, end=at["N"] % 2 == 0 if "N" in at else True)
        for name, want in expected(tour, tuple(at.items())).items():
            tolerance = 0.0 if want.dtype.kind != "f" else 1e-11 if want.itemsize == 8 else 1e-4
            np.testing.assert_allclose(got[name], want, tolerance, tolerance, err_msg=str(at))
