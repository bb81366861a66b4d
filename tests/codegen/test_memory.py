"""Loads, stores, gathers, masks and reductions: what is touched, and what comes of it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tdsl.ir.kernel import INDEX, Op, Size
from tdsl.ir.types import BOOL, I64, TYPES, ElemType
from tdsl.ir.vector import (
    Block,
    Buffer,
    Cast,
    Choose,
    Condition,
    Const,
    FirstLanes,
    Function,
    Gather,
    Iota,
    Let,
    Load,
    Reduce,
    Ref,
    Store,
    Value,
    VType,
)
from tdsl.ir.vector import Op as VOp
from tdsl.targets import Target
from tests.codegen.build import compare, load, mask, num
from tests.codegen.harness import NAMES, Call, dtype, need, run

MOVED = tuple(TYPES.values())


def register_lanes(of: Target, elem: ElemType) -> list[int]:
    """Lanes of every register, and of every part of the narrowest."""
    if not of.widths:
        return [1]
    found, part = {w // elem.bytes for w in of.widths}, of.widths[-1] // elem.bytes
    while part > 1:
        found.add(part)
        part //= 2
    return sorted(n for n in found | {1} if n >= 1)


def numbers(elem: ElemType, count: int, start: int = 1) -> np.ndarray:
    if elem == BOOL:
        return np.asarray(np.arange(start, start + count) % 3 != 0, np.uint8)
    values: np.ndarray = np.arange(start, start + count).astype(dtype(elem))
    return values


def one(name: str, sizes: tuple[str, ...], buffers: list[Buffer], *items: Store | Let) -> Function:
    return Function(name, sizes, tuple(buffers), (), Block(items))


@pytest.mark.parametrize("name", NAMES)
def test_masked_and_whole_moves(name: str, tmp_path: Path) -> None:
    """The arrays hold just the lanes of the mask and end at a guard page."""
    of = need(name)
    functions, calls = [], []
    for elem in MOVED:
        for lanes in register_lanes(of, elem):
            vtype = VType(elem, lanes)
            whole = Store("y", num(0), load("x", elem, lanes, num(0)))
            sides = [Buffer("x", elem, (Size("N"),), "in"), Buffer("y", elem, (Size("N"),), "out")]
            f = one(f"move_{elem}x{lanes}", ("N",), sides, whole)
            functions.append(f)
            x = numbers(elem, lanes)
            calls.append(Call(f.name, {"N": lanes}, {"x": x, "y": np.zeros_like(x)}))
            # Only N elements exist, and `count` of them are to move; z takes all lanes.
            first = FirstLanes(Op("sub", (Size("K"), num(8)), INDEX), mask(elem, lanes))
            masked = Load("x", num(0), vtype, None, first)
            sides = [*sides, Buffer("z", elem, (num(lanes),), "out")]
            f = one(f"masked_{elem}x{lanes}", ("N", "K"), sides, Let("v", masked),
                    Store("y", num(0), Ref("v", vtype), None, first),
                    Store("z", num(0), Ref("v", vtype)))  # fmt: skip
            functions.append(f)
            for count in (-8, -1, *range(lanes + 1), lanes + 3):
                here = min(max(count, 0), lanes)
                x, z = numbers(elem, here), np.full(lanes, 1, dtype(elem))
                arrays = {"x": x, "y": np.zeros_like(x), "z": z}
                calls.append(Call(f.name, {"N": here, "K": count + 8}, arrays))
    _, outcomes = run(functions, calls, of, tmp_path)
    for call, outcome in zip(calls, outcomes, strict=True):
        x = call.arrays["x"]
        assert outcome.status == 0, call.function
        np.testing.assert_array_equal(outcome.arrays["y"], x, err_msg=call.function)
        if "z" in outcome.arrays:
            z = outcome.arrays["z"]
            np.testing.assert_array_equal(z[: x.size], x, err_msg=call.function)
            assert not z[x.size :].any(), call.function


@pytest.mark.parametrize("name", NAMES)
def test_masked_stores_leave_the_rest(name: str, tmp_path: Path) -> None:
    """An irregular mask: every third lane is written, the others keep what they held."""
    of = need(name)
    functions, calls = [], []
    for elem in MOVED:
        if elem.name in ("f16", "bf16", "bool"):
            continue
        for lanes in register_lanes(of, elem):
            test = VOp("eq", (load("x", elem, lanes, num(0)), Const(1, VType(elem, lanes))),
                       mask(elem, lanes))  # fmt: skip
            loaded = Load("x", num(0), VType(elem, lanes), None, test)
            sides = [Buffer("x", elem, (num(lanes),), "in"),
                     Buffer("y", elem, (num(lanes),), "inout"),
                     Buffer("z", elem, (num(lanes),), "out")]  # fmt: skip
            f = one(f"third_{elem}x{lanes}", (), sides,
                    Store("y", num(0), Const(5, VType(elem, lanes)), None, test),
                    Store("z", num(0), loaded))  # fmt: skip
            functions.append(f)
            x = (np.arange(lanes) % 3 == 1).astype(dtype(elem))
            arrays = {"x": x, "y": numbers(elem, lanes, 20), "z": np.full_like(x, 3)}
            calls.append(Call(f.name, {}, arrays))
    _, outcomes = run(functions, calls, of, tmp_path)
    for call, outcome in zip(calls, outcomes, strict=True):
        x, y = call.arrays["x"], call.arrays["y"]
        np.testing.assert_array_equal(outcome.arrays["y"], np.where(x == 1, 5, y), call.function)
        np.testing.assert_array_equal(outcome.arrays["z"], x, call.function)


@pytest.mark.parametrize("name", NAMES)
def test_strides_and_gathers(name: str, tmp_path: Path) -> None:
    of = need(name)
    functions, calls, wants = [], [], []
    for elem in (TYPES[n] for n in ("f32", "f64", "u8", "i16", "bf16")):
        for lanes in register_lanes(of, elem):
            if lanes > 1 and of.register_bytes(I64, lanes) is None:
                continue
            vtype, index = VType(elem, lanes), VType(I64, lanes)
            first = FirstLanes(Size("K"), mask(elem, lanes))
            offsets = Load("p", num(0), index)
            whole = 3 * lanes
            sides = [Buffer("x", elem, (num(whole),), "in"), Buffer("p", I64, (num(lanes),), "in")]
            places: dict[str, Value] = {
                "by3": Load("x", num(1), vtype, num(3)),
                "back": Load("x", num(lanes - 1), vtype, num(-1)),
                "part": Load("x", num(2), vtype, num(3), first),
                "gather": Gather("x", offsets, vtype),
                "some": Gather("x", offsets, vtype, first),
            }
            stores = [Store(r, num(0), value) for r, value in places.items()]
            stores.append(Store("far", num(1), Load("x", num(0), vtype), num(3)))
            stores.append(Store("few", num(1), Load("x", num(0), vtype), num(3), first))
            sides += [Buffer(r, elem, (num(lanes),), "out") for r in places]
            sides += [Buffer(r, elem, (num(whole),), "inout") for r in ("far", "few")]
            f = one(f"strided_{elem}x{lanes}", ("K",), sides, *stores)
            functions.append(f)
            x = numbers(elem, whole)
            p = np.random.default_rng(7).integers(0, whole, lanes)
            count = max(1, lanes // 2)
            far, few = np.zeros_like(x), np.zeros_like(x)
            far[1::3] = x[:lanes]
            few[1 : 1 + 3 * count : 3] = x[:count]
            on = np.arange(lanes) < count
            want = {"by3": x[1::3], "back": x[:lanes][::-1], "gather": x[p]}
            want |= {"part": np.where(on, x[2::3], 0), "some": np.where(on, x[p], 0)}
            want |= {"far": far, "few": few}
            arrays = {r: np.zeros(lanes, dtype(elem)) for r in places}
            arrays |= {"x": x, "p": p, "far": np.zeros_like(x), "few": np.zeros_like(x)}
            calls.append(Call(f.name, {"K": count}, arrays))
            wants.append(want)
    _, outcomes = run(functions, calls, of, tmp_path)
    for call, outcome, want in zip(calls, outcomes, wants, strict=True):
        for array, values in want.items():
            message = f"{call.function} {array}"
            np.testing.assert_array_equal(outcome.arrays[array], values, message)


@pytest.mark.parametrize("name", NAMES)
def test_reductions(name: str, tmp_path: Path) -> None:
    of = need(name)
    functions, calls = [], []
    for elem in (TYPES[n] for n in ("f32", "f64", "i8", "u8", "u16", "i32", "u64", "i64")):
        for lanes in register_lanes(of, elem):
            for op in ("add", "mul", "min", "max"):
                value = Reduce(op, load("x", elem, lanes, num(0)), VType(elem))
                sides = [Buffer("x", elem, (num(lanes),), "in"), Buffer("y", elem, (), "out")]
                f = one(f"reduce_{op}_{elem}x{lanes}", (), sides, Store("y", num(0), value))
                functions.append(f)
                x = np.resize(np.array([2, 1, 3, 1, 2, 1], dtype(elem)), lanes)
                samples = [x]
                if elem.is_float and op in ("min", "max"):
                    places = np.arange(lanes)
                    samples += [np.where(places == n, np.nan, x).astype(x.dtype) for n in places]
                    samples += [(-((places - n) ** 2)).astype(x.dtype) for n in places]
                for sample in samples:
                    arrays = {"x": sample, "y": np.zeros((), dtype(elem))}
                    calls.append(Call(f.name, {}, arrays))
    _, outcomes = run(functions, calls, of, tmp_path)
    rules: dict[str, Any] = {"add": np.sum, "mul": np.prod, "min": np.min, "max": np.max}
    for call, outcome in zip(calls, outcomes, strict=True):
        x = call.arrays["x"]
        with np.errstate(over="ignore"):
            want = rules[call.function.split("_")[1]](x)
            want = np.asarray(want).astype(x.dtype)  # wraps
        np.testing.assert_array_equal(outcome.arrays["y"], want, err_msg=call.function)


def logic(elem: ElemType, lanes: int) -> Mapping[str, Value]:
    """Masks made in every way from x, y and the size K, as bytes."""
    m, data = mask(elem, lanes), VType(elem, lanes)
    zero = Const(0, data)
    p = VOp("ne", (load("x", elem, lanes, num(0)), zero), m)
    q = VOp("ne", (load("y", elem, lanes, num(0)), zero), m)
    large = Condition(compare("ge", Size("K"), num(2)), m)
    made: dict[str, Value] = {
        "and": VOp("and", (p, q), m),
        "or": VOp("or", (p, q), m),
        "not": VOp("not", (p,), m),
        "eq": VOp("eq", (p, q), m),
        "large": large,
        "true": Const(True, m),
        "chosen": Choose(p, q, large, m) if lanes > 1 else VOp("or", (p, q), m),
    }
    return {name: Cast("convert", value, VType(BOOL, lanes)) for name, value in made.items()}


@pytest.mark.parametrize("name", NAMES)
def test_masks(name: str, tmp_path: Path) -> None:
    of = need(name)
    functions, calls = [], []
    for elem in (TYPES[n] for n in ("u8", "i16", "f32", "f64")):
        for lanes in register_lanes(of, elem):
            made = logic(elem, lanes)
            sides = [Buffer(n, elem, (num(lanes),), "in") for n in "xy"]
            sides += [Buffer(r, BOOL, (num(lanes),), "out") for r in made]
            m, data = mask(elem, lanes), VType(elem, lanes)
            p = VOp("ne", (load("x", elem, lanes, num(0)), Const(0, data)), m)
            stores = [Store(r, num(0), value) for r, value in made.items()]
            for op, inverted in itertools.product(("any", "all"), (False, True)):
                arg = VOp("not", (p,), m) if inverted else p
                sides.append(Buffer(f"{op}{inverted:d}", BOOL, (), "out"))
                stores.append(Store(f"{op}{inverted:d}", num(0), Reduce(op, arg, VType(BOOL))))
            f = one(f"logic_{elem}x{lanes}", ("K",), sides, *stores)
            functions.append(f)
            for pattern, k in itertools.product(((0,), (1,), (0, 1), (1, 0, 0)), (1, 2)):
                x = np.resize(np.array(pattern, dtype(elem)), lanes)
                y = np.resize(np.array([1, 1, 0], dtype(elem)), lanes)
                arrays = {"x": x, "y": y}
                arrays |= {b.name: np.full(lanes if b.shape else (), 7, np.uint8)
                           for b in sides[2:]}  # fmt: skip
                calls.append(Call(f.name, {"K": k}, arrays))
    _, outcomes = run(functions, calls, of, tmp_path)
    for call, outcome in zip(calls, outcomes, strict=True):
        p, q = (call.arrays[n] != 0 for n in "xy")
        large = np.full_like(p, call.sizes["K"] >= 2)
        want = {"and": p & q, "or": p | q, "not": ~p, "eq": p == q, "large": large,
                "true": np.full_like(p, True), "any0": p.any(), "all0": p.all(),
                "any1": (~p).any(), "all1": (~p).all(),
                "chosen": np.where(p, q, large) if p.size > 1 else p | q}  # fmt: skip
        for array, values in want.items():
            message = f"{call.function} {array}"
            np.testing.assert_array_equal(outcome.arrays[array], values, message)


@pytest.mark.parametrize("name", NAMES)
def test_iota(name: str, tmp_path: Path) -> None:
    of = need(name)
    functions, calls = [], []
    for lanes in register_lanes(of, I64):
        for step in (1, -3):
            value = Iota(Op("sub", (Size("N"), num(5)), INDEX), step, VType(I64, lanes))
            sides = [Buffer("y", I64, (num(lanes),), "out")]
            f = one(f"iota{lanes}_{step + 3}", ("N",), sides, Store("y", num(0), value))
            functions.append(f)
            calls.append(Call(f.name, {"N": 3}, {"y": np.zeros(lanes, np.int64)}))
    _, outcomes = run(functions, calls, of, tmp_path)
    for call, outcome in zip(calls, outcomes, strict=True):
        step = int(call.function.split("_")[1]) - 3
        want = -2 + step * np.arange(outcome.arrays["y"].size)
        np.testing.assert_array_equal(outcome.arrays["y"], want)
