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
from tdsl.polyhedral.model import nest_indices, nest_of
from tdsl.polyhedral.parts import selecting
from tdsl.polyhedral.program import Access, Dependence, Origin, Program, Stmt
from tdsl.polyhedral.stage import path_to
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq, loops_of, statements

IN, OUT, SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set


@dataclass(frozen=True)
class Moved:
    """The program and its tree; `again`: statements with instances that are computed again; `old`:
    for each statement of the nest: its instances -> those that it had before.

    aliases: (statement, loop that it had) -> the loop around it that has the same coordinate.
    """

    program: Program
    tree: Node
    again: tuple[str, ...]
    old: Mapping[str, isl.Map]
    aliases: Mapping[tuple[str, str], str] = field(default_factory=dict)


def group_of(program: Program, array: str) -> tuple[str, ...]:
    """The statements that compute an array, `S.init` left out."""
    return tuple(
        s.name for s in program.statements.values() if s.write.array == array and s.init_of is None
    )


def _with_init(program: Program, group: Iterable[str]) -> list[Stmt]:
    names = set(group)
    return [s for s in program.statements.values() if (s.init_of or s.name) in names]


def readers_of(program: Program, arrays: Sequence[str], group: Sequence[str]) -> list[str]:
    """The statements outside the group that read some of the arrays, in textual order."""
    return [
        s.name
        for s in program.statements.values()
        if s.name not in group
        and s.init_of not in group
        and any(a.array in arrays for a in _read(s))
    ]


def _read(stmt: Stmt) -> tuple[Access, ...]:
    """All accesses that read: an update reads the element that it writes."""
    return (*stmt.reads, stmt.write) if stmt.is_update else stmt.reads


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
    members = _with_init(program, group)
    needed = _needed(program, tree, members, arrays, readers, loops)
    pure = all(_is_pure(program, m) for m in members)
    placed = _Places.of(members, needed, loops, pure=pure)
    made = {m.name: placed.statement(program, m) for m in members}
    merged = {name: made.get(name, s) for name, s in program.statements.items()}
    result = replace(program, statements=merged)
    nest, aliases = _nest(tree, group, loops, placed, result)
    rest = _without(tree, frozenset(group))
    assert rest is not None
    functions = {name: placed.functions[name] for name in group}
    edited = _inserted(rest, at[0], loops, nest, functions, readers)
    old = {m.name: placed.old(m) for m in members}
    again = tuple(m.name for m in members) if placed.extra else ()
    return Moved(result, edited, again, old, aliases)


def _is_pure(program: Program, stmt: Stmt) -> bool:
    """Whether it may run again, or not at all: a temp's definition that keeps no state, or one
    that a `S.init` starts anew."""
    array = stmt.write.array
    started = f"{stmt.name}.init" in program.statements or stmt.tuple_of is not None
    own = any(a.array == array for a in stmt.reads)
    plain = stmt.op == "define" and not own
    return program.arrays[array].role == "temp" and (plain or started)


# ---------------------------------------------------------------- need


def _needed(
    program: Program,
    tree: Node,
    members: Sequence[Stmt],
    arrays: Sequence[str],
    readers: Sequence[str],
    loops: tuple[Loop, ...],
) -> dict[str, isl.Map]:
    """For each member: coordinates of the loops -> the instances whose value is read there."""
    elements: dict[str, isl.Map] = {}
    for name in readers:
        stmt = program.statements[name]
        place = coordinate_map([loop.coords[name] for loop in loops])
        place = place.intersect_domain(stmt.domain).reverse()
        for a in _read(stmt):
            if a.array in arrays:
                part = place.apply_range(a.map).intersect_params(program.context)
                known = elements.get(a.array)
                elements[a.array] = part if known is None else known.union(part).coalesce()
    result: dict[str, isl.Map] = {}
    wrote = {m.name: m.write.map.intersect_domain(m.domain).reverse() for m in members}
    for member in members:
        if member.write.array in elements:
            result[member.name] = elements[member.write.array].apply_range(wrote[member.name])
    _close(program, members, result)
    for member in members:
        needed = result[member.name]
        around = loops_of(tree, member.init_of or member.name)
        for k, loop in enumerate(loops):
            if any(loop is mine for mine in around) and member.init_of is None:
                # It stands in this loop already: it stays in its iteration.
                space = isl.Set.universe(needed.domain().get_space())
                local = isl.LocalSpace.from_space(space.get_space())
                here = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, k))
                mine_ = loop.coords[member.name]
                same = here.as_map().apply_range(mine_.as_map().reverse())
                if not needed.is_subset(same):
                    raise EditError(
                        f"{member.name} stands in {loop.name} already, and one iteration of it "
                        f"reads what {member.name} computes in another"
                    )
        result[member.name] = needed.coalesce()
    return result


MOST_ROUNDS = 8  # of what members need of each other


def _close(program: Program, members: Sequence[Stmt], needed: dict[str, isl.Map]) -> None:
    """Adds the instances whose value other members read. Raises EditError."""
    for _ in range(MOST_ROUNDS):
        grown = False
        for member in members:
            more = _for_others(program, member, members, needed)
            known = needed.get(member.name)
            if more is not None and (known is None or not more.is_subset(known)):
                needed[member.name] = more if known is None else known.union(more).coalesce()
                grown = True
        if not grown:
            break
    else:
        raise EditError("what its instances need of each other has no end that is found")
    for member in members:
        if member.name not in needed:
            raise EditError(f"nothing reads what {member.name} writes")


def _for_others(
    program: Program, member: Stmt, members: Sequence[Stmt], known: Mapping[str, isl.Map]
) -> isl.Map | None:
    """The instances whose value other members read, in the same iteration of their nest."""
    if member.tuple_of is None:
        return None
    nests = nest_indices(program.kernel)
    parts = []
    for other in members:
        for access in other.reads:
            if access.array != member.write.array or other.name not in known:
                continue
            flow = access.map.apply_range(member.write.map.reverse())
            flow = flow.intersect_range(member.domain)
            around = nest_of(nests, member)
            local = program.arrays[member.write.array].local
            for index in around[: around.index(local) + 1] if local is not None else ():
                a, b = other.indices.index(index), member.indices.index(index)
                flow = flow.equate(IN, a, OUT, b)
            parts.append(known[other.name].apply_range(flow))
    return reduce(isl.Map.union, parts).coalesce() if parts else None


@dataclass(frozen=True)
class _Places:
    """Where the members run: `functions`: per member the coordinate at each loop, over its new
    instances; `extra`: positions of the loops whose coordinates become indices."""

    loops: tuple[Loop, ...]
    extra: tuple[int, ...]
    domains: Mapping[str, isl.Set]
    functions: Mapping[str, tuple[isl.PwAff, ...]]
    names: tuple[str, ...]

    @staticmethod
    def of(
        members: Sequence[Stmt],
        needed: Mapping[str, isl.Map],
        loops: tuple[Loop, ...],
        *,
        pure: bool,
    ) -> _Places:
        extra: list[int] = []
        if pure:
            extra = [
                k
                for k in range(len(loops))
                if not all(
                    _column(needed[m.name], k, len(loops)).reverse().is_single_valued()
                    for m in members
                )
            ]
        else:
            for m in members:
                missing = m.domain.subtract(needed[m.name].range())
                if not missing.is_empty():
                    raise EditError(
                        f"nothing in {loops[-1].name} reads what some instances of {m.name} write, "
                        "and they have to run once: they would have no place"
                    )
        taken = {i for m in members for i in m.indices}
        names = []
        for k in extra:
            name = loops[k].name
            while name in taken:
                name += "_"
            taken.add(name)
            names.append(name)
        domains, functions = {}, {}
        for m in members:
            need = needed[m.name]
            if not pure:
                need = need.reverse().lexmin().reverse()
            whole = need
            for k in reversed(range(len(loops))):
                if k not in extra:
                    whole = whole.project_out(IN, k, 1)
            domain = whole.wrap().flatten() if extra else need.range()
            domains[m.name] = _in_one_piece(domain.set_tuple_name(m.tuple_name).coalesce())
            if m.init_of is not None:
                continue  # its place follows from the terms
            functions[m.name] = tuple(
                _function(m, need, domains[m.name], k, extra, len(loops)) for k in range(len(loops))
            )
        return _Places(loops, tuple(extra), domains, functions, tuple(names))

    def old(self, member: Stmt) -> isl.Map:
        """New instance -> the instance that it was."""
        space = self.domains[member.name].get_space()
        result = isl.Map.identity(space.map_from_set())
        if self.extra:
            result = result.reset_tuple_id(OUT).project_out(OUT, 0, len(self.extra))
            result = result.set_tuple_name(OUT, member.tuple_name)
        return result

    def pulled(self, member: Stmt, function: isl.PwAff) -> isl.PwAff:
        """A function of the old instances as one of the new."""
        if not self.extra:
            return function
        return function.pullback_pw_multi_aff(isl.PwMultiAff.from_map(self.old(member)))

    def statement(self, program: Program, member: Stmt) -> Stmt:
        """The member over its new instances."""
        domain, back = self.domains[member.name], self.old(member)

        def access(old: Access) -> Access:
            new = back.apply_range(old.map).intersect_domain(domain).coalesce()
            return replace(old, map=new)

        base = back.intersect_domain(domain)
        if member.origin is not None:
            origin = Origin(member.origin.statement, base.apply_range(member.origin.map))
        else:
            origin = Origin(member.name, base)
        return replace(
            member,
            indices=(*self.names, *member.indices),
            domain=domain,
            write=access(member.write),
            reads=tuple(access(a) for a in member.reads),
            origin=origin,
        )


def _in_one_piece(points: isl.Set) -> isl.Set:
    """The same set by plain bounds, where those say all."""
    hull = points.remove_divs().simple_hull().to_set()
    return hull if hull.is_equal(points) else points


def _column(needed: isl.Map, k: int, count: int) -> isl.Map:
    """One coordinate -> the instances needed there."""
    return needed.project_out(IN, k + 1, count - k - 1).project_out(IN, 0, k)


def _function(
    member: Stmt,
    need: isl.Map,
    domain: isl.Set,
    k: int,
    extra: Sequence[int],
    count: int,
) -> isl.PwAff:
    """A coordinate as a function of new instances."""
    space = domain.get_space()
    if k in extra:
        local = isl.LocalSpace.from_space(space)
        return isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, list(extra).index(k)))
    column = _column(need, k, count).reverse()
    # All terms of a sum run in one iteration: that they do has to be seen in the function.
    reduced = [d for d, i in enumerate(member.indices) if i in member.reduction]
    of_free = column
    for d in reversed(reduced):
        of_free = of_free.project_out(IN, d, 1)
    if of_free.is_single_valued():
        column = of_free
    else:
        reduced = []
    function = isl.PwMultiAff.from_map(column).get_at(0).gist(column.domain()).coalesce()
    kept = [d for d in range(len(member.indices)) if d not in reduced]
    columns = {n: len(extra) + d for n, d in enumerate(kept)}
    back = selecting(space, function.get_domain_space(), columns)
    return function.pullback_multi_aff(back).coalesce()


# ---------------------------------------------------------------- the tree


def _without(node: Node, gone: frozenset[str]) -> Node | None:
    """The tree without some statements; loops around nothing else go too."""
    match node:
        case Leaf(name):
            return None if name in gone else node
        case Loop():
            if not gone & set(statements(node)):
                return node
            body = _without(node.body, gone)
            if body is None:
                return None
            coords = {s: c for s, c in node.coords.items() if s not in gone}
            return replace(node, coords=coords, body=body)
        case Seq(children):
            left = [c for child in children if (c := _without(child, gone)) is not None]
            return sequence(left) if left else None


def _only(node: Node, kept: frozenset[str], drop: Sequence[Loop]) -> Node | None:
    """The tree of some statements alone, without the loops `drop`."""
    match node:
        case Leaf(name):
            return node if name in kept else None
        case Loop():
            body = _only(node.body, kept, drop)
            if body is None or any(node is loop for loop in drop):
                return body
            coords = {s: c for s, c in node.coords.items() if s in kept}
            return replace(node, coords=coords, body=body)
        case Seq(children):
            left = [c for child in children if (c := _only(child, kept, drop)) is not None]
            return sequence(left) if left else None


def _nest(
    tree: Node,
    group: Sequence[str],
    loops: tuple[Loop, ...],
    placed: _Places,
    program: Program,
) -> tuple[Node, dict[tuple[str, str], str]]:
    """The group's own loops, without those that the loops around fix."""
    own = _only(tree, frozenset(group), loops)
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
                    for s, c in coords.items():
                        same = _alike(s, c, placed)
                        if same is not None:
                            aliases[s, node.name] = same
                    return edit(node.body, renamed)
                name = node.name
                while name in taken:
                    name += f"_{group[0]}"
                info = node.inner_of
                if info is not None and info.outer in renamed:
                    info = replace(info, outer=renamed[info.outer])
                body = edit(node.body, {**renamed, node.name: name})
                return replace(node, name=name, coords=coords, body=body, inner_of=info)

    return edit(own, {}), aliases


def _fixed(coords: Mapping[str, isl.PwAff], placed: _Places) -> bool:
    """Whether the loops around leave one coordinate only."""
    parts = []
    for s, coordinate in coords.items():
        place = coordinate_map(placed.functions[s]).intersect_domain(placed.domains[s])
        parts.append(place.reverse().apply_range(coordinate.as_map()))
    return bool(reduce(isl.Map.union, parts).is_single_valued())


def _alike(statement: str, coordinate: isl.PwAff, placed: _Places) -> str | None:
    """The loop around that has this coordinate."""
    domain = placed.domains[statement]
    for loop, function in zip(placed.loops, placed.functions[statement], strict=True):
        if domain.is_subset(function.eq_set(coordinate)):
            return loop.name
    return None


def _inserted(
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
                    body = _joined(node.body, nest, readers)
                return replace(node, coords={**node.coords, **added}, body=body)
            case Seq(children):
                return Seq(
                    tuple(edit(c, depth) if statement in statements(c) else c for c in children)
                )
            case Leaf():
                raise AssertionError("a path ends at its loop")

    return edit(tree, 0)


def _joined(body: Node, nest: Node, readers: Sequence[str] | None) -> Node:
    children = list(body.children) if isinstance(body, Seq) else [body]
    position = len(children)
    if readers is not None:
        position = next(k for k, c in enumerate(children) if set(readers) & set(statements(c)))
    return sequence([*children[:position], nest, *children[position:]])


# ---------------------------------------------------------------- root and prepare


def to_front(
    program: Program, tree: Node, group: Sequence[str], arrays: Sequence[str], among: frozenset[str]
) -> Node:
    """The group's nest behind the leading children of the root that hold statements of `among`,
    but before the first of them that reads one of the arrays."""
    own = _only(tree, frozenset(group), ())
    rest = _without(tree, frozenset(group))
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
    own = _only(tree, frozenset(group), ())
    rest = _without(tree, frozenset(group))
    assert own is not None and rest is not None
    return _joined(rest, own, readers_of(program, arrays, group))


# ---------------------------------------------------------------- finish


@bounded("where an epilogue runs")
def finish(
    program: Program, tree: Node, name: str, at: tuple[str, str]
) -> tuple[Node, dict[tuple[str, str], str]]:
    """The nest of a statement behind the iteration that adds the last term of what it reads.

    before: for kc { for ir { C[i] += ... } }  for i { Y[i] = f(C[i]) }
    after   `finish Y at C.ir`: for kc { for ir { C[i] += ...  if kc is the last: Y[i] } }
    """
    loops = path_to(tree, *at)
    stmt, host = program.statements[name], program.statements[at[0]]
    array = host.write.array
    parts = []
    for access in stmt.reads:
        if access.array != array:
            continue
        for writer in _with_init(program, group_of(program, array)):
            term = program.statements[writer.init_of or writer.name]
            if not all(term.name in loop.coords for loop in loops):
                continue
            coordinates = [loop.coords[term.name] for loop in loops]
            if term is not writer:
                coordinates = init_coordinates(writer, term, loops)
            place = coordinate_map(coordinates)
            wrote = writer.write.map.intersect_domain(writer.domain).reverse()
            parts.append(access.map.apply_range(wrote).apply_range(place))
    if not parts:
        raise EditError(f"{name} reads nothing that {at[0]} writes in {at[1]}")
    last = reduce(isl.Map.union, parts).intersect_params(program.context).lexmax().coalesce()
    missing = stmt.domain.intersect_params(program.context).subtract(last.domain())
    if not missing.is_empty():
        raise EditError(f"some instances of {name} read nothing that {at[0]} writes in {at[1]}")
    where_last = isl.PwMultiAff.from_map(last)
    functions = tuple(where_last.get_at(k).coalesce().gist(stmt.domain) for k in range(len(loops)))
    where = _Places(loops, (), {name: stmt.domain}, {name: functions}, ())
    nest, aliases = _nest(tree, (name,), loops, where, program)
    rest = _without(tree, frozenset((name,)))
    assert rest is not None
    return _inserted(rest, at[0], loops, nest, {name: functions}, None), aliases


# ---------------------------------------------------------------- dependences


def moved_dependences(
    dependences: Iterable[Dependence],
    old: Mapping[str, isl.Map],
    program: Program,
    arrays: Sequence[str],
) -> tuple[Dependence, ...]:
    """The dependences for statements with new instances; those through `arrays` are left out."""
    result = []
    for d in dependences:
        if d.array in arrays:
            continue
        map_ = d.map
        if d.source in old:
            back = old[d.source].intersect_domain(program.statements[d.source].domain)
            map_ = map_.apply_domain(back.reverse())
        if d.sink in old:
            back = old[d.sink].intersect_domain(program.statements[d.sink].domain)
            map_ = map_.apply_range(back.reverse())
        if not map_.is_empty():
            result.append(d if map_ is d.map else replace(d, map=map_.coalesce()))
    return tuple(result)
