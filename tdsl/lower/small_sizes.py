"""Sizes at which a kernel is looked at: small ones, and those around its blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from tdsl.ir.kernel import Array, Const, Expr, Size, walk
from tdsl.ir.loops import Block, For, If, Instance, Item, Scope, Switch
from tdsl.ir.steps import filled, shape_of, share_elements, strides_of, written_strides
from tdsl.lower.tables import MOST_ROWS, evaluate, start
from tdsl.polyhedral.program import Program
from tdsl.polyhedral.witness import least_sizes

MOST_CHOICES = 64
SMALL = (1, 2, 3, 0)


def choices(program: Program, nest: Block) -> list[Mapping[str, int]]:
    """Sizes that the assumptions allow, all different; a kernel without sizes has one choice.

    A size goes through the numbers that stand beside it in bounds and counts, one more, one
    less; the other sizes stay small, so that several blocks of those stay affordable.
    """
    if not program.params:
        return [{}]
    least = least_sizes(program)
    if least is None:
        return []
    beside: dict[str, set[int]] = {name: set() for name in program.params}
    for expr in (*_indices(nest), *program.kernel.assumptions):
        numbers = {abs(int(e.value)) for e in walk(expr) if isinstance(e, Const)}
        for size in {e.name for e in walk(expr) if isinstance(e, Size)}:
            beside[size] |= {n for n in numbers if 1 < n <= 128}
    values = [_values(beside[name], low) for name, low in zip(program.params, least, strict=True)]
    found: list[Mapping[str, int]] = [
        _pitched(program, dict(zip(program.params, least, strict=True)))
    ]
    for turn in _turns(len(values), max(len(steps) for steps in values)):
        row = [
            low if n is None else steps[n % len(steps)]
            for n, steps, low in zip(turn, values, least, strict=True)
        ]
        sizes = _pitched(program, dict(zip(program.params, row, strict=True)))
        if sizes not in found and _useful(program, sizes):
            found.append(sizes)
            if len(found) == MOST_CHOICES:
                break
    return found


def _pitched(program: Program, sizes: dict[str, int]) -> dict[str, int]:
    """Sizes that are strides and nothing else are large enough for elements to lie apart, with a
    gap behind rows."""
    arrays = [a for a in program.arrays.values() if a.strides is not None]
    shaped = {e.name for a in program.arrays.values() for x in a.shape for e in _sizes_in(x)}
    for array in arrays:
        strides = written_strides(array) or ()
        shape = shape_of(array, sizes)
        pitches = [isinstance(s, Size) and s.name not in shaped for s in strides]
        known = [
            None if p else s for p, s in zip(pitches, strides_of(array, sizes) or (), strict=True)
        ]
        apart = filled([n + 1 for n in shape], known)
        for stride, pitch, least in zip(strides, pitches, apart, strict=True):
            if pitch and isinstance(stride, Size):
                sizes[stride.name] = max(sizes[stride.name], least)
    return sizes


def _pitches(array: Array) -> Iterator[Size]:
    return (s for s in array.strides or () if isinstance(s, Size))


def _sizes_in(expr: Expr) -> Iterator[Size]:
    return (e for e in walk(expr) if isinstance(e, Size))


def _apart(program: Program, sizes: Mapping[str, int]) -> bool:
    """Whether the elements of what is written lie apart, as the entry asks."""
    for array in program.arrays.values():
        strides = strides_of(array, sizes)
        if strides is None or not array.is_written:
            continue
        shape = shape_of(array, sizes)
        if share_elements(shape, filled(shape, strides)):
            return False
    return True


def _turns(sizes: int, steps: int) -> Iterator[Sequence[int | None]]:
    """Which step each size takes: all the same one, each at a pace of its own, and with one of
    them at its least (None)."""
    for turn in range(steps):
        yield [turn] * sizes
        pace = [turn * (k + 1) + k for k in range(sizes)]
        yield pace
        if sizes > 1:
            least = turn % sizes
            yield [None if k == least else n for k, n in enumerate(pace)]
            yield [None if k == least else turn // sizes for k in range(sizes)]


def _values(numbers: set[int], low: int) -> list[int]:
    """One more and one less than each number first; then all that leaves another rest."""
    blocks = sorted(numbers, reverse=True)
    around = [x for f in blocks for x in (f + 1, f + 2, f - 1, 2 * f + 1, f)]
    every = [*around, *(low + s for s in SMALL)]
    every += range(max(numbers, default=0))
    return list(dict.fromkeys(max(low, value) for value in every))


def _useful(program: Program, sizes: Mapping[str, int]) -> bool:
    """Whether the assumptions hold, and not far too much would run."""
    table = start([sizes])
    strides = {e.name for a in program.arrays.values() for e in _pitches(a)}
    volume = prod(max(1, size) for name, size in sizes.items() if name not in strides)
    return (
        volume <= 8 * MOST_ROWS
        and _apart(program, sizes)
        and all(bool(evaluate(a, table.env)[0, 0]) for a in program.kernel.assumptions)
    )


def _indices(item: Item) -> Iterator[Expr]:
    """The bounds, conditions and counts of some loops; a count with the extent that ends it."""
    match item:
        case Instance(dims=dims, guard=guard):
            yield from (d.count for d in dims if d.count is not None)
            if guard is not None:
                yield guard
        case For(lo=lo, hi=hi, body=body):
            yield from (lo, hi)
            yield from _indices(body)
        case If(condition, then, other):
            yield condition
            yield from _indices(then)
            if other is not None:
                yield from _indices(other)
        case Switch(on, cases, default):
            yield on
            for _, arm in cases:
                yield from _indices(arm)
            if default is not None:
                yield from _indices(default)
        case Scope(_, body):
            yield from _indices(body)
        case Block(items):
            for inner in items:
                yield from _indices(inner)
