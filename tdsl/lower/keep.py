"""Scopes: what is loaded before, kept in registers inside, and stored behind."""

from __future__ import annotations

from tdsl.ir import vector as v
from tdsl.ir.index import (
    add,
    compare,
    conjunction,
    conjuncts,
    const,
    constant_difference,
    minimum,
    mul,
    simplify,
    sub,
    variables,
)
from tdsl.ir.kernel import Const, Expr, Op
from tdsl.ir.types import BOOL
from tdsl.ir.walk_vector import items
from tdsl.lower.builder import Code, written
from tdsl.lower.context import Context
from tdsl.lower.memory import Place, stored_type
from tdsl.lower.registers import (
    CannotKeep,
    Partial,
    Register,
    Scope,
    Writer,
    condition,
    either,
)
from tdsl.lower.values import Values

COMBINE = {"any": "or", "all": "and"}  # the operation that joins two values of a reduction


def register_for(
    context: Context,
    array: str,
    offset: Expr,
    values: Values,
    *,
    writer: Writer | None,
    mask: v.Value | None,
) -> Register:
    """The register of the elements at an offset in the scope of their array, for the copy
    that writes it or, with None, for a read. mask: where it does, beside the conditions around."""
    scope, top = context.scopes[array]
    base, stride = scope.place(offset, values.lanes)
    around = tuple(c for guard in context.guards for c in conjuncts(guard))
    guards = tuple(c for c in around if variables(c) <= scope.outside)
    register = scope.registers.get((base, values.lanes))
    elem = stored_type(context.places[array].array.type)
    tail = None if values.tail is None else values.with_bits(values.tail, elem.bits)
    if register is None:
        type = v.VType(elem, values.lanes)
        name = top.names.reserve(array)
        register = Register(name, type, base, stride, tail, loaded=True)
        scope.registers[base, values.lanes] = register
    same = scope.private or register.mask == tail  # dead lanes of what is private go nowhere
    if not same or register.stride != stride:
        raise CannotKeep(array, "its elements are used under several masks")
    register.used = either(register.used, guards)
    register.masked |= mask is not None
    if mask is None and guards == around:
        register.whole = either(register.whole, guards)
    if writer is not None:
        register.written = either(register.written, guards)
        register.writers |= {writer}
    return register


def part_for(context: Context, array: str, offset: Expr, lanes: int) -> v.Part | None:
    """Lanes of a wider register of what is in no memory, for a read of elements there; None where
    no such register has been written."""
    scope, _ = context.scopes[array]
    base, stride = scope.place(offset, lanes)
    if not scope.private or stride is not None or (base, lanes) in scope.registers:
        return None
    for register in scope.registers.values():
        gap = constant_difference(base, register.offset)
        if gap is None or register.stride is not None or not register.written or gap % lanes:
            continue
        if 0 <= gap <= register.type.lanes - lanes:
            register.touched = True
            ref = v.Ref(register.name, register.type)
            return v.Part(ref, gap, v.VType(register.type.elem, lanes))
    return None


def partial_for(
    context: Context, array: str, key: tuple[Expr, int, int], op: str, identity: v.Const
) -> Partial:
    """The lanes that collect a reduction into one element; `key`: (offset, chunk, lanes)."""
    scope, top = context.scopes[array]
    if scope.private:
        raise CannotKeep(array, "lanes hold partial results until its loops end")
    partial = scope.partials.get(key)
    if partial is None:
        partial = Partial(top.names.reserve(array), identity.type, op, identity, key[0])
        scope.partials[key] = partial
    return partial


def close(context: Context, scope: Scope, inner: Code, code: Code) -> None:
    """Adds the finished scope to the code around it."""
    scope.refuse_shared()
    if scope.private:
        _close_private(context, scope, inner, code)
        return
    scope.refuse_partial()
    place = context.places[scope.array]
    opening: list[v.Item] = []
    for register in scope.registers.values():
        if register.loaded:
            opening += _opening(register, place)
    for partial in scope.partials.values():
        opening.append(v.Declare(partial.name, partial.type, partial.identity))
    closing: list[v.Item] = _joined(scope)
    closing += [_store(r, place) for r in scope.registers.values() if r.written]
    for register in scope.registers.values():
        code.names.release(register.name)
    for partial in scope.partials.values():
        code.names.release(partial.name)
    code.forget_all([scope.array, *written(inner.items)])
    code.add(v.Block((*opening, *inner.items, *closing)))


def home_of(scope: Scope, register: Register) -> v.Home | None:
    """The elements of a register that no memory holds."""
    return v.Home(scope.array, register.offset, register.stride) if scope.private else None


def _within_budget(context: Context, scope: Scope, inner: Code) -> None:
    """Raises CannotKeep for a tile that leaves no register for its operands while a loop runs. In
    straight-line code the C compiler orders values so that few of them live at once."""
    if not any(isinstance(item, v.For) for item in items(v.Block(tuple(inner.items)))):
        return
    have = context.target.registers
    need = sum(r.type.lanes > 1 for r in scope.registers.values())
    if have and need > have - 2:
        # A tile of rows by vectors, the vectors of one operand and a value of the other.
        fits = [f"{(have - 1 - n) // n} x {n}" for n in (1, 2, 3, 4)]
        raise CannotKeep(
            scope.array,
            f"it takes {need} of the {have} vector registers of {context.target.name}, and its "
            f"operands need some; tiles that fit, rows by vectors: {', '.join(fits)}",
        )


def _close_private(context: Context, scope: Scope, inner: Code, code: Code) -> None:
    _within_budget(context, scope, inner)
    opening: list[v.Item] = []
    for register in scope.registers.values():
        code.names.release(register.name)
        if register.loaded:
            zero = v.Const(0.0 if register.type.elem.is_float else 0, register.type)
            home = home_of(scope, register)
            opening.append(v.Declare(register.name, register.type, zero, None, home))
    code.forget_all([scope.array, *written(inner.items)])
    code.add(v.Block((*opening, *inner.items)))


def _opening(register: Register, place: Place) -> list[v.Item]:
    load = v.Load(place.array.name, register.offset, register.type, register.stride, register.mask)
    test = condition(register.used)
    if not register.surely:
        inside = _inside(register, place)
        test = inside if test is None else simplify(Op("and", (test, inside), BOOL))
    if test is None:
        return [v.Declare(register.name, register.type, load)]
    zero = v.Const(0.0 if register.type.elem.is_float else 0, register.type)
    assign = v.Block((v.Assign(register.name, load),))
    return [v.Declare(register.name, register.type, zero), v.If(test, assign)]


def _inside(register: Register, place: Place) -> Expr:
    """Whether all elements of a register lie in memory, those of lanes that run."""
    stride = const(1) if register.stride is None else register.stride
    lanes: Expr = const(register.type.lanes - 1)
    if isinstance(register.mask, v.FirstLanes):
        lanes = minimum(lanes, sub(register.mask.count, const(1)))
    last = add(register.offset, mul(stride, lanes))
    count = mul(const(1), *place.array.shape)
    tests = [
        test
        for end in dict.fromkeys((register.offset, last))
        for test in (compare("ge", end, const(0)), compare("lt", end, count))
    ]
    found = conjunction(tuple(tests))
    return Const(True, BOOL) if found is None else found


def _store(register: Register, place: Place) -> v.Item:
    value = v.Ref(register.name, register.type)
    store = v.Store(place.array.name, register.offset, value, register.stride, register.mask)
    test = condition(register.written)
    return store if test is None else v.If(test, v.Block((store,)))


def _joined(scope: Scope) -> list[v.Item]:
    """Each element joined with its partial results: those of one width first lane by lane and in
    pairs, as none waits for another then, and the lanes of what is left once."""
    alike: dict[tuple[Expr, v.VType, str], list[v.Value]] = {}
    for partial in scope.partials.values():
        ref = v.Ref(partial.name, partial.type)
        alike.setdefault((partial.offset, partial.type, partial.op), []).append(ref)
    found: list[v.Item] = []
    for (offset, type, op), parts in alike.items():
        combine, scalar = COMBINE.get(op, op), v.VType(type.elem)
        register = scope.registers[offset, 1]
        lanes = v.Reduce(op, _in_pairs(combine, parts), scalar)
        joined = v.Op(combine, (v.Ref(register.name, scalar), lanes), scalar)
        found.append(v.Assign(register.name, joined))
    return found


def _in_pairs(op: str, parts: list[v.Value]) -> v.Value:
    """All of them by one operation: neighbours first."""
    while len(parts) > 1:
        pairs = [parts[n : n + 2] for n in range(0, len(parts), 2)]
        parts = [v.Op(op, tuple(p), p[0].type) if len(p) == 2 else p[0] for p in pairs]
    return parts[0]
