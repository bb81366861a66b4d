"""Values of the expressions in schedules: integers, conditions, element types.

An evaluation knows three answers: a value, "not known yet" (None: it depends on a size that is
not bound) and a refusal (the expression makes no sense here).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tdsl.diagnostics import Span
from tdsl.ir.kernel import Kernel
from tdsl.ir.types import TYPES
from tdsl.schedule.hints import closest, refusal
from tdsl.schedule.target import Target
from tdsl.syntax.tree import Binary, Call, Compare, Expr, Name, Number, Unary

Value = int | float | bool | str

LIMIT = 1 << 62  # of every integer, so that no expression grows without bound


@dataclass(frozen=True)
class Binding:
    """A `let` or an argument of a recipe: an expression, and the scope that its names are of."""

    value: Expr
    scope: Scope
    is_param: bool = False


@dataclass(frozen=True)
class Scope:
    """The names that a directive's expressions may use, besides those of kernel and target."""

    bindings: Mapping[str, Binding] = field(default_factory=dict)

    def bind(self, name: str, binding: Binding) -> Scope:
        return Scope({**self.bindings, name: binding})


EMPTY = Scope()


def is_knob(expr: Expr) -> bool:
    """Whether a `let`'s right side is `tune(...)`."""
    return isinstance(expr, Call) and expr.func == "tune"


@dataclass
class Evaluator:
    """Evaluates in one kernel, for one target (None: no target is asked about) and knobs.

    `unknown` collects the sizes that were asked for and are not bound. `lets` are the kernel's
    own names of size expressions. `limit`: of the magnitude of what is computed.
    """

    kernel: Kernel
    target: Target | None = None
    knobs: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    lets: Mapping[str, Expr] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    limit: int = LIMIT

    def __post_init__(self) -> None:
        known: dict[str, Value] = {"true": True, "false": False}
        known.update({name: name for name in TYPES})
        if self.target is not None:
            known["registers"] = self.target.registers
            known["threads"] = os.cpu_count() or 1
        known.update(self.kernel.constants)
        known.update(self.kernel.bound)
        known.update(self.sizes)
        self._known = known

    # ------------------------------------------------------------ names

    def has_value(self, name: str, scope: Scope) -> bool:
        """Whether a name means a value here (a loop's name does not)."""
        return name in scope.bindings or name in self._known or name in self.lets

    def _name(self, expr: Name, scope: Scope) -> Value | None:
        binding = scope.bindings.get(expr.id)
        if binding is not None:
            if is_knob(binding.value):
                if expr.id not in self.knobs:
                    raise refusal(expr.span, f"the values of a knob cannot depend on {expr.id}")
                return self.knobs[expr.id]
            return self.value(binding.value, binding.scope)
        if expr.id in self._known:
            return self._known[expr.id]
        if expr.id in self.kernel.all_sizes or expr.id in self.kernel.sizes:
            self.unknown.append(expr.id)
            return None
        if expr.id in self.lets:
            return self.value(self.lets[expr.id], EMPTY)
        if expr.id == "lanes":
            raise refusal(
                expr.span,
                "lanes depends on the element type",
                help="write `lanes(f32)`: how many f32 the widest vector of the target holds",
            )
        names = [*scope.bindings, *self.kernel.all_sizes, *self.lets, *self._known]
        raise refusal(
            expr.span,
            f"{expr.id} is no value that a schedule knows",
            help=closest(expr.id, names, "names"),
        )

    # ------------------------------------------------------------ expressions

    def value(self, expr: Expr, scope: Scope = EMPTY) -> Value | None:
        match expr:
            case Number(value, is_float):
                return float(value) if is_float else int(value)
            case Name():
                return self._name(expr, scope)
            case Unary(op, operand):
                return self._unary(expr.span, op, self.value(operand, scope))
            case Binary("and" | "or" as op, left, right):
                return self._logic(expr.span, op, self.value(left, scope), right, scope)
            case Binary(op, left, right):
                a, b = self.value(left, scope), self.value(right, scope)
                return self._binary(expr.span, op, a, b)
            case Compare(first, rest):
                return self._compare(expr.span, first, rest, scope)
            case Call():
                return self._call(expr, scope)
            case _:
                raise refusal(expr.span, "a schedule cannot compute this")

    def integer(self, expr: Expr, scope: Scope, what: str) -> int:
        """The value of an expression that has to be an integer now; `what` names its place."""
        self.unknown.clear()
        value = self.value(expr, scope)
        if value is None:
            name = self.unknown[0]
            raise refusal(
                expr.span,
                f"{what} must be a constant, and the size {name} is not bound",
                help=f"write a number, or bind the size: --size {name}=...",
            )
        if isinstance(value, bool) or not isinstance(value, int):
            raise refusal(expr.span, f"{what} must be an integer, not {_shown(value)}")
        return value

    def _number(self, span: Span | None, op: str, value: Value) -> int | float:
        if isinstance(value, (bool, str)):
            raise refusal(span, f"{op} wants numbers, not {_shown(value)}")
        return value

    def _unary(self, span: Span | None, op: str, a: Value | None) -> Value | None:
        if a is None:
            return None
        if op == "not":
            return not self._truth(span, op, a)
        if op == "-":
            return -self._number(span, op, a)
        raise refusal(span, f"a schedule's expressions have no {op}")

    def _truth(self, span: Span | None, op: str, value: Value) -> bool:
        if not isinstance(value, bool):
            raise refusal(span, f"{op} wants conditions, not {_shown(value)}")
        return value

    def _logic(
        self, span: Span | None, op: str, a: Value | None, right: Expr, scope: Scope
    ) -> Value | None:
        decisive = op == "or"
        if a is not None and self._truth(span, op, a) is decisive:
            return decisive
        b = self.value(right, scope)
        if b is not None and self._truth(span, op, b) is decisive:
            return decisive
        return None if a is None or b is None else not decisive

    def _binary(self, span: Span | None, op: str, a: Value | None, b: Value | None) -> Value | None:
        if op == "/":
            raise refusal(span, "a schedule computes with integers", help="write //")
        if op not in _ARITHMETIC:
            raise refusal(span, f"a schedule's expressions have no {op}")
        if a is None or b is None:
            return None
        x, y = self._number(span, op, a), self._number(span, op, b)
        # Division by zero gives zero, as everywhere in the language.
        result = 0 if op in ("//", "%") and y == 0 else _ARITHMETIC[op](x, y)
        if abs(result) >= self.limit:
            raise refusal(span, f"this value is beyond 2^{self.limit.bit_length() - 1}")
        return result

    def _compare(
        self, span: Span | None, first: Expr, rest: tuple[tuple[str, Expr], ...], scope: Scope
    ) -> Value | None:
        result: bool | None = True
        left = self.value(first, scope)
        for op, expr in rest:
            right = self.value(expr, scope)
            holds = _holds(span, op, left, right)
            if holds is False:
                return False
            result = None if holds is None else result
            left = right
        return result

    def _call(self, expr: Call, scope: Scope) -> Value | None:
        if expr.func == "tune":
            raise refusal(
                expr.span,
                "tune(...) must be the whole right side of a let",
                help="let T = tune(...), then use T",
            )
        if expr.func == "lanes":
            return self._lanes(expr, scope)
        if expr.func not in ("min", "max", "select", "abs"):
            raise refusal(
                expr.span,
                f"a schedule's expressions have no {expr.func}",
                help=closest(expr.func, ["lanes", "min", "max", "abs", "select"], "functions"),
            )
        if expr.func == "select":
            if len(expr.args) != 3:
                raise refusal(expr.span, "select wants a condition and two values")
            condition = self.value(expr.args[0], scope)
            if condition is None:
                return None
            chosen = 1 if self._truth(expr.span, "select", condition) else 2
            return self.value(expr.args[chosen], scope)
        if not expr.args or (expr.func == "abs" and len(expr.args) != 1):
            raise refusal(expr.span, f"{expr.func} has a wrong number of arguments")
        values = [self.value(a, scope) for a in expr.args]
        numbers = [self._number(expr.span, expr.func, v) for v in values if v is not None]
        if len(numbers) < len(values):
            return None
        if expr.func == "abs":
            return abs(numbers[0])
        return min(numbers) if expr.func == "min" else max(numbers)

    def _lanes(self, expr: Call, scope: Scope) -> Value | None:
        args = [*expr.args, *(Name(t, span=expr.span) for t in expr.type_args)]
        if len(args) != 1:
            raise refusal(expr.span, "lanes wants one element type, as in lanes(f32)")
        written = args[0].id if isinstance(args[0], Name) else None
        known = written is None or self.has_value(written, scope)
        name = self.value(args[0], scope) if known else written
        if name not in TYPES:
            raise refusal(
                expr.span, "lanes wants an element type", help=closest(str(name), TYPES, "types")
            )
        if self.target is None:
            raise refusal(expr.span, "lanes has no meaning here: no target is known")
        return self.target.lanes(TYPES[str(name)])


_ARITHMETIC: Mapping[str, Callable[[int | float, int | float], int | float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}

_ORDER: Mapping[str, Callable[[int | float, int | float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _holds(span: Span | None, op: str, a: Value | None, b: Value | None) -> bool | None:
    if a is None or b is None:
        return None
    if isinstance(a, str) != isinstance(b, str):
        raise refusal(span, f"{_shown(a)} and {_shown(b)} cannot be compared")
    if op in ("==", "!="):
        return (a == b) is (op == "==")
    if isinstance(a, str) or isinstance(b, str):
        raise refusal(span, f"{_shown(a)} and {_shown(b)} have no order")
    return _ORDER[op](a, b)


def _shown(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
