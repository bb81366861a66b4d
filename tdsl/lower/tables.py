"""Control flow at concrete sizes, all iterations of a place at once: a row an iteration.

before: for io { if (c) { S } }
after:  a table with a column io; its rows where c holds; S is then looked at once
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdsl.ir.kernel import COMPARISONS, INDEX, Cast, Const, Expr, Op, Select, Size, Var

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Env = Mapping[str, Ints]

YES = np.array([[True]])
NO = np.array([[False]])

CHOICE = "choice "  # the column of the number of the sizes; no variable is called so
MOST_ROWS = 3_000  # for one choice of sizes


class TooMany(Exception):
    """More iterations than a check may cost, at these choices of sizes."""

    def __init__(self, choices: Ints) -> None:
        super().__init__("too many iterations")
        self.choices = choices


class OnData(Exception):
    """An index or condition that reads an array."""


@dataclass(frozen=True)
class Table:
    """columns: variables and sizes, one value a row. time: when each row runs, compared
    lexicographically.

    ends: of a long loop only so many iterations at either end run, where this is no 0.
    sample: the values that the variable of a loop takes, where not all (by its name, without
    the underscores that tell it from others).
    """

    rows: int
    columns: Mapping[str, Ints]
    time: tuple[Ints, ...] = ()
    ends: int = 0
    sample: Mapping[str, Ints] = field(default_factory=dict)

    @property
    def choice(self) -> Ints:
        """The number of the choice of sizes of each row."""
        return self.columns[CHOICE]

    def at(self, position: int) -> Table:
        """The same rows at a position of a block."""
        step = np.full(self.rows, position, dtype=np.int64)
        return replace(self, time=(*self.time, step))

    @cached_property
    def env(self) -> Env:
        """The columns as arrays of (rows, 1), so that others with lanes fit."""
        return {name: c[:, None] for name, c in self.columns.items()}

    def value(self, expr: Expr) -> Ints:
        """An index expression, one value a row."""
        return np.broadcast_to(evaluate(expr, self.env), (self.rows, 1))[:, 0]

    def holds(self, condition: Expr) -> Bools:
        return self.value(condition).astype(np.bool_)

    def where(self, chosen: Bools) -> Table:
        """The rows that are chosen."""
        return self.take(np.flatnonzero(chosen))

    def take(self, numbers: Ints) -> Table:
        columns = {name: c[numbers] for name, c in self.columns.items()}
        return replace(
            self, rows=len(numbers), columns=columns, time=tuple(t[numbers] for t in self.time)
        )

    def having(self, name: str, values: Ints) -> Table:
        return replace(self, columns={**self.columns, name: values})

    def loop(self, var: str, lo: Expr, hi: Expr, step: int, *, whole: bool = False) -> Table:
        """A row for each iteration; `whole`: of a long loop too."""
        first, end = self.value(lo), self.value(hi)
        allowed = self.sample.get(plain(var))
        if allowed is not None and not whole:
            runs = (allowed >= first[:, None]) & (allowed < end[:, None])
            runs &= (allowed - first[:, None]) % step == 0
            rows, which = np.nonzero(runs)
            self._afford(runs.sum(1))
            inside, values = self.take(rows), allowed[which]
        else:
            number, counts = self._iterations(np.maximum(0, -((first - end) // step)))
            inside = self.take(np.repeat(np.arange(self.rows), counts))
            values = np.repeat(first, counts) + number * step
        return replace(inside.having(var, values), time=(*inside.time, values))

    def _iterations(self, counts: Ints) -> tuple[Ints, Ints]:
        """The numbers of the iterations of all rows, and how many each row has."""
        run = np.minimum(counts, 2 * self.ends) if self.ends else counts
        self._afford(run)
        number = np.arange(int(run.sum())) - np.repeat(np.cumsum(run) - run, run)
        if self.ends:
            number += np.where(number >= self.ends, np.repeat(counts - run, run), 0)
        return number, run

    def _afford(self, run: Ints) -> None:
        each = np.bincount(self.choice, run)
        most = 20 * MOST_ROWS if self.ends or self.sample else MOST_ROWS
        if (each > most).any():
            raise TooMany(np.flatnonzero(each > most))


def plain(var: str) -> str:
    """The name of a loop's variable without what makes it unique."""
    return var.rstrip("_")


def start(choices: Sequence[Mapping[str, int]], *, ends: int = 0) -> Table:
    """A row for each choice of sizes, before any loop."""
    columns = {CHOICE: np.arange(len(choices), dtype=np.int64)}
    for name in choices[0] if choices else ():
        values = [sizes[name] for sizes in choices]
        columns[size_column(name)] = np.array(values, dtype=np.int64)
    return Table(len(choices), columns, (), ends)


def size_column(name: str) -> str:
    """The column of a size; no variable is called so."""
    return f"size {name}"


# ---------------------------------------------------------------- expressions


def evaluate(expr: Expr, env: Env) -> Ints:
    """An index expression or condition; the arrays of `env` and the result broadcast.

    Raises OnData where the expression reads an array.
    """
    match expr:
        case Const(value):
            return np.array([[int(value)]], dtype=np.int64)
        case Var(name):
            return env[name]
        case Size(name):
            return env[size_column(name)]
        case Select(condition, then, other) if expr.type == INDEX:
            chosen = evaluate(condition, env) != 0
            return np.where(chosen, evaluate(then, env), evaluate(other, env))
        case Cast(_, arg, type) if type == INDEX and arg.type == INDEX:
            return evaluate(arg, env)
        case Op(op, args) if op not in COMPARISONS or args[0].type == INDEX:
            return operation(op, [evaluate(a, env) for a in args])
        case _:
            raise OnData


def operation(op: str, args: list[Ints]) -> Ints:
    """One operation of index arithmetic, lane by lane."""
    match op:
        case "neg":
            return -args[0]
        case "abs":
            absolute: Ints = np.maximum(args[0], -args[0])
            return absolute
        case "not":
            return np.equal(args[0], 0).astype(np.int64)
        case "floordiv" | "mod":
            return _division(op, args[0], args[1])
        case _ if op in _BINARY:
            result: Ints = reduce(_BINARY[op], args).astype(np.int64)
            return result
    raise OnData


def _division(op: str, left: Ints, right: Ints) -> Ints:
    safe = np.where(right == 0, 1, right)
    result = left // safe if op == "floordiv" else left % safe
    return np.where(right == 0, np.int64(0), result)


_BINARY: Mapping[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
    "and": np.logical_and, "or": np.logical_or, "eq": np.equal, "ne": np.not_equal,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
