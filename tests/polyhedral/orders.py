"""Loop trees from text, and where enumeration places instances in them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import islpy as isl

from tdsl.polyhedral import model
from tdsl.polyhedral.affine import pw_aff
from tdsl.polyhedral.order import Path, paths
from tdsl.polyhedral.program import Program
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq
from tests.polyhedral import brute
from tests.polyhedral.build import expr


def chain(program: Program, statement: str, coords: Sequence[tuple[str, str]]) -> Node:
    """Loops (name, coordinate) around one statement; `name:mark` marks one."""
    where = model.scope_of(program, statement)
    node: Node = Leaf(statement)
    for text, coordinate in reversed(coords):
        name, _, mark = text.partition(":")
        loop = Loop(name, {statement: pw_aff(expr(coordinate), where)}, node)
        node = replace(loop, mark=mark) if mark else loop
    return node


def shared(program: Program, name: str, coords: Mapping[str, str], *body: Node) -> Loop:
    """A loop over several statements."""
    functions = {s: pw_aff(expr(text), model.scope_of(program, s)) for s, text in coords.items()}
    return Loop(name, functions, body[0] if len(body) == 1 else Seq(body))


def outline(node: Node) -> str:
    """`i(j(C.init k(C)))`, marked loops as `j:vector(...)`."""
    match node:
        case Leaf(name):
            return name
        case Seq(children):
            return " ".join(outline(c) for c in children)
        case Loop(name, _, body, mark):
            shown = name if mark == "serial" else f"{name}:{mark}"
            return f"{shown}({outline(body)})"


def random_coords(rng: random.Random, indices: Sequence[str]) -> list[tuple[str, str]]:
    """A permuted, perhaps skewed, reversed and tiled nest of loops."""
    base = {i: i for i in indices}
    names = list(indices)
    if len(names) > 1 and rng.random() < 0.5:
        a, b = rng.sample(names, 2)
        base[a] = f"{base[a]} + {rng.choice([1, 2, -1])} * {b}"
    if rng.random() < 0.2:
        a = rng.choice(names)
        base[a] = f"-({base[a]})"
    rng.shuffle(names)
    coords = [(n, base[n]) for n in names]
    if rng.random() < 0.5:
        tiled = rng.sample(names, rng.randint(1, len(names)))
        coords = [(f"{n}o", f"({base[n]}) // 2") for n in names if n in tiled] + coords
    return coords


class Places:
    """The time of every instance in a tree: its coordinates evaluated one by one."""

    def __init__(self, tree: Node, program: Program, sizes: Mapping[str, int]) -> None:
        self._paths = paths(tree)
        self._sizes = tuple(sizes[name] for name in program.params)
        self._known: dict[tuple[str, tuple[int, ...]], tuple[int, ...]] = {}

    def path(self, statement: str) -> Path:
        return self._paths[statement]

    def __call__(self, instance: brute.Instance) -> tuple[int, ...]:
        key = instance.statement, instance.point
        if key not in self._known:
            self._known[key] = tuple(
                evaluate(step.coords[instance.statement], instance.point, self._sizes)
                if isinstance(step, Loop)
                else step
                for step in self._paths[instance.statement]
            )
        return self._known[key]


def evaluate(function: isl.PwAff, point: Sequence[int], sizes: Sequence[int]) -> int:
    cell = isl.Set.universe(function.domain().get_space())
    for n, size in enumerate(sizes):
        cell = cell.fix_val(isl.dim_type.param, n, isl.Val(size))
    for n, x in enumerate(point):
        cell = cell.fix_val(isl.dim_type.set, n, isl.Val(x))
    return int(function.eval(cell.sample_point()).to_python())
