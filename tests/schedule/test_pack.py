"""Packed operands: results against NumPy on guarded pages, and what the copies look like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tdsl
from tdsl import driver
from tdsl.ir.kernel import Const, Read, Select, Size, walk
from tdsl.lower.specialize import instances
from tdsl.polyhedral.program import Stmt
from tdsl.runtime.guard import guarded, guarded_copy
from tdsl.syntax.parser import parse
from tdsl.targets.target import TARGETS as TARGETS_BY_NAME
from tests.schedule.run import scheduled

Array = np.ndarray[Any, Any]
TARGETS = ["native", "c", "avx2", pytest.param("neon", marks=pytest.mark.neon)]

MATMUL = """
kernel matmul(M, N, K) {
    in  A: i32[M, K]
    in  B: i32[K, N]
    out C: i32[M, N]
    C[i, j] = sum[k](A[i, k] * B[k, j])
}
schedule matmul for any {
    on C {
        split j by 64 -> jc, j1
        split k by 16 -> kc, k1
        split i by 6 -> ic, i1
        split j1 by 32 -> jr, j0
        split i1 by 3 -> ir, i0
        reorder jc, kc, ic, jr, ir, k1, i0, j0
        unroll i0
        vectorize j0
    }
    DIRECTIVES
}
"""
SIZES = (
    (0, 3, 2), (3, 0, 2), (3, 4, 0), (1, 1, 1), (6, 32, 16), (7, 33, 17), (5, 31, 15), (13, 67, 35)
)  # fmt: skip
BOTH = "pack B at kc as Bp[jr, k1, j0]  pack A at ic as Ap[ir, k1, i0]"


def compiled(text: str, name: str, target: str, **options: Any) -> Any:
    module = tdsl.parse(text, name="pack.tdsl")
    return module[name].compile(target, **options)


def ran(function: Any, arrays: Mapping[str, Array], out: str, shape: tuple[int, ...]) -> Array:
    """The result with every array at a forbidden page, first at its end, then at its start."""
    results: list[Array] = []
    for end in (True, False):
        passed = {n: guarded_copy(a, end=end) for n, a in arrays.items()}
        dtype = next(iter(arrays.values())).dtype
        passed[out] = guarded(shape, dtype, end=end)
        passed[out].fill(77)
        function(**passed)
        results.append(passed[out].copy())
    np.testing.assert_array_equal(results[0], results[1])
    return results[0]


def numbers(seed: int, *shape: int, dtype: str = "int32") -> Array:
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype)


def check_products(directives: str, target: str, **options: Any) -> None:
    function = compiled(MATMUL.replace("DIRECTIVES", directives), "matmul", target, **options)
    for m, n, k in SIZES:
        bound = options.get("sizes", {})
        if all({"M": m, "N": n, "K": k}[s] == v for s, v in bound.items()):
            a, b = numbers(1, m, k), numbers(2, k, n)
            got = ran(function, {"A": a, "B": b}, "C", (m, n))
            np.testing.assert_array_equal(got, a @ b)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "directives",
    [
        f"{BOTH}  on Bp {{ vectorize j0 }}",
        f"{BOTH}  on Ap {{ tile k1, i0 by 4, 2 -> ko, io, ki, ii tail peel }}",
        "pack B at kc as [k1, jr, j0] in scratch  pack A at C.jc as [i0, ir, ic, k1, kc]"
        "  parallel C.ic",
    ],
)
def test_packed_products_are_right(directives: str, target: str) -> None:
    check_products(directives, target)


@pytest.mark.parametrize(
    "directives",
    [
        "pack B at root as [kc, jc, jr, k1, j0]  pack A at C.jr as [k1, ir, i0]",
        "pack B[k, j] at kc as Bp[j // 32, k, j % 32]  pack A[i, k] at C.ic as [k, i]",
        "pack B[k, j] at jr as Bp[j, k]  pack A[i, k] at C.jc as [i % 3, k, i // 3]",
        "parallel ic  pack A at ic as Ap[ir, k1, i0] in scratch  on Ap { reorder i0, ir, k1 }",
        f"{BOTH}  on Bp {{ reorder k1, jr, j0  split k1 by 5 -> ko, ki  vectorize j0  unroll ki }}",
    ],
)
def test_other_orders_and_places_are_right(directives: str) -> None:
    check_products(directives, "native")


@pytest.mark.parametrize("sizes", [{"M": 13}, {"N": 67}, {"M": 5, "N": 31, "K": 15}])
def test_bound_sizes(sizes: dict[str, int]) -> None:
    check_products(BOTH, "native", sizes=sizes)


def pack_of(directives: str, sizes: Mapping[str, int] | None = None) -> tuple[Stmt, Any, Any]:
    """The statement and the array of the copy, and the schedule."""
    made = scheduled(MATMUL.replace("DIRECTIVES", directives), sizes=sizes)
    (copy,) = [s for s in made.program.statements.values() if s.copies]
    return copy, made.program.arrays[copy.write.array], made


def test_dimensions_are_full_tiles_in_the_order_of_the_list() -> None:
    copy, array, made = pack_of("pack B at kc as Bp[jr, k1, j0]")
    assert copy.indices == ("jc", "kc", "jr", "k1", "j0")
    assert array.shape == (Const(2, array.shape[0].type), Const(16, array.shape[0].type),
                           Const(32, array.shape[0].type))  # fmt: skip
    assert array.role == "stack"
    assert made.private["Bp"]


def test_a_bound_size_below_the_tile_keeps_the_tile() -> None:
    _, array, _ = pack_of("pack B at kc as Bp[jr, k1, j0]", {"N": 20, "K": 5})
    assert [e.value for e in array.shape] == [1, 16, 32]


def test_what_is_as_long_as_a_size_is_scratch() -> None:
    _, array, _ = pack_of("pack B at jc as Bp[kc, k1, jr, j0]")
    assert array.role == "scratch"
    assert Size("K") in [e for extent in array.shape for e in walk(extent)]


def test_the_select_is_dropped_where_all_is_read() -> None:
    """A's rows are a tile, which reads zeros behind M; its columns end with K."""
    copy, _, _ = pack_of("pack A at ic as Ap[ir, k1, i0]", {"M": 12})
    assert isinstance(copy.value, Read)
    copy, _, _ = pack_of("pack A at ic as Ap[ir, k1, i0]", {"M": 13})
    assert isinstance(copy.value, Select)


def test_subscripts_name_loops() -> None:
    """No division is left to the inner loop: the reader has the coordinates as indices."""
    _, _, made = pack_of("pack B at kc as Bp[jr, k1, j0]")
    reader = made.program.statements["C"]
    assert {"jc", "kc", "jr"} <= set(reader.indices)
    (read,) = [a for a in reader.reads if a.array == "Bp"]
    ops = [e.op for i in read.subscript for e in walk(i) if hasattr(e, "op")]
    assert not {"floordiv", "mod"} & set(ops)
    assert reader.origin is not None and reader.origin.statement == "C"


@pytest.mark.parametrize("target", ["avx512", "c"])
def test_whole_blocks_ask_for_nothing(target: str) -> None:
    """The copy runs in two versions: one that only moves elements, one at the ends of arrays."""
    text = MATMUL.replace("DIRECTIVES", f"{BOTH}  on Bp {{ vectorize j0 }}")
    done = driver.run(parse(text, "pack.tdsl"), driver.Options("matmul", TARGETS_BY_NAME[target]))
    for name in ("Ap", "Bp"):
        found = [i.decided for i in instances(done.lowered.versions) if i.statement == name]
        assert found == [True, False]


CONV = """
kernel conv(N, H, C, K) {
    let P = H - 1
    assume P >= 1
    in    x: i32[N, H, C]
    const w: i32[2, C, K]
    out   y: i32[N, P, K]
    xp[n, h, c] = padded(x[n, h - 1, c], 3)
    acc[n, p, k] = sum[r in 0..2, c](xp[n, p + r, c] * w[r, c, k])
    y[n, p, k] = acc[n, p, k] + 1
}
schedule conv for any {
    on y {
        split k by 16 -> ko, ki tail mask
        split p by 4 -> po, pi tail cases
        reorder n, ko, po, pi, ki
        unroll pi
        vectorize ki
    }
    PREPARED
    DIRECTIVES
}
"""


def conv(x: Array, w: Array) -> Array:
    n, h, c = x.shape
    xp = np.full((n, h + 1, c), 3, x.dtype)
    xp[:, 1:] = x
    out: Array = xp[:, : h - 1] @ w[0] + xp[:, 1:h] @ w[1] + 1
    return out


COMPUTED = """compute acc at y.po
    on acc { reorder r, c, p, k  unroll c by 2 plain  unroll p  vectorize k }"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("prepared", "directives"),
    [
        ("inline xp", "pack w at prepare as [ko, r, c, k]"),
        ("inline xp", "pack w at prepare as [ko, r, c, k]  pack x at y.po as [r, c, p]"),
        ("", "compute xp at y.n  pack w at y.ko as [r, c, k]  pack xp at y.po as [c, r, p]"),
    ],
)
def test_weights_and_padded_inputs(prepared: str, directives: str, target: str) -> None:
    text = CONV.replace("PREPARED", f"{prepared}\n{COMPUTED}").replace("DIRECTIVES", directives)
    function = compiled(text, "conv", target)
    for n, h, c, k in ((1, 2, 1, 1), (2, 9, 5, 16), (1, 6, 4, 33), (1, 5, 3, 15)):
        x, w = numbers(3, n, h, c), numbers(4, 2, c, k)
        np.testing.assert_array_equal(function(x=x, w=w), conv(x, w))
