"""What `compute P at C.l` leaves behind: instances that run once and that nothing inside l needs.

before: for i { for j { scale: C[i, j] = beta * C[i, j] } }
        for k { for i { for j { upd: C[i, j] += ... } } }
after   `compute scale at upd.j`, where k may have no iteration:
        for i { for j { if no k: scale_rest } }
        for k { for i { for j { scale (first k)  upd } } }
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import islpy as isl

from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.edit import sequence
from tdsl.polyhedral.need import is_pure, needed_by, readers_of, with_init
from tdsl.polyhedral.parts import Part, Parts, remapped, restricted, with_origins
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Dependence, Program, Stmt, free_statement
from tdsl.polyhedral.stage import path_to
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq, statements


@bounded("what a computation is needed for")
def without_unneeded(
    program: Program,
    tree: Node,
    dependences: Iterable[Dependence],
    group: Sequence[str],
    arrays: Sequence[str],
    at: tuple[str, str],
) -> Parts | None:
    """The program in which those instances of a statement that has to run once are one of their
    own, in its place; None where there are none, or `group` is more than one statement."""
    members = with_init(program, group)
    if len(members) != 1 or is_pure(program, members[0]):
        return None
    (stmt,) = members
    loops = path_to(tree, *at)
    inside = statements(loops[-1].body)
    readers = [r for r in readers_of(program, arrays, group) if r in inside]
    needed = needed_by(program, tree, members, arrays, readers, loops)[stmt.name]
    missing = coalesced(stmt.domain.subtract(needed.range()))
    if missing.is_empty():
        return None
    return _apart(program, tree, dependences, stmt, missing)


def _apart(
    program: Program, tree: Node, dependences: Iterable[Dependence], stmt: Stmt, missing: isl.Set
) -> Parts:
    name = f"{stmt.name}_rest"
    while name in program.statements or name in program.arrays:
        name += "_"
    others = coalesced(stmt.domain.subtract(missing))
    rest = Part(name, restricted(stmt, name, free_statement(program), missing), missing)
    kept = Part(stmt.name, restricted(stmt, stmt.name, stmt.tuple_name, others), others)
    made: dict[str, Stmt] = {}
    for key, old in program.statements.items():
        if old is stmt:
            made[name] = rest.stmt
        made[key] = kept.stmt if old is stmt else old
    parts = Parts(
        replace(program, statements=made),
        _placed(tree, stmt.name, rest),
        remapped(dependences, {stmt.name: (rest, kept)}),
        {stmt.name: (stmt.name, name)},
    )
    return replace(parts, program=with_origins(parts, program))


def _placed(tree: Node, name: str, rest: Part) -> Node:
    """The tree in which the rest stands before the statement, in loops of its own."""

    def coords(loop: Loop) -> dict[str, isl.PwAff]:
        return {rest.name: rest.coordinate(loop.coords[name])}

    def copy(node: Node) -> Node:
        match node:
            case Loop():
                return replace(node, coords=coords(node), body=copy(node.body))
            case Seq():
                raise AssertionError("one statement makes no sequence")
            case Leaf():
                return Leaf(rest.name)

    def edit(node: Node) -> Node:
        if statements(node) == (name,):
            return sequence([copy(node), node])
        match node:
            case Seq(children):
                return sequence(edit(c) if name in statements(c) else c for c in children)
            case Loop():
                return replace(node, coords={**node.coords, **coords(node)}, body=edit(node.body))
            case Leaf():
                return node

    return edit(tree)
