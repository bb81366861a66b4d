"""Index expressions: quasi-affine arithmetic on indices and sizes, in its simple form."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import combinations

from tdsl.diagnostics import ParseError, Span, TypeMismatch
from tdsl.ir.affine import linear, non_affine, number, simplify
from tdsl.ir.kernel import INDEX, Cast, Const, Expr, Op, Select, Size, Var, rebuilt, walk
from tdsl.syntax import tree
from tdsl.syntax.constants import exact
from tdsl.syntax.literals import constant
from tdsl.syntax.scope import Scope

_OPS = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod"}
_ONE = number(1)
SOME = 64  # in place of a size that might be bound

# Builds a part that is no index arithmetic: data, or a condition.
Other = Callable[[tree.Expr], Expr]


def affine(expr: Expr, span: Span | None, where: str) -> Expr:
    """The expression, refused where it is not quasi-affine. `where`: "index", "condition", ..."""
    part = non_affine(expr)
    if part is None:
        return expr
    assert isinstance(part, Op)
    bound = _binding(expr)
    ways = " ".join(f"--size {name}=64" for name in bound)
    if part.op == "mul":
        help = (
            f"bind {' and '.join(bound)} (`{ways}`) or make it a constant of the kernel; a "
            "flattened index such as `i * N + j` is an array of two dimensions, `x[i, j]`"
            if bound
            else f"no size that is bound makes it affine: a table of the kernel or an integer "
            f"argument with a `range` may hold the numbers of this {where}"
        )
        raise ParseError.at(
            span,
            f"this {where} multiplies two unknowns, so it is not affine and nothing can be "
            "proved about it",
            help=help,
        )
    word = "%" if part.op == "mod" else "//"
    instead = f", or bind {' and '.join(bound)} (`{ways}`)" if bound else ""
    raise ParseError.at(
        span,
        f"this {where} has `{word}` by something that is not known at compile time",
        help=f"divide by a number or a constant{instead}",
    )


def _binding(expr: Expr) -> tuple[str, ...]:
    """The fewest sizes with which the expression is affine once they are bound; () for none. Of
    two the later: in `M * N` it is N that an index of the same array multiplies, row by row."""
    sizes = list(dict.fromkeys(e.name for e in walk(expr) if isinstance(e, Size)))
    for count in range(1, len(sizes) + 1):
        for chosen in combinations(reversed(sizes), count):
            if non_affine(simplify(_bound(expr, chosen))) is None:
                return tuple(sorted(chosen, key=sizes.index))
    return ()


def _bound(expr: Expr, names: Collection[str]) -> Expr:
    if isinstance(expr, Size) and expr.name in names:
        return number(SOME)
    return rebuilt(expr, lambda e: _bound(e, names))


class Indices:
    """Builds index expressions. `visible`: indices in scope; `data`, `condition` build the rest."""

    def __init__(
        self, scope: Scope, visible: frozenset[str], data: Other, condition: Other
    ) -> None:
        self.scope, self.visible = scope, visible
        self.data, self.condition = data, condition

    def build(self, expr: tree.Expr, mixed: bool) -> Expr:
        """An index expression, simplified. `mixed`: integer data are allowed in it."""
        built = simplify(self._raw(expr, mixed))
        return replace(built, span=expr.span)

    def _raw(self, expr: tree.Expr, mixed: bool) -> Expr:
        value = exact(expr, self.scope.exact)
        if value is not None:
            return constant(value, INDEX, expr.span)
        match expr:
            case tree.Name(name) if name in self.visible:
                return Var(name, span=expr.span)
            case tree.Name(name) if self.scope.size_value(name) is not None:
                found = self.scope.size_value(name)
                assert found is not None
                return found
            case tree.Unary("-", operand):
                return Op("neg", (self._raw(operand, mixed),), INDEX)
            case tree.Binary(op, left, right) if op in _OPS:
                pair = (self._raw(left, mixed), self._raw(right, mixed))
                return Op(_OPS[op], pair, INDEX, span=expr.span)
            case tree.Binary("/"):
                raise TypeMismatch.at(
                    expr.span, "`/` divides floats, and this is an index", help="write `//`"
                )
            case tree.Call(func, args, ()) if func in _CALLS:
                self._arity(expr, _CALLS[func])
                return self._call(func, args, mixed, expr)
            case _:
                return self._data(expr, mixed)

    def _data(self, expr: tree.Expr, mixed: bool) -> Expr:
        built = self.data(expr)
        if built.type == INDEX:
            return built
        shown = expr.span.text if expr.span is not None else "..."
        if not built.type.is_integer:
            raise TypeMismatch.at(
                expr.span,
                f"an index is an integer, and this is {built.type}",
                help=f"write `i32({shown})`",
            )
        if not mixed:
            raise TypeMismatch.at(
                expr.span,
                f"index arithmetic and {built.type} data stand in one expression; types are never "
                "converted silently",
                help=f"convert the index: `{built.type}(...)`",
            )
        return Cast("convert", built, INDEX, span=expr.span)

    def _arity(self, call: tree.Call, wanted: tuple[int, ...]) -> None:
        if len(call.args) not in wanted and not (wanted == (2, 0) and len(call.args) > 2):
            n = wanted[0]
            raise ParseError.at(
                call.span,
                f"`{call.func}` takes {n} argument{'s' if n > 1 else ''}, and {len(call.args)} "
                "came",
            )

    def _call(self, func: str, args: tuple[tree.Expr, ...], mixed: bool, call: tree.Expr) -> Expr:
        if func == "select":
            condition = self.condition(args[0])
            then, other = self._raw(args[1], mixed), self._raw(args[2], mixed)
            if isinstance(condition, Const):
                return then if condition.value else other
            return Select(condition, then, other, INDEX)
        values = [self._raw(a, mixed) for a in args]
        match func:
            case "clamp":
                low = Op("max", (values[0], values[1]), INDEX)
                return Op("min", (low, values[2]), INDEX)
            case "wrap":
                return self._wrap(values[0], values[1], args[1], call.span)
            case "mirror":
                return _mirror(values[0], values[1])
            case _:
                return Op(func, tuple(values), INDEX)

    def _wrap(self, e: Expr, n: Expr, written: tree.Expr, span: Span | None) -> Expr:
        """e modulo n, which has to be known."""
        if not linear(n).is_constant:
            name = "the size" if written.span is None else f"`{written.span.text}`"
            raise ParseError.at(
                span,
                f"`wrap` goes round a length that is known at compile time, and {name} is not",
                help="bind the size (`--size N=64`), make it a constant of the kernel, or use "
                "`clamp` or `mirror`, which take any size",
            )
        return Op("mod", (e, n), INDEX)


# Functions of indices with the number of their arguments; (2, 0) is two or more.
_CALLS = {
    "min": (2, 0), "max": (2, 0), "abs": (1,), "clamp": (3,), "wrap": (2,), "mirror": (2,),
    "select": (3,),
}  # fmt: skip


def _mirror(e: Expr, n: Expr) -> Expr:
    """Reflection that does not repeat the edge: -1 is 1, and n is n - 2.

    For a known n it has the period 2n - 2. For an unknown one it reflects once on either side,
    which stays affine; what lies further out fails the proof of bounds.
    """
    end = Op("sub", (n, _ONE), INDEX)
    twice = simplify(Op("mul", (number(2), end), INDEX))
    if linear(n).is_constant:
        folded = Op("mod", (e, twice), INDEX)
    else:
        folded = Op("max", (e, Op("neg", (e,), INDEX)), INDEX)
    return Op("min", (folded, Op("sub", (twice, folded), INDEX)), INDEX)
