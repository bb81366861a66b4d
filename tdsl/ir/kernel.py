"""The kernel level: statements over index sets, for one choice of constants, types and bound sizes.

Definitions are substituted, names resolved, every value typed, ranges inferred. Indices are
integers (type `INDEX`); data are of an element type. Made by `tdsl.syntax.elaborate`; read by
`tdsl.ir.interp` (the oracle), `tdsl.polyhedral` and `tdsl.lower`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from tdsl.diagnostics import Span
from tdsl.ir.types import ElemType

_T = TypeVar("_T")

INDEX = ElemType("index", "int", 64)  # type of indices and sizes: exact integers, int64 in C


def _span() -> Span | None:
    return field(default=None, compare=False, repr=False, kw_only=True)


# ---------------------------------------------------------------- expressions


@dataclass(frozen=True)
class Const:
    """A literal; floats hold the value rounded to `type` (a Python float), bools are bool."""

    value: int | float | bool
    type: ElemType
    span: Span | None = _span()


@dataclass(frozen=True)
class Var:
    """An index of the statement (or a loop variable at the loops level)."""

    name: str
    type: ElemType = INDEX
    span: Span | None = _span()

    def __hash__(self) -> int:
        return hash(self.name)  # names are hashed with every expression


@dataclass(frozen=True)
class Size:
    """A size that is not bound: a parameter, known at call time."""

    name: str
    type: ElemType = INDEX
    span: Span | None = _span()

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class Read:
    """An element of an array, before the statement's own write."""

    array: str
    indices: tuple[Expr, ...]
    type: ElemType
    span: Span | None = _span()


@dataclass(frozen=True)
class Op:
    """An operation; see OPS. Arguments of arithmetic share one type, comparisons give BOOL."""

    op: str
    args: tuple[Expr, ...]
    type: ElemType
    span: Span | None = _span()

    def __hash__(self) -> int:
        # Made once: passes look expressions up in tables, deep ones again and again.
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            known = self.__dict__["_hash"] = hash((self.op, self.args, self.type))
        return known


@dataclass(frozen=True)
class Cast:
    """`mode` is "convert" (saturating from floats, NaN 0; wrapping between integers),
    "saturate" or "bitcast". From INDEX to an element type too."""

    mode: str
    arg: Expr
    type: ElemType
    span: Span | None = _span()


@dataclass(frozen=True)
class Select:
    """Only the chosen arm counts, for bounds too: `padded` and `inside` become selects."""

    condition: Expr
    then: Expr
    other: Expr
    type: ElemType
    span: Span | None = _span()


Expr = Const | Var | Size | Read | Op | Cast | Select
LEAVES = (Const, Var, Size)

# Names of `Op.op`. Floats: div; integers and INDEX: floordiv, mod (Python's; by zero gives 0).
ARITHMETIC = ("add", "sub", "mul", "div", "floordiv", "mod", "neg", "min", "max", "abs")
MATH = (
    "sqrt", "rsqrt", "exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "sigmoid", "pow",
    "floor", "ceil", "trunc", "round",
)  # fmt: skip
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
LOGIC = ("and", "or", "not")  # on BOOL
BITS = ("band", "bor", "bxor", "bnot", "shl", "shr")
OPS = ARITHMETIC + MATH + COMPARISONS + LOGIC + BITS


def children(expr: Expr) -> tuple[Expr, ...]:
    """The operands of an expression, left to right."""
    # Patterns take several times as long, and all passes walk expressions.
    if isinstance(expr, Op):
        return expr.args
    if isinstance(expr, LEAVES):
        return ()
    match expr:
        case Read(_, indices):
            return indices
        case Cast(_, arg):
            return (arg,)
        case Select(condition, then, other):
            return (condition, then, other)


def rebuilt(expr: Expr, edit: Callable[[Expr], Expr]) -> Expr:
    """The expression with each of its operands edited; its place stays."""
    if isinstance(expr, Op):
        return Op(expr.op, tuple([edit(a) for a in expr.args]), expr.type, span=expr.span)
    if isinstance(expr, LEAVES):
        return expr
    match expr:
        case Read(array, indices, type):
            return Read(array, tuple(edit(i) for i in indices), type, span=expr.span)
        case Cast(mode, arg, type):
            return Cast(mode, edit(arg), type, span=expr.span)
        case Select(condition, then, other, type):
            return Select(edit(condition), edit(then), edit(other), type, span=expr.span)


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and everything below it, parents first."""
    left = [expr]
    while left:
        here = left.pop()
        yield here
        below = children(here)
        if below:
            left.extend(reversed(below))


# ---------------------------------------------------------------- statements


@dataclass(frozen=True)
class Array:
    """`role`: in, const, out, inout, temp (workspace) or table; placed by a schedule: stack (in
    the block of its loop), scratch (workspace, one a thread) or prepared (made by
    `NAME_prepare`). `values`: a table's, flat, row-major.

    `strides`: per dimension an Expr in elements, or the name of the C argument for a free one;
    None is row-major and contiguous. `range`: promised lo (inclusive) and hi (exclusive) of values.
    `local`: the name of the innermost `for` index in whose body the temp was declared, or None.
    `groups`: for each dimension of the caller's array how many of `shape` it holds, the outermost
    first; () is one each. An argument of records stands for its memory alone; what is read and
    written are the arrays of its fields, whose `field` names it and says at which byte of each
    record they begin. `layout`: of an argument that a schedule stores in another order, names for
    its own dimensions and the storage indices over them; `shape` is that of the storage then.
    """

    name: str
    type: ElemType
    shape: tuple[Expr, ...]
    role: str
    values: tuple[int | float | bool, ...] | None = None
    align: int | None = None
    strides: tuple[Expr | str, ...] | None = None
    range: tuple[Expr, Expr] | None = None
    local: str | None = None
    groups: tuple[int, ...] = ()
    field: tuple[str, int] | None = None
    layout: tuple[tuple[str, ...], tuple[Expr, ...]] | None = None
    span: Span | None = _span()

    @property
    def is_argument(self) -> bool:
        """Whether it is, or is in, memory that callers pass."""
        return self.role in ("in", "const", "out", "inout")

    @property
    def is_written(self) -> bool:
        """Whether it is an argument that the kernel writes."""
        return self.role in ("out", "inout")

    @property
    def free_strides(self) -> tuple[str, ...]:
        """Names of the strides that the caller gives beside the array."""
        return tuple(s for s in self.strides or () if isinstance(s, str))

    @property
    def grouped(self) -> tuple[tuple[Expr, ...], ...]:
        """The extents that each dimension of the caller's array is the product of."""
        return in_groups(self.shape, self.groups)


def in_groups(parts: tuple[_T, ...], groups: tuple[int, ...]) -> tuple[tuple[_T, ...], ...]:
    """What there is of each index dimension, by the dimensions of the caller's array."""
    out, start = [], 0
    for count in groups or (1,) * len(parts):
        out.append(parts[start : start + count])
        start += count
    return tuple(out)


@dataclass(frozen=True)
class Statement:
    """`array[subscript] op value` for each point of `indices` that satisfies `domain`.

    indices     left-hand indices in order of the left side, then those of the reduction; inside
                `for`, the nest's indices come first.
    domain      conditions that hold at each instance (BOOL expressions of indices, sizes and
                constants; conjunction). They bound every index.
    op          "define" (=), or the update that joins the old element and the value:
                "add", "sub", "mul", "min", "max", "any", "all"
    reduction   names of the indices that are reduced; () where S is no reduction
    init        for a reduction that starts by itself: the identity. Then S.init writes it for
                every point of `outer`, before the first term.
    outer       conditions of the left-hand (and nest) indices alone: the domain of S.init.
    written     the set of left-hand points; same as domain without reduction.
    start       in the statement that keeps the result of an `argmax` or `argmin` after each term:
                that word with its indices, and the statement that writes the value before any
                term. There has to be a term.
    tuple_of    in the parts of a tuple reduction: the name of the first one that keeps a value
    starts      in one that writes a value before any term: the part that keeps it
    over        in one that keeps a value: the indices that are reduced
    join        in one that keeps a value: that of two runs of terms together. For each part P the
                scalar P is its value after the one run, P' after the other, which may lie before,
                behind or between
    """

    name: str
    array: str
    subscript: tuple[Expr, ...]
    indices: tuple[str, ...]
    domain: tuple[Expr, ...]
    op: str
    value: Expr
    reduction: tuple[str, ...] = ()
    init: Const | None = None
    outer: tuple[Expr, ...] = ()
    start: tuple[str, str] | None = None
    tuple_of: str | None = None
    starts: str | None = None
    over: tuple[str, ...] = ()
    join: Expr | None = None
    span: Span | None = _span()

    @property
    def free(self) -> tuple[str, ...]:
        """Indices that are not reduced, in order."""
        return tuple(i for i in self.indices if i not in self.reduction)


@dataclass(frozen=True)
class Nest:
    """One loop of a `for`, shared by all that stands in its body; runs lo..hi (exclusive) in
    ascending order of `index`, or in descending order where `down`; `step` elements apart
    (anchored at lo when ascending, at hi - 1 when descending).

    The range conditions are in the domains of the statements below as well.
    """

    index: str
    lo: Expr
    hi: Expr
    down: bool
    step: int
    body: tuple[BodyItem, ...]
    span: Span | None = _span()


BodyItem = Nest | Statement


@dataclass(frozen=True)
class Kernel:
    """`sizes`: unbound ones in order of declaration; `all_sizes` with the bound ones.

    `assumptions` are BOOL expressions over sizes; `bound`, `constants` what was substituted
    (for messages and for the Python side's checks of shapes: `argument_shapes` keep bound
    sizes as plain constants).
    """

    name: str
    sizes: tuple[str, ...]
    assumptions: tuple[Expr, ...]
    arrays: tuple[Array, ...]
    body: tuple[BodyItem, ...]
    bound: tuple[tuple[str, int], ...] = ()
    constants: tuple[tuple[str, int | float | str], ...] = ()
    all_sizes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    span: Span | None = _span()

    def array(self, name: str) -> Array:
        return next(a for a in self.arrays if a.name == name)

    @property
    def arguments(self) -> tuple[Array, ...]:
        """What callers pass, in order of declaration."""
        return tuple(a for a in self.arrays if a.is_argument and a.field is None)

    @property
    def statements(self) -> tuple[Statement, ...]:
        """All statements in textual order."""
        return tuple(_statements(self.body))

    def statement(self, name: str) -> Statement:
        return next(s for s in self.statements if s.name == name)


def _statements(body: tuple[BodyItem, ...]) -> Iterator[Statement]:
    for item in body:
        match item:
            case Statement():
                yield item
            case Nest():
                yield from _statements(item.body)
