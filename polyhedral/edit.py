"""Edits of the loop tree: pure functions from trees to trees.

A loop is named by a statement below it and its name, which is unique on that statement's path.
Nothing here asks whether an edit is legal: see `tdsl.polyhedral.legality`. `EditError` says that
the tree has not the shape that an edit needs, in words for the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import islpy as isl

from tdsl.polyhedral.blocks import balanced, block, number, over
from tdsl.polyhedral.bounds import plain_start
from tdsl.polyhedral.extent import greatest, least
from tdsl.polyhedral.inits import coordinate_map, init_coordinates, is_reduction_loop
from tdsl.polyhedral.leaves import is_dim
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Program
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq, SplitInfo, Tail, loops_of, path, statements

DEFAULT_TAIL = Tail()


class EditError(Exception):
    """The tree has not the shape that the edit needs. `help`: what would give it that."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help


def find(tree: Node, statement: str, name: str) -> Loop:
    """The loop of that name around a statement."""
    for loop in loops_of(tree, statement):
        if loop.name == name:
            return loop
    raise KeyError(f"{statement}.{name}")


def update(tree: Node, statement: str, name: str, edit: Callable[[Loop], Node]) -> Node:
    """The tree with one loop replaced by what `edit` makes of it."""
    match tree:
        case Loop() if tree.name == name:
            return edit(tree)
        case Loop():
            return replace(tree, body=update(tree.body, statement, name, edit))
        case Seq(children):
            return sequence(
                update(c, statement, name, edit) if statement in statements(c) else c
                for c in children
            )
        case Leaf():
            raise KeyError(f"{statement}.{name}")


def sequence(children: Iterable[Node]) -> Node:
    """A sequence without sequences directly inside; a single child stands for itself."""
    flat: list[Node] = []
    for child in children:
        flat.extend(child.children if isinstance(child, Seq) else (child,))
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def rename_partner(node: Node, old: str, new: str) -> Node:
    """Below a renamed loop: the inner loops of its split name it by its new name."""
    match node:
        case Leaf():
            return node
        case Seq(children):
            return Seq(tuple(rename_partner(c, old, new) for c in children))
        case Loop():
            info = node.inner_of
            if info is not None and info.outer == old:
                node = replace(node, inner_of=replace(info, outer=new))
            return replace(node, body=rename_partner(node.body, old, new))


# ---------------------------------------------------------------- splitting and joining


def split(
    program: Program,
    tree: Node,
    statement: str,
    name: str,
    factor: int,
    outer: str,
    inner: str,
    tail: Tail = DEFAULT_TAIL,
    host: Sequence[Loop] = (),
) -> Node:
    """before: for c        after: for o = (c - anchor) // factor { for c }

    The anchor is the loop's least coordinate where that is one expression in sizes, else 0; in a
    nest that was placed in the body of the innermost loop of `host` (the path from the root), the
    least one in an iteration of these loops.
    `balanced` moves the last block's start so that the last two blocks differ by at most one
    iteration: this needs an extent that is one expression in sizes.
    """
    loop = find(tree, statement, name)
    anchor = least(program, loop)
    blocks: Mapping[str, isl.PwAff]
    if tail.balanced:
        last = greatest(program, loop)
        if anchor is None or last is None:
            raise EditError(f"the extent of {name} depends on other loops: it cannot be balanced")
        blocks = {s: balanced(c, anchor, last, factor) for s, c in loop.coords.items()}
    elif host:
        starts = local_starts(program, loop, host)
        blocks = {s: block(c.sub(starts[s]), None, factor) for s, c in loop.coords.items()}
    else:
        blocks = {s: block(c, anchor, factor) for s, c in loop.coords.items()}
    info = SplitInfo(outer, inner, factor, tail)

    def edit(old: Loop) -> Node:
        below = rename_partner(old.body, name, inner)
        # The inner loop has the old coordinate: if that was a block of an earlier split, it stays.
        within = replace(old, name=inner, body=below, inner_of=info)
        if within.outer_of is not None:
            within = replace(within, outer_of=replace(within.outer_of, outer=inner))
        return Loop(outer, blocks, within, outer_of=info, notes=old.notes)

    return update(tree, statement, name, edit)


def local_starts(program: Program, loop: Loop, host: Sequence[Loop]) -> dict[str, isl.PwAff]:
    """Where a loop starts in an iteration of the loops around its nest, as a function of the
    instances of each statement below. A sum without terms starts there too."""
    places, values = {}, None
    for s in loop.coords:
        stmt, around = program.statements[s], [x.coords[s] for x in host]
        place = coordinate_map(around)
        places[s] = isl.PwMultiAff.from_map(place)
        found = _values(stmt.domain, place, loop.coords[s])
        init = program.statements.get(f"{s}.init")
        if init is not None and not any(is_reduction_loop(x, stmt) for x in (*host, loop)):
            *around, here = init_coordinates(init, stmt, (*host, loop))
            found = found.union(_values(init.domain, coordinate_map(around), here))
        found = found.intersect_params(program.context)
        values = found if values is None else values.union(found)
    assert values is not None
    start = plain_start(coalesced(values))
    if start.n_piece() == 0:  # there are no instances
        start = isl.PwAff.from_aff(isl.Aff.zero_on_domain_space(start.get_domain_space()))
    return {s: start.pullback_pw_multi_aff(place) for s, place in places.items()}


def _values(domain: isl.Set, place: isl.Map, coordinate: isl.PwAff) -> isl.Map:
    """Where some instances are -> the coordinates that they have there."""
    return place.intersect_domain(domain).reverse().apply_range(coordinate.as_map())


def with_plain_copies(tree: Node, statement: str, name: str) -> Node:
    """The unrolled loops on the path to a loop, itself included, write whole copies: what is
    placed at the loop belongs to one of them."""
    around = loops_of(tree, statement)
    names = [x.name for x in around]
    for loop in around[: names.index(name) + 1]:
        if loop.mark == "unroll" and not loop.plain:
            tree = update(tree, statement, loop.name, lambda x: replace(x, plain=True))
    return tree


def collapse(
    program: Program, tree: Node, statement: str, first: str, second: str, name: str, extent: int
) -> Node:
    """before: for a { for b in lo..lo + extent }    after: for ab = a * extent + (b - lo)"""
    outer = find(tree, statement, first)
    inner = find(tree, statement, second)
    lo = least(program, inner)
    if lo is None:
        raise EditError(f"{second} has no single first iteration")
    coords = {
        s: c.scale_val(isl.Val(extent)).add(inner.coords[s]).sub(over(lo, c))
        for s, c in outer.coords.items()
    }
    return update(tree, statement, first, lambda _: Loop(name, coords, inner.body))


# ---------------------------------------------------------------- order


def chain(tree: Node, statement: str, names: Sequence[str]) -> tuple[Loop, ...]:
    """The loops from the outermost to the innermost of `names`, if no sequence is between."""
    wanted = set(names)
    run: list[Loop] = []
    for step in path(tree, statement):
        if isinstance(step, Loop):
            if run or step.name in wanted:
                run.append(step)
            wanted.discard(step.name)
            if not wanted:
                return tuple(run)
        elif run:
            raise EditError(
                f"between {run[-1].name} and {sorted(wanted)[0]} stands a sequence of "
                f"{', '.join(statements(run[-1].body))}"
            )
    raise KeyError(f"{statement}.{sorted(wanted)[0]}")


def permute(tree: Node, statement: str, order: Sequence[str]) -> Node:
    """The named loops of one chain take this order within the places that they hold.

    The inner loop of a split that comes to stand outside its outer loop counts places in a block
    from then on: `split i by 4 -> io, ii  reorder ii, io` runs i = 0, 4, 8, ..., then 1, 5, ...
    """
    run = chain(tree, statement, order)
    named = {loop.name: loop for loop in run}
    queue = iter(order)
    placed = [named[next(queue)] if loop.name in order else loop for loop in run]
    placed = [_phase(loop, placed[k + 1 :]) for k, loop in enumerate(placed)]
    body = run[-1].body
    for loop in reversed(placed):
        body = replace(loop, body=body)
    return update(tree, statement, run[0].name, lambda _: body)


def _phase(loop: Loop, inside: Sequence[Loop]) -> Loop:
    info = loop.inner_of
    outer = next((x for x in inside if info is not None and x.name == info.outer), None)
    if info is None or outer is None or info.tail.balanced:
        return loop
    coords = {
        s: c.sub(outer.coords[s].scale_val(isl.Val(info.factor))) for s, c in loop.coords.items()
    }
    return replace(loop, coords=coords, inner_of=None)


def rename(tree: Node, statement: str, name: str, new: str, note: str) -> Node:
    """The loop under a new name, with a note of the directive that gave it."""

    def edit(loop: Loop) -> Node:
        outer_of = replace(loop.outer_of, outer=new) if loop.outer_of is not None else None
        body = rename_partner(loop.body, name, new)
        return replace(loop, name=new, outer_of=outer_of, body=body, notes=(*loop.notes, note))

    return update(tree, statement, name, edit)


def fuse(tree: Node, members: Sequence[tuple[str, str]], name: str) -> Node:
    """Loops that are children of one sequence become one, at the place of the first."""
    loops = [find(tree, s, n) for s, n in members]

    def edit(node: Node) -> Node:
        match node:
            case Leaf():
                return node
            case Loop():
                return replace(node, body=edit(node.body))
            case Seq(children):
                if not any(c is loops[0] for c in children):
                    return sequence(edit(c) for c in children)
                strangers = [x for x in loops if not any(c is x for c in children)]
                if strangers:
                    raise EditError(
                        f"{strangers[0].name} of {statements(strangers[0].body)[0]} is not in the "
                        f"same sequence as {loops[0].name} of {statements(loops[0].body)[0]}"
                    )
                # Bodies stay in textual order, that is the order of the children.
                joined = [c for c in children if any(c is x for x in loops)]
                merged = _merge([c for c in joined if isinstance(c, Loop)], name)
                kept = [c for c in children if c is joined[0] or not any(c is x for x in loops)]
                return sequence(merged if c is joined[0] else c for c in kept)

    result = edit(tree)
    if result == tree:
        raise EditError(f"{loops[0].name} stands in no sequence: there is nothing to fuse it with")
    return result


def _merge(loops: Sequence[Loop], name: str) -> Loop:
    coords = {s: c for loop in loops for s, c in loop.coords.items()}
    body = sequence(rename_partner(loop.body, loop.name, name) for loop in loops)
    infos = {replace(x.outer_of, outer=name) if x.outer_of else None for x in loops}
    shared = infos.pop() if len(infos) == 1 else None
    return Loop(name, coords, body, outer_of=shared)


def distribute(tree: Node, statement: str, name: str, *, alone: bool = False) -> Node:
    """before: for i { S  T }        after: for i { S }  for i { T }

    `alone`: only the statement's branch leaves, before the others where it is the first.
    """

    def edit(loop: Loop) -> Node:
        between = [loop]
        while isinstance(between[-1].body, Loop):
            between.append(between[-1].body)
        below = between[-1].body
        if not isinstance(below, Seq):
            raise EditError(f"below {name} there is no sequence to distribute")
        groups: list[tuple[Node, ...]] = [(child,) for child in below.children]
        if alone:
            others = tuple(c for c in below.children if statement not in statements(c))
            mine = tuple(c for c in below.children if statement in statements(c))
            groups = [mine, others] if below.children[0] is mine[0] else [others, mine]
        branches: list[Node] = []
        for group in groups:
            branch = sequence(group)
            kept = statements(branch)
            for step in reversed(between):
                branch = replace(step, coords={s: step.coords[s] for s in kept}, body=branch)
            branches.append(branch)
        return sequence(branches)

    return update(tree, statement, name, edit)


# ---------------------------------------------------------------- coordinates and marks


def recoordinate(tree: Node, statement: str, name: str, coords: Mapping[str, isl.PwAff]) -> Node:
    """New coordinates for some of a loop's statements. Splits of the loop no longer show."""

    def edit(loop: Loop) -> Node:
        merged = {**loop.coords, **coords}
        return replace(loop, coords=merged, inner_of=None, outer_of=None)

    return update(tree, statement, name, edit)


def skew(
    tree: Node, statement: str, name: str, terms: Sequence[tuple[int, str]], constant: int = 0
) -> Node:
    """c += sum of factor * coordinate of a loop on the path + constant, for every statement."""
    loop = find(tree, statement, name)
    coords = {}
    for s, c in loop.coords.items():
        for factor, other in terms:
            c = c.add(find(tree, s, other).coords[s].scale_val(isl.Val(factor)))
        coords[s] = c.add(number(c, constant))
    return recoordinate(tree, statement, name, coords)


def shift(tree: Node, statement: str, name: str, by: int) -> Node:
    """c += by, for one statement alone."""
    c = find(tree, statement, name).coords[statement]
    return recoordinate(tree, statement, name, {statement: c.add(number(c, by))})


def reverse(tree: Node, statement: str, name: str) -> Node:
    """c = -c"""
    loop = find(tree, statement, name)
    return recoordinate(tree, statement, name, {s: c.neg() for s, c in loop.coords.items()})


def wavefront(
    tree: Node, statement: str, first: str, second: str, front: str, cell: str, note: str
) -> Node:
    """before: for a { for b }    after: for front = a + b { for cell = b }"""
    outer, inner = find(tree, statement, first), find(tree, statement, second)
    if outer.body is not inner:
        raise EditError(f"{second} does not stand directly inside {first}")
    sums = {s: c.add(inner.coords[s]) for s, c in outer.coords.items()}
    tree = recoordinate(tree, statement, first, sums)
    tree = rename(tree, statement, second, cell, note)
    return rename(tree, statement, first, front, note)


def extend(tree: Node, statement: str, name: str, coordinate: isl.PwAff, note: str) -> Node:
    """before: S    after: for n { S }, innermost and of one iteration"""

    def edit(node: Node) -> Node:
        match node:
            case Leaf(found) if found == statement:
                return Loop(name, {statement: coordinate}, node, notes=(note,))
            case Leaf():
                return node
            case Loop():
                return replace(node, body=edit(node.body)) if statement in node.coords else node
            case Seq(children):
                return Seq(tuple(edit(c) for c in children))

    return edit(tree)


def reorder_branches(tree: Node, names: Sequence[str]) -> Node:
    """before: S T U    `sequence U, S`    after: U T S

    In the nearest sequence whose branches tell the statements apart, theirs take this order
    within the places that they hold.
    """
    if isinstance(tree, Loop):
        return replace(tree, body=reorder_branches(tree.body, names))
    if not isinstance(tree, Seq):
        raise EditError(f"{' and '.join(names)} do not stand in one sequence")
    owner = {s: k for k, child in enumerate(tree.children) for s in statements(child)}
    places = [owner[name] for name in names]
    if len(set(places)) == 1:
        below = reorder_branches(tree.children[places[0]], names)
        return sequence(below if k == places[0] else c for k, c in enumerate(tree.children))
    if len(set(places)) < len(places):
        twice = next(k for k in places if places.count(k) > 1)
        both = [name for name, place in zip(names, places, strict=True) if place == twice]
        raise EditError(
            f"{' and '.join(both)} stand in one branch of the sequence, which moves as a whole"
        )
    children = list(tree.children)
    for place, source in zip(sorted(places), places, strict=True):
        children[place] = tree.children[source]
    return Seq(tuple(children))


def mark(
    tree: Node,
    statement: str,
    name: str,
    kind: str,
    *,
    width: int | None = None,
    by: int | None = None,
    plain: bool = False,
) -> Node:
    """The loop runs as lanes ("vector"), written out ("unroll") or on threads ("parallel")."""
    return update(
        tree,
        statement,
        name,
        lambda loop: replace(loop, mark=kind, width=width, by=by, plain=plain),
    )


def jammed(tree: Node, dims: tuple[Loop, ...] = ()) -> Node:
    """The order in which copies run: lanes and jammed copies innermost, as code generation has it.

    before: for io { unroll ii { for k { S } } }     after: for io { for k { unroll ii { S } } }
    """
    match tree:
        case Leaf(statement):
            node: Node = tree
            for dim in reversed(dims):
                node = replace(dim, coords={statement: dim.coords[statement]}, body=node)
            return node
        case Seq(children):
            return Seq(tuple(jammed(c, dims) for c in children))
        case Loop():
            if is_dim(tree):
                return jammed(tree.body, (*dims, tree))
            return replace(tree, body=jammed(tree.body, dims))
