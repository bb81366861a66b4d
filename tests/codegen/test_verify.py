"""The verifier of the vector level refuses what a lowering must never make."""

from __future__ import annotations

import pytest

from tdsl.ir.kernel import INDEX, Read, Size, Var
from tdsl.ir.types import BOOL, F32, F64, I32
from tdsl.ir.vector import (
    Assign,
    Block,
    Buffer,
    Cast,
    Choose,
    Const,
    Declare,
    FirstLanes,
    For,
    Function,
    Gather,
    If,
    Item,
    Let,
    LetIndex,
    Load,
    Op,
    Reduce,
    Ref,
    Splat,
    Store,
    Switch,
    VType,
)
from tdsl.ir.verify_vector import VectorError, verify
from tdsl.targets import target
from tests.codegen.build import I, add, load, mask, num, over

V, S, M = VType(F32, 8), VType(F32), mask(F32, 8)
ONE = Const(1.0, V)
X, Y = Buffer("x", F32, (Size("N"),), "in"), Buffer("y", F32, (Size("N"),), "out")
EMPTY = Block(())


def whole(*items: Item, buffers: tuple[Buffer, ...] = (X, Y)) -> Function:
    return Function("f", ("N",), buffers, (), Block(items))


WRONG: dict[str, tuple[Function, str]] = {
    "unknown value": (whole(Store("y", num(0), Ref("v", V))), "v is used before"),
    "let twice": (whole(Let("v", ONE), Let("v", ONE)), "v is defined twice"),
    "out of scope": (
        whole(Block((Let("v", ONE),)), Store("y", num(0), Ref("v", V))), "v is used before",
    ),
    "type of a name": (
        whole(Let("v", ONE), Store("y", num(0), Ref("v", VType(F32, 4)))), "v is f32x8",
    ),
    "unknown index": (whole(Store("y", I, ONE)), "the index i is not defined"),
    "index after its loop": (whole(over(8), Store("y", I, ONE)), "the index i is not"),
    "unknown size": (whole(Store("y", Size("Q"), ONE)), "no size Q"),
    "index twice": (whole(LetIndex("i", num(1)), LetIndex("i", num(2))), "i is defined twice"),
    "loop in itself": (whole(over(1, over(1))), "nested in itself"),
    "read in an index": (whole(Store("y", Read("x", (num(0),), INDEX), ONE)), "reads x"),
    "unknown buffer": (whole(Store("z", num(0), ONE)), "no buffer z"),
    "store to an input": (whole(Store("x", num(0), ONE)), "a store to x"),
    "element of a store": (whole(Store("y", num(0), Const(1, VType(I32, 8)))), "i32x8 is stored"),
    "element of a load": (whole(Let("v", load("x", I32, 8, num(0)))), "loaded from x of f32"),
    "too wide": (whole(Let("v", Const(0.0, VType(F32, 16)))), "f32x16 fits no register"),
    "too wide inside": (
        whole(Store("y", num(0), Reduce("add", Const(0.0, VType(F64, 8)), VType(F64)))), "f64x8",
    ),
    "odd lanes": (whole(Let("v", Const(0.0, VType(F32, 3)))), "power of two"),
    "operands": (whole(Let("v", Op("add", (ONE, Const(1.0, S)), V))), "add of f32x8, f32"),
    "result": (whole(Let("v", Op("add", (ONE, ONE), VType(F64, 4)))), "gives f64x4"),
    "comparison": (whole(Let("v", Op("lt", (ONE, ONE), VType(BOOL, 8, 16)))), "gives mask16x8"),
    "arithmetic on masks": (
        whole(Let("v", Op("add", (FirstLanes(num(1), M),) * 2, M))), "add of masks",
    ),
    "mask of another width": (
        whole(Store("y", num(0), ONE, None, FirstLanes(num(1), mask(F64, 4)))), "does not govern",
    ),
    "choice": (
        whole(Let("v", Choose(FirstLanes(num(1), M), ONE, Const(1, VType(I32, 8)), V))), "a choice",
    ),
    "lanes of a cast": (whole(Let("v", Cast("convert", ONE, VType(I32, 4)))), "a cast of f32x8"),
    "splat of a vector": (whole(Let("v", Splat(ONE, V))), "a splat of f32x8"),
    "gather": (
        whole(Let("v", Gather("x", Const(0, VType(I32, 4)), V))), "i32x4 offsets",
    ),
    "assigned let": (whole(Let("v", ONE), Assign("v", ONE)), "v is assigned but not declared"),
    "assigned type": (whole(Declare("v", V), Assign("v", Const(1.0, S))), "assigned f32"),
    "declared type": (whole(Declare("v", V, Const(1.0, S))), "its value f32"),
    "race": (
        whole(Declare("v", S, Const(0.0, S)),
              For("i", num(0), Size("N"), Block((Assign("v", Const(1.0, S)),)), 1, True)),
        "v is assigned but not declared here",
    ),
    "condition": (whole(If(ONE, EMPTY)), "a condition is f32x8"),
    "cases": (whole(Switch(num(1), ((1, EMPTY), (1, EMPTY)), EMPTY)), "two cases"),
    "two buffers": (whole(buffers=(X, X)), "two buffers share"),
    "role": (whole(buffers=(Buffer("x", F32, (), "local"),)), "the role local"),
    "stack": (whole(buffers=(Buffer("s", F32, (Size("N"),), "stack"),)), "are not constant"),
    "threads": (
        whole(buffers=(Buffer("t", F32, (Size("N"),), "temp", per_thread=True),)),
        "no thread's own",
    ),
    "table": (whole(buffers=(Buffer("t", F32, (num(1),), "table"),)), "has no values"),
    "extent": (whole(buffers=(Buffer("x", F32, (Var("q"),), "in"),)), "the index q"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_refused(what: str) -> None:
    function, message = WRONG[what]
    with pytest.raises(VectorError, match=message):
        verify(function, target("avx2"))


def test_accepted() -> None:
    first = FirstLanes(add(Size("N"), num(-1)), M)
    body = (
        Declare("s", V, ONE),
        over(8, Assign("s", Op("add", (Ref("s", V), Load("x", I, V, None, first)), V))),
        If(Const(True, VType(BOOL)), Block((Store("y", num(0), Ref("s", V), None, first),))),
    )
    verify(whole(*body), target("avx2"))
    with pytest.raises(VectorError, match="fits no register of c"):
        verify(whole(*body), target("c"))
