"""The kernel level as text, for `tdsl show --stage kernel` and for messages.

C[i, j] add= A[i, k] * B[k, j]    over i, j, k; reduces k from 0.0
    where 0 <= i < M and 0 <= j < N and 0 <= k < K
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator

from tdsl.ir.kernel import (
    INDEX,
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
    in_groups,
)
from tdsl.ir.types import F32, ElemType

F32_MAX = (2.0 - 2.0**-23) * 2.0**127

# Symbol and precedence, as in Python; all are left-associative.
_INFIX = {
    "or": ("or", 1), "and": ("and", 2), "eq": ("==", 4), "ne": ("!=", 4), "lt": ("<", 4),
    "le": ("<=", 4), "gt": (">", 4), "ge": (">=", 4), "bor": ("|", 5), "bxor": ("^", 6),
    "band": ("&", 7), "shl": ("<<", 8), "shr": (">>", 8), "add": ("+", 9), "sub": ("-", 9),
    "mul": ("*", 10), "div": ("/", 10), "floordiv": ("//", 10), "mod": ("%", 10),
}  # fmt: skip
_PREFIX = {"not": ("not ", 3), "neg": ("-", 11), "bnot": ("~", 11)}
_COMPARISON = 4
_ATOM = 12
_UPDATES = {"define": "=", "add": "+=", "sub": "-=", "mul": "*=", "min": "min=", "max": "max="}


def print_expr(expr: Expr) -> str:
    """An expression in the language's own notation."""
    return _expr(expr)[0]


def _expr(expr: Expr) -> tuple[str, int]:
    """The text and how tightly it binds."""
    match expr:
        case Const(value):
            text = _number(value, expr.type)
            return text, 11 if text.startswith("-") else _ATOM
        case Var(name) | Size(name):
            return name, _ATOM
        case Read(array, indices):
            return array + (_list(indices, "[", "]") if indices else ""), _ATOM
        case Cast("convert", arg, type_) if type_ == INDEX:
            return _expr(arg)  # data as an index stand as they are
        case Cast("convert", arg, type_):
            return f"{type_}({print_expr(arg)})", _ATOM
        case Cast(mode, arg, type_):
            return f"{mode}<{type_}>({print_expr(arg)})", _ATOM
        case Select(condition, then, other):
            return "select" + _list((condition, then, other), "(", ")"), _ATOM
        case Op(op, args) if op in _INFIX:
            return _infix(*_INFIX[op], args)
        case Op(op, (arg,)) if op in _PREFIX:
            symbol, level = _PREFIX[op]
            return symbol + _within(arg, level), level
        case Op(op, args):
            return op + _list(args, "(", ")"), _ATOM


def _number(value: int | float | bool, type_: ElemType) -> str:
    """The shortest text that gives the value back in its type."""
    if isinstance(value, bool):
        return str(value).lower()
    if type_ == F32 and isinstance(value, float) and math.isfinite(value):
        for digits in range(1, 10):
            text = f"{value:.{digits}g}"
            if abs(float(text)) < F32_MAX and _single(float(text)) == value:
                return str(float(text))
    return str(value)


def _single(value: float) -> float:
    """The nearest f32."""
    (out,) = struct.unpack("f", struct.pack("f", value))
    assert isinstance(out, float)
    return out


def _infix(symbol: str, level: int, args: tuple[Expr, ...]) -> tuple[str, int]:
    # `a < b < c` would be a chain, so comparisons inside comparisons keep their parentheses.
    first = _within(args[0], level + (level == _COMPARISON))
    rest = [_within(a, level + 1) for a in args[1:]]
    return f" {symbol} ".join([first, *rest]), level


def _within(expr: Expr, level: int) -> str:
    text, own = _expr(expr)
    return text if own >= level else f"({text})"


def _list(exprs: tuple[Expr, ...], left: str, right: str) -> str:
    return left + ", ".join(map(print_expr, exprs)) + right


# ---------------------------------------------------------------- statements


def print_conditions(conditions: tuple[Expr, ...]) -> str:
    """A conjunction; `0 <= i` and `i < N` become `0 <= i < N`."""
    out: list[str] = []
    rest = list(conditions)
    while rest:
        first = rest.pop(0)
        match first, rest[:1]:
            case Op("le", (low, middle)), [Op(("lt" | "le") as op, (again, high))] if (
                middle == again and isinstance(middle, Var)
            ):
                rest.pop(0)
                symbol = _INFIX[op][0]
                out.append(f"{print_expr(low)} <= {print_expr(middle)} {symbol} {print_expr(high)}")
            case _:
                out.append(_within(first, 3))
    return " and ".join(out) or "true"


def print_statement(statement: Statement) -> str:
    """One statement on two lines: the assignment, the domain."""
    target = print_expr(_target(statement))
    sign = _UPDATES.get(statement.op, f"{statement.op}=")
    head = f"{statement.name}: {target} {sign} {print_expr(statement.value)}"
    facts = [f"over {', '.join(statement.indices)}"] if statement.indices else []
    if statement.reduction:
        start = "" if statement.init is None else f" from {print_expr(statement.init)}"
        facts.append(f"reduces {', '.join(statement.reduction)}{start}")
    lines = [head]
    if facts:
        lines.append(f"    {'; '.join(facts)}")
    if statement.domain:
        lines.append(f"    where {print_conditions(statement.domain)}")
    return "\n".join(lines)


def _target(statement: Statement) -> Read:
    return Read(statement.array, statement.subscript, statement.value.type)


def print_array(array: Array) -> str:
    """A declaration, as the language writes it; a table with its values on one line."""
    text = f"{'const' if array.role == 'table' else array.role} {array.name}: {array.type}"
    if array.shape:
        dims = (_list(g, "(", ")") if len(g) > 1 else print_expr(g[0]) for g in array.grouped)
        text += f"[{', '.join(dims)}]"
    if array.strides is not None:
        inner = (g[-1] for g in in_groups(array.strides, array.groups))
        strides = (s if isinstance(s, str) else print_expr(s) for s in inner)
        text += f" strides [{', '.join(strides)}]"
    if array.align is not None:
        text += f" align {array.align}"
    if array.values is not None:
        values = ", ".join(print_expr(Const(v, array.type)) for v in array.values)
        text += f" = [{values}]"
    if array.local is not None:
        text += f"  # in each iteration of {array.local}"
    return text


def print_kernel(kernel: Kernel) -> str:
    """The whole kernel as text."""
    return "\n".join(_kernel(kernel)) + "\n"


def _kernel(kernel: Kernel) -> Iterator[str]:
    constants = ", ".join(f"{n} = {v}" for n, v in kernel.constants)
    sizes = ", ".join(kernel.sizes)
    yield f"kernel {kernel.name}{f'<{constants}>' if constants else ''}({sizes}) {{"
    for name, value in kernel.bound:
        yield f"    # {name} = {value}"
    if kernel.assumptions:
        yield f"    assume {', '.join(map(print_expr, kernel.assumptions))}"
    for array in kernel.arrays:
        yield f"    {print_array(array)}"
    yield from _body(kernel.body, 1)
    yield "}"


def _body(items: tuple[BodyItem, ...], depth: int) -> Iterator[str]:
    margin = "    " * depth
    for item in items:
        match item:
            case Statement():
                for line in print_statement(item).split("\n"):
                    yield margin + line
            case Nest(index, lo, hi, down, step, body):
                text = f"{index} in {print_expr(lo)}..{print_expr(hi)}"
                extra = (" downward" if down else "") + (f" step {step}" if step != 1 else "")
                yield f"{margin}for {text}{extra} {{"
                yield from _body(body, depth + 1)
                yield f"{margin}}}"
