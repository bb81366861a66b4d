"""Registers have names: elements that data choose stay in memory."""

from __future__ import annotations

import pytest

from tdsl import driver
from tdsl.diagnostics import IllegalSchedule
from tdsl.syntax.parser import parse
from tdsl.targets.target import TARGETS

GATHER = """
kernel gather(P, N) {
    in  t: f32[N]
    in  c: i32[P] range 0..N
    out y: f32[P]

    y[p] = t[c[p]]
}

schedule gather for any {
    stage t at p in registers
}
"""


@pytest.mark.parametrize("target", ["avx2", "avx512", "neon"])
def test_elements_that_data_choose_do_not_stay_in_registers(target: str) -> None:
    options = driver.Options("gather", TARGETS[target], {})
    with pytest.raises(IllegalSchedule, match="data choose its elements"):
        driver.run(parse(GATHER, "gather.tdsl"), options)
