"""`stage A at l`: a copy of what the body of a loop touches, filled before, written back after.

before: for l { S: C[i] = A[i, l] + A[i + 1, l] }
after:  for l { A_in: A_s[x - lo, y - l] = A[x, y]   S: C[i] = A_s[i - lo, 0] + A_s[i + 1 - lo, 0] }

The copies are statements of the program like all others. The copy is the box around the elements
that one iteration of the loops from the root to l touches; only what was written goes back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce

import islpy as isl

from tdsl.ir.kernel import Expr, Read, Size, Var
from tdsl.polyhedral.box import Box, CannotPlace, Layout, box, elements, fresh_name, touched
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.edit import sequence, with_plain_copies
from tdsl.polyhedral.from_isl import from_pw_aff
from tdsl.polyhedral.leaves import is_dim
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.place import role_of
from tdsl.polyhedral.program import Access, Program, Stmt, free_array, free_statement
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq, loops_of, statements

SET, IN, OUT = isl.dim_type.set, isl.dim_type.in_, isl.dim_type.out


def path_to(tree: Node, statement: str, loop: str) -> tuple[Loop, ...]:
    """The loops from the root down to the named one."""
    around = loops_of(tree, statement)
    names = [x.name for x in around]
    return around[: names.index(loop) + 1]


@bounded("the copy that a stage makes")
def stage(
    program: Program,
    tree: Node,
    array: str,
    reader: str | None,
    at: tuple[str, str],
    *,
    layout: Layout | None = None,
    memory: str | None = None,
) -> tuple[Program, Node, str]:
    """The program with a copy, its tree, and the copy's name. `reader`: the one statement that it
    is for.

    `tree` has the first terms of reductions in their places. Raises CannotPlace.
    """
    loops = path_to(tree, *at)
    if any(is_dim(loop) for loop in loops):
        raise CannotPlace(f"{at[1]} stands inside a loop that is unrolled or vectorized")
    # Copies of a sequence stay whole when the loops of the copy come among it.
    tree = with_plain_copies(tree, *at)
    loops = path_to(tree, *at)
    inside = [s for s in statements(loops[-1].body) if reader is None or s == reader]
    users = [program.statements[s] for s in inside]
    accesses = [(s, a) for s in users for a in (s.write, *s.reads) if a.array == array]
    if not accesses:
        raise CannotPlace(f"a copy that was made before serves all that touch {array} there")
    writers = [s for s in statements(loops[-1].body) if program.statements[s].write.array == array]
    if reader is not None and writers:
        raise CannotPlace(f"{writers[0]} writes {array} meanwhile: the copy would be out of date")
    found = touched(program, loops, array, accesses)
    name, number = fresh_name(program, f"{array}_s"), free_array(program)
    copy = box(program, array, loops, found, name=name, tuple_name=number, layout=layout)
    role = role_of(copy, memory)
    changed = {s.name: copy.redirected(s) for s in users}
    arrays = {**program.arrays, name: copy.array(role)}
    extents = {**program.extents, name: copy.elements}
    fill = _copy_statement(copy, f"{name}_in", found, free_statement(program), True)
    added = {fill.name: fill}
    if any(s.write.array == array for s in users):
        written = _union(elements(s, s.write, loops) for s in users if s.write.array == array)
        back = _copy_statement(copy, f"{name}_out", written, free_statement(program, 1), False)
        added[back.name] = back
    merged = {**{n: changed.get(n, s) for n, s in program.statements.items()}, **added}
    result = replace(program, statements=merged, arrays=arrays, extents=extents)
    return result, _placed(tree, loops, list(added.values())), name


def _union(maps: Iterable[isl.Map]) -> isl.Map:
    return coalesced(reduce(isl.Map.union, maps))


# ---------------------------------------------------------------- the copying statements


def _copy_statement(copy: Box, name: str, moved: isl.Map, tuple_name: str, fill: bool) -> Stmt:
    """One instance for each (coordinates, element of the array)."""
    rank = len(copy.lo)
    outer = tuple(loop.name for loop in copy.loops)
    inner = tuple(f"{copy.name}{d}" for d in range(rank))
    if fill:
        moved = _box(moved, rank)
    domain = moved.wrap().flatten().set_tuple_name(tuple_name)
    local = isl.LocalSpace.from_space(domain.get_space())
    whole = isl.Map.from_domain(domain)
    for d in range(rank):
        element = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, len(outer) + d))
        whole = whole.flat_range_product(element.as_map())
    whole = whole.set_tuple_name(OUT, copy.program.extents[copy.source.name].get_tuple_name())
    part = copy.to.set_tuple_name(IN, tuple_name).intersect_domain(domain)
    sizes = [Size(s) for s in copy.program.params]
    names = [Var(n) for n in outer]
    lo = [from_pw_aff(bound, names, sizes) for bound in copy.lo]
    element_of: tuple[Expr, ...] = tuple(Var(i) for i in inner)
    span = copy.source.span
    in_array = Access(copy.source.name, whole, element_of, True, span)
    in_copy = Access(copy.name, part, copy.subscript(element_of, lo), True, span)
    read, write = (in_array, in_copy) if fill else (in_copy, in_array)
    return Stmt(
        name,
        tuple_name,
        (*outer, *inner),
        domain,
        write,
        (read,),
        value=Read(read.array, read.subscript, copy.source.type, span=span),
        copies=copy.source.name if fill else copy.name,
        span=span,
    )


def _box(elements: isl.Map, rank: int) -> isl.Map:
    """All elements between the least and the greatest of each dimension."""
    result = isl.Map.from_domain(elements.domain())
    for d in range(rank):
        least = elements.dim_min(d).as_map()
        most = elements.dim_max(d).as_map()
        line = least.apply_range(isl.Map("{ [a] -> [x] : x >= a }")).intersect(
            most.apply_range(isl.Map("{ [a] -> [x] : x <= a }"))
        )
        result = result.flat_range_product(line)
    return coalesced(result)


def _placed(tree: Node, loops: tuple[Loop, ...], added: list[Stmt]) -> Node:
    """The tree with the copying statements at the ends of the innermost of `loops`."""

    def position(stmt: Stmt, dim: int) -> isl.PwAff:
        local = isl.LocalSpace.from_space(stmt.domain.get_space())
        return isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, dim))

    def nest(stmt: Stmt) -> Node:
        node: Node = Leaf(stmt.name)
        for dim in reversed(range(len(loops), len(stmt.indices))):
            node = Loop(stmt.indices[dim], {stmt.name: position(stmt, dim)}, node)
        return node

    def edit(node: Node, depth: int) -> Node:
        if node is loops[depth]:
            coords = {**loops[depth].coords, **{s.name: position(s, depth) for s in added}}
            if depth + 1 < len(loops):
                return replace(loops[depth], coords=coords, body=edit(loops[depth].body, depth + 1))
            fill, *back = (nest(s) for s in added)
            return replace(
                loops[depth], coords=coords, body=sequence([fill, loops[depth].body, *back])
            )
        if isinstance(node, Seq):
            return Seq(tuple(edit(c, depth) for c in node.children))
        return node

    return edit(tree, 0)
