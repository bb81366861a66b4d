"""The invariants of the vector level; a broken one is a defect of the compiler.

Names are defined before they are used and Let names once; types agree; every vector fits a
register of the target; masks have the width of the lanes that they govern; a parallel loop
assigns only what is declared inside it. What is prepared depends on no size and no array that
differ from call to call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from tdsl.ir.dots import DOTS, TILES
from tdsl.ir.kernel import COMPARISONS, Expr, Read, Size, Var, walk
from tdsl.ir.types import BOOL, I64
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
    VType,
)
from tdsl.ir.walk_vector import (
    VALUES,
    blocks,
    buffers_used,
    item_indices,
    item_values,
    items,
    operands,
    values_in,
)
from tdsl.targets.target import Target

ROLES = ("in", "const", "out", "inout", "temp", "stack", "scratch", "table", "prepared")
_READ_ONLY = ("in", "const", "table")
_MASK_OPS = ("and", "or", "not", "eq", "ne", "band", "bor", "bxor", "bnot")


class VectorError(Exception):
    """The vector level is malformed."""


def verify(function: Function, target: Target) -> None:
    """Raise VectorError where `function` breaks a rule of the level."""
    _Verifier(function, target).run()


class _Verifier:
    def __init__(self, function: Function, target: Target) -> None:
        self._function, self._target = function, target
        self._buffers = {b.name: b for b in function.buffers}
        self._read_only = {b.name for b in function.buffers if b.role in _READ_ONLY}
        self._free = frozenset(s for b in function.buffers for s in b.free_strides)

    def run(self) -> None:
        if len(self._buffers) != len(self._function.buffers):
            raise self._wrong("two buffers share a name")
        sizes = frozenset(self._function.sizes)
        for buffer in self._function.buffers:
            self._buffer(buffer, sizes)
        for assumption in self._function.assumptions:
            self._index(assumption, frozenset())
        if self._function.condition is not None:
            self._index(self._function.condition, frozenset())
        if self._function.prepare is not None:
            self._once(self._function.prepare)
        self._read_only |= {b.name for b in self._function.buffers if b.role == "prepared"}
        self._block(self._function.body, {}, frozenset(), frozenset())

    def _once(self, block: Block) -> None:
        """What is prepared differs from call to call by nothing."""
        free = {s for b in self._function.buffers if b.role == "const" for s in b.free_strides}
        told = {*self._function.const_sizes, *free}
        made = [e for b in self._function.buffers if b.role == "prepared" for e in b.shape]
        used = [e for item in items(block) for e in item_indices(item)]
        for size in (e for x in (*made, *used) for e in walk(x) if isinstance(e, Size)):
            if size.name not in told:
                raise self._wrong(f"what is prepared depends on {size.name}")
        for name in buffers_used(block):
            if self._buffers[name].role in ("in", "out", "inout"):
                raise self._wrong(f"what is prepared uses {name}")
        self._block(block, {}, frozenset(), frozenset())

    def _wrong(self, message: str) -> VectorError:
        return VectorError(f"{self._function.name}: {message}")

    def _buffer(self, buffer: Buffer, sizes: frozenset[str]) -> None:
        if buffer.role not in ROLES:
            raise self._wrong(f"{buffer.name} has the role {buffer.role}")
        if buffer.role == "table" and not buffer.values:
            raise self._wrong(f"the table {buffer.name} has no values")
        if buffer.per_thread and buffer.role not in ("stack", "scratch"):
            raise self._wrong(f"{buffer.name}, which is {buffer.role}, is no thread's own")
        for extent in buffer.shape:
            self._index(extent, frozenset())
            if buffer.role in ("stack", "table") and any(
                isinstance(e, Size | Var) for e in walk(extent)
            ):
                raise self._wrong(f"the extents of {buffer.name} are not constant")
        for stride in buffer.strides or ():
            if not isinstance(stride, str):
                self._index(stride, frozenset())
        for end in buffer.range or ():
            self._index(end, frozenset())
            if buffer.role not in ("in", "const") or not buffer.elem.is_integer:
                raise self._wrong(f"{buffer.name} cannot promise a range of values")

    # ------------------------------------------------------------ code

    def _block(
        self,
        block: Block,
        types: dict[str, VType],
        indices: frozenset[str],
        assignable: frozenset[str],
    ) -> None:
        """`types`: of the values in scope. `assignable`: those of them that Assign may change."""
        types = dict(types)
        for item in block.items:
            for expr in item_indices(item):
                self._index(expr, indices)
            for value in item_values(item):
                self._value(value, types)
            indices, assignable = self._item(item, types, indices, assignable)

    def _item(
        self,
        item: Item,
        types: dict[str, VType],
        indices: frozenset[str],
        assignable: frozenset[str],
    ) -> tuple[frozenset[str], frozenset[str]]:
        match item:
            case Let(name, value):
                self._define(name, value.type, types)
            case LetIndex(name):
                if name in indices:
                    raise self._wrong(f"the index {name} is defined twice")
                return indices | {name}, assignable
            case Declare(name, type, value):
                if value is not None and value.type != type:
                    raise self._wrong(f"{name} is {type}, its value {value.type}")
                self._define(name, type, types)
                return indices, assignable | {name}
            case Assign(name, value):
                if name not in assignable:
                    raise self._wrong(f"{name} is assigned but not declared here")
                if types[name] != value.type:
                    raise self._wrong(f"{name} is {types[name]}, assigned {value.type}")
            case Misaligned(name, buffer, _, bytes):
                size = self._array(buffer).elem.bytes
                if name in indices:
                    raise self._wrong(f"the index {name} is defined twice")
                if bytes < size or bytes & (bytes - 1):
                    raise self._wrong(f"{buffer} is aligned to {bytes} bytes")
                return indices | {name}, assignable
            case Prefetch(buffer):
                self._array(buffer)
            case Store():
                self._store(item)
            case Scatter():
                self._scatter(item)
            case For():
                if item.var in indices or item.step < 1:
                    raise self._wrong(f"the loop {item.var} is nested in itself or steps back")
                if item.fence and not item.parallel:
                    raise self._wrong(f"the loop {item.var} has a fence, but no threads")
                inside = frozenset() if item.parallel else assignable
                self._block(item.body, types, indices | {item.var}, inside)
            case If(condition):
                if isinstance(condition, VALUES) and condition.type != VType(BOOL):
                    raise self._wrong(f"a condition is {condition.type}")
                for inner in blocks(item):
                    self._block(inner, types, indices, assignable)
            case Switch(_, cases):
                if len({value for value, _ in cases}) != len(cases):
                    raise self._wrong("two cases of a switch are the same")
                for inner in blocks(item):
                    self._block(inner, types, indices, assignable)
            case Block():
                self._block(item, types, indices, assignable)
            case Comment() | Fence():
                pass
            case _:
                assert_never(item)
        return indices, assignable

    def _define(self, name: str, type: VType, types: dict[str, VType]) -> None:
        if name in types:
            raise self._wrong(f"{name} is defined twice")
        self._fits(type)
        types[name] = type

    def _store(self, store: Store) -> None:
        buffer = self._array(store.buffer)
        if buffer.name in self._read_only:
            raise self._wrong(f"a store to {buffer.name}, which is {buffer.role}")
        if store.value.type.elem != buffer.elem or store.value.type.is_mask:
            raise self._wrong(f"{store.value.type} is stored to {buffer.name} of {buffer.elem}")
        self._mask(store.mask, store.value.type)
        plain = store.mask is None and store.stride is None and store.value.type.lanes > 1
        if (store.stream and not plain) or (store.aligned and not store.stream):
            raise self._wrong(f"a store to {buffer.name} past the caches is of no whole vector")

    def _scatter(self, item: Scatter) -> None:
        buffer = self._array(item.buffer)
        if buffer.name in self._read_only:
            raise self._wrong(f"a store to {buffer.name}, which is {buffer.role}")
        if item.value.type != VType(buffer.elem) or item.offset.type != VType(I64):
            raise self._wrong(f"{item.value.type} is scattered to {buffer.name} of {buffer.elem}")

    def _index(self, expr: Expr, indices: frozenset[str]) -> None:
        for node in walk(expr):
            match node:
                case Read(array):
                    raise self._wrong(f"an index expression reads {array}")
                case Size(name) if name not in self._function.sizes and name not in self._free:
                    raise self._wrong(f"there is no size {name}")
                case Var(name) if name not in indices:
                    raise self._wrong(f"the index {name} is not defined here")
                case _:
                    pass

    # ------------------------------------------------------------ values

    def _array(self, name: str) -> Buffer:
        if name not in self._buffers:
            raise self._wrong(f"there is no buffer {name}")
        return self._buffers[name]

    def _fits(self, type: VType) -> None:
        if type.lanes == 1:
            return
        if type.lanes < 1 or type.lanes & (type.lanes - 1):
            raise self._wrong(f"{type} has no power of two of lanes")
        if type.is_mask and self._target.has_mask_registers:
            bits = 8  # one bit a lane, whatever the lanes governed
        else:
            bits = type.bits if type.is_mask else type.elem.bytes * 8
        if type.lanes * bits // 8 > self._target.vector_bytes:
            raise self._wrong(f"{type} fits no register of {self._target.name}")

    def _mask(self, mask: Value | None, of: VType) -> None:
        if mask is None:
            return
        fits = mask.type.lanes == of.lanes and mask.type.elem == BOOL
        if of.lanes > 1:
            bits = of.bits if of.is_mask else of.elem.bytes * 8
            fits = fits and mask.type.bits == bits
        if not fits:
            raise self._wrong(f"{mask.type} does not govern {of}")

    def _value(self, top: Value, types: dict[str, VType]) -> None:
        for value in values_in(top):
            self._fits(value.type)
            problem = self._problem(value, types)
            if problem is not None:
                raise self._wrong(problem)

    def _problem(self, value: Value, types: dict[str, VType]) -> str | None:
        type, lanes = value.type, value.type.lanes
        match value:
            case Const(number):
                whole = isinstance(number, int)
                return None if type.elem.is_float or whole else f"{number} as {type}"
            case Ref(name):
                if name not in types:
                    return f"{name} is used before it is defined"
                return None if types[name] == type else f"{name} is {types[name]}, not {type}"
            case Iota():
                return None if type.elem.name in ("i64", "index") else f"an iota of {type}"
            case Splat(arg):
                fits = arg.type.lanes == 1 and arg.type.elem == type.elem
                return None if fits else f"a splat of {arg.type} as {type}"
            case Load(buffer, _, _, _, mask) | Gather(buffer, _, _, mask):
                self._mask(mask, type)
                if isinstance(value, Gather) and value.offset.type.lanes != lanes:
                    return f"{value.offset.type} offsets for {type}"
                elem = self._array(buffer).elem
                fits = elem == type.elem and not type.is_mask
                return None if fits else f"{type} is loaded from {buffer} of {elem}"
            case Op():
                return self._op_problem(value)
            case Cast(_, arg):
                return None if arg.type.lanes == lanes else f"a cast of {arg.type} to {type}"
            case Choose(mask, then, other):
                self._mask(mask, type)
                same = then.type == type == other.type
                return None if same else f"a choice of {then.type} and {other.type} as {type}"
            case FirstLanes() | Condition():
                fits = type.is_mask or type == VType(BOOL)
                return None if fits else f"a condition as {type}"
            case Column(rows, lane):
                first = rows[0].type
                fits = type == VType(first.elem, len(rows)) and 0 <= lane < first.lanes
                fits = fits and all(row.type == first for row in rows)
                return None if fits else f"lane {lane} of {len(rows)} {first} as {type}"
            case Reduce(_, arg):
                fits = lanes == 1 and arg.type.elem == type.elem
                return None if fits else f"{arg.type} reduced to {type}"
            case Repeat(arg):
                fits = replace(arg.type, lanes=lanes) == type and lanes % arg.type.lanes == 0
                return None if fits else f"{arg.type} repeated as {type}"
            case Join(low, high):
                fits = low.type == high.type == replace(type, lanes=lanes // 2)
                return None if fits else f"{low.type} and {high.type} joined as {type}"
            case Part(arg, start):
                fits = replace(arg.type, lanes=lanes) == type and start % lanes == 0
                fits = fits and start + lanes <= arg.type.lanes and not type.is_mask
                return None if fits else f"lanes {start}.. of {arg.type} as {type}"
            case Slide(low, high, start):
                fits = low.type == high.type == type and 0 < start < lanes and not type.is_mask
                return None if fits else f"{low.type} and {high.type} from lane {start} as {type}"
            case Dot():
                return self._dot_problem(value)
            case _:
                assert_never(value)

    def _dot_problem(self, dot: Dot) -> str | None:
        first, second = dot.first.type, dot.second.type
        kind = (first.elem.name, second.elem.name, dot.type.elem.name)
        known = TILES if dot.columns else DOTS
        fits = dot.acc.type == dot.type and kind in known
        rows = columns = dot.type.lanes
        if dot.columns:
            rows, columns = rows // dot.columns, dot.columns
            fits = fits and rows * columns == dot.type.lanes
        fits = fits and first.lanes == known[kind] * rows
        fits = fits and second.lanes == known[kind] * columns
        return None if fits else f"a dot of {first} and {second} into {dot.acc.type}"

    def _op_problem(self, op: Op) -> str | None:
        first = op.args[0].type
        if any(a.type != first for a in operands(op)):
            return f"{op.op} of {', '.join(str(a.type) for a in op.args)}"
        if first.is_mask and op.op not in _MASK_OPS:
            return f"{op.op} of masks"
        if op.op in COMPARISONS and not first.is_mask:
            fits = op.type.elem == BOOL and op.type.lanes == first.lanes
            if first.lanes > 1:
                fits = fits and op.type.bits == first.elem.bytes * 8
            return None if fits else f"{op.op} of {first} gives {op.type}"
        return None if op.type == first else f"{op.op} of {first} gives {op.type}"
