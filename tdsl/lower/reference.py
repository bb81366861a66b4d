"""Which instances the loops level runs at concrete sizes, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tdsl.ir import loops as ir
from tdsl.ir.index import const
from tdsl.ir.kernel import INDEX, Op
from tdsl.lower.tables import Bools, Ints, Table, plain

# A place in the text; a dim there with its count and which loops around are in their last
# iteration (-1: without a dim; -2: a loop, by number, of which several iterations get here; -3:
# with whole dims, since loops over these are taken apart; from the number of dims on: a dim with
# one of its iterations, where a guard chooses).
Reached = tuple[int, int, int]


@dataclass(frozen=True)
class Ran:
    """The instances of one statement: a row each of the number of the choice of sizes and the
    index values; when it runs (its place among
    all instances), and whether it surely does where long loops are sampled: a loop that is
    written out as copies runs whole later."""

    instances: Ints
    rank: Ints
    surely: Bools

    def where(self, chosen: Bools) -> Ran:
        """Those that are chosen."""
        return Ran(self.instances[chosen], self.rank[chosen], self.surely[chosen])


@dataclass
class _Reference:
    found: list[tuple[str, Ints, tuple[Ints, ...], Bools]] = field(default_factory=list)
    reached: dict[int, set[Reached]] = field(default_factory=dict)
    values: dict[str, list[Ints]] = field(default_factory=dict)

    def block(self, block: ir.Block, table: Table) -> None:
        for position, item in enumerate(block.items):
            self._item(item, table.at(position))

    def _item(self, item: ir.Item, table: Table) -> None:
        match item:
            case ir.Block():
                self.block(item, table)
            case ir.Scope(_, body):
                self.block(body, table)
            case ir.Instance():
                self._instance(item, table)
            case ir.For():
                unrolled = item.mark == "unroll" and not table.ends
                inside = table.loop(item.var, item.lo, item.hi, item.step, whole=unrolled)
                values = inside.columns[item.var]
                self.values.setdefault(plain(item.var), []).append(np.unique(values))
                if inside.rows:
                    left = inside.value(item.hi) - inside.columns[item.var]
                    inside = inside.having(_LAST + item.var, (left <= item.step).astype(np.int64))
                if unrolled and (sample := table.sample.get(plain(item.var))) is not None:
                    surely = np.isin(values, sample).astype(np.int64)
                    inside = inside.having(SURELY + item.var, surely)
                self.block(item.body, inside)
            case ir.If(condition, then, other):
                chosen = table.holds(condition)
                self.block(then, table.where(chosen))
                if other is not None:
                    self.block(other, table.where(~chosen))
            case ir.Switch(on, cases, default):
                value = table.value(on)
                for number, body in cases:
                    self.block(body, table.where(value == number))
                if default is not None:
                    chosen = ~np.isin(value, [n for n, _ in cases])
                    self.block(default, table.where(chosen))

    def _instance(self, instance: ir.Instance, table: Table) -> None:
        self._reach(table, -1, _last(table))
        self._repeat(table, -2)
        whole = table
        for dim in instance.dims:
            if dim.count is not None:
                whole = whole.where(whole.value(dim.count) >= dim.extent)
        self._repeat(whole, -3)
        for n, dim in enumerate(instance.dims):
            end = const(dim.extent)
            count = end if dim.count is None else Op("min", (end, dim.count), INDEX)
            self._reach(table, n, table.value(count) * _LOOPS + _last(table))
            table = table.loop(dim.var, const(0), count, 1, whole=True)
        if instance.guard is not None:
            table = table.where(table.holds(instance.guard))
            for n, dim in enumerate(instance.dims):  # which of its iterations run at all
                self._reach(table, len(instance.dims) + n, table.columns[dim.var])
        values = [table.choice, *(table.value(e) for _, e in instance.index)]
        rows = np.stack(values, 1)
        surely: Bools = np.ones(table.rows, dtype=np.bool_)
        for name, column in table.columns.items():
            if name.startswith(SURELY):
                surely &= np.not_equal(column, 0)
        self.found.append((instance.statement, rows, table.time, surely))

    def _reach(self, table: Table, dim: int, counts: Ints) -> None:
        for code in np.unique(table.choice * _MOST + counts).tolist():
            choice, count = divmod(code, _MOST)
            self.reached.setdefault(choice, set()).add((len(self.found), dim, count))

    def _repeat(self, table: Table, code: int) -> None:
        """Loops of which several iterations get here."""
        loops = [name for name in table.columns if name.startswith(_LAST)]
        for n, name in enumerate(loops):
            values = table.columns[name.removeprefix(_LAST)]
            both = np.unique(table.choice * _MOST + (values - values.min(initial=0)))
            for choice in np.flatnonzero(np.bincount(both // _MOST) > 1).tolist():
                self.reached.setdefault(choice, set()).add((len(self.found), code, n))


def _last(table: Table) -> Ints:
    """Which of the loops around are in their last iteration, as bits."""
    bits = np.zeros(table.rows, dtype=np.int64)
    for name, column in table.columns.items():
        if name.startswith(_LAST):
            bits = bits * 2 % _LOOPS + column
    return bits


_LAST = "last "  # no variable is called so
_LOOPS = 1 << 8
_MOST = 1 << 32  # above every count
SURELY = "surely "  # no variable is called so


@dataclass(frozen=True)
class Reference:
    """ran: by statement; reached: for each choice of sizes, which places it gets to, and with
    which counts of their dims; values: those of the loops' variables."""

    ran: Mapping[str, Ran]
    reached: Mapping[int, set[Reached]]
    values: Mapping[str, Ints]


def reference(block: ir.Block, start: Table) -> Reference:
    """Runs loops at some sizes; raises TooMany for those beyond `tables.MOST_ROWS` anywhere."""
    run = _Reference()
    run.block(block, start)
    ranks = ranked([time for _, _, time, _ in run.found])
    parts: dict[str, list[Ran]] = {}
    for (name, rows, _, surely), rank in zip(run.found, ranks, strict=True):
        parts.setdefault(name, []).append(Ran(rows, rank, surely))
    values = {var: np.unique(np.concatenate(found)) for var, found in run.values.items()}
    return Reference({name: _together(p) for name, p in parts.items()}, run.reached, values)


def _together(parts: list[Ran]) -> Ran:
    return Ran(
        np.concatenate([p.instances for p in parts]),
        np.concatenate([p.rank for p in parts]),
        np.concatenate([p.surely for p in parts]),
    )


def ranked(times: list[tuple[Ints, ...]]) -> list[Ints]:
    """The place of each row among all rows; rows of equal time share one."""
    if not times:
        return []
    depth = max(len(time) for time in times)
    columns = []
    for k in range(depth):
        parts = [time[k] if k < len(time) else np.full_like(time[0], -1) for time in times]
        columns.append(np.concatenate(parts))
    order = np.lexsort(columns[::-1])
    new = np.zeros(len(order), dtype=np.int64)
    for column in columns:
        ordered = column[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.cumsum(new)
    ends = np.cumsum([len(time[0]) for time in times])
    return np.split(rank, ends[:-1])
