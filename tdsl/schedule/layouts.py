"""The names that an array's definition gives its dimensions, and layouts over them."""

from __future__ import annotations

from collections.abc import Sequence

from tdsl.diagnostics import ParseError, Span
from tdsl.ir.kernel import Read, Var, walk
from tdsl.polyhedral.affine import NotAffine, pw_aff, scope
from tdsl.polyhedral.box import Layout
from tdsl.polyhedral.program import Program
from tdsl.schedule.hints import closest, refusal
from tdsl.schedule.times import size_expr
from tdsl.syntax.tree import Expr, Name


def dimension_names(program: Program, array: str) -> tuple[str | None, ...]:
    """What an array's dimensions are called where it is defined, else where it is first read by
    plain names; None for one that has no such name."""
    written = [s.subscript for s in program.kernel.statements if s.array == array]
    if not written:  # made by a directive: its own statement says
        written = [s.write.subscript for s in program.statements.values() if s.write.array == array]
    if written:
        return tuple(e.name if isinstance(e, Var) else None for e in written[0])
    for stmt in program.kernel.statements:
        for read in walk(stmt.value):
            if isinstance(read, Read) and read.array == array:
                names = [e.name for e in read.indices if isinstance(e, Var)]
                if len(set(names)) == len(read.indices):
                    return tuple(names)
    return (None,) * len(program.arrays[array].shape)


def dimension(program: Program, array: str, name: str, span: Span | None) -> int:
    """The position of a dimension by its name."""
    names = dimension_names(program, array)
    if name not in names:
        known = [n for n in names if n is not None]
        help = closest(name, known, "dimensions")
        raise refusal(span, f"no dimension of {array} is called {name}", help=help)
    return names.index(name)


def layout_of(
    program: Program,
    array: str,
    storage: Sequence[Expr],
    span: Span | None,
    named: Sequence[Expr] = (),
) -> Layout:
    """The storage indices over the names of the array's dimensions; `named`: other names."""
    known = dimension_names(program, array)
    if named:
        known = tuple(e.id if isinstance(e, Name) else None for e in named)
        if len(known) != len(program.arrays[array].shape) or len(set(known)) != len(known):
            raise refusal(span, f"{array} has {len(program.arrays[array].shape)} dimensions")
    names = tuple(n or f"dimension {k}" for k, n in enumerate(known))
    where = scope(names, program.params, None)
    try:
        exprs = tuple(size_expr(program, e, {n: Var(n) for n in names}) for e in storage)
        for expr in exprs:
            pw_aff(expr, where)
    except NotAffine:
        raise refusal(
            span,
            f"a layout of {array} is made of sums of its dimensions and sizes, constant multiples, "
            "and `//` and `%` by constants",
        ) from None
    except ParseError as error:
        shown = error.diagnostics[0]
        plain = [n for n in known if n is not None]
        raise refusal(
            shown.span or span,
            f"a layout of {array} is made of constants and the names of its dimensions",
            help=closest("", plain, "names"),
        ) from None
    return Layout(names, exprs)
