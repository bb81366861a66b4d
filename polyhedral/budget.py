"""A bound on the work of isl: a question that costs too much is refused, never guessed.

isl counts its operations (one to five million a second) and stops a call at a limit; nothing
else can stop one, since a call holds the interpreter's lock. So a question is asked in slices:
first with a small limit, then, when that is used up, again with a doubled one, until the
budget is spent. Between two slices Python runs, and Ctrl-C is served.

All questions of one compilation share a budget too, and what isl does between questions is
bounded as a whole: no compilation goes on for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

import islpy as isl

from tdsl.diagnostics import BudgetExceeded, Error

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT = 20_000_000  # for one question
WHOLE = 40_000_000  # for the questions of one compilation that need more than a first slice
FIRST_SLICE = 1_000_000

_CTX = isl.DEFAULT_CONTEXT
_total: ContextVar[int] = ContextVar("isl_operations", default=DEFAULT)
_inside: ContextVar[bool] = ContextVar("inside_bounded", default=False)


@dataclass
class _Account:
    """What is left for one compilation."""

    left: int


_account: ContextVar[_Account | None] = ContextVar("account", default=None)


@contextmanager
def compilation() -> Iterator[None]:
    """One compilation, whose questions share a budget; one inside another spends that one's."""
    if _account.get() is not None:
        yield
        return
    token = _account.set(_Account(WHOLE))
    try:
        _free()
        yield
    except isl.Error as error:
        if not _is_limit(error):
            raise
        _CTX.resume()
        raise _exceeded("what the compiler computes about loops", WHOLE) from None
    finally:
        _account.reset(token)
        _free()


def _free() -> None:
    """isl is between questions: within a compilation it has a limit there too."""
    _CTX.reset_operations()
    _CTX.set_max_operations(0 if _account.get() is None else WHOLE)


def _is_limit(error: isl.Error) -> bool:
    return "maximal number of operations" in str(error)


@contextmanager
def limit(operations: int) -> Iterator[None]:
    """Within the block, each bounded question may spend this many isl operations."""
    token = _total.set(operations)
    try:
        yield
    finally:
        _total.reset(token)


def bounded(question: str, most: int | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a pure function of isl objects; `question` says what it decides, for the message.

    most: operations, of a question that may stay without an answer. A bounded function inside
    another one spends the outer one's budget.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def asked(*args: P.args, **kwargs: P.kwargs) -> R:
            if _inside.get():
                return function(*args, **kwargs)
            return _in_slices(question, lambda: function(*args, **kwargs), most)

        return asked

    return decorate


def _in_slices(question: str, ask: Callable[[], R], most: int | None) -> R:
    account = _account.get() or _Account(_total.get())
    total = min(_total.get() if most is None else most, account.left)
    left, piece = total, FIRST_SLICE
    token = _inside.set(True)
    try:
        while left > 0:
            piece = min(piece, left)
            left -= piece
            _CTX.reset_operations()
            _CTX.set_max_operations(piece)
            try:
                return ask()
            except isl.Error as error:
                if not _is_limit(error):
                    raise
                _CTX.resume()
            account.left -= piece
            piece *= 2
    finally:
        _inside.reset(token)
        _free()
    raise _exceeded(question, total)


def _exceeded(question: str, total: int) -> Error:
    left = "" if total > 0 else ", and the questions before it had used them up"
    return BudgetExceeded.at(
        None,
        f"{question} was not decided within {max(total, 0) or WHOLE:,} operations of isl{left}, "
        "hence refused",
        help="bind sizes, or simplify the index expressions",
    )
