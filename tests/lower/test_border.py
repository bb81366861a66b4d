"""Borders apart: where tests are left, how loops are taken apart, and what they give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import tdsl
from tdsl.driver import Compilation, Options, run
from tdsl.ir import loops as ir
from tdsl.ir import vector as v
from tdsl.ir.index import add, compare, const, maximum, minimum
from tdsl.ir.kernel import Const, Var
from tdsl.ir.walk_vector import item_values, items, values_in
from tdsl.polyhedral.borders import MOST_VERSIONS
from tdsl.polyhedral.known import Known, range_facts
from tdsl.polyhedral.rebuild import Miscompiled
from tdsl.polyhedral.validate import validate_versions
from tdsl.syntax.parser import parse
from tdsl.targets.target import TARGETS
from tests.schedule.test_inline import convolved

RNG = np.random.default_rng(11)

CONV = """
kernel conv<pad = 1, stride = 1>(H, W, C, K, R, S) {
    let OH = (H + 2 * pad - R) // stride + 1
    let OW = (W + 2 * pad - S) // stride + 1
    assume OH >= 1, OW >= 1
    in  x: f32[H, W, C]
    in  w: f32[R, S, C, K]
    out y: f32[OH, OW, K]
    xp[h, v, c] = padded(x[h - pad, v - pad, c], 0.0)
    y[p, q, k]  = sum[r, s, c](xp[p * stride + r, q * stride + s, c] * w[r, s, c, k])
}
schedule conv for any {
    inline xp
    on y {
        split k by 2 * lanes(f32) -> ko, ki  tail mask
        split q by 6 -> qo, qi  tail cases
        reorder ko, p, qo, r, s, c, qi, ki
        unroll qi
        vectorize ki
    }
}
"""
LAYER = {"H": 56, "W": 56, "C": 64, "K": 64, "R": 3, "S": 3}

DEPTHWISE = """
kernel depthwise<stride = 1, pad = 1>(H, W, C) {
    let OH = (H + 2 * pad - 3) // stride + 1
    let OW = (W + 2 * pad - 3) // stride + 1
    assume OH >= 1, OW >= 1
    in  x: f32[H, W, C]
    in  w: f32[3, 3, C]
    out y: f32[OH, OW, C]
    y[p, q, c] = sum[r in 0..3, s in 0..3](
        padded(x[p * stride + r - pad, q * stride + s - pad, c], 0.0) * w[r, s, c])
}
schedule depthwise for any {
    on y {
        split q by 2 -> qo, qi  tail cases
        split c by lanes(f32) -> co, ci  tail mask
        reorder p, co, qo, r, s, qi, ci
        unroll r, s, qi
        vectorize ci
        parallel p
    }
}
"""

POOL = """
kernel pool<stride = 2, pad = 1>(H, W, C) {
    let OH = (H + 2 * pad - 3) // stride + 1
    let OW = (W + 2 * pad - 3) // stride + 1
    assume OH >= 1, OW >= 1, H >= 1, W >= 1
    in  x: f32[H, W, C]
    out y: f32[OH, OW, C]
    y[p, q, c] = max[r in 0..3, s in 0..3 where 0 <= p * stride + r - pad < H
                     and 0 <= q * stride + s - pad < W](
        x[p * stride + r - pad, q * stride + s - pad, c])
}
schedule pool for any {
    on y {
        split c by lanes(f32) -> co, ci
        reorder p, q, co, r, s, ci
        unroll r, s
        vectorize ci
        SPLIT
    }
}
"""

STENCIL = """
kernel stencil(N) {
    in  x: f32[N]
    out y: f32[N]
    y[i] = padded(x[i - 2], 0.0) + 2.0 * x[i] + padded(x[i + 1], -1.0)
}
schedule stencil for any { vectorize i }
"""


def lowered(text: str, name: str, **sizes: int) -> Compilation:
    return run(parse(text, "kernel.tdsl"), Options(name, TARGETS["avx2"], sizes))


def below(item: ir.Item) -> Iterator[ir.Item]:
    yield item
    match item:
        case ir.Block(parts):
            inner: tuple[ir.Item, ...] = parts
        case ir.For(body=body) | ir.Scope(body=body):
            inner = (body,)
        case ir.If(_, then, other):
            inner = (then,) if other is None else (then, other)
        case ir.Switch(_, cases, default):
            inner = (*(b for _, b in cases), *([] if default is None else [default]))
        case _:
            inner = ()
    for part in inner:
        yield from below(part)


def ranges(block: ir.Block, var: str) -> list[tuple[int, int]]:
    """The numbers between which the loops over a variable run."""
    found = []
    for item in below(block):
        if isinstance(item, ir.For) and item.var == var:
            assert isinstance(item.lo, Const) and isinstance(item.hi, Const)
            found.append((int(item.lo.value), int(item.hi.value)))
    return found


def has_tests(block: v.Block) -> bool:
    """Whether some value, load or branch depends on a condition."""
    for item in items(block):
        if isinstance(item, v.If | v.Switch):
            return True
        for top in item_values(item):
            for value in values_in(top):
                if isinstance(value, v.Choose | v.Condition | v.FirstLanes):
                    return True
                if isinstance(value, v.Load) and value.mask is not None:
                    return True
    return False


def innermost(part: Compilation, var: str) -> list[v.For]:
    body = part.lowered.final.body
    return [i for i in items(body) if isinstance(i, v.For) and i.var == var]


# ---------------------------------------------------------------- shape


def test_three_ranges_of_rows_and_three_of_pixels() -> None:
    part = lowered(CONV, "conv", **LAYER)
    assert ranges(part.lowered.versions, "p") == [(0, 1), (1, 55), (55, 56)]
    # Blocks of 6 pixels: the first has pixel 0, the last two pixels.
    assert ranges(part.lowered.versions, "qo") == [(0, 1), (1, 9), (9, 10)] * 3
    assert ranges(part.lowered.loops, "p") == [(0, 56)]


def test_the_middle_has_no_test_and_no_mask() -> None:
    part = lowered(CONV, "conv", **LAYER)
    free = [not has_tests(loop.body) for loop in innermost(part, "c")]
    assert free == [False, False, False, False, True, False, False, False, False]


def test_in_the_middle_rows_only_the_first_pixel_is_tested() -> None:
    part = lowered(CONV, "conv", **LAYER)
    left = innermost(part, "c")[3]  # middle rows, first block of pixels
    loads = [x for i in items(left.body) for top in item_values(i) for x in values_in(top)
             if isinstance(x, v.Load) and x.buffer == "x"]  # fmt: skip
    assert len(loads) == 6
    assert [x.mask is not None for x in loads] == [True, False, False, False, False, False]


def test_one_version_without_tests_for_all_sizes() -> None:
    part = lowered(CONV, "conv")
    loops = innermost(part, "c")
    assert any(not has_tests(loop.body) for loop in loops)
    assert len(loops) <= 2 * MOST_VERSIONS


def test_threads_get_a_condition_instead_of_parts() -> None:
    part = lowered(DEPTHWISE, "depthwise", H=112, W=112, C=16)
    rows = [i for i in items(part.lowered.final.body) if isinstance(i, v.For) and i.var == "p"]
    assert len(rows) == 1 and rows[0].parallel
    (choice,) = [i for i in rows[0].body.items if isinstance(i, v.If)]
    middle = [i for i in items(choice.then) if isinstance(i, v.For) and i.var == "qo"]
    assert [has_tests(loop.body) for loop in middle] == [False, False, False]


def test_windows_are_whole_in_the_middle() -> None:
    part = lowered(POOL.replace("SPLIT", ""), "pool", H=56, W=56, C=16)
    assert ranges(part.lowered.versions, "p") == [(0, 1), (1, 28)]
    assert ranges(part.lowered.versions, "q") == [(0, 1), (1, 28)] * 2
    loads = [len([i for i in items(loop.body) if isinstance(i, v.Let)]) for loop in
             innermost(part, "co")]  # fmt: skip
    assert loads == [4, 6, 6, 9]  # a corner, the sides, the middle
    assert not any(isinstance(i, v.If | v.Switch) for i in items(part.lowered.final.body))


def test_whole_vectors_are_not_masked() -> None:
    part = lowered(STENCIL, "stencil", N=1000)
    assert ranges(part.lowered.versions, "i") == [(0, 1), (1, 124), (124, 125)]
    assert [has_tests(loop.body) for loop in innermost(part, "i")] == [True, False, True]


def test_loops_that_count_terms_stay_whole() -> None:
    text = CONV.replace("reorder ko, p, qo, r, s, c, qi, ki", "reorder ko, r, s, p, qo, c, qi, ki")
    part = lowered(text, "conv", **LAYER)
    assert ranges(part.lowered.versions, "r") == [(0, 3)]
    assert ranges(part.lowered.versions, "s") == [(0, 3)]


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(("target", "pad", "stride"), [("avx2", 1, 1), ("avx2", 3, 2), ("c", 2, 1)])
def test_values_of_a_convolution(target: str, pad: int, stride: int) -> None:
    constants = {"pad": pad, "stride": stride}
    conv = tdsl.parse(CONV)["conv"].compile(target=target, constants=constants)
    w = RNG.standard_normal((3, 3, 2, 5)).astype(np.float32)
    for height, width in ((1, 1), (1, 13), (2, 5), (3, 6), (4, 7), (13, 1), (12, 20)):
        if min(height, width) + 2 * pad < 3:
            continue
        x = RNG.standard_normal((height, width, 2)).astype(np.float32)
        got = conv(x=x, w=w)
        np.testing.assert_allclose(got, convolved(x, w, pad, stride), rtol=1e-5, atol=1e-5)


def test_values_at_bound_sizes() -> None:
    sizes = {"H": 9, "W": 20, "C": 3, "K": 17, "R": 3, "S": 3}
    conv = tdsl.parse(CONV)["conv"].compile(target="avx2", sizes=sizes)
    x = RNG.standard_normal((9, 20, 3)).astype(np.float32)
    w = RNG.standard_normal((3, 3, 3, 17)).astype(np.float32)
    np.testing.assert_allclose(conv(x=x, w=w), convolved(x, w, 1, 1), rtol=1e-5, atol=1e-5)


def test_a_chunk_without_lanes_loads_nothing_from_outside() -> None:
    """The last block of k has no second vector; what it would load for all its lanes stays under
    its condition all the same. (The check of instances looks at every address.)"""
    sizes = {"H": 9, "W": 17, "C": 5, "K": 37, "R": 3, "S": 3}
    wide = CONV.replace("split k by lanes(f32)", "split k by 2 * lanes(f32)")
    conv = tdsl.parse(wide)["conv"].compile(target="avx2", sizes=sizes)
    x = RNG.standard_normal((9, 17, 5)).astype(np.float32)
    w = RNG.standard_normal((3, 3, 5, 37)).astype(np.float32)
    np.testing.assert_allclose(conv(x=x, w=w), convolved(x, w, 1, 1), rtol=1e-5, atol=1e-5)


def test_values_of_a_depthwise_convolution() -> None:
    depthwise = tdsl.parse(DEPTHWISE)["depthwise"].compile(target="avx2")
    for height, width, channels in ((1, 1, 1), (2, 3, 8), (3, 2, 9), (7, 6, 19), (6, 9, 16)):
        x = RNG.standard_normal((height, width, channels)).astype(np.float32)
        w = RNG.standard_normal((3, 3, channels)).astype(np.float32)
        full = np.zeros((3, 3, channels, channels), dtype=np.float32)
        full[:, :, range(channels), range(channels)] = w
        want = convolved(x, full, 1, 1)
        np.testing.assert_allclose(depthwise(x=x, w=w), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("split", ["", "parallel p"])
def test_values_of_a_pool(split: str) -> None:
    pool = tdsl.parse(POOL.replace("SPLIT", split))["pool"].compile(target="avx2")
    for height, width, channels in ((1, 1, 3), (2, 3, 8), (5, 4, 9), (8, 9, 17)):
        x = RNG.standard_normal((height, width, channels)).astype(np.float32)
        outside = ((1, 1), (1, 1), (0, 0))
        padded = np.pad(x, outside, constant_values=-np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1))
        np.testing.assert_array_equal(pool(x=x), windows[::2, ::2].max(axis=(3, 4)))


def test_values_of_a_stencil() -> None:
    stencil = tdsl.parse(STENCIL)["stencil"].compile(target="avx2", strict_fp=True)
    for n in (0, 1, 2, 3, 7, 8, 9, 16, 17, 50):
        x = RNG.standard_normal(n).astype(np.float32)
        early = np.concatenate([[0, 0], x]).astype(np.float32)[:n]
        late = np.concatenate([x[1:], [-1]]).astype(np.float32)[:n]
        np.testing.assert_array_equal(stencil(x=x), early + np.float32(2) * x + late)


# ---------------------------------------------------------------- nets


def moved(block: ir.Block, var: str, number: int, by: int) -> ir.Block:
    """The code with the border between two parts of a loop moved in one of them."""
    seen = [0]

    def edit(item: ir.Item) -> ir.Item:
        match item:
            case ir.For():
                if item.var == var:
                    seen[0] += 1
                    if seen[0] == number:
                        return replace(item, hi=add(item.hi, const(by)))
                return replace(item, body=inside(item.body))
            case ir.Scope():
                return replace(item, body=inside(item.body))
            case ir.Block():
                return inside(item)
            case ir.If(condition, then, other):
                rest = None if other is None else inside(other)
                return ir.If(condition, inside(then), rest)
            case _:
                return item

    def inside(old: ir.Block) -> ir.Block:
        return ir.Block(tuple(edit(i) for i in old.items))

    return inside(block)


@pytest.mark.parametrize("by", [-1, 1])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_parts_that_overlap_or_leave_out_are_seen(number: int, by: int) -> None:
    part = lowered(STENCIL, "stencil", N=1000)
    wrong = moved(part.lowered.versions, "i", number, by)
    validate_versions(part.lowered.program, part.lowered.loops, part.lowered.versions)
    with pytest.raises(Miscompiled):
        validate_versions(part.lowered.program, part.lowered.loops, wrong)


def test_parts_that_are_no_neighbours_may_not_overlap() -> None:
    part = lowered(STENCIL, "stencil", N=1000)
    block = part.lowered.versions
    wrong = moved(block, "i", 1, 130)  # 0..131, then from there on
    (parts,) = wrong.items
    assert isinstance(parts, ir.Block)
    first, middle, last = parts.items
    assert isinstance(first, ir.For) and isinstance(middle, ir.For)
    chained = ir.Block((first, replace(middle, lo=first.hi), last))
    with pytest.raises(Miscompiled):
        validate_versions(part.lowered.program, part.lowered.loops, ir.Block((chained,)))


def test_what_ranges_imply() -> None:
    part = lowered(STENCIL, "stencil")
    known = Known(part.lowered.program)
    (loop,) = [i for i in below(part.lowered.loops) if isinstance(i, ir.For)]
    (instance,) = [i for i in below(loop) if isinstance(i, ir.Instance)]
    (count,) = [d.count for d in instance.dims]  # min(8, N - 8 * i)
    assert count is not None
    facts = range_facts("i", loop.lo, loop.hi)
    assert known.decide(compare("ge", count, const(1)), facts) is True
    assert known.decide(compare("ge", count, const(8)), facts) is None
    assert known.decide(compare("ge", count, const(9)), facts) is False
    assert known.shorter(maximum(Var("i"), const(-3)), facts) == Var("i")
    assert known.shorter(minimum(Var("i"), const(-3)), facts) == const(-3)
    assert known.shorter(minimum(Var("i"), const(3)), facts) == minimum(Var("i"), const(3))
