"""Which stores go past the caches, and where the fences are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tdsl.ir import vector as v
from tdsl.ir.walk_vector import blocks, items, with_blocks
from tdsl.polyhedral.program import Program
from tdsl.targets import instructions
from tdsl.targets.target import Target


def streamed(block: v.Block, program: Program, streams: frozenset[str]) -> v.Block:
    """The block with all whole vectors that go to these arrays stored past the caches, and a fence
    where a thread ends. What is stored to be read again, parts of sums, goes the usual way."""
    if not streams:
        return block
    found = _Marker(program, streams)
    marked = found.block(block)
    outside = any(_streams_alone(item) for item in marked.items)
    return v.Block((*marked.items, v.Fence())) if outside else marked


def plain(streams: frozenset[str], target: Target) -> tuple[str, ...]:
    """What is said of these arrays where the target has no stores past the caches."""
    if any(op == "stream" for op, _, _ in instructions(target)):
        return ()
    stores = f"the stores of {target.name} do not pass the caches"
    return tuple(f"stream {array}: {stores}" for array in sorted(streams))


@dataclass(frozen=True)
class _Marker:
    program: Program
    streams: frozenset[str]

    def block(self, block: v.Block) -> v.Block:
        return v.Block(tuple(self._item(item) for item in block.items))

    def _item(self, item: v.Item) -> v.Item:
        match item:
            case v.Store():
                return replace(item, stream=True) if self._goes_past(item) else item
            case v.For():
                body = self.block(item.body)
                inside = any(isinstance(i, v.Store) and i.stream for i in items(body))
                return replace(item, body=body, fence=item.parallel and inside)
            case _:
                return with_blocks(item, self.block)

    def _goes_past(self, item: v.Store) -> bool:
        if item.buffer not in self.streams or item.value.type.lanes == 1:
            return False
        if item.mask is not None or item.stride is not None:
            return False
        if item.origin is None:
            return True  # a register, when its sum is complete
        stmt = self.program.statements[item.origin.statement]
        return not stmt.is_update and stmt.init_of is None


def _streams_alone(item: v.Item) -> bool:
    """Whether a store past the caches stands outside all parallel loops."""
    if isinstance(item, v.Store):
        return item.stream
    if isinstance(item, v.For) and item.parallel:
        return False
    return any(_streams_alone(i) for block in blocks(item) for i in block.items)
