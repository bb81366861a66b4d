"""Typed values: from a surface expression to one of the kernel level.

Defs are already written out and reductions already stand alone. A number takes the type of
its context; nothing is converted without being asked.
"""

from __future__ import annotations

from tdsl.diagnostics import ParseError, TypeMismatch
from tdsl.ir.kernel import INDEX, Expr
from tdsl.ir.types import BOOL, ElemType
from tdsl.syntax import tree
from tdsl.syntax.calls import Calls
from tdsl.syntax.constants import exact
from tdsl.syntax.literals import constant


class Values(Calls):
    """Builds the values of one statement."""

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
                if not self.scope.is_array(name) or self.context.is_open(name):
                    return None
                return self.context.type_of(name, expr.span)
            case tree.Unary(_, operand):
                return self.guess(operand)
            case tree.Binary(_, left, right):
                return self.first_type(left, right)
            case tree.Reduce(_, _, _, args):
                return self.first_type(*args)
            case tree.Call(func, args, type_args):
                if func in ("saturate", "bitcast") and len(type_args) == 1:
                    return self.scope.element_type(type_args[0], expr.span)
                if self.scope.is_type(func):
                    return self.scope.element_type(func, expr.span)
                if func == "inside":
                    return BOOL
                return self.first_type(*(args[1:] if func == "select" else args))
            case _:
                return None

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
                raise ParseError.at(expr.span, "only an element of records has fields")
            case tree.Text():
                raise ParseError.at(expr.span, "a quoted word has no value in a kernel")
            case _:
                raise ParseError.at(expr.span, "a list stands only in a `const` table")
