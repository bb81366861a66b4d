"""One copy of a statement: a chunk of lanes, or one instance, as values and a write."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tdsl.diagnostics import IllegalSchedule
from tdsl.ir import loops as ir
from tdsl.ir import vector as v
from tdsl.ir.index import compare, const, linear_in, simplify, substitute, variables
from tdsl.ir.kernel import Expr, Var
from tdsl.ir.types import BOOL, I64, U8, ElemType
from tdsl.ir.walk_vector import operands
from tdsl.lower.builder import Code
from tdsl.lower.context import Context
from tdsl.lower.dots import Terms, dot_value
from tdsl.lower.identities import uniform
from tdsl.lower.keep import COMBINE, home_of, part_for, partial_for, register_for
from tdsl.lower.memory import stored_type
from tdsl.lower.registers import Register, Writer
from tdsl.lower.tiles import Tile, tile_value
from tdsl.lower.values import Values, has_data
from tdsl.polyhedral.known import has_choice, range_facts
from tdsl.polyhedral.packed_reads import read_alone
from tdsl.polyhedral.program import Stmt


@dataclass(frozen=True)
class Copy:
    """Where the writing out of dimensions stands: the lanes of the chunk, how many of them run
    (None: all), the chunk's place in its block, conditions that are to be tested, and the terms
    that an instruction adds in each lane. tile: the lanes are rows and columns."""

    lanes: int = 1
    count: Expr | None = None
    chunk: int = 0
    tests: tuple[Expr, ...] = ()
    terms: Terms | None = None
    tile: Tile | None = None


def write_copy(
    context: Context,
    instance: ir.Instance,
    env: Mapping[str, Expr],
    copy: Copy,
    guard: Expr | None,
    code: Code,
) -> None:
    """Adds one copy. `guard`: a condition that differs between lanes."""
    stmt = context.program.statements[instance.statement]
    if instance.decided and stmt.value is not None:
        stmt = replace(stmt, value=read_alone(stmt.value))
    index = {i: simplify(substitute(e, env)) for i, e in instance.index}
    for i, expr in index.items():
        if has_choice(expr):
            index[i] = simplify(context.known.shorter(expr, context.facts))
    values = Values(
        context.places, index, copy.lanes, context.numerics, lambda *_: None,
        decide(context, copy), loops=context.loops,
    )  # fmt: skip
    if copy.tile is not None:
        bits = stored_type(context.program.arrays[stmt.write.array].type).bits
        values = replace(values, rows=copy.tile.rows, tail=copy.tile.mask(bits))
    if copy.count is not None:
        bits = context.program.arrays[stmt.write.array].type.bits
        first = copy.chunk == 0 and guard is None
        values = replace(values, tail=values.first_lanes(copy.count, bits), first=first)
    if guard is not None and len(instance.dims) == 1:
        # Some lane of the block runs, as under a count.
        values = replace(values, tail=values.both(values.tail, values.condition_here(guard)))
        guard = None
    kept = frozenset(context.scopes)
    values = replace(values, read=lambda a, o, m: _kept(context, a, o, m, values), kept=kept)
    _Write(context, stmt, values, copy, code, (stmt.name, instance.index)).run(guard)


def decide(context: Context, copy: Copy) -> Callable[[Expr], bool | None]:
    """Whether a condition holds in all lanes of a copy that run, or in none."""
    facts = context.facts
    if copy.lanes > 1:
        facts = (*facts, *range_facts(v.LANE, const(0), const(copy.lanes)))
        # Some lane of the first chunk runs. Of others none may, and what they load for all lanes
        # is loaded all the same: nothing may be known of it there.
        if copy.count is not None and copy.chunk == 0:
            facts = (*facts, compare("lt", Var(v.LANE), copy.count))
    return lambda condition: context.known.decide(condition, facts)


@dataclass(frozen=True)
class _Write:
    context: Context
    stmt: Stmt
    values: Values
    copy: Copy
    code: Code
    writer: Writer
    masked: bool = False  # lanes that do not run are left out of the value

    def run(self, guard: Expr | None) -> None:
        stmt, values = self.stmt, self.values
        assert stmt.value is not None
        chosen = None if guard is None else values.condition_here(guard)
        terms = self.copy.terms
        if terms is None:
            value = values.value(stmt.value, chosen)
        elif self.copy.tile is not None:
            value = tile_value(self.context, stmt, values, self.copy.tile, terms)
        else:
            value = dot_value(self.context, stmt, values, terms, self.copy.count)
        array = stmt.write.array
        subscript = [values.here(i) for i in stmt.write.subscript]
        offset = self.context.places[array].offset(subscript)
        if self.copy.tile is not None:
            offset = self.copy.tile.offset(stmt, offset)
        if has_data(offset):
            self._scatter(value, offset)
        elif stmt.is_update and values.lanes > 1 and _one_element(offset):
            self._reduce(value, chosen, offset)
        elif self.context.scope(array) is None:
            self._store(self._joined(value, offset, chosen), offset, chosen)
        else:
            context, writer = self.context, self.writer
            register = register_for(context, array, offset, values, writer=writer, mask=chosen)
            self._assign(register, value, chosen)

    def _scatter(self, value: v.Value, offset: Expr) -> None:
        """An update of the element that data choose."""
        array, stmt = self.stmt.write.array, self.stmt
        if self.values.lanes > 1:
            raise IllegalSchedule.at(
                stmt.span,
                f"data choose the elements of {array} that {stmt.name} updates: lanes cannot",
                help="leave its loops without `vectorize`",
            )
        at = v.Ref(self.code.names.fresh(f"{array}_at"), self.values.type(I64))
        self.code.add(v.Let(at.name, self.code.bind(self.values.at(offset))))
        old = v.Gather(array, at, self.values.type(stored_type(self._elem)))
        new = self.code.bind(memory_value(self._join(old, value), self.values))
        self.code.scatter(v.Scatter(array, at, new, self._origin))

    @property
    def _elem(self) -> ElemType:
        return self.context.program.arrays[self.stmt.write.array].type

    @property
    def _origin(self) -> v.Origin:
        index, terms = tuple(self.values.index.values()), self.copy.terms
        if self.copy.tile is not None:
            index = tuple(map(self.copy.tile.of_lanes, index))
        if terms is None:
            return v.Origin(self.stmt.name, index, self.masked)
        count = terms.count if terms.overrun else None
        return v.Origin(self.stmt.name, index, self.masked, terms.group, count=count)

    def _join(self, old: v.Value, value: v.Value) -> v.Value:
        """The old element, as it lies in memory, joined with a value."""
        if isinstance(value, v.Dot):
            return replace(value, acc=old)
        if self._elem == BOOL:
            old = self.values.cast("convert", old, BOOL)
        op = COMBINE.get(self.stmt.op, self.stmt.op)
        return self.values.operation(op, [old, value], self._elem)

    def _joined(self, value: v.Value, offset: Expr, mask: v.Value | None) -> v.Value:
        """The element's new value, where elements are in memory."""
        if not self.stmt.is_update:
            return value
        array = self.stmt.write.array
        return self._join(self.values.load(array, offset, stored_type(self._elem), mask), value)

    def _store(self, value: v.Value, offset: Expr, chosen: v.Value | None) -> None:
        values, array = self.values, self.stmt.write.array
        parts = linear_in(offset, v.LANE)
        if parts is None:
            raise IllegalSchedule.at(
                self.stmt.span,
                f"the lanes of {self.stmt.name} would go to elements of {array} that are no fixed "
                "distance apart",
                help="vectorize a loop whose index is a subscript by itself or times a constant",
            )
        base, stride = parts
        step = None if values.lanes == 1 or stride == const(1) else stride
        mask = values.both(values.tail, chosen)
        bound = self.code.bind(memory_value(value, values))
        if mask is None:
            self.code.store(v.Store(array, base, bound, step, None, self._origin))
            return
        mask = self.code.bind(values.with_bits(mask, stored_type(self._elem).bits))
        single = mask if values.lanes == 1 else uniform(mask)
        if single is None:
            self.code.store(v.Store(array, base, bound, step, mask, self._origin))
            return
        store = v.Store(array, base, bound, step, None, self._origin)
        self.code.add(v.If(single, v.Block((store,))))
        self.code.forget(store)

    def _assign(self, register: Register, value: v.Value, chosen: v.Value | None) -> None:
        """A write to an element in a register; the first one in straight line declares it."""
        ref = v.Ref(register.name, register.type)
        new = self._join(ref, value) if self.stmt.is_update else value
        new = memory_value(new, self.values)
        origin = self._origin
        if chosen is not None:
            new, origin = self.values.choose(chosen, new, ref), replace(origin, masked=True)
        bound = self.code.bind(new)
        first, register.touched = not register.touched, True
        scope, top = self.context.scopes[self.stmt.write.array]
        if scope.private:
            origin = replace(origin, lanes=self.values.tail)
        if first and self.code is top and ref.name not in references(bound):
            register.loaded = False
            home = home_of(scope, register)
            self.code.add(v.Declare(register.name, register.type, bound, origin, home))
        else:
            self.code.add(v.Assign(register.name, bound, origin))

    def _reduce(self, value: v.Value, chosen: v.Value | None, offset: Expr) -> None:
        """Lanes that all go into one element: partial results in a scope, else joined at once."""
        context, array = self.context, self.stmt.write.array
        mask = self.values.both(self.values.tail, chosen)
        writer = self.writer
        op, elem = self.stmt.op, value.type.elem
        if op == "sub":
            op, value = "add", v.Op("neg", (value,), value.type)
        identity = v.Const(identity_of(op, elem), value.type)
        scalar = replace(self.values, lanes=1, tail=None)
        kept = context.scope(array) is not None
        if kept and elem != BOOL:
            register_for(context, array, offset, scalar, writer=writer, mask=chosen).touched = True
            key = (offset, self.copy.chunk, self.values.lanes)
            partial = partial_for(context, array, key, op, identity)
            ref = v.Ref(partial.name, partial.type)
            if isinstance(value, v.Dot):
                new: v.Value = replace(value, acc=ref)
            else:
                new = self.values.operation(COMBINE.get(op, op), [ref, value], elem)
            if mask is not None:
                new = self.values.choose(mask, new, ref)
            origin = replace(self._origin, masked=mask is not None)
            self.code.add(v.Assign(partial.name, self.code.bind(new), origin))
            return
        if mask is not None:
            value = self._left_out(mask, value, identity)
        total = v.Reduce(op, value, v.VType(elem))
        single = replace(
            self, stmt=replace(self.stmt, op=op), values=scalar, masked=mask is not None
        )
        # The origin keeps all lanes: they are what is written.
        if kept:
            register = register_for(context, array, offset, scalar, writer=writer, mask=chosen)
            single._assign(register, total, None)
        else:
            some = self._some_lane(chosen)
            single._store(single._joined(total, offset, some), offset, some)

    def _some_lane(self, chosen: v.Value | None) -> v.Value | None:
        """Whether any lane runs; None where one does, or the element exists in any case."""
        index = self.values.index
        subscript = [substitute(i, index) for i in self.stmt.write.subscript]
        moves = any(v.LANE in variables(i) for i in subscript)  # between chunks of a block
        mask = self.values.both(self.values.tail, chosen) if moves else chosen
        if mask is None:
            return None
        single = uniform(mask)
        return v.Reduce("any", mask, v.VType(BOOL)) if single is None else single

    def _left_out(self, mask: v.Value, value: v.Value, identity: v.Value) -> v.Value:
        """The value in lanes that run, what changes nothing in the others."""
        if value.type.elem == BOOL and self.stmt.op in ("any", "all"):
            mask = self.values.with_bits(mask, value.type.bits)
            op, other = ("and", mask) if self.stmt.op == "any" else ("or", negated(mask))
            return v.Op(op, (value, other), value.type)
        return self.values.choose(mask, value, identity)


def _kept(
    context: Context, array: str, offset: Expr, mask: v.Value | None, values: Values
) -> v.Value | None:
    """An element that is in a register, or None. mask: where it is read."""
    if context.scope(array) is None:
        return None
    if values.lanes > 1 and _one_element(offset):
        single = replace(values, lanes=1, tail=None)
        if (one := part_for(context, array, offset, 1)) is not None:
            return v.Splat(one, values.type(one.type.elem))
        register = register_for(context, array, offset, single, writer=None, mask=mask)
        register.touched = True
        scalar = v.Ref(register.name, register.type)
        return v.Splat(scalar, values.type(register.type.elem))
    if (part := part_for(context, array, offset, values.lanes)) is not None:
        return part
    register = register_for(context, array, offset, values, writer=None, mask=mask)
    register.touched = True
    return v.Ref(register.name, register.type)


def _one_element(offset: Expr) -> bool:
    """Whether an offset is the same for all lanes."""
    parts = linear_in(offset, v.LANE)
    return parts is not None and parts[1] == const(0)


def memory_value(value: v.Value, values: Values) -> v.Value:
    """A value as it lies in memory: masks as bytes."""
    return values.cast("convert", value, U8) if value.type.elem == BOOL else value


def negated(mask: v.Value) -> v.Value:
    """The other lanes."""
    return v.Op("not", (mask,), mask.type)


def identity_of(op: str, elem: ElemType) -> int | float | bool:
    """What joins with every value of the type without changing it."""
    match op:
        case "add" | "any":
            return 0.0 if elem.is_float else 0
        case "mul" | "all":
            return 1.0 if elem.is_float else 1
    if elem.is_float:
        return math.inf if op == "min" else -math.inf
    signed = elem.kind == "int"
    top = (1 << (elem.bits - 1 if signed else elem.bits)) - 1
    return top if op == "min" else (-top - 1 if signed else 0)


def references(value: v.Value) -> frozenset[str]:
    """Names of the variables that a value reads."""
    if isinstance(value, v.Ref):
        return frozenset([value.name])
    return frozenset(name for arg in operands(value) for name in references(arg))
