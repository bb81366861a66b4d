"""`expect`: what a schedule promises of the code and of the memory that come of it.

    expect spills(S) == 0, uses(S, "vpdpbusd")     asked of the assembly: `tdsl.contracts`
    expect scratch <= 1024 * KC                    asked of the plan: `tdsl.lower.plan`

Here the form alone is checked: what is asked about, and that the statements are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tdsl.diagnostics import Span
from tdsl.polyhedral.program import Program
from tdsl.schedule.directives import Expect
from tdsl.schedule.hints import closest, refusal
from tdsl.schedule.references import statement_names
from tdsl.syntax.print_expr import print_expr
from tdsl.syntax.tree import Binary, Call, Compare, Expr, Name, Text, Unary

COUNTS = ("spills", "gathers", "masks")
SCRATCH = "scratch"
_EXAMPLE = 'expect spills(S) == 0, uses(S, "vfmadd231ps"), scratch <= 65536'


def check(program: Program, directive: Expect) -> None:
    """Raise IllegalSchedule for a condition that asks nothing, or about what is not there."""
    for condition in directive.conditions:
        _check(program, condition, directive.span)


def _check(program: Program, condition: Expr, span: Span | None) -> None:
    place = condition.span or span
    if not _is_condition(condition):
        raise refusal(
            place, f"expect wants conditions, and {print_expr(condition)} is none", help=_EXAMPLE
        )
    asked = tuple(calls(condition))
    plan = about_plan(condition)
    if plan and asked:
        raise refusal(
            place,
            "one condition asks about the code and about scratch",
            help="write two conditions, with a comma between them",
        )
    if not plan and not asked:
        raise refusal(
            place,
            f"{print_expr(condition)} asks neither about code nor about scratch",
            help="conditions on sizes and knobs are `require` and `when`",
        )
    for call in asked:
        statement_names(program, statement(call), call.span or place)


def _is_condition(expr: Expr) -> bool:
    match expr:
        case Compare():
            return True
        case Call(func="uses"):
            return True
        case Unary("not", operand):
            return _is_condition(operand)
        case Binary("and" | "or", left, right):
            return _is_condition(left) and _is_condition(right)
        case _:
            return False


def about_plan(condition: Expr) -> bool:
    """Whether a condition asks about memory."""
    return any(isinstance(e, Name) and e.id == SCRATCH for e in _parts(condition))


def calls(condition: Expr) -> Iterator[Call]:
    """What a condition asks about code. Raises IllegalSchedule where that is no question."""
    for part in _parts(condition):
        if isinstance(part, Call) and part.func not in ("min", "max", "abs", "select"):
            yield _checked(part)


def statement(call: Call) -> str:
    """The statement that a call asks about."""
    assert isinstance(call.args[0], Name)
    return call.args[0].id


def instruction(call: Call) -> str:
    """The instruction of `uses(S, "...")`."""
    assert isinstance(call.args[1], Text)
    return call.args[1].value


def _checked(call: Call) -> Call:
    known = (*COUNTS, "uses")
    if call.func not in known:
        raise refusal(
            call.span,
            f"expect knows no {call.func}",
            help=closest(call.func, [*known, SCRATCH], "questions"),
        )
    wanted = (Name, Text) if call.func == "uses" else (Name,)
    if len(call.args) != len(wanted) or not all(map(isinstance, call.args, wanted)):
        form = '(S, "vpdpbusd")' if call.func == "uses" else "(S)"
        raise refusal(call.span, f"{call.func} is written {call.func}{form}, S a statement")
    return call


def answered(expr: Expr, answers: dict[Call, Expr]) -> Expr:
    """The condition with each call replaced by its answer."""
    match expr:
        case Call() if expr in answers:
            return answers[expr]
        case Call(_, args):
            return replace(expr, args=tuple(answered(a, answers) for a in args))
        case Unary(_, operand):
            return replace(expr, operand=answered(operand, answers))
        case Binary(_, left, right):
            return replace(expr, left=answered(left, answers), right=answered(right, answers))
        case Compare(first, rest):
            parts = tuple((op, answered(e, answers)) for op, e in rest)
            return replace(expr, first=answered(first, answers), rest=parts)
        case _:
            return expr


def _parts(expr: Expr) -> Iterator[Expr]:
    yield expr
    match expr:
        case Call(_, args):
            inside: tuple[Expr, ...] = args
        case Unary(_, operand):
            inside = (operand,)
        case Binary(_, left, right):
            inside = (left, right)
        case Compare(first, rest):
            inside = (first, *(e for _, e in rest))
        case _:
            inside = ()
    for part in inside:
        yield from _parts(part)
