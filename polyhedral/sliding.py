"""`store P at l` outside of where P is computed: what an iteration has computed is not computed
again by a later one of the same iteration of l (a sliding window).

before: for io { for ii { for i in ii..ii + 3 { P }  C } }
after   `store P at io`: the same, but P at (io, ii, i) only where no smaller ii has it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl

from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.inits import coordinate_map
from tdsl.polyhedral.pieces import coalesced, restricted
from tdsl.polyhedral.program import Access, Program, Stmt
from tdsl.polyhedral.tree import Loop

OUT = isl.dim_type.out


@bounded("the first computations of a sliding window")
def first_only(
    program: Program, array: str, loops: Sequence[Loop], outside: int
) -> tuple[Program, tuple[str, ...]]:
    """The program in which each instance that writes the array runs in one iteration of
    `loops[outside:]` for each of those around; and the statements that changed.

    `loops`: from the root to where the array is computed, of a tree with first terms.
    """
    changed = {
        s.name: _first(s, loops, outside)
        for s in program.statements.values()
        if s.write.array == array and s.origin is not None and s.name in loops[-1].coords
    }
    changed = {n: s for n, s in changed.items() if s is not program.statements[n]}
    statements = {n: changed.get(n, s) for n, s in program.statements.items()}
    return replace(program, statements=statements), tuple(changed)


def _first(stmt: Stmt, loops: Sequence[Loop], outside: int) -> Stmt:
    """The instances with the least coordinates inside among those that compute the same."""
    assert stmt.origin is not None
    # Few pieces before the search for the least: what it costs grows with their products.
    same = restricted(stmt.origin.map, stmt.domain, stmt.domain).reset_tuple_id(OUT)
    if outside:
        around = coordinate_map([loop.coords[stmt.name] for loop in loops[:outside]])
        same = coalesced(around.flat_range_product(same))
    inner = coordinate_map([loop.coords[stmt.name] for loop in loops[outside:]])
    inner = inner.intersect_domain(stmt.domain)
    first = coalesced(coalesced(same.reverse().apply_range(inner)).lexmin())
    kept = coalesced(same.apply_range(first).intersect(inner).domain())
    if stmt.domain.is_subset(kept):
        return stmt
    kept = coalesced(coalesced(kept.gist(stmt.domain)).intersect(stmt.domain))

    def among(access: Access) -> Access:
        return replace(access, map=restricted(access.map, stmt.domain, kept))

    return replace(
        stmt,
        domain=kept,
        write=among(stmt.write),
        reads=tuple(among(a) for a in stmt.reads),
        origin=replace(stmt.origin, map=restricted(stmt.origin.map, stmt.domain, kept)),
    )
