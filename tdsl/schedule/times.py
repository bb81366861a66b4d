"""Times of statements, `S[i, j] -> [0, j, i]`, as tuples of index expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tdsl.diagnostics import ParseError, Span
from tdsl.ir import index
from tdsl.ir.kernel import INDEX, Expr, Op, Size, Var
from tdsl.polyhedral.program import Program
from tdsl.schedule.hints import closest, refusal
from tdsl.syntax import tree

_WORDS = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod"}
NOT_AFFINE = "a time is an affine expression of the indices and sizes"

Entry = tuple[str, tuple[str, ...], tuple[tree.Expr, ...]]
"""A statement, names for its indices, its time."""


def scheduled(program: Program) -> tuple[str, ...]:
    """The statements that an order names: all but first terms, which follow theirs."""
    return tuple(name for name, stmt in program.statements.items() if stmt.init_of is None)


def times(
    program: Program, entries: Iterable[Entry], span: Span | None = None
) -> dict[str, list[Expr]]:
    """The times over the statements' own indices, in the order of the program, which decides
    between statements at one time."""
    known = scheduled(program)
    found: dict[str, list[Expr]] = {}
    for name, given, time in entries:
        if name not in known:
            raise refusal(
                span,
                f"{program.kernel.name} has no statement {name}",
                help=closest(name, known, "statements"),
            )
        if name in found:
            raise refusal(span, f"{name} has two times in this order")
        indices = program.statements[name].indices
        if len(given) != len(indices):
            listed = f" ({', '.join(indices)})" if indices else ""
            plural = "index" if len(indices) == 1 else "indices"
            raise ParseError.at(
                span,
                f"{name} has {len(indices)} {plural}{listed}, and here are {len(given)}",
            )
        names = _values(program) | {
            mine: Var(own) for mine, own in zip(given, indices, strict=True)
        }
        found[name] = [_expr(e, names) for e in time]
    return {name: found[name] for name in known if name in found}


def _values(program: Program) -> dict[str, Expr]:
    """Sizes and constants by name."""
    names: dict[str, Expr] = {size: Size(size) for size in program.params}
    names |= {size: index.const(value) for size, value in program.kernel.bound}
    names |= {c: index.const(v) for c, v in program.kernel.constants if isinstance(v, int)}
    return names


def size_expr(program: Program, expr: tree.Expr, loops: Mapping[str, Expr]) -> Expr:
    """An expression of sizes, constants and the given loops."""
    return _expr(expr, _values(program) | dict(loops))


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
            raise ParseError.at(expr.span, NOT_AFFINE)


def loop_names(
    depth: int, used: Sequence[int], names: Sequence[str], span: Span | None
) -> dict[int, str]:
    """Names for the time dimensions: one for each, or one for each that has a loop."""
    if not names:
        return {}
    if len(names) == depth:
        return dict(enumerate(names))
    if len(names) == len(used):
        return dict(zip(used, names, strict=True))
    raise refusal(
        span,
        f"this order has {depth} time dimensions, {len(used)} of them loops, and {len(names)} "
        "names",
        help="name all dimensions, or those that are loops, outermost first",
    )
