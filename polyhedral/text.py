"""Index expressions and isl constraints in the user's words, for messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import islpy as isl

from tdsl.ir.kernel import Cast, Const, Expr, Op, Read, Select, Size, Var
from tdsl.polyhedral.pieces import coalesced

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "eq": "==",
    "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "and", "or": "or",
    "band": "&", "bor": "|", "bxor": "^", "shl": "<<", "shr": ">>",
}  # fmt: skip


def expr_text(expr: Expr) -> str:
    """An expression as it stands in the source, else printed."""
    if expr.span is not None and not isinstance(expr, Var):  # of a lifted reduction it is all
        return " ".join(expr.span.text.split())
    match expr:
        case Const(value):
            return str(value)
        case Var(name) | Size(name):
            return name
        case Read(array, indices):
            return access_text(array, indices)
        case Cast(_, arg, type):
            return f"{type}({expr_text(arg)})"
        case Select(condition, then, other):
            return f"select({', '.join(expr_text(e) for e in (condition, then, other))})"
        case Op(op, args) if op in _INFIX:
            return f" {_INFIX[op]} ".join(_operand(a) for a in args)
        case Op("neg", (arg,)):
            return f"-{_operand(arg)}"
        case Op("not", (arg,)):
            return f"not {_operand(arg)}"
        case Op(op, args):
            return f"{op}({', '.join(expr_text(a) for a in args)})"


def _operand(expr: Expr) -> str:
    text = expr_text(expr)
    return f"({text})" if isinstance(expr, Op) and expr.op in _INFIX else text


def access_text(array: str, subscript: Sequence[Expr]) -> str:
    """`x[i, j + 1]`; a scalar is its name."""
    return f"{array}[{', '.join(expr_text(e) for e in subscript)}]" if subscript else array


def element_text(array: str, element: Sequence[int]) -> str:
    """`x[3, 0]`; a scalar is its name."""
    return f"{array}[{', '.join(map(str, element))}]" if element else array


def instance_text(statement: str, indices: Sequence[str], values: Sequence[int]) -> str:
    """`S(i=0, j=1)`; a statement without loops is `S`."""
    if not indices:
        return statement
    pairs = ", ".join(f"{i}={v}" for i, v in zip(indices, values, strict=True))
    return f"{statement}({pairs})"


def sizes_text(sizes: Mapping[str, int]) -> str:
    """`N=2, M=1`."""
    return ", ".join(f"{name}={value}" for name, value in sizes.items())


# ---------------------------------------------------------------- constraints


def sizes_condition(sizes: isl.Set, names: Mapping[str, str]) -> str | None:
    """A set of sizes as a condition of the language; `names` are isl names of user names.

    None where no sizes satisfy it, or where it takes too many words.
    """
    if sizes.is_empty():
        return None
    parts = [_conjunction(part, names) for part in coalesced(sizes).get_basic_sets()]
    if any(p is None for p in parts) or len(parts) > 3:
        return None
    known = [p for p in parts if p]
    if len(known) < len(parts):
        return None  # no restriction at all: nothing to assume
    if len(known) == 1:
        return ", ".join(known[0])
    return " or ".join(" and ".join(p) for p in known)


def _conjunction(part: isl.BasicSet, names: Mapping[str, str]) -> list[str] | None:
    result = []
    for constraint in part.remove_redundancies().get_constraints():
        if constraint.is_div_constraint():
            continue
        text = _constraint(constraint, names)
        if text is None:
            return None
        result.append(text)
    return result


def _constraint(constraint: isl.Constraint, names: Mapping[str, str]) -> str | None:
    aff = constraint.get_aff()
    terms = _sizes(aff, names)
    constant = aff.get_constant_val().to_python()
    for position in range(aff.dim(isl.dim_type.div)):
        factor = aff.get_coefficient_val(isl.dim_type.div, position).to_python()
        if not factor:
            continue
        inner = _numerator(aff.get_div(position), names)
        if inner is None:
            return None
        numerator, offset, divisor = inner
        sign = -factor // divisor
        if factor == -sign * divisor and terms[: len(numerator)] == [
            (sign * f, n) for f, n in numerator
        ]:  # sign * (n - divisor * (n // divisor)) is a remainder
            del terms[: len(numerator)]
            constant -= sign * offset
            text = _sum(numerator, offset)
            whole = text if len(numerator) == 1 and not offset and text.isidentifier() else None
            terms.append((sign, f"{whole or f'({text})'} % {divisor}"))
        else:
            terms.append((factor, f"(({_sum(numerator, offset)}) // {divisor})"))
    left = [(f, t) for f, t in terms if f > 0]
    right = [(-f, t) for f, t in terms if f < 0]
    relation = "==" if constraint.is_equality() else ">="
    if not left:  # put what is there first: N <= 3, not -3 >= -N
        left, right, constant = right, left, -constant
        relation = {"==": "==", ">=": "<="}[relation]
    if constant > 0 and right:
        return f"{_sum(left, constant)} {relation} {_sum(right, 0)}"
    return f"{_sum(left, 0)} {relation} {_sum(right, -constant)}"


def _sizes(aff: isl.Aff, names: Mapping[str, str]) -> list[tuple[int, str]]:
    """The sizes in a function with their factors, by the user's names."""
    result = []
    for position in range(aff.dim(isl.dim_type.param)):
        factor = aff.get_coefficient_val(isl.dim_type.param, position).to_python()
        name = aff.get_dim_name(isl.dim_type.param, position)
        if factor and name is not None:
            result.append((factor, names[name]))
    return result


def _numerator(
    div: isl.Aff, names: Mapping[str, str]
) -> tuple[list[tuple[int, str]], int, int] | None:
    """floor((terms + constant) / divisor); None where it nests another one."""
    if any(
        div.get_coefficient_val(isl.dim_type.div, d).to_python()
        for d in range(div.dim(isl.dim_type.div))
    ):
        return None
    divisor = div.get_denominator_val().to_python()
    whole = div.scale_val(isl.Val(divisor))
    return _sizes(whole, names), whole.get_constant_val().to_python(), divisor


def _sum(terms: Sequence[tuple[int, str]], constant: int) -> str:
    text = ""
    for factor, name in terms:
        size = name if abs(factor) == 1 else f"{abs(factor)} * {name}"
        sign = "-" if factor < 0 else "+"
        text += f" {sign} {size}" if text else (f"-{size}" if factor < 0 else size)
    if constant or not text:
        sign = "-" if constant < 0 else "+"
        text += f" {sign} {abs(constant)}" if text else str(constant)
    return text
