"""What the names of a kernel mean, apart from its indices."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from tdsl.diagnostics import ParseError, Span, TypeMismatch
from tdsl.ir.affine import number
from tdsl.ir.kernel import BITS, MATH, Array, Expr, Size
from tdsl.ir.types import TYPES, ElemType
from tdsl.syntax import tree
from tdsl.syntax.literals import Exact
from tdsl.syntax.vocabulary import REDUCTIONS

INDEX_FUNCTIONS = ("clamp", "wrap", "mirror")
FUNCTIONS = (*MATH, "min", "max", "abs", "select", *INDEX_FUNCTIONS, "saturate", "bitcast")
WORDS = ("true", "false", "inf")
RESERVED = frozenset((*REDUCTIONS, *FUNCTIONS, *WORDS, "inside", "padded", *TYPES)) - set(BITS)


def _of_type(span: Span | None, name: str) -> Span | None:
    """The place of the type in `A: f32[N]` or `saturate<i8>(x)`."""
    if span is None:
        return None
    found = re.search(rf"[:<]\s*({re.escape(name)})\b", span.text)
    if found is None:
        return span
    return Span(span.source, span.start + found.start(1), span.start + found.end(1))


@dataclass(frozen=True)
class Scope:
    """Names of one kernel under one choice of constants and sizes.

    exact     constants that are numbers
    defs      functions, by the name used in the kernel (a constant may rename one)
    types     element-type parameters
    sizes     size -> its expression: Size, or a number where it is bound
    lets      named size expressions
    arrays    declared ones and tables; inferred temps are not here
    temps     names of arrays that equations define without a declaration
    records   element types that the file declares
    """

    exact: Mapping[str, Exact] = field(default_factory=dict)
    defs: Mapping[str, tree.Def] = field(default_factory=dict)
    types: Mapping[str, ElemType] = field(default_factory=dict)
    sizes: Mapping[str, Expr] = field(default_factory=dict)
    lets: Mapping[str, Expr] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)
    temps: frozenset[str] = frozenset()
    combines: Mapping[str, tree.Combine] = field(default_factory=dict)
    records: Mapping[str, ElemType] = field(default_factory=dict)

    def element_type(self, name: str, span: Span | None) -> ElemType:
        """The element type of this name, refused where it is unknown. span: what names it, or a
        declaration or call that does."""
        found = self.types.get(name) or TYPES.get(name)
        if found is None:
            span = _of_type(span, name)
        if name in self.records:
            raise TypeMismatch.at(span, f"`{name}` is a record, and a number is wanted here")
        if found is None:
            known = (*TYPES, *self.types)
            raise ParseError.at(
                span,
                f"`{name}` is no element type",
                help=suggest(name, known) or f"one of {', '.join(TYPES)}",
            )
        return found

    def is_type(self, name: str) -> bool:
        return name in self.types or name in TYPES

    def is_array(self, name: str) -> bool:
        return name in self.arrays or name in self.temps

    def size_value(self, name: str) -> Expr | None:
        """A size, a let or a whole constant as an index expression."""
        if name in self.sizes:
            return self.sizes[name]
        return self.lets.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, for suggestions."""
        return (*self.exact, *self.defs, *self.sizes, *self.lets, *self.arrays, *self.temps)


def suggest(name: str, known: Iterable[str]) -> str | None:
    """`did you mean ...?` for the closest known name."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean `{close[0]}`?" if close else None


def bound_sizes(kernel: tree.Kernel, sizes: Mapping[str, int]) -> dict[str, Expr]:
    """Every size of the kernel: a number where it is bound, else a parameter."""
    for name, value in sizes.items():
        if name not in kernel.sizes:
            raise ParseError.at(
                kernel.name_span,
                f"kernel `{kernel.name}` has no size `{name}`",
                help=suggest(name, kernel.sizes)
                or f"its sizes are {', '.join(kernel.sizes) or 'none'}",
            )
        if not 0 <= value < 1 << 40:
            raise ParseError.at(
                kernel.name_span, f"size {name} = {value} is outside 0 <= size < 2^40"
            )
    return {n: number(sizes[n]) if n in sizes else Size(n) for n in kernel.sizes}


def exact_of(value: int | float) -> Exact:
    """A constant given from outside."""
    return Exact(Fraction(value), isinstance(value, float))
