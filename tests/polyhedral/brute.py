"""Instances, accesses and orders by enumeration in Python: the oracle, without isl."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tdsl.ir.kernel import (
    BodyItem,
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

Env = Mapping[str, int]


def value(expr: Expr, env: Env) -> int:
    match expr:
        case Const(constant):
            return int(constant)
        case Var(name) | Size(name):
            return env[name]
        case Op(op, args):
            a = [value(x, env) for x in args]
            return int(_OPS[op](a))
        case Select(condition, then, other):
            return value(then if value(condition, env) else other, env)
    raise TypeError(expr)


_OPS: dict[str, Callable[[list[int]], int]] = {
    "add": lambda a: a[0] + a[1],
    "sub": lambda a: a[0] - a[1],
    "mul": lambda a: a[0] * a[1],
    "neg": lambda a: -a[0],
    "floordiv": lambda a: a[0] // a[1] if a[1] else 0,
    "mod": lambda a: a[0] % a[1] if a[1] else 0,
    "min": min,
    "max": max,
    "abs": lambda a: abs(a[0]),
    "eq": lambda a: a[0] == a[1],
    "ne": lambda a: a[0] != a[1],
    "lt": lambda a: a[0] < a[1],
    "le": lambda a: a[0] <= a[1],
    "gt": lambda a: a[0] > a[1],
    "ge": lambda a: a[0] >= a[1],
    "and": lambda a: a[0] and a[1],
    "or": lambda a: a[0] or a[1],
    "not": lambda a: not a[0],
}


@dataclass(frozen=True)
class Instance:
    """time: its place in the written order; init: whether it is one of `S.init`."""

    statement: str
    point: tuple[int, ...]
    time: tuple[int, ...]
    write: tuple[str, tuple[int, ...]]
    reads: frozenset[tuple[str, tuple[int, ...]]]
    update: str | None


def instances(kernel: Kernel, sizes: Env, bound: range = range(-1, 9)) -> list[Instance]:
    """All instances in the order of the text, indices enumerated over `bound`."""
    found = list(_body(kernel.body, sizes, (), (), bound))
    return sorted(found, key=lambda i: i.time)


def _body(
    body: Sequence[BodyItem],
    env: Env,
    time: tuple[int, ...],
    outer: tuple[str, ...],
    bound: range,
) -> Iterator[Instance]:
    for position, item in enumerate(body):
        if isinstance(item, Nest):
            lo, hi = value(item.lo, env), value(item.hi, env)
            steps = range(hi - 1, lo - 1, -item.step) if item.down else range(lo, hi, item.step)
            for count, step in enumerate(steps):
                inner = {**env, item.index: step}
                yield from _body(
                    item.body, inner, (*time, position, count), (*outer, item.index), bound
                )
        else:
            yield from _statement(item, env, (*time, position), outer, bound)


def _statement(
    item: Statement, env: Env, time: tuple[int, ...], outer: tuple[str, ...], bound: range
) -> Iterator[Instance]:
    free = [i for i in item.free if i not in outer]
    if item.init is not None:
        for point in points(item.outer, free, env, bound):
            order = tuple(point[i] for i in free)
            at = tuple(point[i] for i in item.free)
            element = item.array, tuple(value(e, point) for e in item.subscript)
            yield Instance(f"{item.name}.init", at, (*time, *order, -1), element, frozenset(), None)
    own = [*free, *item.reduction]
    for point in points(item.domain, own, env, bound):
        order = tuple(point[i] for i in free)
        if item.reduction:
            order = (*order, 0, *(point[i] for i in item.reduction))
        element = item.array, tuple(value(e, point) for e in item.subscript)
        reads = frozenset(
            (r.array, tuple(value(e, point) for e in r.indices))
            for r in walk(item.value)
            if isinstance(r, Read)
        )
        update = None if item.op == "define" else item.op
        yield Instance(
            item.name,
            tuple(point[i] for i in item.indices),
            (*time, *order),
            element,
            reads,
            update,
        )


def points(
    conditions: Sequence[Expr], indices: Sequence[str], env: Env, bound: range
) -> Iterator[dict[str, int]]:
    """Assignments of the indices that satisfy the conditions, pruned as soon as one is known."""
    parts = [p for c in conditions for p in _conjuncts(c)]
    yield from _points(parts, indices, dict(env), bound)


def _conjuncts(condition: Expr) -> Iterator[Expr]:
    if isinstance(condition, Op) and condition.op == "and":
        for arg in condition.args:
            yield from _conjuncts(arg)
    else:
        yield condition


def _points(
    parts: Sequence[Expr], indices: Sequence[str], env: dict[str, int], bound: range
) -> Iterator[dict[str, int]]:
    known = [p for p in parts if all(v.name in env for v in walk(p) if isinstance(v, Var))]
    if not all(value(p, env) for p in known):
        return
    rest = [p for p in parts if p not in known]
    if not indices:
        assert not rest
        yield env
        return
    for v in bound:
        yield from _points(rest, indices[1:], {**env, indices[0]: v}, bound)


# ---------------------------------------------------------------- dependences


@dataclass(frozen=True)
class Pair:
    source: Instance
    sink: Instance
    kinds: frozenset[str]
    relaxable: bool  # nothing but two updates by one operator on one element joins them


def dependences(found: Sequence[Instance]) -> list[Pair]:
    """All pairs of different instances that share an element which one of them writes."""
    result = []
    for n, a in enumerate(found):
        for b in found[n + 1 :]:
            kinds = set()
            a_reads = a.reads | ({a.write} if a.update else set())
            b_reads = b.reads | ({b.write} if b.update else set())
            if a.write in b_reads:
                kinds.add("flow")
            if b.write in a_reads:
                kinds.add("anti")
            if a.write == b.write:
                kinds.add("output")
            if kinds:
                relaxable = (
                    a.write == b.write
                    and a.update is not None
                    and a.update == b.update
                    and a.write not in b.reads
                    and b.write not in a.reads
                )
                result.append(Pair(a, b, frozenset(kinds), relaxable))
    return result


@cache
def _pairs(kernel: Kernel, sizes: tuple[tuple[str, int], ...]) -> tuple[Pair, ...]:
    return tuple(dependences(instances(kernel, dict(sizes))))


def pairs(kernel: Kernel, sizes: Env) -> tuple[Pair, ...]:
    """The dependences of a kernel at these sizes, enumerated once."""
    return _pairs(kernel, tuple(sizes.items()))
