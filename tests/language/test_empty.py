"""A `max` without a term: refused where somebody sees it."""

import numpy as np
import pytest

from tdsl.diagnostics import BoundsError
from tests.language.run import compiled, everywhere, interpreted, lowered

BLOCKS = """
kernel blocks(N) {
    in  x: f32[N]
    out y: f32[N]
    b[i, t] = max[u in 0..4 where 4 * t + u <= i](x[4 * t + u])
    y[i] = max[t in 0..i // 4 + 1](b[i, t])
}
"""


@everywhere
def test_elements_that_nothing_reads_may_have_none(on: str) -> None:
    """b is a rectangle, and what lies over the diagonal is empty and not read."""
    fast = compiled(BLOCKS, "blocks", on)
    for n in (0, 1, 4, 30):
        x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
        want = np.maximum.accumulate(x)
        assert (fast(x=x) == want).all()
        assert (interpreted(BLOCKS, "blocks", {"x": x})["y"] == want).all()


def test_elements_that_are_read_have_a_term() -> None:
    with pytest.raises(BoundsError, match=r"max\[u\] may be empty"):
        lowered(BLOCKS.replace("i // 4 + 1", "i // 4 + 2"), "blocks")


def test_so_have_those_of_arguments() -> None:
    text = BLOCKS.replace("    b[i", "    out b: f32[N, N]\n    b[i")
    with pytest.raises(BoundsError, match=r"max\[u\] may be empty"):
        lowered(text, "blocks")
