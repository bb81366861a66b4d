"""What code of the loops and the vector level computes, one iteration after the other.

Written for tests alone, without anything of what it judges: exact integers as data, memory that
knows its ends, and elements that were never written as NONE.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tdsl.ir import kernel as k
from tdsl.ir import loops as ir
from tdsl.ir import vector as v
from tdsl.polyhedral.program import Program, Stmt


class Wrong(Exception):
    """The code does what no right code does: leaves an array, reads what was never written."""


def _mod(a: int, b: int) -> int:
    return a % b if b else 0


_OPS: Mapping[str, Any] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "min": min, "max": max, "neg": lambda a: -a, "abs": abs,
    "floordiv": lambda a, b: a // b if b else 0, "mod": _mod,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "and": lambda a, b: a and b, "or": lambda a, b: a or b, "not": lambda a: not a,
    "fma": lambda a, b, c: a * b + c, "fnma": lambda a, b, c: c - a * b,
}  # fmt: skip


@dataclass
class Memory:
    """Row-major arrays of exact numbers; None: never written."""

    shapes: Mapping[str, tuple[int, ...]]
    data: dict[str, list[int | None]]

    @staticmethod
    def of(program: Program, sizes: Mapping[str, int]) -> Memory:
        """Inputs hold small numbers that differ; all else holds nothing."""
        shapes = {
            name: tuple(max(0, index(e, {}, sizes)) for e in array.shape)
            for name, array in program.arrays.items()
        }
        data: dict[str, list[int | None]] = {}
        for n, (name, array) in enumerate(program.arrays.items()):
            count = 1
            for extent in shapes[name]:
                count *= extent
            given = array.role in ("in", "inout", "const")
            data[name] = [
                (7 * i + 3 * n + i * i) % 23 - 11 if given else None for i in range(count)
            ]
        return Memory(shapes, data)

    def read(self, array: str, offset: int) -> int:
        value = self._at(array, offset)
        if value is None:
            raise Wrong(f"{array} at {offset} was never written")
        return value

    def write(self, array: str, offset: int, value: int) -> None:
        self._at(array, offset)
        self.data[array][offset] = value

    def _at(self, array: str, offset: int) -> int | None:
        if not 0 <= offset < len(self.data[array]):
            raise Wrong(f"{array} has no {offset}")
        return self.data[array][offset]

    def offset(self, array: str, element: tuple[int, ...]) -> int:
        result = 0
        for i, extent in zip(element, self.shapes[array], strict=True):
            result = result * extent + i
        return result


def index(expr: k.Expr, env: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    """An index expression or a condition."""
    match expr:
        case k.Const(value):
            return int(value)
        case k.Var(name):
            return env[name]
        case k.Size(name):
            return sizes[name]
        case k.Select(condition, then, other):
            return index(then if index(condition, env, sizes) else other, env, sizes)
        case k.Op(op, args):
            return int(_OPS[op](*(index(a, env, sizes) for a in args)))
    raise AssertionError(expr)


# ---------------------------------------------------------------- loops


@dataclass
class Loops:
    """Runs loops. chunk: lanes that run together (they read before they write); backward: whether
    parallel loops run from their end."""

    program: Program
    sizes: Mapping[str, int]
    memory: Memory
    chunk: int
    backward: bool

    def block(self, block: ir.Block, env: Mapping[str, int]) -> None:
        for item in block.items:
            self.item(item, env)

    def item(self, item: ir.Item, env: Mapping[str, int]) -> None:
        match item:
            case ir.Block():
                self.block(item, env)
            case ir.Scope(_, body):
                self.block(body, env)
            case ir.For(lo=lo, hi=hi):
                values = range(index(lo, env, self.sizes), index(hi, env, self.sizes), item.step)
                down = self.backward and item.mark == "parallel"
                for value in reversed(values) if down else values:
                    self.block(item.body, {**env, item.var: value})
            case ir.If(condition, then, other):
                if index(condition, env, self.sizes):
                    self.block(then, env)
                elif other is not None:
                    self.block(other, env)
            case ir.Switch(on, cases, default):
                value = index(on, env, self.sizes)
                chosen = next((b for n, b in cases if n == value), default)
                if chosen is not None:
                    self.block(chosen, env)
            case ir.Instance():
                self.dims(item, item.dims, [env])

    def dims(
        self, item: ir.Instance, dims: tuple[ir.Dim, ...], lanes: list[Mapping[str, int]]
    ) -> None:
        if not dims:
            self.together(item, lanes)
            return
        dim, rest = dims[0], dims[1:]
        if dim.mark != "vector" or len(lanes) > 1:
            for n in range(dim.extent):
                active = [e for e in lanes if self.runs(dim, n, e)]
                if active:
                    self.dims(item, rest, [{**e, dim.var: n} for e in active])
            return
        for start in range(0, dim.extent, self.chunk):
            numbers = range(start, min(start + self.chunk, dim.extent))
            active = [{**lanes[0], dim.var: n} for n in numbers if self.runs(dim, n, lanes[0])]
            if active:
                self.dims(item, rest, active)

    def runs(self, dim: ir.Dim, number: int, env: Mapping[str, int]) -> bool:
        return dim.count is None or number < index(dim.count, env, self.sizes)

    def together(self, item: ir.Instance, lanes: list[Mapping[str, int]]) -> None:
        stmt = self.program.statements[item.statement]
        if item.guard is not None:
            lanes = [e for e in lanes if index(item.guard, e, self.sizes)]
        points = [{i: index(x, e, self.sizes) for i, x in item.index} for e in lanes]
        values = [self.value(stmt.value, p) for p in points]
        places = [self.place(stmt.write.array, stmt.write.subscript, p) for p in points]
        if stmt.is_update and len(set(places)) == 1:  # joined before the element is updated
            for place, value in zip(places, values, strict=True):
                self.update(stmt, place, value)
            return
        if stmt.is_update:
            old = [self.memory.read(stmt.write.array, p) for p in places]
            values = [_OPS[stmt.op](a, b) for a, b in zip(old, values, strict=True)]
        for place, value in zip(places, values, strict=True):
            self.memory.write(stmt.write.array, place, value)

    def update(self, stmt: Stmt, place: int, value: int) -> None:
        old = self.memory.read(stmt.write.array, place)
        self.memory.write(stmt.write.array, place, _OPS[stmt.op](old, value))

    def place(self, array: str, subscript: tuple[k.Expr, ...], env: Mapping[str, int]) -> int:
        element = tuple(index(e, env, self.sizes) for e in subscript)
        if any(not 0 <= i < n for i, n in zip(element, self.memory.shapes[array], strict=True)):
            raise Wrong(f"{array} has no {element}")
        return self.memory.offset(array, element)

    def value(self, expr: k.Expr | None, env: Mapping[str, int]) -> int:
        match expr:
            case k.Const(value):
                return int(value)
            case k.Read(array, subscript):
                return self.memory.read(array, self.place(array, subscript, env))
            case k.Select(condition, then, other):
                return self.value(then if self.value(condition, env) else other, env)
            case k.Cast(_, arg):
                return self.value(arg, env)
            case k.Op(op, args) if expr.type != k.INDEX:
                return int(_OPS[op](*(self.value(a, env) for a in args)))
            case None:
                raise AssertionError
            case _:
                return index(expr, env, self.sizes)


def run_loops(program: Program, block: ir.Block, sizes: Mapping[str, int]) -> list[Memory]:
    """The memory after the loops, for every order that the level leaves open."""
    result = []
    for chunk, backward in itertools.product((1, 1 << 20), (False, True)):
        memory = Memory.of(program, sizes)
        Loops(program, sizes, memory, chunk, backward).block(block, {})
        result.append(memory)
    return result


# ---------------------------------------------------------------- vector


@dataclass
class Vector:
    """Runs the vector level: a variable is a list of lanes."""

    sizes: Mapping[str, int]
    memory: Memory
    own: frozenset[str] = frozenset()
    names: dict[str, list[Any]] = field(default_factory=dict)

    def block(self, block: v.Block, env: dict[str, int]) -> None:
        for item in block.items:
            self.item(item, env)

    def item(self, item: v.Item, env: dict[str, int]) -> None:
        match item:
            case v.Let(name, value) | v.Assign(name, value):
                self.names[name] = self.value(value, env)
            case v.Declare(name, type, value):
                self.names[name] = [None] * type.lanes if value is None else self.value(value, env)
            case v.LetIndex(name, value):
                env[name] = index(value, env, self.sizes)
            case v.Store(buffer, offset, value, stride, mask):
                values = self.value(value, env)
                for on, place, new in zip(
                    self.mask(mask, len(values), env),
                    self.places(offset, stride, len(values), env), values, strict=True,
                ):  # fmt: skip
                    if on:
                        self.memory.write(buffer, place, new)
            case v.For():
                lo, hi = index(item.lo, env, self.sizes), index(item.hi, env, self.sizes)
                for at in range(lo, hi, item.step):
                    self.block(item.body, {**env, item.var: at})
            case v.If(condition, then, other):
                if self.condition(condition, env):
                    self.block(then, dict(env))
                elif other is not None:
                    self.block(other, dict(env))
            case v.Switch(on, cases, default):
                at = index(on, env, self.sizes)
                self.block(next((b for n, b in cases if n == at), default), dict(env))
            case v.Block():
                self.block(item, dict(env))
            case v.Misaligned(name):
                env[name] = 1  # any address will do
            case v.Comment() | v.Prefetch() | v.Fence():
                pass

    def condition(self, condition: k.Expr | v.Value, env: Mapping[str, int]) -> bool:
        if isinstance(condition, k.Expr) and not isinstance(condition, v.Value):
            return bool(index(condition, env, self.sizes))
        return bool(self.value(condition, env)[0])

    def places(
        self, offset: k.Expr, stride: k.Expr | None, lanes: int, env: Mapping[str, int]
    ) -> Iterator[int]:
        first = index(offset, env, self.sizes)
        step = 1 if stride is None else index(stride, env, self.sizes)
        return (first + step * lane for lane in range(lanes))

    def mask(self, mask: v.Value | None, lanes: int, env: Mapping[str, int]) -> list[Any]:
        return [True] * lanes if mask is None else self.value(mask, env)

    def value(self, value: v.Value, env: Mapping[str, int]) -> list[Any]:
        lanes = value.type.lanes
        match value:
            case v.Const(number):
                return [int(number)] * lanes
            case v.Ref(name):
                return self.names[name]
            case v.Iota(base, step):
                return [index(base, env, self.sizes) + step * lane for lane in range(lanes)]
            case v.Splat(arg):
                return self.value(arg, env) * lanes
            case v.Load(buffer, offset, _, stride, mask):
                places = self.places(offset, stride, lanes, env)
                return self.loaded(buffer, places, self.mask(mask, lanes, env))
            case v.Gather(buffer, offsets, _, mask):
                places = iter(self.value(offsets, env))
                return self.loaded(buffer, places, self.mask(mask, lanes, env))
            case v.Op(op, args):
                parts = [self.value(a, env) for a in args]
                return [_lifted(_OPS[op], each) for each in zip(*parts, strict=True)]
            case v.Cast(_, arg):
                return self.value(arg, env)
            case v.Choose(mask, then, other):
                arms = (self.value(a, env) for a in (mask, then, other))
                return [a if m else b for m, a, b in zip(*arms, strict=True)]
            case v.FirstLanes(count):
                return [lane < index(count, env, self.sizes) for lane in range(lanes)]
            case v.Condition(condition):
                return [bool(index(condition, env, self.sizes))] * lanes
            case v.Reduce(op, arg):
                total, *rest = self.value(arg, env)
                for each in rest:
                    total = _lifted(_OPS[op], (total, each))
                return [total]
            case v.Column(rows, lane):
                return [self.value(row, env)[lane] for row in rows]
            case v.Repeat(arg):
                return self.value(arg, env) * (lanes // arg.type.lanes)
            case v.Join(low, high):
                return [*self.value(low, env), *self.value(high, env)]
            case v.Slide(low, high, start):
                both = [*self.value(low, env), *self.value(high, env)]
                return both[start : start + lanes]
            case v.Dot(acc, first, second):
                pairs = zip(self.value(first, env), self.value(second, env), strict=True)
                products = [_product(a, b) for a, b in pairs]
                return [
                    _total(start, products[n * value.group : (n + 1) * value.group])
                    for n, start in enumerate(self.value(acc, env))
                ]
            case _:
                raise TypeError(type(value).__name__)

    def loaded(self, buffer: str, places: Iterator[int], mask: list[Any]) -> list[Any]:
        return [self.element(buffer, p) if on else 0 for p, on in zip(places, mask, strict=True)]

    def element(self, buffer: str, place: int) -> int | None:
        """What lies behind memory of the kernel's own is loaded, but never used."""
        behind = place - len(self.memory.data[buffer])
        return None if buffer in self.own and 0 <= behind < 16 else self.memory._at(buffer, place)


def _product(a: Any, b: Any) -> Any:
    """0 times what was never written is 0, whatever lies there."""
    return 0 if 0 in (a, b) else _lifted(_OPS["mul"], (a, b))


def _total(start: Any, parts: list[Any]) -> Any:
    return None if None in (start, *parts) else start + sum(parts)


def _lifted(op: Any, args: tuple[Any, ...]) -> Any:
    return None if any(a is None for a in args) else op(*args)


def run_vector(program: Program, body: v.Block, sizes: Mapping[str, int]) -> Memory:
    """The memory after the code."""
    memory = Memory.of(program, sizes)
    own = frozenset(name for name, a in program.arrays.items() if a.role in v.OWN)
    Vector(sizes, memory, own).block(body, {})
    return memory
