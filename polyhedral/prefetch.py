"""`prefetch A at l`: the box of elements of A that one iteration of l touches, as hints on l.

before: for k { ... A[i..i + 6, k] ... }
after:  for k { hints for A[i..i + 6, k + ahead]  ... }

The hints are no statements: they hang on the loop and change no value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import islpy as isl

from tdsl.ir.index import add, const, simplify, sub, substitute
from tdsl.ir.kernel import Expr, Size, Var
from tdsl.ir.loops import Prefetch
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.edit import update
from tdsl.polyhedral.extent import UNBOUNDED
from tdsl.polyhedral.from_isl import from_pw_aff
from tdsl.polyhedral.inits import coordinate_map
from tdsl.polyhedral.leaves import is_dim
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Access, Program, Stmt
from tdsl.polyhedral.stage import path_to
from tdsl.polyhedral.tree import Loop, Node, statements


class CannotPrefetch(Exception):
    """Why there are no hints, in words for the user."""


@bounded("the elements that a prefetch asks for")
def with_hints(
    program: Program,
    tree: Node,
    array: str,
    user: str | None,
    at: tuple[str, str],
    ahead: int,
) -> Node:
    """The tree with hints on the loop `at` for what its n-th next iteration touches; `user`: the
    one statement whose elements are meant. Raises CannotPrefetch."""
    path = path_to(tree, *at)
    if is_dim(path[-1]):
        raise CannotPrefetch(f"{at[1]} is unrolled or vectorized")
    outer = [loop for loop in path if not is_dim(loop)]
    found = users(program, path[-1], array, user)
    if not found:
        raise CannotPrefetch(f"nothing touches {array} there")
    if not all(access.exact for _, access in found):
        raise CannotPrefetch(f"data choose which elements of {array} are touched")
    touched = coalesced(reduce(isl.Map.union, (_elements(s, a, outer) for s, a in found)))
    touched = touched.intersect_params(program.context).intersect_range(program.extents[array])
    if touched.is_empty():
        return tree
    hint = _box(program, array, coalesced(touched), len(outer), ahead)
    write = any(access is s.write for s, access in found)

    def hang(loop: Loop) -> Node:
        return replace(loop, hints=(*loop.hints, replace(hint, write=write)))

    return update(tree, *at, hang)


def users(
    program: Program, loop: Loop, array: str, user: str | None
) -> Sequence[tuple[Stmt, Access]]:
    """The accesses to an array below a loop."""
    below = [program.statements[s] for s in statements(loop) if user is None or s == user]
    return [(s, a) for s in below for a in (s.write, *s.reads) if a.array == array]


def _elements(stmt: Stmt, access: Access, loops: Sequence[Loop]) -> isl.Map:
    """Coordinates of the loops -> the elements touched there."""
    place = coordinate_map([loop.coords[stmt.name] for loop in loops])
    return place.intersect_domain(stmt.domain).reverse().apply_range(access.map)


def _box(program: Program, array: str, touched: isl.Map, depth: int, ahead: int) -> Prefetch:
    names: list[Expr] = [Var(f"c{k}") for k in range(depth)]
    sizes: list[Expr] = [Size(s) for s in program.params]
    iterations = touched.domain()
    here = {f"c{depth - 1}": add(names[-1], const(ahead))}

    def text(value: isl.PwAff) -> Expr:
        found = from_pw_aff(coalesced(value.gist(iterations)), names, sizes)
        return simplify(substitute(found, here))

    lo: list[Expr] = []
    extents: list[Expr] = []
    for dim in range(len(program.arrays[array].shape)):
        least, most = coalesced(touched.dim_min(dim)), coalesced(touched.dim_max(dim))
        lo.append(text(least))
        length = most.sub(least).max_val()
        if length.is_int() and length.to_python() < UNBOUNDED:
            extents.append(const(int(length.to_python()) + 1))
        else:
            extents.append(add(sub(text(most), lo[-1]), const(1)))
    return Prefetch(array, tuple(lo), tuple(extents))
