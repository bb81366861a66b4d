"""From a draft to a statement of the kernel level: domain, subscript, value."""

from __future__ import annotations

import math

from tdsl.diagnostics import Note, ParseError, Span, TypeMismatch
from tdsl.ir.affine import linear, simplify
from tdsl.ir.kernel import INDEX, Array, Cast, Const, Expr, Op, Read, Statement, Var, walk
from tdsl.ir.types import BOOL, I64, ElemType
from tdsl.syntax import tree
from tdsl.syntax.drafts import INDEX_OF, JOINS, UPDATES, Draft, accesses, array_name, names_in
from tdsl.syntax.exprs import Values
from tdsl.syntax.indices import affine
from tdsl.syntax.literals import limits
from tdsl.syntax.operators import as_data
from tdsl.syntax.ranges import ZERO, Range, Ranges
from tdsl.syntax.reads import Context
from tdsl.syntax.scope import Scope
from tdsl.syntax.temps import Arrays

_SIGNS = {op: sign for sign, op in UPDATES.items()}


def identity(reduction: str, type_: ElemType) -> Const:
    """What an empty reduction gives."""
    match reduction:
        case "any" | "all":
            return Const(reduction == "all", BOOL)
        case "sum" | "prod":
            one = 1 if reduction == "prod" else 0
            return Const(float(one) if type_.is_float else one, type_)
        case _:
            if type_.is_float:
                return Const(-math.inf if reduction == "max" else math.inf, type_)
            low, high = limits(type_)
            return Const(low if reduction == "max" else high, type_)


def context(
    draft: Draft, arrays: Arrays, visible: tuple[str, ...], ranges: Ranges | None = None
) -> Context:
    """What an expression of the draft may name; with `ranges`, also what its instances prove."""

    def proves(condition: Expr) -> bool:
        assert ranges is not None
        match condition:
            case Op(("le" | "lt") as op, (a, b)):
                gap = simplify(Op("sub", (b, a), INDEX))
                least, _ = ranges.hull(draft, gap)
                wanted = ZERO if op == "le" else Const(1, INDEX)
                return least is not None and ranges.facts.less_equal(wanted, least)
            case _:
                return False

    return Context(
        arrays.scope, frozenset(visible), arrays.type_of, arrays.rank_of, arrays.shape_of,
        arrays.is_open,
        proves if ranges is not None else (lambda condition: False), _sum_hint(draft),
    )  # fmt: skip


def _sum_hint(draft: Draft) -> str | None:
    """How to sum over a free index of this equation."""
    text = draft.value.span.text if draft.value.span is not None else ""
    if draft.is_lifted or draft.reduces is not None or draft.ranges or not text or "\n" in text:
        return None
    target = draft.target_span.text if draft.target_span is not None else draft.array
    sign = {"add": "+=", "sub": "-="}.get(draft.op, "=")
    return f"to sum over it, write `{target} {sign} sum[{{}}]({text})`"


class Statements:
    """Builds the statements of one kernel."""

    def __init__(self, scope: Scope, arrays: Arrays, ranges: Ranges) -> None:
        self.scope, self.arrays, self.ranges = scope, arrays, ranges

    def build(self, draft: Draft) -> Statement:
        """The statement of a draft."""
        self._target(draft)
        nest = tuple(loop.index for loop in draft.nest)
        outer_names = (*nest, *draft.own)
        subscript = self._values(draft, outer_names).subscript(
            draft.array, draft.subscript, draft.target_span
        )
        value = self._value(draft)
        outer = self._outer(draft, outer_names)
        inner = self._reduced(draft, outer_names)
        domain = _unique([*outer, *inner])
        init = None
        op = draft.op
        if draft.reduces in JOINS:
            init, op = identity(draft.reduces, value.type), JOINS[draft.reduces]
        return Statement(
            draft.name, draft.array, subscript, draft.order, tuple(domain), op, value,
            draft.reduced, init, tuple(outer) if draft.ranges else (), span=draft.span,
        )  # fmt: skip

    def _values(self, draft: Draft, visible: tuple[str, ...]) -> Values:
        return Values(context(draft, self.arrays, visible))

    # ------------------------------------------------------------ domain

    def _outer(self, draft: Draft, names: tuple[str, ...]) -> list[Expr]:
        out: list[Expr] = []
        for loop in draft.nest:
            out += _between(loop.index, Range(loop.lo, loop.hi))
            if loop.step != 1:
                out.append(_on_step(loop.index, loop.lo, loop.hi, loop.down, loop.step))
        for name in draft.own:
            out += _between(name, self.ranges.index(draft, name))
        for condition in draft.where:
            out += self._condition(draft, names, condition)
        return _unique(out)

    def _reduced(self, draft: Draft, outer: tuple[str, ...]) -> list[Expr]:
        out: list[Expr] = []
        visible = outer
        for r in draft.ranges:
            for end in (r.lo, r.hi):
                if end is not None:  # the ends see what stands before them only
                    self._values(draft, visible).bound(end, "range")
            out += _between(r.name, self.ranges.index(draft, r.name))
            visible = (*visible, r.name)
        for condition in draft.limits:
            out += self._condition(draft, visible, condition)
        return out

    def _condition(self, draft: Draft, visible: tuple[str, ...], surface: tree.Expr) -> list[Expr]:
        if hidden := (names_in(surface) & set(draft.reduced)) - set(visible):
            raise ParseError.at(
                surface.span,
                f"`{min(hidden)}` is an index of the reduction, and this limits the left "
                "side",
                help=f"limit the reduction in its brackets: `[{min(hidden)} where ...]`",
            )  # fmt: skip
        built = self._values(draft, visible).condition(surface)
        for part in walk(built):
            if isinstance(part, Read | Cast):
                raise ParseError.at(
                    part.span or surface.span,
                    "`where` speaks of indices and sizes, and this condition reads data",
                    help="choose by data in the value: `select(c, a, b)`",
                )
        affine(built, surface.span, "condition")
        match built:
            case Const(value):
                return [] if value else [built]
            case Op("and", args):
                return list(args)
            case _:
                return [built]

    # ------------------------------------------------------------ value

    def _value(self, draft: Draft) -> Expr:
        held = self.arrays.type_of(draft.array, draft.target_span)
        if draft.reduces in INDEX_OF:
            return self._compared(draft, held)
        values = Values(context(draft, self.arrays, draft.order, self.ranges))
        value = values.build(draft.value, held)
        span = draft.value.span
        if draft.reduces in ("any", "all") and value.type != BOOL:
            raise TypeMismatch.at(
                span, f"`{draft.reduces}` joins conditions, and this is {value.type}"
            )
        if (
            draft.reduces in ("sum", "prod", "max", "min") or draft.op != "define"
        ) and value.type == BOOL:
            raise TypeMismatch.at(
                span,
                f"`{draft.reduces or _SIGNS[draft.op]}` computes with numbers, and this is a truth "
                "value",
                help="count with `sum[k](select(c, 1, 0))`",
            )  # fmt: skip
        if held == I64 and value.type == INDEX:
            value = as_data(value)
        if value.type != held:
            raise self._wrong_type(draft, held, value, span)
        return value

    def _compared(self, draft: Draft, held: ElemType) -> Expr:
        """The values whose place is asked for."""
        values = Values(context(draft, self.arrays, draft.order, self.ranges))
        value = values.build(draft.value, None)
        if held != I64:
            raise TypeMismatch.at(
                draft.target_span,
                f"`{draft.reduces}` gives an index, an i64, and `{draft.array}` holds {held}",
                help=f"declare `{draft.array}` of i64, or convert: "
                f"`{held}({draft.reduces}[...](...))`",
            )
        if value.type in (BOOL, INDEX):
            what = "truth values" if value.type == BOOL else "indices"
            raise TypeMismatch.at(
                draft.value.span, f"`{draft.reduces}` compares numbers, and these are {what}",
                help="convert them: `i64(...)`",
            )  # fmt: skip
        return value

    def _wrong_type(
        self, draft: Draft, held: ElemType, value: Expr, span: Span | None
    ) -> TypeMismatch:
        text = span.text if span is not None else "..."
        text = text if len(text) <= 40 and "\n" not in text else "..."
        declared = self.scope.arrays.get(draft.array)
        notes = (
            () if declared is None else (Note(f"`{draft.array}` is declared here", declared.span),)
        )
        came = {"index": "an index", "bool": "a truth value"}.get(value.type.name, value.type.name)
        if value.type == BOOL:
            help_ = "write `select(c, 1, 0)`"
        elif held == BOOL:
            help_ = "write `... != 0`"
        else:
            help_ = f"write `{held}({text})`"
        error = TypeMismatch.at(
            span, f"`{draft.array}` holds {held}, and the right side is {came}", *notes, help=help_
        )
        assert isinstance(error, TypeMismatch)
        return error

    # ------------------------------------------------------------ left side

    def _target(self, draft: Draft) -> None:
        declared = self.scope.arrays.get(draft.array)
        if declared is not None and declared.role in ("in", "const", "table"):
            kind = {"in": "an input", "const": "a constant argument", "table": "a table"}[
                declared.role
            ]
            raise ParseError.at(
                draft.target_span, f"`{draft.array}` is {kind} and is not written",
                Note("declared here", declared.span),
                help=None if declared.role == "table" else f"declare it `inout {draft.array}: ...`",
            )  # fmt: skip
        for r in draft.ranges:
            if self.scope.size_value(r.name) is not None or r.name in self.scope.exact:
                raise ParseError.at(
                    r.span or draft.span,
                    f"`{r.name}` is a size or constant and cannot be an index too",
                )
        if not draft.defines or draft.nest or draft.written_out:
            return
        own = _own_element(draft, declared)
        for access in accesses(draft.value, padded=True):
            bare = isinstance(access, tree.Name) and access.id in draft.order
            if array_name(access) == draft.origin and not bare and access != own:
                raise ParseError.at(
                    access.span,
                    f"`{draft.origin}` is defined by this equation, for all its elements at once, "
                    "so it cannot be read in it",
                    help=_in_order(draft, access),
                )


def _own_element(draft: Draft, declared: Array | None) -> tree.Expr | None:
    """What a definition of an `inout` may read of it: the element that it writes, as the caller
    left it. A reduction may not, for its first term is written before."""
    if declared is None or declared.role != "inout" or draft.is_lifted or draft.ranges:
        return None
    array = tree.Name(draft.array)
    return tree.Subscript(array, draft.subscript) if draft.subscript else array


def _in_order(draft: Draft, access: tree.Expr) -> str:
    """How to write a definition that reads its own array."""
    if draft.ranges or draft.is_lifted:
        return "read it before, in an equation of its own, such as `old[i] = y[i]`"
    place = draft.target_span
    if place is None or access.span is None or place.text != access.span.text:
        index = draft.own[0] if draft.own else "i"
        return (
            f"where the order matters, write it in a `for`: `for {index} in 1..N {{ ... }}`, "
            f"with `{draft.origin}` an `inout`"
        )
    update = _as_update(draft.value, access)
    if update is not None:
        return f"write `{place.text} {update}`, with `{draft.origin}` an `inout`"
    return (
        f"declare `{draft.origin}` an `inout`: its definition may then read the element that it "
        "writes, which is the caller's"
    )


def _as_update(value: tree.Expr, own: tree.Expr) -> str | None:
    """The part behind `y` of `y += e`, for `y + e`; None for what is no update."""
    match value:
        case tree.Binary("+" | "*" as op, left, other) if left == own:
            pass
        case tree.Binary("+" | "*" as op, other, right) if right == own:
            pass
        case tree.Binary("-" as op, left, other) if left == own:
            pass
        case _:
            return None
    if other.span is None or any(own == access for access in accesses(other)):
        return None
    return f"{op}= {other.span.text}"


def _between(name: str, r: Range) -> list[Expr]:
    return [Op("le", (r.lo, Var(name)), BOOL), Op("lt", (Var(name), r.hi), BOOL)]


def _on_step(name: str, lo: Expr, hi: Expr, down: bool, step: int) -> Expr:
    """Steps count from the end where the loop starts."""
    if down:
        last = Op("sub", (hi, Const(1, INDEX)), INDEX)
        distance = Op("sub", (last, Var(name)), INDEX)
    else:
        distance = Op("sub", (Var(name), lo), INDEX)
    return Op("eq", (simplify(Op("mod", (distance, Const(step, INDEX)), INDEX)), ZERO), BOOL)


def _unique(conditions: list[Expr]) -> list[Expr]:
    """Without repetitions; `0 <= i` and `i >= 0` are one condition."""
    seen: set[object] = set()
    out: list[Expr] = []
    for condition in conditions:
        key = _key(condition)
        if key not in seen:
            seen.add(key)
            out.append(condition)
    return out


def _key(condition: Expr) -> object:
    match condition:
        case Op(("le" | "lt" | "ge" | "gt") as op, (a, b)) if a.type == INDEX:
            form = linear(b).plus(linear(a), -1)
            form = form if op in ("le", "lt") else form.times(-1)
            return frozenset(form.terms.items()), form.constant - (op in ("lt", "gt"))
        case _:
            return condition
