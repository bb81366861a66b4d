"""Where the instances of a nest run that moves into the body of a loop, and what they become.

An instance that one iteration needs gets coordinates for the loops around: functions of itself.
Where several do, the coordinates that tell them apart become indices of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from tdsl.polyhedral.bounds import in_one_piece
from tdsl.polyhedral.edit import EditError
from tdsl.polyhedral.parts import selecting
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Access, Origin, Program, Stmt
from tdsl.polyhedral.tree import Loop

IN, OUT, SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set


@dataclass(frozen=True)
class Places:
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
    ) -> Places:
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
        used = {m.name: needed[m.name] for m in members}
        if not pure:
            used = {name: n.reverse().lexmin().reverse() for name, n in used.items()}
        first = {m.init_of: m for m in members if m.init_of is not None}
        for m in members:
            need = used[m.name]
            whole = need
            for k in reversed(range(len(loops))):
                if k not in extra:
                    whole = whole.project_out(IN, k, 1)
            domain = whole.wrap().flatten() if extra else need.range()
            domains[m.name] = in_one_piece(coalesced(domain.set_tuple_name(m.tuple_name)))
            if m.init_of is not None:
                continue  # its place follows from the terms
            init = first.get(m.name)
            start = None if init is None else (init, used[init.name])
            functions[m.name] = tuple(
                _function(m, need, start, domains[m.name], k, extra, len(loops))
                for k in range(len(loops))
            )
        return Places(loops, tuple(extra), domains, functions, tuple(names))

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
            new = coalesced(back.apply_range(old.map).intersect_domain(domain))
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


def _column(needed: isl.Map, k: int, count: int) -> isl.Map:
    """One coordinate -> the instances needed there."""
    return needed.project_out(IN, k + 1, count - k - 1).project_out(IN, 0, k)


def _function(
    member: Stmt,
    need: isl.Map,
    start: tuple[Stmt, isl.Map] | None,
    domain: isl.Set,
    k: int,
    extra: Sequence[int],
    count: int,
) -> isl.PwAff:
    """A coordinate as a function of new instances. start: `S.init`, and where it is needed."""
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
        column = _with_start(member, of_free, start, k, count)
    else:
        reduced = []
    function = coalesced(isl.PwMultiAff.from_map(column).get_at(0).gist(column.domain()))
    kept = [d for d in range(len(member.indices)) if d not in reduced]
    columns = {n: len(extra) + d for n, d in enumerate(kept)}
    back = selecting(space, function.get_domain_space(), columns)
    return coalesced(function.pullback_multi_aff(back))


def _with_start(
    member: Stmt, column: isl.Map, start: tuple[Stmt, isl.Map] | None, k: int, count: int
) -> isl.Map:
    """Free indices -> the coordinate, of the sums without terms too: `S.init` has the same place
    wherever it runs."""
    free = tuple(i for i in member.indices if i not in member.reduction)
    if start is None or start[0].indices != free:
        return column
    every = _column(start[1], k, count).reverse().reset_tuple_id(IN)
    return every if every.is_single_valued() and column.is_subset(every) else column
