"""Arrays that equations define without a declaration: their types, ranks and extents."""

from __future__ import annotations

from collections.abc import Callable

from tdsl.diagnostics import Note, Span, TypeMismatch
from tdsl.ir.kernel import INDEX, Array, Expr
from tdsl.ir.types import I64, ElemType
from tdsl.syntax import tree
from tdsl.syntax.drafts import INDEX_OF, Draft, names_in
from tdsl.syntax.expand import children
from tdsl.syntax.exprs import Values
from tdsl.syntax.ranges import Circular, Ranges, declare_temp
from tdsl.syntax.scope import Scope


class Arrays:
    """Type, rank and shape of every array of a kernel, declared or not."""

    def __init__(
        self, scope: Scope, drafts: list[Draft], values: Callable[[Draft], Values]
    ) -> None:
        self.scope, self.drafts, self.values = scope, drafts, values
        self.ranges: Ranges | None = None  # set once it is there: the two ask each other
        self._lifted = {d.array: d for d in drafts if d.is_lifted}
        self._types: dict[str, ElemType] = {}
        self._asked: set[str] = set()

    def type_of(self, name: str, span: Span | None) -> ElemType:
        declared = self.scope.arrays.get(name)
        if declared is not None:
            return declared.type
        if name not in self._types:
            self._types[name] = self._infer(name, span)
        return self._types[name]

    def _infer(self, name: str, span: Span | None) -> ElemType:
        if name in self._asked:
            raise declare_temp(name, span, f"its type depends on `{name}` itself")
        self._asked.add(name)
        try:
            for draft in self.drafts:
                if draft.array == name and draft.reduces in INDEX_OF:
                    return I64
                if draft.array == name:
                    found = self.values(draft).guess(draft.value)
                    if found == INDEX:
                        return I64
                    if found is not None:
                        return found
                    if draft.is_lifted:
                        return self._from_reader(name)
        finally:
            self._asked.discard(name)
        first = next(d for d in self.drafts if d.array == name)
        raise declare_temp(
            name,
            first.target_span,
            "its expression is made of numbers, which have no type of their own",
        )

    def is_open(self, name: str) -> bool:
        """Whether a reduction was lifted whose terms are numbers, as in `s[i] / sum[k](1)`."""
        lifted = self._lifted.get(name)
        return lifted is not None and self.values(lifted).guess(lifted.value) is None

    def _from_reader(self, name: str) -> ElemType:
        """The type that the place of a lifted reduction asks for."""
        for draft in self.drafts:
            found = _context(draft.value, name, self.values(draft))
            if found is not None and found != INDEX:
                return found
            if name in names_in(draft.value):
                return self.type_of(draft.array, draft.target_span)
        raise AssertionError(f"nothing reads {name}")

    def rank_of(self, name: str) -> int:
        declared = self.scope.arrays.get(name)
        if declared is not None:
            return len(declared.shape)
        return next(len(d.subscript) for d in self.drafts if d.array == name)

    def shape_of(self, name: str, span: Span | None) -> tuple[Expr, ...]:
        assert self.ranges is not None
        try:
            return self.ranges.shape(name, self.rank_of(name))
        except Circular as circle:
            raise declare_temp(
                str(circle.key[1]), span, "what is read of it depends on itself"
            ) from None

    def check_ranks(self) -> None:
        """Every equation gives an array as many indices as it has dimensions."""
        for draft in self.drafts:
            rank = self.rank_of(draft.array)
            if len(draft.subscript) != rank:
                first = next(d for d in self.drafts if d.array == draft.array)
                declared = self.scope.arrays.get(draft.array)
                where = declared.span if declared is not None else first.target_span
                raise TypeMismatch.at(
                    draft.target_span,
                    f"`{draft.array}` has {rank} dimension{'' if rank == 1 else 's'}, "
                    f"and the left side has {len(draft.subscript)}",
                    Note("its dimensions are given here", where),
                    help=None if draft.subscript else _for_one_element(draft.array, rank),
                )

    def temp(self, name: str) -> Array:
        """The declaration that nobody wrote."""
        draft = next(d for d in self.drafts if d.array == name)
        local = draft.nest[-1].index if draft.is_lifted and draft.nest else None
        return Array(
            name, self.type_of(name, draft.target_span), self.shape_of(name, draft.target_span),
            "temp",
            local=local, span=draft.target_span,
        )  # fmt: skip


def _for_one_element(array: str, rank: int) -> str:
    indices = ", ".join("ijklmnop"[:rank])
    return f"an equation is written for one element: `{array}[{indices}] = ...`"


def _context(expr: tree.Expr, name: str, values: Values) -> ElemType | None:
    """The type of what stands beside the read of an array, as close to it as one is found."""
    parts = children(expr)
    for n, part in enumerate(parts):
        if name not in names_in(part):
            continue
        inner = _context(part, name, values)
        alone = isinstance(expr, tree.Call) and n == 0 and expr.func == "select"
        if inner is not None or alone:
            return inner
        skip = 1 if isinstance(expr, tree.Call) and expr.func == "select" else 0
        return values.first_type(*(p for p in parts[skip:] if p is not part))
    return None
