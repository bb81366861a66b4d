"""Programs with copies and local arrays, run instance after instance: the judge of value flow.

Knows nothing of value flow or of maps of accesses: instances and times come from domains and
coordinates, everything else from expressions. Memory that is private to an iteration is keyed by
it, and what was never written is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import islpy as isl
import numpy as np

from tdsl.driver import Options, run
from tdsl.ir import kernel as k
from tdsl.ir.interp import reference
from tdsl.polyhedral.inits import coordinate_map, with_inits
from tdsl.polyhedral.order import paths
from tdsl.polyhedral.program import Program, Stmt
from tdsl.polyhedral.tree import Loop, Node
from tdsl.polyhedral.valueflow import check
from tdsl.syntax.parser import parse
from tdsl.targets.target import TARGETS
from tests.lower.brute import _OPS

PARAM, SET = isl.dim_type.param, isl.dim_type.set
Private = Mapping[str, tuple[tuple[str, str], ...]]


class Wrong(Exception):
    """No right program does this: it leaves an array, or reads what was never written."""


@dataclass(frozen=True)
class Case:
    """Two programs with their trees, first terms included."""

    base: Program
    base_tree: Node
    final: Program
    tree: Node
    private: Private = field(default_factory=dict)
    reassociate: frozenset[str] = frozenset()

    def check(self) -> None:
        check(
            self.base, self.base_tree, self.final, self.tree, self.reassociate,
            private=self.private,
        )  # fmt: skip


def case(text: str, directives: str = "") -> Case:
    """The program of a kernel before its first placement, and what all directives make of it."""
    file = parse(text.replace("DIRECTIVES", directives), name="flow.tdsl")
    name = file.items[0].name  # type: ignore[union-attr]
    made = run(file, Options(name, TARGETS["c"]), until="storage")
    s, stored = made.scheduled, made.stored
    base, tree = s.base or (s.program, s.tree)
    return Case(
        base, with_inits(base, tree), stored.program, stored.tree, stored.private, s.reassociate
    )


# ---------------------------------------------------------------- running


@dataclass
class Machine:
    program: Program
    sizes: Mapping[str, int]
    homes: Mapping[str, tuple[Loop, ...]]
    memory: dict[tuple[str, tuple[int, ...], tuple[int, ...]], int] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def start(self, inputs: Mapping[str, Any]) -> None:
        for name, array in self.program.arrays.items():
            self.shapes[name] = tuple(max(0, self.index(e, {})) for e in array.shape)
        for name, values in inputs.items():
            for place, value in np.ndenumerate(values):
                self.memory[name, (), place] = int(value)

    def step(self, stmt: Stmt, env: Mapping[str, int], at: Mapping[int, int]) -> None:
        place = self.place(stmt.write.array, stmt.write.subscript, env, at)
        if isinstance(stmt.value, k.Read) and stmt.copies is not None:
            source = self.place(stmt.value.array, stmt.value.indices, env, at)
            if source not in self.memory:  # a box may have elements that nobody wrote
                self.memory.pop(place, None)
                return
        value = self.value(stmt.value, env, at)
        if stmt.is_update:
            value = _OPS[stmt.op](self.load(place), value)
        self.memory[place] = value

    def load(self, place: tuple[str, tuple[int, ...], tuple[int, ...]]) -> int:
        if place not in self.memory:
            raise Wrong(f"{place} was never written")
        return self.memory[place]

    def place(
        self,
        array: str,
        subscript: tuple[k.Expr, ...],
        env: Mapping[str, int],
        at: Mapping[int, int],
    ) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
        element = tuple(self.index(e, env) for e in subscript)
        if any(not 0 <= i < n for i, n in zip(element, self.shapes[array], strict=True)):
            raise Wrong(f"{array} has no {element}")
        return array, tuple(at[id(loop)] for loop in self.homes.get(array, ())), element

    def index(self, expr: k.Expr, env: Mapping[str, int]) -> int:
        match expr:
            case k.Const(value):
                return int(value)
            case k.Var(name):
                return env[name]
            case k.Size(name):
                return self.sizes[name]
            case k.Select(condition, then, other):
                return self.index(then if self.index(condition, env) else other, env)
            case k.Op("and", args):
                return int(all(self.index(a, env) for a in args))
            case k.Op(op, args):
                return int(_OPS[op](*(self.index(a, env) for a in args)))
        raise AssertionError(expr)

    def value(self, expr: k.Expr | None, env: Mapping[str, int], at: Mapping[int, int]) -> int:
        match expr:
            case k.Const(value):
                return int(value)
            case k.Read(array, subscript):
                return self.load(self.place(array, subscript, env, at))
            case k.Select(condition, then, other):
                return self.value(then if self.value(condition, env, at) else other, env, at)
            case k.Cast(_, arg):
                return self.value(arg, env, at)
            case k.Op("and", _):
                return self.index(expr, env)
            case k.Op(op, args) if expr.type != k.INDEX:
                if all(a.type == k.INDEX for a in args):
                    return int(_OPS[op](*(self.index(a, env) for a in args)))
                return int(_OPS[op](*(self.value(a, env, at) for a in args)))
            case None:
                raise AssertionError
            case _:
                return self.index(expr, env)


def outputs(
    program: Program, tree: Node, private: Private, sizes: Mapping[str, int], inputs: Any
) -> dict[str, Any]:
    """What the arguments hold after all instances, in the order of the tree."""
    homes = {
        array: tuple(next(s for s in paths(tree)[x] if isinstance(s, Loop) and s.name == n)
                     for x, n in named)
        for array, named in private.items()
    }  # fmt: skip
    machine = Machine(program, sizes, homes)
    machine.start(inputs)
    events = []
    for name, path in paths(tree).items():
        stmt = program.statements[name]
        loops = [step for step in path if isinstance(step, Loop)]
        for point, coordinates in points(stmt, loops, sizes, program):
            at = {id(loop): c for loop, c in zip(loops, coordinates, strict=True)}
            order = iter(coordinates)
            time = tuple(next(order) if isinstance(s, Loop) else s for s in path)
            events.append((time, stmt, dict(zip(stmt.indices, point, strict=True)), at))
    events.sort(key=lambda e: e[0])
    if any(a[0] == b[0] for a, b in pairwise(events)):
        raise Wrong("two instances at one time")
    for _, stmt, env, at in events:
        machine.step(stmt, env, at)
    result = {}
    for name, array in program.arrays.items():
        if array.role in ("out", "inout"):
            shape = machine.shapes[name]
            result[name] = [machine.memory.get((name, (), p)) for p in np.ndindex(*shape)]
    return result


def points(
    stmt: Stmt, loops: list[Loop], sizes: Mapping[str, int], program: Program
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The instances at these sizes, each with its coordinates."""
    whole = isl.Map.from_domain(stmt.domain)
    if loops:
        whole = coordinate_map([x.coords[stmt.name] for x in loops]).intersect_domain(stmt.domain)
    flat = whole.wrap().flatten()
    for position, name in enumerate(program.params):
        flat = flat.fix_val(PARAM, position, isl.Val(sizes[name]))
    found: list[tuple[int, ...]] = []
    count = flat.dim(SET)

    def add(point: isl.Point) -> None:
        found.append(tuple(point.get_coordinate_val(SET, d).to_python() for d in range(count)))

    flat.foreach_point(add)
    split = len(stmt.indices)
    return [(p[:split], p[split:]) for p in found]


def given(program: Program, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Small whole numbers for all inputs."""
    machine = Machine(program, sizes, {})
    result = {}
    for n, (name, array) in enumerate(program.arrays.items()):
        if array.role in ("in", "inout", "const"):
            shape = tuple(machine.index(e, {}) for e in array.shape)
            count = int(np.prod(shape, dtype=int))
            numbers = [(7 * i + 3 * n + i * i) % 23 - 11 for i in range(count)]
            result[name] = np.array(numbers, dtype=np.float32).reshape(shape)
    return result


def wanted(base: Program, sizes: Mapping[str, int]) -> dict[str, list[int]]:
    """What the oracle computes from the same numbers."""
    found = reference(base.kernel, sizes, given(base, sizes))
    return {name: [int(x) for x in array.reshape(-1)] for name, array in found.items()}


def is_right(case: Case, sizes: Mapping[str, int], due: Mapping[str, list[int]]) -> bool:
    """Whether the final program computes what the oracle does."""
    try:
        got = outputs(case.final, case.tree, case.private, sizes, given(case.base, sizes))
    except Wrong:
        return False
    return got == due
