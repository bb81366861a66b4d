"""The loop tree as code generation wants it: lanes and jammed copies moved to the leaves.

before: for io { unroll ii { for k { vector ji { S } } } }
after:  for io { for k { S with dims (ii, ji) } }

That a jammed or vector loop may move inward past serial loops and over sequences was checked
when it was marked (`legality.check_unroll_jam`, `legality.check_vector`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tdsl.polyhedral.inits import runs_over
from tdsl.polyhedral.program import Stmt
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq, loops, statements

LANES = ("vector", "dot", "transpose")  # marks of loops that run in vectors


@dataclass(frozen=True)
class Repeat:
    """A loop that stays a loop (serial, parallel or plain copies)."""

    loop: Loop
    body: Code


@dataclass(frozen=True)
class Sequence_:
    children: tuple[Code, ...]


@dataclass(frozen=True)
class Kept:
    """The elements of `array` that the body touches live in registers meanwhile.

    private: they are in no memory: nothing outside the body uses them.
    """

    array: str
    body: Code
    private: bool = False


@dataclass(frozen=True)
class Point:
    """A statement with its dimensions, outer first."""

    statement: str
    dims: tuple[Loop, ...]


Code = Repeat | Sequence_ | Kept | Point


def sink(tree: Node, *, lanes: bool) -> Code:
    """The tree with its vector (where the target has lanes) and jammed loops at the leaves."""
    return _sink(tree if lanes else serial(tree), ())


def serial(node: Node) -> Node:
    """Without lanes a vector loop, or one that is transposed, is a plain loop in its place."""
    match node:
        case Leaf():
            return node
        case Seq(children):
            return Seq(tuple(serial(c) for c in children))
        case Loop():
            mark = "serial" if node.mark in LANES else node.mark
            # Copies that stay together with lanes stay together: plain loops inside jam nothing.
            together = node.mark == "unroll" and not is_dim(node)
            return replace(node, mark=mark, plain=node.plain or together, body=serial(node.body))


def _sink(node: Node, dims: tuple[Loop, ...]) -> Code:
    match node:
        case Leaf(statement):
            return Point(statement, dims)
        case Seq(children):
            return Sequence_(tuple(_sink(c, dims) for c in children))
        case Loop():
            if is_dim(node):
                return _sink(node.body, (*dims, node))
            return Repeat(node, _sink(node.body, dims))


def is_dim(loop: Loop) -> bool:
    """Whether a loop moves to the leaves: lanes, and copies that are jammed or innermost."""
    if loop.mark in LANES:
        return True
    if loop.mark != "unroll" or loop.plain:
        return False
    below = tuple(loops(loop.body))
    jams = any(not is_dim(inner) for inner in below)
    # Copies of a sequence without loops in it stay together: S(0) T(0) S(1) T(1). A first term
    # goes with its statement.
    names = set(statements(loop.body))
    return jams or len({n for n in names if n.removesuffix(".init") not in names - {n}}) == 1


def is_reduced(stmt: Stmt, dim: Loop) -> bool:
    """Whether a dimension counts terms: its coordinate depends on reduced indices alone."""
    used = {i for n, i in enumerate(stmt.indices) if runs_over(dim, stmt.name, n)}
    return bool(used) and used <= set(stmt.reduction)


def points(code: Code) -> Sequence[Point]:
    """The statements of some code, in order."""
    match code:
        case Point():
            return (code,)
        case Repeat(_, body) | Kept(_, body):
            return points(body)
        case Sequence_(children):
            return [p for c in children for p in points(c)]
