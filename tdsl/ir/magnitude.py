"""How large the numbers in an expression of sizes can become."""

from __future__ import annotations

from tdsl.ir.kernel import INDEX, Const, Expr, Op, Select, Size, children, walk

LARGEST_SIZE = 2**40 - 1


def largest(expr: Expr) -> int:
    """A bound on the magnitude of every integer that is computed on the way to its value.

    M * N < 10 ** 6  ->  (2^40 - 1)^2
    """
    return max((_bound(e) for e in walk(expr) if e.type == INDEX), default=0)


def _bound(expr: Expr) -> int:
    match expr:
        case Const(value):
            return abs(int(value))
        case Size():
            return LARGEST_SIZE
        case Op("add" | "sub", args):
            return sum(map(_bound, args))
        case Op("mul", (a, b)):
            return _bound(a) * _bound(b)
        case Op("floordiv", (a, _)):
            return _bound(a)
        case Op("mod", (_, b)):
            return _bound(b)
        case Select(_, then, other):
            return max(_bound(then), _bound(other))
        case Op("neg" | "abs" | "min" | "max"):
            return max(map(_bound, children(expr)))
        case _:
            raise ValueError(f"not an expression of sizes: {expr}")
