"""What the oracle refuses, and what it must not refuse."""

from __future__ import annotations

import numpy as np
import pytest

from tdsl.diagnostics import BoundsError, Source, Span
from tdsl.ir.interp import reference
from tdsl.ir.kernel import INDEX, Expr, Kernel, Read
from tdsl.ir.types import F32, I32, U8
from tests.ir.build import (
    add,
    array,
    between,
    cast,
    const,
    iop,
    kernel,
    nest,
    op,
    read,
    select,
    statement,
    table,
)

X, Y = array("x", F32, "N"), array("y", F32, "N", role="out")
DATA = {"x": np.arange(1, 6, dtype=np.float32)}


def one(value: Expr, *domain: Expr) -> Kernel:
    return kernel((X, Y), statement(Y, ("i",), value, *(domain or between("i", 0, "N"))))


def test_a_read_outside_names_statement_element_and_instance() -> None:
    with pytest.raises(BoundsError, match=r"y reads x\[5\], outside its shape \[5\] at i = 4"):
        reference(one(read(X, add("i", 1))), {}, DATA)
    with pytest.raises(BoundsError, match=r"y reads x\[-1\], outside its shape \[5\] at i = 0"):
        reference(one(read(X, add("i", -1))), {}, DATA)


def test_a_refusal_shows_the_place() -> None:
    span = Span(Source("k.tdsl", "y[i] = x[i + 1]"), 7, 15)
    bad = Read("x", (add("i", 1),), F32, span=span)
    with pytest.raises(BoundsError) as caught:
        reference(one(bad), {}, DATA)
    assert caught.value.diagnostics[0].span == span


def test_a_write_outside() -> None:
    k = one(read(X, "i"), *between("i", 0, add("N", 1)))
    guarded = select(iop("lt", "i", "N"), read(X, "i"), const(0.0, F32))
    with pytest.raises(BoundsError, match=r"y reads x\[5\]|y writes y\[5\]"):
        reference(k, {}, DATA)
    k = one(guarded, *between("i", 0, add("N", 1)))
    with pytest.raises(BoundsError, match=r"y writes y\[5\], outside its shape \[5\] at i = 5"):
        reference(k, {}, DATA)


def test_an_output_that_is_not_wholly_written() -> None:
    with pytest.raises(BoundsError, match=r"the output element y\[3\] is never written"):
        reference(one(read(X, "i"), *between("i", 0, add("N", -2))), {}, DATA)


def test_an_element_defined_twice() -> None:
    k = kernel(
        (X, Y),
        statement(Y, (iop("floordiv", "i", 2),), read(X, "i"), *between("i", 0, "N"), name="S"),
    )
    with pytest.raises(
        BoundsError, match=r"S writes y\[0\], which it has already written at i = 1"
    ):
        reference(k, {}, DATA)


def test_reads_of_what_was_never_written() -> None:
    t = array("t", F32, "N", role="temp")
    half = statement(t, ("i",), read(X, "i"), *between("i", 0, 3))
    whole = statement(Y, ("i",), read(t, "i"), *between("i", 0, "N"))
    with pytest.raises(BoundsError, match=r"y reads t\[3\], which was never written at i = 3"):
        reference(kernel((X, Y, t), half, whole), {}, DATA)
    chosen = select(iop("lt", "i", 3), read(t, "i"), const(9.0, F32))
    k = kernel((X, Y, t), half, statement(Y, ("i",), chosen, *between("i", 0, "N")))
    np.testing.assert_array_equal(reference(k, {}, DATA)["y"], [1, 2, 3, 9, 9])


def test_an_update_of_what_was_never_written() -> None:
    update = statement(Y, ("i",), read(X, "i"), *between("i", 0, "N"), op="add", name="S")
    with pytest.raises(BoundsError, match=r"S reads y\[0\], which was never written at i = 0"):
        reference(kernel((X, Y), update), {}, DATA)


def test_an_own_temp_of_an_iteration_is_fresh() -> None:
    t = array("t", F32, role="temp", local="i")
    a = array("a", F32, "N", role="inout")
    first = statement(t, (), read(X, "i"), iop("eq", "i", 0), indices=("i",))
    use = statement(a, ("i",), read(t), indices=("i",), name="S")
    loop = nest("i", 0, "N", first, use)
    arrays = {**DATA, "a": np.zeros(5, np.float32)}
    with pytest.raises(BoundsError, match=r"S reads t, which was never written at i = 1"):
        reference(kernel((X, a, t), loop), {}, arrays)
    shared = array("t", F32, role="temp")
    got = reference(kernel((X, a, shared), loop), {}, arrays)["a"]
    np.testing.assert_array_equal(got, [1] * 5)


def test_an_arm_that_is_not_chosen_may_leave_the_array() -> None:
    """Zero padding in two dimensions, also of an empty array."""
    x, y = array("x", F32, "H", "W"), array("y", F32, add("H", 2), add("W", 2), role="out")
    i, j = add("i", -1), add("j", -1)
    inside = op(
        "and",
        op("and", iop("le", 0, i), iop("lt", i, "H")),
        op("and", iop("le", 0, j), iop("lt", j, "W")),
    )
    padded = select(inside, read(x, i, j), const(7.0, F32))
    domain = (*between("i", 0, add("H", 2)), *between("j", 0, add("W", 2)))
    k = kernel((x, y), statement(y, ("i", "j"), padded, *domain))
    for shape in ((3, 4), (1, 1), (0, 3), (0, 0)):
        data = np.random.default_rng(0).random(shape).astype(np.float32)
        want = np.pad(data, 1, constant_values=7)
        np.testing.assert_array_equal(reference(k, {}, {"x": data})["y"], want)


def test_nested_selects_guard_each_other() -> None:
    """The inner condition reads an element that only the outer arm makes safe."""
    p = array("p", I32, "N")
    inner = select(op("gt", read(p, add("i", 1)), const(0, I32)), read(X, "i"), const(0.0, F32))
    k = kernel(
        (X, Y, p),
        statement(
            Y,
            ("i",),
            select(iop("lt", add("i", 1), "N"), inner, const(-1.0, F32)),
            *between("i", 0, "N"),
        ),
    )
    signs = np.array([0, 1, 0, 1, 1], np.int32)
    got = reference(k, {}, {**DATA, "p": signs})["y"]
    np.testing.assert_array_equal(got, [1, 0, 3, 4, -1])


def test_data_as_an_index() -> None:
    codes, lut = array("codes", U8, "N"), table("lut", F32, (3,), (0.5, 1.5, 2.5))
    look = read(lut, cast(read(codes, "i"), INDEX))
    k = kernel((codes, lut, Y), statement(Y, ("i",), look, *between("i", 0, "N")))
    data = np.array([2, 0, 1, 2], np.uint8)
    np.testing.assert_array_equal(reference(k, {}, {"codes": data})["y"], [2.5, 0.5, 1.5, 2.5])
    with pytest.raises(BoundsError, match=r"y reads lut\[3\], outside its shape \[3\] at i = 1"):
        reference(k, {}, {"codes": np.array([0, 3], np.uint8)})


def test_the_arguments_stay_as_they_are() -> None:
    a = array("a", F32, "N", role="inout")
    k = kernel((X, a), statement(a, ("i",), read(X, "i"), *between("i", 0, "N"), op="mul"))
    x, before = DATA["x"].copy(), np.full(5, 2, np.float32)
    given = before.copy()
    got = reference(k, {}, {"x": x, "a": given})["a"]
    np.testing.assert_array_equal(got, 2 * DATA["x"])
    np.testing.assert_array_equal(given, before)
    np.testing.assert_array_equal(x, DATA["x"])


def test_arrays_of_any_strides() -> None:
    wide = np.arange(24, dtype=np.float32).reshape(6, 4)
    x, y = array("x", F32, "M", "N"), array("y", F32, "M", "N", role="out")
    copy = statement(y, ("i", "j"), read(x, "i", "j"), *between("i", 0, "M"), *between("j", 0, "N"))
    for view in (wide.T, wide[::-1, ::2], np.broadcast_to(wide[0], (3, 4))):
        np.testing.assert_array_equal(reference(kernel((x, y), copy), {}, {"x": view})["y"], view)


def test_an_index_without_a_bound_is_our_mistake() -> None:
    with pytest.raises(ValueError, match="the domain does not bound the index i"):
        reference(one(read(X, "i"), iop("le", 0, "i")), {}, DATA)
