"""Strides of arguments at known sizes: what the declaration says, and what fills its gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tdsl.ir.intervals import evaluate
from tdsl.ir.kernel import Array, Expr, Size, in_groups, walk


def shape_of(array: Array, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape that the caller sees. Extents that are negative count as 0."""
    return tuple(prod(max(0, evaluate(e, sizes, {})) for e in g) for g in array.grouped)


def written_strides(array: Array) -> tuple[Expr | str, ...] | None:
    """The strides that the declaration writes, one for each dimension of the caller's array."""
    if array.strides is None:
        return None
    return tuple(group[-1] for group in in_groups(array.strides, array.groups))


def strides_of(array: Array, sizes: Mapping[str, int]) -> tuple[int | None, ...] | None:
    """The strides in elements for these sizes; None for one that is free or not known yet."""
    written = written_strides(array)
    if written is None:
        return None
    return tuple(
        None
        if isinstance(s, str) or any(isinstance(e, Size) and e.name not in sizes for e in walk(s))
        else evaluate(s, sizes, {})
        for s in written
    )


def filled(shape: Sequence[int], strides: Sequence[int | None]) -> tuple[int, ...]:
    """Strides for memory that is still to be had: the unknown ones as small as the known ones
    allow, the last dimension innermost."""
    known = [(s, n) for s, n in zip(strides, shape, strict=True) if s is not None]
    step = max((abs(s) * max(1, n) for s, n in known), default=1) or 1
    out = list(strides)
    for place in reversed(range(len(shape))):
        if out[place] is None:
            out[place] = step
            step *= max(1, shape[place])
    return tuple(s for s in out if s is not None)


def span(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Elements below the first one, and of the whole memory from the lowest to the highest."""
    if 0 in shape:
        return 0, 0
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    below = -sum(r for r in reach if r < 0)
    return below, below + sum(r for r in reach if r > 0) + 1


def share_elements(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements may lie in one place: each stride has to be larger than what the
    smaller ones reach together, which is what the entry of a kernel asks for too."""
    if 0 in shape:
        return False
    reach = 0
    for step, extent in sorted((abs(s), n) for s, n in zip(strides, shape, strict=True)):
        if extent > 1:
            if step <= reach:
                return True
            reach += step * (extent - 1)
    return False
