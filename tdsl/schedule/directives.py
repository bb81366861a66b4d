"""Directives as frozen values: the text, the Python methods and the search speak the same ones.

A value keeps its source expressions (`Expr`); `tdsl.schedule.resolve` turns them into integers
for one target, and only such directives reach the loop tree.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tdsl.diagnostics import Span
from tdsl.syntax.tree import Expr


def _span() -> Span | None:
    return field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class LoopRef:
    """`S.i`, or a bare `i` (statement None)."""

    statement: str | None
    loop: str
    span: Span | None = _span()

    def __str__(self) -> str:
        return self.loop if self.statement is None else f"{self.statement}.{self.loop}"


@dataclass(frozen=True)
class ArrayRef:
    """An array, for one reader only when `statement` is given; `dims` as in `pack x[d1, d2]`."""

    array: str
    statement: str | None = None
    dims: tuple[Expr, ...] = ()
    span: Span | None = _span()


@dataclass(frozen=True)
class Split:
    """One loop becomes an outer one over blocks of `factor` and an inner one over a block.

    before: for i in 0..N          after: for io in 0..ceil(N / f)
                                            for ii in f * io..min(N, f * io + f)

    The order of instances does not change: always legal.
    """

    loops: tuple[LoopRef, ...]
    factor: Expr
    outer: str
    inner: str
    tail: tuple[str, ...] = ()  # guard, mask, peel, cases, narrow, balanced, shift, overrun
    span: Span | None = _span()


@dataclass(frozen=True)
class Tile:
    """Split each loop, then all outer loops before all inner ones, in the order named.

    before: for i { for j }        after: for io { for jo { for ii { for ji } } }
    """

    loops: tuple[LoopRef, ...]
    factors: tuple[Expr, ...]
    names: tuple[str, ...]
    tail: tuple[str, ...] = ()
    span: Span | None = _span()


@dataclass(frozen=True)
class Reorder:
    """The named loops of one chain take this order within the places they hold.

    before: for i { for j { for k } }    `reorder k, i`    after: for k { for j { for i } }
    """

    loops: tuple[LoopRef, ...]
    span: Span | None = _span()


@dataclass(frozen=True)
class Collapse:
    """Two adjacent rectangular loops become one.

    before: for i in 0..N { for j in 0..8 }      after: for ij in 0..8 * N
    """

    loops: tuple[LoopRef, ...]
    name: str
    span: Span | None = _span()


@dataclass(frozen=True)
class Fuse:
    """Sibling loops become one, by equal coordinate, at the place of the first.

    before: for i { S }  for i { T }             after: for n { S  T }
    """

    loops: tuple[LoopRef, ...]
    name: str
    span: Span | None = _span()


@dataclass(frozen=True)
class Distribute:
    """The sequence below a loop moves above it (for one statement: only its branch leaves).

    before: for i { S  T }                       after: for i { S }  for i { T }
    """

    loop: LoopRef
    span: Span | None = _span()


@dataclass(frozen=True)
class Skew:
    """before: for i { for j }    `skew j by i`    after: the coordinate of j is j + i"""

    loop: LoopRef
    by: Expr
    span: Span | None = _span()


@dataclass(frozen=True)
class Shift:
    """before: S at i    `shift S.i by 1`    after: S at i + 1, for S alone"""

    loop: LoopRef
    by: Expr
    span: Span | None = _span()


@dataclass(frozen=True)
class Reverse:
    """before: for i in 0..N    after: the loop runs from N - 1 to 0 (coordinate -i)"""

    loops: tuple[LoopRef, ...]
    span: Span | None = _span()


@dataclass(frozen=True)
class Wavefront:
    """before: for a { for b }    after: for front = a + b { for cell = b }"""

    first: LoopRef
    second: LoopRef
    front: str
    cell: str
    span: Span | None = _span()


@dataclass(frozen=True)
class Peel:
    """before: for i { S }    after: S_first, S, S_last with their own parts of the domain"""

    loop: LoopRef
    first: Expr | None = None
    last: Expr | None = None
    span: Span | None = _span()


@dataclass(frozen=True)
class Extend:
    """before: S    `extend S by n = e`    after: for n in e..e + 1 { S }"""

    statement: str
    name: str
    value: Expr
    span: Span | None = _span()


@dataclass(frozen=True)
class Sequence:
    """Branches of one sequence take the order named."""

    statements: tuple[str, ...]
    span: Span | None = _span()


@dataclass(frozen=True)
class Order:
    """All statements at once: (statement, its indices, its time), and names of the loops."""

    entries: tuple[tuple[str, tuple[str, ...], tuple[Expr, ...]], ...]
    names: tuple[str, ...] = ()
    span: Span | None = _span()


@dataclass(frozen=True)
class Vectorize:
    """The iterations of a loop become lanes.

    before: for j in 0..N { S }    after: for jv in 0..N step w { S on lanes jv..jv + w }
    """

    loops: tuple[LoopRef, ...]
    width: Expr | None = None
    span: Span | None = _span()


@dataclass(frozen=True)
class Unroll:
    """The body is written out, once an iteration; loops inside are jammed unless `plain`.

    before: for i in 0..2 { for k { S(i, k) } }  after: for k { S(0, k)  S(1, k) }
    """

    loops: tuple[LoopRef, ...]
    by: Expr | None = None
    plain: bool = False
    span: Span | None = _span()


@dataclass(frozen=True)
class Parallel:
    """The iterations of a loop are shared among threads."""

    loops: tuple[LoopRef, ...]
    span: Span | None = _span()


@dataclass(frozen=True)
class Dot:
    """The innermost loop becomes the group of an instruction that sums products.

    before: for ji in lanes { for kk in 0..4 { C[ji] += i32(A[kk]) * i32(B[ji, kk]) } }
    after:  C[lanes] = dot(C[lanes], four bytes of A in every lane, B[lanes, 0..4])
    """

    loops: tuple[LoopRef, ...]
    span: Span | None = _span()


@dataclass(frozen=True)
class Inline:
    """A pure definition is substituted where it is read, and computed no more.

    before: for i { P: p[i] = f(x[i]) }  for i { y[i] = p[i] + p[i + 1] }
    after:  for i { y[i] = f(x[i]) + f(x[i + 1]) }
    """

    statements: tuple[str, ...]
    span: Span | None = _span()


@dataclass(frozen=True)
class Compute:
    """A producer runs where it is needed: what one iteration of the loop reads, before it reads it.

    before: for i { P: p[i] = x[i] }  for io { for ii { C: y[ii] = p[ii] + p[ii + 1] } }
    after   `compute P at C.io`:
            for io { for i in 8 io..8 io + 9 { P }  for ii { C } }

    `at`: a LoopRef, "root" or "prepare"; memory: registers, stack, scratch, heap or None.
    """

    statement: str
    at: LoopRef | str
    memory: str | None = None
    span: Span | None = _span()


@dataclass(frozen=True)
class Finish:
    """The epilogue of a blocked reduction, in the iteration that adds the last block.

    before: for kc { for i { C[i] += ... } }  for i { Y: y[i] = f(C[i]) }
    after   `finish Y at C.i`: for kc { for i { C[i] += ...  if kc is the last { Y } } }
    """

    statement: str
    at: LoopRef
    span: Span | None = _span()


@dataclass(frozen=True)
class Store:
    """Where the elements of a temp are.

    `store P at C.io`: once an iteration of io, instances inside do not repeat (a sliding window)
    before: for io { for ii { for i in ii..ii + 3 { P: p[i] }  C } }
    after:  for io { for ii { for i in ii + 2, or all three at first { P }  C } }

    `fold i by 3`: p[i] is at i % 3. `as [...]`: in this layout. `in Y`: in the memory of Y until Y
    is written. One of: at a loop (`fold`: (dimension, n)), `as` a layout, `in` another array.
    """

    statement: str
    at: LoopRef | str | None = None
    memory: str | None = None
    fold: tuple[tuple[str, Expr], ...] = ()
    layout: tuple[Expr, ...] | None = None
    inside: str | None = None
    span: Span | None = _span()


@dataclass(frozen=True)
class Stage:
    """What the body of a loop touches of an array is copied in before and back after.

    before: for k { S uses A[...] }    after: a = A[...]; for k { S uses a }; A[...] = a
    """

    array: ArrayRef
    at: LoopRef
    layout: tuple[Expr, ...] | None = None
    memory: str | None = None  # registers, stack, scratch or None
    span: Span | None = _span()


@dataclass(frozen=True)
class Pack:
    """A copy of what is read, in the order of its use, with zeros up to full tiles.

    before: for jr { for k { for j in 64 jr..+64 { S uses B[k, j] } } }
    after   `pack B at l as Q[jr, k, j]`, at the start of each iteration of l:
            for jr { for k { for j in 0..64 { Q[jr, k, j] = B[k, 64 jr + j], or 0 behind it } } }
            and S uses Q[jr, k, j - 64 jr]
    """

    array: ArrayRef
    at: LoopRef | str
    order: tuple[Expr, ...]
    name: str | None = None
    type: str | None = None
    memory: str | None = None
    span: Span | None = _span()


@dataclass(frozen=True)
class Transpose:
    """The two innermost loops of a copy run as vectors that are transposed in registers.

    before: for ii in 0..8 { for ji in 0..8 { t[ji, ii] = x[ii, ji] } }
    after:  r0, ..., r7 = rows of x; c0, ..., c7 = their columns; t[0, 0..8] = c0; ...
    """

    first: LoopRef
    second: LoopRef
    span: Span | None = _span()


@dataclass(frozen=True)
class Layout:
    """An argument is stored in another order, which is part of the interface then.

    `layout x[n, c, h, w] as [n, c // 16, h, w, c % 16]`: the loops stay; x[n, c, h, w] is the
    element [n, c // 16, h, w, c % 16] of what the caller passes
    """

    array: str
    indices: tuple[str, ...]
    storage: tuple[Expr, ...]
    span: Span | None = _span()


@dataclass(frozen=True)
class Prefetch:
    """Each iteration of a loop starts with hints: the lines of what it, or the n-th next one,
    touches of an array.

    before: for k { S uses A[..., k] }   after: for k { hint A[..., k + n]  S uses A[..., k] }
    """

    array: ArrayRef
    at: LoopRef
    ahead: Expr | None = None
    span: Span | None = _span()


@dataclass(frozen=True)
class Stream:
    """What is written leaves the caches alone: rows are peeled to a line at run time.

    before: for j { y[j..+16] = ... }   after: head; for j { stream y[j..+16] = ... }; tail; fence
    """

    array: str
    span: Span | None = _span()


@dataclass(frozen=True)
class Reassociate:
    """The order of these floating-point reductions may change."""

    statements: tuple[str, ...]
    span: Span | None = _span()


@dataclass(frozen=True)
class Factor:
    """A reduction in two stages: partial results over the inner loops, then their sum.

    before: for kc { for k1 { S: C[i] += ... } }
    after   `factor S.kc -> P`:
            for kc { for k1 { P[i, kc] += ... } }  for kc { S: C[i] += P[i, kc] }
    """

    loop: LoopRef
    name: str
    span: Span | None = _span()


@dataclass(frozen=True)
class Expect:
    """What the generated assembly of a statement's innermost loop, or the plan, has to keep."""

    conditions: tuple[Expr, ...]
    span: Span | None = _span()


@dataclass(frozen=True)
class Let:
    """`let T = expr`; a knob when the whole right side is `tune(...)`."""

    name: str
    value: Expr
    span: Span | None = _span()


@dataclass(frozen=True)
class Require:
    conditions: tuple[Expr, ...]
    span: Span | None = _span()


@dataclass(frozen=True)
class Use:
    """`use recipe(args, name = value)`; an argument may be a name or an expression."""

    recipe: str
    args: tuple[Expr, ...]
    kwargs: tuple[tuple[str, Expr], ...] = ()
    span: Span | None = _span()


@dataclass(frozen=True)
class On:
    """Bare loop names inside belong to these statements, to each in turn."""

    statements: tuple[str, ...]
    body: tuple[Directive, ...]
    span: Span | None = _span()


Directive = (
    Split | Tile | Reorder | Collapse | Fuse | Distribute | Skew | Shift | Reverse | Wavefront
    | Peel | Extend | Sequence | Order | Vectorize | Unroll | Parallel | Dot | Inline | Compute
    | Finish | Store | Stage | Pack | Transpose | Layout | Prefetch | Stream | Reassociate
    | Factor | Expect | Let | Require | Use | On
)  # fmt: skip
