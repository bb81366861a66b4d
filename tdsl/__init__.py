"""TDSL: tensor kernels, what is computed and apart from it how it runs.

    kernel = tdsl.load("matmul.tdsl")["matmul"]
    fast = kernel.compile(target="native")
    C = fast(A=A, B=B)

The compiler is loaded when one of these names is first used, so that the import is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tdsl.api import Argument, CompileWarning, Kernel, Module, load, parse
    from tdsl.diagnostics import (
        BoundsError,
        BudgetExceeded,
        Error,
        IllegalSchedule,
        ParseError,
        ToolchainError,
        TypeMismatch,
        UnsupportedTarget,
    )
    from tdsl.ordering import check_order
    from tdsl.polyhedral.program import Violation
    from tdsl.runtime.threads import max_threads, set_threads
    from tdsl.schedule.builder import Schedule

__all__ = [
    "Argument",
    "BoundsError",
    "BudgetExceeded",
    "CompileWarning",
    "Error",
    "IllegalSchedule",
    "Kernel",
    "Module",
    "ParseError",
    "Schedule",
    "ToolchainError",
    "TypeMismatch",
    "UnsupportedTarget",
    "Violation",
    "check_order",
    "load",
    "max_threads",
    "parse",
    "set_threads",
]

_HOMES = {
    "tdsl.api": ("Argument", "CompileWarning", "Kernel", "Module", "load", "parse"),
    "tdsl.diagnostics": (
        "BoundsError", "BudgetExceeded", "Error", "IllegalSchedule", "ParseError",
        "ToolchainError", "TypeMismatch", "UnsupportedTarget",
    ),
    "tdsl.ordering": ("check_order",),
    "tdsl.polyhedral.program": ("Violation",),
    "tdsl.runtime.threads": ("max_threads", "set_threads"),
    "tdsl.schedule.builder": ("Schedule",),
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # a type checker is to see misspelt names

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
