"""Peers of a kernel: the same computation by other means, in Python beside the kernel's file.

`matmul.bench.py` beside `matmul.tdsl` has a function for each kernel and peer:

    def matmul_numpy(A, B, C):              # KERNEL_PEER, the kernel's arguments by name
        return lambda: np.matmul(A, B, C)   # what is timed; it writes the outputs

Each peer gets buffers of its own, with the same values as the kernel's. What it must do once, such
as packing constant weights, it does before it returns. Where its results are in a layout of its
own, it returns a pair: what is timed, and what then copies the results into the outputs.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tdsl.diagnostics import Error

Call = Callable[[], object]
Arrays = Mapping[str, np.ndarray[Any, Any]]


class NoPeer(Error):
    """A peer that is asked for is not there or does not work."""

    code = "peer"


class Peers:
    """The functions of one Python file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._module = _executed(path)

    @staticmethod
    def path_of(file: str) -> Path:
        """Where those of FILE are: `FILE.bench.py`."""
        return Path(file).with_suffix(".bench.py")

    def names(self, kernel: str) -> list[str]:
        """The peers of a kernel."""
        start = f"{kernel}_"
        return [
            name.removeprefix(start)
            for name, value in vars(self._module).items()
            if name.startswith(start) and callable(value)
        ]

    def prepare(self, kernel: str, peer: str, arrays: Arrays) -> tuple[Call, Call | None]:
        """What is timed, and what copies its results into the outputs, if that is needed. peer: one
        of `names`."""
        function = vars(self._module)[f"{kernel}_{peer}"]
        try:
            made = function(**arrays)
        except ImportError as error:
            raise NoPeer.at(
                None,
                f"{peer} cannot be imported: {error}",
                help="pip install 'tdsl[bench]' brings the usual ones",
            ) from error
        call, finish = made if isinstance(made, tuple) else (made, None)
        if not callable(call) or not (finish is None or callable(finish)):
            raise NoPeer.at(None, f"{kernel}_{peer} of {self.path} returned no function to time")
        return call, finish


def _executed(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"_bench_{path.stem.partition('.')[0]}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise NoPeer.at(
            None,
            f"{path} cannot be imported: {error}",
            help="import what only one peer needs inside that peer's function",
        ) from error
    return module
