"""Expressions as text, with the fewest parentheses that keep the tree.

Binary("*", Binary("+", a, b), c)  ->  (a + b) * c
"""

from __future__ import annotations

from fractions import Fraction
from typing import assert_never

from tdsl.syntax import tree as t

# Levels of precedence, loosest first, as the grammar nests them.
_OR, _AND, _NOT, _COMPARE, _BITOR, _XOR, _BITAND, _SHIFT, _ADD, _MUL, _UNARY, _POSTFIX = range(12)
EXPR, ARITH = _OR, _BITOR

_BINARY = {
    op: level
    for level, ops in (
        (_OR, ("or",)),
        (_AND, ("and",)),
        (_BITOR, ("|",)),
        (_XOR, ("^",)),
        (_BITAND, ("&",)),
        (_SHIFT, ("<<", ">>")),
        (_ADD, ("+", "-")),
        (_MUL, ("*", "/", "//", "%")),
    )
    for op in ops
}


def print_expr(expr: t.Expr, level: int = EXPR) -> str:
    """The text of an expression, in parentheses where it binds looser than `level`."""
    text, own = _print(expr)
    return text if own >= level else f"({text})"


def print_exprs(exprs: tuple[t.Expr, ...]) -> str:
    """Expressions with commas between them."""
    return ", ".join(print_expr(e) for e in exprs)


def print_range(item: t.IndexRange) -> str:
    """`k`, `k in lo..hi`, `k in hi downto lo`, with a step."""
    if item.lo is None or item.hi is None:
        return item.name
    lo, hi = print_bound(item.lo), print_bound(item.hi)
    text = f"{item.name} in {hi} downto {lo}" if item.down else f"{item.name} in {lo}..{hi}"
    return text if item.step is None else f"{text} step {print_bound(item.step)}"


def print_bound(expr: t.Expr) -> str:
    """An end of a range: `N-1` stands close, since `..` does not part it from its neighbour."""
    match expr:
        case t.Binary("+" | "-" as op, left, right) if _is_simple(left) and _is_simple(right):
            return f"{print_expr(left)}{op}{print_expr(right)}"
    return print_expr(expr, ARITH)


def print_args(args: tuple[t.Expr, ...], kwargs: tuple[tuple[str, t.Expr], ...]) -> str:
    """What stands between the parentheses of a call."""
    named = [f"{name} = {print_expr(value)}" for name, value in kwargs]
    return ", ".join([print_expr(a) for a in args] + named)


def _is_simple(expr: t.Expr) -> bool:
    return isinstance(expr, t.Name) or (isinstance(expr, t.Number) and expr.value >= 0)


def _print(expr: t.Expr) -> tuple[str, int]:
    match expr:
        case t.Number():
            return _print_number(expr)
        case t.Text(value):
            return f'"{value}"', _POSTFIX
        case t.Name(name):
            return name, _POSTFIX
        case t.Subscript(base, indices):
            return f"{print_expr(base, _POSTFIX)}[{print_exprs(indices)}]", _POSTFIX
        case t.Field(base, name):
            return f"{print_expr(base, _POSTFIX)}.{name}", _POSTFIX
        case t.Call(func, args, type_args, kwargs):
            types = f"<{', '.join(type_args)}>" if type_args else ""
            return f"{func}{types}({print_args(args, kwargs)})", _POSTFIX
        case t.Unary("not", operand):
            return f"not {print_expr(operand, _NOT)}", _NOT
        case t.Unary(op, operand):
            text = print_expr(operand, _UNARY)
            return (f"{op}({text})" if text.startswith("-") else f"{op}{text}"), _UNARY
        case t.Binary(op, left, right):
            level = _BINARY[op]
            return f"{print_expr(left, level)} {op} {print_expr(right, level + 1)}", level
        case t.Compare(first, rest):
            parts = [print_expr(first, _BITOR)]
            parts += [f"{op} {print_expr(operand, _BITOR)}" for op, operand in rest]
            return " ".join(parts), _COMPARE
        case t.Reduce(op, ranges, where, args):
            inside = ", ".join(print_range(r) for r in ranges)
            if where is not None:
                inside += f" where {print_expr(where)}"
            return f"{op}[{inside}]({print_exprs(args)})", _POSTFIX
        case t.ListLit(items):
            return f"[{print_exprs(items)}]", _POSTFIX
        case _:
            assert_never(expr)


def _print_number(number: t.Number) -> tuple[str, int]:
    """The number as it was written; one that the compiler made, exactly where decimals can."""
    if number.text:
        return number.text, _POSTFIX
    value = number.value
    if value < 0:
        text, level = _print_number(t.Number(-value, number.is_float))
        return f"-{text if level > _MUL else f'({text})'}", _UNARY
    if not number.is_float and value.denominator == 1:
        return str(value.numerator), _POSTFIX
    decimal = _decimal(value)
    if decimal is None:  # such as 1/3
        suffix = ".0" if number.is_float else ""
        return f"{value.numerator}{suffix} / {value.denominator}{suffix}", _MUL
    return decimal, _POSTFIX


def _decimal(value: Fraction) -> str | None:
    """A decimal literal of exactly this value, if there is one."""
    places, rest = 0, value.denominator
    for prime in (2, 5):
        count = 0
        while rest % prime == 0:
            rest //= prime
            count += 1
        places = max(places, count)
    if rest != 1:
        return None
    digits = str(int(value * 10**places))
    if places > 20 or len(digits) > 20:
        significant = digits.rstrip("0") or "0"
        return f"{significant}e{len(digits) - len(significant) - places}"
    whole, part = (digits[:-places], digits[-places:]) if places else (digits, "0")
    return f"{whole or '0'}.{part.rjust(places, '0')}"
