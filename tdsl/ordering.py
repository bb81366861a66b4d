"""Questions about an order that is given whole, one tuple of times a statement.

tdsl.check_order(kernel, {"S": "[i, j] -> [0, j, i]"}, parallel=1)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tdsl import driver
from tdsl.api import Constant, Kernel
from tdsl.diagnostics import IllegalSchedule, Note, ParseError
from tdsl.ir import index
from tdsl.ir.kernel import INDEX, Expr, Op, Size, Var
from tdsl.polyhedral import dependences, legality
from tdsl.polyhedral.affine import NotAffine
from tdsl.polyhedral.order import tree_from_order
from tdsl.polyhedral.program import Program, Violation
from tdsl.polyhedral.tree import loops
from tdsl.schedule.directives import Order
from tdsl.syntax import tree
from tdsl.syntax.parser import parse_directives
from tdsl.targets import TARGETS

_WORDS = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod"}


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
    options = driver.Options(kernel.name, TARGETS["c"], sizes or {}, constants or {})
    front = driver.run(kernel.module.file, options, until="dependences")
    program = front.program
    times = _times(program, order)
    try:
        plain = tree_from_order(program, times)
    except NotAffine as error:
        raise ParseError.at(
            error.expr.span, "a time is an affine expression of the indices and sizes"
        ) from None
    once = [v for v in legality.check_once(program, plain) if _is_scheduled(program, v.source)]
    if any(name not in times for name in _scheduled(program)):
        return once
    placed = legality.with_inits(program, plain)
    constraining = dependences.relaxed(front.dependences, program, frozenset(reassociate))
    found = once + list(legality.check(program, placed, constraining))
    if parallel is not None:
        chosen = [loop for loop in loops(placed) if loop.name == f"t{parallel}"]
        if not chosen:
            raise ValueError(f"parallel={parallel}: no statement has a loop at this position")
        for loop in chosen:
            found += legality.check_parallel(program, placed, front.dependences, loop)
    return found


def _scheduled(program: Program) -> list[str]:
    return [name for name, stmt in program.statements.items() if stmt.init_of is None]


def _is_scheduled(program: Program, name: str) -> bool:
    return program.statements[name].init_of is None


def _times(program: Program, order: Mapping[str, str]) -> dict[str, list[Expr]]:
    known = _scheduled(program)
    for name in order:
        if name not in known:
            raise IllegalSchedule.at(
                None, f"{program.kernel.name} has no statement {name}",
                Note(f"its statements are {', '.join(known)}"),
            )  # fmt: skip
    # In the order of the program, which decides between statements at one time.
    return {name: _time(program, name, order[name]) for name in known if name in order}


def _time(program: Program, name: str, text: str) -> list[Expr]:
    """`[i, j] -> [j, i]` by our own grammar, as a part of the directive that says the same."""
    directives = parse_directives(f"order {{ S{text} }}", f"<order of {name}>")
    match directives:
        case (Order(entries=((_, given, times),), names=()),) if text.lstrip().startswith("["):
            pass
        case _:
            raise ParseError.at(None, f"{name}: expected [indices] -> [times], got {text!r}")
    indices = program.statements[name].indices
    if len(given) != len(indices):
        raise ParseError.at(
            directives[0].span,
            f"{name} has {len(indices)} indices ({', '.join(indices)}), and here are {len(given)}",
        )
    names: dict[str, Expr] = {size: Size(size) for size in program.params}
    names |= {size: index.const(value) for size, value in program.kernel.bound}
    names |= {c: index.const(v) for c, v in program.kernel.constants if isinstance(v, int)}
    names |= {mine: Var(own) for mine, own in zip(given, indices, strict=True)}
    return [_expr(time, names) for time in times]


def _expr(expr: tree.Expr, names: Mapping[str, Expr]) -> Expr:
    match expr:
        case tree.Number(value, False):
            return index.const(int(value))
        case tree.Name(name) if name in names:
            return names[name]
        case tree.Name(name):
            raise ParseError.at(expr.span, f"`{name}` is no index, size or constant here")
        case tree.Unary("-", operand):
            return Op("neg", (_expr(operand, names),), INDEX, span=expr.span)
        case tree.Binary(op, left, right) if op in _WORDS:
            args = (_expr(left, names), _expr(right, names))
            return Op(_WORDS[op], args, INDEX, span=expr.span)
        case _:
            raise ParseError.at(
                expr.span, "a time is an affine expression of the indices and sizes"
            )
