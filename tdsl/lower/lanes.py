"""How many lanes a chunk of a statement has: the widest element decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tdsl.ir import kernel as k
from tdsl.ir.types import BOOL
from tdsl.lower.memory import stored_type
from tdsl.polyhedral.program import Stmt
from tdsl.targets.target import Target


def widest_bytes(
    stmt: Stmt,
    elem_bytes: int,
    varying: frozenset[str] | None,
    linear: Callable[[k.Expr], bool] = lambda e: False,
) -> int:
    """Bytes of the widest value of a statement whose `varying` indices differ between lanes.

    What is the same in all lanes is a scalar until it is spread: `f32(n * m)` is no wider than its
    result. varying None: all indices may differ, and index arithmetic is not asked. linear: whether
    an index that divides or chooses is linear in the lane all the same, as j // 64 is in a chunk of
    lanes that stays in one block.
    """
    if stmt.value is None:
        return elem_bytes
    return max(elem_bytes, _widest(stmt.value, varying, linear))


def _widest(expr: k.Expr, varying: frozenset[str] | None, linear: Callable[[k.Expr], bool]) -> int:
    own = 0 if expr.type in (k.INDEX, BOOL) else stored_type(expr.type).bytes
    if varying is not None and is_scalar_work(expr) and not _varies(expr, varying):
        return own
    known = varying or frozenset()
    match expr:
        case k.Read(_, subscript):
            if any(_needs_numbers(i, known, linear) for i in subscript):
                own = max(own, 8)
        case k.Cast(_, arg) if arg.type == k.INDEX:
            if _varies(arg, known):
                own = max(own, 8)
            return own
        case k.Op(op, args) if op in k.COMPARISONS and args[0].type == k.INDEX:
            if any(_needs_numbers(a, known, linear) for a in args):
                own = max(own, 8)
            return own
        case _:
            pass
    return max([own, *(_widest(c, varying, linear) for c in k.children(expr))])


def is_scalar_work(expr: k.Expr) -> bool:
    """Whether a value that is the same in all lanes is worth a scalar: it is computed, of data."""
    if expr.type in (k.INDEX, BOOL) or not isinstance(expr, k.Op | k.Cast | k.Select):
        return False
    return any(isinstance(e, k.Read | k.Cast) for e in k.walk(expr))


def _varies(expr: k.Expr, varying: frozenset[str]) -> bool:
    return any(isinstance(e, k.Var) and e.name in varying for e in k.walk(expr))


def _needs_numbers(expr: k.Expr, varying: frozenset[str], linear: Callable[[k.Expr], bool]) -> bool:
    """Whether an index needs int64 lanes: it depends on data, or not linearly on the lane."""
    doubtful = False
    for part in k.walk(expr):
        if isinstance(part, k.Read | k.Cast):
            return True
        doubtful |= not_linear(part) and _varies(part, varying)
    return doubtful and not linear(expr)


def not_linear(part: k.Expr) -> bool:
    """Whether the outermost operation of an index expression is none of a linear one."""
    match part:
        case k.Op("floordiv" | "mod" | "min" | "max" | "abs") | k.Select():
            return True
        case _:
            return False


def widths(target: Target, bytes: int, most: int | None) -> tuple[int, ...]:
    """Lanes that a chunk may have, most first; 1, a scalar, is always the last resort."""
    lanes = [w // bytes for w in target.widths if w // bytes > 1]
    return (*(n for n in lanes if most is None or n <= max(most, 2)), 1)


def chunks(extent: int, allowed: Sequence[int]) -> list[tuple[int, int]]:
    """(start, lanes) of the pieces of an extent: the widest first, then what is left."""
    result = []
    start = 0
    for lanes in allowed:
        while extent - start >= lanes:
            result.append((start, lanes))
            start += lanes
    return result
