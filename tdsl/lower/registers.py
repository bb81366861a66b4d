"""Elements that live in registers while a scope runs.

before: for k { C[i, j..j+16] = C[i, j..j+16] + a * b }
after:  C_0 = C[i, j..j+16]; for k { C_0 = C_0 + a * b }; C[i, j..j+16] = C_0

That no other access in the scope touches these elements was proved on the tree
(`tdsl.polyhedral.registers`). Here every access must name its element by the same offset.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tdsl.ir import vector as v
from tdsl.ir.index import (
    conjunction,
    const,
    constant_difference,
    linear_in,
    poly,
    simplify,
    sub,
    variables,
)
from tdsl.ir.kernel import Expr, Op, Read, walk
from tdsl.ir.types import BOOL

Guards = tuple[Expr, ...]
Writer = tuple[str, tuple[tuple[str, Expr], ...]]  # a statement, its indices over dimensions


class CannotKeep(Exception):
    """The elements have no fixed registers."""

    def __init__(self, array: str, reason: str) -> None:
        super().__init__(f"{array}: {reason}")
        self.array = array
        self.reason = reason


@dataclass
class Register:
    """One element, or one vector of elements.

    mask: the lanes that exist. used, written: under which conditions its uses and its writes
    run, one conjunction for each. loaded: it must be loaded before the scope. touched: some
    code uses it already. writers: the statements that write it. whole: as `used`, for the uses
    of all elements. masked: some use is of chosen lanes.
    """

    name: str
    type: v.VType
    offset: Expr
    stride: Expr | None
    mask: v.Value | None
    loaded: bool
    used: tuple[Guards, ...] = ()
    written: tuple[Guards, ...] = ()
    touched: bool = False
    writers: frozenset[Writer] = frozenset()
    whole: tuple[Guards, ...] = ()
    masked: bool = False

    @property
    def surely(self) -> bool:
        """Whether its elements exist wherever it is used, as far as conditions tell."""
        return all(any(set(k) <= set(used) for k in self.whole) for used in self.used)


@dataclass
class Partial:
    """Lanes of partial results of a reduction into one element."""

    name: str
    type: v.VType
    op: str
    identity: v.Value
    offset: Expr


@dataclass
class Scope:
    """The registers of one array while a scope is lowered. `outside`: variables known before.
    private: its elements are in no memory."""

    array: str
    outside: frozenset[str]
    private: bool = False
    registers: dict[tuple[Expr, int], Register] = field(default_factory=dict)
    partials: dict[tuple[Expr, int, int], Partial] = field(default_factory=dict)

    def place(self, offset: Expr, lanes: int) -> tuple[Expr, Expr | None]:
        """(offset of the first lane, stride or None for 1), fixed while the scope runs."""
        if any(isinstance(e, Read) for e in walk(offset)):
            raise CannotKeep(self.array, "data choose its elements")
        parts = linear_in(offset, v.LANE)
        if parts is None:
            raise CannotKeep(self.array, "its elements would be gathered")
        base, stride = parts
        if not (variables(base) | variables(stride)) <= self.outside:
            raise CannotKeep(self.array, "an element's place changes while the loops inside run")
        if lanes > 1 and stride == const(0):
            raise CannotKeep(self.array, "several lanes would share an element")
        return base, None if lanes == 1 or stride == const(1) else stride

    def refuse_partial(self) -> None:
        """Raises CannotKeep where an element may not exist that is written or chosen by a mask:
        it is used under a condition that changes while the scope runs or differs between lanes,
        and nothing there uses it for sure."""
        doubtful = (r for r in self.registers.values() if not r.surely)
        if any(r.written or r.masked for r in doubtful):
            raise CannotKeep(self.array, "some of its elements may lie outside of it")

    def refuse_shared(self) -> None:
        """Raises CannotKeep where two registers may be the same element.

        Those that one statement writes at one place are apart: each of its elements belongs to
        one iteration of the dimensions. `S.init`, and S elsewhere, may name the same elements by
        other expressions: C[i, j] where i is 0 by C[0, j].
        """
        kept = [r for r in self.registers.values() if r.written]
        if self.private:
            self._refuse_overlaps()
            return
        for number, one in enumerate(kept):
            for other in kept[:number]:
                if not one.writers & other.writers and not _apart(one, other):
                    raise CannotKeep(self.array, "several registers may be the same element")

    def _refuse_overlaps(self) -> None:
        seen: set[tuple[Expr, int]] = set()
        for register in self.registers.values():
            start, offset = offset_from(register.offset)
            step = offset_from(register.stride or const(1))
            for lane in range(register.type.lanes):
                element = start, offset + lane * step[1]
                if element in seen or step[0] != const(0):
                    raise CannotKeep(self.array, "one element would be in several registers")
                seen.add(element)
            if not register.written:
                raise CannotKeep(
                    self.array, "it is read in other lanes or copies than those that write it"
                )


def offset_from(expr: Expr) -> tuple[Expr, int]:
    """An index expression as a part that varies and a constant."""
    terms = dict(poly(expr))
    constant = terms.pop((), 0)
    return simplify(sub(expr, const(constant))), constant


def _apart(one: Register, other: Register) -> bool:
    """Whether two registers surely share no element: their offsets differ by a constant."""
    gap = constant_difference(one.offset, other.offset)
    if gap is None or one.stride is not None or other.stride is not None:
        return False
    return gap >= other.type.lanes or -gap >= one.type.lanes


def either(known: tuple[Guards, ...], new: Guards) -> tuple[Guards, ...]:
    """The alternatives with one more; those that another one implies are left out."""
    if any(set(k) <= set(new) for k in known):
        return known
    return (*(k for k in known if not set(new) <= set(k)), new)


def condition(alternatives: tuple[Guards, ...]) -> Expr | None:
    """Whether one of the alternatives holds; None where one always does."""
    parts = [conjunction(guards) for guards in alternatives]
    if not parts or None in parts:
        return None
    found: Expr | None = None
    for part in parts:
        assert part is not None
        found = part if found is None else simplify(Op("or", (found, part), BOOL))
    return found
