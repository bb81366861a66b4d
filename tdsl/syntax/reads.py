"""What an expression may name, and the elements that it reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from tdsl.diagnostics import BoundsError, Note, ParseError, Span, TypeMismatch
from tdsl.ir.kernel import Const, Expr, Read, Var
from tdsl.ir.types import BOOL, ElemType
from tdsl.syntax import tree
from tdsl.syntax.expand import walk
from tdsl.syntax.indices import Indices, affine
from tdsl.syntax.records import no_number
from tdsl.syntax.scope import WORDS, Scope, suggest


@dataclass(frozen=True)
class Context:
    """What an expression may name, and whom to ask about arrays.

    visible   indices in scope
    type_of   element type of an array or inferred temp; the span is the place that asks
    rank_of   its number of dimensions
    shape_of  its extents
    is_open   whether it holds a lifted reduction of numbers, which takes its context's type
    proves    whether a condition holds at every instance of the statement
    sum_hint  how to sum over a name that is bound nowhere: text with `{}` for the name
    """

    scope: Scope
    visible: frozenset[str]
    type_of: Callable[[str, Span | None], ElemType]
    rank_of: Callable[[str], int]
    shape_of: Callable[[str, Span | None], tuple[Expr, ...]]
    is_open: Callable[[str], bool] = lambda name: False
    proves: Callable[[Expr], bool] = lambda condition: False
    sum_hint: str | None = None


def no_data(name: str, span: Span | None) -> NoReturn:
    """The `type_of` of a context in which there are sizes and indices only."""
    raise ParseError.at(span, f"`{name}` is data, and only sizes and constants are known here")


class Reads(ABC):
    """Names, elements, indices and conditions; operators and calls are built on it."""

    def __init__(self, context: Context) -> None:
        self.context, self.scope = context, context.scope
        self._indices = Indices(
            context.scope, context.visible, lambda e: self.build(e, None), self.condition
        )

    @abstractmethod
    def guess(self, expr: tree.Expr) -> ElemType | None:
        """The type of an expression; None where it is made of numbers and takes its context's."""

    @abstractmethod
    def build(self, expr: tree.Expr, want: ElemType | None) -> Expr:
        """The typed expression; `want` is what a number without other context becomes."""

    def index(self, expr: tree.Expr) -> Expr:
        """A subscript: quasi-affine, integer data allowed in it."""
        return affine(self._indices.build(expr, mixed=True), expr.span, "index")

    def bound(self, expr: tree.Expr, what: str) -> Expr:
        """An end of a range, an extent or a size: quasi-affine, made of indices and sizes alone."""
        return affine(self.size(expr, what), expr.span, what)

    def size(self, expr: tree.Expr, what: str) -> Expr:
        """An expression of indices and sizes alone, affine or not."""
        for part in walk(expr):
            if isinstance(part, tree.Name) and self._is_data(part.id):
                help = {
                    "range": "run over all and choose by value: `select(c, a, 0)`",
                    "size": "`let` names a size; for a value made of data write an equation, "
                    "such as `t[i] = ...`",
                }
                raise ParseError.at(
                    part.span,
                    f"a {what} is made of indices and sizes, and `{part.id}` is data",
                    help=help.get(what),
                )
        return self._indices.build(expr, mixed=False)

    def _is_data(self, name: str) -> bool:
        return self.scope.is_array(name) and name not in self.context.visible

    def condition(self, expr: tree.Expr) -> Expr:
        """An expression of type BOOL, constants folded."""
        built = self.build(expr, BOOL)
        if built.type != BOOL:
            raise TypeMismatch.at(
                expr.span, f"a condition is wanted here, and this is {shown(built.type)}",
                help="compare it, for example with `!= 0`",
            )  # fmt: skip
        return built

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
            f"`{name}` is bound nowhere: it is no index of the left side, no size, no constant "
            "and no array",
            help=hint.replace("{}", name)
            if hint is not None and (short or closest is None)
            else closest,
        )
        assert isinstance(error, ParseError)
        return error

    def unknown_names(self, exprs: tuple[tree.Expr, ...]) -> Iterator[str]:
        """Names in expressions that mean nothing here: indices that nobody gave."""
        known = {*self.scope.names, *self.context.visible, *WORDS}
        for expr in exprs:
            for part in walk(expr):
                if isinstance(part, tree.Name) and part.id not in known:
                    yield part.id

    def _read(self, expr: tree.Subscript) -> Expr:
        match expr.base:
            case tree.Name(name):
                pass
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
        if type_.fields:
            raise TypeMismatch.at(
                span, f"`{name}` holds records, and a number is wanted",
                help=no_number(self.scope.arrays[name]),
            )  # fmt: skip
        return Read(name, self.subscript(name, indices, span), type_, span=span)

    def subscript(
        self, name: str, indices: tuple[tree.Expr, ...], span: Span | None
    ) -> tuple[Expr, ...]:
        """The indices of an access, as many as the array has dimensions."""
        rank = self.context.rank_of(name)
        if len(indices) != rank:
            declared = self.scope.arrays.get(name)
            notes = () if declared is None else (Note("declared here", declared.span),)
            what = "is a scalar" if rank == 0 else f"has {count(rank, 'dimension')}"
            came = "no index" if not indices else count(len(indices), "index", "indices")
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
            f"index {value} of `{name}`: indices start at 0, and a negative one does not count "
            "from the end",
            help=f"the last element is `{text} - 1`"
            if value == -1
            else f"write `{text} - {-value}`",
        )
        assert isinstance(error, BoundsError)
        return error


def _plain(extent: Expr) -> str:
    return getattr(extent, "name", None) or (
        str(extent.value) if isinstance(extent, Const) else "N"
    )


def count(n: int, one: str, many: str | None = None) -> str:
    return f"{n} {one}" if n == 1 else f"{n} {many or one + 's'}"


def shown(type_: ElemType) -> str:
    return {"index": "an index", "bool": "a truth value"}.get(type_.name, str(type_))
