"""Small wrong changes of what is lowered are caught, but for those that change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tdsl.driver import Compilation
from tdsl.ir.dtypes import storage_dtype
from tdsl.ir.interp import reference
from tdsl.lower.check_instances import check_instances
from tdsl.polyhedral.rebuild import Miscompiled
from tdsl.polyhedral.validate import Order, validate, validate_versions
from tests.lower.brute import Memory, Wrong, run_loops, run_vector
from tests.lower.kernels import KERNELS, compiled
from tests.lower.mutants import LOOPS, VECTOR, Mutant, Mutator, mutants

MOST = 30  # mutants of one kind, spread over the tree

# What gets through though it is wrong, and why that is known.
SURVIVORS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("blocked", "vector"): {
        "step one more": "no chosen sizes have K == 0 and two blocks of columns at once"
    },
}

SIZES = {
    "conv2d": [{"H": h, "W": w} for h, w in [(3, 3), (4, 5), (3, 6), (5, 7), (3, 10)]],
    "triangle": [{"N": n} for n in (0, 1, 2, 3, 4, 5, 7, 8, 9, 13)],
    "tile": [
        dict(zip("MNK", s, strict=True))
        for s in [(0, 3, 1), (1, 1, 0), (4, 17, 1), (2, 15, 3), (3, 33, 2), (7, 16, 1), (5, 18, 0)]
    ],
    "blocked": [
        dict(zip("MNK", s, strict=True))
        for s in [
            (0, 3, 1), (1, 20, 1), (2, 4, 0), (1, 41, 5), (3, 0, 2), (1, 17, 4), (2, 36, 3),
            (2, 41, 0), (1, 39, 9), (1, 16, 0),
        ]
    ],
    "dots": [
        dict(zip("MNK", s, strict=True))
        for s in [
            (0, 3, 1), (1, 1, 0), (3, 17, 1), (2, 15, 4), (1, 33, 5), (3, 32, 3), (4, 40, 9),
            (2, 64, 8), (5, 16, 2), (1, 49, 7),
        ]
    ],
    "overrun": [
        dict(zip("MNK", s, strict=True))
        for s in [(0, 3, 1), (1, 1, 0), (2, 17, 1), (2, 15, 4), (1, 33, 5), (3, 16, 3), (2, 20, 9)]
    ],
    "epilogue": [
        dict(zip("MN", s, strict=True))
        for s in [(0, 4), (3, 0), (1, 15), (2, 16), (3, 17), (1, 33), (2, 1)]
    ],
}  # fmt: skip
ALONG = [{"N": n} for n in (*range(6), 7, 8, 9, 11, 15, 16, 17, 24, 25, 33, 49, 50)]


@dataclass(frozen=True)
class Level:
    """One of the levels that are validated: how it is changed, judged and run."""

    tree: Any
    mutators: tuple[Mutator, ...]
    judge: Callable[[Any], None]
    run: Callable[[Any, Mapping[str, int]], list[Memory]]


@cache
def made(kernel: str, target: str) -> Compilation:
    return compiled(kernel, target)


@cache
def levels(kernel: str, target: str) -> Mapping[str, Level]:
    compilation = made(kernel, target)
    program, lowered = compilation.lowered.program, compilation.lowered
    assert program is compilation.scheduled.program
    order = Order(compilation.scheduled.dependences, compilation.scheduled.reassociate)

    def vector(body: Any) -> None:
        function = replace(lowered.function, body=body)
        check_instances(program, replace(lowered, function=function), order)

    def loops(tree: Any, sizes: Mapping[str, int]) -> list[Memory]:
        return run_loops(program, tree, sizes)

    return {
        "loops": Level(lowered.loops, LOOPS, lambda t: validate(program, t, order), loops),
        "versions": Level(
            lowered.versions,
            LOOPS,
            lambda t: validate_versions(program, lowered.loops, t),
            loops,
        ),
        "vector": Level(
            lowered.function.body,
            VECTOR,
            vector,
            lambda t, sizes: [run_vector(program, t, sizes)],
        ),
    }


@cache
def wanted_at(kernel: str, target: str, number: int) -> Mapping[str, list[int | None]]:
    return expected(kernel, target, SIZES.get(kernel, ALONG)[number])


def expected(kernel: str, target: str, sizes: Mapping[str, int]) -> Mapping[str, list[int | None]]:
    """What the oracle computes from the same numbers."""
    program = made(kernel, target).scheduled.program
    start = Memory.of(program, sizes)
    inputs = {
        name: np.array(start.data[name], storage_dtype(array.type)).reshape(start.shapes[name])
        for name, array in program.arrays.items()
        if array.role in ("in", "inout")
    }
    found = reference(program.kernel, sizes, inputs)
    return {name: [int(x) for x in array.reshape(-1)] for name, array in found.items()}


def right(kernel: str, target: str, level: Level, tree: Any) -> bool:
    """Whether the code computes what the oracle does at all sizes here, in every order."""
    for number, sizes in enumerate(SIZES.get(kernel, ALONG)):
        wanted = wanted_at(kernel, target, number)
        try:
            results = level.run(tree, sizes)
        except (Wrong, KeyError, TypeError):
            return False
        for memory in results:
            if any(memory.data[name] != values for name, values in wanted.items()):
                return False
    return True


def caught(level: Level, mutant: Mutant) -> bool:
    try:
        level.judge(mutant.tree)
    except Miscompiled:
        return True
    return False


def some(found: Iterator[Mutant], most: int) -> list[Mutant]:
    """At most so many of each mutator, spread evenly."""
    kinds: dict[str, list[Mutant]] = {}
    for mutant in found:
        kinds.setdefault(mutant.name, []).append(mutant)
    share = max(1, most // max(1, len(kinds)))
    return [m for kind in kinds.values() for m in kind[:: -(-len(kind) // share)]]


CASES = [(k, "avx512") for k in KERNELS] + [("tile", "c"), ("lanes", "neon"), ("shift", "neon")]
CASES.append(("dots", "neon"))


@pytest.mark.parametrize("level", ["loops", "versions", "vector"])
@pytest.mark.parametrize(("kernel", "target"), CASES)
def test_mutants_are_caught(kernel: str, target: str, level: str) -> None:
    at = levels(kernel, target)[level]
    tried = some(mutants(at.tree, at.mutators), MOST)
    left = [m for m in tried if not caught(at, m)]
    wrong = [m for m in left if not right(kernel, target, at, m.tree)]
    known = SURVIVORS.get((kernel, level), {})
    assert {(m.name, m.where) for m in wrong if m.name not in known} == set()
    assert len(wrong) <= 0.05 * len(tried)


@pytest.mark.parametrize(("kernel", "target"), CASES)
def test_what_is_lowered_is_right(kernel: str, target: str) -> None:
    """The judge of survivors finds nothing wrong with what no one changed."""
    for level in levels(kernel, target).values():
        assert right(kernel, target, level, level.tree)
        level.judge(level.tree)
