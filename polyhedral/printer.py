"""The program level as text, in the user's names, for `tdsl show --stage program`.

    statement C(i, j, k)    where 0 <= i < M and 0 <= j < N and 0 <= k < K
        updates C[i, j] by +
        reads   A[i, k]
    flow through C: C(i, j, k) -> D(i', j')    where i' == i and j' == j

Of the instances that a dependence joins, those of the sink are primed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import islpy as isl

from tdsl.ir.kernel import Size, Var
from tdsl.ir.printer import print_conditions, print_expr
from tdsl.polyhedral.from_isl import from_constraint
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Access, Dependence, Program, Stmt
from tdsl.polyhedral.text import access_text, sizes_condition

_SIGNS = {"add": "+", "sub": "-", "mul": "*"}


def print_program(program: Program, dependences: Iterable[Dependence]) -> str:
    """Statements with their instances and accesses; then what orders them."""
    return "\n".join(_lines(program, dependences)) + "\n"


def _lines(program: Program, dependences: Iterable[Dependence]) -> Iterator[str]:
    names: Mapping[str, str] = {isl_name: name for name, isl_name in program.params.items()}
    assumed = sizes_condition(_without_limits(program), names)
    yield f"sizes {', '.join(program.params) or 'none'}" + (f", {assumed}" if assumed else "")
    sizes = [Size(name) for name in program.params]
    for stmt in program.statements.values():
        where = _domain(program, stmt)
        yield f"statement {_call(stmt)}" + (f"    where {where}" if where else "")
        yield from _accesses(stmt)
    for dependence in dependences:
        yield from _dependence(program, dependence, sizes)


def _domain(program: Program, stmt: Stmt) -> str:
    """The conditions as the kernel has them, which read better than isl's."""
    written = program.kernel.statement(stmt.init_of or stmt.name)
    conditions = written.outer if stmt.init_of else written.domain
    return print_conditions(conditions) if conditions else ""


def _without_limits(program: Program) -> isl.Set:
    """The assumptions alone: that sizes are 0 <= size < 2^40 goes without saying."""
    limits = isl.Set.universe(program.context.get_space())
    for position in range(program.context.dim(isl.dim_type.param)):
        limits = limits.lower_bound_val(isl.dim_type.param, position, isl.Val(0))
        limits = limits.upper_bound_val(isl.dim_type.param, position, isl.Val(2**40 - 1))
    return program.context.gist(limits)


def _call(stmt: Stmt, mark: str = "") -> str:
    return (
        f"{stmt.name}({', '.join(i + mark for i in stmt.indices)})" if stmt.indices else stmt.name
    )


def _accesses(stmt: Stmt) -> Iterator[str]:
    element = access_text(stmt.write.array, stmt.write.subscript)
    if stmt.is_update:
        yield f"    updates {element} by {_SIGNS.get(stmt.op, stmt.op)}{_inexact(stmt.write)}"
    else:
        yield f"    writes  {element}{_inexact(stmt.write)}"
    reads = (f"{access_text(r.array, r.subscript)}{_inexact(r)}" for r in stmt.reads)
    yield from (f"    reads   {read}" for read in dict.fromkeys(reads))


def _inexact(access: Access) -> str:
    return "" if access.exact else "    (what may be touched)"


def _dependence(program: Program, dependence: Dependence, sizes: list[Size]) -> Iterator[str]:
    source = program.statements[dependence.source]
    sink = program.statements[dependence.sink]
    short = (
        dependence.map.gist_domain(source.domain)
        .gist_range(sink.domain)
        .gist_params(program.context)
    )
    dims = [Var(i) for i in (*source.indices, *(f"{i}'" for i in sink.indices))]
    kind = f"{dependence.kind} through {dependence.array}"
    if dependence.relaxable is not None:
        kind += f", of one reduction by {_SIGNS.get(dependence.relaxable, dependence.relaxable)}"
    head = f"{kind}: {_call(source)} -> {_call(sink, chr(39))}"
    ways = [_conjunction(p, dims, sizes) for p in _parts(short.wrap().flatten())]
    if len(ways) == 1:
        yield f"{head}    where {ways[0]}" if ways[0] else head
        return
    yield head
    yield from (f"    where {way}" for way in ways)


def _parts(points: isl.Set) -> list[isl.BasicSet]:
    return list(coalesced(points.compute_divs()).get_basic_sets())


def _conjunction(part: isl.BasicSet, dims: list[Var], sizes: list[Size]) -> str:
    constraints = reversed(part.get_constraints())  # isl begins with the last dimension
    texts = (print_expr(from_constraint(c, dims, sizes)) for c in constraints)
    return " and ".join(t for t in texts if t != "true")
