"""`layout`: the order in which an argument is stored, which its caller has to know."""

from __future__ import annotations

from dataclasses import replace

from tdsl.polyhedral.box import CannotPlace, Layout, box
from tdsl.schedule import directives
from tdsl.schedule.hints import closest, refusal
from tdsl.schedule.layouts import layout_of
from tdsl.schedule.state import State
from tdsl.syntax.tree import Name


def layout(state: State, d: directives.Layout) -> State:
    """Record the storage order of an argument; the accesses follow when all else is decided."""
    arrays = state.program.arrays
    array = arrays.get(d.array)
    if array is None:
        known = [n for n, a in arrays.items() if a.is_argument]
        raise refusal(
            d.span, f"there is no argument {d.array}", help=closest(d.array, known, "arguments")
        )
    if not array.is_argument:
        raise refusal(
            d.span,
            f"layout stores arguments, and {d.array} is a {array.role}",
            help=f"write store {d.array} as [...]" if array.role != "table" else None,
        )
    if array.strides is not None or array.field is not None:
        raise refusal(d.span, f"the declaration of {d.array} says where its elements are already")
    if array.range is not None:
        raise refusal(
            d.span,
            f"{d.array} promises its values, and those between its elements are anything",
            help="leave the range out, and clamp where the values are used as indices",
        )
    if d.array in state.layouts:
        raise refusal(d.span, f"{d.array} has a layout already")
    names = tuple(Name(n) for n in d.indices)
    made = layout_of(state.program, d.array, d.storage, d.span, names)
    _fits(state, d, made)
    return replace(state, layouts={**state.layouts, d.array: made})


def _fits(state: State, d: directives.Layout, made: Layout) -> None:
    tuple_name = state.program.extents[d.array].get_tuple_name()
    try:
        box(state.program, d.array, (), None, name=d.array, tuple_name=tuple_name, layout=made)
    except CannotPlace as error:
        raise refusal(d.span, f"{d.array}: {error}", help=error.help) from None


def complete(state: State) -> None:
    """What does not go together with a layout."""
    for request in state.prefetches:
        if request.array in state.layouts:
            raise refusal(
                request.span,
                f"prefetch asks for lines of {request.array}, which a layout stores in another "
                "order",
                help=f"stage or pack {request.array} instead, or leave the prefetch out",
            )
    for requested in state.computed:
        if requested.inside is not None and requested.inside in state.layouts:
            raise refusal(
                requested.span,
                f"{requested.array} cannot live in {requested.inside}, which has a layout",
            )
