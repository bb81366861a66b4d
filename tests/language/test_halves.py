"""f16 and bf16: stored in 16 bits, computed in f32, rounded after every operation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from tdsl.runtime.callable import CompiledKernel
from tests.language.run import Array, compiled, everywhere, interpreted

TEXT = """
kernel widen(N) { in x: HALF[N] out y: f32[N]  y[i] = f32(x[i]) }
kernel narrow(N) { in x: f32[N] out y: HALF[N]  y[i] = HALF(x[i]) }
kernel narrow64(N) { in x: f64[N] out y: HALF[N]  y[i] = HALF(x[i]) }
kernel count(N) { in x: i32[N] out y: HALF[N]  y[i] = HALF(x[i]) }
kernel mixed(N) { in x: HALF[N] in w: HALF[N] out y: HALF[N]  y[i] = x[i] * w[i] + 1.5 }
kernel above(N) { in x: HALF[N] out y: i32[N]  y[i] = select(x[i] > 0.5, i32(x[i]), -1) }
kernel total(M, N) { in x: HALF[M, N] out y: HALF[M]  y[i] = sum[j](x[i, j]) }
kernel lanes(M, N) { in x: HALF[M, N] out y: HALF[M]  y[i] = sum[j](x[i, j]) }
kernel most(M, N) { assume N >= 1 in x: HALF[M, N] out y: HALF[M]  y[i] = max[j](x[i, j]) }
kernel shifted(N) { in x: HALF[N] out y: HALF[N]  y[i] = padded(x[i - 1], 0.0) }
kernel taken(N) { in x: HALF[N] in p: i32[N] range 0..N out y: HALF[N]  y[i] = x[p[i]] }
kernel matmul(M, N, K) {
    in  A: HALF[M, K]
    in  B: HALF[K, N]
    out C: HALF[M, N]
    c[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))
    C[i, j] = HALF(c[i, j])
}
kernel scaled(N) { in a: HALF inout x: HALF[N]  x[i] *= a }
schedule widen for any { vectorize i }
schedule narrow for any { vectorize i }
schedule narrow64 for any { vectorize i }
schedule count for any { vectorize i }
schedule mixed for any { vectorize i }
schedule above for any { vectorize i }
schedule total for any { reorder j, i  vectorize i }
schedule lanes for any { reassociate y  split i by 2 -> io, ii  unroll ii  vectorize j }
schedule most for any { vectorize j }
schedule shifted for any { vectorize i }
schedule taken for any { vectorize i }
schedule matmul for any { reorder c.i, c.k, c.j  unroll c.i by 2  vectorize j }
schedule scaled for any { vectorize i }
"""
LENGTHS = (0, 1, 7, 37, 64)


def _to_bf16(value: Array) -> Array:
    """The upper half of the nearest f32, ties to even; of an f64 by way of odd rounding."""
    wide = np.asarray(value, np.float64)
    with np.errstate(over="ignore"):
        near = wide.astype(np.float32)
    away = np.abs(near.astype(np.float64)) > np.abs(wide)
    lower = np.where(away, np.nextafter(near, np.float32(0), dtype=np.float32), near)
    bits = lower.view(np.uint32).astype(np.uint64)
    inexact = np.isfinite(wide) & (lower.astype(np.float64) != wide)
    bits |= inexact.astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)
    return np.where(np.isnan(wide), 0x7FC0, rounded).astype(np.uint16)


def _from_bf16(bits: Array) -> Array:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _to_f16(value: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(value).astype(np.float16)


def _from_f16(stored: Array) -> Array:
    return stored.astype(np.float32)


Pair = tuple[Callable[[Array], Array], Callable[[Array], Array]]
HALVES: dict[str, Pair] = {"f16": (_to_f16, _from_f16), "bf16": (_to_bf16, _from_bf16)}


def _values(shape: tuple[int, ...], seed: int) -> Array:
    values = np.random.default_rng(seed).standard_normal(shape) * 3
    if values.size > 8:
        values.reshape(-1)[:8] = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-6, 6e-8, 65520.0]
    return np.asarray(values)


def _same(half: str, got: Array, want: Array) -> None:
    """The same numbers, whatever the bits of a NaN; zeros with their signs."""
    to_f32 = HALVES[half][1]
    g, w = to_f32(got), to_f32(want)
    assert np.array_equal(g, w, equal_nan=True)
    assert (np.signbit(g) == np.signbit(w))[~np.isnan(w)].all()


@cache
def _compiled(half: str, kernel: str, on: str, strict: bool) -> CompiledKernel:
    return compiled(TEXT.replace("HALF", half), kernel, on, strict_fp=strict)


def _run(on: str, half: str, kernel: str, arrays: dict[str, Array], output: str = "y") -> Array:
    """Compiled, strict and not, which must be what the interpreter says."""
    text = TEXT.replace("HALF", half)
    oracle: Array = interpreted(text, kernel, arrays)[output]
    for strict in (True, False):
        fast = _compiled(half, kernel, on, strict)
        got = np.asarray(fast(**{n: a.copy() for n, a in arrays.items()}))
        if got.dtype == np.int32 or got.dtype == np.float32:
            assert np.array_equal(got, oracle, equal_nan=got.dtype == np.float32)
        else:
            _same(half, got, oracle)
    return oracle


@everywhere
@pytest.mark.parametrize("half", HALVES)
def test_conversions(on: str, half: str) -> None:
    to, back = HALVES[half]
    for n in LENGTHS:
        x = to(_values((n,), n))
        assert np.array_equal(_run(on, half, "widen", {"x": x}), back(x), equal_nan=True)
        for exponent in (0, 4, -5, -8, 38):
            with np.errstate(over="ignore"):
                wide = (_values((n,), n + 1) * 10.0**exponent).astype(np.float32)
            _same(half, _run(on, half, "narrow", {"x": wide}), to(wide))
            third = wide.astype(np.float64) / 3.0
            _same(half, _run(on, half, "narrow64", {"x": third}), to(third))


@everywhere
@pytest.mark.parametrize("half", HALVES)
def test_integers(on: str, half: str) -> None:
    to, _ = HALVES[half]
    x = np.random.default_rng(1).integers(-100000, 100000, 67).astype(np.int32)
    _same(half, _run(on, half, "count", {"x": x}), to(x.astype(np.float64)))


@everywhere
@pytest.mark.parametrize("half", HALVES)
def test_every_operation_rounds(on: str, half: str) -> None:
    to, back = HALVES[half]
    for n in LENGTHS:
        x, w = to(_values((n,), n)), to(_values((n,), n + 5))
        with np.errstate(all="ignore"):
            product = back(to(back(x) * back(w)))
            want = to(product + np.float32(1.5))
        _same(half, _run(on, half, "mixed", {"x": x, "w": w}), want)


@everywhere
@pytest.mark.parametrize("half", HALVES)
def test_comparisons(on: str, half: str) -> None:
    to, back = HALVES[half]
    x = to(np.random.default_rng(3).standard_normal(71) * 9)
    want = np.where(back(x) > 0.5, np.trunc(back(x)), -1).astype(np.int32)
    assert (_run(on, half, "above", {"x": x}) == want).all()


@everywhere
@pytest.mark.parametrize("half", HALVES)
def test_sums_round_at_every_term(on: str, half: str) -> None:
    to, back = HALVES[half]
    x = to(np.random.default_rng(4).standard_normal((21, 40)))
    total = to(np.zeros(21))
    for j in range(40):
        total = to(back(total) + back(x[:, j]))
    _same(half, _run(on, half, "total", {"x": x}), total)


@everywhere
@pytest.mark.parametrize("half", HALVES)
def test_lanes_are_joined_and_moved(on: str, half: str) -> None:
    to, back = HALVES[half]
    rng = np.random.default_rng(7)
    for m, n in ((5, 33), (2, 64), (1, 7)):
        x = rng.integers(-4, 5, (m, n)).astype(np.float32)
        p = rng.permutation(n).astype(np.int32)
        cases: list[tuple[str, dict[str, Array], Array]] = [
            ("lanes", {"x": to(x)}, x.sum(axis=1)),
            ("most", {"x": to(x)}, x.max(axis=1)),
            ("shifted", {"x": to(x[0])}, np.concatenate([[0], x[0, :-1]])),
            ("taken", {"x": to(x[0]), "p": p}, x[0][p]),
        ]
        for kernel, arrays, want in cases:
            got = _compiled(half, kernel, on, False)(**arrays)
            assert (back(np.asarray(got)) == want).all(), kernel


@everywhere
@pytest.mark.parametrize("half", HALVES)
def test_a_product_of_matrices_in_f32(on: str, half: str) -> None:
    to, back = HALVES[half]
    rng = np.random.default_rng(5)
    a = to(rng.integers(-8, 9, (5, 9)).astype(np.float32))
    b = to(rng.integers(-8, 9, (9, 37)).astype(np.float32))
    _same(half, _run(on, half, "matmul", {"A": a, "B": b}, "C"), to(back(a) @ back(b)))


@everywhere
@pytest.mark.parametrize("half", HALVES)
def test_a_number_by_value(on: str, half: str) -> None:
    to, back = HALVES[half]
    x, a = to(_values((19,), 6)), np.asarray(to(np.asarray(0.3)))
    with np.errstate(all="ignore"):
        want = to(back(x) * back(a.reshape(1))[0])
    _same(half, _run(on, half, "scaled", {"a": a, "x": x}, "x"), want)
