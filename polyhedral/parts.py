"""`peel L first m last n`: the statements below a loop are split by their part of its iterations.

before: for i { S }      after: for i { S_first }  for i { S }  for i { S_last }

The first and last iterations are those of each run of the loop. The parts run one after the
other, so the order of instances stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import islpy as isl

from tdsl.polyhedral.blocks import number
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.edit import EditError, find, sequence
from tdsl.polyhedral.inits import is_reduction_loop
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import (
    Access,
    Dependence,
    Origin,
    Program,
    Stmt,
    free_statement,
)
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq, loops_of, statements

IN, SET = isl.dim_type.in_, isl.dim_type.set
WORDS = ("first", "", "last")


@dataclass(frozen=True)
class Parts:
    """The new program and tree; `names`: what became of the statements that were split."""

    program: Program
    tree: Node
    dependences: tuple[Dependence, ...]
    names: Mapping[str, tuple[str, ...]]


@bounded("the parts of a peeled loop")
def peel(
    program: Program,
    tree: Node,
    dependences: Iterable[Dependence],
    at: tuple[str, str],
    first: int,
    last: int,
    note: str,
) -> Parts:
    """Splits every statement below the loop `at` (a statement below it, and its name)."""
    loop = find(tree, *at)
    outside = loops_of(tree, at[0])
    outside = outside[: next(k for k, x in enumerate(outside) if x is loop)]
    below = statements(loop.body)
    keys = {s: _key(program.statements[s], outside) for s in below}
    domains = _domains(program, loop, keys, first, last)
    maker = _Maker(program, loop, first > 0)
    for name in below:
        maker.split(program.statements[name], domains[name])
    result = replace(program, statements=maker.statements())
    known = remapped(dependences, maker.made)
    names = {s: tuple(p.name for p in maker.made[s]) for s in below}
    return Parts(result, _placed(tree, loop, outside, maker, note), known, names)


def _key(stmt: Stmt, outside: Sequence[Loop]) -> isl.Map:
    """Instance -> the coordinates of the loops outside."""
    result = isl.Map.from_domain(isl.Set.universe(stmt.domain.get_space()))
    for loop in outside:
        result = result.flat_range_product(loop.coords[stmt.name].as_map())
    return result


def _domains(
    program: Program, loop: Loop, keys: Mapping[str, isl.Map], first: int, last: int
) -> dict[str, tuple[isl.Set, isl.Set, isl.Set]]:
    """For each statement its first, middle and last instances."""
    runs: isl.Map = reduce(
        isl.Map.union,
        (
            key.intersect_domain(program.statements[s].domain)
            .reverse()
            .apply_range(loop.coords[s].as_map())
            for s, key in keys.items()
        ),
    )
    runs = coalesced(runs.intersect_params(program.context))
    lo = runs.lexmin_pw_multi_aff().get_at(0)
    hi = runs.lexmax_pw_multi_aff().get_at(0)
    result = {}
    for s, key in keys.items():
        domain, c = program.statements[s].domain, loop.coords[s]
        place = isl.PwMultiAff.from_map(key)
        start, end = lo.pullback_pw_multi_aff(place), hi.pullback_pw_multi_aff(place)
        early = domain.intersect(c.lt_set(start.add(number(c, first))))
        late = domain.intersect(c.gt_set(end.sub(number(c, last)))).subtract(early)
        middle = domain.subtract(early).subtract(late)
        result[s] = coalesced(early), coalesced(middle), coalesced(late)
    return result


# ---------------------------------------------------------------- statements


@dataclass(frozen=True)
class Part:
    """One statement that a statement became: a part of its instances under another name."""

    name: str
    stmt: Stmt
    domain: isl.Set  # in the space of the statement that it was

    def coordinate(self, of_whole: isl.PwAff) -> isl.PwAff:
        """A function of the whole statement's instances as one of the part's."""
        new, old = self.stmt.domain.get_space(), of_whole.get_domain_space()
        same = selecting(new, old, {k: k for k in range(len(self.stmt.indices))})
        return of_whole.pullback_multi_aff(same)


class _Maker:
    """Collects the parts of all statements."""

    def __init__(self, program: Program, loop: Loop, has_first: bool) -> None:
        self._program = program
        self._loop = loop
        self._has_first = has_first
        self._new = 0
        self.made: dict[str, tuple[Part, ...]] = {}

    def split(self, stmt: Stmt, domains: tuple[isl.Set, isl.Set, isl.Set]) -> None:
        parts = [
            self._part(stmt, word, domain)
            for word, domain in zip(WORDS, domains, strict=True)
            if word == "" or not domain.intersect_params(self._program.context).is_empty()
        ]
        self.made[stmt.name] = tuple(parts)
        init = self._program.statements.get(f"{stmt.name}.init")
        if init is None or init.init_of != stmt.name:
            return
        if is_reduction_loop(self._loop, stmt):
            self.made[init.name] = (self._init(init, parts[0].name, init.domain, init.tuple_name),)
        else:
            self.made[init.name] = self._inits(init, stmt, parts)

    def _part(self, stmt: Stmt, word: str, domain: isl.Set) -> Part:
        name = f"{stmt.name}_{word}" if word else stmt.name
        if word and name in self._program.statements:
            raise EditError(f"there is a statement {name} already")
        return Part(name, restricted(stmt, name, self._tuple(stmt, word), domain), domain)

    def _tuple(self, stmt: Stmt, word: str) -> str:
        if not word:
            return stmt.tuple_name
        self._new += 1
        return free_statement(self._program, self._new - 1)

    def _init(self, init: Stmt, owner: str, domain: isl.Set, tuple_name: str) -> Part:
        made = replace(restricted(init, f"{owner}.init", tuple_name, domain), init_of=owner)
        return Part(made.name, made, domain)

    def _inits(self, init: Stmt, stmt: Stmt, parts: Sequence[Part]) -> tuple[Part, ...]:
        """The first terms of each part; what has no term belongs to the middle one."""
        reduced = [stmt.indices.index(r) for r in stmt.reduction]
        shown = {p.name: _without(p.domain, reduced, init) for p in parts}
        for one in parts:
            for other in parts:
                if one is not other and not shown[one.name].is_disjoint(shown[other.name]):
                    raise EditError(
                        f"the first iterations of {self._loop.name} depend on the terms of "
                        f"{stmt.name}"
                    )
        rest = init.domain
        for part in parts:
            if part.name != stmt.name:
                rest = rest.subtract(shown[part.name])
        result = []
        for part in parts:
            middle = part.name == stmt.name
            domain = rest if middle else shown[part.name].intersect(init.domain)
            result.append(
                self._init(
                    init, part.name, coalesced(domain), self._tuple(init, "" if middle else "x")
                )
            )
        return tuple(result)

    def statements(self) -> dict[str, Stmt]:
        """All statements in order, the parts in the place of the whole."""
        result: dict[str, Stmt] = {}
        for name, stmt in self._program.statements.items():
            parts = self.made.get(name)
            result.update({name: stmt} if parts is None else {p.name: p.stmt for p in parts})
        return result


def _without(domain: isl.Set, dims: Sequence[int], init: Stmt) -> isl.Set:
    for dim in sorted(dims, reverse=True):
        domain = domain.project_out(SET, dim, 1)
    return coalesced(domain.set_tuple_name(init.tuple_name))


def restricted(stmt: Stmt, name: str, tuple_name: str, domain: isl.Set) -> Stmt:
    """The same statement for some of its instances, under another name."""

    def access(old: Access) -> Access:
        map_ = old.map.intersect_domain(domain).set_tuple_name(IN, tuple_name)
        return replace(old, map=coalesced(map_))

    origin = stmt.origin
    if origin is not None:
        map_ = origin.map.intersect_domain(domain).set_tuple_name(IN, tuple_name)
        origin = Origin(origin.statement, map_)
    return replace(
        stmt,
        name=name,
        tuple_name=tuple_name,
        domain=domain.set_tuple_name(tuple_name),
        origin=origin,
        write=access(stmt.write),
        reads=tuple(access(a) for a in stmt.reads),
    )


def with_origins(parts: Parts, whole: Program) -> Program:
    """The program of the parts, in which they say whose instances they have: those of `whole`."""
    statements = dict(parts.program.statements)
    for name, names in parts.names.items():
        for suffix in ("", ".init"):
            was = whole.statements.get(name + suffix)
            for part in names:
                stmt = statements.get(part + suffix)
                if was is not None and stmt is not None and stmt.origin is None:
                    same = isl.Map.identity(stmt.domain.get_space().map_from_set())
                    same = same.set_tuple_name(isl.dim_type.out, was.tuple_name)
                    origin = Origin(was.name, same.intersect_domain(stmt.domain))
                    statements[part + suffix] = replace(stmt, origin=origin)
    return replace(parts.program, statements=statements)


def selecting(source: isl.Space, target: isl.Space, columns: Mapping[int, int]) -> isl.MultiAff:
    """From points of one space to those of another: column k of the target is column columns[k]
    of the source, and the others are 0."""
    local = isl.LocalSpace.from_space(source)
    result = isl.MultiAff.zero(source.map_from_domain_and_range(target))
    for k, column in columns.items():
        result = result.set_at(k, isl.Aff.var_on_domain(local, SET, column))
    return result


def remapped(
    dependences: Iterable[Dependence], made: Mapping[str, Sequence[Part]]
) -> tuple[Dependence, ...]:
    """The same pairs of instances under the names of the parts."""
    result: list[Dependence] = []
    for d in dependences:
        for source in made.get(d.source, (None,)):
            for sink in made.get(d.sink, (None,)):
                found = d
                if source is not None:
                    pairs = found.map.intersect_domain(source.domain)
                    pairs = pairs.set_tuple_name(IN, source.stmt.tuple_name)
                    found = replace(found, source=source.name, map=pairs)
                if sink is not None:
                    pairs = found.map.intersect_range(sink.domain)
                    pairs = pairs.set_tuple_name(isl.dim_type.out, sink.stmt.tuple_name)
                    found = replace(found, sink=sink.name, map=pairs)
                if found is d or not found.map.is_empty():
                    result.append(found)
    return tuple(result)


# ---------------------------------------------------------------- the tree


def _placed(tree: Node, loop: Loop, outside: Sequence[Loop], maker: _Maker, note: str) -> Node:
    """The tree with one loop for each part in the place of the loop."""

    def coords(old: Loop, word: str | None) -> dict[str, isl.PwAff]:
        """Those of the parts of this kind; of all (None)."""
        result: dict[str, isl.PwAff] = {}
        for s, c in old.coords.items():
            for part in maker.made.get(s, ()):
                if word is None or part.name == (f"{s}_{word}" if word else s):
                    result[part.name] = part.coordinate(c)
            if s not in maker.made:
                result[s] = c
        return result

    def copy(node: Node, word: str) -> Node | None:
        match node:
            case Leaf(s):
                name = f"{s}_{word}" if word else s
                return Leaf(name) if any(p.name == name for p in maker.made[s]) else None
            case Loop():
                body = copy(node.body, word)
                if body is None:
                    return None
                return replace(node, coords=coords(node, word), body=body)
            case Seq(children):
                kept = [c for child in children if (c := copy(child, word)) is not None]
                return sequence(kept) if kept else None

    def edit(node: Node) -> Node:
        if node is loop:
            noted = replace(loop, notes=(*loop.notes, note))
            return sequence(c for word in WORDS if (c := copy(noted, word)) is not None)
        if isinstance(node, Loop) and any(node is x for x in outside):
            return replace(node, coords=coords(node, None), body=edit(node.body))
        if isinstance(node, Seq):
            return sequence(edit(c) for c in node.children)
        return node

    return edit(tree)
