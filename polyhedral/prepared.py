"""What can be computed once for all calls: from `const` arguments alone, and their sizes.

out y: f32[N]    const w: f32[K]        u[k] = 2.0 * w[k]      can be prepared
                                        v[i, k] = w[k] + f32(i)   cannot: its instances ask for N
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

import islpy as isl

from tdsl.ir.arguments import sizes_told_by
from tdsl.ir.kernel import Expr, Kernel, Size, walk
from tdsl.polyhedral.affine import region, scope
from tdsl.polyhedral.model import SIZE_LIMIT
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Program, Stmt
from tdsl.polyhedral.text import expr_text

PARAM = isl.dim_type.param


def const_sizes(kernel: Kernel) -> frozenset[str]:
    """The unbound sizes that the shapes of `const` arguments determine."""
    return sizes_told_by(kernel, frozenset({"const"}))


def prepared_assumptions(kernel: Kernel) -> tuple[Expr, ...]:
    """The assumptions that speak of those sizes alone, and of one of them at least."""
    told = const_sizes(kernel)
    return tuple(a for a in kernel.assumptions if (used := _sizes(a)) and used <= told)


def prepared_program(program: Program) -> Program:
    """The program as `NAME_prepare` sees it: sizes that the `const` arguments do not tell are
    unknown there, and the instances of prepared statements do not depend on them."""
    told = const_sizes(program.kernel)
    where = scope((), program.params, None)
    known = where.universe
    for size in map(where.size, sorted(told)):
        known = known.intersect(size.ge_set(where.constant(0)))
        known = known.intersect(size.lt_set(where.constant(SIZE_LIMIT)))
    for assumption in prepared_assumptions(program.kernel):
        known = known.intersect(region(assumption, where).may)
    prepared = with_inits(program, program.prepared)
    statements = {
        name: replace(s, domain=_of_told(program, s, told)) if name in prepared else s
        for name, s in program.statements.items()
    }
    return replace(program, context=known.params(), statements=statements)


def why_not_prepared(program: Program, statements: Iterable[str]) -> str | None:
    """Why these statements cannot run once, in `NAME_prepare`; None where they can. A reduction
    takes its `S.init` along. What is prepared already may be read and added to."""
    names = with_inits(program, {*statements, *program.prepared})
    told = const_sizes(program.kernel)
    for name in program.statements:
        if name in names:
            stmt = program.statements[name]
            found = _why_not(program, stmt, names, told)
            if found is not None:
                return found
    return None


def with_inits(program: Program, names: Collection[str]) -> set[str]:
    """These statements with the `S.init` of each."""
    inits = {s.name for s in program.statements.values() if s.init_of in names}
    return {*names, *inits}


def _why_not(program: Program, stmt: Stmt, names: set[str], told: frozenset[str]) -> str | None:
    written = program.arrays[stmt.write.array]
    if written.is_argument:
        return f"{stmt.name} writes {written.name}, which is an argument of each call"
    for array in (written.name, *(r.array for r in stmt.reads)):
        reason = in_each_call(program, array, names)
        if reason is not None:
            return f"{stmt.name} {'writes' if array == written.name else 'reads'} {reason}"
    for extent in written.shape:
        for size in sorted(_sizes(extent) - told):
            return f"{written.name} has the extent {expr_text(extent)}, and {_unknown(size)}"
    expressions = (stmt.value, *stmt.write.subscript)
    for size in sorted({s for e in expressions if e is not None for s in _sizes(e)} - told):
        return f"{stmt.name} computes with {size}, and {_unknown(size)}"
    domain = stmt.domain.intersect_params(program.context)
    if not _of_told(program, stmt, told).intersect_params(program.context).is_equal(domain):
        others = [s for s in program.params if s not in told]
        size = next((s for s in others if _needs(program, stmt, s)), others[0])
        return f"the instances of {stmt.name} depend on {size}, and {_unknown(size)}"
    return None


def _needs(program: Program, stmt: Stmt, size: str) -> bool:
    """Whether the instances depend on one size, all others known."""
    without = _of_told(program, stmt, program.params.keys() - {size})
    return not without.intersect_params(program.context).is_subset(stmt.domain)


def in_each_call(program: Program, array: str, names: Collection[str]) -> str | None:
    """Why an array differs from call to call; None for constants and what is prepared."""
    role = program.arrays[array].role
    if role in ("const", "table"):
        return None
    if role in ("in", "out", "inout"):
        return f"{array}, which is no `const` argument"
    for other in program.statements.values():
        if other.write.array == array and other.name not in names:
            return f"{array}, which {other.name} writes in each call"
    return None


def _of_told(program: Program, stmt: Stmt, told: Collection[str]) -> isl.Set:
    """The instances that there are for some values of the other sizes."""
    domain = stmt.domain.intersect_params(program.context)
    for position, size in enumerate(program.params):
        if size not in told:
            domain = domain.eliminate(PARAM, position, 1)
    return coalesced(domain)


def _unknown(size: str) -> str:
    return f"no shape of a `const` argument tells {size}"


def _sizes(expr: Expr) -> frozenset[str]:
    return frozenset(e.name for e in walk(expr) if isinstance(e, Size))
