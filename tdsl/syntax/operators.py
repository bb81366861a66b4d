"""Operators of values: both sides of one type, and a type that the operator works on."""

from __future__ import annotations

from fractions import Fraction

from tdsl.diagnostics import Span, TypeMismatch
from tdsl.ir.affine import linear
from tdsl.ir.kernel import INDEX, Cast, Const, Expr, Op
from tdsl.ir.types import BOOL, F32, F64, I64, ElemType
from tdsl.syntax import tree
from tdsl.syntax.constants import exact
from tdsl.syntax.reads import Reads, shown

_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floordiv", "%": "mod"}
_BITS = {"&": "band", "|": "bor", "^": "bxor", "<<": "shl", ">>": "shr"}
_COMPARE = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_WORDS = {"&": "and", "|": "or", "^": "!=", "~": "not"}


class Operators(Reads):
    """Unary and binary operators, comparisons, logic."""

    def first_type(self, *exprs: tree.Expr) -> ElemType | None:
        found = [t for t in map(self.guess, exprs) if t is not None]
        return next((t for t in found if t != INDEX), found[0] if found else None)

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
            self._no_fractions(op, left, right, want, expr.span)
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
        type_ = self.first_type(left, right) or want
        self._no_fractions(op, left, right, want, span)
        a, b = same_type(self.build(left, type_), self.build(right, type_))
        if a.type != b.type:
            raise mismatch(op, a, b, left, right, span, want)
        return a, b

    def _no_fractions(
        self,
        op: str,
        left: tree.Expr,
        right: tree.Expr,
        want: ElemType | None,
        span: Span | None,
    ) -> None:
        """Refuse a number that is not whole beside integers, and say how floats compute it."""
        a, b = exact(left, self.scope.exact), exact(right, self.scope.exact)
        number, other, value = (left, right, a) if a is not None else (right, left, b)
        if value is None or value.infinite or value.value.denominator == 1:
            return
        type_ = self.guess(other)
        if type_ is None or not value.is_float or not (type_ == INDEX or type_.is_integer):
            return
        floats = want if want is not None and want.is_float else F64 if type_.bits > 16 else F32
        converted = f"{floats}({source(other)})"
        what = "an index or a size" if type_ == INDEX else f"of type {type_}"
        raise TypeMismatch.at(
            number.span or span,
            f"{value} is a floating-point number, and the context is {what}",
            help=f"write `{_converted(other, converted, floats, span, want)}`",
        )

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
            f"`{op}` works on the bits of integers, and this is {shown(value.type)}",
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


def same_type(*values: Expr) -> tuple[Expr, ...]:
    """Indices beside i64 data are i64, which holds every index; all else stays."""
    if {v.type for v in values} != {INDEX, I64}:
        return values
    return tuple(as_data(v) if v.type == INDEX else v for v in values)


def as_data(index: Expr) -> Expr:
    """An index as a number of type i64."""
    if isinstance(index, Const):
        return Const(index.value, I64, span=index.span)
    return Cast("convert", index, I64, span=index.span)


def _holds(op: str, difference: Fraction) -> bool:
    return {
        "==": difference == 0, "!=": difference != 0, "<": difference < 0,
        "<=": difference <= 0, ">": difference > 0, ">=": difference >= 0,
    }[op]  # fmt: skip


def source(expr: tree.Expr) -> str:
    text = expr.span.text if expr.span is not None else "..."
    return text if len(text) <= 40 and "\n" not in text else "..."


def _converted(
    operand: tree.Expr, text: str, type_: ElemType, span: Span | None, want: ElemType | None
) -> str:
    """What to write for an operand, or for all of `span` where its result, of type `type_`, is
    for another type."""
    part = operand.span
    if want in (None, type_) or span is None or part is None:
        return text
    if not span.start <= part.start <= part.end <= span.end:
        return f"{want}(...)` around it, and `{text}"  # an argument of a macro
    before = Span(span.source, span.start, part.start).text
    after = Span(span.source, part.end, span.end).text
    whole = f"{before}{text}{after}"
    return f"{want}({whole if len(whole) <= 80 and chr(10) not in whole else '...'})"


def mismatch(
    op: str,
    a: Expr,
    b: Expr,
    left: tree.Expr,
    right: tree.Expr,
    span: Span | None,
    want: ElemType | None = None,
) -> TypeMismatch:
    """Two types in one operation; the help converts the one that loses least. want: the type of
    what the result is for, which it is converted to where it is another one."""
    rank = {"bool": -1, "index": 0}
    order = [rank.get(e.type.name, e.type.bits + (1000 if e.type.is_float else 0)) for e in (a, b)]
    target, other = (a, right) if order[0] >= order[1] else (b, left)
    names = f"{shown(a.type)} and {shown(b.type)}"
    if BOOL in (a.type, b.type):
        help_ = "make a number of a truth value with `select(c, 1, 0)`"
    else:
        converted = f"{target.type}({source(other)})"
        help_ = f"write `{_converted(other, converted, target.type, span, want)}`"
    error = TypeMismatch.at(
        span, f"`{op}` joins {names}, and types are never converted silently", help=help_
    )
    assert isinstance(error, TypeMismatch)
    return error
