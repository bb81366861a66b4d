"""The loop tree: the order of statement instances, and marks. Immutable; isl answers questions.

A loop holds one coordinate per statement below it (an isl piecewise quasi-affine function of
that statement's instance). Instances run in ascending order of the coordinates along the path;
at a sequence, in the order of its children. Coordinates are absolute: after
`split i by 8 -> io, ii`, io is floor(i / 8) and ii is still i.

Edits are in `tdsl.polyhedral.edit`, checks in `tdsl.polyhedral.legality`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import islpy as isl

from tdsl.ir.loops import Prefetch


@dataclass(frozen=True)
class Tail:
    """How the last, incomplete block of a split runs: `mode` is guard, mask, peel, cases,
    narrow or "" (the default of its mark), and whether the last two blocks share the rest."""

    mode: str = ""
    balanced: bool = False


@dataclass(frozen=True)
class SplitInfo:
    """On both loops of a split: its partner and factor.

    The block of the outer coordinate o is anchor + factor * o .. + factor (exclusive); `anchor`
    is 0 or an expression in sizes, kept per statement inside the coordinates.
    """

    outer: str
    inner: str
    factor: int
    tail: Tail = Tail()


@dataclass(frozen=True)
class Loop:
    """A loop. mark: "serial", "parallel", "vector", "unroll", "dot" or "transpose" (one of the two
    innermost loops of a copy that are transposed in registers).

    width: lanes asked for by `vectorize by`; by: copies asked for by `unroll by`; plain:
    `unroll plain`. inner_of: set on the inner loop of a split; outer_of: on the outer one.
    origin: where the directive that made or marked it stands, for comments in the C. hints: what
    its body starts with, over c0, c1, ... for the loops that stay loops down to this one.
    """

    name: str
    coords: Mapping[str, isl.PwAff] = field(compare=False)
    body: Node
    mark: str = "serial"
    width: int | None = None
    by: int | None = None
    plain: bool = False
    inner_of: SplitInfo | None = None
    outer_of: SplitInfo | None = None
    notes: tuple[str, ...] = ()
    hints: tuple[Prefetch, ...] = ()


@dataclass(frozen=True)
class Seq:
    children: tuple[Node, ...]


@dataclass(frozen=True)
class Leaf:
    statement: str


Node = Loop | Seq | Leaf


def statements(node: Node) -> tuple[str, ...]:
    """Names of the statements below, in order of the leaves."""
    match node:
        case Leaf(name):
            return (name,)
        case Loop():
            return statements(node.body)
        case Seq(children):
            return tuple(s for c in children for s in statements(c))


def path(node: Node, statement: str) -> tuple[Loop | int, ...]:
    """From the root to a leaf: the loops, and at each sequence the child's position."""
    match node:
        case Leaf():
            return ()
        case Loop():
            return (node, *path(node.body, statement))
        case Seq(children):
            for position, child in enumerate(children):
                if statement in statements(child):
                    return (position, *path(child, statement))
    raise KeyError(statement)


def loops(node: Node) -> Iterator[Loop]:
    """All loops, outer before inner."""
    match node:
        case Loop():
            yield node
            yield from loops(node.body)
        case Seq(children):
            for child in children:
                yield from loops(child)
        case Leaf():
            return


def loops_of(node: Node, statement: str) -> tuple[Loop, ...]:
    """The loops around one statement, outermost first."""
    return tuple(step for step in path(node, statement) if isinstance(step, Loop))
