"""Element offsets of straight-line code relative to a few bases.

before: A[6 * io * K + k] ... A[6 * io * K + 5 * K + k]
after:  A_at_0 = 6 * io * K + k; A[A_at_0] ... A[A_at_0 + 5 * K]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tdsl.ir import vector as v
from tdsl.ir.index import add, difference, poly, sub
from tdsl.ir.kernel import Expr, Var
from tdsl.ir.walk_vector import operands, with_blocks
from tdsl.lower.builder import Names, rebuild

SHORT = 2  # an offset of so few terms needs no base


@dataclass
class _Base:
    """An offset that others are near to; `name` once it is written."""

    offset: Expr
    uses: int = 0
    name: str | None = None


Bases = dict[str, list[_Base]]


def relative(block: v.Block, names: Names) -> v.Block:
    """The block with named bases, each before its first use."""
    bases: Bases = {}
    result: list[v.Item] = []
    run: list[v.Item] = []
    for item in block.items:
        if isinstance(item, v.Let | v.LetIndex | v.Declare | v.Assign | v.Store):
            run.append(item)
            continue
        result += _rewritten(run, bases, names)
        run, bases = [], {}
        result.append(_inside(item, names))
    return v.Block((*result, *_rewritten(run, bases, names)))


def _inside(item: v.Item, names: Names) -> v.Item:
    return with_blocks(item, lambda block: relative(block, names.inside()))


def _rewritten(run: list[v.Item], bases: Bases, names: Names) -> list[v.Item]:
    for item in run:
        for buffer, offset in _accesses(item):
            _nearest(bases.setdefault(buffer, []), offset).uses += 1
    result: list[v.Item] = []
    for item in run:
        for buffer, offset in _accesses(item):
            base = _nearest(bases[buffer], offset)
            if base.name is None and base.uses > 1 and len(poly(base.offset)) >= SHORT:
                base.name = names.fresh(f"{buffer}_at")
                result.append(v.LetIndex(base.name, base.offset))
        result.append(_relative(item, bases))
    return result


def _nearest(known: list[_Base], offset: Expr) -> _Base:
    """The base with the simplest distance; a new one where none is much simpler than the offset."""
    best, terms = None, max(2, len(poly(offset)) // 2 + 1)
    for base in known:
        distance = len(difference(offset, base.offset))
        if distance < terms:
            best, terms = base, distance
    if best is None:
        best = _Base(offset)
        known.append(best)
    return best


def _accesses(item: v.Item) -> list[tuple[str, Expr]]:
    found: list[tuple[str, Expr]] = []
    match item:
        case v.Let(_, value) | v.Assign(_, value):
            _loads(value, found)
        case v.Declare(_, _, value) if value is not None:
            _loads(value, found)
        case v.Store(buffer, offset, value):
            _loads(value, found)
            if item.mask is not None:
                _loads(item.mask, found)
            found.append((buffer, offset))
        case _:
            pass
    return found


def _loads(value: v.Value, found: list[tuple[str, Expr]]) -> None:
    if isinstance(value, v.Load):
        found.append((value.buffer, value.offset))
    for arg in operands(value):
        _loads(arg, found)


def _relative(item: v.Item, bases: Bases) -> v.Item:
    def place(buffer: str, offset: Expr) -> Expr:
        base = _nearest(bases[buffer], offset)
        return offset if base.name is None else add(Var(base.name), sub(offset, base.offset))

    def value(old: v.Value) -> v.Value:
        new = rebuild(old, [value(a) for a in operands(old)])
        return (
            replace(new, offset=place(new.buffer, new.offset)) if isinstance(new, v.Load) else new
        )

    match item:
        case v.Let() | v.Assign():
            return replace(item, value=value(item.value))
        case v.Declare() if item.value is not None:
            return replace(item, value=value(item.value))
        case v.Store():
            mask = None if item.mask is None else value(item.mask)
            offset = place(item.buffer, item.offset)
            return replace(item, offset=offset, value=value(item.value), mask=mask)
        case _:
            return item
