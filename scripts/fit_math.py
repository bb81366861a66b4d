"""Fits the polynomials of `tdsl/elementary` and writes them to `coefficients.py` there.

    python scripts/fit_math.py

Each is the polynomial of least greatest weighted error, found by Remez's exchange in 60 digits;
the weight makes the error relative to the function's value. Its coefficients are then rounded to
the element type. The error reached before that rounding is written beside them, in units of
2^-24 (f32) or 2^-53 (f64): all are small against the 2 ulp that the functions promise.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp

OUTPUT = Path(__file__).resolve().parents[1] / "tdsl" / "elementary" / "coefficients.py"
DIGITS = {"f32": 24, "f64": 53}  # of a significand
POINTS = 40  # of the grid, a coefficient
ROUNDS = 30  # at most, of the exchange

Number = Any  # mpmath carries no types


@dataclass(frozen=True)
class Fit:
    """`value` on [low, high] by a polynomial; `count` coefficients for each element type."""

    name: str
    meaning: str
    value: Callable[[Number], Number]
    weight: Callable[[Number], Number]
    low: Number
    high: dict[str, Number]
    count: dict[str, int]


def remez(
    value: Callable[[Number], Number],
    weight: Callable[[Number], Number],
    low: Number,
    high: Number,
    count: int,
) -> tuple[list[Number], Number]:
    """Coefficients, lowest first, and the greatest weighted error on a dense grid."""
    middle, half = (low + high) / 2, (high - low) / 2
    size = POINTS * (count + 1)
    # The ends themselves are left out: there a quotient may be 0 / 0.
    grid = [middle - half * mp.cos(mp.pi * (2 * i + 1) / (2 * size)) for i in range(size)]
    wanted, weights = [value(t) for t in grid], [weight(t) for t in grid]
    chosen = [
        min(size - 1, round(size * (2 * i + 1) / (2 * (count + 1)))) for i in range(count + 1)
    ]
    coefficients: list[Number] = []
    greatest = mp.inf
    for _ in range(ROUNDS):
        rows = [
            [*(grid[p] ** n for n in range(count)), (-1) ** k / weights[p]]
            for k, p in enumerate(chosen)
        ]
        solved = mp.lu_solve(mp.matrix(rows), mp.matrix([wanted[p] for p in chosen]))
        coefficients, level = list(solved[:count]), abs(solved[count])
        errors = [
            (horner(coefficients, t) - f) * w for t, f, w in zip(grid, wanted, weights, strict=True)
        ]
        greatest = max(abs(e) for e in errors)
        if greatest <= level * mp.mpf("1.001"):
            break
        chosen = _extrema(errors, count + 1)
    return coefficients, greatest


def horner(coefficients: Sequence[Number], at: Number) -> Number:
    """The polynomial's value."""
    found = mp.mpf(0)
    for coefficient in reversed(coefficients):
        found = found * at + coefficient
    return found


def _extrema(errors: Sequence[Number], count: int) -> list[int]:
    """`count` places of greatest error with alternating signs."""
    peaks: list[int] = []
    for place, error in enumerate(errors):
        if peaks and (errors[peaks[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[peaks[-1]]):
                peaks[-1] = place
        else:
            peaks.append(place)
    if len(peaks) < count:
        raise ValueError(f"{len(peaks)} extrema where {count} are needed: more digits")
    while len(peaks) > count:  # the smaller end goes; signs go on alternating
        peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
    return peaks


def rounded(value: Number, elem: str) -> float:
    """To the nearest number of the type."""
    number = float(value)
    return float(struct.unpack("f", struct.pack("f", number))[0]) if elem == "f32" else number


def parts(value: Number, elem: str, bits: Sequence[int]) -> tuple[float, ...]:
    """A sum for `value`: parts of so many bits each, cut off, and a last one of a whole number."""
    found: list[float] = []
    rest = value
    for count in bits:
        exponent = int(mp.floor(mp.log(rest, 2))) + 1 - count
        part = mp.ldexp(mp.floor(mp.ldexp(rest, -exponent)), exponent)
        found.append(rounded(part, elem))
        rest -= part
    return (*found, rounded(rest, elem))


def same(high: Number) -> dict[str, Number]:
    """One end for all types."""
    return dict.fromkeys(DIGITS, high)


def fits() -> list[Fit]:
    """All polynomials."""
    half_log2 = mp.log(2) / 2 * mp.mpf("1.001")
    quarter_turn = mp.pi / 4 * mp.mpf("1.001")
    third = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.001")
    return [
        Fit(
            "EXP", "(exp(r) - 1 - r) / r^2, |r| <= ln(2) / 2; the error is relative to expm1",
            lambda r: (mp.exp(r) - 1 - r) / r**2,
            lambda r: r**2 / abs(mp.expm1(r)),
            -half_log2, same(half_log2), {"f32": 5, "f64": 10},
        ),
        Fit(
            "EXP2", "(2^r - 1) / r, |r| <= 1/2",
            lambda r: mp.expm1(r * mp.log(2)) / r,
            lambda r: abs(r) / mp.power(2, r),
            -mp.mpf("0.5005"), same(mp.mpf("0.5005")), {"f32": 6, "f64": 11},
        ),
        Fit(
            "LOG", "(ln(q) / s - 2) / z, z = s^2, q = (1 + s) / (1 - s), 1/sqrt(2) <= q <= sqrt(2)",
            lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z,
            lambda z: z ** mp.mpf("1.5") / (2 * mp.atanh(mp.sqrt(z))),
            mp.mpf(0), same(third), {"f32": 3, "f64": 7},
        ),
        Fit(
            "SIN", "(sin(r) - r) / r^3 in z = r^2, |r| <= pi / 4",
            lambda z: (mp.sin(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** 3,
            lambda z: z ** mp.mpf("1.5") / mp.sin(mp.sqrt(z)),
            mp.mpf(0), same(quarter_turn**2), {"f32": 3, "f64": 6},
        ),
        Fit(
            "COS", "(cos(r) - 1 + r^2 / 2) / r^4 in z = r^2, |r| <= pi / 4",
            lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2,
            lambda z: z**2 / mp.cos(mp.sqrt(z)),
            mp.mpf(0), same(quarter_turn**2), {"f32": 3, "f64": 6},
        ),
        Fit(
            "TANH", "(tanh(x) / x - 1) / z in z = x^2, |x| <= 13 / 16",
            lambda z: (mp.tanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z,
            lambda z: z ** mp.mpf("1.5") / mp.tanh(mp.sqrt(z)),
            mp.mpf(0), same(mp.mpf(13) / 16 * mp.mpf(13) / 16), {"f32": 6, "f64": 13},
        ),
        Fit(
            "ERF", "erf(x) / x - 1 in z = x^2, |x| <= 1",
            lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1,
            lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)),
            mp.mpf(0), same(mp.mpf(1)), {"f32": 7, "f64": 12},
        ),
        Fit(
            "ERFC", "ln(1 - erf(1 + u)), 0 <= u <= ERF_END - 1; the error is relative to erf",
            lambda u: mp.log(mp.erfc(1 + u)),
            lambda u: mp.erfc(1 + u) / mp.erf(1 + u),
            mp.mpf(0), {e: mp.mpf(end) - 1 for e, end in ERF_END.items()}, {"f32": 7, "f64": 18},
        ),
    ]  # fmt: skip


ERF_END = {"f32": 4.0, "f64": 6.0}  # from here on erf(x) rounds to 1


def constants() -> dict[str, tuple[str, dict[str, tuple[float, ...] | float]]]:
    """Names, meanings and values of what is no polynomial."""
    log2 = mp.log(2)
    return {
        "LN2": (
            "ln(2) as a sum; whole numbers below 2^8 (f64: 2^11) times the first part are exact",
            {"f32": parts(log2, "f32", [16]), "f64": parts(log2, "f64", [42])},
        ),
        "LOG2E": ("1 / ln(2)", {e: rounded(1 / log2, e) for e in DIGITS}),
        "HALF_PI": (
            "pi / 2 as a sum; whole numbers below 2^13 (f64: 2^20) times a part are exact",
            {
                "f32": parts(mp.pi / 2, "f32", [11, 11, 11, 11]),
                "f64": parts(mp.pi / 2, "f64", [33, 33, 33]),
            },
        ),
        "HALF_PI_FUSED": (
            "pi / 2 as a sum of whole significands",
            {e: parts(mp.pi / 2, e, [digits] * 2) for e, digits in DIGITS.items()},
        ),
        "TWO_OVER_PI": ("2 / pi", {e: rounded(2 / mp.pi, e) for e in DIGITS}),
        "ERF_END": ("from here on erf(x) rounds to 1", dict(ERF_END)),
    }


def two_over_pi_words() -> list[int]:
    """A word of zeros and the first binary digits of 2 / pi, 64 a word: as many as the largest
    f64, 2^1024, asks for and 192 more."""
    count = (1034 + 192) // 64 + 1
    with mp.workprec(64 * count + 64):
        digits = int(mp.floor(mp.ldexp(2 / mp.pi, 64 * (count - 1))))
    return [digits >> 64 * (count - 1 - n) & 0xFFFFFFFFFFFFFFFF for n in range(count)]


def tuple_text(values: Sequence[float]) -> list[str]:
    return [f"        {value!r}," for value in values]


def text() -> str:
    """The module."""
    lines = [
        '"""Constants of the elementary functions. Written by scripts/fit_math.py: do not edit.',
        "",
        "Polynomials have the least greatest error (Remez); coefficients come lowest power first,",
        "rounded to the type. `error`: before that, in units of 2^-24 (f32) or 2^-53 (f64).",
        '"""',
        "",
        "from __future__ import annotations",
    ]
    for name, (meaning, values) in constants().items():
        many = any(isinstance(value, tuple) for value in values.values())
        kind = "tuple[float, ...]" if many else "float"
        lines += ["", f"{name}: dict[str, {kind}] = {{"]
        for elem, value in values.items():
            if isinstance(value, tuple):
                lines += [f'    "{elem}": (', *tuple_text(value), "    ),"]
            else:
                lines.append(f'    "{elem}": {value!r},')
        lines += ["}", f'"""{meaning}."""']
    lines += ["", "TWO_OVER_PI_WORDS = ("]
    lines += [f"    0x{word:016X}," for word in two_over_pi_words()]
    lines += [")", '"""A word of zeros, then the binary digits of 2 / pi, 64 a word."""']
    for fit in fits():
        lines += ["", f"{fit.name}: dict[str, tuple[float, ...]] = {{"]
        for elem, digits in DIGITS.items():
            found, error = remez(fit.value, fit.weight, fit.low, fit.high[elem], fit.count[elem])
            lines.append(f'    "{elem}": (  # error {mp.nstr(mp.ldexp(error, digits), 2)}')
            lines += [*tuple_text([rounded(c, elem) for c in found]), "    ),"]
        lines += ["}", f'"""{fit.meaning}."""']
    return "\n".join(lines) + "\n"


def main() -> None:
    mp.mp.dps = 60
    OUTPUT.write_text(text())


if __name__ == "__main__":
    main()
