"""A loop whose iterations are full but for the last ones becomes two loops.

before: for i in 0..(N + 15) // 16 { if (N - 16 * i >= 16) { full } else { masked } }
after:  for i in 0..N // 16 { full }   for i in N // 16..(N + 15) // 16 { masked }

Only where the body is one such test on the loop's own variable: no code is written twice.
"""

from __future__ import annotations

from dataclasses import replace

from tdsl.ir import vector as v
from tdsl.ir.index import add, const, constant_difference, linear_in, maximum, minimum, poly, sub
from tdsl.ir.kernel import INDEX, Const, Expr, Op, Size
from tdsl.ir.walk_vector import with_blocks


def partition(block: v.Block) -> v.Block:
    """The block with all such loops in two, and no block that only holds a block."""
    items = block.items
    while len(items) == 1 and isinstance(items[0], v.Block):
        items = items[0].items
    result: list[v.Item] = []
    for item in items:
        result += _partitioned(with_blocks(item, partition))
    return v.Block(tuple(result))


def _partitioned(item: v.Item) -> list[v.Item]:
    match item:
        case v.For(step=1, body=v.Block((v.If(condition, then, other),))) if other is not None:
            end = _end_of(condition, item.var)
            if end is None:
                return [item]
            first, second = end, end
            if not _at_most(end, item.hi):
                first = minimum(end, item.hi)
            if not (item.lo == const(0) and _non_negative(end)):
                second = maximum(end, item.lo)
            return [
                replace(item, hi=first, body=then),
                replace(item, lo=second, body=other, parallel=False, notes=()),
            ]
        case _:
            return [item]


def _end_of(condition: object, var: str) -> Expr | None:
    """The exclusive end of the variable's values that satisfy a condition, if it is one."""
    match condition:
        case Op("and", args):
            ends = [_end_of(arg, var) for arg in args]
            known = [end for end in ends if end is not None]
            return minimum(*known) if len(known) == len(ends) else None
        case Op("ge", (left, right)) if left.type == INDEX:
            parts = linear_in(sub(left, right), var)
            if parts is None or not isinstance(parts[1], Const) or int(parts[1].value) >= 0:
                return None
            step = -int(parts[1].value)
            # base - step * var >= 0
            return _floor(add(parts[0], const(step)), step)
        case _:
            return None


def _floor(value: Expr, divisor: int) -> Expr:
    if isinstance(value, Const):
        return const(int(value.value) // divisor)
    return value if divisor == 1 else Op("floordiv", (value, const(divisor)), INDEX)


def _at_most(left: Expr, right: Expr) -> bool:
    """Whether left <= right for all sizes, as far as the same division shows."""
    match left, right:
        case Op("floordiv", (a, Const(value=p))), Op("floordiv", (b, Const(value=q))) if p == q:
            gap = constant_difference(b, a)
        case _:
            gap = constant_difference(right, left)
    return gap is not None and gap >= 0


def _non_negative(expr: Expr) -> bool:
    match expr:
        case Op("floordiv", (a, Const(value=int(divisor)))) if divisor > 0:
            return _non_negative(a)
        case _:
            terms = poly(expr).items()
            return all(c >= 0 and all(isinstance(a, Size) for a in m) for m, c in terms)
