"""Code of the vector level as C statements, one a line."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import assert_never

from tdsl.codegen.in_place import hidden_end, in_place, likely
from tdsl.codegen.index import IndexPrinter, non_negative
from tdsl.codegen.lines import marked
from tdsl.codegen.moves import fence, few, misaligned, prefetch, prefetch_few
from tdsl.codegen.names import Names
from tdsl.codegen.text import comment, wrap
from tdsl.codegen.transposes import transpose
from tdsl.codegen.unit import SCALARS, Unit
from tdsl.codegen.values import ValuePrinter
from tdsl.codegen.workspace import is_sliced, thread_slice, threads_name
from tdsl.ir import kernel
from tdsl.ir.vector import (
    OVER,
    Assign,
    Block,
    Buffer,
    Column,
    Comment,
    Declare,
    Fence,
    For,
    Function,
    Gather,
    If,
    Item,
    Let,
    LetIndex,
    Load,
    Misaligned,
    Origin,
    Prefetch,
    Ref,
    Scatter,
    Store,
    Switch,
)
from tdsl.ir.walk_vector import VALUES, blocks, buffers_used, item_values, values_in


class StatementPrinter:
    """Prints one function's body; afterwards `used` holds the buffers and sizes it names.

    `number`: the function's place among those that are printed; see `tdsl.codegen.lines`."""

    def __init__(
        self, unit: Unit, function: Function, names: Names, by_value: set[str], number: int = 0
    ) -> None:
        self._unit, self._number = unit, number
        self._names = names
        self._non_negative: set[str] = set()
        self._grown: frozenset[str] = frozenset()  # sums that grow in the loops around
        self._last = True  # whether nothing stands behind the item in its block
        self.used: set[tuple[str, str]] = set()
        self._index = IndexPrinter(self._name, unit.helper, self._non_negative)
        self._values = ValuePrinter(unit, self._name, self._index, frozenset(by_value))
        self._local = [b for b in function.buffers if b.role == "stack" or is_sliced(b)]
        self._bytes = {b.name: b.elem.bytes for b in function.buffers}

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
        """The declaration of a stack buffer, longer than its elements: see `vector.OVER`."""
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
        lines: list[str] = []
        items = list(block.items)
        while items:
            count, turned = self._transpose(items, depth)
            self._last = len(items) == 1
            lines += turned if count else self._of_statement(items[0], self._item(items[0], depth))
            del items[: max(1, count)]
        return lines

    def _of_statement(self, item: Item, lines: list[str]) -> list[str]:
        """The lines with a mark that says which statement they write for."""
        match item:
            case Declare(origin=Origin(statement)) | Assign(origin=Origin(statement)):
                return marked(lines, self._number, statement)
            case Store(origin=Origin(statement)) | Scatter(origin=Origin(statement)):
                return marked(lines, self._number, statement)
            case _:
                return lines

    def _transpose(self, items: Sequence[Item], depth: int) -> tuple[int, list[str]]:
        """A run of all columns of one matrix at the front, and how many items it has."""
        columns = list(takewhile(lambda item: _is_column(item, items[0]), items))
        values = [c.value for c in columns if isinstance(c, Let)]
        found = [v for v in values if isinstance(v, Column)]
        if not found or [v.lane for v in found] != list(range(len(found[0].rows))):
            return 0, []
        rows, type = found[0].rows, found[0].type
        if rows[0].type != type or not all(isinstance(r, Ref) for r in rows):
            return 0, []
        names = [c.name for c in columns if isinstance(c, Let)]
        matrix = self._names.add("matrix", f"{names[0]}_m")
        statement = transpose(self._unit, type, matrix)
        if statement is None:
            return 0, []
        pad = "    " * depth
        listed = ", ".join(self._values(row).text for row in rows)
        ctype = self._unit.ctype(type)
        lines = [*wrap(f"{pad}{ctype} {matrix}[] = {{{listed}}};"), pad + statement]
        for lane, name in enumerate(names):
            lines.append(f"{pad}const {ctype} {self._names.add('value', name)} = {matrix}[{lane}];")
        return len(columns), lines

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
                made = in_place(self._unit, item, self._values) or self._values(value)
                return wrap(f"{pad}{self._name('value', name)} = {made.text};")
            case Misaligned(name, buffer, offset, bytes):
                self._note_sign(name, True)
                size = self._bytes[buffer]
                text = misaligned(self._values.address(buffer, offset), bytes, size).text
                return wrap(f"{pad}const int64_t {self._names.add('index', name)} = {text};")
            case Prefetch(buffer, offset, count):
                place, size = self._name("buffer", buffer), self._bytes[buffer]
                at, long = self._index(offset), self._index(count)
                known = isinstance(count, kernel.Const) and few(int(count.value) * size)
                hints = prefetch_few if known else prefetch
                hint = hints(self._unit, place, at, long, size, write=item.write)
                return wrap(f"{pad}{hint.text};")
            case Fence():
                return [pad + line for line in fence(self._unit)]
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
        around = self._grown
        hide, self._grown = hidden_end(self._unit, loop, around, last=self._last)
        if hide:
            end = self._names.add("index", f"{loop.var}_end")
            start = f"{var} = {low}, {end} = {hide}({high.text})"
            head = f"{pad}for (int64_t {start}; {var} < {end}; {step}) {{"
        else:
            head = f"{pad}for (int64_t {var} = {low}; {var} < {high.at(8)}; {step}) {{"
        lines = comment(loop.notes, pad) if loop.notes else []
        used = buffers_used(loop.body) if loop.parallel else frozenset()
        own = [b for b in self._local if b.per_thread and b.name in used]
        if loop.fence:
            lines += self._fenced(loop, head, own, depth)
        else:
            if loop.parallel:
                lines.append(f"{pad}#pragma omp parallel for schedule(static){self._team(own)}")
            lines += [*wrap(head), *self._loop_body(loop, own, depth)]
        self._grown = around
        return lines

    def _fenced(self, loop: For, head: str, own: Sequence[Buffer], depth: int) -> list[str]:
        """A parallel loop in which each thread ends with a fence."""
        pad, deeper = "    " * depth, "    " * (depth + 1)
        return [
            f"{pad}#pragma omp parallel{self._team(own)}",
            f"{pad}{{",
            f"{deeper}#pragma omp for schedule(static) nowait",
            *wrap("    " + head),
            *self._loop_body(loop, own, depth + 1),
            *(deeper + line for line in fence(self._unit)),
            f"{pad}}}",
        ]

    def _team(self, own: Sequence[Buffer]) -> str:
        """Clauses: a caller who is one of many threads gets no more, and there are as many as have
        a slice of the workspace, where there are slices."""
        self._unit.headers.add("omp.h")
        sliced = any(is_sliced(b) for b in own)
        threads = f" num_threads({threads_name(self._names)})" if sliced else ""
        return f" if(!omp_in_parallel()){threads}"

    def _loop_body(self, loop: For, own: Sequence[Buffer], depth: int) -> list[str]:
        """All behind the loop's head."""
        lines = [x for b in own for x in self._declared(b, depth + 1, parallel=True)]
        return [*lines, *self._block(loop.body, depth + 1), "    " * depth + "}"]

    def _if(self, item: If, depth: int) -> list[str]:
        pad = "    " * depth
        condition = item.condition
        if isinstance(condition, VALUES):
            text = self._values(condition).text
        else:
            text = self._index(condition).text
            if item.other is not None and item.other.items:
                text = likely(self._unit, condition, text)
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


def _is_column(item: Item, first: Item) -> bool:
    """Whether an item names a column of the matrix that the first one names a column of."""
    match first, item:
        case Let(value=Column(rows)), Let(value=Column(same)):
            return rows == same
        case _:
            return False


def _outside_parallel(block: Block) -> set[str]:
    """Buffers that are used outside every parallel loop."""
    found: set[str] = set()
    for item in block.items:
        if isinstance(item, For) and item.parallel:
            continue
        if isinstance(item, Store | Scatter | Misaligned | Prefetch):
            found.add(item.buffer)
        for top in item_values(item):
            found |= {v.buffer for v in values_in(top) if isinstance(v, Load | Gather)}
        for inner in blocks(item):
            found |= _outside_parallel(inner)
    return found
