"""The program level: statement instances and accesses as isl sets and maps. Types only.

User names never reach isl: statements are tuples `S0`, `S1`, ..., arrays `A0`, `A1`, ...,
sizes the parameters `p0`, `p1`, ...; dimensions have no names. Built by
`tdsl.polyhedral.model`; passes that add copies or change storage make new programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import islpy as isl

from tdsl.diagnostics import Span
from tdsl.ir.kernel import Array, Expr, Kernel


@dataclass(frozen=True)
class Access:
    """One occurrence of an array in a statement.

    `map`: instance tuple -> array tuple, restricted to the domain and to where the access
    happens (the chosen arms of selects). `exact` is False where data decide the element or
    the arm: then the map is what may be touched.
    """

    array: str
    map: isl.Map = field(compare=False)
    subscript: tuple[Expr, ...]
    exact: bool = True
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Origin:
    """What the instances of a statement that a directive made stand for.

    map: own instance tuple -> instance of `statement` of the program that value flow is compared
    with. Several instances may stand for one: it is then computed again.
    """

    statement: str
    map: isl.Map = field(compare=False)


@dataclass(frozen=True)
class Stmt:
    """A statement with its instances. `value` and `subscript` are over Var(indices).

    op: "define", or the update operator that joins the element and the value (see
    `tdsl.ir.kernel.Statement.op`). An update reads its element: that read is not in `reads`.
    reduction: names of the reduced indices. init_of: S, in the statement `S.init`.
    origin: for one that a placement made of another (`compute`, parts of it): what its instances
    stand for; None: themselves. copies: for one that only moves elements (`pack`, `stage`): the
    array that they come from; it writes each unchanged, or the 0 of a place that nobody needs.
    tuple_of: in the parts of a tuple reduction, the first one that keeps a value.
    """

    name: str
    tuple_name: str
    indices: tuple[str, ...]
    domain: isl.Set = field(compare=False)
    write: Access = field(compare=False)
    reads: tuple[Access, ...] = field(compare=False)
    op: str = "define"
    value: Expr | None = None
    reduction: tuple[str, ...] = ()
    init_of: str | None = None
    origin: Origin | None = field(default=None, compare=False)
    copies: str | None = None
    tuple_of: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def is_update(self) -> bool:
        return self.op != "define"


@dataclass(frozen=True)
class Program:
    """A kernel's statements as isl objects.

    context  parameter set: sizes >= 0, < 2^40, and the assumptions.
    params   size name -> isl parameter name, in the kernel's order.
    statements  name -> Stmt in textual order, `S.init` just before its S.
    arrays   name -> Array (the kernel's and those that passes add).
    extents  name -> isl set of the elements of the array (its box).
    prepared statements that run once, in `NAME_prepare`; in the tree they stand before all others.
    """

    kernel: Kernel
    context: isl.Set = field(compare=False)
    params: Mapping[str, str]
    statements: Mapping[str, Stmt]
    arrays: Mapping[str, Array]
    extents: Mapping[str, isl.Set] = field(compare=False)
    prepared: frozenset[str] = frozenset()


def accesses_to(stmt: Stmt, array: str) -> list[Access]:
    """The occurrences of one array in a statement, the write first."""
    return [a for a in (stmt.write, *stmt.reads) if a.array == array]


def free_statement(program: Program, others: int = 0) -> str:
    """The name of an isl tuple that no statement has; `others`: as many more are taken."""
    return _free("S", [s.tuple_name for s in program.statements.values()], others)


def free_array(program: Program) -> str:
    """The name of an isl tuple that no array has."""
    return _free("A", [e.get_tuple_name() for e in program.extents.values()], 0)


def _free(letter: str, taken: Iterable[str], others: int) -> str:
    last = max((int(name[1:]) for name in taken), default=-1)
    return f"{letter}{last + 1 + others}"


@dataclass(frozen=True)
class Dependence:
    """Instances of `sink` that must run after instances of `source`, because of `array`.

    kind: "flow" (write then read), "anti" (read then write) or "output" (write then write).
    map: source tuple -> sink tuple. `relaxable` is the operator when both ends are updates of
    one reduction or one array by one operator and only this pair orders them: such a pair may
    change order (integers, min and max always; floats under `reassociate`), never run in
    parallel unprotected.
    """

    source: str
    sink: str
    kind: str
    array: str
    map: isl.Map = field(compare=False)
    relaxable: str | None = None
    source_span: Span | None = field(default=None, compare=False, repr=False)
    sink_span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Witness:
    """Two iterations at the smallest sizes: index values in the order of `Stmt.indices`."""

    sizes: Mapping[str, int]
    source: tuple[int, ...]
    sink: tuple[int, ...]
    element: tuple[int, ...] | None


@dataclass(frozen=True)
class Violation:
    """A dependence that a new order, or lanes or threads, would break.

    kind: "order" (runs backward), "parallel" (carried by the parallel loop), "vector".
    """

    kind: str
    source: str
    sink: str
    array: str
    witness: Witness | None
    dependence: Dependence | None = field(default=None, compare=False, repr=False)
    loop: str | None = None
