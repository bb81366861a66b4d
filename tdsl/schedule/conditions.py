"""A `when` as a condition on the sizes that a call brings, with all else evaluated.

when lanes(f32) == 16 and M * N >= KB        ->  M * N >= 1024      (let KB = 1024, avx512)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from tdsl.diagnostics import Span
from tdsl.ir import kernel as ir
from tdsl.ir.index import conjunction
from tdsl.ir.kernel import INDEX
from tdsl.ir.magnitude import largest
from tdsl.ir.types import BOOL, ElemType
from tdsl.schedule.evaluate import Evaluator
from tdsl.schedule.hints import refusal
from tdsl.schedule.target import Target
from tdsl.syntax.tree import Binary, Call, Compare, Expr, Name, Unary

WIDEST = 2**126  # of the numbers in a condition
_BINARY = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod"}
_COMPARE = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def size_condition(
    when: Expr, kernel: ir.Kernel, target: Target, lets: Mapping[str, Expr]
) -> ir.Expr:
    """The condition over unbound sizes; a constant where it does not ask about any."""
    evaluator = Evaluator(kernel, target, lets=lets, limit=WIDEST)
    found = _Translation(evaluator, lets).condition(when)
    if largest(found) >= WIDEST:
        raise refusal(when.span, "this condition computes numbers beyond 2^126")
    return found


class _Translation:
    def __init__(self, evaluator: Evaluator, lets: Mapping[str, Expr]) -> None:
        self._evaluator, self._lets = evaluator, lets

    def condition(self, expr: Expr) -> ir.Expr:
        value = self._evaluator.value(expr)
        if isinstance(value, bool):
            return ir.Const(value, BOOL)
        if value is None:
            match expr:
                case Binary("and" | "or" as op, left, right):
                    return self._join(op, left, right)
                case Unary("not", operand):
                    return ir.Op("not", (self.condition(operand),), BOOL)
                case Compare(first, rest):
                    return self._compare(first, rest)
                case Call("select", args):
                    return self._select(args, BOOL)
                case Name(id) if id in self._lets:
                    return self.condition(self._lets[id])
        raise refusal(expr.span, "`when` wants a condition", help="compare, for example `N >= 64`")

    def _join(self, op: str, left: Expr, right: Expr) -> ir.Expr:
        """What decides nothing is left out."""
        parts = [self.condition(left), self.condition(right)]
        open_ = [p for p in parts if not isinstance(p, ir.Const)]
        return reduce(lambda a, b: ir.Op(op, (a, b), BOOL), open_)

    def _compare(self, first: Expr, rest: tuple[tuple[str, Expr], ...]) -> ir.Expr:
        found: list[ir.Expr] = []
        left = first
        for op, right in rest:
            one = self._evaluator.value(Compare(left, ((op, right),), span=left.span))
            if one is None:
                numbers = (self.number(left), self.number(right))
                found.append(ir.Op(_COMPARE[op], numbers, BOOL))
            left = right
        joined = conjunction(tuple(found))
        assert joined is not None  # else the comparison had a value
        return joined

    def _select(self, args: tuple[Expr, ...], type: ElemType) -> ir.Expr:
        """The condition asks about sizes; where it does not, only the chosen arm counts."""
        if len(args) != 3:
            raise refusal(args[0].span if args else None, "select wants a condition and two values")
        each = self.condition if type == BOOL else self.number
        chosen = self.condition(args[0])
        if isinstance(chosen, ir.Const):
            return each(args[1] if chosen.value else args[2])
        return ir.Select(chosen, each(args[1]), each(args[2]), type)

    def number(self, expr: Expr) -> ir.Expr:
        value = self._evaluator.value(expr)
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, int):
                raise self._not_integer(expr.span)
            return ir.Const(value, INDEX)
        match expr:
            case Name(id) if id in self._lets:
                return self.number(self._lets[id])
            case Name(id):
                return ir.Size(id)
            case Unary("-", operand):
                return ir.Op("neg", (self.number(operand),), INDEX)
            case Binary(op, left, right) if op in _BINARY:
                return ir.Op(_BINARY[op], (self.number(left), self.number(right)), INDEX)
            case Call("abs", (operand,)):
                return ir.Op("abs", (self.number(operand),), INDEX)
            case Call("select", args):
                return self._select(args, INDEX)
            case Call("min" | "max" as op, args):
                return reduce(lambda a, b: ir.Op(op, (a, b), INDEX), map(self.number, args))
        raise self._not_integer(expr.span)

    @staticmethod
    def _not_integer(span: Span | None) -> Exception:
        return refusal(span, "a condition compares sizes with integers")
