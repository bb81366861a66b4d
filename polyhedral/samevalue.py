"""Whether a statement still computes the value that it did, and which of its reads is which.

base:  y[i] = select(0 <= i - 1, x[i - 1], 0.0) * w[i]
final: y[i] = q[i - 8 io] * w[i]
reads: q[i - 8 io] stands for x[i - 1], and for 0.0 where the condition does not hold; w for w

Values are compared as they stand: the same operations in the same order. Arrays and subscripts
may differ, since what is read is shown by value flow; what an index is worth, as a number of the
value or in a condition, may not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import islpy as isl

from tdsl.ir.kernel import INDEX, Cast, Const, Expr, Op, Read, Select, Size, Var, children
from tdsl.ir.types import ElemType
from tdsl.polyhedral.affine import NotAffine, pw_aff, region
from tdsl.polyhedral.model import scope_of
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Access, Program, Stmt

SET, IN, OUT = isl.dim_type.set, isl.dim_type.in_, isl.dim_type.out


class OtherValue(Exception):
    """What of the value is not the same, in words."""


@dataclass(frozen=True)
class ReadPair:
    """A read of the final statement and the one that it stands for; None: there is none, since
    no instance takes that arm. padding: what the base has instead where it does not read, a
    number or an argument without dimensions."""

    final: Access | None
    base: Access | None
    padding: Expr | None = None


@dataclass(frozen=True)
class _Pair:
    final: Read
    base: Read
    padding: Expr | None = None


def read_pairs(
    base: Program, was: Stmt, final: Program, now: Stmt, origin: isl.Map | None
) -> tuple[ReadPair, ...]:
    """The reads of `now`, each with that of `was`. `origin`: instances of `now` -> those of `was`
    (None: themselves). Raises OtherValue."""
    if was.op != now.op:
        raise OtherValue(f"{now.name} is another operation than {was.name}")
    if was.value is now.value and was.reads == now.reads and len(was.reads) == len(now.reads):
        return tuple(map(ReadPair, now.reads, was.reads))
    if was.value is None or now.value is None:
        return _by_position(was, now)
    compare = _Compare(base, was, final, now, origin)
    found = list(compare.values(was.value, now.value))
    old = [e for s in was.write.subscript for e in _reads(s)]
    new = [e for s in now.write.subscript for e in _reads(s)]
    found += compare.inner(old, new)
    bases, finals = ([p.base for p in found], [p.final for p in found])
    mine, _ = _aligned(bases, was.reads)
    others, left = _aligned(finals, now.reads)
    if left:
        raise OtherValue(f"{left[0].array} is read where the value does not say so")
    return tuple(
        ReadPair(f, b, pair.padding)
        for pair, b, f in zip(found, mine, others, strict=True)
        if f is not None or b is not None
    )


def _by_position(was: Stmt, now: Stmt) -> tuple[ReadPair, ...]:
    if len(was.reads) != len(now.reads) or was.value is not now.value:
        raise OtherValue(f"the reads of {now.name} are not those of {was.name}")
    return tuple(map(ReadPair, now.reads, was.reads))


def _reads(expr: Expr) -> Iterator[Read]:
    """All reads in the order in which a statement lists them."""
    if isinstance(expr, Read):
        yield expr
    for child in children(expr):
        yield from _reads(child)


def _aligned(
    occurrences: Sequence[Read], accesses: Sequence[Access]
) -> tuple[list[Access | None], list[Access]]:
    """The access of each occurrence, None for one in an arm that no instance takes; and the
    accesses that are left."""
    result: list[Access | None] = []
    left = list(accesses)
    for read in occurrences:
        found = next(
            (a for a in left if (a.array, a.subscript) == (read.array, read.indices)), None
        )
        result.append(found)
        if found is not None:
            left = [a for a in left if a is not found]
    return result, left


@dataclass(frozen=True)
class _Compare:
    base: Program
    was: Stmt
    final: Program
    now: Stmt
    origin: isl.Map | None

    def values(self, old: Expr, new: Expr) -> Iterator[_Pair]:
        """The pairs of reads in two values, in order. Raises OtherValue where they differ."""
        match old, new:
            case Cast("convert" | "saturate", arg, type), Read() if type == new.type and is_wider(
                arg.type, type
            ):
                yield from self._read(arg, new)  # a copy has converted it
            case Cast("convert" | "saturate", arg), Cast(_, Read() as read) if (
                old.mode,
                old.type,
            ) == (new.mode, new.type) and is_wider(arg.type, read.type):
                yield from self._read(arg, read)  # a copy has widened what is converted
            case _, Cast("convert", Read() as read, type) if (
                not isinstance(old, Cast) and type == old.type and is_wider(type, read.type)
            ):
                yield from self._read(old, read)  # and a wider one has it exactly
            case ((Read() | Select()), Read()) if old.type == new.type:
                yield from self._read(old, new)
            case Select(c, a, b), Select(d, x, y):
                yield from self._condition(c, d)
                yield from self.values(a, x)
                yield from self.values(b, y)
            case _ if old.type == INDEX and new.type == INDEX:
                yield from self._index(old, new)
            case Op(op, args), Op(other_op, others) if op == other_op and len(args) == len(others):
                for a, b in zip(args, others, strict=True):
                    yield from self.values(a, b)
            case Cast(mode, arg, type), Cast(other_mode, other_arg, other_type) if (mode, type) == (
                other_mode,
                other_type,
            ):
                yield from self.values(arg, other_arg)
            case Const(), Const() if old == new:
                return
            case _:
                raise OtherValue(f"{self.now.name} has another value than {self.was.name}")

    def _read(self, old: Expr, new: Read) -> Iterator[_Pair]:
        match old:
            case Read():
                yield _Pair(new, old)
                yield from self.inner(
                    [r for e in old.indices for r in _reads(e)],
                    [r for e in new.indices for r in _reads(e)],
                )
            case Select(condition, Read() as read, other) if self._is_constant(other):
                yield from self._padded(condition, new, read, other)
            case Select(condition, other, Read() as read) if self._is_constant(other):
                yield from self._padded(condition, new, read, other)
            case _:
                raise OtherValue(f"{self.now.name} has another value than {self.was.name}")

    def _is_constant(self, expr: Expr) -> bool:
        return is_constant(self.base, expr)

    def inner(self, old: Sequence[Read], new: Sequence[Read]) -> list[_Pair]:
        """Reads in subscripts, by their position."""
        if len(old) != len(new):
            raise OtherValue(f"the subscripts of {self.now.name} read something else")
        return [_Pair(f, b) for b, f in zip(old, new, strict=True)]

    def _padded(self, condition: Expr, new: Read, old: Read, padding: Expr) -> Iterator[_Pair]:
        if not region(condition, scope_of(self.base, self.was.name)).exact:
            raise OtherValue(f"data decide whether {self.was.name} reads {old.array}")
        yield _Pair(new, old, padding)
        inside = [r for e in (*old.indices, *new.indices) for r in _reads(e)]
        if inside:
            raise OtherValue(f"data decide what {self.was.name} reads of {old.array}")

    def _condition(self, old: Expr, new: Expr) -> Iterator[_Pair]:
        mine = region(old, scope_of(self.base, self.was.name))
        other = region(new, scope_of(self.final, self.now.name))
        if mine.exact and other.exact:
            domain = self.now.domain
            if not self._back(mine.may).intersect(domain).is_equal(other.may.intersect(domain)):
                raise OtherValue(f"{self.now.name} chooses another arm than {self.was.name}")
            return
        yield from self.values(old, new)

    def _index(self, old: Expr, new: Expr) -> Iterator[_Pair]:
        if self.origin is None and old == new:
            return
        try:
            mine = pw_aff(old, scope_of(self.base, self.was.name)).as_map()
            other = pw_aff(new, scope_of(self.final, self.now.name)).as_map()
        except NotAffine:
            yield from self._data_index(old, new)
            return
        if self.origin is not None:
            mine = self.origin.apply_range(mine)
        domain = self.now.domain
        if not mine.intersect_domain(domain).is_equal(other.intersect_domain(domain)):
            raise OtherValue(f"an index in {self.now.name} is worth something else")

    def _data_index(self, old: Expr, new: Expr) -> Iterator[_Pair]:
        match old, new:
            case ((Var() | Size() | Const()), _):
                raise OtherValue(f"an index in {self.now.name} is worth something else")
            case Op(op, args), Op(other_op, others) if op == other_op and len(args) == len(others):
                for a, b in zip(args, others, strict=True):
                    yield from self.values(a, b)
            case Cast(mode, arg, type), Cast(other_mode, other_arg, other_type) if (mode, type) == (
                other_mode,
                other_type,
            ):
                yield from self.values(arg, other_arg)
            case _:
                raise OtherValue(f"an index in {self.now.name} is worth something else")

    def _back(self, points: isl.Set) -> isl.Set:
        return points if self.origin is None else points.apply(self.origin.reverse())


# ---------------------------------------------------------------- what one statement says


@dataclass(frozen=True)
class Copied:
    """What a copying statement writes: what it reads, and constants elsewhere."""

    read: isl.Map
    constants: tuple[tuple[Expr, isl.Set], ...]


def is_constant(program: Program, expr: Expr) -> bool:
    """Whether it is a number, or an argument without dimensions that nothing writes."""
    match expr:
        case Const():
            return True
        case Read(array, ()):
            return program.arrays[array].role in ("in", "const", "table")
        case _:
            return False


def copied(program: Program, stmt: Stmt) -> Copied:
    """What a pure copy moves. Raises OtherValue for one that computes."""
    value, target = stmt.value, program.arrays[stmt.write.array].type
    if stmt.is_update or value is None or stmt.copies is None:
        raise OtherValue(f"{stmt.name} is no copy")
    source = program.arrays[stmt.copies].type
    if isinstance(value, Cast) and value.mode == "convert" and is_wider(source, target):
        value = value.arg
    if value.type != source or not (source == target or is_wider(source, target)):
        raise OtherValue(f"{stmt.name} changes what it copies")
    space = isl.Map.from_domain_and_range(stmt.domain, program.extents[stmt.copies]).get_space()
    read, constants, left = isl.Map.empty(space), [], list(stmt.reads)
    for leaf, points in _leaves(program, stmt, value, stmt.domain):
        match leaf:
            case Read(stmt.copies, _):
                (access, *_), left = _taken(stmt, left, leaf)
                if not access.exact or not access.map.domain().is_equal(points):
                    raise OtherValue(f"{stmt.name} reads where its value does not say so")
                read = read.union(access.map)
            case _ if is_constant(program, leaf):
                constants.append((leaf, points))
                if isinstance(leaf, Read):
                    _, left = _taken(stmt, left, leaf)
            case _:
                raise OtherValue(f"{stmt.name} is no copy")
    # A part of a peeled copy may take no instance of an arm: what is read there is no element.
    unsaid = any(not access.map.is_empty() for access in left)
    if unsaid or not read.is_single_valued():
        raise OtherValue(f"{stmt.name} reads what its value does not say")
    return Copied(coalesced(read), tuple(constants))


def _taken(stmt: Stmt, left: Sequence[Access], leaf: Read) -> tuple[list[Access], list[Access]]:
    same = [a for a in left if (a.array, a.subscript) == (leaf.array, leaf.indices)]
    if not same:
        raise OtherValue(f"{stmt.name} does not read what its value says")
    return same, [a for a in left if a is not same[0]]


def is_wider(narrow: ElemType, wide: ElemType) -> bool:
    """Whether every value of one number type is a value of the other, which is another one."""
    if narrow.is_float:
        return wide.name in _WIDER.get(narrow.name, ())
    digits = narrow.bits - (narrow.kind == "int")
    if wide.is_float:
        return narrow.is_integer and digits <= _MANTISSA.get(wide.name, 0)
    if narrow.kind == "int" and wide.kind == "uint":
        return False
    both = narrow.is_integer and wide.is_integer
    return both and narrow != wide and digits <= wide.bits - (wide.kind == "int")


_WIDER = {"f16": ("f32", "f64"), "bf16": ("f32", "f64"), "f32": ("f64",)}
_MANTISSA = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}


def _leaves(
    program: Program, stmt: Stmt, value: Expr, points: isl.Set
) -> Iterator[tuple[Expr, isl.Set]]:
    match value:
        case Select(condition, then, other):
            chosen = region(condition, scope_of(program, stmt.name))
            if not chosen.exact:
                raise OtherValue(f"data decide what {stmt.name} copies")
            for arm, part in ((then, chosen.may), (other, chosen.may.complement())):
                here = points.intersect(part)
                if not here.is_empty():
                    yield from _leaves(program, stmt, arm, coalesced(here))
        case _:
            yield value, points


def says_so(program: Program, stmt: Stmt, access: Access) -> bool:
    """Whether the subscript is what the map says, and lies inside the array."""
    if (
        not access.map.range()
        .intersect_params(program.context)
        .is_subset(program.extents[access.array])
    ):
        return False
    where = scope_of(program, stmt.name)
    domain = access.map.domain()
    result = isl.Map.from_domain(domain)
    try:
        for index in access.subscript:
            result = result.flat_range_product(pw_aff(index, where).as_map())
    except NotAffine:
        return not access.exact
    result = result.set_tuple_name(OUT, access.map.get_tuple_name(OUT))
    return bool(result.is_equal(access.map))
