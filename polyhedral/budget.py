"""A bound on the work of isl: a question that costs too much is refused, never guessed.

isl counts its operations (about five million a second) and stops a call at a limit; nothing
else can stop one, since a call holds the interpreter's lock. So a question is asked in slices:
first with a small limit, then, when that is used up, again with a doubled one, until the
budget is spent. Between two slices Python runs, and Ctrl-C is served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

import islpy as isl

from tdsl.diagnostics import BudgetExceeded

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT = 100_000_000
FIRST_SLICE = 5_000_000

_CTX = isl.DEFAULT_CONTEXT
_total: ContextVar[int] = ContextVar("isl_operations", default=DEFAULT)
_inside: ContextVar[bool] = ContextVar("inside_bounded", default=False)


@contextmanager
def limit(operations: int) -> Iterator[None]:
    """Within the block, each bounded question may spend this many isl operations."""
    token = _total.set(operations)
    try:
        yield
    finally:
        _total.reset(token)


def bounded(question: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a pure function of isl objects; `question` says what it decides, for the message.

    A bounded function inside another one spends the outer one's budget.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def asked(*args: P.args, **kwargs: P.kwargs) -> R:
            if _inside.get():
                return function(*args, **kwargs)
            return _in_slices(question, lambda: function(*args, **kwargs))

        return asked

    return decorate


def _in_slices(question: str, ask: Callable[[], R]) -> R:
    left, piece = _total.get(), FIRST_SLICE
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
                if "maximal number of operations" not in str(error):
                    raise
                _CTX.resume()
            piece *= 2
    finally:
        _inside.reset(token)
        _CTX.set_max_operations(0)
        _CTX.reset_operations()
    raise BudgetExceeded.at(
        None,
        f"{question} was not decided within {_total.get():,} operations of isl, hence refused",
        help="bind sizes, or simplify the index expressions",
    )
