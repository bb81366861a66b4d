"""bf16 conversions against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tdsl.ir.lowfloat import from_bf16, round_bf16, to_bf16
from tdsl.ir.types import BF16
from tests.ir.exact import nearest

EVERY = np.arange(1 << 16, dtype=np.uint16)


def decoded(pattern: int) -> float:
    """A bf16 number from its fields."""
    sign = -1.0 if pattern >> 15 else 1.0
    exponent, fraction = pattern >> 7 & 0xFF, pattern & 0x7F
    if exponent == 0xFF:
        return math.nan if fraction else sign * math.inf
    if exponent == 0:
        return sign * fraction * 2.0**-133
    return sign * (128 + fraction) * 2.0 ** (exponent - 134)


def test_every_pattern_decodes_by_its_fields() -> None:
    want = np.array([decoded(int(p)) for p in EVERY])
    np.testing.assert_array_equal(from_bf16(EVERY), want)
    assert (np.signbit(from_bf16(EVERY)) == (EVERY >> 15 == 1)).all()


def test_every_pattern_comes_back() -> None:
    values = from_bf16(EVERY)
    number = ~np.isnan(values)
    np.testing.assert_array_equal(to_bf16(values)[number], EVERY[number])
    np.testing.assert_array_equal(to_bf16(values[number].astype(np.float64)), EVERY[number])
    assert np.isnan(from_bf16(to_bf16(values[~number]))).all()


def test_midpoints_and_their_neighbours() -> None:
    low = from_bf16(np.arange(0x0000, 0x7F7F, 37, dtype=np.uint16)).astype(np.float64)
    high = from_bf16(np.arange(0x0001, 0x7F80, 37, dtype=np.uint16)).astype(np.float64)
    middle = (low + high) / 2
    for values in (middle, np.nextafter(middle, np.inf), np.nextafter(middle, 0), -middle):
        want = np.array([nearest(Fraction(v), BF16) for v in values.tolist()])
        np.testing.assert_array_equal(round_bf16(values), want)
    exact = middle.astype(np.float32)
    for narrow in (exact, np.nextafter(exact, np.float32(np.inf))):
        want = np.array([nearest(Fraction(v), BF16) for v in narrow.tolist()])
        np.testing.assert_array_equal(round_bf16(narrow), want)


def test_a_nan_with_a_low_payload_stays_a_nan() -> None:
    pattern = np.array([0x7F800001, 0xFF800001, 0x7FFFFFFF], np.uint32)
    assert np.isnan(from_bf16(to_bf16(pattern.view(np.float32)))).all()


def test_overflow_and_scalars() -> None:
    assert from_bf16(to_bf16(3.4e38)) == np.float32(np.inf)
    assert from_bf16(to_bf16(np.float64(-1e300))) == np.float32(-np.inf)
    assert from_bf16(to_bf16(np.float32(1.0))) == 1.0
    assert to_bf16(1.0) == 0x3F80
