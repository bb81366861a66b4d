"""Sums of groups of products: every row of every level of features, against NumPy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tdsl.ir.dots import DOTS, TILES
from tdsl.ir.kernel import Size
from tdsl.ir.types import TYPES
from tdsl.ir.vector import (
    Buffer,
    Dot,
    FirstLanes,
    Function,
    Load,
    Part,
    Repeat,
    Store,
    Value,
    VType,
)
from tdsl.targets import Target
from tdsl.targets.dots import dot_row, tile_row
from tests.codegen.build import I, function, load, mask, mul, num, over
from tests.codegen.harness import Call, dtype, need, run

LEVELS = (
    "avx2", "avx2+vnni", "avx512", "avx512+vnni", "avx512+bf16",
    *(pytest.param(f"neon{e}", marks=pytest.mark.neon)
      for e in ("", "+dotprod", "+i8mm", "+bf16", "+dotprod+bf16")),
)  # fmt: skip
EXTREMES = {
    "u8": [0, 255, 255, 255, 128, 127, 1, 2], "i8": [-128, -128, 127, 127, -127, 1, -1, 0],
    "i16": [-32768, -32768, 32767, -1, 255, -128, 1, 0],
}  # fmt: skip
BLOCKS = 16


def values(elem: str, count: int, seed: int) -> np.ndarray:
    """Extreme values in all pairings, then random ones; bf16 as bits."""
    rng = np.random.default_rng(seed)
    if elem == "bf16":
        numbers = rng.normal(size=count).astype(np.float32)
        return (numbers.view(np.uint32) >> 16).astype(np.uint16)
    bounds = np.iinfo(dtype(TYPES[elem]))
    drawn = rng.integers(bounds.min, bounds.max + 1, count)
    extreme = rng.choice(EXTREMES[elem], count // 2)
    drawn[: count // 2] = extreme
    drawn[:8], drawn[8:16] = EXTREMES[elem][seed % 8], EXTREMES[elem][2]
    return drawn.astype(dtype(TYPES[elem]))


def numbers(array: np.ndarray, elem: str) -> np.ndarray:
    if elem == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.int64)


def make(of: Target, first: str, second: str, acc: str, lanes: int) -> Function:
    """r = a . b in four forms: whole vectors, a group for all lanes, and both with masks."""
    group = DOTS[first, second, acc]
    wide, at = group * lanes, mul(num(group), I)
    sum_type = VType(TYPES[acc], lanes)
    a, b = load("a", TYPES[first], wide, at), load("b", TYPES[second], wide, at)
    short = Load("b", at, VType(TYPES[second], group))
    part = replace(short, mask=FirstLanes(num(group - 1), mask(TYPES[second], group)))
    every = VType(mask(TYPES[first], wide).elem, wide, TYPES[first].bits)
    some = replace(a, mask=Repeat(FirstLanes(num(group - 1), mask(TYPES[first], group)), every))
    rest = replace(a, mask=FirstLanes(num(group), mask(TYPES[first], wide)))

    def repeated(value: Value) -> Value:
        return Repeat(value, b.type)

    forms = [(a, b), (a, repeated(short)), (some, repeated(part)), (rest, repeated(short))]
    c = load("c", TYPES[acc], lanes, I)
    stores = [Store(f"r{n}", I, Dot(c, x, y, sum_type)) for n, (x, y) in enumerate(forms)]
    long = (mul(num(group), Size("N")),)
    buffers = [Buffer("a", TYPES[first], long, "in"), Buffer("b", TYPES[second], long, "in")]
    buffers.append(Buffer("c", TYPES[acc], (Size("N"),), "in"))
    buffers += [Buffer(s.buffer, TYPES[acc], (Size("N"),), "out") for s in stores]
    name = f"dot_{first}_{second}_{acc}_{lanes}"
    return function(name, buffers, *(over(lanes, s) for s in stores))


def expected(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, lanes: int, group: int
) -> list[np.ndarray]:
    """`c` plus the sums, in int64 or f64."""
    a, b = a.reshape(-1, lanes, group), b.reshape(-1, lanes, group)
    shared = b[:, :1]
    cut = np.arange(group) < group - 1
    first = (np.arange(lanes * group) < group).reshape(lanes, group)
    forms = [a * b, a * shared, a * cut * shared, a * first * shared]
    return [c + f.sum(2).reshape(-1) for f in forms]


@pytest.mark.parametrize("name", LEVELS)
def test_every_row(name: str, tmp_path: Path) -> None:
    of = need(name)
    functions, calls, checks = [], [], []
    for (first, second, acc), group in DOTS.items():
        for lanes in (2, 4, 8, 16):
            if dot_row(of, first, second, lanes) is None:
                continue
            f = make(of, first, second, acc, lanes)
            count = BLOCKS * lanes
            a, b = values(first, group * count, 2), values(second, group * count, 0)
            c = np.random.default_rng(1).integers(0, 2**31, count).astype(dtype(TYPES[acc]))
            if acc == "f32":
                c = (c / 2**31).astype(np.float32)
            results = {f"r{n}": np.zeros_like(c) for n in range(4)}
            functions.append(f)
            calls.append(Call(f.name, {"N": count}, {"a": a, "b": b, "c": c, **results}))
            checks.append((first, second, acc, lanes, group))
    assert {(x[0], x[1]) for x in checks} == {(x[0], x[1]) for x in DOTS}
    _, outcomes = run(functions, calls, of, tmp_path)
    for (first, second, acc, lanes, group), call, outcome in zip(
        checks, calls, outcomes, strict=True
    ):
        assert outcome.status == 0
        a, b = numbers(call.arrays["a"], first), numbers(call.arrays["b"], second)
        c = call.arrays["c"]
        start = c.astype(np.float64 if acc == "f32" else np.int64)
        for n, want in enumerate(expected(a, b, start, lanes, group)):
            got, about = outcome.arrays[f"r{n}"], f"{call.function} r{n}"
            if acc == "f32":
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=about)
            else:
                exact = want.astype(np.uint64).astype(np.uint32).view(c.dtype)
                np.testing.assert_array_equal(got, exact, err_msg=about)


def make_tile(first: str, second: str, acc: str) -> Function:
    """r = c plus the products of two rows and two columns; its rows and its first lane alone."""
    group = TILES[first, second, acc]
    at = mul(num(group // 2), I)
    tile = VType(TYPES[acc], 4)
    operands = [load(n, TYPES[e], 2 * group, at) for n, e in (("a", first), ("b", second))]
    value = Dot(load("c", TYPES[acc], 4, I), operands[0], operands[1], tile, 2)
    parts = [Part(value, start, VType(TYPES[acc], lanes)) for start, lanes in ((0, 2), (2, 2))]
    last = Part(value, 3, VType(TYPES[acc]))
    results: list[Value] = [value, *parts, last]
    stores = [Store(f"r{n}", I, x) for n, x in enumerate(results)]
    long = (mul(num(group // 2), Size("N")),)
    buffers = [Buffer("a", TYPES[first], long, "in"), Buffer("b", TYPES[second], long, "in")]
    buffers.append(Buffer("c", TYPES[acc], (Size("N"),), "in"))
    buffers += [Buffer(s.buffer, TYPES[acc], (Size("N"),), "out") for s in stores]
    return function(f"tile_{first}_{second}_{acc}", buffers, *(over(4, s) for s in stores))


@pytest.mark.neon
@pytest.mark.parametrize(("name", "sums"), [("neon+i8mm", ("i32", "u32")), ("neon+bf16", ("f32",))])
def test_every_tile(name: str, sums: tuple[str, ...], tmp_path: Path) -> None:
    """Lane 2 * r + c adds the products of row r and column c."""
    of = need(name)
    kinds = [k for k in TILES if k[2] in sums]
    assert all(tile_row(of, first, second) for first, second, _ in kinds)
    functions, calls = [], []
    for first, second, acc in kinds:
        f, group, count = make_tile(first, second, acc), TILES[first, second, acc], 4 * BLOCKS
        a, b = values(first, group * count // 2, 2), values(second, group * count // 2, 0)
        c = np.random.default_rng(1).integers(0, 2**31, count).astype(dtype(TYPES[acc]))
        c = (c / 2**31).astype(np.float32) if acc == "f32" else c
        results = {f"r{n}": np.zeros_like(c) for n in range(4)}
        functions.append(f)
        calls.append(Call(f.name, {"N": count}, {"a": a, "b": b, "c": c, **results}))
    _, outcomes = run(functions, calls, of, tmp_path)
    for (first, second, acc), call, outcome in zip(kinds, calls, outcomes, strict=True):
        group = TILES[first, second, acc]
        a, b = (
            numbers(call.arrays[n], e).reshape(-1, 2, group)
            for n, e in (("a", first), ("b", second))
        )
        c = call.arrays["c"]
        products = np.einsum("xrt,xct->xrc", a, b).reshape(-1, 4)
        want = c.astype(np.float64 if acc == "f32" else np.int64).reshape(-1, 4) + products
        for n, (start, stop) in enumerate(((0, 4), (0, 2), (2, 4), (3, 4))):
            got = outcome.arrays[f"r{n}"].reshape(-1, 4)[:, : stop - start]
            part = want[:, start:stop]
            if acc == "f32":
                np.testing.assert_allclose(got, part, rtol=1e-5, atol=1e-5)
            else:
                exact = part.astype(np.uint64).astype(np.uint32).view(c.dtype)
                np.testing.assert_array_equal(got, exact, err_msg=f"{call.function} r{n}")
