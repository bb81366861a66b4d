"""Small wrong changes of the loops level and of the vector level, each with a name.

Every mutator looks at one node and gives what it could be by mistake; `mutants` tries every
mutator at every node of a tree of frozen dataclasses and tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from tdsl.ir import loops as ir
from tdsl.ir import vector as v
from tdsl.ir.index import add, const
from tdsl.ir.kernel import INDEX, Expr, Op, Var
from tdsl.ir.types import BOOL
from tdsl.lower.rename import rename

Mutation = tuple[str, Any]
Mutator = Callable[[Any], Iterator[Mutation]]


@dataclass(frozen=True)
class Mutant:
    """name: the mutator; where: the way to the node; tree: the whole, changed."""

    name: str
    where: str
    tree: Any


def mutants(tree: Any, mutators: tuple[Mutator, ...]) -> Iterator[Mutant]:
    """All trees that differ from this one by one mutation."""
    for path, node, rebuild in _nodes(tree, "", lambda new: new):
        for mutator in mutators:
            for name, new in mutator(node):
                if new != node:
                    yield Mutant(name, path, rebuild(new))


def _nodes(
    node: Any, path: str, rebuild: Callable[[Any], Any]
) -> Iterator[tuple[str, Any, Callable[[Any], Any]]]:
    if is_dataclass(node):
        yield path, node, rebuild
        if isinstance(node, Expr):
            return
        for field in fields(node):
            below = getattr(node, field.name)

            def with_field(new: Any, node: Any = node, name: str = field.name) -> Any:
                return rebuild(replace(node, **{name: new}))

            yield from _nodes(below, f"{path}.{field.name}", with_field)
    elif isinstance(node, tuple):
        for number, below in enumerate(node):

            def with_item(new: Any, node: Any = node, number: int = number) -> Any:
                return rebuild((*node[:number], new, *node[number + 1 :]))

            yield from _nodes(below, f"{path}[{number}]", with_item)


def _with(node: Any, **changes: Any) -> Any:
    """For nodes that both levels have: the types differ, the fields do not."""
    return replace(node, **changes)


def _off(expr: Expr) -> Iterator[Expr]:
    yield add(expr, const(1))
    yield add(expr, const(-1))


def _not(condition: Expr) -> Expr:
    return Op("not", (condition,), BOOL)


# ---------------------------------------------------------------- both levels


def bounds(node: Any) -> Iterator[Mutation]:
    if isinstance(node, ir.For | v.For):
        for lo in _off(node.lo):
            yield "lo off by one", replace(node, lo=lo)
        for hi in _off(node.hi):
            yield "hi off by one", replace(node, hi=hi)
        yield "step one more", replace(node, step=node.step + 1)


def blocks(node: Any) -> Iterator[Mutation]:
    if not isinstance(node, ir.Block | v.Block):
        return
    items = node.items
    for n, item in enumerate(items):
        if isinstance(item, v.Let | v.LetIndex | v.Declare | v.Comment):
            continue
        yield "item dropped", _with(node, items=(*items[:n], *items[n + 1 :]))
        yield "item twice", _with(node, items=(*items[:n], item, *items[n:]))
        if n + 1 < len(items) and not isinstance(items[n + 1], v.Let | v.LetIndex | v.Declare):
            swapped = (*items[:n], items[n + 1], item, *items[n + 2 :])
            yield "items swapped", _with(node, items=swapped)


def choices(node: Any) -> Iterator[Mutation]:
    match node:
        case ir.If(condition, then, other) | v.If(condition, then, other):
            yield "if dropped", then
            if isinstance(condition, Expr):
                yield "if negated", replace(node, condition=_not(condition))
            if other is not None:
                yield "else dropped", replace(node, other=None)
        case ir.Switch(on, cases) | v.Switch(on, cases):
            for n, (number, body) in enumerate(cases):
                rest = (*cases[:n], (number + 1, body), *cases[n + 1 :])
                yield "case off by one", _with(node, cases=rest)
                yield "case dropped", _with(node, cases=(*cases[:n], *cases[n + 1 :]))
            for n in range(len(cases) - 1):
                (a, one), (b, other_body) = cases[n : n + 2]
                swapped = (*cases[:n], (a, other_body), (b, one), *cases[n + 2 :])
                yield "cases swapped", _with(node, cases=swapped)
            for new in _off(on):
                yield "switch on off by one", replace(node, on=new)


# ---------------------------------------------------------------- loops


def nests(node: Any) -> Iterator[Mutation]:
    match node:
        case ir.For(body=ir.Block((ir.For() as inner,))):
            outside = replace(node, body=inner.body)
            yield "loops swapped", replace(inner, body=ir.Block((outside,)))
    if isinstance(node, ir.For):
        yield "loop parallel", replace(node, mark="parallel")
        yield "loop reversed", _reversed(node)


def _reversed(loop: ir.For) -> Any:
    """The index expressions inside count from the other end."""
    other = Op("sub", (Op("sub", (loop.hi, const(1)), INDEX), Var(loop.var)), INDEX)
    mirrored = Op("add", (other, loop.lo), INDEX)
    return replace(loop, body=rename(loop.body, loop.var, mirrored))


def instances(node: Any) -> Iterator[Mutation]:
    if not isinstance(node, ir.Instance):
        return
    for n, (name, value) in enumerate(node.index):
        for new in _off(value):
            yield (
                "index off by one",
                replace(node, index=(*node.index[:n], (name, new), *node.index[n + 1 :])),
            )
    for n in range(len(node.index) - 1):
        (a, one), (b, other) = node.index[n : n + 2]
        swapped = (*node.index[:n], (a, other), (b, one), *node.index[n + 2 :])
        yield "indices swapped", replace(node, index=swapped)
    if node.guard is not None:
        yield "guard dropped", replace(node, guard=None)
        yield "guard negated", replace(node, guard=_not(node.guard))
    if len(node.dims) > 1:
        yield "dims swapped", replace(node, dims=node.dims[::-1])


def dims(node: Any) -> Iterator[Mutation]:
    if not isinstance(node, ir.Dim):
        return
    for extent in (node.extent + 1, node.extent - 1):
        yield "extent off by one", replace(node, extent=extent)
    if node.count is not None:
        yield "count dropped", replace(node, count=None)
        for count in _off(node.count):
            yield "count off by one", replace(node, count=count)
    if node.mark == "unroll":
        yield "copies become lanes", replace(node, mark="vector")


# ---------------------------------------------------------------- vector


def memory(node: Any) -> Iterator[Mutation]:
    match node:
        case v.Load() | v.Store():
            for offset in _off(node.offset):
                yield "offset off by one", replace(node, offset=offset)
            if node.mask is not None:
                yield "mask dropped", replace(node, mask=None)
            lanes = node.type.lanes if isinstance(node, v.Load) else node.value.type.lanes
            if lanes > 1:
                stride = const(2) if node.stride is None else add(node.stride, const(1))
                yield "stride one more", replace(node, stride=stride)


def slides(node: Any) -> Iterator[Mutation]:
    match node:
        case v.Slide(low, high, start, type):
            for lane in {start - 1, start + 1} & set(range(1, type.lanes)):
                yield "slide off by one", replace(node, start=lane)
            yield "slide swapped", replace(node, low=high, high=low)
            yield "slide dropped", low


def masks(node: Any) -> Iterator[Mutation]:
    match node:
        case v.FirstLanes(count):
            for new in _off(count):
                yield "mask off by one", replace(node, count=new)
        case v.Condition(condition):
            yield "condition negated", replace(node, condition=_not(condition))
        case v.Choose(_, then, other):
            yield "choice swapped", replace(node, then=other, other=then)
            yield "choice dropped", then
        case v.Op("not", (arg,)) if arg.type == node.type:
            yield "not dropped", arg


def origins(node: Any) -> Iterator[Mutation]:
    if isinstance(node, v.Origin):
        for n, value in enumerate(node.index):
            for new in _off(value):
                yield (
                    "origin off by one",
                    replace(node, index=(*node.index[:n], new, *node.index[n + 1 :])),
                )


LOOPS: tuple[Mutator, ...] = (bounds, blocks, choices, nests, instances, dims)
VECTOR: tuple[Mutator, ...] = (bounds, blocks, choices, memory, slides, masks, origins)
