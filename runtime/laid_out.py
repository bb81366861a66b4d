"""Arguments that a schedule stores in an order of its own: what a compiled kernel says of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tdsl.runtime.arguments import Checker


class LaidOut:
    """A kernel whose arguments may be stored in another order than the text indexes them."""

    _checker: Checker

    @property
    def layouts(self) -> Mapping[str, str]:
        """For each argument with a `layout` where its elements are, as the schedule says it."""
        return self._checker.plan.layouts

    def laid_out(self, name: str, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """An array in its own order as calls take it: stored by the layout, 0 between elements."""
        return self._checker.plan.laid_out(name, values)

    def natural(
        self, name: str, stored: np.ndarray[Any, Any], shape: tuple[int, ...]
    ) -> np.ndarray[Any, Any]:
        """What calls take or give in its own order; `shape` is that of the text."""
        return self._checker.plan.natural(name, stored, shape)
