"""Typed values: from a surface expression to one of the kernel level.

Defs are already written out and reductions already stand alone. A number takes the type of
its context; nothing is converted without being asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from tdsl.diagnostics import BoundsError, Note, ParseError, Span, TypeMismatch
from tdsl.ir.affine import linear, number
from tdsl.ir.kernel import INDEX, MATH, Cast, Const, Expr, Op, Read, Select, Var
from tdsl.ir.types import BOOL, ElemType
from tdsl.syntax import tree
from tdsl.syntax.constants import exact
from tdsl.syntax.indices import Indices, affine
from tdsl.syntax.later import refuse
from tdsl.syntax.literals import Exact, constant, limits
from tdsl.syntax.scope import FUNCTIONS, REDUCTIONS, Scope, suggest

_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floordiv", "%": "mod"}
_BITS = {"&": "band", "|": "bor", "^": "bxor", "<<": "shl", ">>": "shr"}
_COMPARE = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_WORDS = {"&": "and", "|": "or", "^": "!=", "~": "not"}


@dataclass(frozen=True)
class Context:
    """What an expression may name, and whom to ask about arrays.

    visible   indices in scope
    type_of   element type of an array or inferred temp; the span is the place that asks
    rank_of   its number of dimensions
    shape_of  its extents
    proves    whether a condition holds at every instance of the statement
    sum_hint  how to sum over a name that is bound nowhere: text with `{}` for the name
    """

    scope: Scope
    visible: frozenset[str]
    type_of: Callable[[str, Span | None], ElemType]
    rank_of: Callable[[str], int]
    shape_of: Callable[[str, Span | None], tuple[Expr, ...]]
    proves: Callable[[Expr], bool] = lambda condition: False
    sum_hint: str | None = None


class Values:
    """Builds the values of one statement."""

    def __init__(self, context: Context) -> None:
        self.context, self.scope = context, context.scope
        self._indices = Indices(
            context.scope, context.visible, lambda e: self.build(e, None), self.condition
        )

    # ------------------------------------------------------------ entry points

    def index(self, expr: tree.Expr, where: str = "index") -> Expr:
        """A subscript or a bound: quasi-affine, integer data allowed."""
        return affine(self._indices.build(expr, mixed=True), expr.span, where)

    def condition(self, expr: tree.Expr) -> Expr:
        """An expression of type BOOL, constants folded."""
        built = self.build(expr, BOOL)
        if built.type != BOOL:
            raise TypeMismatch.at(
                expr.span, f"a condition is wanted here, and this is {_shown(built.type)}",
                help="compare it, for example with `!= 0`",
            )  # fmt: skip
        return built

    def guess(self, expr: tree.Expr) -> ElemType | None:
        """The type of an expression; None where it is made of numbers and takes its context's."""
        if exact(expr, self.scope.exact) is not None:
            return None
        match expr:
            case tree.Name("true" | "false") | tree.Compare() | tree.Unary("not"):
                return BOOL
            case tree.Binary("and" | "or") | tree.Reduce("any" | "all"):
                return BOOL
            case tree.Name(name) if name in self.context.visible:
                return INDEX
            case tree.Name(name) if self.scope.size_value(name) is not None:
                return INDEX
            case tree.Name(name) | tree.Subscript(tree.Name(name)):
                return self.context.type_of(name, expr.span) if self.scope.is_array(name) else None
            case tree.Unary(_, operand):
                return self.guess(operand)
            case tree.Binary(_, left, right):
                return self._first(left, right)
            case tree.Reduce(_, _, _, args):
                return self._first(*args)
            case tree.Call(func, args, type_args):
                if func in ("saturate", "bitcast") and len(type_args) == 1:
                    return self.scope.element_type(type_args[0], expr.span)
                if self.scope.is_type(func):
                    return self.scope.element_type(func, expr.span)
                if func == "inside":
                    return BOOL
                return self._first(*(args[1:] if func == "select" else args))
            case _:
                return None

    def _first(self, *exprs: tree.Expr) -> ElemType | None:
        found = [t for t in map(self.guess, exprs) if t is not None]
        return next((t for t in found if t != INDEX), found[0] if found else None)

    def build(self, expr: tree.Expr, want: ElemType | None) -> Expr:
        """The typed expression; `want` is what a number without other context becomes."""
        value = exact(expr, self.scope.exact)
        if value is not None:
            if want is None:
                raise TypeMismatch.at(
                    expr.span, "nothing here says which type this number has",
                    help="convert it: `f32(...)`",
                )  # fmt: skip
            return constant(value, want, expr.span)
        match expr:
            case tree.Name(name):
                return self._name(expr, name)
            case tree.Subscript():
                return self._read(expr)
            case tree.Call():
                return self._call(expr, want)
            case tree.Unary(op, operand):
                return self._unary(expr, op, operand, want)
            case tree.Binary(op, left, right):
                return self._binary(expr, op, left, right, want)
            case tree.Compare(first, rest):
                return self._chain(first, rest)
            case tree.Reduce(op):
                raise ParseError.at(
                    expr.span, f"`{op}[...]` cannot stand in an index or a condition",
                    help="give it a name: an array of its own, defined before",
                )  # fmt: skip
            case tree.Field():
                raise refuse("record", expr.span)
            case tree.Text():
                raise ParseError.at(expr.span, "a quoted word has no value in a kernel")
            case _:
                raise ParseError.at(expr.span, "a list stands only in a `const` table")

    # ------------------------------------------------------------ names and reads

    def _name(self, expr: tree.Name, name: str) -> Expr:
        if name in ("true", "false"):
            return Const(name == "true", BOOL, span=expr.span)
        if name in self.context.visible:
            return Var(name, span=expr.span)
        size = self.scope.size_value(name)
        if size is not None:
            return size
        if self.scope.is_array(name):
            return self._element(name, (), expr.span)
        if name in self.scope.defs:
            raise ParseError.at(
                expr.span, f"`{name}` is a function and needs its arguments", help=f"`{name}(...)`"
            )
        raise self.unbound(name, expr.span)

    def unbound(self, name: str, span: Span | None) -> ParseError:
        """The error for a name that means nothing here."""
        closest = suggest(name, (*self.scope.names, *self.context.visible))
        hint = self.context.sum_hint
        short = len(name) <= 2
        error = ParseError.at(
            span,
            f"`{name}` is bound nowhere: it is no index of the left side, no size, no constant and no array",
            help=hint.format(name) if hint is not None and (short or closest is None) else closest,
        )
        assert isinstance(error, ParseError)
        return error

    def _read(self, expr: tree.Subscript) -> Expr:
        match expr.base:
            case tree.Name(name):
                pass
            case tree.Field():
                raise refuse("record", expr.span)
            case _:
                raise ParseError.at(expr.span, "only an array has elements")
        if not self.scope.is_array(name):
            known = self.scope.size_value(name) is not None or name in self.scope.exact
            if known or name in self.context.visible:
                kind = "an index" if name in self.context.visible else "a number"
                raise ParseError.at(expr.span, f"`{name}` is {kind} and has no elements")
            raise ParseError.at(
                expr.base.span,
                f"there is no array `{name}`",
                help=suggest(name, (*self.scope.arrays, *self.scope.temps))
                or f"declare it, for example `in {name}: f32[...]`, or define it by an equation",
            )
        return self._element(name, expr.indices, expr.span)

    def _element(self, name: str, indices: tuple[tree.Expr, ...], span: Span | None) -> Expr:
        type_ = self.context.type_of(name, span)
        return Read(name, self.subscript(name, indices, span), type_, span=span)

    def subscript(
        self, name: str, indices: tuple[tree.Expr, ...], span: Span | None
    ) -> tuple[Expr, ...]:
        """The indices of an access, as many as the array has dimensions."""
        rank = self.context.rank_of(name)
        if len(indices) != rank:
            declared = self.scope.arrays.get(name)
            notes = () if declared is None else (Note("declared here", declared.span),)
            what = "is a scalar" if rank == 0 else f"has {_count(rank, 'dimension')}"
            came = "no index" if not indices else _count(len(indices), "index", "indices")
            raise TypeMismatch.at(span, f"`{name}` {what}, and {came} came", *notes)
        built = tuple(self.index(i) for i in indices)
        for n, (index, surface) in enumerate(zip(built, indices, strict=True)):
            if isinstance(index, Const) and index.value < 0:
                raise self._negative(name, n, int(index.value), surface.span)
        return built

    def _negative(self, name: str, dimension: int, value: int, span: Span | None) -> BoundsError:
        declared = self.scope.arrays.get(name)
        extent = declared.shape[dimension] if declared is not None else None
        text = _plain(extent) if extent is not None else "N"
        error = BoundsError.at(
            span,
            f"index {value} of `{name}`: indices start at 0, and a negative one does not count from the end",
            help=f"the last element is `{text} - 1`"
            if value == -1
            else f"write `{text} - {-value}`",
        )
        assert isinstance(error, BoundsError)
        return error

    # ------------------------------------------------------------ operators

    def _unary(self, expr: tree.Expr, op: str, operand: tree.Expr, want: ElemType | None) -> Expr:
        if op == "not":
            inner = self.condition(operand)
            if isinstance(inner, Const):
                return Const(not inner.value, BOOL, span=expr.span)
            return Op("not", (inner,), BOOL, span=expr.span)
        type_ = self.guess(operand)
        if op == "-" and type_ == INDEX:
            return self._indices.build(expr, mixed=False)
        value = self.build(operand, want)
        if op == "~":
            self._integers("~", value, expr.span)
            return Op("bnot", (value,), value.type, span=expr.span)
        if value.type == BOOL:
            raise TypeMismatch.at(expr.span, "a truth value has no negative", help="write `not`")
        return Op("neg", (value,), value.type, span=expr.span)

    def _binary(
        self, expr: tree.Expr, op: str, left: tree.Expr, right: tree.Expr, want: ElemType | None
    ) -> Expr:
        if op in ("and", "or"):
            return self._logic(op, [self.condition(left), self.condition(right)], expr.span)
        pair = {self.guess(left), self.guess(right)} - {None}
        if pair == {INDEX} and op in _ARITHMETIC:
            return self._indices.build(expr, mixed=False)
        a, b = self.operands(op, left, right, want, expr.span)
        if op in _BITS:
            self._integers(op, a, expr.span)
            return Op(_BITS[op], (a, b), a.type, span=expr.span)
        if a.type == BOOL:
            raise TypeMismatch.at(
                expr.span, f"`{op}` computes with numbers, and these are truth values",
                help="make a number of one: `select(c, 1, 0)`",
            )  # fmt: skip
        if op == "/" and not a.type.is_float:
            raise TypeMismatch.at(
                expr.span, f"`/` divides floats, and these are {a.type}",
                help="write `//` (it rounds down, as in Python), or convert both to a float type",
            )  # fmt: skip
        if op in ("//", "%") and a.type.is_float:
            instead = "floor(a / b)" if op == "//" else "a - floor(a / b) * b"
            raise TypeMismatch.at(
                expr.span,
                f"`{op}` is for integers, and these are {a.type}",
                help=f"write `{instead}`",
            )
        return Op(_ARITHMETIC[op], (a, b), a.type, span=expr.span)

    def operands(
        self,
        op: str,
        left: tree.Expr,
        right: tree.Expr,
        want: ElemType | None,
        span: Span | None,
    ) -> tuple[Expr, Expr]:
        """Both sides, of one type."""
        type_ = self._first(left, right) or want
        a, b = self.build(left, type_), self.build(right, type_)
        if a.type != b.type:
            raise _mismatch(op, a, b, left, right, span)
        return a, b

    def _integers(self, op: str, value: Expr, span: Span | None) -> None:
        if value.type.is_integer and value.type != INDEX:
            return
        if value.type == BOOL:
            help_ = f"write `{_WORDS[op]}`" if op in _WORDS else None
        elif value.type == INDEX:
            help_ = "convert the index: `i64(...)`"
        else:
            help_ = f"for the bits of a float: `bitcast<u{value.type.bits}>(...)`"
        raise TypeMismatch.at(
            span,
            f"`{op}` works on the bits of integers, and this is {_shown(value.type)}",
            help=help_,
        )

    def _logic(self, op: str, args: list[Expr], span: Span | None) -> Expr:
        neutral = op == "and"
        kept = [a for a in args if not (isinstance(a, Const) and a.value == neutral)]
        if any(isinstance(a, Const) for a in kept):
            return Const(not neutral, BOOL, span=span)
        if not kept:
            return Const(neutral, BOOL, span=span)
        return kept[0] if len(kept) == 1 else Op(op, tuple(kept), BOOL, span=span)

    def _chain(self, first: tree.Expr, rest: tuple[tuple[str, tree.Expr], ...]) -> Expr:
        links, left = [], first
        for op, right in rest:
            links.append(self._compare(op, left, right))
            left = right
        return self._logic("and", links, links[0].span)

    def _compare(self, op: str, left: tree.Expr, right: tree.Expr) -> Expr:
        span = (
            left.span.to(right.span) if left.span is not None and right.span is not None else None
        )
        x, y = exact(left, self.scope.exact), exact(right, self.scope.exact)
        if x is not None and y is not None and not x.infinite and not y.infinite:
            return Const(_holds(op, x.value - y.value), BOOL, span=span)
        a, b = self.operands(op, left, right, None, span)
        if a.type == BOOL and op not in ("==", "!="):
            raise TypeMismatch.at(span, f"truth values have no order, so `{op}` means nothing here")
        if a.type == INDEX:
            difference = linear(a).plus(linear(b), -1)
            if difference.is_constant:
                return Const(_holds(op, Fraction(difference.constant)), BOOL, span=span)
        return Op(_COMPARE[op], (a, b), BOOL, span=span)

    # ------------------------------------------------------------ calls

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
                help=f"`{func}[k](...)`",
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

    def _arity(self, call: tree.Call, wanted: int) -> None:
        if len(call.args) != wanted or call.kwargs:
            raise ParseError.at(
                call.span,
                f"`{call.func}` takes {_count(wanted, 'argument')}, and {len(call.args)} came",
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
                f"`saturate` makes an integer of a number, not {target} of {_shown(value.type)}",
            )
        if call.func == "bitcast":
            if (
                BOOL in (target, value.type)
                or INDEX == value.type
                or target.bits != value.type.bits
            ):
                raise TypeMismatch.at(
                    call.span,
                    f"`bitcast` keeps the bits, and {_shown(value.type)} and {target} differ in size or kind",
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
            return constant(Exact(Fraction(int(built.value))), target, span)
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
                call.span, f"`{call.func}` takes two arguments or more; over an index it is a reduction",
                help=f"`{call.func}[k](...)`",
            )  # fmt: skip
        type_ = self._first(*call.args) or want
        values = [self.build(a, type_) for a in call.args]
        for value, arg in zip(values[1:], call.args[1:], strict=True):
            if value.type != values[0].type:
                raise _mismatch(call.func, values[0], value, call.args[0], arg, call.span)
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
        type_ = self._first(*call.args) or want
        values = [self.build(a, type_) for a in call.args]
        for value, arg in zip(values, call.args, strict=True):
            if not value.type.is_float:
                raise TypeMismatch.at(
                    arg.span, f"`{call.func}` takes floats, and this is {_shown(value.type)}",
                    help=f"write `f32({_source(arg)})`",
                )  # fmt: skip
            if value.type != values[0].type:
                raise _mismatch(call.func, values[0], value, call.args[0], arg, call.span)
        return Op(call.func, tuple(values), values[0].type, span=call.span)

    def _padded(self, call: tree.Call) -> Expr:
        self._arity(call, 2)
        conditions = self._inside(call.args[0], call.span)
        read = self.build(call.args[0], None)
        other = self.build(call.args[1], read.type)
        if other.type != read.type:
            raise _mismatch("padded", read, other, call.args[0], call.args[1], call.span)
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


def _toward_zero(value: Exact, target: ElemType) -> Exact:
    """An explicit conversion of a number: to an integer it drops the fraction and saturates."""
    if not target.is_integer or not (value.is_float or value.divided):
        return value
    low, high = limits(target)
    if value.infinite:
        return Exact(Fraction(high if value.infinite > 0 else low))
    return Exact(Fraction(max(low, min(high, int(value.value)))))


def _holds(op: str, difference: Fraction) -> bool:
    return {
        "==": difference == 0, "!=": difference != 0, "<": difference < 0,
        "<=": difference <= 0, ">": difference > 0, ">=": difference >= 0,
    }[op]  # fmt: skip


def _count(n: int, one: str, many: str | None = None) -> str:
    return f"{n} {one}" if n == 1 else f"{n} {many or one + 's'}"


def _shown(type_: ElemType) -> str:
    return {"index": "an index", "bool": "a truth value"}.get(type_.name, str(type_))


def _source(expr: tree.Expr) -> str:
    text = expr.span.text if expr.span is not None else "..."
    return text if len(text) <= 40 and "\n" not in text else "..."


def _plain(extent: Expr) -> str:
    return getattr(extent, "name", None) or (
        str(extent.value) if isinstance(extent, Const) else "N"
    )


def _mismatch(
    op: str, a: Expr, b: Expr, left: tree.Expr, right: tree.Expr, span: Span | None
) -> TypeMismatch:
    """Two types in one operation; the help converts the one that loses least."""
    rank = {"bool": -1, "index": 0}
    order = [rank.get(e.type.name, e.type.bits + (1000 if e.type.is_float else 0)) for e in (a, b)]
    target, other = (a, right) if order[0] >= order[1] else (b, left)
    names = f"{_shown(a.type)} and {_shown(b.type)}"
    if BOOL in (a.type, b.type):
        help_ = "make a number of a truth value with `select(c, 1, 0)`"
    else:
        help_ = f"write `{target.type}({_source(other)})`"
    error = TypeMismatch.at(
        span, f"`{op}` joins {names}, and types are never converted silently", help=help_
    )
    assert isinstance(error, TypeMismatch)
    return error
