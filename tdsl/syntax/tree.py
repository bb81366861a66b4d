"""The surface tree: what a `.tdsl` file says, word for word, with places.

Spans do not take part in comparison, so `parse(print(tree)) == tree` can be a test.
Names are not resolved here. Made by `tdsl.syntax.parser`, printed by `tdsl.syntax.formatter`,
given a meaning by `tdsl.syntax.elaborate`. Directives are in `tdsl.schedule.directives`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from tdsl.diagnostics import Span

if TYPE_CHECKING:
    from tdsl.schedule.directives import Directive


def _span() -> Span | None:
    return field(default=None, compare=False, repr=False, kw_only=True)


def _spans() -> tuple[Span, ...]:
    return field(default=(), compare=False, repr=False, kw_only=True)


# ---------------------------------------------------------------- expressions


@dataclass(frozen=True)
class Number:
    """A literal. `value` is exact; `is_float`: written with `.` or an exponent."""

    value: Fraction
    is_float: bool
    text: str = field(compare=False, default="")
    span: Span | None = _span()


@dataclass(frozen=True)
class Text:
    """A quoted word, as in `uses(S, "vpdpbusd")`."""

    value: str
    span: Span | None = _span()


@dataclass(frozen=True)
class Name:
    """An identifier, `true`, `false` or `inf`."""

    id: str
    span: Span | None = _span()


@dataclass(frozen=True)
class Subscript:
    """`base[i, j]`; a directive's `x[n, c // 16]` too."""

    base: Expr
    indices: tuple[Expr, ...]
    span: Span | None = _span()


@dataclass(frozen=True)
class Field:
    """`base.name`: a record's field, or `S.A` in a directive."""

    base: Expr
    name: str
    span: Span | None = _span()


@dataclass(frozen=True)
class Call:
    """`f(args)` and `saturate<u8>(x)`; `type_args` are names of element types."""

    func: str
    args: tuple[Expr, ...]
    type_args: tuple[str, ...] = ()
    kwargs: tuple[tuple[str, Expr], ...] = ()
    span: Span | None = _span()


@dataclass(frozen=True)
class Unary:
    """`op` is `-`, `~` or `not`."""

    op: str
    operand: Expr
    span: Span | None = _span()


@dataclass(frozen=True)
class Binary:
    """`op` is one of `+ - * / // % & | ^ << >> and or`."""

    op: str
    left: Expr
    right: Expr
    span: Span | None = _span()


@dataclass(frozen=True)
class Compare:
    """A chain `first op1 e1 op2 e2 ...`; each op is one of `== != < <= > >=`."""

    first: Expr
    rest: tuple[tuple[str, Expr], ...]
    span: Span | None = _span()


@dataclass(frozen=True)
class IndexRange:
    """`k` or `k in lo..hi` in a reduction or a `for`.

    `down`: `for i in hi downto lo` (both ends inclusive; lo and hi hold the lower and the
    upper end as such). `step` as written, or None.
    """

    name: str
    lo: Expr | None = None
    hi: Expr | None = None
    down: bool = False
    step: Expr | None = None
    span: Span | None = _span()


@dataclass(frozen=True)
class Reduce:
    """`op[ranges where condition](args)`: `sum`, ..., `argmin`, or a combine's name."""

    op: str
    ranges: tuple[IndexRange, ...]
    where: Expr | None
    args: tuple[Expr, ...]
    span: Span | None = _span()


@dataclass(frozen=True)
class ListLit:
    """`[a, b, ...]`, nested or flat, in a `const` table."""

    items: tuple[Expr, ...]
    span: Span | None = _span()


Expr = Number | Text | Name | Subscript | Field | Call | Unary | Binary | Compare | Reduce | ListLit

# ---------------------------------------------------------------- kernels


@dataclass(frozen=True)
class Param:
    """`name = default` or `T: type = f32` between `<` and `>`, or in a recipe's list."""

    name: str
    default: Expr | None = None
    is_type: bool = False
    span: Span | None = _span()


@dataclass(frozen=True)
class SizeLet:
    """`let OH = expr` in a kernel or a `combine`."""

    name: str
    value: Expr
    span: Span | None = _span()


@dataclass(frozen=True)
class Assume:
    conditions: tuple[Expr, ...]
    span: Span | None = _span()


@dataclass(frozen=True)
class ArrayDecl:
    """`in x, y: f32[N, C] strides [lda, 1] align 64 range 0..N`.

    `role`: in, out, inout, const, temp or table. A table is `const G: f32[3] = [...]` and has
    `values`; a `const` argument has none. A dimension may be a group `(G, CG)`: a tuple.
    """

    role: str
    names: tuple[str, ...]
    type: str
    shape: tuple[Expr | tuple[Expr, ...], ...]
    values: Expr | None = None
    strides: tuple[Expr, ...] | None = None  # Name("free") for a free stride
    align: Expr | None = None
    range: tuple[Expr, Expr] | None = None
    span: Span | None = _span()


@dataclass(frozen=True)
class Equation:
    """`label: t1, t2 op value where condition`; `op` is `=`, `+=`, `-=`, `*=`, `min=` or `max=`.

    A target is a Subscript of a Name, or a bare Name (a scalar).
    """

    label: str | None
    targets: tuple[Expr, ...]
    op: str
    value: Expr
    where: Expr | None = None
    span: Span | None = _span()


@dataclass(frozen=True)
class For:
    """`for t in 0..T, i in 1..N-1 { body }`; `static` bodies are written out."""

    ranges: tuple[IndexRange, ...]
    body: tuple[KernelItem, ...]
    static: bool = False
    span: Span | None = _span()


KernelItem = SizeLet | Assume | ArrayDecl | Equation | For


@dataclass(frozen=True)
class Kernel:
    name: str
    constants: tuple[Param, ...]
    sizes: tuple[str, ...]
    items: tuple[KernelItem, ...]
    span: Span | None = _span()
    name_span: Span | None = _span()


@dataclass(frozen=True)
class Def:
    """`def relu(v) = expr`."""

    name: str
    params: tuple[str, ...]
    body: Expr
    span: Span | None = _span()


@dataclass(frozen=True)
class Combine:
    """`combine f(m, z; m2, z2) { identity ... let ... give ... }`."""

    name: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    identity: tuple[Expr, ...]
    lets: tuple[SizeLet, ...]
    give: tuple[Expr, ...]
    span: Span | None = _span()
    identity_span: Span | None = _span()
    give_span: Span | None = _span()


@dataclass(frozen=True)
class Record:
    """`record q4_0 { d: f16  q: u8[16] }`: (name, type, length or None)."""

    name: str
    fields: tuple[tuple[str, str, Expr | None], ...]
    span: Span | None = _span()
    field_spans: tuple[Span, ...] = _spans()


@dataclass(frozen=True)
class Import:
    name: str
    span: Span | None = _span()


@dataclass(frozen=True)
class Schedule:
    """`schedule kernel.variant for targets when condition { directives }`."""

    kernel: str
    variant: str | None
    targets: tuple[str, ...]
    condition: Expr | None
    directives: tuple[Directive, ...]
    span: Span | None = _span()


@dataclass(frozen=True)
class Recipe:
    name: str
    params: tuple[Param, ...]
    directives: tuple[Directive, ...]
    span: Span | None = _span()


@dataclass(frozen=True)
class GraphLet:
    """`h = expr`, or `out y = expr` (`is_out`)."""

    names: tuple[str, ...]
    value: Expr
    is_out: bool = False
    span: Span | None = _span()


@dataclass(frozen=True)
class Graph:
    name: str
    params: tuple[Param, ...]
    items: tuple[ArrayDecl | GraphLet, ...]
    span: Span | None = _span()


@dataclass(frozen=True)
class Select:
    """`select op { choice when condition ... choice otherwise }` (condition None)."""

    operator: str
    rules: tuple[tuple[str, Expr | None], ...]
    span: Span | None = _span()
    rule_spans: tuple[Span, ...] = _spans()


FileItem = Kernel | Def | Combine | Record | ArrayDecl | Import | Schedule | Recipe | Graph | Select


@dataclass(frozen=True)
class File:
    items: tuple[FileItem, ...]
    span: Span | None = _span()
