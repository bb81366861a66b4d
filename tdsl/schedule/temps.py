"""Suggests a temp of a `for` body instead of one that all iterations share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tdsl.diagnostics import Error
from tdsl.ir.kernel import BodyItem, Kernel, Nest, Read, Statement, walk
from tdsl.polyhedral import dependences, model, proofs
from tdsl.polyhedral.program import Violation
from tdsl.schedule.directives import Directive
from tdsl.schedule.resolve import Step
from tdsl.schedule.state import State

Works = Callable[..., bool]


@dataclass(frozen=True)
class Suggestion:
    """What is said, and the directives that do it where they go before the refused one."""

    text: str
    before: tuple[Directive, ...] = ()


def local_temp(
    violations: tuple[Violation, ...], state: State, step: Step, works: Works
) -> Iterator[Suggestion]:
    """Where only one temp is in the way, and each iteration writes it before it reads it."""
    kernel = state.program.kernel
    names = {v.array for v in violations}
    as_written = {s.init_of or s.name for s in state.program.statements.values()}
    if len(names) != 1 or as_written != {s.name for s in kernel.statements}:
        return
    (name,) = names
    array = kernel.array(name)
    if array.role != "temp" or array.local is not None:
        return
    for index in reversed(_around(kernel.body, name)):
        local = replace(array, local=index)
        arrays = tuple(local if a.name == name else a for a in kernel.arrays)
        trial = _with(state, replace(kernel, arrays=arrays))
        if trial is not None and works(trial, step):
            where = f"in the body of `for {index}`"
            yield Suggestion(f"declare `temp {name}` {where}: every iteration has its own")


def _with(state: State, kernel: Kernel) -> State | None:
    try:
        program = model.build(kernel)
        if proofs.diagnose(program):
            return None
    except Error:
        return None
    return replace(state, program=program, dependences=dependences.compute(program))


def _around(body: Sequence[BodyItem], array: str) -> tuple[str, ...]:
    """The indices of the nests that hold all uses of an array, outermost first."""
    users = [item for item in body if _uses(item, array)]
    if len(users) != 1 or not isinstance(users[0], Nest):
        return ()
    return (users[0].index, *_around(users[0].body, array))


def _uses(item: BodyItem, array: str) -> bool:
    match item:
        case Nest(body=body):
            return any(_uses(inner, array) for inner in body)
        case Statement():
            read = (e for root in (item.value, *item.subscript) for e in walk(root))
            return item.array == array or any(
                isinstance(e, Read) and e.array == array for e in read
            )
