"""`strides [lda, 1]` and `(G, CG)` of a declaration: where an argument's elements are."""

from __future__ import annotations

from collections.abc import Sequence

from tdsl.diagnostics import BoundsError, ParseError, Span
from tdsl.ir.affine import expression, linear
from tdsl.ir.kernel import INDEX, Const, Expr, Op, Size
from tdsl.syntax import tree
from tdsl.syntax.expand import walk
from tdsl.syntax.exprs import Values
from tdsl.syntax.scope import Scope

FREE = "free"  # a stride that the caller gives, without a name of its own


def groups(item: tree.ArrayDecl) -> tuple[int, ...]:
    """How many index dimensions each declared one holds; () where each is one."""
    counts = tuple(len(e) if isinstance(e, tuple) else 1 for e in item.shape)
    if all(n == 1 for n in counts):
        return ()
    if item.role not in ("in", "const", "out", "inout") or item.values is not None:
        raise ParseError.at(
            item.span,
            "a group such as `(G, C)` says how the caller's array is seen, and only arguments "
            "have a caller",
            help="declare the two dimensions apart",
        )
    return counts


def strides(
    scope: Scope, item: tree.ArrayDecl, name: str, shape: Sequence[Expr], values: Values
) -> tuple[Expr | str, ...] | None:
    """The strides of one array of a declaration, one for each index dimension.

    In a group the inner dimension has the stride that is written, and the outer ones follow.
    """
    if item.strides is None:
        return None
    _allowed(item)
    out: list[Expr | str] = []
    start = 0
    free: dict[str, Span | None] = {}
    for position, (written, dim) in enumerate(zip(item.strides, item.shape, strict=True)):
        count = len(dim) if isinstance(dim, tuple) else 1
        inner = _one(scope, item, name, position, written, values, free)
        out += _group(inner, shape[start : start + count])
        start += count
    _apart(item, name, shape, out)
    return tuple(out)


def _allowed(item: tree.ArrayDecl) -> None:
    assert item.strides is not None
    if item.role not in ("in", "const", "out", "inout"):
        raise ParseError.at(
            item.span, "`strides` says where the caller's elements are, and a temp has no caller",
            help="leave it out: the compiler places temps",
        )  # fmt: skip
    if len(item.strides) != len(item.shape):
        n, m = len(item.shape), len(item.strides)
        raise ParseError.at(
            item.span,
            f"{n} dimension{'' if n == 1 else 's'}, and {m} stride{'' if m == 1 else 's'}: there "
            "is one for each, in elements",
            help="a row-major matrix whose rows are `lda` elements apart is `strides [lda, 1]`",
        )


def _one(
    scope: Scope,
    item: tree.ArrayDecl,
    name: str,
    position: int,
    written: tree.Expr,
    values: Values,
    free: dict[str, Span | None],
) -> Expr | str:
    match written:
        case tree.Name(word) if word == FREE and scope.size_value(word) is None:
            return _fresh(scope, f"{name}_stride{position}")
        case tree.Name(word) if word not in scope.names:
            taken = {s for a in scope.arrays.values() for s in a.free_strides}
            if len(item.names) > 1 or word in free or word in taken:
                raise ParseError.at(
                    written.span,
                    f"`{word}` is no size, so it is a stride that the caller gives beside one "
                    "array, and here it stands for several",
                    help=f"declare it as a size, `kernel f(..., {word})`, or write `free`",
                )
            free[word] = written.span
            return word
    for part in walk(written):
        if isinstance(part, tree.Name) and part.id == FREE and scope.size_value(FREE) is None:
            raise ParseError.at(
                written.span, "a free stride stands alone: the caller gives its whole value"
            )
    built = values.size(written, "stride")
    if isinstance(built, Const) and not -(1 << 40) < built.value < 1 << 40:
        raise BoundsError.at(written.span, "a stride lies between -2^40 and 2^40")
    return built


def _fresh(scope: Scope, name: str) -> str:
    while name in scope.names:
        name += "_"
    return name


def _group(inner: Expr | str, extents: Sequence[Expr]) -> list[Expr | str]:
    out: list[Expr | str] = [inner]
    stride = Size(inner) if isinstance(inner, str) else inner
    for extent in reversed(extents[1:]):
        stride = expression(linear(Op("mul", (stride, extent), INDEX)))
        out.insert(0, stride)
    return out


def _apart(
    item: tree.ArrayDecl, name: str, shape: Sequence[Expr], found: Sequence[Expr | str]
) -> None:
    """Elements that are written lie apart. Where sizes decide, the entry checks it."""
    if item.role not in ("out", "inout"):
        return
    reach = 0
    known: list[tuple[int, int]] = []
    for stride, extent in zip(found, shape, strict=True):
        if isinstance(stride, Const) and isinstance(extent, Const):
            known.append((abs(int(stride.value)), int(extent.value)))
        elif isinstance(stride, Const) and stride.value == 0:
            known.append((0, 2))
    for step, count in sorted(known):
        if count <= 1:
            continue
        if step <= reach:
            raise BoundsError.at(
                item.span,
                f"elements of `{name}` share memory with these strides, and it is written",
                help="each stride is larger than what the smaller ones reach together",
            )
        reach += step * (count - 1)
