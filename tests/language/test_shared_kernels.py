"""The kernels that were written before there was a compiler: each in its own order, by value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tdsl import driver
from tdsl.ir.dtypes import storage_dtype
from tdsl.ir.interp import reference
from tdsl.syntax import tree
from tdsl.syntax.parser import parse
from tdsl.targets import target
from tests.language import shared_kernels_more
from tests.language.run import everywhere, loaded
from tests.language.shared_kernels import CASES, Case

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "kernels"
MORE = shared_kernels_more  # its cases are in CASES
NUMBERED = [(name, n) for name, made in CASES.items() for n in range(len(made))]

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the folder ../shared/kernels is not beside the checkout"
)


def without_schedules(path: Path) -> tree.File:
    """The kernels of a file alone."""
    file = parse(path.read_text(encoding="utf-8"), path.name)
    kept = (i for i in file.items if not isinstance(i, tree.Schedule | tree.Recipe))
    return tree.File(tuple(kept), span=file.span)


def files() -> dict[str, tree.File]:
    """The file of each kernel."""
    found: dict[str, tree.File] = {}
    for path in sorted(FOLDER.glob("*.tdsl")):
        file = without_schedules(path)
        found |= {i.name: file for i in file.items if isinstance(i, tree.Kernel)}
    return found


@pytest.fixture(scope="module")
def sources() -> dict[str, tree.File]:
    return files()


def compiled(source: tree.File, kernel: str, made: Case, on: str) -> driver.Compilation:
    options = driver.Options(kernel, target(on), made.sizes, made.constants)
    return driver.run(source, options)


def test_every_kernel_has_a_case(sources: dict[str, tree.File]) -> None:
    assert set(sources) == set(CASES)
    assert len(sources) == 37


def close(name: str, got: object, made: Case) -> None:
    results = got if isinstance(got, tuple) else (got,)
    assert len(results) == len(made.outputs)
    for have, want in zip(results, made.outputs, strict=True):
        assert have.shape == want.shape
        if made.exact:
            np.testing.assert_array_equal(have, want)
        else:
            np.testing.assert_allclose(have, want, rtol=3e-5, atol=3e-5, err_msg=name)


@everywhere
@pytest.mark.parametrize("name,number", NUMBERED)
def test_values(sources: dict[str, tree.File], name: str, number: int, on: str) -> None:
    made = CASES[name][number](np.random.default_rng(number))
    kernel = loaded(compiled(sources[name], name, made, on))
    close(name, kernel(**made.arguments), made)


@pytest.mark.parametrize("name,number", NUMBERED)
def test_interpreted(sources: dict[str, tree.File], name: str, number: int) -> None:
    made = CASES[name][number](np.random.default_rng(number))
    kernel = compiled(sources[name], name, made, "c").kernel
    arrays = {
        a.name: np.asarray(made.arguments[a.name], storage_dtype(a.type))
        for a in kernel.arguments
        if a.name in made.arguments
    }
    results = reference(kernel, {}, arrays)
    order = [a.name for a in kernel.arguments if a.role == "out"] or list(results)
    close(name, tuple(results[n] for n in order), made)
