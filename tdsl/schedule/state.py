"""What a schedule has made of a program so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tdsl.diagnostics import Diagnostic, Span
from tdsl.ir.types import ElemType
from tdsl.polyhedral.box import Layout
from tdsl.polyhedral.program import Dependence, Program
from tdsl.polyhedral.tree import Loop, Node
from tdsl.schedule.directives import Directive, Stream

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
    layout: Layout | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class ComputeRequest:
    """`compute P at l`, after it was applied: where P's memory is to be when all is scheduled.

    at: the loop of the computation, by a statement below it and its name; None at root and at
    prepare. store: the loop once in each of whose iterations the memory exists (`store P at`), by
    default `at`. memory: registers, stack, scratch, heap or None. fold: (dimension, n). layout:
    storage indices over the array's. inside: the array in whose memory it lives. slid: a `store`
    has left out instances whose values an earlier iteration has stored.
    """

    array: str
    at: tuple[str, str] | None
    store: tuple[str, str] | None
    memory: str | None = None
    fold: tuple[tuple[int, int], ...] = ()
    layout: Layout | None = None
    inside: str | None = None
    slid: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class PrefetchRequest:
    """`prefetch array at loop ahead n`. `statement`: the one reader or writer whose elements are
    meant, or None. The loop is named by a statement below it and its name."""

    array: str
    statement: str | None
    loop: tuple[str, str]
    ahead: int = 0
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class State:
    """The tree, and what was declared beside it.

    reassociate  statements whose order of terms may change
    collapsed    symbolic `collapse`s: a statement, the outer loop's name, the inner loop's
    marked       where marks were made: a statement, the loop's name, the directive
    lanes        elements of a vector of the target
    base         program and tree before the first placement: what value flow is compared with
    computed     what `compute` moved: memory is decided when the schedule is complete
    private      array -> the loop (a statement below it, its name) in each of whose iterations,
                 and of the loops around it, its memory is new
    hosts        loops that something was placed at, and the directive: they keep their shape
    hosted       statement whose nest was placed in the body of a loop -> the loop (a statement
                 below it, its name)
    aliases      (statement, name) -> the name of the loop around it that its own was merged with;
                 `merged`: these
    streams      what is stored past the caches
    prefetches   what is asked for before it is used
    layouts      storage orders of arguments
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
    base: tuple[Program, Node] | None = None
    computed: tuple[ComputeRequest, ...] = ()
    private: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    hosts: tuple[tuple[str, str, str], ...] = ()
    hosted: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    aliases: Mapping[tuple[str, str], str] = field(default_factory=dict)
    merged: frozenset[tuple[str, str]] = frozenset()
    streams: tuple[Stream, ...] = ()
    prefetches: tuple[PrefetchRequest, ...] = ()
    layouts: Mapping[str, Layout] = field(default_factory=dict)


@dataclass(frozen=True)
class Scheduled:
    """A program in its final order.

    program      with memory for the temps of `for` bodies
    tree         without `S.init` leaves
    dependences  of the program in its own order, with what that memory adds
    trail        after each directive, the tree that it left
    base         program and tree before the first placement, if there was one
    """

    program: Program
    tree: Node
    reassociate: frozenset[str]
    stages: tuple[StageRequest, ...]
    warnings: tuple[Diagnostic, ...]
    trail: tuple[tuple[Directive, Node], ...]
    dependences: tuple[Dependence, ...]
    private: Private
    computed: tuple[ComputeRequest, ...] = ()
    base: tuple[Program, Node] | None = None
    streams: frozenset[str] = frozenset()
    prefetches: tuple[PrefetchRequest, ...] = ()
    layouts: Mapping[str, Layout] = field(default_factory=dict)
