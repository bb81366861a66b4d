"""What schedules ask of a target. The tables themselves are in `tdsl.targets`."""

from __future__ import annotations

from typing import Protocol

from tdsl.ir.types import ElemType


class Target(Protocol):
    """A processor as schedules see it; `name` is `avx512`, `avx512+vnni`, `c`, ..."""

    @property
    def name(self) -> str: ...

    @property
    def features(self) -> frozenset[str]: ...

    @property
    def registers(self) -> int: ...

    def lanes(self, elem: ElemType) -> int: ...


def serves(target: Target, written: str) -> bool:
    """Whether `avx512+vnni`, as a schedule writes it, holds for a target."""
    base, *extensions = written.split("+")
    if base == "any":
        return not extensions
    own, *has = target.name.split("+")
    # A processor's feature may carry its family's name: avx512vnni.
    return base == own and all(
        e in has or e in target.features or own + e in target.features for e in extensions
    )
