"""Expressions of the kernel level as values of the vector level, for one chunk of lanes.

A statement's indices are expressions over loop variables and, for the lane inside the chunk,
Var(LANE). An index expression that does not name the lane is one number for all lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, reduce

from tdsl.elementary import is_elementary
from tdsl.ir import kernel as k
from tdsl.ir import vector as v
from tdsl.ir.index import (
    add,
    compare,
    conjunction,
    conjuncts,
    const,
    floor_of,
    in_block,
    linear_in,
    simplify,
    sub,
    substitute,
    variables,
    whole_blocks,
)
from tdsl.ir.types import BOOL, I64, ElemType
from tdsl.lower.identities import (
    fuse,
    is_zero,
    one_of,
    uniform,
    without_one,
    wrap,
    zero_elsewhere,
    zero_of,
)
from tdsl.lower.lanes import is_scalar_work
from tdsl.lower.memory import Place, stored_type


@dataclass(frozen=True)
class Numerics:
    """What the target and the flags allow: one rounding for a * b + c; ordered zeros."""

    fma: bool
    strict: bool


@dataclass(frozen=True)
class Values:
    """Lowers expressions of one copy of a statement.

    index: the statement's indices; lanes: of the chunk; read: gives an element's value where
    it is not simply loaded (registers), else None. decide: whether a condition on loop
    variables and the lane always or never holds here, None where that depends. tail: the lanes
    that run; at least one lane of the whole block does, so what does not depend on the lane may be
    loaded without a test.
    loops: those around of few iterations: the variable, where it begins, how many at most.
    first: lane 0 runs, so that a load from memory of our own needs no mask for the others: nothing
    depends on what they hold. kept: the arrays that have elements in registers here.
    rows: the lanes are so many rows, over Var(ROW), and Var(LANE) is the column; 0: one row.
    """

    places: Mapping[str, Place]
    index: Mapping[str, k.Expr]
    lanes: int
    numerics: Numerics
    read: Callable[[str, k.Expr, v.Value | None], v.Value | None]
    decide: Callable[[k.Expr], bool | None] = lambda _: None
    tail: v.Value | None = None
    loops: tuple[tuple[str, k.Expr, int], ...] = ()
    first: bool = False
    kept: frozenset[str] = frozenset()
    rows: int = 0

    # ---------------------------------------------------------------- types

    def type(self, elem: ElemType) -> v.VType:
        """The type of a value of this chunk."""
        if elem == k.INDEX:
            elem = I64
        return v.VType(elem, self.lanes)

    def mask_type(self, bits: int) -> v.VType:
        return v.VType(BOOL, self.lanes, bits if self.lanes > 1 else 0)

    # ---------------------------------------------------------------- expressions

    def value(self, expr: k.Expr, mask: v.Value | None = None) -> v.Value:
        """The value of an expression; loads touch memory only where `mask` holds."""
        if expr.type == k.INDEX:
            return self.number(expr, mask)
        if self.lanes > 1 and is_scalar_work(expr) and self._same_in_lanes(expr):
            single = uniform(mask)
            if mask is None or single is not None:
                one = replace(self, lanes=1, tail=None).value(expr, single)
                return v.Splat(one, self.type(expr.type))
        match expr:
            case k.Const(value, type):
                return v.Const(value, self.type(type))
            case k.Read(array, subscript, type):
                return self._load(array, subscript, type, mask)
            case k.Cast(mode, arg, type):
                if isinstance(arg, k.Const) and arg.type == k.INDEX and mode == "convert":
                    exact = float(arg.value) if type.is_float else int(arg.value)
                    if not type.is_float:
                        exact = wrap(int(arg.value), type)
                    return v.Const(exact, self.type(type))
                if self.lanes > 1 and arg.type == k.INDEX and self._is_uniform(arg):
                    # int64 lanes may be wider than this chunk's vectors.
                    one = replace(self, lanes=1, tail=None).value(expr)
                    return v.Splat(one, self.type(type))
                return self.cast(mode, self.value(arg, mask), type)
            case k.Select(condition, then, other, type):
                return self._select(condition, then, other, type, mask)
            case k.Op(op, args) if op in k.COMPARISONS and args[0].type == k.INDEX:
                return self.condition(expr, mask)
            case k.Op(op, args, type):
                return self.operation(op, [self.value(a, mask) for a in args], type)
            case k.Var() | k.Size():
                return self.number(expr, mask)

    def operation(self, op: str, args: list[v.Value], type: ElemType) -> v.Value:
        """One operation; a product that is added or subtracted is fused where that is allowed."""
        if len(args) > 2:
            return reduce(lambda left, right: self.operation(op, [left, right], type), args)
        if op in k.COMPARISONS:
            return v.Op(op, tuple(args), self.mask_type(args[0].type.elem.bits))
        if op in k.LOGIC:
            return self._logic(op, args)
        if op == "mul" and type.is_float and (other := without_one(args)) is not None:
            return other
        if op in ("min", "max") and self.numerics.strict and type.is_float:
            op += "_strict"
        if self.numerics.strict and is_elementary(op, type):
            op += "_strict"
        if self.numerics.fma and type.is_float and type.bits > 16 and op in ("add", "sub"):
            fused = fuse(op, args[0], args[1])
            if fused is not None:
                return fused
        return v.Op(op, tuple(args), self.type(type))

    def cast(self, mode: str, arg: v.Value, type: ElemType) -> v.Value:
        """A conversion, from masks to numbers too."""
        if arg.type.elem == BOOL:
            if type == BOOL:
                return arg
            return self.choose(
                arg, v.Const(one_of(type), self.type(type)), v.Const(zero_of(type), self.type(type))
            )
        if type == BOOL:
            zero = v.Const(zero_of(arg.type.elem), arg.type)
            return v.Op("ne", (arg, zero), self.mask_type(arg.type.elem.bits))
        if arg.type.elem == type:
            return arg
        return v.Cast(mode, arg, self.type(type))

    def choose(self, mask: v.Value, then: v.Value, other: v.Value) -> v.Value:
        """then where the mask holds, else other."""
        if then.type.elem == BOOL:
            bits = then.type.bits
            return self._logic(
                "or",
                [
                    self._logic("and", [self.with_bits(mask, bits), then]),
                    self._logic("and", [self._logic("not", [self.with_bits(mask, bits)]), other]),
                ],
            )
        return v.Choose(self.with_bits(mask, then.type.elem.bits), then, other, then.type)

    def with_bits(self, mask: v.Value, bits: int) -> v.Value:
        """The mask for lanes of another width."""
        wanted = self.mask_type(bits)
        if mask.type == wanted:
            return mask
        match mask:
            case v.FirstLanes(count):
                return v.FirstLanes(count, wanted)
            case v.Condition(condition):
                return v.Condition(condition, wanted)
            case v.Const(value):
                return v.Const(value, wanted)
            case v.Op("and" | "or" | "not" as op, args):
                return v.Op(op, tuple(self.with_bits(a, bits) for a in args), wanted)
            case _:
                return v.Cast("convert", mask, wanted)

    def both(self, left: v.Value | None, right: v.Value | None) -> v.Value | None:
        """Both masks, where None is everywhere."""
        if left is None or right is None:
            return right if left is None else left
        return left if left == right else self._logic("and", [left, right])

    def _logic(self, op: str, args: list[v.Value]) -> v.Value:
        if len(args) > 2:
            return reduce(lambda left, right: self._logic(op, [left, right]), args)
        bits = args[0].type.bits
        same = tuple(self.with_bits(a, bits) for a in args)
        return v.Op(op, same, self.mask_type(bits))

    def _select(
        self, condition: k.Expr, then: k.Expr, other: k.Expr, type: ElemType, mask: v.Value | None
    ) -> v.Value:
        chosen = self._chosen(condition, mask)
        if isinstance(chosen, v.Const):
            return self.value(then if chosen.value else other, mask)
        first = self.value(then, self.both(mask, chosen))
        negated = self._logic("not", [chosen])
        second = self.value(other, self.both(mask, negated))
        if is_zero(second) and isinstance(then, k.Read) and zero_elsewhere(first, chosen):
            return first
        return self.choose(chosen, first, second)

    def _chosen(self, condition: k.Expr, mask: v.Value | None) -> v.Value:
        """The condition of a select, without the parts that always hold here."""
        if not is_index_condition(condition) or has_data(condition):
            return self.condition(condition, mask)
        left: list[k.Expr] = []
        for part in conjuncts(self.here(condition)):
            known = self.decide(part)
            if known is None:
                left.append(part)
            elif not known:
                return v.Const(False, self.mask_type(8))
        here = conjunction(tuple(left))
        return self.condition_here(k.Const(True, BOOL) if here is None else here, mask)

    # ---------------------------------------------------------------- indices and conditions

    def here(self, expr: k.Expr) -> k.Expr:
        """An index expression over loop variables and the lane."""
        here = simplify(substitute(expr, self.index))
        for var, lo, count in self.loops:
            here = in_block(here, var, lo, count)
        if self.rows:
            here = whole_blocks(here, v.ROW, self.rows)
        columns = self.lanes // (self.rows or 1)
        return whole_blocks(here, v.LANE, columns) if v.LANE in variables(here) else here

    def _is_uniform(self, expr: k.Expr) -> bool:
        """Whether an index expression is the same in all lanes, and no data."""
        return not has_data(expr) and v.LANE not in variables(self.here(expr))

    def _same_in_lanes(self, expr: k.Expr) -> bool:
        """Whether a value depends on no index that differs between the lanes of the block, and on
        nothing that is in registers."""
        return not any(
            (isinstance(e, k.Var) and v.LANE in variables(self.index.get(e.name, e)))
            or (isinstance(e, k.Read) and e.array in self.kept)
            for e in k.walk(expr)
        )

    def number(self, expr: k.Expr, mask: v.Value | None) -> v.Value:
        """An index expression as int64 lanes."""
        return self._number(self.here(expr), mask)

    def at(self, offset: k.Expr) -> v.Value:
        """An offset over loop variables and data as an int64."""
        return self._number(offset, None)

    def _number(self, here: k.Expr, mask: v.Value | None) -> v.Value:
        type = self.type(I64)
        if not has_data(here):
            parts = linear_in(here, v.LANE)
            if parts is not None and isinstance(parts[1], k.Const):
                return v.Iota(parts[0], int(parts[1].value), type)
        match here:
            case k.Op(op, args):
                numbers = [self._number(a, mask) for a in args]
                if len(numbers) == 1:
                    return v.Op(op, tuple(numbers), type)
                return reduce(lambda left, right: v.Op(op, (left, right), type), numbers)
            case k.Cast(mode, arg):
                return v.Cast(mode, self._data(arg, mask), type)
            case k.Select(condition, then, other):
                chosen = self.condition_here(condition, mask)
                return self.choose(chosen, self._number(then, mask), self._number(other, mask))
            case k.Read(array, subscript, elem):
                return self._load_at(array, subscript, elem, mask)
            case _:
                raise AssertionError(f"an index expression that is no number: {here!r}")

    def _data(self, here: k.Expr, mask: v.Value | None) -> v.Value:
        # Indices are substituted already: names that are left are loop variables.
        return replace(self, index={}).value(here, mask)

    def condition(self, expr: k.Expr, mask: v.Value | None) -> v.Value:
        """A condition as a mask; on indices alone it is decided without data where possible."""
        if is_index_condition(expr):
            return self.condition_here(self.here(expr), mask)
        match expr:
            case k.Op("and" | "or" | "not" as op, args):
                return self._logic(op, [self.condition(a, mask) for a in args])
            case _:
                return self.value(expr, mask)

    def condition_here(self, here: k.Expr, mask: v.Value | None = None) -> v.Value:
        """A condition on loop variables and the lane as a mask."""
        if isinstance(here, k.Const):
            return v.Const(bool(here.value), self.mask_type(8))
        if not has_data(here) and v.LANE not in variables(here):
            return v.Condition(here, self.mask_type(8))
        match here:
            case k.Op("and" | "or" | "not" as op, args):
                return self._logic(op, [self.condition_here(a, mask) for a in args])
            case k.Op(op, (left, right)):
                counted = None if has_data(here) else self._counted(op, left, right)
                if counted is not None:
                    return counted
                sides = (self._number(left, mask), self._number(right, mask))
                return v.Op(op, sides, self.mask_type(64))
            case _:
                raise AssertionError(f"not a condition: {here!r}")

    def _counted(self, op: str, left: k.Expr, right: k.Expr) -> v.Value | None:
        """lane < count, for comparisons of expressions that grow by a constant each lane."""
        parts = linear_in(sub(left, right), v.LANE)
        if parts is None or not isinstance(parts[1], k.Const) or parts[1] == const(0):
            return None
        base, stride = parts[0], int(parts[1].value)
        if stride < 0:
            # base - s * lane op 0  <=>  s * lane - base flipped-op 0
            base, stride = sub(const(0), base), -stride
            op = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(op, op)
        # s * lane + base op 0: the first `below` lanes are less than 0, `upto` at most 0.
        upto = add(floor_of(sub(const(0), base), stride), const(1))
        below = floor_of(sub(const(stride - 1), base), stride)
        match op:
            case "lt":
                return self._first(below)
            case "le":
                return self._first(upto)
            case "ge":
                return self._logic("not", [self._first(below)])
            case "gt":
                return self._logic("not", [self._first(upto)])
        same = self._logic("and", [self._first(upto), self._logic("not", [self._first(below)])])
        return same if op == "eq" else self._logic("not", [same])

    def _first(self, count: k.Expr) -> v.Value:
        return self.first_lanes(count)

    def first_lanes(self, count: k.Expr, bits: int = 8) -> v.Value:
        """The mask of the lanes below `count`."""
        if self.lanes == 1:
            return v.Condition(compare("gt", count, const(0)), self.mask_type(0))
        return v.FirstLanes(count, self.mask_type(bits))

    # ---------------------------------------------------------------- memory

    def _load(
        self, array: str, subscript: tuple[k.Expr, ...], elem: ElemType, mask: v.Value | None
    ) -> v.Value:
        here = tuple(self.here(i) for i in subscript)
        # x[j // 2]: the same in all lanes of a chunk, but not in those of other chunks.
        varies = [v.LANE in variables(substitute(i, self.index)) for i in subscript]
        whole = not any(varies[:-1]) and self._whole(array, here)
        return self._load_at(array, here, elem, mask, moves=any(varies), whole=whole)

    def _whole(self, array: str, here: tuple[k.Expr, ...]) -> bool:
        """Whether all lanes are elements of a row, whichever of them run."""
        shape = self.places[array].array.shape
        parts = linear_in(here[-1], v.LANE) if here else None
        match parts, shape[-1:]:
            case (k.Const(value=int(first)), step), (k.Const(value=int(extent)),):
                return step == const(1) and 0 <= first <= extent - self.lanes
            case _:
                return False

    def _load_at(
        self,
        array: str,
        here: tuple[k.Expr, ...],
        elem: ElemType,
        mask: v.Value | None,
        *,
        moves: bool = False,
        whole: bool = False,
    ) -> v.Value:
        offset = self.places[array].offset(here)
        loaded = self.load(array, offset, stored_type(elem), mask, moves=moves, whole=whole)
        return self.cast("convert", loaded, BOOL) if elem == BOOL else loaded

    def load(
        self,
        array: str,
        offset: k.Expr,
        elem: ElemType,
        mask: v.Value | None,
        *,
        moves: bool = False,
        whole: bool = False,
    ) -> v.Value:
        """The elements at an offset over loop variables and the lane. moves: it differs between
        the chunks of a block, some of which may have no lane that runs. whole: the elements of all
        lanes exist."""
        kept = self.read(array, offset, mask)
        if kept is not None:
            return kept
        entry = self.places[array].entry(offset)
        if entry is not None:
            return v.Const(entry, self.type(elem))
        parts = None if has_data(offset) else linear_in(offset, v.LANE)
        if parts is not None and (parts[1] == const(0) or self.lanes == 1):
            # One element for all lanes; what dead lanes hold asks for none.
            if moves or (mask is not None and uniform(mask) is None):
                mask = self.both(self.tail, mask)
            single = uniform(mask)
            if mask is not None and single is None:
                single = v.Reduce("any", mask, v.VType(BOOL))
            scalar = v.Load(array, parts[0], v.VType(elem), None, single)
            return scalar if self.lanes == 1 else v.Splat(scalar, self.type(elem))
        lanes = self.both(self.tail, mask)
        if lanes is not None:
            lanes = self.with_bits(lanes, elem.bits)
        if parts is None:
            return v.Gather(array, self._number(offset, mask), self.type(elem), lanes)
        base, stride = parts
        step = None if stride == const(1) else stride
        own = self.places[array].array.role in v.OWN
        if own and mask is None and step is None and (self.first or whole):
            lanes = None
        return v.Load(array, base, self.type(elem), step, lanes)


@lru_cache(maxsize=1 << 14)
def has_data(expr: k.Expr) -> bool:
    """Whether an index expression reads an array."""
    return any(isinstance(e, k.Read | k.Cast) for e in k.walk(expr))


def is_index_condition(expr: k.Expr) -> bool:
    """Whether a condition is about indices and sizes alone (and data used as an index)."""
    match expr:
        case k.Const():
            return True
        case k.Op("and" | "or" | "not", args):
            return all(is_index_condition(a) for a in args)
        case k.Op(op, args) if op in k.COMPARISONS:
            return args[0].type == k.INDEX
        case _:
            return False
