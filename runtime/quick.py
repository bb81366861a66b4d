"""The short way of a call: one function a kernel, written for its arguments.

A call of a small kernel costs what Python does around it. A loop over the arguments takes three
times as long as the same checks written out, so they are written out, as `namedtuple` does:

    def call(self, /, A=None, C=None, *more, **others):
        if not more and not others and type(A) is ndarray and A.dtype is dtype_A and ...:
            ...
            if not function(from_buffer(pointer, A), from_buffer(pointer, C, True), null):
                return C
        return full(self, (A, C, *more), others)

It serves calls whose shapes were checked in full once before, or whose sizes are all bound. Element
types, shapes, contiguity and permission to write are checked here, sizes, assumptions, alignment
and overlap by the C function, as for any caller. Wherever something is unusual the short way gives
up without having done anything, and the full check converts, or finds the words of the refusal.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import numpy as np

from tdsl.runtime.interface import Entry
from tdsl.runtime.memory import empty

BEYOND_F32 = float(2**128 - 2**103)  # the least number that f32 rounds to infinity


class Slot(NamedTuple):
    """How one argument is passed."""

    name: str
    dtype: np.dtype[Any] | None  # None for a number by value
    numbers: tuple[type, ...]  # the types of a number by value that C takes as they are
    pointer: Any  # the C type of the pointer
    written: bool
    made: bool  # the caller may leave it out
    is_given: bool = False  # by `prepare`, for all calls
    value: Any = None  # what C gets then


class Known(NamedTuple):
    """What follows from the arguments' shapes, from an earlier call that was checked in full."""

    sizes: tuple[int, ...]
    workspace: int
    shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Surroundings:
    """What the function uses of the kernel it belongs to."""

    function: Any  # the C function
    from_buffer: Callable[..., Any]
    null: Any
    size_names: tuple[str, ...]
    workspace: Callable[[int], Any]
    remembered: Callable[[Any], Known | None]
    full: Callable[..., Any]  # (kernel, positional, keywords) -> what the call returns
    give: Callable[[Any], Any]  # the arguments in order -> what the call returns
    extra: tuple[Any, ...] = ()  # what C gets between the arguments and the workspace
    before: Callable[[], None] | None = None  # called before the C function
    fixed: Known | None = None  # where all sizes are bound, every call is known beforehand


def remembered_key(
    slots: tuple[Slot, ...], values: Mapping[str, Any], sizes: Mapping[str, Any]
) -> tuple[Any, ...] | None:
    """The key under which a call is remembered; None for a call that the short way never takes.

    `sizes` are those that were given as keywords.
    """
    key: list[Any] = []
    for slot in slots:
        if slot.dtype is not None and not slot.is_given:
            value = values.get(slot.name)
            if value is not None and type(value) is not np.ndarray:
                return None
            key.append(None if value is None else value.shape)
    return (*key, *sizes.items())


def quick_call(entry: Entry, slots: tuple[Slot, ...], around: Surroundings) -> Callable[..., Any]:
    """A `__call__` for the kernel of these slots."""

    def only_sizes(others: Mapping[str, Any]) -> bool:
        return all(type(v) is int and n in around.size_names for n, v in others.items())

    names = [slot.name for slot in slots if not slot.is_given]
    if any(keyword.iskeyword(n) or not n.isidentifier() or n.startswith("_") for n in names):

        def call(_self: Any, /, *positional: Any, **keywords: Any) -> Any:
            return around.full(_self, positional, keywords)

        return call
    place: dict[str, Any] = {
        "_ndarray": np.ndarray,
        "_function": around.function,
        "_from_buffer": around.from_buffer,
        "_null": around.null,
        "_workspace": around.workspace,
        "_remembered": around.remembered,
        "_full": around.full,
        "_give": around.give,
        "_before": around.before,
        "_empty": empty,
        "_type": type,
        "_abs": abs,
        "_f32": np.float32,
        "_inf": inf,
        "_items": tuple,
        "_only_sizes": only_sizes,
        "_unusual": (ValueError, TypeError, OverflowError),  # not contiguous, read-only, too large
    }
    for number, slot in enumerate(slots):
        place[f"_dtype{number}"] = slot.dtype
        place[f"_numbers{number}"] = slot.numbers
        place[f"_given{number}"] = slot.value
        place[f"_pointer{number}"] = slot.pointer
        if around.fixed is not None:
            place[f"_shape{number}"] = around.fixed.shapes[number]
            place["_bytes"] = around.fixed.workspace
    place.update((f"_extra{number}", value) for number, value in enumerate(around.extra))
    text = _text(entry, slots, around)
    exec(compile(text, f"<call of {entry.name}>", "exec"), place)
    made: Callable[..., Any] = place["_call"]
    made.__name__ = made.__qualname__ = entry.name  # what Python's own messages call it
    return made


def _text(entry: Entry, slots: tuple[Slot, ...], around: Surroundings) -> str:
    fixed = around.fixed is not None
    tests = ["not _more", "not _others" if fixed else "(not _others or _only_sizes(_others))"]
    key, passed, make = [], [], []
    for number, slot in enumerate(slots):
        name = slot.name
        if slot.is_given:
            passed.append(f"_given{number}")
            continue
        if slot.dtype is None:
            tests.append(f"_type({name}) in _numbers{number}")
            if np.float32 in slot.numbers:  # C would make an infinity of what is refused
                beyond = f"{BEYOND_F32!r} <= _abs({name}) < _inf"
                tests.append(f"(_type({name}) is _f32 or not {beyond})")
            passed.append(name)
            continue
        test = f"_type({name}) is _ndarray and {name}.dtype is _dtype{number}"
        if fixed:
            test += f" and {name}.shape == _shape{number}"
        shape = f"{name}.shape"
        if slot.made:
            test, shape = f"({name} is None or {test})", f"None if {name} is None else {shape}"
            make += [f"if {name} is None:", f"    {name} = _empty(_shape{number}, _dtype{number})"]
        tests.append(test)
        key.append(shape)
        passed.append(f"_from_buffer(_pointer{number}, {name}{', True' * slot.written})")
    sizes = [f"_size{number}" for number in range(len(entry.sizes))]
    scratch = "_null"
    if entry.workspace is not None and (around.fixed is None or around.fixed.workspace):
        scratch = "_workspace(_bytes) if _bytes else _null"
    shapes = _tuple([f"_shape{number}" for number in range(len(slots))])
    arguments = _tuple([slot.name for slot in slots if not slot.is_given])
    # What is given is never returned.
    every = _tuple(["None" if slot.is_given else slot.name for slot in slots])
    result = entry.returned[0] if len(entry.returned) == 1 else f"_give({every})"
    optional = "".join(f"{slot.name}=None, " for slot in slots if not slot.is_given)
    passed += [f"_extra{number}" for number in range(len(around.extra))]
    run = [
        "try:",
        *(f"    {line}" for line in make),
        *(["    _before()"] if around.before else []),
        f"    if not _function({', '.join((*sizes, *passed, scratch))}):",
        f"        return {result}",
        "except _unusual:",
        "    pass",
    ]
    if not fixed:
        run = [
            f"_key = {_tuple(key)}",
            "if _others:",
            "    _key += _items(_others.items())",
            "_known = _remembered(_key)",
            "if _known is not None:",
            f"    {_tuple(sizes)}, _bytes, {shapes} = _known",
            *(f"    {line}" for line in run),
        ]
    lines = [
        f"def _call(_self, /, {optional}*_more, **_others):",
        f"    if {' and '.join(tests)}:",
        *(f"        {line}" for line in run),
        f"    return _full(_self, (*{arguments}, *_more), _others)",
    ]
    return "\n".join(lines)


def _tuple(items: list[str]) -> str:
    return f"({''.join(f'{item}, ' for item in items)})"
