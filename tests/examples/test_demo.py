"""`make demo`: pictures where its checks hold, status 1 and a line where one does not."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.examples.cases import EXAMPLES

Image = pytest.importorskip("PIL.Image", reason="pillow (extra demo) is not installed")
pytest.importorskip("rich")


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module; it writes to a folder of the test's own, and times shortly."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    spec = importlib.util.spec_from_file_location("demo", EXAMPLES / "demo.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "OUTPUT", tmp_path / "demo")
    monkeypatch.setattr(module, "SECONDS", 0.01)
    return module


def test_it_writes_pictures_and_c(demo: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main() == 0
    said = capsys.readouterr().out
    with Image.open(demo.OUTPUT / "sobel.png") as picture:
        edges = np.asarray(picture)
    assert edges.shape == (398, 598) and edges.std() > 20
    with Image.open(demo.OUTPUT / "directions.png") as picture:
        colours = np.asarray(picture)
    assert colours.shape == (392, 592, 3) and colours.std(axis=(0, 1)).min() > 20
    c = (demo.OUTPUT / "neon" / "conv2d.c").read_text()
    assert "vfmaq_f32" in c and '#include "conv2d.h"' in c
    assert "checked" in said and "FAILED" not in said


@pytest.mark.parametrize("function", ["sobel_numpy", "convolution_numpy"])
def test_a_wrong_result_ends_it(
    demo: Any, function: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = getattr(demo, function)

    def wrong(*arrays: Any) -> Any:
        return np.roll(right(*arrays), 1)

    monkeypatch.setattr(demo, function, wrong)
    assert demo.main() == 1
    assert "FAILED" in capsys.readouterr().out
