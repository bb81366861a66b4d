"""`compute P at C.l` and `finish Y at C.l`: a nest moves into the body of a loop.

before: for i { P: p[i] = x[i] }  for io { for ii { C: y[io, ii] = p[...] + p[... + 1] } }
after   `compute P at C.io`:
        for io { for i in the rows that this io reads { P }  for ii { C } }

Where an instance of P is needed in one iteration only, P stays the statement that it was, with
coordinates for the loops around its new place. Where needs overlap, its instances get the
coordinates that tell the iterations apart as further indices: it is then computed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import islpy as isl

from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.edit import EditError, sequence
from tdsl.polyhedral.inits import coordinate_map, init_coordinates
from tdsl.polyhedral.need import group_of, is_pure, needed_by, readers_of, with_init
from tdsl.polyhedral.nests import inserted, joined, nest_of_group, only, without
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.placing import Places
from tdsl.polyhedral.program import Dependence, Program, Stmt
from tdsl.polyhedral.stage import path_to
from tdsl.polyhedral.tree import Loop, Node, Seq, statements


@dataclass(frozen=True)
class Moved:
    """The program and its tree; `old`: for each statement of the nest its instances -> those that
    it had before.

    aliases: (statement, loop that it had) -> the loop around it that has the same coordinate.
    """

    program: Program
    tree: Node
    old: Mapping[str, isl.Map]
    aliases: Mapping[tuple[str, str], str] = field(default_factory=dict)


@bounded("what a computation is needed for")
def compute(
    program: Program, tree: Node, group: Sequence[str], arrays: Sequence[str], at: tuple[str, str]
) -> Moved:
    """The nest of `group`, which writes `arrays`, before its first reader in the body of a loop.

    Raises EditError where the tree has not the shape, or an instance has no place.
    """
    loops = path_to(tree, *at)
    inside = statements(loops[-1].body)
    readers = [r for r in readers_of(program, arrays, group) if r in inside]
    members = with_init(program, group)
    needed = needed_by(program, tree, members, arrays, readers, loops)
    pure = all(is_pure(program, m) for m in members)
    placed = Places.of(members, needed, loops, pure=pure)
    made = {m.name: placed.statement(program, m) for m in members}
    merged = {name: made.get(name, s) for name, s in program.statements.items()}
    result = replace(program, statements=merged)
    nest, aliases = nest_of_group(tree, group, loops, placed, result)
    rest = without(tree, frozenset(group))
    assert rest is not None
    functions = {name: placed.functions[name] for name in group}
    edited = inserted(rest, at[0], loops, nest, functions, readers)
    old = {m.name: placed.old(m) for m in members}
    return Moved(result, edited, old, aliases)


# ---------------------------------------------------------------- root and prepare


def to_front(
    program: Program, tree: Node, group: Sequence[str], arrays: Sequence[str], among: frozenset[str]
) -> Node:
    """The group's nest behind the leading children of the root that hold statements of `among`,
    but before the first of them that reads one of the arrays."""
    own = only(tree, frozenset(group), ())
    rest = without(tree, frozenset(group))
    assert own is not None and rest is not None
    children = list(rest.children) if isinstance(rest, Seq) else [rest]
    position = 0
    while position < len(children) and set(statements(children[position])) <= among:
        if set(readers_of(program, arrays, group)) & set(statements(children[position])):
            break
        position += 1
    return sequence([*children[:position], own, *children[position:]])


def to_root(program: Program, tree: Node, group: Sequence[str], arrays: Sequence[str]) -> Node:
    """The group's nest as a child of the root, before the first that reads one of the arrays."""
    own = only(tree, frozenset(group), ())
    rest = without(tree, frozenset(group))
    assert own is not None and rest is not None
    return joined(rest, own, readers_of(program, arrays, group))


# ---------------------------------------------------------------- finish


@bounded("where an epilogue runs")
def finish(
    program: Program,
    tree: Node,
    name: str,
    at: tuple[str, str],
    home: tuple[str, str] | None = None,
) -> tuple[Node, dict[tuple[str, str], str]]:
    """The nest of a statement behind the iteration that adds the last term of what it reads.
    `home`: the loop in each of whose iterations the memory of that is new, if there is one: each
    then reads what its own iteration wrote.

    before: for kc { for ir { C[i] += ... } }  for i { Y[i] = f(C[i]) }
    after   `finish Y at C.ir`: for kc { for ir { C[i] += ...  if kc is the last: Y[i] } }
    """
    loops = path_to(tree, *at)
    stmt, host = program.statements[name], program.statements[at[0]]
    array = host.write.array
    homes = () if home is None else path_to(tree, *home)
    if any(name not in loop.coords for loop in homes):
        raise EditError(f"{array} is new in each iteration of {homes[-1].name}: {name} is outside")
    parts = []
    for access in stmt.reads:
        if access.array != array:
            continue
        for writer in with_init(program, group_of(program, array)):
            term = program.statements[writer.init_of or writer.name]
            if not all(term.name in loop.coords for loop in loops):
                continue
            place = _coordinates(writer, term, loops)
            wrote = writer.write.map.intersect_domain(writer.domain).reverse()
            read = access.map.apply_range(wrote)
            if homes:
                mine = coordinate_map([loop.coords[name] for loop in homes])
                theirs = _coordinates(writer, term, homes)
                read = read.intersect(mine.apply_range(theirs.reverse()))
            parts.append(read.apply_range(place))
    if not parts:
        raise EditError(f"{name} reads nothing that {at[0]} writes in {at[1]}")
    last = coalesced(reduce(isl.Map.union, parts).intersect_params(program.context).lexmax())
    missing = stmt.domain.intersect_params(program.context).subtract(last.domain())
    if not missing.is_empty():
        raise EditError(f"some instances of {name} read nothing that {at[0]} writes in {at[1]}")
    where_last = isl.PwMultiAff.from_map(last)
    functions = tuple(coalesced(where_last.get_at(k)).gist(stmt.domain) for k in range(len(loops)))
    where = Places(loops, (), {name: stmt.domain}, {name: functions}, ())
    nest, aliases = nest_of_group(tree, (name,), loops, where, program)
    rest = without(tree, frozenset((name,)))
    assert rest is not None
    return inserted(rest, at[0], loops, nest, {name: functions}, None), aliases


def _coordinates(writer: Stmt, term: Stmt, loops: Sequence[Loop]) -> isl.Map:
    """Where a statement, or the `init` of one, runs inside these loops around it."""
    if term is not writer:
        return coordinate_map(init_coordinates(writer, term, loops))
    return coordinate_map([loop.coords[term.name] for loop in loops])


# ---------------------------------------------------------------- dependences


def moved_dependences(
    dependences: Iterable[Dependence],
    old: Mapping[str, isl.Map],
    program: Program,
    arrays: Sequence[str],
) -> tuple[Dependence, ...]:
    """The dependences for statements with new instances; those through `arrays` are left out."""
    return _mapped((d for d in dependences if d.array not in arrays), old, program)


def with_other_writers(
    dependences: Iterable[Dependence],
    old: Mapping[str, isl.Map],
    program: Program,
    arrays: Sequence[str],
) -> tuple[Dependence, ...]:
    """Those through `arrays` between a statement with new instances and one that writes the same
    elements and stays: their order is to be kept, whichever of the copies is meant."""
    writes = {s.name: s.write.array for s in program.statements.values()}
    chosen = (
        d
        for d in dependences
        if d.array in arrays
        and (d.source in old) != (d.sink in old)
        and writes[d.source] == writes[d.sink] == d.array
    )
    return _mapped(chosen, old, program)


def _mapped(
    dependences: Iterable[Dependence], old: Mapping[str, isl.Map], program: Program
) -> tuple[Dependence, ...]:
    result = []
    for d in dependences:
        map_ = d.map
        if d.source in old:
            back = old[d.source].intersect_domain(program.statements[d.source].domain)
            map_ = map_.apply_domain(back.reverse())
        if d.sink in old:
            back = old[d.sink].intersect_domain(program.statements[d.sink].domain)
            map_ = map_.apply_range(back.reverse())
        if not map_.is_empty():
            result.append(d if map_ is d.map else replace(d, map=coalesced(map_)))
    return tuple(result)
