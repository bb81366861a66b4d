"""The verifier of the kernel level finds each kind of breach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tdsl.ir.affine import number
from tdsl.ir.kernel import (
    INDEX,
    Array,
    Cast,
    Const,
    Expr,
    Kernel,
    Nest,
    Op,
    Read,
    Size,
    Statement,
    Var,
)
from tdsl.ir.types import BOOL, F32, I32
from tdsl.ir.verify_kernel import InvalidKernel, verify_kernel

N, i, k = Size("N"), Var("i"), Var("k")


def between(name: str) -> tuple[Expr, ...]:
    return (
        Op("le", (number(0), Var(name)), BOOL),
        Op("lt", (Var(name), N), BOOL),
    )


X = Array("x", F32, (N,), "in")
Y = Array("y", F32, (N,), "out")
READ = Read("x", (i,), F32)
S = Statement("S", "y", (i,), ("i",), between("i"), "define", READ)
KERNEL = Kernel("f", ("N",), (), (X, Y), (S,))
SUM = replace(
    S, indices=("i", "k"), domain=(*between("i"), *between("k")), op="add",
    value=Read("x", (k,), F32), reduction=("k",), init=Const(0.0, F32), outer=between("i"),
)  # fmt: skip


def with_statement(statement: Statement) -> Kernel:
    return replace(KERNEL, body=(statement,))


def valued(value: Expr) -> Kernel:
    return with_statement(replace(S, value=value))


def test_sound_kernels_pass() -> None:
    verify_kernel(KERNEL)
    verify_kernel(with_statement(SUM))
    verify_kernel(replace(KERNEL, body=(Nest("i", number(0), N, False, 1, (S,)),)))


BREACHES: dict[str, Callable[[], Kernel]] = {
    "two arrays": lambda: replace(KERNEL, arrays=(X, X, Y)),
    "two statements": lambda: replace(KERNEL, body=(S, S)),
    "unknown array": lambda: valued(Read("z", (i,), F32)),
    "unknown index": lambda: valued(Read("x", (k,), F32)),
    "unknown size": lambda: valued(Read("x", (Size("M"),), F32)),
    "rank of x": lambda: valued(Read("x", (i, i), F32)),
    "read as": lambda: valued(Read("x", (i,), I32)),
    "rank of y": lambda: with_statement(replace(S, subscript=())),
    "into f32": lambda: valued(Const(1, I32)),
    "add of": lambda: valued(Op("add", (READ, Const(1, I32)), F32)),
    "add gives": lambda: valued(Op("add", (READ, READ), BOOL)),
    "arguments": lambda: valued(Op("neg", (READ, READ), F32)),
    "floordiv of f32": lambda: valued(Op("floordiv", (READ, READ), F32)),
    "unknown operation": lambda: valued(Op("plus", (READ, READ), F32)),
    "as f32": lambda: valued(Const(1, F32)),
    "bitcast": lambda: valued(Cast("bitcast", Const(1, replace(I32, bits=64)), F32)),
    "cast round": lambda: valued(Cast("round", READ, F32)),
    "nothing bounds i": lambda: with_statement(replace(S, domain=between("i")[:1])),
    "reads data": lambda: with_statement(
        replace(S, domain=(*between("i"), Op("lt", (READ, Const(1.0, F32)), BOOL)))
    ),
    "writes in x": lambda: with_statement(replace(S, array="x")),
    "reduced indices last": lambda: with_statement(replace(SUM, indices=("k", "i"))),
    "unknown index k": lambda: with_statement(replace(SUM, subscript=(k,))),
    "reduces nothing": lambda: with_statement(replace(S, init=Const(0.0, F32))),
    "type of the initial value": lambda: with_statement(replace(SUM, init=Const(0, I32))),
    "any of f32": lambda: with_statement(replace(SUM, op="any", init=Const(0.0, F32))),
    "nest's indices": lambda: replace(KERNEL, body=(Nest("t", number(0), N, False, 1, (S,)),)),
    "has step 0": lambda: replace(KERNEL, body=(Nest("i", number(0), N, False, 0, (S,)),)),
    "hides another": lambda: replace(
        KERNEL, body=(Nest("i", number(0), N, False, 1, (Nest("i", N, N, False, 1, ()),)),)
    ),
    "f32 where an index": lambda: with_statement(replace(S, subscript=(READ,))),
    "index where a condition": lambda: replace(KERNEL, assumptions=(Op("add", (N, N), INDEX),)),
    "has 1 values": lambda: replace(
        KERNEL, arrays=(X, Y, Array("t", F32, (number(2),), "table", values=(0.5,)))
    ),
}


@pytest.mark.parametrize("said", BREACHES)
def test_breaches_are_found(said: str) -> None:
    with pytest.raises(InvalidKernel, match=said):
        verify_kernel(BREACHES[said]())
