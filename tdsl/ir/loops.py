"""The loops level: explicit loops with int64 bounds; at the leaves, statement instances.

Made by `tdsl.polyhedral.astgen` from a loop tree. Unrolled (jammed) and vector loops are no
`For` here: they are the dimensions of an instance, innermost, with a constant extent and, for
the incomplete block of a split, a count of those that run. Index expressions are those of
`tdsl.ir.kernel` over Var (loop variables, dimensions) and Size.
"""

from __future__ import annotations

from dataclasses import dataclass

from tdsl.ir.kernel import Expr


@dataclass(frozen=True)
class Prefetch:
    """Hints for the cache lines of a box of elements, which need not exist: where it starts and
    how long it is in each dimension. write: they are to be written."""

    array: str
    lo: tuple[Expr, ...]
    extents: tuple[Expr, ...]
    write: bool = False


@dataclass(frozen=True)
class For:
    """`for var in lo..hi step step`. mark: "serial", "parallel" or "unroll" (plain copies).

    `name` is the user's loop, `var` is unique on its path. by: copies for "unroll"; None: all.
    hints: what each iteration starts with.
    """

    name: str
    var: str
    lo: Expr
    hi: Expr
    body: Block
    step: int = 1
    mark: str = "serial"
    by: int | None = None
    notes: tuple[str, ...] = ()
    hints: tuple[Prefetch, ...] = ()


@dataclass(frozen=True)
class If:
    condition: Expr
    then: Block
    other: Block | None = None


@dataclass(frozen=True)
class Dim:
    """Iterations `0..count` of `extent` (constant) at a leaf; count None: all of them.

    mark: "unroll", "vector", "dot" (terms that one instruction adds) or "transpose" (the last two
    dims are, together). tail: "mask", "guard", "cases", "narrow", "peel" or "" (default): how an
    incomplete block runs. width: lanes asked for by `vectorize by`. chosen: the version is decided
    (by `tdsl.lower.specialize`): a count that is left is a mask or a test an iteration.
    """

    name: str
    var: str
    extent: int
    mark: str
    count: Expr | None = None
    tail: str = ""
    width: int | None = None
    chosen: bool = False


@dataclass(frozen=True)
class Instance:
    """A statement at `index` for every iteration of `dims` (outer first) where `guard` holds.

    always: a condition on the loops around under which the guard holds in all iterations.
    plain: one under which a copy reads in all iterations, so that its value asks for nothing;
    decided: where that holds.
    Lanes of a vector dimension read everything before they write.
    """

    statement: str
    index: tuple[tuple[str, Expr], ...]
    dims: tuple[Dim, ...] = ()
    guard: Expr | None = None
    always: Expr | None = None
    plain: Expr | None = None
    decided: bool = False


@dataclass(frozen=True)
class Scope:
    """While the body runs, the elements of `array` that it touches live in registers.

    They are loaded before where the body does not write them first, and stored after. private:
    neither, since nothing outside the body uses them.
    """

    array: str
    body: Block
    private: bool = False


@dataclass(frozen=True)
class Switch:
    """The block of the case that equals `on`; `default` (None: nothing) where none does."""

    on: Expr
    cases: tuple[tuple[int, Block], ...]
    default: Block | None = None


@dataclass(frozen=True)
class Block:
    items: tuple[Item, ...]


Item = For | If | Switch | Instance | Scope | Block
