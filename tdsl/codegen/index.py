"""Index expressions in C: int64_t, few parentheses, division by what signs allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from tdsl.codegen.text import (
    AND,
    EQUAL,
    OR,
    PRODUCT,
    RELATION,
    SUM,
    UNARY,
    C,
    binary,
    call,
    negate,
    ternary,
)
from tdsl.ir.kernel import Cast, Const, Expr, Op, Read, Select, Size, Var

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_COMPARE = {
    "eq": ("==", EQUAL), "ne": ("!=", EQUAL), "lt": ("<", RELATION), "le": ("<=", RELATION),
    "gt": (">", RELATION), "ge": (">=", RELATION),
}  # fmt: skip
_ARITHMETIC = {"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT)}

FLOORDIV = """static inline int64_t tdsl_floordiv(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return b == 0 ? 0 : (int64_t)(0 - (uint64_t)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}"""
MOD = """static inline int64_t tdsl_mod(int64_t a, int64_t b)
{
    const int64_t r = b == 0 || b == -1 ? 0 : a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}"""
MIN = """static inline int64_t tdsl_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}"""
MAX = """static inline int64_t tdsl_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}"""
ABS = """static inline int64_t tdsl_abs(int64_t a)
{
    return a < 0 ? -a : a;
}"""
_HELPERS = {"floordiv": FLOORDIV, "mod": MOD, "min": MIN, "max": MAX, "abs": ABS}


def non_negative(expr: Expr, known: Set[str]) -> bool:
    """Provably >= 0, given the names of variables that are."""
    match expr:
        case Const(value):
            return value >= 0
        case Size():
            return True
        case Var(name):
            return name in known
        case Op("add" | "mul" | "min", args):
            return all(non_negative(a, known) for a in args)
        case Op("max", args):
            return any(non_negative(a, known) for a in args)
        case Op("floordiv", (a, b)):
            return non_negative(a, known) and non_negative(b, known)
        case Op("mod", (_, b)):
            return non_negative(b, known)
        case Op("abs"):
            return True
        case Select(_, then, other):
            return non_negative(then, known) and non_negative(other, known)
        case _:
            return False


@dataclass(frozen=True)
class IndexPrinter:
    """`name` maps ("index", NAME) to C; `helper` records a function that the text calls."""

    name: Callable[[str, str], str]
    helper: Callable[[str, str], None]
    non_negative: Set[str]

    def __call__(self, expr: Expr) -> C:
        match expr:
            case Const(bool() as value):
                return C("1" if value else "0")
            case Const(value):
                return integer(int(value))
            case Var(name) | Size(name):
                return C(self.name("index", name))
            case Op(op, args):
                return self._op(op, args)
            case Cast(_, arg):
                return self(arg)
            case Select(condition, then, other):
                return ternary(self(condition), self(then), self(other))
            case Read():
                raise TypeError("an index expression reads an array")

    def _op(self, op: str, args: tuple[Expr, ...]) -> C:
        if op == "add":
            return self._sum(args)
        if op == "mul" and isinstance(args[1], Const) and args[1].value == 1:
            return self(args[0])
        if op in _ARITHMETIC:
            return binary(*_ARITHMETIC[op], self(args[0]), self(args[1]))
        if op in _COMPARE:
            return binary(*_COMPARE[op], self(args[0]), self(args[1]))
        match op:
            case "floordiv" | "mod" if self._plain_division(args):
                return binary("/" if op == "floordiv" else "%", PRODUCT, *map(self, args))
            case "floordiv" | "mod" | "min" | "max" | "abs":
                self.helper(f"tdsl_{op}", _HELPERS[op])
                return call(f"tdsl_{op}", *map(self, args))
            case "neg":
                return negate(self(args[0]))
            case "and" | "or" | "not":
                return joined(op, [self(a) for a in args])
            case _:
                raise ValueError(f"{op} is no operation on indices")

    def _sum(self, args: tuple[Expr, ...]) -> C:
        """No index expression overflows, so that sums need no parentheses."""
        left, right = args
        if isinstance(right, Const) and right.value < 0:
            return binary("-", SUM, self(left), integer(-int(right.value)))
        if isinstance(right, Const) and right.value == 0:
            return self(left)
        if isinstance(left, Const) and left.value == 0:
            return self(right)
        match left, right:  # what is added stands before what is subtracted
            case _, Op("neg", (taken,)):
                return binary("-", SUM, self(left), self(taken))
            case Op("neg", (taken,)), _:
                return binary("-", SUM, self(right), self(taken))
        second = self(right)
        text = second.text if second.level == SUM else second.at(PRODUCT)
        return C(f"{self(left).at(SUM)} + {text}", SUM)

    def _plain_division(self, args: tuple[Expr, ...]) -> bool:
        divisor = args[1]
        positive = isinstance(divisor, Const) and divisor.value > 0
        return positive and non_negative(args[0], self.non_negative)


def joined(op: str, args: Sequence[C]) -> C:
    """Conditions joined by and, or, not."""
    if op == "not":
        return C(f"!{args[0].at(UNARY)}", UNARY)
    return binary("&&", AND, *args) if op == "and" else binary("||", OR, *args)


def integer(value: int) -> C:
    """An int64 literal. Beyond int it carries a suffix, and the least one is an expression."""
    if not INT64_MIN <= value <= INT64_MAX:
        raise ValueError(f"{value} is no int64")
    if value == INT64_MIN:
        return C("INT64_MIN")
    suffix = "" if -(2**31) < value < 2**31 else "LL"
    return C(f"{value}{suffix}", UNARY if value < 0 else 12)
