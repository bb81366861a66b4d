"""The loops level as text, for `tdsl show --stage loops`.

    for io in 0..(M - 1) // 4 + 1
        for k in 0..K
            C(4 * io + ii, j, k)    over unroll ii in 0..4 of which M - 4 * io run

A statement shows the values of its indices, in the order of `--stage program`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from tdsl.ir.loops import Block, Dim, For, If, Instance, Item, Prefetch, Scope, Switch
from tdsl.ir.printer import print_expr

_STEP = "    "
_WORDS = {"serial": "for", "parallel": "parallel for", "unroll": "copies of"}


def print_loops(block: Block) -> str:
    """One loop, test or statement a line, indented by four columns a level."""
    return "\n".join(_block(block, 0)) + "\n"


def _block(block: Block, depth: int) -> Iterator[str]:
    for item in block.items:
        yield from _item(item, depth)


def _item(item: Item, depth: int) -> Iterator[str]:
    pad = _STEP * depth
    match item:
        case For():
            yield pad + _for(item)
            for hint in item.hints:
                yield pad + _STEP + _prefetch(hint)
            yield from _block(item.body, depth + 1)
        case If(condition, then, other):
            yield f"{pad}if {print_expr(condition)}"
            yield from _block(then, depth + 1)
            if other is not None:
                yield f"{pad}else"
                yield from _block(other, depth + 1)
        case Switch(on, cases, default):
            yield f"{pad}switch {print_expr(on)}"
            for value, body in cases:
                yield f"{pad}case {value}"
                yield from _block(body, depth + 1)
            if default is not None:
                yield f"{pad}default"
                yield from _block(default, depth + 1)
        case Scope(array, body):
            yield f"{pad}keep {array} in registers"
            yield from _block(body, depth + 1)
        case Instance():
            yield pad + _instance(item)
        case Block():
            yield from _block(item, depth)
        case _:
            assert_never(item)


def _for(loop: For) -> str:
    words = [_WORDS[loop.mark], loop.var, "in", f"{print_expr(loop.lo)}..{print_expr(loop.hi)}"]
    if loop.step != 1:
        words.append(f"step {loop.step}")
    if loop.by is not None:
        words.append(f"by {loop.by}")
    # Where a name is taken twice on a path, the loop has another one in the C.
    return " ".join(words) + (f"  # {loop.name}" if loop.name != loop.var else "")


def _prefetch(hint: Prefetch) -> str:
    box = (
        f"{print_expr(lo)}..+{print_expr(n)}" for lo, n in zip(hint.lo, hint.extents, strict=True)
    )
    return f"prefetch {hint.array}[{', '.join(box)}]"


def _instance(instance: Instance) -> str:
    index = ", ".join(print_expr(value) for _, value in instance.index)
    text = f"{instance.statement}({index})" if index else instance.statement
    if instance.dims:
        text += "    over " + ", ".join(map(_dim, instance.dims))
    if instance.guard is not None:
        text += f"    if {print_expr(instance.guard)}"
    return text


def _dim(dim: Dim) -> str:
    words = [dim.mark, dim.var, "in", f"0..{dim.extent}"]
    if dim.width is not None:
        words.append(f"by {dim.width}")
    if dim.count is not None:
        words.append(f"of which {print_expr(dim.count)} run")
        if dim.tail:
            words.append(f"(tail {dim.tail})")
    return " ".join(words)
