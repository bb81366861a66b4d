"""Where `S.init` runs: it follows S and is not scheduled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import islpy as isl

from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Program, Stmt
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq

_STRAIGHT = ("unroll", "vector", "dot")


@dataclass
class _Additions:
    """What goes into the tree, by the identity of its nodes."""

    before: dict[int, list[Node]] = field(default_factory=dict)
    coords: dict[int, dict[str, isl.PwAff]] = field(default_factory=dict)


@bounded("the place of the first terms of the reductions")
def with_inits(program: Program, tree: Node) -> Node:
    """The tree with a subtree for every `S.init`.

    before: for i { for j { for k { S } } }
    after:  for i { for j { S.init  for k { S } } }

    It goes before the innermost run of adjacent reduction loops that has only unrolled or vector
    loops inside, else (a part of a tuple: before S's outermost reduction loop) before the unrolled
    and vector loops around S, else before S; within the loops above that place it runs in the
    iteration of the first term.
    """
    additions = _Additions()
    chains = _chains(tree)
    for init in program.statements.values():
        if init.init_of is not None and init.init_of in chains:
            _place(init, program.statements[init.init_of], chains[init.init_of], additions)
    return _rebuilt(tree, additions)


def _chains(tree: Node) -> dict[str, tuple[Node, ...]]:
    """For every statement the nodes from the root to its leaf."""
    result: dict[str, tuple[Node, ...]] = {}

    def visit(node: Node, above: tuple[Node, ...]) -> None:
        chain = (*above, node)
        match node:
            case Leaf(name):
                result[name] = chain
            case Loop():
                visit(node.body, chain)
            case Seq(children):
                for child in children:
                    visit(child, chain)

    visit(tree, ())
    return result


def is_reduction_loop(loop: Loop, stmt: Stmt) -> bool:
    """Whether the statement's coordinate there depends on an index that it reduces."""
    return any(runs_over(loop, stmt.name, stmt.indices.index(r)) for r in stmt.reduction)


def runs_over(loop: Loop, statement: str, index: int) -> bool:
    """Whether a statement's coordinate there depends on one of its indices."""
    return bool(loop.coords[statement].involves_dims(isl.dim_type.in_, index, 1))


def init_position(chain: Sequence[Node], stmt: Stmt) -> int:
    """The node of the chain (root to leaf of the statement) before which its init runs.

    The group of a `dot` is one step of the loops around it.
    """
    reduction = [
        n
        for n, node in enumerate(chain)
        if isinstance(node, Loop) and is_reduction_loop(node, stmt) and node.mark != "dot"
    ]
    if not reduction:
        group = (n for n, node in enumerate(chain) if isinstance(node, Loop) and node.mark == "dot")
        return next(group, len(chain) - 1)
    first = last = reduction[-1]
    inside = [node for node in chain[last + 1 :] if isinstance(node, Loop)]
    if any(loop.mark not in _STRAIGHT for loop in inside):
        # The parts of a tuple read its state before the one that keeps it.
        return reduction[0] if stmt.tuple_of is not None else _first_straight(chain)
    while first - 1 in reduction:
        first -= 1
    return first


def _first_straight(chain: Sequence[Node]) -> int:
    """The outermost of the innermost loops that are written out or lanes, else the leaf."""
    position = len(chain) - 1
    while position > 0:
        above = chain[position - 1]
        if not isinstance(above, Loop) or above.mark not in _STRAIGHT:
            break
        position -= 1
    return position


def _place(init: Stmt, stmt: Stmt, chain: tuple[Node, ...], additions: _Additions) -> None:
    position = init_position(chain, stmt)
    above = [node for node in chain[:position] if isinstance(node, Loop)]
    inside = [node for node in chain[position:] if isinstance(node, Loop)]
    to_term = _same_left_hand(init, stmt)
    coords = init_coordinates(init, stmt, above)
    for loop, value in zip(above, coords, strict=True):
        additions.coords.setdefault(id(loop), {})[init.name] = value

    loops = []
    for loop in inside:
        if not is_reduction_loop(loop, stmt):
            value = loop.coords[stmt.name].pullback_multi_aff(to_term)
            loops.append(replace(loop, coords={init.name: value}))
            coords.append(value)
    taken = {loop.name for loop in (*above, *loops)}
    loops += _remaining(init, coords, taken)

    node: Node = Leaf(init.name)
    for loop in reversed(loops):
        node = replace(loop, body=node)
    additions.before.setdefault(id(chain[position]), []).append(node)


def init_coordinates(init: Stmt, stmt: Stmt, loops: Sequence[Loop]) -> list[isl.PwAff]:
    """Where a `S.init` inside some loops of S runs: in the iteration of its first term or, without
    one, in the first iteration of the loops that reduce."""
    to_term = _same_left_hand(init, stmt)
    moving = [loop for loop in loops if is_reduction_loop(loop, stmt)]
    first = _first_term(init, stmt, [loop.coords[stmt.name] for loop in moving])
    at_first = {id(loop): value for loop, value in zip(moving, first, strict=True)}
    return [
        at_first[id(loop)]
        if id(loop) in at_first
        else loop.coords[stmt.name].pullback_multi_aff(to_term)
        for loop in loops
    ]


def _same_left_hand(init: Stmt, stmt: Stmt) -> isl.MultiAff:
    """S.init's instance -> S's instance with the same free indices and 0 for the reduced ones.

    Only for coordinates that do not depend on the reduced ones.
    """
    source, target = init.domain.get_space(), stmt.domain.get_space()
    local = isl.LocalSpace.from_space(source)
    result = isl.MultiAff.zero(source.map_from_domain_and_range(target))
    for dim, index in enumerate(stmt.indices):
        if index in init.indices:
            position = init.indices.index(index)
            free = isl.Aff.var_on_domain(local, isl.dim_type.set, position)
            result = result.set_at(dim, free)
    return result


def _first_term(init: Stmt, stmt: Stmt, coords: Sequence[isl.PwAff]) -> list[isl.PwAff]:
    """For each left-hand point the coordinates of its first term in execution order.

    A point without a term takes the least coordinates of all, so that it has one place too.
    """
    if not coords:
        return []
    terms = isl.Map.from_domain_and_range(init.domain, stmt.domain)
    for position, index in enumerate(init.indices):
        if index in stmt.indices:  # else one of its own, as the lane of a state has
            terms = terms.equate(
                isl.dim_type.in_, position, isl.dim_type.out, stmt.indices.index(index)
            )
    place = coordinate_map(coords)
    first = terms.apply_range(place).lexmin_pw_multi_aff()
    without = coalesced(init.domain.subtract(first.domain()))
    result = []
    for position in range(len(coords)):
        value = coalesced(first.get_at(position))
        if not without.is_empty():
            least = _least(stmt.domain.apply(place), position, init)
            value = coalesced(value.union_add(least.intersect_domain(without)))
        result.append(value)
    return result


def _least(values: isl.Set, position: int, init: Stmt) -> isl.PwAff:
    """The least value of one dimension as a function of the sizes; 0 where there is none."""
    space = init.domain.get_space()
    zero = isl.PwAff.from_aff(isl.Aff.zero_on_domain_space(space))
    if not values.dim_has_lower_bound(isl.dim_type.set, position):
        return zero
    least = values.dim_min(position).insert_domain(space)
    return least.union_add(zero.subtract_domain(least.domain()))


def coordinate_map(coords: Sequence[isl.PwAff]) -> isl.Map:
    """Instance -> its coordinates."""
    result = isl.Map.from_pw_aff(coords[0])
    for value in coords[1:]:
        result = result.flat_range_product(isl.Map.from_pw_aff(value))
    return result


def _remaining(init: Stmt, coords: list[isl.PwAff], taken: set[str]) -> list[Loop]:
    """Plain loops for the free indices that the coordinates do not determine."""
    space = init.domain.get_space()
    local = isl.LocalSpace.from_space(space)
    known = list(coords)
    loops = []
    for position, index in enumerate(init.indices):
        value = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, isl.dim_type.set, position))
        if any(c.plain_is_equal(value) for c in known):
            continue
        if known:
            place = coordinate_map(known).intersect_domain(init.domain)
            if place.reverse().apply_range(isl.Map.from_pw_aff(value)).is_single_valued():
                continue
        name = index
        while name in taken:
            name += "_init"
        taken.add(name)
        loops.append(Loop(name, {init.name: value}, Leaf(init.name)))
        known.append(value)
    return loops


def _rebuilt(node: Node, additions: _Additions) -> Node:
    """The node with everything that is added below it and before it."""
    parts = _parts(node, additions)
    return parts[0] if len(parts) == 1 else Seq(parts)


def _parts(node: Node, additions: _Additions) -> tuple[Node, ...]:
    new = node
    match node:
        case Loop():
            coords = {**node.coords, **additions.coords.get(id(node), {})}
            new = replace(node, coords=coords, body=_rebuilt(node.body, additions))
        case Seq(children):
            new = Seq(tuple(part for child in children for part in _parts(child, additions)))
        case Leaf():
            pass
    return (*additions.before.get(id(node), ()), new)
