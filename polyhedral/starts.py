"""Piecewise functions in few words: starts of blocks as min and max, conditions as bounds.

before: select(o >= (N - 1) // 8, N - 8, 8 * o)      after: min(8 * o, N - 8)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

import islpy as isl

from tdsl.ir.index import maximum, minimum
from tdsl.ir.kernel import Expr
from tdsl.polyhedral.from_isl import from_aff, from_pw_aff, from_set
from tdsl.polyhedral.pieces import coalesced

MOST_PIECES = 4


@dataclass(frozen=True)
class Start:
    """A function that is right on some points. `affs` joined as `form` says: "min", "max", or
    "clamp", the greater of the first and the lesser of the others; "pieces": as it stands."""

    function: isl.PwAff
    affs: tuple[isl.Aff, ...]
    form: str

    def text(self, names: Sequence[Expr], sizes: Sequence[Expr]) -> Expr:
        """Its value where the dimensions are these expressions."""
        if self.form == "pieces":
            return from_pw_aff(self.function, names, sizes)
        parts = [from_aff(a, names, sizes) for a in self.affs]
        match self.form:
            case "min":
                return minimum(*parts)
            case "max":
                return maximum(*parts)
            case _:
                return maximum(parts[0], minimum(*parts[1:]))


def start(function: isl.PwAff, points: isl.Set) -> Start:
    """The shortest form that is the function on these points."""
    affs: list[isl.Aff] = []
    for _, aff in coalesced(function).get_pieces():
        if not any(aff.plain_is_equal(a) for a in affs):
            affs.append(aff)
    wanted = function.intersect_domain(points)
    if 1 < len(affs) <= MOST_PIECES:
        for form, chosen, value in _forms(affs):
            if value.intersect_domain(points).is_equal(wanted):
                return Start(function, tuple(chosen), form)
    return Start(function, tuple(affs), "min" if len(affs) == 1 else "pieces")


def _forms(affs: Sequence[isl.Aff]) -> Iterator[tuple[str, Sequence[isl.Aff], isl.PwAff]]:
    values = [isl.PwAff.from_aff(a) for a in affs]
    for a, b in combinations(range(len(affs)), 2):
        yield "min", (affs[a], affs[b]), values[a].min(values[b])
        yield "max", (affs[a], affs[b]), values[a].max(values[b])
    for c, a, b in permutations(range(len(affs)), 3):
        if a < b:
            clamped = values[a].min(values[b]).max(values[c])
            yield "clamp", (affs[c], affs[a], affs[b]), clamped


def condition(
    points: isl.Set, among: isl.Set, names: Sequence[Expr], sizes: Sequence[Expr]
) -> Expr:
    """What tells points from the others of `among`: bounds alone, where those do."""
    hull = points.remove_divs().simple_hull().to_set()
    if among.intersect(hull).is_subset(points):
        around = among.remove_divs().simple_hull().to_set()
        return from_set(coalesced(hull.gist(around)), names, sizes)
    return from_set(coalesced(points.gist(among)), names, sizes)
