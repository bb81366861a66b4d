"""Unrolled chains: each value is made of the one before more than once, over and over.

A walk that follows each path from the last value to the first one takes 2^n steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tdsl
from tests.language.run import lowered

LENGTH = 64
TARGETS = ["native", "c", "avx2", pytest.param("neon", marks=pytest.mark.neon)]

FIRST_OF_THE_GREATEST = """
kernel first<EXT>(M) {
    assume EXT >= 1
    in  x: f32[M, EXT]
    out am: i64[M]

    am[i] = argmax[j](x[i, j])
}

schedule first for any {
    WHERE
}
"""

RECURRENCE = """
kernel chain<L>(M) {
    in  x: f32[M, L]
    inout s: f32[M, L]

    for i in 0..M, j in 1..L {
        s[i, j] = max(s[i, j - 1], x[i, j]) + select(x[i, j] > s[i, j - 1], s[i, j - 1], 0.0)
    }
}

schedule chain for any {
    WHERE
}
"""


def compiled(text: str, where: str, target: str, **constants: int) -> Any:
    module = tdsl.parse(text.replace("WHERE", where), name="t.tdsl")
    (name,) = (line.split()[1].split("<")[0] for line in text.split("\n") if "kernel" in line)
    return module[name].compile(target, constants=constants)


def rows(m: int, seed: int) -> NDArray[np.float32]:
    values = np.random.default_rng(seed).integers(-20, 20, (m, LENGTH))
    return values.astype(np.float32)


@pytest.mark.parametrize("where", ["unroll am.j", "vectorize am.i\n    unroll am.j"])
@pytest.mark.parametrize("target", TARGETS)
def test_an_unrolled_argmax(target: str, where: str) -> None:
    run = compiled(FIRST_OF_THE_GREATEST, where, target, EXT=LENGTH)
    for m in (0, 1, 7, 19):
        x = rows(m, m)
        np.testing.assert_array_equal(run(x=x), x.argmax(axis=1))


@pytest.mark.parametrize("where", ["unroll j", "reorder j, i\n    unroll j\n    vectorize i"])
@pytest.mark.parametrize("target", TARGETS)
def test_an_unrolled_recurrence(target: str, where: str) -> None:
    run = compiled(RECURRENCE, where, target, L=LENGTH)
    for m in (0, 1, 7, 19):
        x, s = rows(m, m), np.zeros((m, LENGTH), dtype=np.float32)
        want = s.copy()
        for j in range(1, LENGTH):
            old = want[:, j - 1]
            want[:, j] = np.maximum(old, x[:, j]) + np.where(x[:, j] > old, old, 0)
        run(x=x, s=s)
        np.testing.assert_array_equal(s, want)


def test_what_is_too_long_to_be_unrolled_is_refused_at_its_line() -> None:
    text = FIRST_OF_THE_GREATEST.replace("WHERE", "unroll am.j").replace("<EXT>", "<EXT = 4096>")
    with pytest.raises(tdsl.Error, match="1024 is the limit") as caught:
        lowered(text, "first")
    assert "^^^^^^^^^^^" in str(caught.value)
    assert "help: unroll am_next.j by 4" in str(caught.value)
