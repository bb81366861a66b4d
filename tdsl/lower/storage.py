"""Where elements are while a schedule runs: first terms, copies of stages, registers."""

from __future__ import annotations

from dataclasses import dataclass

from tdsl.diagnostics import IllegalSchedule
from tdsl.polyhedral.inits import with_inits
from tdsl.polyhedral.leaves import Code, sink
from tdsl.polyhedral.program import Program
from tdsl.polyhedral.registers import body_at, keep_at, why_not
from tdsl.polyhedral.stage import CannotStage, stage
from tdsl.polyhedral.tree import Node
from tdsl.schedule.state import StageRequest


@dataclass(frozen=True)
class Stored:
    """`program`, `tree`: with first terms and the copies that stages make; `code`: with lanes and
    jammed copies at the leaves, and scopes for `kept`, the register stages that were asked for."""

    program: Program
    tree: Node
    code: Code
    kept: tuple[StageRequest, ...] = ()


def store(program: Program, tree: Node, stages: tuple[StageRequest, ...], *, lanes: bool) -> Stored:
    """Decides storage for a finished schedule. Raises IllegalSchedule where a stage cannot be.

    A stage in registers is refused for the same reasons on every target; without lanes (target
    c) its tile is a loop, and the elements stay in memory.
    """
    placed = with_inits(program, tree)
    for request in stages:
        if request.memory != "registers":
            program, placed = _copied(program, placed, request)
    asked = tuple(r for r in stages if r.memory == "registers")
    code = sink(placed, lanes=True)
    for request in asked:
        code = _in_registers(program, code, request)
    if lanes:
        return Stored(program, placed, code, asked)
    return Stored(program, placed, sink(placed, lanes=False))


def _copied(program: Program, tree: Node, request: StageRequest) -> tuple[Program, Node]:
    try:
        return stage(program, tree, request.array, request.statement, request.loop)
    except CannotStage as error:
        raise IllegalSchedule.at(
            request.span,
            f"{request.array} cannot be staged at {request.loop[1]}: {error}",
            help=error.help,
        ) from None


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
