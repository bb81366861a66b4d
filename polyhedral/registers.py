"""Which elements may live in registers while a part of the code runs, with the proof.

An accumulator: `S.init`, the loops that reduce, and the store stay together; the elements of
the left side are set before and stored behind the reduction's innermost run of loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import islpy as isl

from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.inits import coordinate_map, is_reduction_loop
from tdsl.polyhedral.leaves import Code, Kept, Point, Repeat, Sequence_, points
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Access, Program, Stmt
from tdsl.polyhedral.tree import Loop


def keep_accumulators(program: Program, code: Code, without: frozenset[str] = frozenset()) -> Code:
    """The code with a scope around each reduction that provably may have one.

    `without`: arrays that turned out to have no fixed registers.
    """
    return _Keeper(program, without).keep(code, ())


def keep_at(code: Code, array: str, at: tuple[str, str], *, private: bool = False) -> Code:
    """A scope for an array around the body of one loop: `at` is a statement below it, its name."""
    match code:
        case Repeat(loop, body):
            below = any(p.statement == at[0] for p in points(code))
            if loop.name == at[1] and below:
                return Repeat(loop, Kept(array, body, private))
            return Repeat(loop, keep_at(body, array, at, private=private))
        case Kept(body=body):
            return replace(code, body=keep_at(body, array, at, private=private))
        case Sequence_(children):
            return Sequence_(tuple(keep_at(c, array, at, private=private) for c in children))
        case Point():
            return code


def body_at(code: Code, at: tuple[str, str]) -> tuple[Code, tuple[Loop, ...]] | None:
    """The body of one loop, and the loops around it from the root; None for lanes and copies."""
    match code:
        case Repeat(loop, body):
            below = any(p.statement == at[0] for p in points(code))
            if loop.name == at[1] and below:
                return body, (loop,)
            found = body_at(body, at)
            return None if found is None else (found[0], (loop, *found[1]))
        case Kept(_, body):
            return body_at(body, at)
        case Sequence_(children):
            found_in = (body_at(c, at) for c in children)
            return next((f for f in found_in if f is not None), None)
        case Point():
            return None


@dataclass(frozen=True)
class _Keeper:
    program: Program
    without: frozenset[str]

    def keep(self, code: Code, outer: tuple[Loop, ...]) -> Code:
        match code:
            case Point():
                return code
            case Kept(array, body):
                inside = _Keeper(self.program, self.without | {array})
                return replace(code, body=inside.keep(body, outer))
            case Repeat(loop, body):
                updated = self._updated_here(code, outer)
                if updated is not None:
                    return Kept(updated, code)
                return Repeat(loop, self.keep(body, (*outer, loop)))
            case Sequence_(children):
                return self._sequence(children, outer)

    def _sequence(self, children: tuple[Code, ...], outer: tuple[Loop, ...]) -> Code:
        slices: list[tuple[int, int, str]] = []
        for start, child in enumerate(children):
            owner = _only_init(self.program, child)
            if owner is None:
                continue
            stop = next(
                n for n in range(start + 1, len(children))
                if any(p.statement == owner for p in points(children[n]))
            )  # fmt: skip
            part = Sequence_(children[start : stop + 1])
            stmt = self.program.statements[owner]
            if self._may_keep(stmt, children[stop], part, outer):
                slices.append((start, stop, stmt.write.array))
        kept = {stop for _, stop, _ in slices}
        done: list[Code] = [c if n in kept else self.keep(c, outer) for n, c in enumerate(children)]
        # Inner slices first: each replaces its children by one scope.
        for start, stop, array in sorted(slices, key=lambda s: s[1] - s[0]):
            body = tuple(c for c in done[start : stop + 1] if c is not _GONE)
            done[start : stop + 1] = [
                Kept(array, Sequence_(body)),
                *[_GONE] * (stop - start),
            ]
        left = tuple(c for c in done if c is not _GONE)
        return left[0] if len(left) == 1 else Sequence_(left)

    def _updated_here(self, code: Code, outer: tuple[Loop, ...]) -> str | None:
        """The array of an update without an init whose reduction loops start here."""
        for point in points(code):
            stmt = self.program.statements[point.statement]
            starts = stmt.is_update and stmt.reduction and not _has_init(self.program, stmt)
            if starts and self._may_keep(stmt, code, code, outer):
                return stmt.write.array
        return None

    def _may_keep(self, stmt: Stmt, run: Code, part: Code, outer: tuple[Loop, ...]) -> bool:
        inside = _loops_to(run, stmt.name)
        if not all(is_reduction_loop(loop, stmt) for loop in inside):
            return False
        array = stmt.write.array
        return array not in self.without and why_not(self.program, array, part, outer) is None


_GONE: Code = Point("", ())


def _has_init(program: Program, stmt: Stmt) -> bool:
    return any(s.init_of == stmt.name for s in program.statements.values())


def _only_init(program: Program, code: Code) -> str | None:
    """The statement that a subtree only initialises, or None."""
    names = {p.statement for p in points(code)}
    return program.statements[names.pop()].init_of if len(names) == 1 else None


def _loops_to(code: Code, statement: str) -> list[Loop]:
    """The loops from some code to a statement in it."""
    match code:
        case Point():
            return []
        case Repeat(loop, body):
            return [loop, *_loops_to(body, statement)]
        case Kept(_, body):
            return _loops_to(body, statement)
        case Sequence_(children):
            for child in children:
                if any(p.statement == statement for p in points(child)):
                    return _loops_to(child, statement)
    raise KeyError(statement)


@bounded("whether elements may live in registers")
def why_not(program: Program, array: str, part: Code, outer: tuple[Loop, ...]) -> str | None:
    """Why the elements of `array` that `part` touches cannot have registers of their own.

    With the outer loops fixed, each written element must belong to one iteration of the
    unrolled and vector dimensions, and nothing may read it but the statement that updates it.
    An array that the part only reads may always have copies.
    """
    here = [p for p in points(part) if any(a.array == array for a in _accesses(program, p))]
    writers = [p for p in here if program.statements[p.statement].write.array == array]
    if not writers:
        return None
    for point in writers:
        if not _one_iteration_each(program, point, outer):
            return f"several iterations of {point.statement} share an element of {array}"
    for reader in here:
        stmt = program.statements[reader.statement]
        for access in stmt.reads:
            # A statement may read the element that it writes: it has the same register.
            own = stmt.write.array == array and access.subscript == stmt.write.subscript
            if access.array == array and not own:
                for writer in writers:
                    if not _apart(program, reader, access, writer, outer):
                        return (
                            f"{reader.statement} reads elements of {array} that "
                            f"{writer.statement} writes meanwhile"
                        )
    return None


def _accesses(program: Program, point: Point) -> Sequence[Access]:
    stmt = program.statements[point.statement]
    return (stmt.write, *stmt.reads)


def _one_iteration_each(program: Program, point: Point, outer: tuple[Loop, ...]) -> bool:
    stmt = program.statements[point.statement]
    # A skewed one depends on others too: what is left then tells elements apart, or nothing does.
    dims = [d for d in point.dims if not is_reduction_loop(d, stmt)]
    place = _elements(program, stmt, stmt.write, [*outer, *dims])
    if not place.is_single_valued():
        return False
    # (outer, dims) -> (outer, element) must lose nothing.
    count = len(outer)
    key = isl.Map.identity(place.domain().get_space().map_from_set())
    key = key.project_out(isl.dim_type.out, count, len(dims))
    return bool(key.flat_range_product(place).intersect_domain(place.domain()).is_injective())


def _elements(program: Program, stmt: Stmt, access: Access, loops: Sequence[Loop]) -> isl.Map:
    """Coordinates of some loops -> the elements touched there."""
    domain = stmt.domain.intersect_params(program.context)
    if loops:
        place = coordinate_map([loop.coords[stmt.name] for loop in loops])
    else:
        place = isl.Map.from_domain(isl.Set.universe(stmt.domain.get_space()))
    return coalesced(place.intersect_domain(domain).reverse().apply_range(access.map))


def _apart(
    program: Program, reader: Point, access: Access, writer: Point, outer: tuple[Loop, ...]
) -> bool:
    stmt = program.statements[writer.statement]
    read = _elements(program, program.statements[reader.statement], access, outer)
    wrote = _elements(program, stmt, stmt.write, outer)
    return bool(read.intersect(wrote).is_empty())
