"""Placements: what a schedule asks for beside the order. Made by the lowering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tdsl.polyhedral.edit import find
from tdsl.polyhedral.stage import path_to
from tdsl.polyhedral.tree import Loop, statements
from tdsl.schedule import layouts
from tdsl.schedule.directives import Stage
from tdsl.schedule.hints import closest, listing, refusal
from tdsl.schedule.references import one, statement_names
from tdsl.schedule.state import LoopAt, StageRequest, State

MEMORIES = ("registers", "stack", "scratch")


def stage(state: State, d: Stage, on: Sequence[str]) -> State:
    """Record a copy of what the body of a loop touches, where these things exist."""
    program = state.program
    array = d.array.array
    if array not in program.arrays:
        raise refusal(
            d.array.span or d.span,
            f"there is no array {array}",
            help=closest(array, program.arrays, "arrays"),
        )
    if d.memory is not None and d.memory not in MEMORIES:
        raise refusal(
            d.span,
            f"there is no memory {d.memory}",
            help=closest(d.memory, MEMORIES, "memories"),
        )
    at = one(state, d.at, on)
    below = statements(at.loop.body)
    reader = None
    if d.array.statement is not None:
        readers = statement_names(program, d.array.statement, d.array.span)
        if len(readers) > 1:
            raise refusal(d.span, f"{d.array.statement} may be {listing(readers, 'or')}")
        reader = readers[0]
        below = tuple(s for s in below if s == reader)
    touched = [
        s
        for s in below
        if array == program.statements[s].write.array
        or any(array == a.array for a in program.statements[s].reads)
    ]
    if not touched:
        who = reader or f"the body of {at}"
        raise refusal(d.span, f"{who} does not touch {array}: there is nothing to stage at {at}")
    layout = None
    if d.layout is not None:
        if d.memory == "registers":
            raise refusal(d.span, "registers have no layout")
        layout = layouts.layout_of(program, array, d.layout, d.span, d.array.dims)
    request = StageRequest(array, reader, (at.statement, at.name), d.memory, layout, span=d.span)
    return replace(state, stages=(*state.stages, request))


def host_of(state: State, at: LoopAt) -> tuple[Loop, ...]:
    """The loops from the root to the one in whose body the nest of this loop was placed, or ()."""
    key = state.hosted.get(at.statement)
    if key is None:
        return ()
    path = path_to(state.tree, *key)
    return () if any(loop is at.loop for loop in path) else path


def hosted(state: State, at: LoopAt) -> str | None:
    """What a loop, or one inside it, hosts, so that it is no longer split or reordered."""
    for request in state.stages:
        statement, name = request.loop
        if find(state.tree, statement, name) is at.loop:
            return f"stage {request.array} at {at}"
    for statement, name, directive in state.hosts:
        if any(loop is at.loop for loop in path_to(state.tree, statement, name)):
            return directive
    return None
