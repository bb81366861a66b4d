"""Questions about an order that is given whole, one tuple of times a statement.

tdsl.check_order(kernel, {"S": "[i, j] -> [0, j, i]"}, parallel=1)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tdsl import driver
from tdsl.api import Constant, Kernel
from tdsl.diagnostics import IllegalSchedule, Note, ParseError
from tdsl.polyhedral import dependences, legality
from tdsl.polyhedral.affine import NotAffine
from tdsl.polyhedral.order import tree_from_order
from tdsl.polyhedral.program import Program, Violation
from tdsl.polyhedral.tree import loops
from tdsl.schedule.directives import Order
from tdsl.schedule.times import NOT_AFFINE, Entry, scheduled, times
from tdsl.syntax.parser import parse_directives
from tdsl.targets import TARGETS


def check_order(
    kernel: Kernel,
    order: Mapping[str, str],
    parallel: int | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    constants: Mapping[str, Constant] | None = None,
    reassociate: Iterable[str] = (),
) -> list[Violation]:
    """What an order would break; an empty list is a legal one.

    order: for each statement its indices (left-hand, then reduction, or those of the `for`) and the
    tuple by which its instances run, lexicographically; short tuples go on with zeros, a statement
    without loops is `[]`, and `S.init` follows S. parallel: the position of a time dimension that
    is to run in parallel. reassociate: statements whose float sums may change their order.
    """
    if not order:
        raise ValueError(f"the order names no statement of {kernel.name}")
    options = driver.Options(kernel.name, TARGETS["c"], sizes or {}, constants or {})
    front = driver.run(kernel.module.file, options, until="dependences")
    program = front.program
    given = [time for name in order for time in _entry(program, name, order[name])]
    tuples = times(program, given)
    try:
        plain = tree_from_order(program, tuples)
    except NotAffine as error:
        raise ParseError.at(error.expr.span, NOT_AFFINE) from None
    once = legality.check_once(program, plain, scheduled(program))
    if any(name not in tuples for name in scheduled(program)):
        return list(once)
    placed = legality.with_inits(program, plain)
    constraining = dependences.relaxed(front.dependences, program, frozenset(reassociate))
    found = [*once, *legality.check(program, placed, constraining)]
    if parallel is not None:
        chosen = [loop for loop in loops(placed) if loop.name == f"t{parallel}"]
        if not chosen:
            raise ValueError(f"parallel={parallel}: no statement has a loop at this position")
        for loop in chosen:
            found += legality.check_parallel(program, placed, front.dependences, loop)
    return found


def _entry(program: Program, name: str, text: str) -> tuple[Entry, ...]:
    """`[i, j] -> [j, i]` by our own grammar, as a part of the directive that says the same."""
    if name not in scheduled(program):
        raise IllegalSchedule.at(
            None, f"{program.kernel.name} has no statement {name}",
            Note(f"its statements are {', '.join(scheduled(program))}"),
        )  # fmt: skip
    if "->" not in text:
        raise ParseError.at(None, f"{name}: expected [indices] -> [times], got {text!r}")
    directives = parse_directives(f"order {{ S{text} }}", f"<order of {name}>")
    match directives:
        case (Order(entries=((_, given, time),), names=()),) if text.lstrip().startswith("["):
            return ((name, given, time),)
        case _:
            raise ParseError.at(None, f"{name}: expected [indices] -> [times], got {text!r}")
