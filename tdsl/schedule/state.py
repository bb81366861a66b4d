"""What a schedule has made of a program so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tdsl.diagnostics import Diagnostic, Span
from tdsl.ir.types import ElemType
from tdsl.polyhedral.program import Dependence, Program
from tdsl.polyhedral.tree import Loop, Node
from tdsl.schedule.directives import Directive

Private = dict[str, tuple[tuple[str, str], ...]]
"""Arrays that are new in each iteration of loops: a statement below each loop, and its name."""


@dataclass(frozen=True)
class LoopAt:
    """One loop of the tree: a statement below it, and its name."""

    statement: str
    loop: Loop = field(repr=False)

    @property
    def name(self) -> str:
        return self.loop.name

    def __str__(self) -> str:
        return f"{self.statement}.{self.name}"


@dataclass(frozen=True)
class StageRequest:
    """`stage array at loop in memory`: made and proved by the lowering.

    `statement`: the one reader that it is for, or None. The loop is named by a statement below
    it and its name. memory: "registers", "stack", "scratch" or None.
    """

    array: str
    statement: str | None
    loop: tuple[str, str]
    memory: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class State:
    """The tree, and what was declared beside it.

    reassociate  statements whose order of terms may change
    collapsed    symbolic `collapse`s: a statement, the outer loop's name, the inner loop's
    marked       where marks were made: a statement, the loop's name, the directive
    lanes        elements of a vector of the target
    """

    program: Program
    tree: Node
    dependences: tuple[Dependence, ...]
    lanes: Callable[[ElemType], int]
    reassociate: frozenset[str] = frozenset()
    stages: tuple[StageRequest, ...] = ()
    collapsed: tuple[tuple[str, str, str], ...] = ()
    marked: tuple[tuple[str, str, Span | None], ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    strict_fp: bool = False


@dataclass(frozen=True)
class Scheduled:
    """A program in its final order.

    program      with memory for the temps of `for` bodies
    tree         without `S.init` leaves
    dependences  of the program in its own order, with what that memory adds
    trail        after each directive, the tree that it left
    """

    program: Program
    tree: Node
    reassociate: frozenset[str]
    stages: tuple[StageRequest, ...]
    warnings: tuple[Diagnostic, ...]
    trail: tuple[tuple[Directive, Node], ...]
    dependences: tuple[Dependence, ...]
    private: Private
