"""`store P in Y`: the elements of one array live in another's memory.

before: e[i, j] = exp(x[i, j])   y[i, j] = e[i, j] * r[i]
after:  y[i, j] = exp(x[i, j])   y[i, j] = y[i, j] * r[i]

Whether every value is kept until it is read is for `tdsl.polyhedral.overwrites` to say.
"""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from tdsl.ir.kernel import Expr, Read, rebuilt
from tdsl.polyhedral.box import CannotPlace
from tdsl.polyhedral.program import Access, Program, Stmt


def share(program: Program, array: str, inside: str) -> Program:
    """The program in which `array` is gone and `inside` has its elements. Raises CannotPlace."""
    source, target = program.arrays[array], program.arrays[inside]
    if source.type != target.type:
        raise CannotPlace(f"{array} is {source.type} and {inside} is {target.type}")
    if len(source.shape) != len(target.shape):
        raise CannotPlace(
            f"{array} has {len(source.shape)} dimensions and {inside} has {len(target.shape)}"
        )
    tuple_name = program.extents[inside].get_tuple_name()
    moved = program.extents[array].set_tuple_name(tuple_name).intersect_params(program.context)
    if not moved.is_subset(program.extents[inside]):
        raise CannotPlace(f"{inside} is not as large as {array} for all sizes")

    def expr(old: Expr) -> Expr:
        new = rebuilt(old, expr)
        if isinstance(new, Read) and new.array == array:
            return replace(new, array=inside)
        return new

    def access(old: Access) -> Access:
        subscript = tuple(expr(e) for e in old.subscript)
        if old.array != array:
            return replace(old, subscript=subscript)
        map_ = old.map.set_tuple_name(isl.dim_type.out, tuple_name)
        return replace(old, array=inside, map=map_, subscript=subscript)

    def statement(old: Stmt) -> Stmt:
        value = None if old.value is None else expr(old.value)
        reads = tuple(access(a) for a in old.reads)
        return replace(old, write=access(old.write), reads=reads, value=value)

    return replace(
        program,
        statements={n: statement(s) for n, s in program.statements.items()},
        arrays={n: a for n, a in program.arrays.items() if n != array},
        extents={n: e for n, e in program.extents.items() if n != array},
    )
