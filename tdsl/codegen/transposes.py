"""Transposes of small square matrices, a row a register.

A zip interleaves the lanes of two registers; log2(n) rounds of zips transpose n rows of n lanes.
The zips of x86 stay inside each 16 bytes of wider registers: then whole groups are moved.
"""

from __future__ import annotations

from collections.abc import Sequence

from tdsl.codegen.text import C
from tdsl.codegen.unit import Unit, kept
from tdsl.ir.vector import VType


def transpose(unit: Unit, type: VType, matrix: str) -> str | None:
    """A statement that transposes `matrix`, an array of as many vectors as each has lanes; None
    where the target has no way for it."""
    elem, lanes = kept(type.elem), type.lanes
    if unit.row("zip.low", elem, lanes) is None:
        return None
    network = _Network(unit, elem, lanes)
    columns = network.columns()
    ctype, name = unit.ctype(type), f"tdsl_transpose_{elem}x{lanes}"
    body = [f"const {ctype} {made};" for made in network.made]
    body += [f"m[{n}] = {column};" for n, column in enumerate(columns)]
    # The array is one of registers only if its address goes nowhere.
    unit.function("__attribute__((always_inline)) void", name, [f"{ctype} *m"], body)
    return f"{name}({matrix});"


class _Network:
    """Collects `made`, definitions of named values."""

    def __init__(self, unit: Unit, elem: str, lanes: int) -> None:
        self._unit, self._elem, self._lanes = unit, elem, lanes
        self.made: list[str] = []

    def columns(self) -> list[str]:
        """The names of the columns of the rows m[0], m[1], ..."""
        groups = self._groups()
        within = self._lanes // groups
        parts = [
            self._zipped([f"m[{start + n}]" for n in range(within)])
            for start in range(0, self._lanes, within)
        ]
        # parts[p][k]: in group g, what rows of part p have in column g * within + k.
        moved = [self._moved([part[k] for part in parts]) for k in range(within)]
        return [moved[k][g] for g in range(groups) for k in range(within)]

    def _groups(self) -> int:
        for op, groups in (("groups2.low", 2), ("groups4.even", 4)):
            if self._unit.row(op, self._elem, self._lanes) is not None:
                return groups
        return 1

    def _apply(self, op: str, *args: str) -> str:
        found = self._unit.apply(op, self._elem, self._lanes, *(C(a) for a in args))
        assert found is not None
        name = f"t{len(self.made)}"
        self.made.append(f"{name} = {found.text}")
        return name

    def _zipped(self, rows: Sequence[str]) -> list[str]:
        """Inside each group of lanes, the columns of as many rows as a group has lanes."""
        rows, half = list(rows), len(rows) // 2
        for _ in range(len(rows).bit_length() - 1):
            pairs = list(zip(rows[:half], rows[half:], strict=True))
            rows = [self._apply(op, a, b) for a, b in pairs for op in ("zip.low", "zip.high")]
        return rows

    def _moved(self, parts: Sequence[str]) -> list[str]:
        """Group g of each of the parts, for every g."""
        match parts:
            case [_]:
                return list(parts)
            case [a, b]:
                return [self._apply(op, a, b) for op in ("groups2.low", "groups2.high")]
            case [a, b, c, d]:
                even, odd = (
                    (self._apply(op, a, b), self._apply(op, c, d))
                    for op in ("groups4.even", "groups4.odd")
                )
                found = [
                    self._apply(op, *pair)
                    for op in ("groups4.even", "groups4.odd")
                    for pair in (even, odd)
                ]
                return found
            case _:
                raise AssertionError(f"registers of {len(parts)} groups")
