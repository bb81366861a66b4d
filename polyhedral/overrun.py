"""`tail overrun`: a temp is computed up to the end of its last block.

before: P[i] for i in 0..N
after:  P[i] for i in 0..f * ceil(N / f), and P that long

Every block is full. What is computed beyond the end is read by nobody: reads that would leave
their array there give 0. The new program is proved like the kernel itself.
"""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from tdsl.diagnostics import Diagnostic
from tdsl.ir.index import (
    ZERO,
    add,
    compare,
    conjunction,
    const,
    maximum,
    scale,
    simplify,
    variables,
)
from tdsl.ir.kernel import (
    INDEX,
    Array,
    Const,
    Expr,
    Kernel,
    Op,
    Read,
    Select,
    Statement,
    Var,
    rebuilt,
)
from tdsl.ir.types import BOOL
from tdsl.polyhedral import model, proofs
from tdsl.polyhedral.edit import EditError
from tdsl.polyhedral.program import Program, Stmt
from tdsl.polyhedral.tree import Loop, statements

SET = isl.dim_type.set


def overrun(program: Program, loop: Loop, factor: int) -> tuple[Program, tuple[Diagnostic, ...]]:
    """The program with whole blocks, and why it may not run so (no diagnostics: it may)."""
    below = statements(loop.body)
    written = {s.name for s in program.kernel.statements}
    if {s.init_of or s.name for s in program.statements.values()} != written:
        raise EditError("tail overrun comes before directives that change instances")
    if len(below) != 1:
        raise EditError(f"{loop.name} holds several statements: only one temp can overrun")
    (name,) = below
    source = next((s for s in program.kernel.body if s == program.kernel.statement(name)), None)
    if not isinstance(source, Statement):
        raise EditError(f"{name} stands in a `for`, whose order is given")
    if program.arrays[source.array].role != "temp":
        raise EditError(f"{source.array} is an argument: nothing may be written beyond its end")
    index = _index_of(program.statements[name], loop)
    if index is None or index in source.reduction:
        raise EditError(f"{loop.name} is no index of the left side of {name}")
    kernel = _longer(program.kernel, source, index, factor)
    result = model.build(kernel)
    return result, proofs.diagnose(result)


def _index_of(stmt: Stmt, loop: Loop) -> str | None:
    """The index that a loop runs over, in order and unchanged."""
    local = isl.LocalSpace.from_space(stmt.domain.get_space())
    for position, index in enumerate(stmt.indices):
        value = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, position))
        if loop.coords[stmt.name].is_equal(value):
            return index
    return None


def _longer(kernel: Kernel, source: Statement, index: str, factor: int) -> Kernel:
    domain, end = _domain(source.domain, index, factor)
    outer, _ = _domain(source.outer, index, factor) if source.outer else ((), end)
    value = _masked(source.value, kernel, index)
    statement = replace(source, domain=domain, outer=outer, value=value)
    array = kernel.array(source.array)
    shape = tuple(
        maximum(extent, end) if subscript == Var(index) else extent
        for subscript, extent in zip(source.subscript, array.shape, strict=True)
    )
    if not any(subscript == Var(index) for subscript in source.subscript):
        raise EditError(f"no subscript of {array.name} is {index} itself")
    body = tuple(statement if item is source else item for item in kernel.body)
    return replace(kernel, body=body, arrays=_with(kernel.arrays, replace(array, shape=shape)))


def _masked(expr: Expr, kernel: Kernel, index: str) -> Expr:
    """The expression with reads that follow the index taken as 0 outside their arrays."""
    if not isinstance(expr, Read):
        return rebuilt(expr, lambda e: _masked(e, kernel, index))
    inside: list[Expr] = []
    for place, extent in zip(expr.indices, kernel.array(expr.array).shape, strict=True):
        if index in variables(place):
            inside += [compare("le", ZERO, place), compare("lt", place, extent)]
    condition = conjunction(tuple(inside))
    if condition is None:
        return expr
    zero = Const(False if expr.type == BOOL else 0.0 if expr.type.is_float else 0, expr.type)
    return Select(condition, expr, zero, expr.type, span=expr.span)


def _with(arrays: tuple[Array, ...], new: Array) -> tuple[Array, ...]:
    return tuple(new if a.name == new.name else a for a in arrays)


def _domain(conditions: tuple[Expr, ...], index: str, factor: int) -> tuple[tuple[Expr, ...], Expr]:
    """The conditions with a longer range of the index, 0..end; that end."""
    end: Expr | None = None
    result: list[Expr] = []
    for condition in conditions:
        match condition:
            case Op("lt", (Var(name), limit)) if name == index and not variables(limit):
                blocks = Op("floordiv", (add(limit, const(factor - 1)), const(factor)), INDEX)
                end = scale(factor, simplify(blocks))
                result.append(replace(condition, args=(Var(name), end)))
            case Op("le", (low, Var(name))) if name == index and low == ZERO:
                result.append(condition)
            case _ if index in variables(condition):
                raise EditError(f"the extent of {index} depends on other loops or conditions")
            case _:
                result.append(condition)
    if end is None:
        raise EditError(f"{index} has no single end")
    return tuple(result), end
