"""What the lowering of one function knows at every place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tdsl.ir.kernel import Expr
from tdsl.lower.builder import Code
from tdsl.lower.memory import Place
from tdsl.lower.registers import Guards, Scope
from tdsl.lower.rows import Rows
from tdsl.lower.values import Numerics
from tdsl.polyhedral.known import Facts, Known
from tdsl.polyhedral.program import Program
from tdsl.targets.target import Target


@dataclass
class Context:
    """frozen: the buffers that nothing writes. rows: what is peeled to be stored past the caches.

    scopes: of arrays whose elements are in registers here, with the scope's own block.
    guards: conditions around this place since the innermost scope began (or the function).
    facts: all that is known of the loop variables here.
    loops: those around this place that run a few iterations: the variable, where it begins, how
    many at most.
    """

    program: Program
    places: Mapping[str, Place]
    numerics: Numerics
    target: Target
    frozen: frozenset[str]
    rows: Rows
    scopes: dict[str, tuple[Scope, Code]] = field(default_factory=dict)
    guards: Guards = ()
    facts: Facts = ()
    known: Known = field(init=False)

    def __post_init__(self) -> None:
        self.known = Known(self.program)

    loops: tuple[tuple[str, Expr, int], ...] = ()

    @contextmanager
    def inside(self, var: str, lo: Expr, most: int | None) -> Iterator[None]:
        """In a loop of at most so many iterations, None: of any number."""
        before = self.loops
        if most is not None:
            self.loops = (*before, (var, lo, most))
        yield
        self.loops = before

    @contextmanager
    def under(self, *conditions: Expr) -> Iterator[None]:
        """These conditions hold inside."""
        before, self.guards = self.guards, (*self.guards, *conditions)
        yield
        self.guards = before

    @contextmanager
    def knowing(self, *facts: Expr) -> Iterator[None]:
        """These facts hold inside."""
        before, self.facts = self.facts, (*self.facts, *facts)
        yield
        self.facts = before

    def scope(self, array: str) -> Scope | None:
        """The scope that keeps an array in registers here."""
        found = self.scopes.get(array)
        return None if found is None else found[0]
