"""What schedules ask of a target. The tables themselves are in `tdsl.targets`."""

from __future__ import annotations

from typing import Protocol

from tdsl.ir.types import ElemType


class Target(Protocol):
    """A processor as schedules see it."""

    @property
    def name(self) -> str: ...

    @property
    def family(self) -> str:
        """avx512, avx2, neon or c."""
        ...

    @property
    def features(self) -> frozenset[str]:
        """What it has beyond its family: vnni, bf16, i8mm, ..."""
        ...

    @property
    def registers(self) -> int:
        """Vector registers."""
        ...

    @property
    def threads(self) -> int: ...

    def lanes(self, elem: ElemType) -> int:
        """Elements in a vector."""
        ...


def serves(target: Target, written: str) -> bool:
    """Whether `avx512+vnni`, as a schedule writes it, holds for a target."""
    base, *features = written.split("+")
    if base == "any":
        return not features
    return base in (target.family, target.name) and set(features) <= target.features
