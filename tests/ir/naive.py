"""A second interpreter, as simple as can be: one instance after the other on Python integers.

It tries every point of a cube of indices against the domain and keeps elements in a dictionary.
Only i32 data and the operations that the random kernels use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tdsl.ir.kernel import (
    INDEX,
    BodyItem,
    Cast,
    Const,
    Expr,
    Kernel,
    Nest,
    Op,
    Read,
    Select,
    Size,
    Statement,
    Var,
    walk,
)
from tests.ir.exact import wrap

Event = tuple[str, tuple[int, ...], str, tuple[int, ...], str]
REACH = range(-1, 7)  # every index of a random kernel lies in it


class Refused(Exception):
    """An access outside, a read of what has no value, or a second definition."""


class Naive:
    """`memory`: the elements that have a value; `events`: all accesses in order."""

    def __init__(
        self, kernel: Kernel, sizes: Mapping[str, int], arrays: Mapping[str, np.ndarray]
    ) -> None:
        self.kernel = kernel
        self.sizes = sizes
        self.events: list[Event] = []
        self.shapes = {
            a.name: tuple(self.value(e, {}, "", ()) for e in a.shape) for a in kernel.arrays
        }
        self.memory = {
            (name, place): int(v)
            for name, data in arrays.items()
            for place, v in np.ndenumerate(data)
        }
        self.body(kernel.body, {})

    def result(self, name: str) -> np.ndarray:
        shape = self.shapes[name]
        data = np.zeros(shape, np.int32)
        for place in np.ndindex(shape):
            if (name, place) not in self.memory:
                raise Refused(f"{name}{place} is missing")
            data[place] = self.memory[name, place]
        return data

    def body(self, items: tuple[BodyItem, ...], point: dict[str, int]) -> None:
        for item in items:
            match item:
                case Nest(index, lo, hi, down, step, body):
                    low, high = self.value(lo, point, "", ()), self.value(hi, point, "", ())
                    every = sorted(range(low, high), reverse=down)[::step]
                    for i in every:
                        self.body(body, {**point, index: i})
                case Statement():
                    self.statement(item, point)

    def points(
        self, names: tuple[str, ...], domain: tuple[Expr, ...], point: dict[str, int]
    ) -> Iterator[tuple[dict[str, int], tuple[int, ...]]]:
        levels = [[c for c in domain if _last(c, names) == n] for n in range(-1, len(names))]

        def extend(at: dict[str, int], depth: int) -> Iterator[dict[str, int]]:
            if not all(self.value(c, at, "", ()) for c in levels[depth]):
                return
            if depth == len(names):
                yield at
                return
            name = names[depth]
            for i in (point[name],) if name in point else REACH:
                yield from extend({**at, name: i}, depth + 1)

        for at in extend({}, 0):
            yield at, tuple(at[n] for n in names)

    def statement(self, s: Statement, point: dict[str, int]) -> None:
        defined = set()
        if s.init is not None:
            for at, values in self.points(s.free, s.outer, point):
                place = tuple(self.value(e, at, "", ()) for e in s.subscript)
                if place in defined:
                    raise Refused(f"{place} is defined twice")
                defined.add(place)
                self.write(s, f"{s.name}.init", at, values, int(s.init.value))
        for at, values in self.points(s.indices, s.domain, point):
            place = tuple(self.value(e, at, s.name, values) for e in s.subscript)
            if s.op == "define" and place in defined:
                raise Refused(f"{place} is defined twice")
            defined.add(place)
            new = self.value(s.value, at, s.name, values)
            if s.op != "define":
                new = _apply(s.op, self.read(s.array, place, s.name, values), new)
            self.write(s, s.name, at, values, wrap(new, self.kernel.array(s.array).type))

    def write(
        self, s: Statement, name: str, at: dict[str, int], values: tuple[int, ...], new: int
    ) -> None:
        place = tuple(self.value(e, at, "", ()) for e in s.subscript)
        self.inside(s.array, place)
        self.memory[s.array, place] = new
        self.events.append((name, values, s.array, place, "write"))

    def inside(self, array: str, place: tuple[int, ...]) -> None:
        if not all(0 <= i < n for i, n in zip(place, self.shapes[array], strict=True)):
            raise Refused(f"{array}{place} does not exist")

    def read(self, array: str, place: tuple[int, ...], name: str, values: tuple[int, ...]) -> int:
        self.inside(array, place)
        if (array, place) not in self.memory:
            raise Refused(f"{array}{place} has no value")
        if name:
            self.events.append((name, values, array, place, "read"))
        return self.memory[array, place]

    def value(self, expr: Expr, at: Mapping[str, int], name: str, values: tuple[int, ...]) -> int:
        match expr:
            case Const(value):
                return int(value)
            case Var(index):
                return at[index]
            case Size(size):
                return self.sizes[size]
            case Read(array, indices):
                place = tuple(self.value(i, at, name, values) for i in indices)
                return self.read(array, place, name, values)
            case Cast(_, arg, type_):
                inner = self.value(arg, at, name, values)
                return inner if type_ == INDEX else wrap(inner, type_)
            case Select(condition, then, other):
                chosen = then if self.value(condition, at, name, values) else other
                return self.value(chosen, at, name, values)
            case Op(op, args, type_):
                result = _apply(op, *(self.value(a, at, name, values) for a in args))
                return wrap(result, type_) if type_.is_integer and type_ != INDEX else result


def _last(condition: Expr, names: tuple[str, ...]) -> int:
    """The place of the innermost index in a condition."""
    return max((names.index(e.name) for e in walk(condition) if isinstance(e, Var)), default=-1)


def _apply(op: str, a: int, b: int) -> int:
    match op:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "min":
            return min(a, b)
        case "max":
            return max(a, b)
        case "floordiv":
            return a // b if b else 0
        case "mod":
            return a % b if b else 0
        case "lt":
            return a < b
        case "le":
            return a <= b
        case "eq":
            return a == b
        case _:
            raise ValueError(f"no rule for {op}")
