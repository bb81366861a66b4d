"""Values of all kernels against NumPy computed from the definitions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tdsl.targets import native
from tests.polybench.definitions import DEFINITIONS, Given
from tests.polybench.kernels import NAMES, inputs, load, run, sizes

TARGETS = tuple(dict.fromkeys(("c", native().name)))


def test_there_are_thirty_kernels() -> None:
    assert set(DEFINITIONS) == set(NAMES)
    assert len(set(NAMES) - {"doitgen_scalar_sum"}) == 30


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_values(name: str, target: str) -> None:
    kernel = load(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no schedule: the program's own order
        function = kernel.compile(target)
    for seed, base in enumerate((3, 6, 17)):
        at = sizes(kernel, base)
        if name == "gramschmidt":
            at = {"M": base + 2, "N": base}  # not more columns than rows
        want = DEFINITIONS[name](Given(inputs(kernel, at, seed), at))
        got = run(kernel, function, at, seed)
        for array, values in want.items():
            error = 2e-4 if values.dtype == np.float32 else 1e-9
            scale = error * max(1.0, float(np.abs(values).max(initial=0.0)))
            np.testing.assert_allclose(got[array], values, error, scale, err_msg=f"{array} {at}")
