"""The arrays of `tdsl run`: read from files, filled at random, written, and compared."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tdsl.commands.options import WrongUse
from tdsl.ir.arguments import ArgumentPlan
from tdsl.ir.dtypes import storage_dtype
from tdsl.ir.intervals import evaluate
from tdsl.ir.kernel import Array, Kernel, Op, Read, walk
from tdsl.ir.lowfloat import from_bf16, to_bf16
from tdsl.ir.steps import filled
from tdsl.ir.types import BF16
from tdsl.runtime.files import check_writable, write_atomically
from tdsl.runtime.memory import empty_strided

Values = np.ndarray[Any, Any]

# How far a float may be from the reference, relative to the largest value of the array: another
# order of a sum moves each term's rounding, and what cancels keeps the error of what was large.
TOLERANCE = {"f64": 1e-12, "f32": 1e-5, "f16": 1e-2, "bf16": 5e-2}

WIDE = 1 << 20  # random integers of wide types stay below, so that their sums say something


def load(name: str, path: str) -> Values:
    """An array from a .npy file; nothing in it is executed."""
    try:
        with Path(path).open("rb") as file:
            if file.read(6) != b"\x93NUMPY":
                raise WrongUse(f"--input {name}={path}: this is no .npy file")
            file.seek(0)
            value = np.load(file, allow_pickle=False)
    except OSError as error:
        raise WrongUse(
            f"--input {name}={path}: cannot read it: {error.strerror or error}"
        ) from None
    except MemoryError:
        raise WrongUse(f"--input {name}={path}: it does not fit into memory") from None
    except (ValueError, EOFError, SyntaxError, TypeError, OverflowError) as error:
        raise WrongUse(f"--input {name}={path}: a damaged .npy file: {error}") from None
    return np.asarray(value)


def may_save(name: str, path: str) -> None:
    """Refuse a file that cannot be written, before anything runs."""
    with _written(name, path):
        check_writable(Path(path))


def save(name: str, path: str, value: Values) -> None:
    """An array as a .npy file, whole or not at all."""
    buffer = io.BytesIO()
    np.save(buffer, value, allow_pickle=False)
    with _written(name, path):
        write_atomically(Path(path), buffer.getvalue())


@contextlib.contextmanager
def _written(name: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WrongUse(
            f"--output {name}={path}: cannot write it: {error.strerror or error}"
        ) from None


def missing(kernel: Kernel, given: Mapping[str, Values]) -> list[str]:
    """The arguments that a call needs and that are not given."""
    return [a.name for a in kernel.arguments if a.role != "out" and a.name not in given]


def fill(kernel: Kernel, given: dict[str, Values], seed: int) -> None:
    """Add what is missing: floats in -1..1, integers over their type or below 2^20, and where a
    range is promised in that range."""
    plan = ArgumentPlan(kernel)
    sizes = plan.known(given)
    unknown = [s for s in kernel.sizes if s not in sizes]
    if unknown:
        example = " ".join(f"--size {s}=64" for s in unknown)
        raise WrongUse(
            f"--random: no array that is given tells the size {', '.join(unknown)}",
            f"add {example}",
        )
    generator = np.random.default_rng(seed)
    for name in missing(kernel, given):
        array = kernel.array(name)
        shape = plan.shape(name, sizes)
        given[name] = _random(generator, array, shape, _range(array, sizes))


def as_declared(kernel: Kernel, given: Mapping[str, Values]) -> dict[str, Values]:
    """The arrays with the strides that their declarations ask for; a file has none of its own."""
    plan = ArgumentPlan(kernel)
    sizes = plan.known(given)
    out = dict(given)
    for name, value in given.items():
        if kernel.array(name).strides is None or value.size == 0:
            continue
        strides = filled(value.shape, plan.strides(name, sizes) or ())
        out[name] = empty_strided(value.shape, value.dtype, strides)
        out[name][...] = value
    return out


def _range(array: Array, sizes: Mapping[str, int]) -> tuple[int, int] | None:
    if array.range is None:
        return None
    low, high = (evaluate(e, sizes, {}) for e in array.range)
    return low, high


def _random(
    generator: np.random.Generator,
    array: Array,
    shape: tuple[int, ...],
    promised: tuple[int, int] | None,
) -> Values:
    dtype = storage_dtype(array.type)
    if array.type.fields:
        records = np.zeros(shape, dtype)
        for f in array.type.fields:
            one = replace(array, type=f.type)
            records[f.name] = _random(generator, one, records[f.name].shape, None)
        return records
    if promised is not None:
        low, high = promised
        if low >= high and 0 not in shape:
            raise WrongUse(
                f"--random: {array.name} promises values in {low}..{high}, which is empty"
            )
        whole = generator.integers(low, max(high, low + 1), shape)
        return np.asarray(to_bf16(whole.astype(np.float32)) if array.type == BF16 else whole, dtype)
    match array.type.kind:
        case "float":
            values = generator.uniform(-1.0, 1.0, shape)
            return np.asarray(to_bf16(values) if array.type == BF16 else values, dtype)
        case "bool":
            return np.asarray(generator.integers(0, 2, shape), dtype)
        case _:
            limits = np.iinfo(dtype)
            low, high = max(limits.min, -WIDE), min(limits.max, WIDE)
            return np.asarray(generator.integers(low, high, shape, endpoint=True), dtype)


# ---------------------------------------------------------------- what came out


def described(kernel: Kernel, name: str, value: Values) -> str:
    """`C: f32[64, 64]  least -2.1, greatest 3.4, mean 0.02`."""
    array = kernel.array(name)
    if array.type.fields:
        return "\n".join(described(k, n, v) for k, n, v in _fields(kernel, name, value))
    head = f"{name}: {array.type}{list(value.shape) if value.shape else ''}"
    if value.size == 0:
        return f"{head}  empty"
    numbers = _numbers(array, value)
    if value.size == 1:
        return f"{head}  {numbers.reshape(-1)[0]:.6g}"
    with np.errstate(all="ignore"):
        least, greatest, mean = numbers.min(), numbers.max(), numbers.mean()
    return f"{head}  least {least:.6g}, greatest {greatest:.6g}, mean {mean:.6g}"


# Functions that are not rounded correctly: the compiled formula and the interpreter's may differ
# in the last places, under `strict_fp` too.
APPROXIMATE = frozenset(
    ("rsqrt", "exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "sigmoid", "pow")
)


def approximate(kernel: Kernel) -> tuple[list[str], set[str]]:
    """The functions of a kernel that are not exact, and the arrays that follow from them."""
    functions: dict[str, None] = {}
    arrays: set[str] = set()
    for _ in kernel.statements:  # what flows back through a `for` may take several rounds
        before = len(arrays)
        for s in kernel.statements:
            for part in (e for whole in (s.value, *s.domain, *s.subscript) for e in walk(whole)):
                found = isinstance(part, Op) and part.op in APPROXIMATE
                if isinstance(part, Op) and found:
                    functions[part.op] = None
                if found or (isinstance(part, Read) and part.array in arrays):
                    arrays.add(s.array)
        if len(arrays) == before:
            break
    return list(functions), arrays | {n.partition(".")[0] for n in arrays}


def difference(kernel: Kernel, name: str, got: Values, want: Values, exact: bool) -> str | None:
    """Where an output is not what the reference says, in words; None where it is."""
    array = kernel.array(name)
    if array.type.fields:
        pairs = zip(_fields(kernel, name, got), _fields(kernel, name, want), strict=True)
        found = (difference(k, n, a, b, exact) for (k, n, a), (_, _, b) in pairs)
        return next((text for text in found if text is not None), None)
    a, b = _numbers(array, got), _numbers(array, want)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if exact:
            if array.type.kind == "float":
                same &= np.isnan(a) | (np.signbit(a) == np.signbit(b))
        elif array.type.kind == "float":
            finite = np.abs(b[np.isfinite(b)])
            scale = float(finite.max()) if finite.size else 0.0
            same |= np.abs(a - b) <= TOLERANCE[array.type.name] * scale
    wrong = np.argwhere(~same)
    if not len(wrong):
        return None
    first = tuple(int(i) for i in wrong[0])
    place = f"{name}{list(first)}" if first else name
    return (
        f"{len(wrong)} of {got.size} elements of {name} differ, the first is {place}: "
        f"got {a[first]}, the reference has {b[first]}"
    )


def _fields(kernel: Kernel, name: str, value: Values) -> Iterator[tuple[Kernel, str, Values]]:
    """The fields of records as arrays of their own."""
    for f in kernel.array(name).type.fields:
        yield kernel, f"{name}.{f.name}", value[f.name]


def _numbers(array: Array, value: Values) -> Values:
    """As numbers that compare and subtract: bf16 patterns widened, bool and integers as they are
    where they are compared, floats in f64."""
    if array.type == BF16:
        return np.asarray(from_bf16(value), np.float64)
    if array.type.kind == "float":
        return np.asarray(value, np.float64)
    return value.astype(np.int64) if array.type.kind == "bool" else value
