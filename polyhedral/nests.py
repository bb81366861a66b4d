"""Nests as parts of the tree: taken out, without the loops that their new place fixes, put in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import islpy as isl

from tdsl.polyhedral.edit import EditError, sequence
from tdsl.polyhedral.inits import coordinate_map
from tdsl.polyhedral.placing import Places
from tdsl.polyhedral.program import Program
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq, statements

LOST = ("vector", "parallel", "dot")  # marks that the loop around would not have


def without(node: Node, gone: frozenset[str]) -> Node | None:
    """The tree without some statements; loops around nothing else go too."""
    match node:
        case Leaf(name):
            return None if name in gone else node
        case Loop():
            if not gone & set(statements(node)):
                return node
            body = without(node.body, gone)
            if body is None:
                return None
            coords = {s: c for s, c in node.coords.items() if s not in gone}
            return replace(node, coords=coords, body=body)
        case Seq(children):
            left = [c for child in children if (c := without(child, gone)) is not None]
            return sequence(left) if left else None


def only(node: Node, kept: frozenset[str], drop: Sequence[Loop]) -> Node | None:
    """The tree of some statements alone, without the loops `drop`."""
    match node:
        case Leaf(name):
            return node if name in kept else None
        case Loop():
            body = only(node.body, kept, drop)
            if body is None or any(node is loop for loop in drop):
                return body
            coords = {s: c for s, c in node.coords.items() if s in kept}
            return replace(node, coords=coords, body=body)
        case Seq(children):
            left = [c for child in children if (c := only(child, kept, drop)) is not None]
            return sequence(left) if left else None


def nest_of_group(
    tree: Node,
    group: Sequence[str],
    loops: tuple[Loop, ...],
    placed: Places,
    program: Program,
) -> tuple[Node, dict[tuple[str, str], str]]:
    """The group's own loops, without those that have the coordinate of a loop around."""
    own = only(tree, frozenset(group), loops)
    assert own is not None
    aliases: dict[tuple[str, str], str] = {}
    taken = {loop.name for loop in loops}

    def edit(node: Node, renamed: Mapping[str, str]) -> Node:
        match node:
            case Leaf():
                return node
            case Seq(children):
                return sequence(edit(c, renamed) for c in children)
            case Loop():
                coords = {
                    s: placed.pulled(program.statements[s], c) for s, c in node.coords.items()
                }
                if _fixed(coords, placed):
                    found = {s: _alike(s, node.name, c, placed) for s, c in coords.items()}
                    merged = {s: loop for s, loop in found.items() if loop is not None}
                    if len(merged) == len(coords):
                        _keep_mark(node, merged)
                        aliases.update({(s, node.name): loop.name for s, loop in merged.items()})
                        return edit(node.body, renamed)
                name = name_within(node.name, group, taken)
                info = node.inner_of
                if info is not None and info.outer in renamed:
                    info = replace(info, outer=renamed[info.outer])
                body = edit(node.body, {**renamed, node.name: name})
                return replace(node, name=name, coords=coords, body=body, inner_of=info)

    return edit(own, {}), aliases


def name_within(name: str, group: Sequence[str], taken: Collection[str]) -> str:
    """What a loop of a group's nest is called inside loops of these names."""
    while name in taken:
        name += f"_{group[0]}"
    return name


def _keep_mark(loop: Loop, merged: Mapping[str, Loop]) -> None:
    """Raises EditError where a mark would go with the loop that has it."""
    if loop.mark not in LOST or all(around.mark == loop.mark for around in merged.values()):
        return
    statement, around = next(iter(merged.items()))
    raise EditError(
        f"`{loop.notes[-1]}` would be lost: {loop.name} of {statement} merges with {around.name} "
        "around it: mark that one"
    )


def _fixed(coords: Mapping[str, isl.PwAff], placed: Places) -> bool:
    """Whether the loops around leave one coordinate only."""
    parts = []
    for s, coordinate in coords.items():
        place = coordinate_map(placed.functions[s]).intersect_domain(placed.domains[s])
        parts.append(place.reverse().apply_range(coordinate.as_map()))
    return bool(reduce(isl.Map.union, parts).is_single_valued())


def _alike(statement: str, name: str, coordinate: isl.PwAff, placed: Places) -> Loop | None:
    """The loop around that has the coordinate of one of this name. Of loops of one iteration, or
    of none, those are the same that are called the same."""
    domain = placed.domains[statement]
    nothing = domain.is_empty()
    once = nothing or coordinate.intersect_domain(domain).as_map().range().is_singleton()
    for loop, function in zip(placed.loops, placed.functions[statement], strict=True):
        if once:
            same = loop.name == name or (nothing and function.plain_is_equal(coordinate))
        else:
            same = domain.is_subset(function.eq_set(coordinate))
        if same:
            return loop
    return None


def inserted(
    tree: Node,
    statement: str,
    loops: tuple[Loop, ...],
    nest: Node,
    functions: Mapping[str, Sequence[isl.PwAff]],
    readers: Sequence[str] | None,
) -> Node:
    """The nest in the body of the innermost of `loops`, which stand around `statement`: before
    the first reader, or at the end (None)."""

    def edit(node: Node, depth: int) -> Node:
        match node:
            case Loop():
                added = {s: f[depth] for s, f in functions.items()}
                if depth + 1 < len(loops):
                    body = edit(node.body, depth + 1)
                else:
                    body = joined(node.body, nest, readers)
                return replace(node, coords={**node.coords, **added}, body=body)
            case Seq(children):
                return Seq(
                    tuple(edit(c, depth) if statement in statements(c) else c for c in children)
                )
            case Leaf():
                raise AssertionError("a path ends at its loop")

    return edit(tree, 0)


def joined(body: Node, nest: Node, readers: Sequence[str] | None) -> Node:
    children = list(body.children) if isinstance(body, Seq) else [body]
    position = len(children)
    if readers is not None:
        position = next(k for k, c in enumerate(children) if set(readers) & set(statements(c)))
    return sequence([*children[:position], nest, *children[position:]])
