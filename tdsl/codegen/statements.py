"""Code of the vector level as C statements, one a line."""

from __future__ import annotations

from typing import assert_never

from tdsl.codegen.index import IndexPrinter, non_negative
from tdsl.codegen.names import Names
from tdsl.codegen.text import comment, wrap
from tdsl.codegen.unit import SCALARS, Unit
from tdsl.codegen.values import ValuePrinter
from tdsl.codegen.workspace import OVER, is_sliced, thread_slice, threads_name
from tdsl.ir import kernel
from tdsl.ir.vector import (
    Assign,
    Block,
    Buffer,
    Comment,
    Declare,
    For,
    Function,
    Gather,
    If,
    Item,
    Let,
    LetIndex,
    Load,
    Scatter,
    Store,
    Switch,
)
from tdsl.ir.walk_vector import VALUES, blocks, buffers_used, item_values, values_in


class StatementPrinter:
    """Prints one function's body; afterwards `used` holds the buffers and sizes it names."""

    def __init__(self, unit: Unit, function: Function, names: Names, by_value: set[str]) -> None:
        self._unit = unit
        self._names = names
        self._non_negative: set[str] = set()
        self.used: set[tuple[str, str]] = set()
        self._index = IndexPrinter(self._name, unit.helper, self._non_negative)
        self._values = ValuePrinter(unit, self._name, self._index, frozenset(by_value))
        self._local = [b for b in function.buffers if b.role == "stack" or is_sliced(b)]

    def _name(self, kind: str, name: str) -> str:
        self.used.add((kind, name))
        return self._names.add(kind, name)

    def body(self, block: Block) -> list[str]:
        """The lines of a function's body."""
        used, serial = buffers_used(block), _outside_parallel(block)
        # What each thread has of its own is declared inside parallel loops.
        wanted = [b for b in self._local if b.name in (serial if b.per_thread else used)]
        lines = [line for b in wanted for line in self._declared(b, 1, parallel=False)]
        return lines + self._block(block, 1)

    def _declared(self, buffer: Buffer, depth: int, *, parallel: bool) -> list[str]:
        if is_sliced(buffer):
            text = thread_slice(self._unit, self._names, buffer, parallel=parallel)
            return wrap("    " * depth + text)
        return self._array(buffer, depth)

    def _array(self, buffer: Buffer, depth: int) -> list[str]:
        """The declaration of a stack buffer, longer than its elements: see `workspace.OVER`."""
        count = 1
        for extent in buffer.shape:
            if not isinstance(extent, kernel.Const):
                raise ValueError(f"the extents of {buffer.name} on the stack are not constant")
            count *= int(extent.value)
        pad = "    " * depth
        name = self._names.add("buffer", buffer.name)
        align = f" __attribute__((aligned({max(64, buffer.align or 64)})))"
        count += OVER // buffer.elem.bytes
        return [f"{pad}{SCALARS[buffer.elem.name]} {name}[{count}]{align};"]

    def _block(self, block: Block, depth: int) -> list[str]:
        return [line for item in block.items for line in self._item(item, depth)]

    def _item(self, item: Item, depth: int) -> list[str]:
        pad = "    " * depth
        match item:
            case Let(name, value):
                text = self._values(value).text
                ctype = self._unit.ctype(value.type)
                return wrap(f"{pad}const {ctype} {self._names.add('value', name)} = {text};")
            case LetIndex(name, expr):
                text = self._index(expr).text
                self._note_sign(name, non_negative(expr, self._non_negative))
                return wrap(f"{pad}const int64_t {self._names.add('index', name)} = {text};")
            case Declare(name, type, value):
                text = "" if value is None else f" = {self._values(value).text}"
                ctype = self._unit.ctype(type)
                return wrap(f"{pad}{ctype} {self._names.add('value', name)}{text};")
            case Assign(name, value):
                return wrap(f"{pad}{self._name('value', name)} = {self._values(value).text};")
            case Store():
                return [w for line in self._values.store(item) for w in wrap(pad + line)]
            case Scatter(buffer, offset, value):
                place = f"{self._name('buffer', buffer)}[{self._values(offset).text}]"
                return wrap(f"{pad}{place} = {self._values(value).text};")
            case For():
                return self._for(item, depth)
            case If():
                return self._if(item, depth)
            case Switch():
                return self._switch(item, depth)
            case Comment(text):
                return comment([text], pad)
            case Block():
                return [f"{pad}{{", *self._block(item, depth + 1), f"{pad}}}"]
            case _:
                assert_never(item)

    def _note_sign(self, name: str, known: bool) -> None:
        if known:
            self._non_negative.add(name)
        else:
            self._non_negative.discard(name)

    def _for(self, loop: For, depth: int) -> list[str]:
        pad = "    " * depth
        low, high = self._index(loop.lo).text, self._index(loop.hi)
        self._note_sign(loop.var, non_negative(loop.lo, self._non_negative))
        var = self._names.add("index", loop.var)
        step = f"{var}++" if loop.step == 1 else f"{var} += {loop.step}"
        head = f"{pad}for (int64_t {var} = {low}; {var} < {high.at(8)}; {step}) {{"
        lines = comment(loop.notes, pad) if loop.notes else []
        used = buffers_used(loop.body) if loop.parallel else frozenset()
        own = [b for b in self._local if b.per_thread and b.name in used]
        if loop.parallel:
            pragma = f"{pad}#pragma omp parallel for schedule(static)"
            if any(is_sliced(b) for b in own):
                pragma += f" num_threads({threads_name(self._names)})"
            lines.append(pragma)
        lines += wrap(head)
        for buffer in own:
            lines += self._declared(buffer, depth + 1, parallel=True)
        return [*lines, *self._block(loop.body, depth + 1), f"{pad}}}"]

    def _if(self, item: If, depth: int) -> list[str]:
        pad = "    " * depth
        condition = item.condition
        if isinstance(condition, VALUES):
            text = self._values(condition).text
        else:
            text = self._index(condition).text
        lines = wrap(f"{pad}if ({text}) {{")
        lines += self._block(item.then, depth + 1)
        if item.other is not None and item.other.items:
            lines += [f"{pad}}} else {{", *self._block(item.other, depth + 1)]
        return [*lines, f"{pad}}}"]

    def _switch(self, item: Switch, depth: int) -> list[str]:
        pad = "    " * depth
        lines = wrap(f"{pad}switch ({self._index(item.on).text}) {{")
        for value, block in item.cases:
            lines += [f"{pad}case {value}: {{", *self._block(block, depth + 1)]
            lines += [f"{pad}    break;", f"{pad}}}"]
        if item.default.items:
            lines += [f"{pad}default: {{", *self._block(item.default, depth + 1)]
            lines += [f"{pad}    break;", f"{pad}}}"]
        else:
            lines += [f"{pad}default:", f"{pad}    break;"]
        return [*lines, f"{pad}}}"]


def _outside_parallel(block: Block) -> set[str]:
    """Buffers that are used outside every parallel loop."""
    found: set[str] = set()
    for item in block.items:
        if isinstance(item, For) and item.parallel:
            continue
        if isinstance(item, Store | Scatter):
            found.add(item.buffer)
        for top in item_values(item):
            found |= {v.buffer for v in values_in(top) if isinstance(v, Load | Gather)}
        for inner in blocks(item):
            found |= _outside_parallel(inner)
    return found
