"""What the variables of one block of the vector level stand for, read off its text.

A register that instances are written to stands for elements of a buffer: those it is stored to
when its scope ends, else those it was loaded from. A partial result stands for the register that
it is joined with.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from tdsl.ir import vector as v
from tdsl.ir.index import substitute
from tdsl.ir.kernel import Expr
from tdsl.ir.types import BOOL
from tdsl.ir.vector import Home
from tdsl.ir.walk_vector import operands, values_in


def homes(block: v.Block) -> Mapping[str, Home]:
    """The registers declared in a block, with their elements."""
    declared = {item.name for item in block.items if isinstance(item, v.Declare)}
    shared: dict[str, Expr] = {}  # offsets with a name
    found: dict[str, Home] = {}
    loads: dict[str, Home] = {}
    for item in _straight(block):
        match item:
            case v.LetIndex(name, expr):
                shared[name] = substitute(expr, shared)
            case v.Store(buffer, offset, v.Ref(name), stride, _, None) if name in declared:
                found.setdefault(name, _home(buffer, offset, stride, shared))
            case v.Declare(name, _, _, _, v.Home() as home):
                found[name] = _home(home.buffer, home.offset, home.stride, shared)
            case v.Declare(name, _, v.Load() as load, None) | v.Assign(
                name, v.Load() as load, None
            ):
                home = _home(load.buffer, load.offset, load.stride, shared)
                loads.setdefault(name, home)
    return {**{n: h for n, h in loads.items() if n in declared}, **found}


def _home(buffer: str, offset: Expr, stride: Expr | None, shared: Mapping[str, Expr]) -> Home:
    step = None if stride is None else substitute(stride, shared)
    return Home(buffer, substitute(offset, shared), step)


def partials(block: v.Block) -> Mapping[str, str]:
    """The partial results declared in a block, each with the register that it is joined with."""
    declared = {item.name for item in block.items if isinstance(item, v.Declare)}
    lets = {item.name: item.value for item in block.items if isinstance(item, v.Let)}
    result: dict[str, str] = {}
    for item in block.items:
        if isinstance(item, v.Assign) and item.origin is None and item.name in declared:
            for value in resolved(item.value, lets):
                if isinstance(value, v.Reduce):
                    names = joined_parts(value, lets)
                    result.update({n: item.name for n in names if n in declared})
    return result


def joined_parts(reduce: v.Reduce, lets: Mapping[str, v.Value]) -> list[str]:
    """The names of the vectors whose lanes a reduction joins, by its own operation alone; none
    where something else is in between."""
    op = {"any": "or", "all": "and"}.get(reduce.op, reduce.op)

    def below(value: v.Value) -> list[str] | None:
        match _meant(value, lets):
            case v.Ref(name):
                return [name]
            case v.Op(used, args) if used == op:
                found = [below(a) for a in args]
                return None if None in found else [n for part in found for n in part or ()]
            case _:
                return None

    return below(reduce.arg) or []


def resolved(value: v.Value, lets: Mapping[str, v.Value]) -> Iterator[v.Value]:
    """A value and all below it, through names, as often as they are used."""
    for part in values_in(value):
        yield part
        if isinstance(part, v.Ref) and part.name in lets:
            yield from resolved(lets[part.name], lets)


def resolved_once(value: v.Value, lets: Mapping[str, v.Value]) -> Iterator[v.Value]:
    """A value and all below it, through each name once."""
    waiting, seen = [values_in(value)], set[str]()
    while waiting:
        part = next(waiting[-1], None)
        if part is None:
            waiting.pop()
            continue
        yield part
        if isinstance(part, v.Ref) and part.name in lets and part.name not in seen:
            seen.add(part.name)
            waiting.append(values_in(lets[part.name]))


def joined_lanes(
    value: v.Value,
    lets: Mapping[str, v.Value],
    stored: Collection[str],
    seen: set[str] | None = None,
) -> v.Reduce | None:
    """The reduction that joins the lanes of a write with its element; `stored`: the names of
    what other writes wrote, `seen`: names that were looked through."""
    seen = set() if seen is None else seen
    while isinstance(value, v.Ref) and value.name in lets:
        if value.name in seen:
            return None
        seen.add(value.name)
        value = lets[value.name]
    match value:
        case v.Reduce() as reduce:
            return reduce
        case v.Load() | v.Gather():
            return None  # a mask may ask whether any lane runs
        case meant:
            inner = (p for p in operands(meant) if not (isinstance(p, v.Ref) and p.name in stored))
            found = (joined_lanes(p, lets, stored, seen) for p in inner)
            return next((reduce for reduce in found if reduce is not None), None)


def running(value: v.Value, old: v.Value | None, lets: Mapping[str, v.Value]) -> v.Value | None:
    """The lanes of a masked value that run, None if it leaves out none. The others keep the
    `old` value or, with None, have one that changes nothing when lanes are joined."""
    value = _meant(value, lets)
    match value:
        case v.Choose(mask, _, other) if old is None and isinstance(other, v.Const):
            return mask
        case v.Choose(mask, _, other) if old is not None and other == old:
            return mask
        case v.Op("and", (_, mask)) if value.type.elem == BOOL:
            return mask
        case v.Op("or", (_, other)) if value.type.elem == BOOL:
            left_out = _meant(other, lets)
            return left_out.args[0] if isinstance(left_out, v.Op) else None
        case _:
            return None


def _meant(value: v.Value, lets: Mapping[str, v.Value]) -> v.Value:
    """What a name stands for."""
    while isinstance(value, v.Ref) and value.name in lets:
        value = lets[value.name]
    return value


def _straight(block: v.Block) -> Iterator[v.Item]:
    """The items of a block, and those under its conditions."""
    for item in block.items:
        if isinstance(item, v.If):
            yield from _straight(item.then)
        else:
            yield item
