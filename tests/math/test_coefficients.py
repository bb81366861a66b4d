"""The constants of the elementary functions are those that the script in the repository fits."""

from __future__ import annotations

from functools import partial
from typing import Any

import mpmath as mp

from scripts.fit_math import OUTPUT, parts, remez, text


def test_the_file_is_what_the_script_writes() -> None:
    with mp.workdps(60):
        assert OUTPUT.read_text() == text()


def power(n: int, x: Any) -> Any:
    return x**n


def one(_: Any) -> Any:
    return mp.mpf(1)


def test_the_fit_is_the_best_one() -> None:
    """Chebyshev: x^n on [-1, 1] is approximated by lower powers to within 2^(1 - n)."""
    with mp.workdps(60):
        for n in (3, 5, 8):
            found, error = remez(partial(power, n), one, mp.mpf(-1), mp.mpf(1), n)
            assert len(found) == n
            assert abs(error * mp.mpf(2) ** (n - 1) - 1) < 1e-2


def test_parts_of_a_number_have_few_digits() -> None:
    with mp.workdps(60):
        *short, last = parts(mp.pi / 2, "f64", [33, 33, 33])
        for part in short:
            assert part.as_integer_ratio()[0].bit_length() <= 33
        total = sum((mp.mpf(p) for p in short), mp.mpf(last))
        assert abs(total - mp.pi / 2) < mp.mpf(2) ** -150
