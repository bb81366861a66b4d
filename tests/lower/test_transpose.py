"""Copies that are transposed in registers: squares of every size, what is left of them, packs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tdsl.diagnostics import Error
from tdsl.driver import Options, run
from tdsl.ir import vector as v
from tdsl.ir.walk_vector import items
from tdsl.lower.check_instances import check_instances
from tdsl.polyhedral.rebuild import Miscompiled
from tdsl.polyhedral.validate import Order
from tdsl.syntax.parser import parse
from tdsl.targets import TARGETS
from tests.cases.harness import poisoned
from tests.lower.moving import EVERYWHERE, X86, at_offset, compiled, untouched

TURN = """
kernel turn<T: type = f32>(M, N) {
    in  x: T[M, N]
    out y: T[N, M]
    y[j, i] = x[i, j]
}
schedule turn for any { DIRECTIVES }
"""
SIZES = (
    (0, 5), (5, 0), (1, 1), (1, 8), (7, 7), (8, 8), (9, 8), (8, 17), (16, 16), (19, 37), (33, 32),
)  # fmt: skip


def tiled(height: int, width: int, order: str = "ji, ii", **more: str) -> str:
    text = f"tile j, i by {height}, {width} -> jo, io, ji, ii  transpose {order}"
    return TURN.replace("DIRECTIVES", more.get("before", "") + text + more.get("after", ""))


@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize(
    ("height", "width"), [(4, 4), (8, 8), (16, 16), (4, 8), (12, 4), (7, 9), (16, 24)]
)
def test_tiles_of_every_shape(height: int, width: int, target: str) -> None:
    turn = compiled(tiled(height, width), "turn", target)
    for shape in SIZES[:: 1 if target != "neon" else 4]:
        x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
        np.testing.assert_array_equal(turn(x=x), x.T)


@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize("elem", ["f64", "i64", "i32", "f16", "u16", "i8", "bool"])
def test_other_elements(elem: str, target: str) -> None:
    turn = compiled(tiled(16, 16), "turn", target, constants={"T": elem})
    kind = np.dtype({"f16": np.float16, "bool": np.bool_, "f64": np.float64}.get(
        elem, f"{'uint' if elem[0] == 'u' else 'int'}{elem[1:]}"))  # fmt: skip
    for shape in ((1, 1), (16, 16), (17, 35), (32, 16)):
        x = (np.arange(shape[0] * shape[1]) % 97).astype(kind).reshape(shape)
        np.testing.assert_array_equal(turn(x=x), x.T)


@pytest.mark.parametrize("target", X86)
def test_no_tile_reaches_beyond_its_pages(target: str) -> None:
    turn = compiled(tiled(8, 8), "turn", target)
    for end in (False, True):
        for shape in SIZES:
            x = poisoned(shape, np.dtype(np.float32), end=end)
            x[...] = np.arange(x.size).reshape(shape)
            y = poisoned(shape[::-1], np.dtype(np.float32), end=end)
            turn(x=x, y=y)
            np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize("target", X86)
@pytest.mark.parametrize("order", ["ji, ii", "ii, ji"])
def test_streamed_tiles_at_any_address(order: str, target: str) -> None:
    turn = compiled(tiled(8, 8, order, after="  stream y"), "turn", target)
    for shape in SIZES:
        x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
        for elements in (0, 1, 8):
            y, raw = at_offset(shape[::-1], np.float32, elements)
            turn(x=x, y=y)
            np.testing.assert_array_equal(y, x.T)
            assert untouched(y, raw)


@pytest.mark.parametrize("target", EVERYWHERE)
def test_more_than_a_copy(target: str) -> None:
    """Any expression of what is read goes through the registers."""
    text = """
    kernel relu(M, N) {
        in  x: f32[M, N]
        in  z: f32[M, N]
        out y: f32[N, M]
        y[j, i] = select(i < 13, max(x[i, j], 0.0) + z[i, j] * 2.0, -1.0)
    }
    schedule relu for any { tile j, i by 8, 8 -> jo, io, ji, ii  transpose ji, ii }
    """
    relu = compiled(text, "relu", target)
    rng = np.random.default_rng(2)
    for m, n in ((1, 1), (16, 8), (17, 24), (24, 9)):
        x, z = (rng.integers(-9, 9, (m, n)).astype(np.float32) for _ in range(2))
        want = (np.maximum(x, 0) + z * 2).T
        want[:, 13:] = -1
        np.testing.assert_array_equal(relu(x=x, z=z), want)


STRIDED = """
kernel turn(M, N, lda) {
    assume lda >= N
    in  x: f32[M, N] strides [lda, 1]
    out y: f32[N, M]
    y[j, i] = x[i, j]
}
schedule turn for any {
    tile j, i by 8, 8 -> jo, io, ji, ii
    transpose ji, ii
    stream y
    prefetch x at y.io ahead 1
}
"""
LAID_OUT = """
kernel turn(M, N) {
    in  x: f32[M, N]
    out y: f32[N, M]
    assume M % 8 == 0
    y[j, i] = x[i, j]
}
schedule turn for any {
    layout y[j, i] as [i // 8, j, i % 8]
    tile y.i, y.j by 8, 8 -> io, jo, ii, ji
    transpose ii, ji
}
"""
PREPARED = """
kernel product(M, N, K) {
    in    A: f32[M, K]
    const B: f32[N, K]
    out   C: f32[M, N]
    C[i, j] = sum[k](A[i, k] * B[j, k])
}
schedule product for any {
    tile i, j by 4, 16 -> io, jo, ii, ji
    reorder io, jo, k, ii, ji
    unroll ii
    vectorize ji
    pack B at prepare as Bp[jo, k, ji]
    on Bp { tile ji, k by 8, 8 -> jt, kt, j8, k8  transpose j8, k8 }
    prefetch Bp at C.k ahead 8
    stream C
}
"""


@pytest.mark.parametrize("target", EVERYWHERE)
def test_rows_apart_and_stored_in_blocks(target: str) -> None:
    strided = compiled(STRIDED, "turn", target)
    laid_out = compiled(LAID_OUT, "turn", target)
    for m, n in ((8, 8), (16, 20), (24, 9)):
        wide = np.arange(m * (n + 5), dtype=np.float32).reshape(m, n + 5)
        np.testing.assert_array_equal(strided(x=wide[:, :n]), wide[:, :n].T)
        x = np.ascontiguousarray(wide[:, :n])
        blocks = x.T.reshape(n, m // 8, 8).transpose(1, 0, 2)
        np.testing.assert_array_equal(laid_out(x=x), blocks)


@pytest.mark.parametrize("target", X86)
def test_a_pack_that_is_prepared(target: str) -> None:
    product = compiled(PREPARED, "product", target)
    assert "tdsl_transpose_f32x8(" in product.c_source
    rng = np.random.default_rng(4)
    for m, n, k in ((1, 1, 1), (4, 16, 8), (9, 37, 19)):
        a, b = (rng.integers(-5, 5, (rows, k)).astype(np.float32) for rows in (m, n))
        np.testing.assert_array_equal(product(A=a, B=b), a @ b.T)


PACKED = """
kernel turn(M, N) {
    in  x: f32[M, N]
    out y: f32[N, M]
    y[j, i] = x[i, j]
}
schedule turn for any {
    on y {
        split i by 32 -> io, ii
        split j by 16 -> jo, ji
        reorder io, jo, ji, ii
        vectorize ii by 16
        parallel io
    }
    pack x at y.jo as t[ji, ii] in stack
    on t {
        tile ii, ji by 8, 8 -> it, jt, i8_, j8_
        transpose i8_, j8_
    }
    stream y
}
"""


@pytest.mark.parametrize("target", EVERYWHERE)
def test_a_pack_that_is_transposed(target: str) -> None:
    turn = compiled(PACKED, "turn", target)
    for shape in SIZES[:: 1 if target != "neon" else 4]:
        x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
        for elements in (0, 4):
            y, raw = at_offset(shape[::-1], np.float32, elements)
            turn(x=x, y=y)
            np.testing.assert_array_equal(y, x.T)
            assert untouched(y, raw)


def columns(text: str, target: str) -> list[v.Column]:
    file = parse(text, "turn.tdsl")
    body = run(file, Options("turn", TARGETS[target])).lowered.function.body
    lets = [i.value for i in items(body) if isinstance(i, v.Let)]
    return [value for value in lets if isinstance(value, v.Column)]


def test_the_largest_squares_that_a_target_has() -> None:
    wanted = {"avx512": (16, 16), "avx2": (4 * 8, 8), "neon": (16 * 4, 4)}
    for target, (count, lanes) in wanted.items():
        found = columns(tiled(16, 16), target)
        assert len(found) == count
        assert {c.type.lanes for c in found} == {lanes}


@pytest.mark.parametrize("target", X86)
def test_full_tiles_have_no_lane_by_lane_code(target: str) -> None:
    source = compiled(tiled(8, 8), "turn", target).c_source
    assert "tdsl_transpose_f32x8(" in source
    assert "tdsl_column" not in source
    assert "_mm256_permute2f128_ps" in source


def test_a_wrong_column_is_noticed() -> None:
    """The second check knows which element each lane of a column is."""
    c = run(parse(tiled(8, 8), "turn.tdsl"), Options("turn", TARGETS["avx2"]))
    order = Order(c.dependences)
    check_instances(c.lowered.program, c.lowered, order)

    def swapped(block: v.Block) -> v.Block:
        return v.Block(tuple(changed(item) for item in block.items))

    def changed(item: v.Item) -> v.Item:
        match item:
            case v.Let(_, v.Column() as column) if column.lane == 3:
                return replace(item, value=replace(column, lane=4))
            case v.Let(_, v.Column() as column) if column.lane == 4:
                return replace(item, value=replace(column, lane=3))
            case v.For():
                return replace(item, body=swapped(item.body))
            case v.If(condition, then, other):
                return v.If(condition, swapped(then), other)
            case _:
                return item

    body = swapped(c.lowered.function.body)
    assert body != c.lowered.function.body
    wrong = replace(c.lowered, function=replace(c.lowered.function, body=body))
    with pytest.raises(Miscompiled):
        check_instances(c.lowered.program, wrong, order)


REFUSED = (
    ("transpose i, j", "no constant number of iterations"),
    ("split i by 8 -> io, ii  transpose ii, j", "not the two innermost"),
    ("tile j, i by 8, 1 -> jo, io, ji, ii  transpose ji, ii", "one iteration"),
    ("tile j, i by 8, 8 -> jo, io, ji, ii  transpose jo, ii", "not the two innermost"),
    ("tile j, i by 8, 8 -> jo, io, ji, ii  vectorize ii  transpose ji, ii", "vectorized already"),
    ("tile j, i by 8, 8 -> jo, io, ji, ii  transpose ji, ii  vectorize ii", "transposed already"),
    ("tile j, i by 8, 8 -> jo, io, ji, ii  transpose ji, ii  split ii by 2 -> a, b", "transposed"),
    ("tile j, i by 8, 100 -> jo, io, ji, ii  transpose ji, ii", "64 at most"),
    ("tile j, i by 8, 8 -> jo, io, ji, ii  transpose ji, ji", "named twice"),
)


@pytest.mark.parametrize(("directives", "words"), REFUSED)
def test_refused(directives: str, words: str) -> None:
    with pytest.raises(Error, match=words):
        compiled(TURN.replace("DIRECTIVES", directives), "turn", "c")


@pytest.mark.parametrize(
    ("equation", "words"),
    [
        ("y[i, j] = x[i, j]", "both go along ji: vectorize ji"),
        ("y[i, j] = x[j, 2 * i]", "ii does not go along the last dimension of x"),
        ("y[i, j] = sum[k in 0..N](x[j, k])", "no plain copy|innermost"),
        ("y[i, j] = 0.0", "reads no array"),
    ],
)
def test_what_is_no_transposed_copy_is_refused(equation: str, words: str) -> None:
    text = f"""
    kernel copy(N) {{
        in  x: f32[2 * N, 2 * N]
        out y: f32[N, N]
        {equation}
    }}
    schedule copy for any {{ tile y.i, y.j by 8, 8 -> io, jo, ii, ji  transpose y.ii, y.ji }}
    """
    with pytest.raises(Error, match=words):
        compiled(text, "copy", "c")
