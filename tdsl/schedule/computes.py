"""`compute` and `finish`: nests move into loops of others, to the root or to `NAME_prepare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tdsl.polyhedral import compute as moves
from tdsl.polyhedral.edit import find, with_plain_copies
from tdsl.polyhedral.legality import check_once
from tdsl.polyhedral.need import group_of, readers_of
from tdsl.polyhedral.nests import name_within
from tdsl.polyhedral.prepared import why_not_prepared, with_inits
from tdsl.polyhedral.stage import path_to
from tdsl.polyhedral.tree import loops_of, statements
from tdsl.polyhedral.unneeded import without_unneeded
from tdsl.schedule import check
from tdsl.schedule.directives import Compute, Finish, LoopRef
from tdsl.schedule.hints import listing, refusal
from tdsl.schedule.references import one, statement_names
from tdsl.schedule.replaced import based, rebased
from tdsl.schedule.state import ComputeRequest, LoopAt, StageRequest, State
from tdsl.syntax.print_directive import print_directive


def compute(state: State, d: Compute, on: Sequence[str]) -> State:
    """The nest of a producer moves to where it is needed."""
    state = based(state)
    names = statement_names(state.program, d.statement, d.span)
    written = dict.fromkeys(state.program.statements[s].write.array for s in names)
    arrays = tuple(a for a in written if readers_of(state.program, [a], names))
    if not arrays:
        raise refusal(d.span, f"nothing else reads what {d.statement} computes")
    if any(name in state.program.prepared for name in names):
        raise refusal(d.span, f"{d.statement} is computed at prepare already")
    for request in state.computed:
        if request.array in arrays and request.at is not None:
            _another(state, d, names, request, on)
    _carries_nothing(state, d, names, one(state, d.at, on) if isinstance(d.at, LoopRef) else None)
    match d.at:
        case "root":
            tree = moves.to_root(state.program, state.tree, names, arrays)
            return _requested(replace(state, tree=tree), d, arrays, None)
        case "prepare":
            return _prepared(state, d, names, arrays)
        case LoopRef():
            return _at(state, d, names, arrays, on)
        case _:
            raise refusal(d.span, f"there is no place {d.at}")


def _carries_nothing(
    state: State, d: Compute | Finish, names: Sequence[str], to: LoopAt | None
) -> None:
    """Refuses to move a nest away from under what stands on its loops."""
    around = () if to is None else path_to(state.tree, to.statement, to.name)
    for statement, name, directive in state.hosts:
        host = find(state.tree, statement, name)
        inside = statements(host.body)
        if not set(names).isdisjoint(inside) and not any(host is loop for loop in around):
            raise refusal(
                d.span,
                f"{d.statement} cannot be moved: `{directive}` stands on its loop {name}",
                help="put this directive before it",
                earlier=True,
            )


def _followed(
    state: State,
    d: Compute | Finish,
    names: Sequence[str],
    aliases: Mapping[tuple[str, str], str],
    to: tuple[str, str],
) -> tuple[StageRequest, ...]:
    """The copies at loops of a nest that moves (`state`: before it does), at what these have
    become: a loop that merged with one around, or has another name there."""
    around = path_to(state.tree, *to)
    taken = {loop.name for loop in around}
    result = []
    for request in state.stages:
        statement, name = request.loop
        if statement in names:
            if (statement, name) in aliases:
                name = aliases[statement, name]
            elif not any(loop is find(state.tree, *request.loop) for loop in around):
                name = name_within(name, names, taken)
        result.append(replace(request, loop=(statement, name)))
    return tuple(result)


def _another(
    state: State, d: Compute, names: Sequence[str], request: ComputeRequest, on: Sequence[str]
) -> None:
    """Refuses what an array of several definitions cannot have, one of which is placed already:
    a definition has one place, and all of them the same."""
    assert request.at is not None
    where = f"{request.array} is computed at {'.'.join(request.at)} already"
    if any(name in state.hosted for name in names):
        raise refusal(d.span, where)
    help = f"compute {d.statement} at {'.'.join(request.at)}"
    if not isinstance(d.at, LoopRef):
        raise refusal(d.span, where, help=help)
    if one(state, d.at, on).loop is not find(state.tree, *request.at):
        raise refusal(d.span, where, help=help)
    if d.memory is not None and request.memory not in (None, d.memory):
        raise refusal(d.span, f"{request.array} is in {request.memory} already")


def _requested(
    state: State,
    d: Compute,
    arrays: Sequence[str],
    at: tuple[str, str] | None,
    whole: Sequence[str] = (),
) -> State:
    if broken := check.order(state):
        raise check.illegal(state, broken, d.span, print_directive(d))
    return _recorded(state, d, arrays, at, whole)


def _recorded(
    state: State,
    d: Compute,
    arrays: Sequence[str],
    at: tuple[str, str] | None,
    whole: Sequence[str] = (),
) -> State:
    """`whole`: the arrays of which all is written and read there. One of which another definition
    stays outside keeps its memory, where none is asked for."""
    others = tuple(c for c in state.computed if c.array not in arrays)
    known = {c.array: c for c in state.computed}
    made = []
    for array in arrays:
        request = known.get(array) or ComputeRequest(array, None, None)
        if request.fold:
            raise refusal(d.span, f"put `compute` before the `store` that makes a ring of {array}")
        memory = d.memory or request.memory
        store = request.store or (at if array in whole or memory is not None else None)
        made.append(replace(request, at=at, store=store, memory=memory, span=d.span))
    return replace(state, computed=(*others, *made))


def _prepared(state: State, d: Compute, names: tuple[str, ...], arrays: Sequence[str]) -> State:
    program = state.program
    group = with_inits(program, names)
    tree = moves.to_front(program, state.tree, names, arrays, program.prepared)
    program = replace(program, prepared=program.prepared | group)
    # Others that it reads may be prepared by directives that follow: the order is asked at the end.
    return _recorded(replace(state, program=program, tree=tree), d, arrays, None)


def check_prepared(state: State) -> None:
    """Refuses what cannot be made once: asked when the schedule is complete."""
    if not state.program.prepared:
        return
    reason = why_not_prepared(state.program, state.program.prepared)
    if reason is not None:
        span = next((c.span for c in state.computed if c.at is None), None)
        raise refusal(span, f"this cannot be prepared: {reason}")


def _at(
    state: State, d: Compute, names: tuple[str, ...], arrays: Sequence[str], on: Sequence[str]
) -> State:
    assert isinstance(d.at, LoopRef)
    at = one(state, d.at, on)
    program = state.program
    readers = readers_of(program, arrays, names)
    if at.statement in names:
        named = [r for r in readers if r in statements(state.tree) and loops_of(state.tree, r)]
        uses = listing((f"{r}.{loops_of(state.tree, r)[-1].name}" for r in named), "or")
        raise refusal(
            d.span,
            f"{at} is a loop of {d.statement} itself",
            help=f"name a loop of what reads it, {uses}" if named else None,
        )
    inside = set(statements(at.loop.body))
    outside = [r for r in readers if (program.statements[r].init_of or r) not in inside]
    if not readers or (outside and not set(readers) & inside):
        raise refusal(d.span, f"nothing in {at} reads {listing(arrays)}")
    if outside:
        verb = "reads" if len(outside) == 1 else "read"
        raise refusal(
            d.span,
            f"{listing(outside)} {verb} {listing(arrays)} outside {at}",
            help=_common(state, readers, d.statement),
        )
    key = (at.statement, at.name)
    if parts := without_unneeded(program, state.tree, state.dependences, names, arrays, key):
        program = parts.program
        state = replace(state, program=program, tree=parts.tree, dependences=parts.dependences)
    whole = [
        a
        for a in arrays
        if set(group_of(program, a)) <= set(names) | inside and program.arrays[a].role == "temp"
    ]
    tree = with_plain_copies(state.tree, *key)
    moved = moves.compute(program, tree, names, arrays, key)
    hosts = (*state.hosts, (*key, print_directive(d)))
    stored = {c.array: c.store or key for c in state.computed if c.at is not None}
    private = {**state.private, **{a: stored.get(a, key) for a in whole}}
    touched = {program.statements[s].write.array for s in names}
    known = moves.with_other_writers(state.dependences, moved.old, moved.program, sorted(touched))
    ordered = replace(state, program=moved.program, tree=moved.tree, dependences=known)
    if broken := check.order(ordered):
        raise check.illegal(ordered, broken, d.span, print_directive(d))
    state = replace(
        state,
        dependences=moves.moved_dependences(
            state.dependences, moved.old, moved.program, sorted(touched)
        ),
        private=private,
        hosts=hosts,
        hosted={**state.hosted, **dict.fromkeys(names, key)},
        aliases={**state.aliases, **moved.aliases},
        merged=state.merged | moved.aliases.keys(),
        stages=_followed(state, d, names, moved.aliases, key),
    )
    state = rebased(state, moved.program, moved.tree, touched)
    return _requested(state, d, arrays, key, whole)


def _common(state: State, readers: Sequence[str], name: str) -> str | None:
    """The innermost loop around all readers."""
    shared = None
    for loop in loops_of(state.tree, readers[0]):
        if all(loop in loops_of(state.tree, r) for r in readers[1:]):
            shared = loop
    if shared is None:
        return f"fuse loops of {listing(readers)}, or compute {name} at root"
    return f"compute {name} at {readers[0]}.{shared.name}"


def finish(state: State, d: Finish, on: Sequence[str]) -> State:
    """The epilogue of a blocked reduction, in the iteration that adds the last block."""
    at = one(state, d.at, on)
    (name, *more) = statement_names(state.program, d.statement, d.span)
    if more:
        raise refusal(d.span, f"{d.statement} may be {listing([name, *more], 'or')}")
    if name in statements(at.loop):
        raise refusal(d.span, f"{name} stands in {at} already")
    _carries_nothing(state, d, (name,), at)
    key = (at.statement, at.name)
    whole = with_plain_copies(state.tree, *key)
    home = state.private.get(state.program.statements[at.statement].write.array)
    tree, aliases = moves.finish(state.program, whole, name, key, home)
    state = replace(
        state,
        tree=tree,
        hosts=(*state.hosts, (*key, print_directive(d))),
        hosted={**state.hosted, name: key},
        aliases={**state.aliases, **aliases},
        merged=state.merged | aliases.keys(),
        stages=_followed(state, d, (name,), aliases, key),
    )
    if check_once(state.program, tree, (name,)):
        # Each reads what the last iteration wrote: all of them would run there, at one place.
        array = state.program.statements[at.statement].write.array
        raise refusal(
            d.span,
            f"{name} cannot be finished at {at}: many of its instances wait for the same "
            f"iteration, the last one that writes {array}",
            help=f"leave out `{print_directive(d)}`, and {name} runs in loops of its own",
        )
    if broken := check.order(state):
        raise check.illegal(state, broken, d.span, print_directive(d))
    return state
