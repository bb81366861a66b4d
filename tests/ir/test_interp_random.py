"""Random kernels: the oracle, in blocks and recorded, equals an interpreter of single instances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tdsl.ir.interp_statement
from tdsl.diagnostics import BoundsError
from tdsl.ir.interp import reference
from tdsl.ir.kernel import INDEX, BodyItem, Expr, Kernel, Statement
from tdsl.ir.types import I32
from tests.ir.build import (
    Index,
    add,
    array,
    between,
    cast,
    const,
    iop,
    ix,
    kernel,
    mul,
    nest,
    op,
    read,
    select,
    statement,
)
from tests.ir.naive import Event, Naive, Refused

# A and T are state, B is read only; T starts without values.
A = array("A", I32, 4, 3, role="inout")
B = array("B", I32, 4, 3)
T = array("T", I32, 4, 3, role="temp")
SHAPE = (4, 3)

Draw = st.DrawFn


@st.composite
def affine(draw: Draw, names: tuple[str, ...]) -> Expr:
    """A small combination of some indices."""
    total: Expr = ix(draw(st.integers(-1, 2)))
    for name in names:
        factor = draw(st.sampled_from([0, 0, 1, 1, -1, 2]))
        if factor:
            total = add(total, mul(factor, name))
    return total


@st.composite
def subscript(draw: Draw, names: tuple[str, ...], wild: bool) -> tuple[Expr, ...]:
    """Two indices, brought into the array in one of several ways (or, if wild, not at all)."""
    places = []
    for extent in SHAPE:
        e = draw(affine(names))
        match draw(st.integers(0, 9)):
            case 0 if wild:
                places.append(e)
            case 1 | 2 | 3:
                places.append(iop("max", 0, iop("min", e, extent - 1)))
            case _:
                places.append(iop("mod", e, extent))
    return tuple(places)


@st.composite
def value(draw: Draw, names: tuple[str, ...], depth: int = 2) -> Expr:
    """An expression of i32."""
    kind = draw(st.integers(0, 6 if depth else 2))
    if kind == 0:
        return const(draw(st.integers(-3, 3)), I32)
    if kind == 1:
        return cast(draw(affine(names)), I32)
    if kind in (2, 3):
        source = draw(st.sampled_from([A, B, B, T]))
        places = draw(subscript(names, draw(st.integers(0, 4)) == 0))
        if draw(st.integers(0, 9)) == 0:  # data choose the element
            inner = cast(read(B, *draw(subscript(names, False))), INDEX)
            places = (iop("mod", inner, SHAPE[0]), places[1])
        return read(source, *places)
    left, right = draw(value(names, depth - 1)), draw(value(names, depth - 1))
    if kind == 4:
        if draw(st.booleans()):
            condition: Expr = iop("lt", draw(affine(names)), draw(affine(names)))
        else:
            condition = op("le", left, right)
        return select(condition, left, right)
    name = draw(st.sampled_from(["add", "sub", "mul", "min", "max", "floordiv", "mod"]))
    return op(name, left, right)


@st.composite
def one_statement(draw: Draw, name: str, outside: tuple[str, ...]) -> Statement:
    """A definition, an update or a reduction with up to three indices of its own."""
    own = ("i", "j")[: draw(st.integers(0, 2))]
    form = draw(st.sampled_from(["define", "plain", "update", "update", "sum", "add-sum"]))
    free = (*outside, *own)
    reduce = ("k", "l")[: draw(st.integers(1, 2))] if "sum" in form else ()
    domain: list[Expr] = [c for n in outside for c in between(n, 0, 3)]
    for n in (*own, *reduce):
        earlier = tuple(x for x in (*free, *reduce) if x < n)
        lows: list[Index] = [0, 0, 1, *earlier]
        highs: list[Index] = [2, 3, 3, *(add(e, 1) for e in earlier)]
        low, high = draw(st.sampled_from(lows)), draw(st.sampled_from(highs))
        domain += between(n, low, high)
    if draw(st.integers(0, 3)) == 0 and (*own, *reduce):
        domain.append(iop("eq", iop("mod", draw(affine((*own, *reduce))), 2), 0))
    target = draw(st.sampled_from([A, A, T]))
    places: tuple[Expr, ...]
    if form == "plain" or (form == "define" and draw(st.booleans())):
        plain: tuple[Index, ...] = (*own, 0, 0)
        places = (ix(plain[0]), ix(plain[1]))
    else:
        places = draw(subscript(free, draw(st.integers(0, 9)) == 0))
    if form in ("update", "add-sum") and draw(st.integers(0, 5)) == 0:  # a histogram
        chosen = cast(read(draw(st.sampled_from([A, B])), *places), INDEX)
        places = (iop("mod", chosen, SHAPE[0]), places[1])
    join = "define" if form in ("define", "plain") else draw(st.sampled_from(["add", "mul", "max"]))
    return statement(
        target,
        places,
        draw(value((*free, *reduce))),
        *domain,
        op="add" if form == "sum" else join,
        reduce=reduce,
        init=0 if form == "sum" else None,
        indices=(*free, *reduce),
        name=name,
    )


@st.composite
def kernels(draw: Draw) -> Kernel:
    """T is defined (mostly), then one to three statements run, some of them in a loop."""
    start = statement(T, ("i", "j"), read(B, "i", "j"), *between("i", 0, 4), *between("j", 0, 3))
    body: list[BodyItem] = [start] if draw(st.integers(0, 5)) else []
    for n in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            inside = draw(one_statement(f"S{n}", ("h",)))
            down, step = draw(st.booleans()), draw(st.integers(1, 2))
            body.append(nest("h", 0, 3, inside, down=down, step=step))
        else:
            body.append(draw(one_statement(f"S{n}", ())))
    return kernel((A, B, T), *body)


@settings(max_examples=300)
@given(kernels(), st.integers(0, 2**32 - 1), st.sampled_from([1 << 17, 1, 3]))
def test_random_kernels(k: Kernel, seed: int, block: int) -> None:
    rng = np.random.default_rng(seed)
    data = {n: rng.integers(-9, 9, SHAPE).astype(np.int32) for n in ("A", "B")}
    events: list[Event] = []

    def record(*event: object) -> None:
        events.append(event)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tdsl.ir.interp_statement, "BLOCK", block)
        try:
            naive = Naive(k, {}, data)
        except Refused:
            with pytest.raises(BoundsError):
                reference(k, {}, data)
            with pytest.raises(BoundsError):
                reference(k, {}, data, record)
            return
        np.testing.assert_array_equal(reference(k, {}, data)["A"], naive.result("A"))
        np.testing.assert_array_equal(reference(k, {}, data, record)["A"], naive.result("A"))
    assert events == naive.events
