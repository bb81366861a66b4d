"""Equations on their way to statements: names given, reductions lifted out, nothing typed yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tdsl.diagnostics import Note, ParseError, Span, TypeMismatch
from tdsl.ir.kernel import Expr
from tdsl.syntax import tree
from tdsl.syntax.expand import children, rebuild, walk

# The update that joins the terms of a reduction.
JOINS = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "any", "all": "all"}
INDEX_OF = ("argmax", "argmin")
UPDATES = {"=": "define", "+=": "add", "-=": "sub", "*=": "mul", "min=": "min", "max=": "max"}
# A reduction behind an update joins each term to the element where the operators agree.
_AGREE = {("+=", "sum"), ("-=", "sum"), ("*=", "prod"), ("max=", "max"), ("min=", "min")}


@dataclass(frozen=True)
class Loop:
    """One index of a `for`: lo..hi exclusive."""

    index: str
    lo: Expr
    hi: Expr
    down: bool
    step: int
    span: Span | None = None


@dataclass(frozen=True)
class Draft:
    """One statement to be.

    own       indices of the left-hand side that the nest does not give, in order
    ranges    indices of the reduction as written
    reduces   the reduction's word where the whole right side is one, else None
    op        an update word of `UPDATES`
    where     conditions of the equation (on own and nest indices)
    limits    conditions of the reduction
    nest      the loops around, outermost first
    origin    the array that the equation writes; another one than `array` where this draft is
              made of a reduction inside a right-hand side
    defines   the equation is a definition, not an update
    group     the statement of a tuple reduction that this is a part of, "" for other ones
    also      the terms of its other parts
    written_out: it stands in a `static for`, whose copies have an order
    """

    name: str
    array: str
    subscript: tuple[tree.Expr, ...]
    own: tuple[str, ...]
    op: str
    value: tree.Expr
    ranges: tuple[tree.IndexRange, ...] = ()
    reduces: str | None = None
    where: tuple[tree.Expr, ...] = ()
    limits: tuple[tree.Expr, ...] = ()
    nest: tuple[Loop, ...] = ()
    origin: str = ""
    defines: bool = False
    group: str = ""
    also: tuple[tree.Expr, ...] = ()
    written_out: bool = False
    span: Span | None = None
    target_span: Span | None = None

    @property
    def reduced(self) -> tuple[str, ...]:
        return tuple(r.name for r in self.ranges)

    @property
    def order(self) -> tuple[str, ...]:
        """All indices, outermost first."""
        return (*(loop.index for loop in self.nest), *self.own, *self.reduced)

    @property
    def is_lifted(self) -> bool:
        return self.origin != self.array


def conjuncts(expr: tree.Expr | None) -> tuple[tree.Expr, ...]:
    """The parts of a conjunction."""
    match expr:
        case None:
            return ()
        case tree.Binary("and", left, right):
            return (*conjuncts(left), *conjuncts(right))
        case _:
            return (expr,)


def names_in(expr: tree.Expr) -> set[str]:
    """Names of indices and scalars that an expression mentions."""
    return {e.id for e in walk(expr) if isinstance(e, tree.Name)}


def accesses(expr: tree.Expr, padded: bool = False) -> Iterator[tree.Subscript | tree.Name]:
    """Subscripts and bare names that are read. Without `padded`, what stands in `padded(...)`
    is left out (it may lie outside its array); what stands in `inside(...)` always is."""
    match expr:
        case tree.Call("inside"):
            return
        case tree.Call("padded", (first, *rest)) if not padded:
            for part in (*children(first)[1:], *rest):
                yield from accesses(part, padded)
            return
        case tree.Subscript():
            yield expr
            for index in expr.indices:
                yield from accesses(index, padded)
        case tree.Name():
            yield expr
        case _:
            for child in children(expr):
                yield from accesses(child, padded)


def array_name(access: tree.Subscript | tree.Name) -> str | None:
    """The array that an access names, if it names one."""
    if isinstance(access, tree.Name):
        return access.id
    return access.base.id if isinstance(access.base, tree.Name) else None


# ---------------------------------------------------------------- reductions


def lift(draft: Draft, combines: Mapping[str, tree.Combine]) -> list[Draft]:
    """The drafts of an equation: its reductions first (`S_r1`, ...), itself last.

    `y[i] = sum[k](x[i, k]) + 1.0` becomes `S_r1[i] = sum[k](x[i, k])`, `y[i] = S_r1[i] + 1.0`;
    a reduction that is the whole right side stays in its statement.
    """
    lifter = _Lifter(draft, combines)
    value = draft.value
    word = {v: k for k, v in UPDATES.items()}[draft.op]
    if isinstance(value, tree.Reduce) and (word == "=" or (word, value.op) in _AGREE):
        lifter.check(value, set(draft.order), part=bool(draft.group))
        inner = {r.name for r in value.ranges}
        body = lifter.run(value.args[0], inner, conjuncts(value.where))
        main = replace(
            draft,
            value=body,
            ranges=value.ranges,
            reduces=value.op if word == "=" else None,
            limits=conjuncts(value.where),
            group=(draft.group or draft.name) if value.op not in JOINS else "",
        )
    else:
        main = replace(draft, value=lifter.run(value, set(), ()))
    return [*lifter.drafts, main]


class _Lifter:
    def __init__(self, draft: Draft, combines: Mapping[str, tree.Combine]) -> None:
        self.draft, self.combines = draft, combines
        self.drafts: list[Draft] = []

    def check(self, reduce: tree.Reduce, outer: set[str], part: bool = False) -> None:
        """`part`: the reduction is one of those that a `combine` gives together."""
        if reduce.op not in JOINS and reduce.op not in INDEX_OF and reduce.op not in self.combines:
            raise ParseError.at(
                reduce.span,
                f"there is no reduction `{reduce.op}`",
                help=f"one of {', '.join((*JOINS, *INDEX_OF, *self.combines))}",
            )
        if reduce.op in INDEX_OF and len(reduce.ranges) != 1:
            raise ParseError.at(
                reduce.span, f"`{reduce.op}` gives the value of one index, and "
                f"{len(reduce.ranges)} are reduced",
                help="number the pairs yourself, or take it of each row first",
            )  # fmt: skip
        if not part and reduce.op in self.combines:
            parts = len(self.combines[reduce.op].left)
            if parts != 1:
                raise ParseError.at(
                    reduce.span, f"`{reduce.op}` gives {parts} values at once",
                    Note("it is defined here", self.combines[reduce.op].span),
                    help="it stands alone, as in `m[i], z[i] = "
                    f"{reduce.op}[j](...)`, with an array on the left for each value",
                )  # fmt: skip
        if len(reduce.args) != 1:
            raise ParseError.at(
                reduce.span, f"`{reduce.op}` joins one value, and {len(reduce.args)} came"
            )
        seen: set[str] = set()
        for r in reduce.ranges:
            if r.name in seen:
                raise ParseError.at(
                    r.span or reduce.span, f"index `{r.name}` stands twice in one reduction"
                )
            if r.name in outer:
                raise ParseError.at(
                    r.span or reduce.span,
                    f"the reduction over `{r.name}` hides the index `{r.name}` outside it",
                    Note("the index outside is of this equation", self.draft.target_span),
                    help="give it another name",
                )
            if r.step is not None or r.down:
                raise ParseError.at(
                    r.span or reduce.span, "a reduction runs over every value of its range",
                    help="write `where k % s == 0` for a step",
                )  # fmt: skip
            seen.add(r.name)

    def run(self, expr: tree.Expr, inner: set[str], limits: tuple[tree.Expr, ...]) -> tree.Expr:
        """The expression with reads of new arrays for its reductions. `inner`: the indices of
        the reductions around, `limits` their conditions."""
        if not isinstance(expr, tree.Reduce):
            return rebuild(expr, lambda e: self.run(e, inner, limits))
        visible = (*self.draft.order, *sorted(inner))
        self.check(expr, set(visible))
        deeper = inner | {r.name for r in expr.ranges}
        body = self.run(expr.args[0], deeper, (*limits, *conjuncts(expr.where)))
        name = f"{self.draft.name}_r{len(self.drafts) + 1}"
        used = names_in(replace(expr, args=(body,))) - {r.name for r in expr.ranges}
        nest = {loop.index for loop in self.draft.nest}
        own = tuple(i for i in visible if i in used and i not in nest)
        # A condition of the equation is kept where it speaks of the new statement's indices alone.
        foreign = set(visible) - set(own) - nest
        kept = [c for c in (*self.draft.where, *limits) if not names_in(c) & foreign]
        self.drafts.append(
            Draft(
                name, name, tuple(tree.Name(i, span=expr.span) for i in own), own, "define", body,
                ranges=expr.ranges, reduces=expr.op, where=tuple(kept),
                limits=conjuncts(expr.where), group="" if expr.op in JOINS else name,
                nest=self.draft.nest, origin=self.draft.array, defines=self.draft.defines,
                span=expr.span, target_span=expr.span,
            )
        )  # fmt: skip
        if not own:
            return tree.Name(name, span=expr.span)
        indices = tuple(tree.Name(i, span=expr.span) for i in own)
        return tree.Subscript(tree.Name(name, span=expr.span), indices, span=expr.span)


# ---------------------------------------------------------------- left-hand sides


def target_of(equation: tree.Equation) -> tuple[str, tuple[tree.Expr, ...], Span | None]:
    """Array, subscript and place of the first array on the left-hand side."""
    return place_of(equation.targets[0])


def place_of(target: tree.Expr) -> tuple[str, tuple[tree.Expr, ...], Span | None]:
    """Array, subscript and place of one target."""
    match target:
        case tree.Name(name):
            return name, (), target.span
        case tree.Subscript(tree.Name(name), indices):
            return name, indices, target.span
        case _:
            raise ParseError.at(target.span, "the left side is an array's element, as in `y[i, j]`")


def own_indices(
    subscript: tuple[tree.Expr, ...],
    given: set[str],
    known: set[str],
    span: Span | None,
    defines: bool,
) -> tuple[str, ...]:
    """New index names of a left-hand side, in order. `given`: the nest's; `known`: sizes,
    constants and lets, which are no indices. `defines`: data may not choose the element."""
    own: list[str] = []
    plain: set[str] = set()
    for part in subscript:
        if isinstance(part, tree.Name) and part.id not in given | known:
            if part.id in plain:
                raise ParseError.at(
                    part.span or span,
                    f"index `{part.id}` stands twice on the left side, so it would define a "
                    "diagonal only",
                    help="use two names, and say behind it how they relate, as in `where j == i`",
                )
            plain.add(part.id)
        for e in _index_names(part):
            if isinstance(e, tree.Subscript):
                if defines:
                    raise ParseError.at(
                        part.span or span,
                        "data choose the element that is written, so a definition could give it "
                        "two values",
                        help="update it: `+=`, `max=`, ...; where the range is small, sum over all "
                        "inputs: `h[b] = sum[i](select(i64(x[i]) == i64(b), 1, 0))`",
                    )
                continue
            if isinstance(e, tree.Reduce):
                raise TypeMismatch.at(part.span or span, "a reduction is no index")
            if isinstance(e, tree.Name) and e.id not in given | known and e.id not in own:
                own.append(e.id)
    return tuple(own)


def _index_names(expr: tree.Expr) -> Iterator[tree.Expr]:
    """The expression and what stands in it, names of subscripted arrays apart."""
    yield expr
    parts = expr.indices if isinstance(expr, tree.Subscript) else children(expr)
    for part in parts:
        yield from _index_names(part)
