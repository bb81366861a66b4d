"""`store`: where the elements of a temp are. Asked for here, made when the schedule is complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from tdsl.diagnostics import IllegalSchedule, Note
from tdsl.polyhedral import dependences
from tdsl.polyhedral.box import CannotPlace
from tdsl.polyhedral.explain import first_that_works
from tdsl.polyhedral.flatten import flattened
from tdsl.polyhedral.inits import with_inits
from tdsl.polyhedral.leaves import is_dim
from tdsl.polyhedral.need import group_of
from tdsl.polyhedral.overwrites import Lost, first_lost
from tdsl.polyhedral.place import localize
from tdsl.polyhedral.program import Violation, accesses_to
from tdsl.polyhedral.shared import share
from tdsl.polyhedral.sliding import first_only
from tdsl.polyhedral.stage import path_to
from tdsl.polyhedral.text import element_text, instance_text, sizes_text
from tdsl.polyhedral.tree import Loop, Node, statements
from tdsl.schedule import check, marks
from tdsl.schedule.directives import LoopRef, Store
from tdsl.schedule.dots import tile_layout
from tdsl.schedule.hints import closest, refusal
from tdsl.schedule.layouts import dimension, layout_of
from tdsl.schedule.literal import integer
from tdsl.schedule.references import one, statement_names
from tdsl.schedule.replaced import based, inside_homes, rebased
from tdsl.schedule.state import ComputeRequest, LoopAt, Private, State
from tdsl.schedule.structure import FACTOR
from tdsl.syntax.print_directive import print_directive

LONGER = 8  # lengths of a ring that are tried for a help line
MEMORIES = ("registers", "stack", "scratch", "heap")


def store(state: State, d: Store, on: Sequence[str]) -> State:
    """Record where an array is to be; `at` a loop also leaves out what would be computed again."""
    program = state.program
    names = statement_names(program, d.statement, d.span)
    array = program.statements[names[0]].write.array
    if program.arrays[array].role != "temp":
        if not program.arrays[array].is_argument:
            raise refusal(
                d.span, f"store places temps, and {array} is a copy, placed as it is made"
            )
        raise refusal(
            d.span,
            f"store places temps, and {array} is an argument",
            help=f"stage {array} at a loop: a copy may have any place and layout",
        )
    if program.arrays[array].local is not None and (d.at is None or d.fold):
        raise refusal(
            d.span,
            f"{array} is declared in the body of a `for`: its memory follows from the order",
            help="declare it outside the `for`",
        )
    known = next((c for c in state.computed if c.array == array), None)
    request = known or ComputeRequest(array, None, None, span=d.span)
    if d.inside is not None:
        return _recorded(state, _inside(state, d, request))
    if d.layout is not None:
        layout = layout_of(program, array, d.layout, d.span)
        return _recorded(state, replace(request, layout=layout, span=d.span))
    fold = tuple((dimension(program, array, name, d.span), integer(n)) for name, n in d.fold)
    for name, n in d.fold:
        if not 1 <= integer(n) < FACTOR:
            least = "at least 1 element" if integer(n) < 1 else "fewer than 2^40 elements"
            raise refusal(d.span, f"fold {name} by {integer(n)}: a ring has {least}")
    if d.memory is not None and d.memory not in MEMORIES:
        help = closest(d.memory, MEMORIES, "memories")
        raise refusal(d.span, f"there is no memory {d.memory}", help=help)
    request = replace(request, fold=fold, memory=d.memory or request.memory, span=d.span)
    return _at(state, d, on, request, known is not None)


def _recorded(state: State, request: ComputeRequest) -> State:
    others = tuple(c for c in state.computed if c.array != request.array)
    return replace(based(state), computed=(*others, request))


def _inside(state: State, d: Store, request: ComputeRequest) -> ComputeRequest:
    arrays = state.program.arrays
    assert d.inside is not None
    if d.inside not in arrays:
        help = closest(d.inside, arrays, "arrays")
        raise refusal(d.span, f"there is no array {d.inside}", help=help)
    host = next((c.inside for c in state.computed if c.array == d.inside), None)
    if d.inside == request.array:
        raise refusal(d.span, f"{request.array} cannot live in itself")
    if host is not None:
        what = f"{request.array} cannot live in {d.inside}, which lives in {host}"
        raise refusal(d.span, what, help=f"store {d.statement} in {host}")
    if not arrays[d.inside].is_argument and arrays[d.inside].role != "temp":
        raise refusal(d.span, f"{request.array} cannot live in {d.inside}, which is a copy")
    if arrays[d.inside].role not in ("out", "inout", "temp"):
        raise refusal(d.span, f"{d.inside} is an argument that the kernel only reads")
    try:
        share(state.program, request.array, d.inside)
    except CannotPlace as error:
        raise refusal(
            d.span, f"{request.array} cannot live in {d.inside}: {error}", help=error.help
        ) from None
    return replace(request, inside=d.inside, span=d.span)


# ---------------------------------------------------------------- at a loop


def _at(
    state: State, d: Store, on: Sequence[str], request: ComputeRequest, computed: bool
) -> State:
    if d.at == "root" and request.at is None:
        return _recorded(state, request)
    if not computed or request.at is None:
        raise refusal(
            d.span,
            f"{request.array} is computed at root: it is needed there as a whole",
            help=f"put `compute {d.statement} at` a loop before `store`",
        )
    placed = with_inits(state.program, state.tree)
    loops = path_to(placed, *request.at)
    outside = 0
    key: tuple[str, str] | None = None
    if isinstance(d.at, LoopRef):
        at = one(state, d.at, on)
        outside = next((n + 1 for n, x in enumerate(loops) if _is(x, at.loop)), 0)
        if not outside:
            raise refusal(
                d.span,
                f"{at} is no loop around {request.at[0]}.{request.at[1]}, where {request.array} "
                "is computed",
                help=closest(at.name, [x.name for x in loops], "loops"),
            )
        key = (request.at[0], at.name)
        _whole(state, d, request, at)
    kept = [x.name for x in loops].index(request.store[1]) + 1 if request.store else 0
    if request.slid and outside > kept:
        where = f"at {'.'.join(request.store)}" if request.store else "at root"
        raise refusal(
            d.span,
            f"{request.array} is stored {where} already, where what an iteration has computed is "
            f"kept: it cannot be new in each iteration of {loops[outside - 1].name}",
            help=f"leave out the `store` {where}",
        )
    private = {a: home for a, home in state.private.items() if a != request.array}
    if key is not None:
        private[request.array] = key
        state = replace(state, hosts=(*state.hosts, (*key, print_directive(d))))
    program = state.program
    slid: tuple[str, ...] = ()
    if outside < len(loops):
        program, slid = first_only(program, request.array, loops, outside)
    request = replace(request, store=key, slid=request.slid or bool(slid))
    state = _recorded(state, request)
    touched = {
        a.array
        for s in program.statements.values()
        if s.write.array == request.array
        for a in (s.write, *s.reads)
    }
    return rebased(replace(state, private=private), program, state.tree, touched)


def _whole(state: State, d: Store, request: ComputeRequest, at: LoopAt) -> None:
    """Refuses memory that is new in each iteration of a loop outside of which others write it."""
    inside = statements(at.loop.body)
    outside = [s for s in group_of(state.program, request.array) if s not in inside]
    if outside:
        raise refusal(
            d.span,
            f"{outside[0]} writes {request.array} outside {at}: {request.array} cannot be new in "
            "each of its iterations",
            help=f"put `compute {outside[0]} at {'.'.join(request.at or ())}` before this",
        )


def _is(placed: Loop, loop: Loop) -> bool:
    """The same loop in a tree with the first terms of reductions."""
    return placed.name == loop.name and loop.coords.keys() <= placed.coords.keys()


# ---------------------------------------------------------------- the complete schedule


def placed(state: State) -> tuple[State, Private]:
    """The state with memory for all that was asked for, and where each array is new."""
    tree = with_inits(state.program, state.tree)
    again: list[str] = []
    for request in state.computed:
        if request.inside is not None:
            state = _shared(state, tree, request)
            again.append(request.inside)
    for request in state.computed:
        if request.inside is None and state.program.arrays[request.array].is_argument:
            if request.memory is not None:
                what = f"{request.array} is an argument, which has its memory"
                raise refusal(request.span, what, help=f"leave out `in {request.memory}`")
        elif request.inside is None:
            state = _localized(state, tree, request)
            again += [request.array] if request.fold else []
    if again:
        state = _checked(state, tree, again)
    return state, homes(state.private, tree)


def homes(private: Mapping[str, tuple[str, str]], tree: Node) -> Private:
    """Every array that is new in the iterations of a loop, with this and the loops around."""
    return {
        array: tuple((at[0], loop.name) for loop in _home(tree, at))
        for array, at in private.items()
    }


def _home(tree: Node, at: tuple[str, str] | None) -> tuple[Loop, ...]:
    """The loops from the root to a home. Lanes and jammed copies share what lives in them: it has
    room for all of them."""
    return () if at is None else tuple(x for x in path_to(tree, *at) if not is_dim(x))


def _paths(state: State, tree: Node) -> dict[str, tuple[Loop, ...]]:
    return {array: _home(tree, at) for array, at in state.private.items()}


def _shared(state: State, tree: Node, request: ComputeRequest) -> State:
    assert request.inside is not None
    array, host = request.array, request.inside
    what = f"{array} cannot live in {host}"
    if request.fold or request.layout is not None:
        raise refusal(request.span, f"{what} and have a ring or layout of its own")
    try:
        program = share(state.program, array, host)
    except CannotPlace as error:
        raise refusal(request.span, f"{what}: {error}", help=error.help) from None
    private = {a: at for a, at in state.private.items() if a != array}
    lost = first_lost(state.program, program, tree, (array, host), _paths(state, tree))
    if lost is not None:
        raise _refused(state, request, lost, what)
    kept = tuple(d for d in state.dependences if d.array != array)
    stages = tuple(replace(r, array=host) if r.array == array else r for r in state.stages)
    return replace(state, program=program, private=private, dependences=kept, stages=stages)


def _localized(state: State, tree: Node, request: ComputeRequest) -> State:
    array = request.array
    home = _home(tree, request.store)
    where = "at root" if request.store is None else f"at {request.store[1]}"
    what = f"{array} cannot be stored {where}"
    if request.memory == "registers" and request.layout is None:
        request = replace(request, layout=tile_layout(state, array))
    if request.memory is not None:
        what += f" in {request.memory}"
    program = state.program
    free = request.layout is None and not request.fold and not _named(state, array)
    if home and free and not _outside(state, array, home):
        program = flattened(program, tree, array, home)
    try:
        program = localize(
            program, tree, array, home,
            fold=dict(request.fold), layout=request.layout, memory=request.memory,
        )  # fmt: skip
    except CannotPlace as error:
        raise refusal(request.span, f"{what}: {error}", help=error.help) from None
    if request.fold:
        lost = first_lost(state.program, program, tree, (array,), _paths(state, tree))
        if lost is not None:
            lengths = " and ".join(str(n) for _, n in request.fold)
            what = f"a ring of {lengths} for {array} is too short"
            raise _refused(state, request, lost, what, _long_enough(state, tree, request))
    return replace(state, program=program)


def _named(state: State, array: str) -> bool:
    """Whether the layout of a copy names the dimensions that the array has."""
    return any(r.array == array and r.layout is not None for r in state.stages)


def _outside(state: State, array: str, home: Sequence[Loop]) -> bool:
    """Whether a statement uses the array outside the loops that it is new in."""
    below = home[-1].coords
    return any(
        s.name not in below for s in state.program.statements.values() if accesses_to(s, array)
    )


def _long_enough(state: State, tree: Node, request: ComputeRequest) -> str | None:
    """The next longer ring that keeps all values, where it is not much longer."""
    if len(request.fold) != 1:
        return None
    ((dim, length),) = request.fold
    home = _home(tree, request.store)

    def keeps(n: int) -> bool:
        program = localize(
            state.program, tree, request.array, home,
            fold={dim: n}, layout=request.layout, memory="scratch",
        )  # fmt: skip
        paths = _paths(state, tree)
        return first_lost(state.program, program, tree, (request.array,), paths) is None

    longer = range(length + 1, length + 1 + LONGER)
    return first_that_works((f"a ring of {n} is long enough", partial(keeps, n)) for n in longer)


def _refused(
    state: State, request: ComputeRequest, lost: Lost, what: str, help: str | None = None
) -> IllegalSchedule:
    """The refusal of memory in which a value is overwritten too early."""
    pair, statements = lost.witness, state.program.statements
    writer, reader, element, at = lost.writer, lost.reader, lost.array, ""
    if pair is not None:
        writer = instance_text(writer, statements[writer].indices, pair.source)
        if reader is not None:
            reader = instance_text(reader, statements[reader].indices, pair.sink)
        if pair.element is not None:
            element = element_text(lost.array, pair.element)
        at = f", with {sizes_text(pair.sizes)}" if pair.sizes else ""
    span = statements[lost.writer].span
    notes: tuple[Note, ...]
    if reader is None:
        notes = (Note(f"{writer} writes the place of {element}, and nothing after it", span),)
    else:
        notes = (
            Note(f"{writer} overwrites the place of {element}", span),
            Note(f"and then {reader} reads it", statements[lost.reader or ""].span),
        )
    violation = Violation("storage", lost.writer, lost.reader or lost.writer, lost.array, pair)
    error = refusal(request.span, f"{what}{at}", *notes, help=help)
    return IllegalSchedule(*error.diagnostics, violations=(violation,))


def _checked(state: State, tree: Node, arrays: Sequence[str]) -> State:
    """The dependences that shared places and rings add, and the marks that they may break."""
    changed = frozenset(arrays)
    kept = tuple(d for d in state.dependences if d.array not in changed)
    wanted = [a for a in state.program.arrays if a in changed]
    found = dependences.compute(state.program, tree, wanted)
    state = replace(state, dependences=(*kept, *inside_homes(state, tree, found)))
    span = next((c.span for c in state.computed if {c.array, c.inside} & changed), None)
    for at in marks.all_marked(state):
        if broken := check.mark(state, at):
            raise check.illegal(state, broken, span, at.loop.notes[-1])
    return state
