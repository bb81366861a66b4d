"""Small constructors for kernels built by hand."""

from __future__ import annotations

from collections.abc import Iterable

from tdsl.ir.kernel import (
    COMPARISONS,
    INDEX,
    LOGIC,
    Array,
    BodyItem,
    Cast,
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
from tdsl.ir.types import BOOL, ElemType

Index = Expr | int | str


def const(value: int | float | bool, type_: ElemType) -> Const:
    return Const(value, type_)


def size(name: str) -> Size:
    return Size(name)


def ix(value: Index) -> Expr:
    """An index: a number, a lower-case name (an index), an upper-case name (a size)."""
    if isinstance(value, int):
        return Const(value, INDEX)
    if isinstance(value, str):
        return Size(value) if value[0].isupper() else Var(value)
    return value


def op(name: str, *args: Expr) -> Op:
    boolean = name in COMPARISONS or name in LOGIC
    return Op(name, args, BOOL if boolean else args[0].type)


def iop(name: str, *args: Index) -> Op:
    """An operation on indices."""
    return op(name, *(ix(a) for a in args))


def add(*args: Index) -> Expr:
    """A sum of indices."""
    total = ix(args[0])
    for a in args[1:]:
        total = iop("add", total, a)
    return total


def mul(a: Index, b: Index) -> Expr:
    return iop("mul", a, b)


def select(condition: Expr, then: Expr, other: Expr) -> Select:
    return Select(condition, then, other, then.type)


def cast(arg: Expr, type_: ElemType, mode: str = "convert") -> Cast:
    return Cast(mode, arg, type_)


def read(array: Array, *indices: Index) -> Read:
    return Read(array.name, tuple(ix(i) for i in indices), array.type)


def between(index: Index, lo: Index, hi: Index) -> tuple[Expr, Expr]:
    """lo <= index < hi."""
    return iop("le", lo, index), iop("lt", index, hi)


def array(name: str, type_: ElemType, *shape: Index, role: str = "in", **more: object) -> Array:
    return Array(name, type_, tuple(ix(e) for e in shape), role, **more)  # type: ignore[arg-type]


def table(
    name: str, type_: ElemType, shape: tuple[int, ...], values: Iterable[int | float | bool]
) -> Array:
    return Array(name, type_, tuple(ix(e) for e in shape), "table", values=tuple(values))


def statement(
    target: Array,
    subscript: tuple[Index, ...],
    value: Expr,
    *domain: Expr,
    op: str = "define",
    reduce: tuple[str, ...] = (),
    init: int | float | bool | None = None,
    indices: tuple[str, ...] | None = None,
    name: str | None = None,
) -> Statement:
    """A statement; its left-hand indices are the names in the subscript unless `indices` says."""
    places = tuple(ix(i) for i in subscript)
    if indices is None:
        found = (e.name for i in places for e in walk(i) if isinstance(e, Var))
        indices = (*dict.fromkeys(found), *reduce)
    identity = None if init is None else Const(init, target.type)
    outer = tuple(c for c in domain if not _mentions(c, reduce)) if init is not None else ()
    return Statement(
        name or target.name,
        target.name,
        places,
        indices,
        domain,
        op,
        value,
        reduce,
        identity,
        outer,
    )


def _mentions(expr: Expr, names: tuple[str, ...]) -> bool:
    return any(isinstance(e, Var) and e.name in names for e in walk(expr))


def nest(
    index: str, lo: Index, hi: Index, *body: BodyItem, down: bool = False, step: int = 1
) -> Nest:
    return Nest(index, ix(lo), ix(hi), down, step, body)


def kernel(
    arrays: Iterable[Array],
    *body: BodyItem,
    assume: tuple[Expr, ...] = (),
    bound: tuple[tuple[str, int], ...] = (),
    extra_sizes: tuple[str, ...] = (),
) -> Kernel:
    """A kernel whose sizes are those that its shapes mention, and `extra_sizes`."""
    arrays = tuple(arrays)
    used = (e.name for a in arrays for x in a.shape for e in walk(x) if isinstance(e, Size))
    sizes = tuple(dict.fromkeys((*used, *extra_sizes)))
    return Kernel(
        "k",
        sizes,
        assume,
        arrays,
        body,
        bound=bound,
        all_sizes=(*sizes, *(name for name, _ in bound)),
    )
