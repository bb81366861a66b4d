"""The one-line items of a file, and the first lines of its blocks, as text."""

from __future__ import annotations

from tdsl.syntax import tree as t
from tdsl.syntax.print_expr import (
    ARITH,
    print_bound,
    print_expr,
    print_exprs,
    print_range,
)

Leaf = t.SizeLet | t.Assume | t.ArrayDecl | t.Equation | t.Def | t.Import | t.GraphLet


def print_leaf(item: Leaf) -> str:
    """An item that is no block."""
    match item:
        case t.SizeLet(name, value):
            return f"let {name} = {print_expr(value)}"
        case t.Assume(conditions):
            return f"assume {print_exprs(conditions)}"
        case t.ArrayDecl():
            return _array(item)
        case t.Equation(label, targets, op, value, where):
            start = f"{label}: " if label else ""
            end = f" where {print_expr(where)}" if where is not None else ""
            return f"{start}{print_exprs(targets)} {op} {print_expr(value)}{end}"
        case t.Def(name, params, body):
            return f"def {name}({', '.join(params)}) = {print_expr(body)}"
        case t.Import(name):
            return f"import {name}"
        case t.GraphLet(names, value, is_out):
            return f"{'out ' if is_out else ''}{', '.join(names)} = {print_expr(value)}"


def _array(decl: t.ArrayDecl) -> str:
    role = "const" if decl.role == "table" else decl.role
    text = f"{role} {', '.join(decl.names)}: {decl.type}"
    if decl.shape:
        dims = (
            f"({print_exprs(s)})" if isinstance(s, tuple) else print_expr(s) for s in decl.shape
        )
        text += f"[{', '.join(dims)}]"
    if decl.strides is not None:
        text += f" strides [{print_exprs(decl.strides)}]"
    if decl.align is not None:
        text += f" align {print_expr(decl.align, ARITH)}"
    if decl.range is not None:
        text += f" range {print_bound(decl.range[0])}..{print_bound(decl.range[1])}"
    if decl.values is not None:
        text += f" = {print_expr(decl.values)}"
    return text


def _params(params: tuple[t.Param, ...]) -> str:
    return ", ".join(
        param.name
        + (": type" if param.is_type else "")
        + ("" if param.default is None else f" = {print_expr(param.default, ARITH)}")
        for param in params
    )


def kernel_header(kernel: t.Kernel) -> str:
    constants = f"<{_params(kernel.constants)}>" if kernel.constants else ""
    return f"kernel {kernel.name}{constants}({', '.join(kernel.sizes)})"


def for_header(loop: t.For) -> str:
    ranges = ", ".join(print_range(r) for r in loop.ranges)
    return f"{'static ' if loop.static else ''}for {ranges}"


def combine_header(combine: t.Combine) -> str:
    return f"combine {combine.name}({', '.join(combine.left)}; {', '.join(combine.right)})"


def record_field(name: str, element: str, length: t.Expr | None) -> str:
    return f"{name}: {element}" + ("" if length is None else f"[{print_expr(length)}]")


def graph_header(graph: t.Graph) -> str:
    return f"graph {graph.name}" + (f"<{_params(graph.params)}>" if graph.params else "")


def select_rule(kernel: str, condition: t.Expr | None) -> str:
    return f"{kernel} otherwise" if condition is None else f"{kernel} when {print_expr(condition)}"


def schedule_header(schedule: t.Schedule) -> str:
    name = schedule.kernel if schedule.variant is None else f"{schedule.kernel}.{schedule.variant}"
    when = "" if schedule.condition is None else f" when {print_expr(schedule.condition)}"
    return f"schedule {name} for {', '.join(schedule.targets)}{when}"


def recipe_header(recipe: t.Recipe) -> str:
    return f"recipe {recipe.name}({_params(recipe.params)})"
