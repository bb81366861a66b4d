"""The vector level as text: one item a line, types behind names."""

from __future__ import annotations

from typing import assert_never

from tdsl.ir.kernel import Cast as IndexCast
from tdsl.ir.kernel import Const as IndexConst
from tdsl.ir.kernel import Expr, Read, Select, Size, Var
from tdsl.ir.kernel import Op as IndexOp
from tdsl.ir.vector import (
    Assign,
    Block,
    Buffer,
    Cast,
    Choose,
    Column,
    Comment,
    Condition,
    Const,
    Declare,
    Dot,
    Fence,
    FirstLanes,
    For,
    Function,
    Gather,
    If,
    Iota,
    Item,
    Join,
    Let,
    LetIndex,
    Load,
    Misaligned,
    Op,
    Part,
    Prefetch,
    Reduce,
    Ref,
    Repeat,
    Scatter,
    Slide,
    Splat,
    Store,
    Switch,
    Value,
)
from tdsl.ir.walk_vector import VALUES

_INFIX = {
    "add": ("+", 4), "sub": ("-", 4), "mul": ("*", 5), "floordiv": ("//", 5), "mod": ("%", 5),
    "eq": ("==", 3), "ne": ("!=", 3), "lt": ("<", 3), "le": ("<=", 3), "gt": (">", 3),
    "ge": (">=", 3), "and": ("and", 2), "or": ("or", 1),
}  # fmt: skip


def print_function(function: Function) -> str:
    """Readable text of one function."""
    lines = [f"# {line}" for note in function.notes for line in note.split("\n")]
    lines.append(f"function {function.name}({', '.join(function.sizes)})")
    lines += [f"  {_buffer(b)}" for b in function.buffers]
    lines += [f"  assume {_index(a)}" for a in function.assumptions]
    if function.prepare is not None:
        lines += ["  prepare", *_block(function.prepare, 2)]
    return "\n".join([*lines, *_block(function.body, 1)]) + "\n"


def _buffer(buffer: Buffer) -> str:
    shape = f"[{', '.join(map(_index, buffer.shape))}]" if buffer.shape else ""
    align = f" align {buffer.align}" if buffer.align else ""
    strides = ""
    if buffer.strides is not None:
        strides = ", ".join(s if isinstance(s, str) else _index(s) for s in buffer.strides)
        strides = f" strides [{strides}]"
    own = " per thread" if buffer.per_thread else ""
    return f"{buffer.role} {buffer.name}: {buffer.elem}{shape}{strides}{align}{own}"


def _block(block: Block, depth: int) -> list[str]:
    return [line for item in block.items for line in _item(item, depth)]


def _item(item: Item, depth: int) -> list[str]:
    pad = "  " * depth
    match item:
        case Let(name, value):
            return [f"{pad}{name}: {value.type} = {_value(value)}"]
        case LetIndex(name, expr):
            return [f"{pad}{name} = {_index(expr)}"]
        case Declare(name, type, value):
            start = "" if value is None else f" = {_value(value)}"
            return [f"{pad}var {name}: {type}{start}"]
        case Assign(name, value):
            return [f"{pad}{name} := {_value(value)}"]
        case Store():
            place = _place(item.buffer, item.offset, item.stride)
            stream = "stream " if item.stream else ""
            return [f"{pad}{stream}{place} = {_value(item.value)}{_masked(item.mask)}"]
        case Scatter(buffer, offset, value):
            return [f"{pad}{buffer}[{_value(offset)}] = {_value(value)}"]
        case Misaligned(name, buffer, offset, bytes):
            return [f"{pad}{name} = {buffer}[{_index(offset)}] misaligned to {bytes}"]
        case Prefetch(buffer, offset, count):
            verb = "prefetch to write" if item.write else "prefetch"
            return [f"{pad}{verb} {_index(count)} of {buffer}[{_index(offset)}]"]
        case Fence():
            return [f"{pad}fence"]
        case For():
            step = "" if item.step == 1 else f" step {item.step}"
            parallel = "parallel " if item.parallel else ""
            parallel = "fenced " + parallel if item.fence else parallel
            head = f"{pad}{parallel}for {item.var} in {_index(item.lo)}..{_index(item.hi)}{step}"
            notes = [f"{pad}# {line}" for note in item.notes for line in note.split("\n")]
            return [*notes, head, *_block(item.body, depth + 1)]
        case If(condition, then, other):
            text = _value(condition) if isinstance(condition, VALUES) else _index(condition)
            lines = [f"{pad}if {text}", *_block(then, depth + 1)]
            return lines if other is None else [*lines, f"{pad}else", *_block(other, depth + 1)]
        case Switch(on, cases, default):
            lines = [f"{pad}switch {_index(on)}"]
            for number, block in cases:
                lines += [f"{pad}case {number}", *_block(block, depth + 1)]
            return [*lines, f"{pad}default", *_block(default, depth + 1)]
        case Comment(text):
            return [f"{pad}# {line}" for line in text.split("\n")]
        case Block():
            return [f"{pad}block", *_block(item, depth + 1)]
        case _:
            assert_never(item)


def _place(buffer: str, offset: Expr, stride: Expr | None) -> str:
    by = "" if stride is None else f" by {_index(stride)}"
    return f"{buffer}[{_index(offset)}{by}]"


def _masked(mask: Value | None) -> str:
    return "" if mask is None else f" where {_value(mask)}"


def _value(value: Value) -> str:
    match value:
        case Const(number, type):
            return f"{number}:{type}"
        case Ref(name):
            return name
        case Iota(base, step):
            return f"iota({_index(base)}, {step})"
        case Splat(arg):
            return f"splat({_value(arg)})"
        case Load(buffer, offset, type, stride, mask):
            return f"({_place(buffer, offset, stride)}:{type}{_masked(mask)})"
        case Gather(buffer, offset, type, mask):
            return f"({buffer}[{_value(offset)}]:{type}{_masked(mask)})"
        case Op(op, args):
            return f"{op}({', '.join(map(_value, args))})"
        case Cast(mode, arg, type):
            return f"{mode}<{type}>({_value(arg)})"
        case Choose(mask, then, other):
            return f"choose({_value(mask)}, {_value(then)}, {_value(other)})"
        case FirstLanes(count):
            return f"first({_index(count)})"
        case Condition(condition):
            return f"condition({_index(condition)})"
        case Reduce(op, arg):
            return f"reduce_{op}({_value(arg)})"
        case Repeat(arg):
            return f"repeat({_value(arg)})"
        case Join(low, high):
            return f"join({_value(low)}, {_value(high)})"
        case Slide(low, high, start):
            return f"slide({_value(low)}, {_value(high)}, {start})"
        case Part(arg, start, type):
            return f"lanes({start}..{start + type.lanes}, {_value(arg)})"
        case Dot(acc, first, second, _, columns):
            name = f"dot_{columns}" if columns else "dot"
            return f"{name}({_value(acc)}, {_value(first)}, {_value(second)})"
        case Column(rows, lane):
            return f"column({lane}, {', '.join(map(_value, rows))})"
        case _:
            assert_never(value)


def _index(expr: Expr) -> str:
    return _index_at(expr, 0)


def _index_at(expr: Expr, level: int) -> str:
    match expr:
        case IndexConst(value):
            return str(value)
        case Var(name) | Size(name):
            return name
        case IndexOp(op, (left, right)) if op in _INFIX:
            sign, own = _INFIX[op]
            text = f"{_index_at(left, own)} {sign} {_index_at(right, own + 1)}"
            return f"({text})" if own < level else text
        case IndexOp(op, args):
            return f"{op}({', '.join(map(_index, args))})"
        case IndexCast(mode, arg, type):
            return f"{mode}<{type}>({_index(arg)})"
        case Select(condition, then, other):
            return f"select({_index(condition)}, {_index(then)}, {_index(other)})"
        case Read(array, indices):
            return f"{array}[{', '.join(map(_index, indices))}]"
        case _:
            assert_never(expr)
