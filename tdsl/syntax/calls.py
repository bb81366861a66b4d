"""Calls in values: conversions, `select`, `padded`, extrema and mathematical functions."""

from __future__ import annotations

from fractions import Fraction

from tdsl.diagnostics import ParseError, Span, TypeMismatch
from tdsl.ir.affine import linear, number
from tdsl.ir.kernel import INDEX, MATH, Cast, Const, Expr, Op, Select
from tdsl.ir.types import BOOL, ElemType
from tdsl.syntax import tree
from tdsl.syntax.constants import exact
from tdsl.syntax.literals import Exact, constant, limits
from tdsl.syntax.operators import Operators, mismatch, same_type, source
from tdsl.syntax.reads import count, shown
from tdsl.syntax.scope import FUNCTIONS, suggest
from tdsl.syntax.vocabulary import REDUCTIONS


class Calls(Operators):
    """Everything that is written `f(...)`."""

    def _call(self, call: tree.Call, want: ElemType | None) -> Expr:
        func, args = call.func, call.args
        if self.scope.is_type(func):
            self._arity(call, 1)
            return self._convert(self.scope.element_type(func, call.span), args[0], call.span)
        if call.type_args or func in ("saturate", "bitcast"):
            return self._typed(call)
        match func:
            case "padded":
                return self._padded(call)
            case "inside":
                self._arity(call, 1)
                return self._logic("and", self._inside(args[0], call.span), call.span)
            case "select":
                self._arity(call, 3)
                return self._select(call, want)
            case "min" | "max" | "abs" | "clamp" | "wrap" | "mirror":
                return self._extremum(call, want)
        if func in MATH:
            return self._math(call, want)
        if func in REDUCTIONS:
            raise ParseError.at(
                call.span,
                f"`{func}` is a reduction and names its indices",
                help=f"write `{self._with_indices(func, args)}`",
            )
        if self.scope.is_array(func):
            raise ParseError.at(
                call.span, f"`{func}` is an array, not a function", help=f"write `{func}[...]`"
            )
        raise ParseError.at(
            call.span,
            f"there is no function `{func}`",
            help=suggest(func, (*FUNCTIONS, *self.scope.defs))
            or f"define it: `def {func}(v) = ...`",
        )

    def _with_indices(self, func: str, args: tuple[tree.Expr, ...]) -> str:
        """What `sum(x)` and `sum(x[i], i)` are meant to be."""
        names = dict.fromkeys(self.unknown_names(args))
        terms = [a for a in args if not (isinstance(a, tree.Name) and a.id in names)]
        shown = []
        for term in terms:
            array = self.scope.arrays.get(term.id) if isinstance(term, tree.Name) else None
            if array is not None and array.shape:  # a whole array
                own = ("k", "l", "m", "n")[: len(array.shape)] if len(array.shape) < 5 else ("k",)
                names.update(dict.fromkeys(own))
                shown.append(f"{source(term)}[{', '.join(own)}]")
            else:
                shown.append(source(term))
        return f"{func}[{', '.join(names) or 'k'}]({', '.join(shown) or '...'})"

    def _arity(self, call: tree.Call, wanted: int) -> None:
        if len(call.args) != wanted or call.kwargs:
            raise ParseError.at(
                call.span,
                f"`{call.func}` takes {count(wanted, 'argument')}, and {len(call.args)} came",
            )

    def _typed(self, call: tree.Call) -> Expr:
        if call.func not in ("saturate", "bitcast"):
            raise ParseError.at(call.span, f"`{call.func}` takes no type between `<` and `>`")
        if len(call.type_args) != 1:
            raise ParseError.at(
                call.span, f"`{call.func}` wants the new type", help=f"`{call.func}<u8>(...)`"
            )
        self._arity(call, 1)
        target = self.scope.element_type(call.type_args[0], call.span)
        value = self.build(call.args[0], None)
        if call.func == "saturate" and (not target.is_integer or value.type == BOOL):
            raise TypeMismatch.at(
                call.span,
                f"`saturate` makes an integer of a number, not {target} of {shown(value.type)}",
            )
        odd = BOOL in (target, value.type) or value.type == INDEX
        if call.func == "bitcast" and (odd or target.bits != value.type.bits):
            raise TypeMismatch.at(
                call.span,
                f"`bitcast` keeps the bits, and {shown(value.type)} and {target} differ in size "
                "or kind",
            )
        return Cast(call.func, value, target, span=call.span)

    def _convert(self, target: ElemType, arg: tree.Expr, span: Span | None) -> Expr:
        value = exact(arg, self.scope.exact)
        if value is not None:
            return constant(_toward_zero(value, target), target, span)
        built = self.build(arg, None)
        if built.type == target:
            return built
        if target == BOOL:
            raise TypeMismatch.at(
                span, "a number does not become a truth value", help="write `... != 0`"
            )
        if isinstance(built, Const) and built.type == INDEX:
            return constant(Exact(Fraction(_wrapped(int(built.value), target))), target, span)
        return Cast("convert", built, target, span=span)

    def _select(self, call: tree.Call, want: ElemType | None) -> Expr:
        condition = self.condition(call.args[0])
        then, other = self.operands("select", call.args[1], call.args[2], want, call.span)
        if isinstance(condition, Const):
            return then if condition.value else other
        return Select(condition, then, other, then.type, span=call.span)

    def _extremum(self, call: tree.Call, want: ElemType | None) -> Expr:
        known = {self.guess(a) for a in call.args} - {None}
        if known == {INDEX}:
            return self._indices.build(call, mixed=False)
        if call.func in ("wrap", "mirror"):
            raise TypeMismatch.at(call.span, f"`{call.func}` is for indices, not for data")
        if call.func in ("abs", "clamp"):
            self._arity(call, 1 if call.func == "abs" else 3)
        elif len(call.args) < 2:
            raise ParseError.at(
                call.span,
                f"`{call.func}` takes two arguments or more; over an index it is a "
                "reduction",
                help=f"`{call.func}[k](...)`",
            )  # fmt: skip
        type_ = self.first_type(*call.args) or want
        values = same_type(*(self.build(a, type_) for a in call.args))
        for value, arg in zip(values[1:], call.args[1:], strict=True):
            if value.type != values[0].type:
                raise mismatch(call.func, values[0], value, call.args[0], arg, call.span, want)
        if values[0].type == BOOL:
            raise TypeMismatch.at(
                call.span, f"`{call.func}` is for numbers", help="use `and`, `or`"
            )
        first = values[0].type
        if call.func == "abs":
            return Op("abs", (values[0],), first, span=call.span)
        names = ["max", "min"] if call.func == "clamp" else [call.func] * (len(values) - 1)
        out = values[0]
        for name, value in zip(names, values[1:], strict=True):
            out = Op(name, (out, value), first, span=call.span)
        return out

    def _math(self, call: tree.Call, want: ElemType | None) -> Expr:
        self._arity(call, 2 if call.func == "pow" else 1)
        type_ = self.first_type(*call.args) or want
        values = [self.build(a, type_) for a in call.args]
        for value, arg in zip(values, call.args, strict=True):
            if not value.type.is_float:
                raise TypeMismatch.at(
                    arg.span, f"`{call.func}` takes floats, and this is {shown(value.type)}",
                    help=f"write `f32({source(arg)})`",
                )  # fmt: skip
            if value.type != values[0].type:
                raise mismatch(call.func, values[0], value, call.args[0], arg, call.span, want)
        return Op(call.func, tuple(values), values[0].type, span=call.span)

    def _padded(self, call: tree.Call) -> Expr:
        self._arity(call, 2)
        conditions = self._inside(call.args[0], call.span)
        read = self.build(call.args[0], None)
        other = self.build(call.args[1], read.type)
        if other.type != read.type:
            raise mismatch("padded", read, other, call.args[0], call.args[1], call.span)
        left = self._logic("and", [c for c in conditions if not self.context.proves(c)], call.span)
        if isinstance(left, Const):
            return read if left.value else other
        return Select(left, read, other, read.type, span=call.span)

    def _inside(self, expr: tree.Expr, span: Span | None) -> list[Expr]:
        """The conditions under which an access lies inside its array."""
        if not (isinstance(expr, tree.Subscript) and isinstance(expr.base, tree.Name)):
            raise ParseError.at(span, "an access is wanted here", help="as in `x[i - 1, j]`")
        name = expr.base.id
        if not self.scope.is_array(name):
            self._read(expr)
        rank = self.context.rank_of(name)
        if rank != len(expr.indices):
            self.subscript(name, expr.indices, expr.span)
        out: list[Expr] = []
        for index, extent in zip(
            (self.index(i) for i in expr.indices), self.context.shape_of(name, span), strict=True
        ):
            out.append(self._bound("le", number(0), index, expr.span))
            out.append(self._bound("lt", index, extent, expr.span))
        return out

    def _bound(self, op: str, a: Expr, b: Expr, span: Span | None) -> Expr:
        difference = linear(b).plus(linear(a), -1)
        if difference.is_constant:
            return Const(difference.constant >= (op == "lt"), BOOL, span=span)
        return Op(op, (a, b), BOOL, span=span)


def _wrapped(value: int, target: ElemType) -> int:
    """An index in an integer type: what does not fit wraps, as for an index that is not known."""
    if not target.is_integer:
        return value
    low, _ = limits(target)
    return (value - low) % (1 << target.bits) + low


def _toward_zero(value: Exact, target: ElemType) -> Exact:
    """An explicit conversion of a number: to an integer it drops the fraction and saturates."""
    if not target.is_integer or not (value.is_float or value.divided):
        return value
    low, high = limits(target)
    if value.infinite:
        return Exact(Fraction(high if value.infinite > 0 else low))
    return Exact(Fraction(max(low, min(high, int(value.value)))))
