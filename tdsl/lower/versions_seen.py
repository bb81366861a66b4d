"""Whether every access finds in its element what it found in another order of the instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tdsl.lower.tables import Ints

_FAR = 1 << 24


@dataclass(frozen=True)
class Writes:
    """Writes to one array in one order. group: writes of one group may change places among
    themselves (the terms of a reduction); each other statement has a group of its own."""

    element: Ints
    rank: Ints
    group: Ints


def versions(writes: Writes, element: Ints, rank: Ints, group: Ints) -> Ints:
    """For accesses, how many writes of other groups their element has seen before.

    group: that of the access, or -1 for one that may change places with no write.
    """
    keys = _key(writes.element, writes.rank)
    result = _before(np.sort(keys), element, rank)
    for own in np.unique(group[group >= 0]):
        mine = group == own
        result[mine] -= _before(np.sort(keys[writes.group == own]), element[mine], rank[mine])
    return result


def last_write(written: Ints, when: Ints, element: Ints, rank: Ints) -> Ints:
    """For accesses, which of some writes was the last one to their element; -1: none."""
    order = np.argsort(_key(written, when), kind="stable")
    place = np.searchsorted(_key(written, when)[order], _key(element, rank), "left") - 1
    if not len(order):
        return np.full(len(element), -1, dtype=np.int64)
    found = order[np.maximum(place, 0)]
    return np.where((place >= 0) & (written[found] == element), found, -1)


def _key(element: Ints, rank: Ints) -> Ints:
    return element * _FAR + rank


def _before(keys: Ints, element: Ints, rank: Ints) -> Ints:
    upto = np.searchsorted(keys, _key(element, rank), "left")
    return upto - np.searchsorted(keys, _key(element, np.zeros_like(rank)), "left")


def joined(parts: Sequence[Writes]) -> Writes:
    return Writes(
        np.concatenate([p.element for p in parts]),
        np.concatenate([p.rank for p in parts]),
        np.concatenate([p.group for p in parts]),
    )
