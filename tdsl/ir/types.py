"""Element types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Member:
    """A field of a record: one number, or `count` of them; `offset` in bytes."""

    name: str
    type: ElemType
    count: int | None
    offset: int


@dataclass(frozen=True)
class ElemType:
    """An element type; `kind` is "float", "int", "uint", "bool", or "record" with its `fields`."""

    name: str
    kind: str
    bits: int
    fields: tuple[Member, ...] = ()

    def __hash__(self) -> int:
        return hash(self.name)  # types are hashed with every expression

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def bytes(self) -> int:
        return max(1, self.bits // 8)

    @property
    def align(self) -> int:
        """What C aligns it to, in bytes."""
        return max((f.type.align for f in self.fields), default=self.bytes)

    def __str__(self) -> str:
        return self.name


def record_type(name: str, fields: Sequence[tuple[str, ElemType, int | None]]) -> ElemType:
    """A record as C lays a struct out: fields in order, each at the next multiple of its
    alignment, the whole a multiple of the largest."""
    members: list[Member] = []
    end = 0
    for field, type_, count in fields:
        start = -(-end // type_.align) * type_.align
        members.append(Member(field, type_, count, start))
        end = start + type_.bytes * (1 if count is None else count)
    align = max(m.type.align for m in members)
    return ElemType(name, "record", -(-end // align) * align * 8, tuple(members))


F64 = ElemType("f64", "float", 64)
F32 = ElemType("f32", "float", 32)
F16 = ElemType("f16", "float", 16)
BF16 = ElemType("bf16", "float", 16)
I8 = ElemType("i8", "int", 8)
I16 = ElemType("i16", "int", 16)
I32 = ElemType("i32", "int", 32)
I64 = ElemType("i64", "int", 64)
U8 = ElemType("u8", "uint", 8)
U16 = ElemType("u16", "uint", 16)
U32 = ElemType("u32", "uint", 32)
U64 = ElemType("u64", "uint", 64)
BOOL = ElemType("bool", "bool", 8)  # one byte in memory, 0 or 1

TYPES: dict[str, ElemType] = {
    t.name: t for t in (F64, F32, F16, BF16, I8, I16, I32, I64, U8, U16, U32, U64, BOOL)
}
