"""A program under conditions on its sizes: those of the variant that a call picked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tdsl.ir.kernel import Expr
from tdsl.polyhedral.affine import region, scope
from tdsl.polyhedral.program import Access, Dependence, Program, Stmt


def assuming(program: Program, conditions: Iterable[Expr]) -> Program:
    """The program where these hold. Conditions that are not affine serve no proof and are left
    out; so are all where they contradict what is known, since nothing runs then."""
    where = scope((), program.params, None)
    affine = [(c, r.may.params()) for c in conditions if (r := region(c, where)).exact]
    context = program.context
    for _, sizes in affine:
        context = context.intersect(sizes)
    if not affine or context.is_empty():
        return program

    def access(a: Access) -> Access:
        return replace(a, map=a.map.intersect_params(context))

    def stmt(s: Stmt) -> Stmt:
        reads = tuple(map(access, s.reads))
        domain = s.domain.intersect_params(context)
        return replace(s, domain=domain, write=access(s.write), reads=reads)

    assumptions = (*program.kernel.assumptions, *(c for c, _ in affine))
    return replace(
        program,
        kernel=replace(program.kernel, assumptions=assumptions),
        context=context,
        statements={name: stmt(s) for name, s in program.statements.items()},
    )


def under(program: Program, dependences: Iterable[Dependence]) -> tuple[Dependence, ...]:
    """The dependences that there are for the sizes of the program."""
    found = (replace(d, map=d.map.intersect_params(program.context)) for d in dependences)
    return tuple(d for d in found if not d.map.is_empty())
