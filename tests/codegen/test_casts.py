"""Every conversion between element types that fits the registers, on every target."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from tdsl.ir.types import BF16, BOOL, F32, TYPES, ElemType
from tdsl.ir.vector import Buffer, Cast, Op, Store, VType
from tdsl.targets import Target
from tests.codegen.build import I, function, load, mask, over, vector_buffer
from tests.codegen.harness import NAMES, Call, dtype, need, run
from tests.codegen.semantics import edge_values

ALL = tuple(TYPES.values())


def values_of(elem: ElemType) -> np.ndarray:
    """Edge values in the representation that memory has, a multiple of 64 of them."""
    if elem == BOOL:
        values = np.array([0, 1, 1, 0, 1], np.uint8)
    elif elem == BF16:
        single = edge_values(F32).view(np.uint32)
        values = (single >> 16).astype(np.uint16)
        values = values[~np.isnan(to_f32(values))]
    else:
        values = edge_values(elem)
    if elem == F32:  # ties of f16 and bf16, and what rounds to a subnormal or to infinity
        more = [1.00048828125, 1.00146484375, 65519.99, 65520.0, 6e-8, 2.9e-8, 3.1e-5, 1.00390625]
        values = np.append(values, np.array(more, np.float32))
    if elem.name == "f64":  # next to a tie: a rounding by way of f32 would be wrong
        values = np.append(values, [1.00048828125 + 2.0**-40, 1.00390625 - 2.0**-45, 65520 - 2e-9])
    return np.resize(values, -(-values.size // 64) * 64)


def to_f32(bits: np.ndarray) -> np.ndarray:
    return np.asarray((bits.astype(np.uint32) << 16).view(np.float32))


def to_bf16(x: np.ndarray) -> np.ndarray:
    """Nearest bf16, ties to even, of exact f64 values: the candidates are compared."""
    wide = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        near = wide.astype(np.float32).view(np.uint32) >> 16
    out = []
    for value, start in zip(wide.tolist(), near.tolist(), strict=True):
        if np.isnan(value) or np.isinf(value):
            out.append(start)
            continue
        best = []
        for bits in (start - 1, start, start + 1):
            if 0 <= bits <= 0xFFFF and (bits & 0x7FFF) <= 0x7F80:
                number = float(to_f32(np.array([bits], np.uint16))[0])
                if np.isinf(number):
                    number = 2.0**128 if number > 0 else -(2.0**128)
                best.append((abs(number - value), bits & 1, bits))
        out.append(min(best)[2])
    return np.array(out, np.uint16)


def convert(x: np.ndarray, source: ElemType, to: ElemType, mode: str) -> np.ndarray:
    """The language's conversion, on Python numbers where NumPy leaves it open."""
    if source == BF16:
        return convert(to_f32(x), F32, to, mode)
    if source == BOOL:
        source = TYPES["u8"]
    with np.errstate(all="ignore"):
        if to == BOOL:
            return np.asarray(x != 0, np.uint8)
        if to == BF16:
            return to_bf16(x)
        if to.is_float:
            return np.asarray(x, dtype(to))
        low, high = int(np.iinfo(dtype(to)).min), int(np.iinfo(dtype(to)).max)
        if source.is_float or mode == "saturate":
            whole = (
                [0 if v != v else v for v in x.astype(np.float64).tolist()]
                if (source.is_float)
                else x.tolist()
            )
            clipped = [min(max(v, low), high) for v in whole]
            return np.array([int(v) for v in clipped], dtype(to))
        return np.asarray(x).astype(dtype(to))


def lanes_for(of: Target, source: ElemType, to: ElemType) -> list[int]:
    """A scalar; the lanes at which the wider of both fills a register, or a part of one."""
    if not of.widths:
        return [1]
    wide = max(source.bytes, to.bytes)
    full = {w // wide for w in of.widths}
    return sorted({1} | {n for n in full | {of.widths[-1] // wide // 2} if n > 1})


@pytest.mark.parametrize("name", (*NAMES, pytest.param("neon+bf16", marks=pytest.mark.neon)))
def test_conversions(name: str, tmp_path: Path) -> None:
    of = need(name)
    functions, calls, checks = [], [], []
    for source in ALL:
        for lanes in sorted({n for to in ALL for n in lanes_for(of, source, to)}):
            cases = [
                (mode, to)
                for mode, to in itertools.product(("convert", "saturate"), ALL)
                if to != source and lanes in lanes_for(of, source, to)
            ]
            stores, buffers = [], [vector_buffer("a", source, "in")]
            for mode, to in cases:
                value = Cast(mode, load("a", source, lanes, I), VType(to, lanes))
                stores.append(Store(f"{mode}_{to}", I, value))
                buffers.append(vector_buffer(f"{mode}_{to}", to, "out"))
            f = function(f"from_{source}x{lanes}", buffers, over(lanes, *stores))
            functions.append(f)
            a = values_of(source)
            outs = {f"{m}_{t}": np.full(a.size, 7, dtype(t)) for m, t in cases}
            calls.append(Call(f.name, {"N": a.size}, {"a": a, **outs}))
            checks.append((source, cases))
    # Thousands of conversions in one file: most of the time would go into optimizing it.
    _, outcomes = run(functions, calls, of, tmp_path, ("-O1",))
    wrong = []
    for (source, cases), call, outcome in zip(checks, calls, outcomes, strict=True):
        assert outcome.status == 0
        a = call.arrays["a"]
        for mode, to in cases:
            got, want = outcome.arrays[f"{mode}_{to}"], convert(a, source, to, mode)
            if to == BF16:
                got, want = to_f32(got), to_f32(want)
            if not np.array_equal(got, want, equal_nan=to.is_float):
                bad = np.flatnonzero(~((got == want) | ((got != got) & (want != want))))[0]
                shown = f"{a[bad]}: {got[bad]}, not {want[bad]}"
                wrong.append(f"{call.function} {mode} to {to} of {shown}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", NAMES)
def test_bitcasts(name: str, tmp_path: Path) -> None:
    of = need(name)
    functions, calls = [], []
    pairs = [("f32", "u32"), ("u32", "f32"), ("f32", "i32"), ("i32", "f32"), ("f64", "i64"),
             ("u64", "f64"), ("i8", "u8"), ("u16", "i16"), ("f16", "u16"), ("u16", "bf16"),
             ("i32", "u32")]  # fmt: skip
    for a_name, b_name in pairs:
        source, to = TYPES[a_name], TYPES[b_name]
        for lanes in lanes_for(of, source, to):
            value = Cast("bitcast", load("a", source, lanes, I), VType(to, lanes))
            buffers = [vector_buffer("a", source, "in"), vector_buffer("r", to, "out")]
            f = function(f"bits_{source}_{to}_{lanes}", buffers, over(lanes, Store("r", I, value)))
            functions.append(f)
            a = np.resize(edge_values(source), 64)
            calls.append(Call(f.name, {"N": 64}, {"a": a, "r": np.zeros(64, dtype(to))}))
    _, outcomes = run(functions, calls, of, tmp_path)
    for call, outcome in zip(calls, outcomes, strict=True):
        assert outcome.status == 0
        assert outcome.arrays["r"].tobytes() == call.arrays["a"].tobytes(), call.function


@pytest.mark.parametrize("name", NAMES)
def test_masks_of_other_widths(name: str, tmp_path: Path) -> None:
    """A comparison of one width governs lanes of another, or becomes a number."""
    of = need(name)
    functions, calls = [], []
    widths = [TYPES[n] for n in ("u8", "u16", "f32", "i64")]
    for source, to in itertools.product(widths, widths):
        for lanes in lanes_for(of, source, to):
            x = load("a", source, lanes, I)
            test = Op("lt", (x, load("b", source, lanes, I)), mask(source, lanes))
            moved = Cast("convert", test, mask(to, lanes))
            value = Cast("convert", moved, VType(to, lanes))
            buffers = [vector_buffer(n, source, "in") for n in "ab"]
            buffers += [Buffer("r", to, (vector_buffer("a", source, "in").shape[0],), "out")]
            f = function(f"mask_{source}_{to}_{lanes}", buffers, over(lanes, Store("r", I, value)))
            functions.append(f)
            a = np.resize(np.array([1, 2, 3, 4, 5], dtype(source)), 64)
            b = np.resize(np.array([3, 1, 4, 1, 5, 9, 2], dtype(source)), 64)
            r = np.full(64, 9, dtype(to))
            calls.append(Call(f.name, {"N": 64}, {"a": a, "b": b, "r": r}))
    _, outcomes = run(functions, calls, of, tmp_path)
    for call, outcome in zip(calls, outcomes, strict=True):
        want = (call.arrays["a"] < call.arrays["b"]).astype(call.arrays["r"].dtype)
        np.testing.assert_array_equal(outcome.arrays["r"], want, err_msg=call.function)
