"""Unrolled sums with constant coefficients: how many operations are left, and what they give."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from itertools import count

import numpy as np
import pytest

import tdsl
from tdsl.diagnostics import IllegalSchedule
from tdsl.driver import Compilation, Options, run
from tdsl.ir import vector as v
from tdsl.ir.types import F32
from tdsl.ir.walk_vector import item_values, items, values_in
from tdsl.lower.linear import Form, NotLinear, linear, representable, shared, value_of
from tdsl.syntax.parser import parse
from tdsl.targets.target import TARGETS

RNG = np.random.default_rng(3)

B4 = [
    [4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0],
    [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0], [0, 4, 0, -5, 0, 1],
]  # fmt: skip
A4 = [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]
B2 = [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]]

TRANSFORM = """
const M: f32[ROWS, COLUMNS] = VALUES
kernel transform(T, C) {
    in  x: f32[T, 2, COLUMNS, C]
    out y: f32[T, 2, ROWS, C]
    y[t, i, f, c] = sum[j](M[f, j] * x[t, i, j, c])
}
schedule transform for any {
    reassociate y
    on y {
        split c by lanes(f32) -> co, ci  tail mask
        reorder t, co, i, f, j, ci
        unroll i, f, j
        vectorize ci
    }
}
"""

# Both one-dimensional transforms in one nest, the first in memory that the second reads.
BOTH = """
const M: f32[6, 6] = VALUES
kernel both(T, C) {
    in  x: f32[T, 6, 6, C]
    out y: f32[T, 6, 6, C]
    v[t, i, f, c] = sum[j](M[f, j] * x[t, i, j, c])
    y[t, e, f, c] = sum[i](M[e, i] * v[t, i, f, c])
}
schedule both for any {
    reassociate v, y
    split v.c, y.c by lanes(f32) -> co, ci  tail mask
    on v { reorder t, co, i, f, j, ci }
    on y { reorder t, co, e, f, i, ci }
    fuse v.t, y.t -> t
    fuse v.co, y.co -> co
    unroll v.i, v.f, v.j, y.e, y.f, y.i
    vectorize v.ci, y.ci
}
"""

# What is made of the sums.
AFTER = """
const M: f32[4, 6] = VALUES
kernel after(T, C) {
    in  x: f32[T, 6, C]
    out y: f32[T, 4, C]
    s[t, f, c] = sum[j](M[f, j] * x[t, j, c])
    y[t, f, c] = max(s[t, f, c], 0.0)
}
schedule after for any {
    reassociate s
    split s.c, y.c by lanes(f32) -> co, ci  tail mask
    on s { reorder t, co, f, j, ci }
    on y { reorder t, co, f, ci }
    fuse s.t, y.t -> t
    fuse s.co, y.co -> co
    unroll s.f, s.j, y.f
    vectorize s.ci, y.ci
}
"""


def text(matrix: list[list[int]], template: str = TRANSFORM) -> str:
    values = str([float(x) for row in matrix for x in row])
    return (
        template.replace("VALUES", values)
        .replace("ROWS", str(len(matrix)))
        .replace("COLUMNS", str(len(matrix[0])))
    )


def lowered(source: str, name: str, target: str = "avx512") -> Compilation:
    return run(parse(source, "kernel.tdsl"), Options(name, TARGETS[target], {"C": 32}))


def operations(part: Compilation) -> Counter[str]:
    """The arithmetic of the function that is printed."""
    body = part.lowered.final.body
    return Counter(
        x.op
        for item in items(body)
        for top in item_values(item)
        for x in values_in(top)
        if isinstance(x, v.Op)
    )


# Operations of one transform. F(4,3) input: t = d4 - 4 d2, u = d3 - 4 d1, t + u, t - u; the same
# with d4 - d2 and 2 (d3 - d1); two sums of three terms. Output: m1 + m2, m1 - m2, m3 + m4,
# m3 - m4, then 2 + 1 + 1 + 2.
@pytest.mark.parametrize(("matrix", "most"), [(B4, 12), (A4, 10), (B2, 4)])
def test_operations_of_the_winograd_transforms(matrix: list[list[int]], most: int) -> None:
    found = operations(lowered(text(matrix), "transform"))
    assert sum(found.values()) == 2 * most  # i in 0..2
    assert found["mul"] == 0


def test_nothing_is_added_to_zero_and_each_element_is_loaded_once() -> None:
    part = lowered(text(B4), "transform")
    inside = list(items(part.lowered.final.body))
    loads = [i for i in inside if isinstance(i, v.Let) and isinstance(i.value, v.Load)]
    assert len(loads) == 2 * 6
    assert not [i for i in inside if isinstance(i, v.Assign)]
    zeros = [x for i in inside for top in item_values(i) for x in values_in(top)
             if isinstance(x, v.Const) and x.value in (0, 1)]  # fmt: skip
    assert not zeros


def test_without_reassociate_every_term_is_added() -> None:
    found = operations(lowered(text(B4).replace("reassociate y", ""), "transform"))
    assert found["fma"] + found["add"] >= 2 * 36


@pytest.mark.parametrize("target", ["c", "avx2"])
@pytest.mark.parametrize("matrix", [B4, A4, B2], ids=["B4", "A4", "B2"])
def test_values(matrix: list[list[int]], target: str) -> None:
    transform = tdsl.parse(text(matrix))["transform"].compile(target=target)
    for channels in (1, 8, 19, 32):
        x = RNG.standard_normal((3, 2, len(matrix[0]), channels)).astype(np.float32)
        exact = np.array(matrix, dtype=np.float64)
        want = np.einsum("fj,tijc->tifc", exact, x.astype(np.float64))
        np.testing.assert_allclose(transform(x=x), want, rtol=1e-5, atol=1e-5)


def test_two_transforms_one_behind_the_other() -> None:
    both = tdsl.parse(text(B4, BOTH))["both"].compile(target="avx2")
    m = np.array(B4, dtype=np.float64)
    for channels in (8, 19):
        x = RNG.standard_normal((2, 6, 6, channels)).astype(np.float32)
        want = np.einsum("ei,fj,tijc->tefc", m, m, x.astype(np.float64))
        np.testing.assert_allclose(both(x=x), want, rtol=1e-4, atol=1e-4)


def test_what_is_made_of_a_sum_follows_it() -> None:
    found = operations(lowered(text(A4, AFTER), "after"))
    assert found["max"] == 4
    assert sum(found.values()) == 4 + 10
    after = tdsl.parse(text(A4, AFTER))["after"].compile(target="avx2")
    x = RNG.standard_normal((2, 6, 19)).astype(np.float32)
    want = np.einsum("fj,tjc->tfc", np.array(A4, dtype=np.float64), x.astype(np.float64))
    np.testing.assert_allclose(after(x=x), np.maximum(want, 0), rtol=1e-5, atol=1e-5)


def test_operations_of_two_transforms() -> None:
    found = operations(lowered(text(B4, BOTH), "both"))
    assert sum(found.values()) == 12 * 12


def test_strict_fp_refuses_to_fold() -> None:
    options = Options("transform", TARGETS["avx512"], {"C": 32}, strict_fp=True)
    with pytest.raises(IllegalSchedule, match="reassociate is not allowed"):
        run(parse(text(B4), "kernel.tdsl"), options)


def test_zero_times_infinity_stays_without_reassociate() -> None:
    source = text([[0, 1], [1, 0]]).replace("reassociate y", "")
    x = np.full((1, 2, 2, 8), np.inf, dtype=np.float32)
    y = tdsl.parse(source)["transform"].compile(target="avx2")(x=x)
    assert np.isnan(y).all()


# ---------------------------------------------------------------- forms


TYPE = v.VType(F32, 8)


def test_random_rows_keep_their_meaning() -> None:
    """Named sub-sums put back give the rows that they were taken from."""
    random.seed(5)
    atoms = [v.Ref(f"x_{n}", TYPE) for n in range(6)]
    numbers = count()
    for _ in range(200):
        rows: list[Form] = []
        for _ in range(random.randint(1, 6)):
            chosen = random.sample(atoms, random.randint(1, 6))
            rows.append({a: Fraction(random.choice([-8, -2, -1, 1, 2, 3, 4])) for a in chosen})
        made, short = shared(rows, F32, lambda: v.Ref(f"t_{next(numbers)}", TYPE))
        known: dict[str, Form] = {}
        for ref, pair in made:
            known[ref.name] = linear(value_of(pair, TYPE, fma=True), known)
        for before, after in zip(rows, short, strict=True):
            assert linear(value_of(after, TYPE, fma=True), known) == before
            assert linear(value_of(after, TYPE, fma=False), known) == before
        terms = sum(len(r) for r in short) + sum(len(p) - 1 for _, p in made)
        assert terms <= sum(len(r) for r in rows)


def test_products_that_are_not_fused() -> None:
    x, y, z = (v.Ref(f"x_{n}", TYPE) for n in range(3))
    form: Form = {x: Fraction(-5), y: Fraction(1), z: Fraction(-1)}
    found = [e.op for e in values_in(value_of(form, TYPE, fma=False)) if isinstance(e, v.Op)]
    assert sorted(found) == ["mul", "sub", "sub"]
    found = [e.op for e in values_in(value_of(form, TYPE, fma=True)) if isinstance(e, v.Op)]
    assert sorted(found) == ["fnma", "sub"]


def test_what_is_no_number_of_the_type_is_not_folded() -> None:
    assert representable(Fraction(1, 4), F32)
    assert not representable(Fraction(1, 3), F32)
    assert not representable(Fraction(2**24 + 1), F32)
    assert not representable(Fraction(2**200), F32)
    infinite = v.Op("mul", (v.Const(float("inf"), TYPE), v.Ref("x_0", TYPE)), TYPE)
    with pytest.raises(NotLinear):
        linear(infinite, {})
