"""Short names for writing functions of the vector level by hand."""

from __future__ import annotations

from tdsl.ir.kernel import INDEX, Const, Expr, Op, Size, Var
from tdsl.ir.types import BOOL, ElemType
from tdsl.ir.vector import Block, Buffer, For, Function, Item, Load, Value, VType


def num(value: int) -> Const:
    return Const(value, INDEX)


def add(a: Expr, b: Expr) -> Expr:
    return Op("add", (a, b), INDEX)


def mul(a: Expr, b: Expr) -> Expr:
    return Op("mul", (a, b), INDEX)


def compare(op: str, a: Expr, b: Expr) -> Expr:
    return Op(op, (a, b), BOOL)


def mask(elem: ElemType, lanes: int) -> VType:
    """The mask that governs such vectors."""
    return VType(BOOL) if lanes == 1 else VType(BOOL, lanes, elem.bytes * 8)


def load(buffer: str, elem: ElemType, lanes: int, offset: Expr, by: Value | None = None) -> Load:
    return Load(buffer, offset, VType(elem, lanes), None, by)


def over(lanes: int, *items: Item, size: str = "N", var: str = "i") -> For:
    """A loop over whole vectors."""
    return For(var, num(0), Size(size), Block(items), lanes)


def vector_buffer(name: str, elem: ElemType, role: str) -> Buffer:
    return Buffer(name, elem, (Size("N"),), role)


def function(name: str, buffers: list[Buffer], *items: Item) -> Function:
    """A function of one size, N."""
    return Function(name, ("N",), tuple(buffers), (), Block(items))


I = Var("i")  # noqa: E741
