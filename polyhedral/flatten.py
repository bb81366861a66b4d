"""Two dimensions of a computed array as one, where loops go along both at once.

before: for pq = 9 p + q { acc[k, p, q] += ... }    one block of 48 pq touches 7 rows of 9
after:  acc[k, 9 p + q], of which the block touches 48 elements in a row
"""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from tdsl.ir.index import add, scale
from tdsl.ir.kernel import Const, Expr, Var
from tdsl.polyhedral.box import CannotPlace, Layout, box, touched
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.place import localize
from tdsl.polyhedral.program import Program, Stmt, accesses_to
from tdsl.polyhedral.tree import Loop, Node, loops_of


@bounded("the dimensions of a computed array")
def flattened(program: Program, tree: Node, array: str, home: tuple[Loop, ...]) -> Program:
    """The program in which adjacent dimensions of the array are one wherever one iteration of the
    last loop of `home` then touches a smaller box. `tree` has the first terms of reductions."""
    d = 0
    while d + 1 < len(program.arrays[array].shape):
        joined = _joined(program, tree, array, d)
        if joined is not None and _bytes(joined, array, home) < _bytes(program, array, home):
            program = joined
        else:
            d += 1
    return program


def _joined(program: Program, tree: Node, array: str, d: int) -> Program | None:
    """Dimensions d and d + 1 as one, if there is a loop along both."""
    shape = program.arrays[array].shape
    extent = shape[d + 1]
    users = [s for s in program.statements.values() if accesses_to(s, array)]
    if not isinstance(extent, Const) or not any(_along_both(s, tree, array, d) for s in users):
        return None
    names = tuple(f"dimension {n}" for n in range(len(shape)))
    each: list[Expr] = [Var(n) for n in names]
    each[d : d + 2] = [add(scale(int(extent.value), each[d]), each[d + 1])]
    try:
        return localize(program, tree, array, (), layout=Layout(names, tuple(each)))
    except CannotPlace:
        return None


def _along_both(stmt: Stmt, tree: Node, array: str, d: int) -> bool:
    """Whether some loop runs over indices of both dimensions."""
    if stmt.init_of is not None or stmt.write.array != array:
        return False
    columns = [_columns(stmt, stmt.write.map, n) for n in (d, d + 1)]
    return any(
        all(any(_involves(loop, stmt, c) for c in column) for column in columns)
        for loop in loops_of(tree, stmt.name)
    )


def _columns(stmt: Stmt, map_: isl.Map, dim: int) -> Sequence[int]:
    """The indices of a statement that a dimension of what it writes is made of."""
    subscript = isl.PwMultiAff.from_map(map_).get_at(dim)
    return [k for k in range(len(stmt.indices)) if subscript.involves_dims(isl.dim_type.in_, k, 1)]


def _involves(loop: Loop, stmt: Stmt, column: int) -> bool:
    return bool(loop.coords[stmt.name].involves_dims(isl.dim_type.in_, column, 1))


def _bytes(program: Program, array: str, home: tuple[Loop, ...]) -> float:
    """Of the box that one iteration touches; infinite where no constant is enough."""
    users = [s for s in program.statements.values() if accesses_to(s, array)]
    found = touched(program, home, array, [(s, a) for s in users for a in accesses_to(s, array)])
    name = program.extents[array].get_tuple_name()
    smaller = box(program, array, home, found, name=array, tuple_name=name)
    return float("inf") if smaller.bytes is None else smaller.bytes
