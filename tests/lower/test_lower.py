"""The shape of lowered code: where tests, loads and stores stand, on the vector level."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tdsl.driver import Compilation, Options, emit, run
from tdsl.ir import vector as v
from tdsl.ir.walk_vector import item_values, values_in
from tdsl.syntax.parser import parse
from tdsl.targets.target import TARGETS
from tests.lower.kernels import KERNELS, compiled

MATMUL = """
kernel matmul(M, N, K) {
    in  A: f32[M, K]
    in  B: f32[K, N]
    out C: f32[M, N]
    C[i, j] = sum[k](A[i, k] * B[k, j])
}
schedule matmul for any {
    tile i, j by 6, 2 * lanes(f32) -> io, jo, ii, ji
    reorder jo, io, k, ii, ji
    unroll ii
    vectorize ji
}
"""


def lowered(text: str, name: str, target: str = "avx512", **sizes: int) -> Compilation:
    return run(parse(text, "kernel.tdsl"), Options(name, TARGETS[target], sizes))


def blocks(item: v.Item) -> Iterator[v.Block]:
    """The blocks directly inside an item."""
    match item:
        case v.Block():
            yield item
        case v.For():
            yield item.body
        case v.If(_, then, other):
            yield then
            if other is not None:
                yield other
        case v.Switch(_, cases, default):
            yield from (block for _, block in cases)
            yield default
        case _:
            pass


def items(block: v.Block) -> Iterator[v.Item]:
    """Every item below a block."""
    for item in block.items:
        yield item
        for inner in blocks(item):
            yield from items(inner)


def loops(part: Compilation, name: str) -> list[v.For]:
    return [i for i in items(part.lowered.function.body) if isinstance(i, v.For) and i.var == name]


def values(block: v.Block) -> Iterator[v.Value]:
    for item in items(block):
        for top in item_values(item):
            yield from values_in(top)


def loads(block: v.Block, buffer: str) -> list[v.Load]:
    return [x for x in values(block) if isinstance(x, v.Load) and x.buffer == buffer]


def fullest(part: Compilation, name: str) -> v.For:
    """The loop with the most assignments in its body: that of the full tile."""
    return max(loops(part, name), key=lambda f: sum(isinstance(i, v.Assign) for i in items(f.body)))


def test_the_full_tile_has_no_tests_and_no_masks() -> None:
    inner = fullest(lowered(MATMUL, "matmul"), "k")
    assert not [i for i in items(inner.body) if isinstance(i, v.If | v.Switch | v.For)]
    assert all(x.mask is None for x in values(inner.body) if isinstance(x, v.Load))


def test_the_full_tile_loads_each_element_once_and_keeps_c_in_registers() -> None:
    inner = fullest(lowered(MATMUL, "matmul"), "k")
    assert len(loads(inner.body, "A")) == 6
    assert len(loads(inner.body, "B")) == 2
    assert not loads(inner.body, "C")
    assert not [i for i in items(inner.body) if isinstance(i, v.Store)]
    sums = [i for i in items(inner.body) if isinstance(i, v.Assign)]
    assert len(sums) == len({i.name for i in sums}) == 12


def test_strict_sums_are_not_fused() -> None:
    options = Options("matmul", TARGETS["avx512"], strict_fp=True)
    part = run(parse(MATMUL, "kernel.tdsl"), options)
    assert not [x for x in values(fullest(part, "k").body) if isinstance(x, v.Op) and x.op == "fma"]
    fused = lowered(MATMUL, "matmul")
    ops = [x.op for x in values(fullest(fused, "k").body) if isinstance(x, v.Op)]
    assert ops.count("fma") == 12


def test_rest_rows_are_cases_of_a_switch() -> None:
    part = lowered(MATMUL, "matmul")
    switches = [i for i in items(part.lowered.function.body) if isinstance(i, v.Switch)]
    assert [n for n, _ in switches[0].cases][:5] == [1, 2, 3, 4, 5]
    # It stands outside the loop over k.
    assert all("k" in loops_in(switch) for switch in switches)
    assert not [i for k in loops(part, "k") for i in items(k.body) if isinstance(i, v.Switch)]


def loops_in(switch: v.Switch) -> set[str]:
    return {i.var for block in blocks(switch) for i in items(block) if isinstance(i, v.For)}


def test_masks_are_made_outside_the_loop_over_k() -> None:
    part = lowered(MATMUL, "matmul")
    for loop in loops(part, "k"):
        assert not [x for x in values(loop.body) if isinstance(x, v.FirstLanes)]


def test_bound_sizes_that_divide_leave_one_version() -> None:
    part = lowered(MATMUL, "matmul", M=12, N=64, K=5)
    assert len(loops(part, "k")) == 1
    (loop,) = loops(part, "k")
    assert (loop.lo.value, loop.hi.value) == (0, 5)  # type: ignore[union-attr]
    assert not [i for i in items(part.lowered.function.body) if isinstance(i, v.If | v.Switch)]


@pytest.mark.parametrize("name", KERNELS)
def test_twice_compiled_is_the_same_text(name: str) -> None:
    one, two = (emit("kernel", [compiled(name)]) for _ in range(2))
    assert (one.c_source, one.header) == (two.c_source, two.header)
