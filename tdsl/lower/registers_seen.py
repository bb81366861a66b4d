"""What the variables of one block of the vector level stand for, read off its text.

A register that instances are written to stands for elements of a buffer: those it is stored to
when its scope ends, else those it was loaded from. A partial result stands for the register that
it is joined with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tdsl.ir import vector as v
from tdsl.ir.index import substitute
from tdsl.ir.kernel import Expr
from tdsl.ir.walk_vector import values_in


@dataclass(frozen=True)
class Home:
    """Lane l of a register is the element `offset + stride * l` (stride None: 1)."""

    buffer: str
    offset: Expr
    stride: Expr | None


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
                match value:
                    case v.Reduce(_, v.Ref(name)) if name in declared:
                        result[name] = item.name
                    case _:
                        pass
    return result


def resolved(value: v.Value, lets: Mapping[str, v.Value]) -> Iterator[v.Value]:
    """A value and all below it, through names."""
    for part in values_in(value):
        yield part
        if isinstance(part, v.Ref) and part.name in lets:
            yield from resolved(lets[part.name], lets)


def _straight(block: v.Block) -> Iterator[v.Item]:
    """The items of a block, and those under its conditions."""
    for item in block.items:
        if isinstance(item, v.If):
            yield from _straight(item.then)
        else:
            yield item
