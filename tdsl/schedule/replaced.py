"""What a placement changes in a state: program, tree, and the dependences that follow from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tdsl.polyhedral import dependences
from tdsl.polyhedral.fresh import inside_iterations
from tdsl.polyhedral.inits import with_inits
from tdsl.polyhedral.leaves import is_dim
from tdsl.polyhedral.program import Dependence, Program
from tdsl.polyhedral.stage import path_to
from tdsl.polyhedral.tree import Node
from tdsl.schedule.state import State


def based(state: State) -> State:
    """Before the first placement: remembers what value flow is compared with."""
    if state.base is not None:
        return state
    return replace(state, base=(state.program, state.tree))


def rebased(state: State, program: Program, tree: Node, arrays: Iterable[str]) -> State:
    """The state with this program and tree, whose order is right by construction: the dependences
    through `arrays` (all that a new or changed statement touches) are those of this order."""
    changed = frozenset(arrays)
    kept = tuple(d for d in state.dependences if d.array not in changed)
    moved = replace(state, program=program, tree=tree)
    placed = with_inits(program, tree)
    found = dependences.compute(program, placed, [a for a in program.arrays if a in changed])
    return replace(moved, dependences=(*kept, *inside_homes(moved, placed, found)))


def inside_homes(state: State, placed: Node, found: Iterable[Dependence]) -> tuple[Dependence, ...]:
    """The dependences without those between iterations that have memory of their own. `placed`:
    the tree with the first terms of reductions in their places."""
    result = []
    for d in found:
        if d.array in state.private:
            d = inside_iterations(d, path_to(placed, *state.private[d.array]))
        if not d.map.is_empty():
            result.append(d)
    return tuple(result)


def with_lanes(state: State) -> State:
    """The state after loops were marked: what lives once in an iteration of a loop that has become
    lanes or jammed copies has dependences between them."""
    placed = with_inits(state.program, state.tree)
    shared = {
        array
        for array, home in state.private.items()
        if any(is_dim(loop) for loop in path_to(placed, *home))
    }
    return rebased(state, state.program, state.tree, shared) if shared else state
