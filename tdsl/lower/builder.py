"""Straight-line code under construction: names, loads made once, stores forwarded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tdsl.ir import vector as v
from tdsl.ir.index import constant_difference, variables
from tdsl.ir.kernel import Const, Expr
from tdsl.ir.walk_vector import items, operands


class Names:
    """Names that are unique on the path from the function to here."""

    def __init__(
        self,
        taken: Iterable[str],
        reserved: set[str] | None = None,
        around: Names | None = None,
    ) -> None:
        self._taken = set(taken)
        self._reserved = set() if reserved is None else reserved
        self._around = around
        self._below: set[str] = set()  # names of nested blocks, the finished ones too

    def fresh(self, base: str, blocks: Iterable[Names] = ()) -> str:
        """`base_0`, `base_1`, ...: the first that is free, and unknown below some blocks."""
        taken = self._taken.union(self._reserved, *(names._below for names in blocks))
        number = 0
        while f"{base}_{number}" in taken:
            number += 1
        return self.claim(f"{base}_{number}")

    def claim(self, name: str) -> str:
        """The name itself, or with underscores where it is taken."""
        while name in self._taken | self._reserved:
            name += "_"
        self._taken.add(name)
        around = self._around
        while around is not None:
            around._below.add(name)
            around = around._around
        return name

    def reserve(self, base: str) -> str:
        """`base_r0`, ...: a name that no other code of the function has until it is released."""
        number = 0
        while f"{base}_r{number}" in self._taken | self._reserved:
            number += 1
        self._reserved.add(f"{base}_r{number}")
        return f"{base}_r{number}"

    def release(self, name: str) -> None:
        """A reserved name is free again."""
        self._reserved.discard(name)

    def inside(self) -> Names:
        """For a nested block: what it takes is free again behind it."""
        return Names(self._taken, self._reserved, self)


class Code:
    """Items of one block. `frozen`: buffers that no code writes.

    parent: the block around it, where that always runs it (a loop's body, a scope, but not the
    arm of a condition); var: the loop's variable.
    """

    def __init__(self, names: Names, frozen: frozenset[str]) -> None:
        self.items: list[v.Item] = []
        self.names = names
        self.frozen = frozen
        self.parent: Code | None = None
        self.var: str | None = None
        self._loaded: dict[v.Value, v.Ref] = {}

    def inside(self, *, loop: str | None = None, always: bool = False) -> Code:
        """A nested block: the body of the loop over `loop`, or one that runs `always`, or an arm.

        What is loaded stays so, in a loop only from unwritten buffers.
        """
        child = Code(self.names.inside(), self.frozen)
        if loop is not None or always:
            child.parent, child.var = self, loop
        for value, ref in self._loaded.items():
            if loop is None or buffers(value) <= self.frozen:
                child._loaded[value] = ref
        return child

    def add(self, item: v.Item) -> None:
        """An item that is not straight-line code, or needs nothing remembered."""
        self.items.append(item)

    def bind(self, value: v.Value) -> v.Value:
        """The value with its loads made before, each element once."""
        match value:
            case v.Load() | v.Splat(v.Load()) | v.Repeat(v.Load()) | v.Gather():
                return self._load(value)
            case v.FirstLanes():
                return self._mask(value)
            case _:
                return rebuild(value, [self.bind(a) for a in operands(value)])

    def _load(self, value: v.Load | v.Splat | v.Repeat | v.Gather) -> v.Value:
        known = self._loaded.get(value)
        if known is not None:
            return known
        made: v.Value = value
        if isinstance(value, v.Gather):
            mask = None if value.mask is None else self.bind(value.mask)
            made = v.Gather(value.buffer, self.bind(value.offset), value.type, mask)
        elif isinstance(value, v.Load) and value.mask is not None:
            made = replace(value, mask=self.bind(value.mask))
        elif isinstance(value, v.Repeat):
            made = rebuild(value, [self._with_mask(value.arg)])
        (name,) = buffers_of(value)
        ref = v.Ref(self.names.fresh(name), value.type)
        self.items.append(v.Let(ref.name, made))
        self._loaded[value] = ref
        return ref

    def _with_mask(self, load: v.Value) -> v.Value:
        return rebuild(load, [self.bind(mask) for mask in operands(load)])

    def _mask(self, mask: v.FirstLanes) -> v.Value:
        """A mask is made before the loops that do not change it."""
        known = self._loaded.get(mask)
        if known is not None:
            return known
        fixed = variables(mask.count)
        chain: list[Code] = [self]
        while chain[-1].parent is not None and chain[-1].var not in fixed:
            chain.append(chain[-1].parent)
        # It gets in front of all that these blocks have already.
        name = self.names.fresh("lanes", (code.names for code in chain[:-1]))
        ref = v.Ref(name, mask.type)
        chain[-1].items.append(v.Let(ref.name, mask))
        for code in chain:
            code._loaded[mask] = ref
            if code is not self:
                code.names.claim(ref.name)
        return ref

    def name(self, base: str, value: v.Value) -> v.Ref:
        """A name for a value, the same wherever it is wanted again."""
        known = self._loaded.get(value)
        if known is None:
            known = v.Ref(self.names.fresh(base), value.type)
            self.items.append(v.Let(known.name, value))
            self._loaded[value] = known
        return known

    def store(self, item: v.Store) -> None:
        """A store; loads that it may change are forgotten, what it wrote is known."""
        value = item.value
        # A register may change afterwards: what is remembered is the value that was stored.
        register = isinstance(value, v.Ref) and value not in self._loaded.values()
        if register or isinstance(value, v.Op | v.Cast | v.Choose | v.Dot | v.Part):
            ref = v.Ref(self.names.fresh(item.buffer), value.type)
            self.items.append(v.Let(ref.name, value))
            value = ref
        self.items.append(
            v.Store(item.buffer, item.offset, value, item.stride, item.mask, item.origin)
        )
        self.forget(item)
        if item.mask is None and isinstance(value, v.Ref):
            load = v.Load(item.buffer, item.offset, value.type, item.stride, None)
            self._loaded[load] = value

    def scatter(self, item: v.Scatter) -> None:
        """A store to some element."""
        self.items.append(item)
        self.forget_all([item.buffer])

    def forget(self, item: v.Store) -> None:
        """Drops the loads that a store may change."""
        for known in list(self._loaded):
            if item.buffer in buffers(known) and not _apart(known, item):
                del self._loaded[known]

    def forget_all(self, written: Iterable[str]) -> None:
        """Drops all loads of buffers that some nested code writes."""
        gone = frozenset(written)
        for known in list(self._loaded):
            if buffers(known) & gone:
                del self._loaded[known]


def _apart(known: v.Value, item: v.Store) -> bool:
    """Whether a load and a store certainly touch different elements."""
    load = known.arg if isinstance(known, v.Splat | v.Repeat) else known
    if not isinstance(load, v.Load) or buffers_of(load) != {item.buffer} or load.mask is not None:
        return False
    gap = constant_difference(load.offset, item.offset)
    if gap is None:
        return False
    return gap >= _span(item.value.type.lanes, item.stride) or -gap >= _span(
        load.type.lanes, load.stride
    )


def apart(one: v.Store, other: v.Store) -> bool:
    """Whether two stores to one buffer certainly go to different elements."""
    gap = constant_difference(one.offset, other.offset)
    if gap is None:
        return False
    ahead, behind = (_span(s.value.type.lanes, s.stride) for s in (other, one))
    return gap >= ahead or -gap >= behind


def _span(lanes: int, stride: Expr | None) -> int:
    """Elements from the first lane to behind the last; a huge number where that is unknown."""
    if stride is None or lanes == 1:
        return lanes
    if isinstance(stride, Const) and int(stride.value) > 0:
        return (lanes - 1) * int(stride.value) + 1
    return 1 << 62


def buffers_of(value: v.Value) -> frozenset[str]:
    """The buffer that a load, a broadcast load or a gather itself reads."""
    match value:
        case v.Load(buffer) | v.Gather(buffer):
            return frozenset([buffer])
        case v.Splat(v.Load(buffer)) | v.Repeat(v.Load(buffer)):
            return frozenset([buffer])
        case _:
            return frozenset()


def buffers(value: v.Value) -> frozenset[str]:
    """All buffers that a value reads."""
    own = buffers_of(value)
    for arg in operands(value):
        own |= buffers(arg)
    return own


def rebuild(value: v.Value, args: list[v.Value]) -> v.Value:
    """The same value with other operands (in the order of `operands`)."""
    if tuple(args) == operands(value):
        return value
    match value:
        case v.Splat(_, type):
            return v.Splat(args[0], type)
        case v.Cast(mode, _, type):
            return v.Cast(mode, args[0], type)
        case v.Reduce(op, _, type):
            return v.Reduce(op, args[0], type)
        case v.Load(buffer, offset, type, stride):
            return v.Load(buffer, offset, type, stride, args[0] if args else None)
        case v.Gather(buffer, _, type):
            return v.Gather(buffer, args[0], type, args[1] if len(args) > 1 else None)
        case v.Op(op, _, type):
            return v.Op(op, tuple(args), type)
        case v.Choose(_, _, _, type):
            return v.Choose(args[0], args[1], args[2], type)
        case v.Repeat(_, type):
            return v.Repeat(args[0], type)
        case v.Join(_, _, type):
            return v.Join(args[0], args[1], type)
        case v.Slide(_, _, start, type):
            return v.Slide(args[0], args[1], start, type)
        case v.Part(_, start, type):
            return v.Part(args[0], start, type)
        case v.Dot(_, _, _, type, columns):
            return v.Dot(args[0], args[1], args[2], type, columns)
        case v.Column(_, lane, type):
            return v.Column(tuple(args), lane, type)
        case _:
            return value


def written(code: Iterable[v.Item]) -> set[str]:
    """The buffers that some code stores to."""
    inside = items(v.Block(tuple(code)))
    return {i.buffer for i in inside if isinstance(i, v.Store | v.Scatter)}
