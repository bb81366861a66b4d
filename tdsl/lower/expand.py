"""loops -> vector: copies and lanes written out, values in chunks that fit a register.

before: for k { S at (6 io + ii, 64 jo + ji, k) for ii < 6, ji < 64 (lanes) }
after:  for k { A_0 = splat A[6 io, k]; B_0 = B[k, 64 jo..+16]; C_0 = fma(A_0, B_0, C_0); ... }
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tdsl.ir import loops as ir
from tdsl.ir import vector as v
from tdsl.ir.index import (
    add,
    compare,
    conjunction,
    const,
    constant_difference,
    linear_in,
    simplify,
    sub,
    substitute,
    variables,
)
from tdsl.ir.kernel import Const, Expr, Op, Var
from tdsl.ir.types import BOOL, U8, ElemType
from tdsl.lower.builder import Code, Names, operands, written
from tdsl.lower.lanes import chunks, widest_bytes, widths
from tdsl.lower.memory import Place, stored_type
from tdsl.lower.registers import CannotKeep, Guards, Partial, Register, Scope, shared
from tdsl.lower.values import Numerics, Values, uniform
from tdsl.polyhedral.program import Program, Stmt
from tdsl.targets.target import Target

COMBINE = {"any": "or", "all": "and"}


@dataclass
class Expander:
    """Lowers one function. `frozen`: the buffers that nothing in it writes."""

    program: Program
    places: Mapping[str, Place]
    numerics: Numerics
    target: Target
    frozen: frozenset[str]
    scopes: dict[str, Scope] = field(default_factory=dict)
    guards: Guards = ()  # conditions and non-empty loops around, since the function's start
    tops: dict[str, Code] = field(default_factory=dict)  # scope's array -> its own block

    # ---------------------------------------------------------------- structure

    def function(self, block: ir.Block, taken: frozenset[str]) -> v.Block:
        """The whole body; `taken`: names that variables must not have."""
        code = Code(Names(taken), self.frozen)
        self._block(block, code, frozenset())
        return v.Block(tuple(code.items))

    def _block(self, block: ir.Block, code: Code, known: frozenset[str]) -> None:
        for item in block.items:
            match item:
                case ir.Instance():
                    self._instance(item, code)
                case ir.Block():
                    self._block(item, code, known)
                case ir.For():
                    self._for(item, code, known)
                case ir.If(condition, then, other):
                    self._if(condition, then, other, code, known)
                case ir.Switch(on, cases, default):
                    self._switch(on, cases, default, code, known)
                case ir.Scope():
                    self._scope(item, code, known)

    def _nested(
        self,
        block: ir.Block,
        code: Code,
        known: frozenset[str],
        guards: Guards,
        loop: str | None = None,
    ) -> v.Block:
        inner = code.inside(loop=loop)
        before = self.guards
        self.guards = (*before, *guards)
        self._block(block, inner, known)
        self.guards = before
        code.forget_all(written(inner.items))
        return v.Block(tuple(inner.items))

    def _for(self, loop: ir.For, code: Code, known: frozenset[str]) -> None:
        if loop.mark == "unroll" and self._copies(loop, code, known):
            return
        names = code.names.inside()
        var = names.claim(loop.var)
        body = loop.body if var == loop.var else rename(loop.body, loop.var, Var(var))
        runs = compare("lt", loop.lo, loop.hi)
        inner = self._nested(body, code, known | {var}, (runs,), var)
        code.add(
            v.For(var, loop.lo, loop.hi, inner, loop.step, loop.mark == "parallel", loop.notes)
        )

    def _copies(self, loop: ir.For, code: Code, known: frozenset[str]) -> bool:
        """The body once an iteration, where their number is a constant; else False."""
        most = _most(loop)
        if most is None or most > MOST_COPIES:
            return False
        # Every copy runs where the block is full; else the loop stays a loop.
        full = tuple(compare("ge", sub(end, loop.lo), const(most)) for end in _ends(loop.hi))
        test = conjunction(full)

        def copies(inner: Code) -> None:
            for number in range(0, most, loop.step):
                body = rename(loop.body, loop.var, add(loop.lo, const(number)))
                self._block(body, inner, known)

        if test is None:
            copies(code)
            return True
        then = code.inside()
        before = self.guards
        self.guards = (*before, compare("lt", loop.lo, loop.hi))
        copies(then)
        self.guards = before
        other = code.inside()
        self._for(replace(loop, mark="serial"), other, known)
        code.forget_all(written([*then.items, *other.items]))
        code.add(v.If(test, v.Block(tuple(then.items)), v.Block(tuple(other.items))))
        return True

    def _if(
        self,
        condition: Expr,
        then: ir.Block,
        other: ir.Block | None,
        code: Code,
        known: frozenset[str],
    ) -> None:
        if isinstance(condition, Const):
            chosen = then if condition.value else other
            if chosen is not None:
                self._block(chosen, code, known)
            return
        first = self._nested(then, code, known, (condition,))
        negated = simplify(Op("not", (condition,), BOOL))
        second = None
        if other is not None:
            second = self._nested(other, code, known, (negated,))
        code.add(v.If(condition, first, second))

    def _switch(
        self,
        on: Expr,
        cases: tuple[tuple[int, ir.Block], ...],
        default: ir.Block | None,
        code: Code,
        known: frozenset[str],
    ) -> None:
        blocks = tuple(
            (n, self._nested(b, code, known, (compare("eq", on, const(n)),))) for n, b in cases
        )
        rest = v.Block(())
        if default is not None:
            rest = self._nested(default, code, known, ())
        code.add(v.Switch(on, blocks, rest))

    # ---------------------------------------------------------------- registers

    def _scope(self, item: ir.Scope, code: Code, known: frozenset[str]) -> None:
        if item.array in self.scopes:
            raise CannotKeep(item.array, "a scope inside it already keeps it")
        scope = Scope(item.array, known)
        inner = code.inside(always=True)
        before, self.guards = self.guards, ()
        self.scopes[item.array], self.tops[item.array] = scope, inner
        self._block(item.body, inner, known)
        del self.scopes[item.array], self.tops[item.array]
        self.guards = before
        place = self.places[item.array]
        opening: list[v.Item] = []
        for register in scope.registers.values():
            if register.loaded:
                opening += self._open(register, place)
        for partial in scope.partials.values():
            opening.append(v.Declare(partial.name, partial.type, partial.identity))
        closing = Code(inner.names, self.frozen)
        for partial in scope.partials.values():
            self._join(partial, scope, closing)
        for register in scope.registers.values():
            if register.written is not None:
                self._close(register, place, closing)
        for register in scope.registers.values():
            code.names.release(register.name)
        for partial in scope.partials.values():
            code.names.release(partial.name)
        code.forget_all([item.array, *written(inner.items)])
        code.add(v.Block((*opening, *inner.items, *closing.items)))

    def _open(self, register: Register, place: Place) -> list[v.Item]:
        load: v.Value = v.Load(
            place.array.name, register.offset, register.type, register.stride, register.mask
        )
        test = conjunction(register.guards)
        if test is None:
            return [v.Declare(register.name, register.type, load)]
        zero = v.Const(0.0 if register.type.elem.is_float else 0, register.type)
        assign = v.Block((v.Assign(register.name, load),))
        return [v.Declare(register.name, register.type, zero), v.If(test, assign)]

    def _close(self, register: Register, place: Place, code: Code) -> None:
        store = v.Store(
            place.array.name,
            register.offset,
            v.Ref(register.name, register.type),
            register.stride,
            register.mask,
        )
        test = conjunction(register.written or ())
        code.add(store if test is None else v.If(test, v.Block((store,))))

    def _join(self, partial: Partial, scope: Scope, code: Code) -> None:
        """The element joined with all lanes of a partial result."""
        scalar = v.VType(partial.type.elem)
        register = scope.registers.get((partial.offset, 1))
        if register is None:
            raise AssertionError("a partial result without its element")
        lanes = v.Reduce(partial.op, v.Ref(partial.name, partial.type), scalar)
        op = COMBINE.get(partial.op, partial.op)
        value = v.Op(op, (v.Ref(register.name, scalar), lanes), scalar)
        code.add(v.Assign(register.name, value))

    def _register(self, scope: Scope, offset: Expr, values: Values, *, write: bool) -> Register:
        base, stride = scope.place(offset, values.lanes)
        guards = tuple(g for g in self.guards if variables(g) <= scope.outside)
        register = scope.registers.get((base, values.lanes))
        if register is None:
            top = self.tops[scope.array]
            elem = stored_type(self.places[scope.array].array.type)
            register = Register(
                top.names.reserve(scope.array),
                v.VType(elem, values.lanes),
                base,
                stride,
                values.tail,
                guards,
                loaded=True,
            )
            scope.registers[base, values.lanes] = register
        if register.mask != values.tail or register.stride != stride:
            raise CannotKeep(scope.array, "its elements are used under several masks")
        register.guards = shared(register.guards, guards)
        if write:
            known = register.written
            register.written = guards if known is None else shared(known, guards)
        return register

    # ---------------------------------------------------------------- instances

    def _instance(self, instance: ir.Instance, code: Code) -> None:
        self._dims(instance, instance.dims, {}, _Copy(), code)

    def _dims(
        self,
        instance: ir.Instance,
        dims: tuple[ir.Dim, ...],
        env: dict[str, Expr],
        copy: _Copy,
        code: Code,
    ) -> None:
        if not dims:
            self._guarded(instance, env, copy, code)
            return
        dim, rest = dims[0], dims[1:]
        if dim.mark == "vector":
            if copy.lanes > 1:
                raise AssertionError("two vector loops around one statement")
            for start, lanes in chunks(dim.extent, self._widths(instance, dim)):
                here = add(const(start), Var(v.LANE)) if lanes > 1 else const(start)
                count = None if dim.count is None else sub(dim.count, const(start))
                chunk = replace(copy, lanes=lanes, chunk=copy.chunk * 64 + start)
                if count is not None and lanes > 1:
                    chunk = replace(chunk, count=count)
                elif count is not None:
                    chunk = replace(chunk, tests=(*copy.tests, compare("gt", count, const(0))))
                self._dims(instance, rest, {**env, dim.var: here}, chunk, code)
            return
        for number in range(dim.extent):
            tests = copy.tests
            if dim.count is not None:
                tests = (*tests, compare("gt", dim.count, const(number)))
            self._dims(
                instance, rest, {**env, dim.var: const(number)}, replace(copy, tests=tests), code
            )

    def _widths(self, instance: ir.Instance, dim: ir.Dim) -> tuple[int, ...]:
        stmt = self.program.statements[instance.statement]
        varying = frozenset(i for i, e in instance.index if dim.var in variables(e))
        elem = stored_type(self.program.arrays[stmt.write.array].type)
        return widths(self.target, widest_bytes(stmt, elem.bytes, varying), dim.width)

    def _guarded(
        self, instance: ir.Instance, env: dict[str, Expr], copy: _Copy, code: Code
    ) -> None:
        guard = None
        tests = copy.tests
        if instance.guard is not None:
            guard = simplify(substitute(instance.guard, env))
            if v.LANE not in variables(guard):
                tests, guard = (*tests, guard), None
        tests = tuple(t for t in tests if t != TRUE)
        if any(t == FALSE for t in tests):
            return
        test = conjunction(tests)
        if test is None:
            self._copy(instance, env, copy, guard, code)
            return
        inner = code.inside()
        before = self.guards
        self.guards = (*before, *tests)
        self._copy(instance, env, copy, guard, inner)
        self.guards = before
        code.forget_all(written(inner.items))
        code.add(v.If(test, v.Block(tuple(inner.items))))

    def _copy(
        self,
        instance: ir.Instance,
        env: dict[str, Expr],
        copy: _Copy,
        guard: Expr | None,
        code: Code,
    ) -> None:
        """One chunk of lanes (or one instance) of a statement."""
        stmt = self.program.statements[instance.statement]
        index = {i: simplify(substitute(e, env)) for i, e in instance.index}
        values = Values(self.places, index, copy.lanes, self.numerics, lambda *_: None)
        if copy.count is not None:
            bits = self.program.arrays[stmt.write.array].type.bits
            values = replace(values, tail=values.first_lanes(copy.count, bits))
        values = replace(values, read=lambda a, o, n: self._read(a, o, values))
        origin = v.Origin(stmt.name, tuple(index.values()))
        chosen = None if guard is None else values.condition(guard, None)
        assert stmt.value is not None
        value = values.value(stmt.value, chosen)
        mask = values.both(values.tail, chosen)
        offset = self.places[stmt.write.array].offset(
            [values.here(i) for i in stmt.write.subscript]
        )
        if stmt.is_update and copy.lanes > 1 and _same_for_all_lanes(offset):
            self._reduce(stmt, value, mask, offset, copy, values, code)
            return
        scope = self.scopes.get(stmt.write.array)
        if scope is None:
            new = self._joined(stmt, value, offset, chosen, values)
            self._store(stmt, new, offset, mask, values, origin, code)
            return
        register = self._register(scope, offset, values, write=True)
        self._assign(stmt, register, value, chosen, values, origin, code)

    def _read(self, array: str, offset: Expr, values: Values) -> v.Value | None:
        scope = self.scopes.get(array)
        if scope is None:
            return None
        parts = linear_in(offset, v.LANE)
        if values.lanes > 1 and parts is not None and parts[1] == const(0):
            single = replace(values, lanes=1, tail=None)
            register = self._register(scope, offset, single, write=False)
            register.touched = True
            scalar = v.Ref(register.name, register.type)
            return v.Splat(scalar, values.type(register.type.elem))
        register = self._register(scope, offset, values, write=False)
        register.touched = True
        return v.Ref(register.name, register.type)

    def _joined(
        self, stmt: Stmt, value: v.Value, offset: Expr, mask: v.Value | None, values: Values
    ) -> v.Value:
        """The element's new value."""
        if not stmt.is_update:
            return value
        array = self.places[stmt.write.array].array
        old = values.load(array.name, offset, stored_type(array.type), mask)
        if array.type == BOOL:
            old = values.cast("convert", old, BOOL)
        return values.operation(COMBINE.get(stmt.op, stmt.op), [old, value], array.type)

    def _store(
        self,
        stmt: Stmt,
        value: v.Value,
        offset: Expr,
        mask: v.Value | None,
        values: Values,
        origin: v.Origin,
        code: Code,
    ) -> None:
        array = stmt.write.array
        parts = linear_in(offset, v.LANE)
        if parts is None:
            raise AssertionError(f"{stmt.name} scatters its lanes")
        base, stride = parts
        step = None if values.lanes == 1 or stride == const(1) else stride
        if mask is not None:
            bits = stored_type(self.program.arrays[array].type).bits
            mask = code.bind(values.with_bits(mask, bits))
        bound = code.bind(memory_value(value, values))
        single = uniform(mask)
        if mask is not None and (single is not None or values.lanes == 1):
            store = v.Store(array, base, bound, step, None, origin)
            code.add(v.If(single or mask, v.Block((store,))))
            code.forget(store)
            return
        code.store(v.Store(array, base, bound, step, mask, origin))

    def _assign(
        self,
        stmt: Stmt,
        register: Register,
        value: v.Value,
        chosen: v.Value | None,
        values: Values,
        origin: v.Origin,
        code: Code,
    ) -> None:
        """A write to an element in a register; the first one in straight line declares it."""
        ref = v.Ref(register.name, register.type)
        new = value
        if stmt.is_update:
            elem = self.program.arrays[stmt.write.array].type
            old = values.cast("convert", ref, BOOL) if elem == BOOL else ref
            new = values.operation(COMBINE.get(stmt.op, stmt.op), [old, value], elem)
        new = memory_value(new, values)
        if chosen is not None:
            new = values.choose(chosen, new, ref)
        bound = code.bind(new)
        first, register.touched = not register.touched, True
        if first and code is self.tops[stmt.write.array] and ref.name not in references(bound):
            register.loaded = False
            code.add(v.Declare(register.name, register.type, bound, origin))
            return
        code.add(v.Assign(register.name, bound, origin))

    def _reduce(
        self,
        stmt: Stmt,
        value: v.Value,
        mask: v.Value | None,
        offset: Expr,
        copy: _Copy,
        values: Values,
        code: Code,
    ) -> None:
        """Lanes that all add to one element: partial results in a scope, else joined at once."""
        op = "add" if stmt.op == "sub" else stmt.op
        elem = value.type.elem
        if stmt.op == "sub":
            value = v.Op("neg", (value,), value.type)
        identity = v.Const(identity_of(op, elem), value.type)
        scalar = replace(values, lanes=1, tail=None)
        scope = self.scopes.get(stmt.write.array)
        origin = v.Origin(stmt.name, tuple(values.index.values()))
        if scope is None or elem == BOOL:
            if mask is not None:
                value = values.choose(mask, value, identity)
            total = v.Reduce(op, value, v.VType(elem))
            adds = replace(stmt, op=op)
            if scope is None:
                new = self._joined(adds, total, offset, None, scalar)
                self._store(stmt, new, offset, None, scalar, origin, code)
            else:
                register = self._register(scope, offset, scalar, write=True)
                self._assign(adds, register, total, None, scalar, origin, code)
            return
        register = self._register(scope, offset, scalar, write=True)
        register.touched = True
        partial = scope.partials.get((offset, copy.chunk))
        if partial is None:
            partial = Partial(
                self.tops[scope.array].names.reserve(scope.array),
                value.type,
                op,
                identity,
                offset,
                register.guards,
            )
            scope.partials[offset, copy.chunk] = partial
        ref = v.Ref(partial.name, partial.type)
        new = values.operation(COMBINE.get(op, op), [ref, value], elem)
        if mask is not None:
            new = values.choose(mask, new, ref)
        code.add(v.Assign(partial.name, code.bind(new), origin))


@dataclass(frozen=True)
class _Copy:
    """Where the writing out of dimensions stands."""

    lanes: int = 1
    count: Expr | None = None  # lanes that run, where not all do
    chunk: int = 0
    tests: tuple[Expr, ...] = ()


MOST_COPIES = 256
TRUE = Const(True, BOOL)
FALSE = Const(False, BOOL)


def _same_for_all_lanes(offset: Expr) -> bool:
    parts = linear_in(offset, v.LANE)
    return parts is not None and parts[1] == const(0)


def memory_value(value: v.Value, values: Values) -> v.Value:
    """A value as it lies in memory: masks as bytes."""
    return values.cast("convert", value, U8) if value.type.elem == BOOL else value


def identity_of(op: str, elem: ElemType) -> int | float | bool:
    """What joins with every value of the type without changing it."""
    match op:
        case "add" | "any":
            return 0.0 if elem.is_float else 0
        case "mul" | "all":
            return 1.0 if elem.is_float else 1
    signed = elem.kind == "int"
    if elem.is_float:
        return math.inf if op == "min" else -math.inf
    top = (1 << (elem.bits - 1 if signed else elem.bits)) - 1
    return top if op == "min" else (-top - 1 if signed else 0)


def references(value: v.Value) -> frozenset[str]:
    """Names of the variables that a value reads."""
    if isinstance(value, v.Ref):
        return frozenset([value.name])
    return frozenset(name for arg in operands(value) for name in references(arg))


def _ends(hi: Expr) -> tuple[Expr, ...]:
    """The bounds that an exclusive end is the least of."""
    if isinstance(hi, Op) and hi.op == "min":
        return tuple(end for arg in hi.args for end in _ends(arg))
    return (hi,)


def _most(loop: ir.For) -> int | None:
    """The largest number of iterations, where one of the bounds says a constant."""
    gaps = [constant_difference(end, loop.lo) for end in _ends(loop.hi)]
    known = [gap for gap in gaps if gap is not None]
    return min(known) if known else None


def rename(block: ir.Block, var: str, value: Expr) -> ir.Block:
    """The block with a loop variable replaced by an expression."""
    return ir.Block(tuple(_renamed(item, {var: value}) for item in block.items))


def _renamed(item: ir.Item, env: Mapping[str, Expr]) -> ir.Item:
    def expr(e: Expr) -> Expr:
        return simplify(substitute(e, env))

    def block(b: ir.Block) -> ir.Block:
        return ir.Block(tuple(_renamed(i, env) for i in b.items))

    match item:
        case ir.For():
            return replace(item, lo=expr(item.lo), hi=expr(item.hi), body=block(item.body))
        case ir.If(condition, then, other):
            return ir.If(expr(condition), block(then), None if other is None else block(other))
        case ir.Switch(on, cases, default):
            rest = None if default is None else block(default)
            return ir.Switch(expr(on), tuple((n, block(b)) for n, b in cases), rest)
        case ir.Scope():
            return replace(item, body=block(item.body))
        case ir.Block():
            return block(item)
        case ir.Instance():
            dims = tuple(
                replace(d, count=None if d.count is None else expr(d.count)) for d in item.dims
            )
            index = tuple((name, expr(e)) for name, e in item.index)
            guard = None if item.guard is None else expr(item.guard)
            return replace(item, index=index, dims=dims, guard=guard)
