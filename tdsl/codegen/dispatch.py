"""Which of several variants runs: a function that tests their conditions in order.

when M == 1            ->    static int matmul_choice(int64_t M, int64_t N, int64_t K)
when M * N * K <= 512        {
                                 if (M == 1)
                                     return 0;
                                 if ((tdsl_wide)M * N * K <= 512)
                                     return 1;
                                 return 2;
                             }
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce

from tdsl.codegen.index import IndexPrinter, integer, joined
from tdsl.codegen.names import Names
from tdsl.codegen.text import (
    EQUAL,
    PRODUCT,
    RELATION,
    SUM,
    C,
    binary,
    call,
    cast,
    negate,
    ternary,
    wrap,
)
from tdsl.codegen.unit import Unit
from tdsl.ir.kernel import COMPARISONS, Const, Expr, Op, Select, Size, walk
from tdsl.ir.magnitude import largest
from tdsl.ir.types import BOOL

NARROW = 2**62  # below it, int64_t holds every number on the way
WIDE = "__extension__ typedef __int128 tdsl_wide; /* products of sizes */"
WIDE_FLOORDIV = """static tdsl_wide tdsl_wide_floordiv(tdsl_wide a, tdsl_wide b)
{
    return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}"""
WIDE_MOD = """static tdsl_wide tdsl_wide_mod(tdsl_wide a, tdsl_wide b)
{
    const tdsl_wide r = b == 0 ? 0 : a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}"""
WIDE_MIN = """static tdsl_wide tdsl_wide_min(tdsl_wide a, tdsl_wide b)
{
    return a < b ? a : b;
}"""
WIDE_MAX = """static tdsl_wide tdsl_wide_max(tdsl_wide a, tdsl_wide b)
{
    return a > b ? a : b;
}"""
_HELPERS = {"floordiv": WIDE_FLOORDIV, "mod": WIDE_MOD, "min": WIDE_MIN, "max": WIDE_MAX}
_ARITHMETIC = {"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT)}
_COMPARE = {
    "eq": ("==", EQUAL), "ne": ("!=", EQUAL), "lt": ("<", RELATION), "le": ("<=", RELATION),
    "gt": (">", RELATION), "ge": (">=", RELATION),
}  # fmt: skip


class ConditionPrinter:
    """Conditions on sizes, exact whatever the sizes are: comparisons of numbers that int64_t may
    not hold are made in 128 bits."""

    def __init__(self, unit: Unit, names: Names) -> None:
        self._unit, self._names = unit, names
        self._index = IndexPrinter(lambda kind, name: names[kind, name], unit.helper, frozenset())

    def __call__(self, condition: Expr) -> C:
        if largest(condition) < NARROW:
            return self._index(condition)
        match condition:
            case Op("and" | "or" | "not" as op, args):
                return joined(op, [self(a) for a in args])
            case Select(test, then, other):
                return ternary(self(test), self(then), self(other))
            case Op(op, (left, right)) if op in COMPARISONS:
                return binary(*_COMPARE[op], self._wide(left), self._wide(right))
            case _:
                raise ValueError(f"not a condition on sizes: {condition}")

    def _wide(self, expr: Expr) -> C:
        self._unit.helper("tdsl_wide", WIDE)
        match expr:
            case Const(value):
                return self._constant(int(value))
            case Size(name):
                return cast("tdsl_wide", C(self._names["index", name]))
            case Select(test, then, other):
                return ternary(self(test), self._wide(then), self._wide(other))
            case Op("neg", (arg,)):
                return negate(self._wide(arg))
            case Op("abs", (arg,)):
                return self._call("max", self._wide(arg), negate(self._wide(arg)))
            case Op("floordiv" | "mod" | "min" | "max" as op, args):
                return self._call(op, *map(self._wide, args))
            case Op(op, (left, right)) if op in _ARITHMETIC:
                return binary(*_ARITHMETIC[op], self._wide(left), self._wide(right))
            case _:
                raise ValueError(f"not an expression of sizes: {expr}")

    def _constant(self, value: int) -> C:
        if abs(value) < 2**63:
            return integer(value)
        high, low = divmod(abs(value), 2**62)
        scaled = binary("*", PRODUCT, self._constant(high), C("((tdsl_wide)1 << 62)"))
        text = binary("+", SUM, scaled, integer(low))
        return negate(text) if value < 0 else text

    def _call(self, op: str, *args: C) -> C:
        self._unit.helper(f"tdsl_wide_{op}", _HELPERS[op])
        return call(f"tdsl_wide_{op}", *args)


def choice_function(
    unit: Unit, names: Names, name: str, sizes: Sequence[str], conditions: Sequence[Expr | None]
) -> list[str]:
    """The number of the first variant whose condition holds. The last one has none."""
    printer = ConditionPrinter(unit, names)
    parameters = ", ".join(f"int64_t {names['index', s]}" for s in sizes)
    lines = [*wrap(f"static int {name}({parameters})"), "{"]
    for number, condition in enumerate(conditions):
        if condition is not None:
            lines += [*wrap(f"    if ({printer(condition).text})"), f"        return {number};"]
        else:
            lines.append(f"    return {number};")
    return [*lines, "}"]


def sizes_in(conditions: Sequence[Expr | None], sizes: Sequence[str]) -> list[str]:
    """The sizes that conditions ask about."""
    used = {e.name for c in conditions if c for e in walk(c) if isinstance(e, Size)}
    return [s for s in sizes if s in used]


# ---------------------------------------------------------------- what some sizes alone decide


def reachable(conditions: Sequence[Expr | None], sizes: Collection[str]) -> list[Expr]:
    """For each variant, where it may be the one that runs, as far as these sizes tell."""
    found: list[Expr] = []
    before: Expr = Const(True, BOOL)
    for condition in conditions:
        if condition is None:
            found.append(before)
            before = Const(False, BOOL)
        else:
            found.append(_and(before, _decided(condition, sizes, True)))
            before = _and(before, _not(_decided(condition, sizes, False)))
    return found


def _decided(condition: Expr, sizes: Collection[str], unknown: bool) -> Expr:
    """The condition with `unknown` for what asks about other sizes: where it may hold (True), or
    certainly holds (False)."""
    match condition:
        case Op("and", args):
            return reduce(_and, (_decided(a, sizes, unknown) for a in args))
        case Op("or", args):
            parts = [_not(_decided(a, sizes, unknown)) for a in args]
            return _not(reduce(_and, parts))
        case Op("not", (arg,)):
            return _not(_decided(arg, sizes, not unknown))
    known = {e.name for e in walk(condition) if isinstance(e, Size)} <= set(sizes)
    return condition if known else Const(unknown, BOOL)


def _and(a: Expr, b: Expr) -> Expr:
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Const):
            return other if one.value else one
    return Op("and", (a, b), BOOL)


def _not(a: Expr) -> Expr:
    match a:
        case Const(value):
            return Const(not value, BOOL)
        case Op("not", (arg,)):
            return arg
        case _:
            return Op("not", (a,), BOOL)
