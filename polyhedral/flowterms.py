"""Which value an element has when it is read: its last definition, and the updates since then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import islpy as isl

from tdsl.polyhedral.flowgroup import Group, Through, own
from tdsl.polyhedral.flowreads import Read
from tdsl.polyhedral.flowtext import FlowChanged
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Stmt
from tdsl.polyhedral.text import instance_text, sizes_text
from tdsl.polyhedral.witness import smallest

IN, OUT = isl.dim_type.in_, isl.dim_type.out


@dataclass(frozen=True)
class Terms:
    """Conditions 2 and 3 of `tdsl.polyhedral.valueflow` for one group."""

    group: Group
    reassociate: frozenset[str]
    strict_fp: bool

    def other(self, read: Read, wanted: isl.Set) -> isl.Set | None:
        """Points among the wanted ones whose element has another value than in the base; None
        where there are none."""
        base = read.base
        assert base is not None
        mine, theirs = self.group.through(base.array), self.group.base(base.array)
        if not mine.writers and not theirs.writers:
            return None
        got = self._by_origin(mine.defined.writes[read.key].items())
        due = theirs.defined.writes[read.key]
        found = _different(got, due, base.to, wanted)
        if found is not None:
            return found
        if not any(s.is_update for s in (*mine.writers, *theirs.writers)):
            return None
        got = self._by_origin(self._terms(mine, read, final=True))
        due = dict(self._terms(theirs, read, final=False))
        return _different(got, due, base.to, wanted)

    def _by_origin(self, writes: Iterable[tuple[str, isl.Map]]) -> dict[str, isl.Map]:
        result: dict[str, isl.Map] = {}
        for key, pairs in writes:
            was, origin = self.group.matched.origins[self.group.by_tuple[key].name]
            here = pairs.apply_range(origin)
            other = result.get(was.tuple_name)
            result[was.tuple_name] = here if other is None else other.union(here)
        return result

    # ------------------------------------------------------------ updates

    def _terms(self, through: Through, read: Read, *, final: bool) -> Iterator[tuple[str, isl.Map]]:
        """For each update the pairs (point, instance) of one definition, the instance before."""
        base = read.base
        assert base is not None
        if final:
            clock, element, at, stmt = self.group.after, base.element, read.at, read.stmt
        else:
            clock, element, at, stmt = self.group.before, base.event.place, base.at, base.stmt
        for update in through.writers:
            if not update.is_update:
                continue
            terms = _together(through, read.key, element, update)
            if stmt is not None and at is not None:
                order = clock.before(update, stmt)
                if order is None:
                    continue
                earlier = at.apply_range(order.reverse())
                if not terms.is_subset(earlier):
                    terms = terms.intersect(earlier)
            if not terms.is_empty():
                yield update.tuple_name, terms

    def check_order(self, array: str) -> None:
        """Updates of one definition stand for different ones, and keep an order that counts.
        Raises FlowChanged."""
        mine, base = self.group.through(array), self.group.base(array)
        updates = [s for s in mine.writers if s.is_update]
        for one in updates:
            for other in updates:
                self._once(mine, one, other)
                self._in_order(mine, base, one, other)

    def _once(self, mine: Through, one: Stmt, other: Stmt) -> None:
        origins = self.group.matched.origins
        (was, origin), (been, back) = origins[one.name], origins[other.name]
        if was is not been or (one is other and origin.is_injective()):
            return
        same = origin.apply_range(back.reverse())
        if one is other:
            same = same.subtract(isl.Map.identity(same.get_space()))
        twice = same.intersect(_of_one_definition(mine, one, other))
        if not twice.is_empty():
            texts, at = self._instances(twice, one, other)
            term = "the same term" if one is other else f"a term of {was.name}"
            text = f"{texts[0]} and {texts[1]} both add {term}{at}"
            raise FlowChanged(text, one.name, was.write.array)

    def _in_order(self, mine: Through, base: Through, one: Stmt, other: Stmt) -> None:
        origins = self.group.matched.origins
        (was, origin), (been, back) = origins[one.name], origins[other.name]
        if self._may_change(one, was, other, been):
            return
        order = self.group.before.before(was, been)
        reverse = self.group.after.before(other, one)
        if order is None or reverse is None:
            return
        there = base.elements[was.name].apply_range(base.elements[been.name].reverse())
        wrong = origin.apply_range(there.intersect(order)).apply_range(back.reverse())
        wrong = wrong.intersect(reverse.reverse())
        if wrong.is_empty():
            return
        wrong = wrong.intersect(_of_one_definition(mine, one, other))
        if not wrong.is_empty():
            texts, at = self._instances(wrong, one, other)
            array = was.write.array
            text = f"{texts[1]} updates {array} before {texts[0]}, which must come first{at}"
            raise FlowChanged(text, other.name, array)

    def _instances(self, pairs: isl.Map, one: Stmt, other: Stmt) -> tuple[list[str], str]:
        """The smallest pair in words, and the sizes."""
        program = self.group.new.program
        found = smallest(pairs.wrap(), program.context)
        if found is None:
            return [one.name, other.name], ""
        split = len(one.indices)
        texts = [
            instance_text(one.name, one.indices, found.values[:split]),
            instance_text(other.name, other.indices, found.values[split:]),
        ]
        sizes = sizes_text(dict(zip(program.params, found.sizes, strict=True)))
        return texts, f", with {sizes}" if sizes else ""

    def _may_change(self, one: Stmt, was: Stmt, other: Stmt, been: Stmt) -> bool:
        """As `dependences.may_reorder`: whether two updates of an element may change places."""
        if one.op != other.op:
            return False
        if not self.group.old.program.arrays[was.write.array].type.is_float:
            return True
        if self.strict_fp:
            return False
        free = [not {a.name, b.name}.isdisjoint(self.reassociate)
                for a, b in ((one, was), (other, been))]  # fmt: skip
        return one.op in ("min", "max") or all(free)


def _different(
    got: Mapping[str, isl.Map], due: Mapping[str, isl.Map], to: isl.Map, wanted: isl.Set
) -> isl.Set | None:
    """The wanted points with other writes than are due; `due` is by points of the base."""
    for key in dict.fromkeys((*got, *due)):
        mine, theirs = got.get(key), due.get(key)
        if theirs is not None:
            theirs = to.apply_range(theirs)
        if mine is not None and theirs is not None and mine.is_equal(theirs):
            continue
        for one, other in ((mine, theirs), (theirs, mine)):
            if one is not None:
                left = one if other is None else one.subtract(other)
                wrong = left.domain().intersect(wanted)
                if not wrong.is_empty():
                    return wrong
    return None


def _of_one_definition(through: Through, one: Stmt, other: Stmt) -> isl.Map:
    """The pairs of instances of two updates that update one element after one definition."""
    element = through.elements[one.name].set_tuple_name(IN, own(one))
    return _together(through, own(one), element, other).set_tuple_name(IN, one.tuple_name)


def _together(through: Through, key: str, element: isl.Map, update: Stmt) -> isl.Map:
    """The pairs of points and updates of one element that see one definition of it, or none."""
    parts = []
    updates = through.defined.writes[own(update)]
    for define, pairs in through.defined.writes[key].items():
        if define in updates:
            parts.append(pairs.apply_range(updates[define].reverse()))
    unseen, other = through.defined.nothing[key], through.defined.nothing[own(update)]
    if not unseen.is_empty() and not other.is_empty():
        mine = element.intersect_domain(unseen)
        part = mine.apply_range(through.elements[update.name].reverse())
        parts.append(part.set_tuple_name(OUT, own(update)).intersect_range(other))
    space = isl.Map.from_domain_and_range(element.domain(), update.domain).get_space()
    result = isl.Map.empty(space)
    for part in parts:
        result = result.union(part.set_tuple_name(OUT, update.tuple_name))
    return coalesced(result)
