"""`pack`: names and places of a copy, then the new program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tdsl.ir.index import add, const, scale, simplify, sub
from tdsl.ir.kernel import INDEX, Array, Expr, Op, Var
from tdsl.ir.types import TYPES, ElemType
from tdsl.polyhedral.pack import pack as with_copy
from tdsl.polyhedral.packed import Request
from tdsl.polyhedral.packed_reads import CannotPack, Dim
from tdsl.polyhedral.prepared import const_sizes, in_each_call, why_not_prepared, with_inits
from tdsl.polyhedral.program import Program
from tdsl.polyhedral.stage import path_to
from tdsl.polyhedral.tree import loops_of, statements
from tdsl.schedule.directives import LoopRef, Pack
from tdsl.schedule.fresh import term_of
from tdsl.schedule.hints import closest, listing, refusal
from tdsl.schedule.references import one, statement_names
from tdsl.schedule.replaced import based, rebased
from tdsl.schedule.state import LoopAt, State
from tdsl.syntax import tree as surface
from tdsl.syntax.print_directive import print_directive

MEMORIES = ("stack", "scratch")
MANTISSA = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
WIDER = {"f16": ("f32", "f64"), "bf16": ("f32", "f64"), "f32": ("f64",)}


def pack(state: State, d: Pack, on: Sequence[str]) -> State:
    """A copy of what the body of a loop reads of an array, filled on every iteration."""
    state = based(state)
    program = state.program
    array = _array(program, d)
    owners = on if d.array.statement is None else (d.array.statement,)  # whose loop a bare name is
    at = one(state, d.at, owners) if isinstance(d.at, LoopRef) else None
    readers = _readers(state, d, at)
    if d.memory is not None and d.memory not in MEMORIES:
        raise refusal(
            d.span,
            f"a pack has no memory {d.memory}",
            help=closest(d.memory, MEMORIES, "memories"),
        )
    dims, names = _expressions(d, array) if d.array.dims else _loops(state, d, at, readers)
    if at is not None:
        outside = [x.name for x in path_to(state.tree, at.statement, at.name)]
        names = tuple(_new(name, outside) for name in names)
    prepared = d.at == "prepare"
    if prepared:
        _same_in_every_call(program, d, array)
    request = Request(
        array.name,
        None if at is None else (at.statement, at.name),
        readers,
        dims,
        _name(program, d),
        names,
        _type(d, array),
        d.memory,
        prepared,
        const_sizes(program.kernel) if prepared else None,
        print_directive(d),
        d.span,
    )
    try:
        changed, tree = with_copy(program, state.tree, request)
    except CannotPack as error:
        raise refusal(
            d.span, f"{array.name} cannot be packed at {d.at}: {error}", help=error.help
        ) from None
    if prepared:
        reason = why_not_prepared(changed, changed.prepared)
        if reason is not None:
            raise refusal(d.span, f"{array.name} cannot be packed at prepare: {reason}")
    if at is not None:
        private = {**state.private, request.name: (request.name, at.name)}
        host = (at.statement, at.name, request.note)
        nests = {**state.hosted, request.name: (at.statement, at.name)}
        state = replace(state, private=private, hosts=(*state.hosts, host), hosted=nests)
    return rebased(state, changed, tree, _touched(changed, (*readers, request.name)))


def _same_in_every_call(program: Program, d: Pack, array: Array) -> None:
    """Refuse what differs from call to call before anything is said of sizes."""
    reason = in_each_call(program, array.name, with_inits(program, program.prepared))
    if reason is not None:
        name = _name(program, d)
        raise refusal(d.span, f"{array.name} cannot be packed at prepare: {name} reads {reason}")


def _touched(program: Program, names: Sequence[str]) -> tuple[str, ...]:
    """All that these statements, and what starts them, read and write."""
    used = [s for s in program.statements.values() if s.name in names or s.init_of in names]
    return tuple(
        dict.fromkeys(a for s in used for a in (s.write.array, *(r.array for r in s.reads)))
    )


def _array(program: Program, d: Pack) -> Array:
    name = d.array.array
    if name not in program.arrays:
        raise refusal(
            d.array.span or d.span,
            f"there is no array {name}",
            help=closest(name, program.arrays, "arrays"),
        )
    array = program.arrays[name]
    if array.local is not None:
        outside = f"declare it outside that `for`, with a dimension for {array.local} in front"
        raise refusal(
            d.span,
            f"{name} is another array in each iteration of {array.local}: it is not packed",
            help=outside if term_of(program, name) is None else None,
        )
    return array


def _readers(state: State, d: Pack, at: LoopAt | None) -> tuple[str, ...]:
    """The statements that are to read the copy: those in the body of the loop."""
    program, name = state.program, d.array.array
    inside = statements(at.loop.body if at is not None else state.tree)
    found = [s for s in inside if any(a.array == name for a in program.statements[s].reads)]
    if d.array.statement is not None:
        named = statement_names(program, d.array.statement, d.array.span)
        if len(named) > 1:
            raise refusal(d.span, f"{d.array.statement} may be {listing(named, 'or')}")
        found = [s for s in found if s in named]
    if not found:
        who = d.array.statement or (f"the body of {at}" if at is not None else None)
        reads = f"{who} does not read {name}" if who is not None else f"no statement reads {name}"
        raise refusal(d.span, f"{reads}: there is nothing to pack at {d.at}")
    return tuple(found)


def _name(program: Program, d: Pack) -> str:
    taken = {*program.arrays, *program.statements, *program.params}
    if d.name is not None:
        if d.name in taken:
            raise refusal(d.span, f"there is already something called {d.name}")
        return d.name
    return _new(f"{d.array.array}_pack", tuple(taken))


def _type(d: Pack, array: Array) -> ElemType:
    if d.type is None:
        return array.type
    if d.type not in TYPES:
        raise refusal(
            d.span, f"there is no type {d.type}", help=closest(d.type, TYPES, "element types")
        )
    wanted = TYPES[d.type]
    if not is_exact(array.type, wanted):
        raise refusal(
            d.span,
            f"{wanted} does not hold every {array.type}: {array.name} would change when packed",
            help=f"choose a type that holds every {array.type}, or leave the type out",
        )
    return wanted


def is_exact(source: ElemType, wanted: ElemType) -> bool:
    """Whether every value of one type is one of the other."""
    if source == wanted:
        return True
    if source.is_float:
        return wanted.name in WIDER.get(source.name, ())
    if not source.is_integer:
        return False
    signed = source.kind == "int"
    digits = source.bits - 1 if signed else source.bits
    if wanted.is_float:
        return digits <= MANTISSA[wanted.name]
    if not wanted.is_integer or (signed and wanted.kind == "uint"):
        return False
    return digits <= (wanted.bits - 1 if wanted.kind == "int" else wanted.bits)


# ---------------------------------------------------------------- what it is indexed by


def _loops(
    state: State, d: Pack, at: LoopAt | None, readers: Sequence[str]
) -> tuple[tuple[Dim, ...], tuple[str, ...]]:
    names: list[str] = []
    for e in d.order:
        if not isinstance(e, surface.Name):
            raise refusal(
                e.span or d.span,
                "a pack lists loops, outermost in memory first",
                help=f"expressions want names for the dimensions: pack {d.array.array}[...] at ...",
            )
        names.append(e.id)
    for position, name in enumerate(names):
        if name in names[:position]:
            raise refusal(d.span, f"{name} is listed twice")
    dims = tuple(_loop(state, d, at, readers, n, names) for n in names)
    for position, dim in enumerate(dims):
        for other in dims[:position]:
            for s in readers:
                if dim.loop_of(s) == other.loop_of(s):
                    text = f"{other.loop} and {dim.loop} are one loop of {s}"
                    raise refusal(d.span, text, help=f"leave {dim.loop} out")
    return dims, tuple(names)


def _loop(
    state: State,
    d: Pack,
    at: LoopAt | None,
    readers: Sequence[str],
    name: str,
    listed: Sequence[str],
) -> Dim:
    """`listed`: all loops of the copy. What `unroll by` and `vectorize` split is named by its
    outer loop, unless the inner one is listed beside it: then each is itself."""
    by_reader = {}
    for s in readers:
        around = loops_of(state.tree, s)
        called = name
        if all(x.name != name for x in around):
            called = state.aliases.get((s, name), name)
        outside = around
        inside: tuple[str, ...] = tuple(x.name for x in around)
        if at is not None:
            place = next(k for k, x in enumerate(around) if x is at.loop)
            outside, inside = around[: place + 1], tuple(x.name for x in around[place + 1 :])
            if called in (x.name for x in outside):
                raise refusal(
                    d.span,
                    f"{name} is fixed in {at}: a pack is indexed by loops inside it",
                    help=f"leave {name} out",
                )
        gone = called not in (x.name for x in around)
        if gone and called in state.program.statements[s].indices:
            continue  # a loop that ran once, and was left out: it is the index
        if called not in inside:
            alone = f"; {readers[0]} alone has a copy with `pack {readers[0]}.{d.array.array}`"
            raise refusal(
                d.span,
                f"{s} reads {d.array.array} and has no loop {name}"
                + (f" in {at}" if at is not None else ""),
                help=f"its loops there are {listing(inside)}" + (alone if len(readers) > 1 else ""),
            )
        made = [x for x in around if x.inner_of is not None and x.inner_of.outer == called]
        of_mark = made and made[0].name in (f"{called}_u", f"{called}_v")
        if of_mark and made[0].name not in listed:
            called = made[0].name  # `unroll by` and `vectorize` split the loop that was named
        for statement, outer, inner in state.collapsed:
            if statement == s and called in (outer, inner):
                raise refusal(
                    d.span,
                    f"{name} is collapsed with a loop of symbolic extent: nothing packs through it",
                    help="bind the size of the inner loop",
                )
        if called != name:
            by_reader[s] = called
    return Dim(name, by_reader)


def _expressions(d: Pack, array: Array) -> tuple[tuple[Dim, ...], tuple[str, ...]]:
    indices = []
    for e in d.array.dims:
        if not isinstance(e, surface.Name):
            raise refusal(d.span, f"`pack {array.name}[...]` names the dimensions of {array.name}")
        if e.id in indices:
            raise refusal(d.span, f"two dimensions are both called {e.id}")
        indices.append(e.id)
    if len(indices) != len(array.shape):
        count = len(array.shape)
        raise refusal(d.span, f"{array.name} has {count} dimensions, not {len(indices)}")
    dims: list[Dim] = []
    names: list[str] = []
    for position, e in enumerate(d.order):
        expr = simplify(_index(e, indices, d))
        names.append(_loop_name(e, position, names))
        extent = 0
        match expr:
            case Op("mod", (_, divisor)):
                extent = int(divisor.value)  # type: ignore[union-attr]  # a constant
        dims.append(Dim(None, {}, expr, tuple(indices), extent))
    return tuple(dims), tuple(names)


def _loop_name(e: surface.Expr, position: int, taken: Sequence[str]) -> str:
    """j for j, jo for j // 16, ji for j % 16, else a number."""
    match e:
        case surface.Name(id):
            name = id
        case surface.Binary("//", surface.Name(id), _):
            name = f"{id}o"
        case surface.Binary("%", surface.Name(id), _):
            name = f"{id}i"
        case _:
            name = f"q{position}"
    return _new(name, taken)


def _new(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _index(e: surface.Expr, indices: Sequence[str], d: Pack) -> Expr:
    match e:
        case surface.Number(value, False):
            return const(int(value))
        case surface.Name(id) if id in indices:
            return Var(id)
        case surface.Unary("-", operand):
            return sub(const(0), _index(operand, indices, d))
        case surface.Binary("+", left, right):
            return add(_index(left, indices, d), _index(right, indices, d))
        case surface.Binary("-", left, right):
            return sub(_index(left, indices, d), _index(right, indices, d))
        case surface.Binary("*", surface.Number(value, False), right):
            return scale(int(value), _index(right, indices, d))
        case surface.Binary("*", left, surface.Number(value, False)):
            return scale(int(value), _index(left, indices, d))
        case surface.Binary("//" | "%" as op, left, surface.Number(value, False)) if int(value) > 0:
            word = "floordiv" if op == "//" else "mod"
            return Op(word, (_index(left, indices, d), const(int(value))), INDEX)
    raise refusal(
        e.span or d.span,
        "a pack is indexed by sums of the dimensions, constants, and // and % by constants",
    )
