"""Where elements are while a schedule runs: first terms, copies of stages, registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tdsl.diagnostics import IllegalSchedule
from tdsl.polyhedral.box import CannotPlace
from tdsl.polyhedral.inits import with_inits
from tdsl.polyhedral.leaves import Code, serial, sink
from tdsl.polyhedral.prefetch import CannotPrefetch, with_hints
from tdsl.polyhedral.program import Program
from tdsl.polyhedral.registers import body_at, keep_at, why_not
from tdsl.polyhedral.stage import path_to, stage
from tdsl.polyhedral.tree import Node
from tdsl.schedule.state import ComputeRequest, PrefetchRequest, Private, StageRequest


@dataclass(frozen=True)
class Stored:
    """`program`, `tree`: with first terms and the copies that stages make; `code`: with lanes and
    jammed copies at the leaves, and scopes for `kept`, the register stages that were asked for;
    `private`: arrays that are new in each iteration of loops; `streams`: those that are stored
    past the caches."""

    program: Program
    tree: Node
    code: Code
    kept: tuple[StageRequest | ComputeRequest, ...] = ()
    private: Private = field(default_factory=dict)
    streams: frozenset[str] = frozenset()

    @property
    def of_threads(self) -> frozenset[str]:
        """The arrays that every thread has of its own: new in the iterations of a parallel loop."""
        return frozenset(
            array
            for array, homes in self.private.items()
            if any(x.mark == "parallel" for home in homes for x in path_to(self.tree, *home))
        )


def store(
    program: Program,
    tree: Node,
    stages: tuple[StageRequest, ...],
    computed: tuple[ComputeRequest, ...],
    private: Mapping[str, tuple[tuple[str, str], ...]],
    *,
    lanes: bool,
    streams: frozenset[str] = frozenset(),
    prefetches: tuple[PrefetchRequest, ...] = (),
) -> Stored:
    """Decides storage for a finished schedule. Raises IllegalSchedule where a stage cannot be.

    A stage in registers is refused for the same reasons on every target; without lanes (target
    c) its tile is a loop, and the elements stay in memory.
    """
    placed = with_inits(program, tree)
    homes = dict(private)
    tiles = tuple(c for c in computed if c.memory == "registers")
    for request in stages:
        _in_memory(request, tiles)
        _lies_plain(program, request, computed)
        _inside_home(placed, request, [name for _, name in homes.get(request.array, ())])
        if request.memory != "registers":
            program, placed, copy = _copied(program, placed, request)
            homes[copy] = homes_of(placed, request.loop)
    asked = tuple(r for r in stages if r.memory == "registers")
    code = sink(_hinted(program, placed, prefetches), lanes=True)
    for request in asked:
        code = _in_registers(program, code, request)
    for tile in tiles:
        code = _tile(code, tile)
    if lanes:
        return Stored(program, placed, code, (*asked, *tiles), homes, streams)
    plain = _hinted(program, serial(placed), prefetches)
    return Stored(program, placed, sink(plain, lanes=False), (), homes, streams)


def _hinted(program: Program, tree: Node, requests: tuple[PrefetchRequest, ...]) -> Node:
    """The tree with the lines of all prefetches on their loops."""
    for r in requests:
        try:
            tree = with_hints(program, tree, r.array, r.statement, r.loop, r.ahead)
        except CannotPrefetch as error:
            raise IllegalSchedule.at(
                r.span, f"{r.array} cannot be prefetched at {r.loop[1]}: {error}"
            ) from None
    return tree


def _in_memory(request: StageRequest, tiles: Sequence[ComputeRequest]) -> None:
    """Refuses a copy of what is in registers: its loops would choose among them."""
    if any(tile.array == request.array for tile in tiles):
        raise IllegalSchedule.at(
            request.span,
            f"{request.array} cannot be staged at {request.loop[1]}: it is computed in registers, "
            "where there is nothing to copy",
            help=f"leave this stage out, or compute {request.array} in memory",
        )


def _lies_plain(
    program: Program, request: StageRequest, computed: Sequence[ComputeRequest]
) -> None:
    """Refuses a layout over the dimensions of an array that has others by now."""
    if request.layout is None:
        return
    laid_out = any(c.array == request.array and c.layout is not None for c in computed)
    if laid_out or len(request.layout.names) != len(program.arrays[request.array].shape):
        why = "has a layout of its own" if laid_out else "has other dimensions in memory"
        raise IllegalSchedule.at(
            request.span,
            f"{request.array} cannot be staged at {request.loop[1]} in another layout: it {why}",
            help="leave out the `as` of this copy",
        )


def _inside_home(tree: Node, request: StageRequest, home: Sequence[str]) -> None:
    """Refuses a copy of memory that is new in each iteration of a loop further inside."""
    around = [loop.name for loop in path_to(tree, *request.loop)]
    inside = [name for name in home if name not in around]
    if inside:
        raise IllegalSchedule.at(
            request.span,
            f"{request.array} cannot be staged at {request.loop[1]}: it is new in each iteration "
            f"of {inside[-1]}",
            help=f"stage {request.array} at {inside[-1]}, or at a loop inside",
        )


def homes_of(tree: Node, at: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """A loop and those around it, each by a statement below and its name."""
    return tuple((at[0], loop.name) for loop in path_to(tree, *at))


def _copied(program: Program, tree: Node, request: StageRequest) -> tuple[Program, Node, str]:
    for stmt in program.statements.values():
        if stmt.write.array == request.array and not stmt.write.exact:
            raise IllegalSchedule.at(
                request.span,
                f"{request.array} cannot be staged at {request.loop[1]}: data decide which "
                f"elements {stmt.name} updates",
            )
    try:
        return stage(
            program, tree, request.array, request.statement, request.loop,
            layout=request.layout, memory=request.memory,
        )  # fmt: skip
    except CannotPlace as error:
        raise IllegalSchedule.at(
            request.span,
            f"{request.array} cannot be staged at {request.loop[1]}: {error}",
            help=error.help,
        ) from None


def _tile(code: Code, request: ComputeRequest) -> Code:
    """A scope for a computed array that lives in no memory. That each of its elements has one
    register for all its uses is asked when copies and lanes are written out."""
    array, at = request.array, request.store
    if at is None or body_at(code, at) is None:
        where = "at root" if at is None else f"at {at[1]}, which is unrolled or vectorized"
        raise IllegalSchedule.at(request.span, f"{array} cannot stay in registers {where}")
    return keep_at(code, array, at, private=True)


def _in_registers(program: Program, code: Code, request: StageRequest) -> Code:
    """A scope for what the body of the loop touches, where that is proved to be safe."""
    found = body_at(code, request.loop)
    if found is None:
        reason: str | None = f"{request.loop[1]} is unrolled or vectorized"
    else:
        reason = why_not(program, request.array, *found)
    if reason is not None:
        raise IllegalSchedule.at(
            request.span, f"{request.array} cannot stay in registers at {request.loop[1]}: {reason}"
        )
    return keep_at(code, request.array, request.loop)
