"""The meaning of a kernel: from the surface tree to the kernel level.

    C[i, j] = sum[k](A[i, k] * B[k, j])

becomes a statement `C` over i, j, k with the domain 0 <= i < M, 0 <= j < N, 0 <= k < K, the
reduced index k, the operation "add" and the initial value 0; C itself a temp of M x N.

In order: constants and sizes are put in place; declarations; defs are written out; equations
get names; reductions inside right-hand sides get statements of their own; then each index its
range, each temp its type and extent, each expression its types.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from tdsl.diagnostics import BoundsError, Error, Note, ParseError
from tdsl.ir import kernel as ir
from tdsl.ir.facts import Facts
from tdsl.syntax import tree
from tdsl.syntax.check import check_file, check_names, collect, duplicates, kernels
from tdsl.syntax.constants import kernel_constants
from tdsl.syntax.declare import arrays as declared_arrays
from tdsl.syntax.declare import assumption, file_scope, let
from tdsl.syntax.drafts import Draft
from tdsl.syntax.equations import Collector, Item, NestDraft
from tdsl.syntax.exprs import Values
from tdsl.syntax.limits import limited
from tdsl.syntax.ranges import Circular, Ranges, declare_temp
from tdsl.syntax.scope import Scope, bound_sizes, suggest
from tdsl.syntax.statements import Statements, context
from tdsl.syntax.temps import Arrays
from tdsl.syntax.tuples import Made, Tuples

__all__ = ["check_file", "elaborate", "kernels"]


def elaborate(
    file: tree.File,
    kernel: str,
    constants: Mapping[str, int | float | str] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> ir.Kernel:
    """The kernel of this name for one choice of constants and bound sizes."""
    check_names(file)
    item = _find(file, kernel)
    problems = tuple(duplicates(item))
    if problems:
        raise ParseError(*problems)
    try:
        return _Elaboration(file, item, constants or {}, sizes or {}).run()
    except RecursionError:
        raise ParseError.at(
            item.name_span, f"an expression of kernel `{kernel}` nests too deep to be compiled",
            help="give a part of it a name: an array of its own",
        ) from None  # fmt: skip


def _find(file: tree.File, name: str) -> tree.Kernel:
    for item in file.items:
        if isinstance(item, tree.Kernel) and item.name == name:
            return item
    known = kernels(file)
    raise ParseError.at(
        file.span,
        f"there is no kernel `{name}` in this file",
        help=suggest(name, known) or f"its kernels are {', '.join(known) or 'none'}",
    )


class _Elaboration:
    def __init__(
        self,
        file: tree.File,
        item: tree.Kernel,
        constants: Mapping[str, int | float | str],
        sizes: Mapping[str, int],
    ) -> None:
        defs = [i.name for i in file.items if isinstance(i, tree.Def)]
        tables = [n for i in file.items if isinstance(i, tree.ArrayDecl) for n in i.names]
        self.item, self.bound = item, dict(sizes)
        self.constants = kernel_constants(item, constants, defs, tables)
        self.scope = file_scope(file, item, self.constants, bound_sizes(item, sizes))
        self.assumptions: list[ir.Expr] = []
        self._values: dict[str, Values] = {}

    def run(self) -> ir.Kernel:
        self._declare()
        collector = Collector(self.scope)
        body = collector.run(self.item.items)
        drafts = list(_drafts(body))
        self.scope = replace(self.scope, arrays={**self.scope.arrays, **collector.locals})
        self.scope = _with_temps(self.scope, drafts)
        drafts = limited(drafts, self.scope.arrays)
        arrays = Arrays(self.scope, drafts, self.values)
        self.arrays = arrays
        arrays.check_ranks()
        ranges = Ranges(self.scope, drafts, Facts(self.assumptions), self.values)
        arrays.ranges = ranges
        self._ask_in_order(drafts, arrays, ranges)
        statements = self._statements(drafts, Statements(self.scope, arrays, ranges))
        self._check_writes(drafts, statements)
        used = {d.array for d in drafts} | _read_arrays(statements.values())
        tuples = self._tuples(drafts, statements, ranges)
        return ir.Kernel(
            self.item.name,
            tuple(n for n in self.item.sizes if n not in self.bound),
            tuple(self.assumptions),
            (
                *self._arrays(arrays, drafts, used),
                *(a for made in tuples.values() for a in made.arrays),
            ),
            _body(body, statements, tuples),
            bound=tuple((n, self.bound[n]) for n in self.item.sizes if n in self.bound),
            constants=tuple(self.constants.given),
            all_sizes=self.item.sizes,
            warnings=self._warnings(used, drafts, statements),
            span=self.item.span,
        )

    def _declare(self) -> None:
        started: tree.KernelItem | None = None
        problems: list[Error] = []
        for item in self.item.items:
            try:
                match item:
                    case tree.SizeLet():
                        self.scope = let(self.scope, item)
                    case tree.Assume():
                        if started is not None:
                            raise ParseError.at(
                                item.span, "`assume` stands before the first equation",
                                Note("the first equation is here", started.span),
                            )  # fmt: skip
                        self.assumptions += assumption(self.scope, item)
                    case tree.ArrayDecl():
                        new = {a.name: a for a in declared_arrays(self.scope, item)}
                        self.scope = replace(self.scope, arrays={**self.scope.arrays, **new})
                    case tree.Equation() | tree.For():
                        started = started or item
            except Error as problem:
                problems.append(problem)
        collect(problems)

    def values(self, draft: Draft) -> Values:
        """Builds expressions that see all indices of a draft."""
        if draft.name not in self._values:
            self._values[draft.name] = Values(context(draft, self.arrays, draft.order))
        return self._values[draft.name]

    def _ask_in_order(self, drafts: list[Draft], arrays: Arrays, ranges: Ranges) -> None:
        """Types follow the text and extents go against it. Asked in that order, no answer needs
        a long chain of others; what fails here is told where the statement is built."""
        for draft in drafts:
            with suppress(Error):
                arrays.type_of(draft.array, draft.target_span)
        for draft in reversed(drafts):
            for dimension in range(len(draft.subscript)):
                with suppress(Error, Circular):
                    ranges.extent(draft.array, dimension)

    def _statements(self, drafts: list[Draft], builder: Statements) -> dict[str, ir.Statement]:
        out: dict[str, ir.Statement] = {}
        problems: list[Error] = []
        for draft in drafts:
            try:
                out[draft.name] = builder.build(draft)
            except Circular as circle:
                _, name, _ = circle.key
                array = name if circle.key[0] == "extent" else draft.array
                why = "what is read of it depends on itself"
                problems.append(declare_temp(array, draft.target_span, why))
            except Error as problem:
                problems.append(problem)
        collect(_distinct(problems))
        return out

    def _tuples(
        self, drafts: list[Draft], statements: Mapping[str, ir.Statement], ranges: Ranges
    ) -> dict[str, Made]:
        """What stands for each reduction that keeps several values."""
        groups: dict[str, list[Draft]] = {}
        for draft in drafts:
            if draft.group:
                groups.setdefault(draft.group, []).append(draft)

        def taken(name: str) -> bool:
            return name in statements or name in self.scope.names

        writer = Tuples(self.scope, ranges.facts, ranges.index, taken)
        return {
            name: writer.write(parts, [statements[d.name] for d in parts])
            for name, parts in groups.items()
        }

    def _check_writes(self, drafts: list[Draft], statements: Mapping[str, ir.Statement]) -> None:
        written = {d.array for d in drafts}
        read = _read_arrays(statements.values())
        for array in self.scope.arrays.values():
            if array.role == "out" and array.name not in written and not array.type.fields:
                raise BoundsError.at(
                    array.span, f"no equation writes the output `{array.name}`",
                    help=suggest(array.name, self.scope.temps),
                )  # fmt: skip
            if array.role == "temp" and array.name in read and array.name not in written:
                raise BoundsError.at(
                    array.span, f"`{array.name}` is read, and no equation writes it"
                )

    def _arrays(self, arrays: Arrays, drafts: list[Draft], used: set[str]) -> tuple[ir.Array, ...]:
        declared = [a for a in self.scope.arrays.values() if a.is_argument or a.name in used]
        names = dict.fromkeys(d.array for d in drafts if d.array not in self.scope.arrays)
        return (*declared, *(arrays.temp(name) for name in names))

    def _warnings(
        self, used: set[str], drafts: list[Draft], statements: Mapping[str, ir.Statement]
    ) -> tuple[str, ...]:
        out: list[str] = []
        for array in self.scope.arrays.values():
            fields = {f"{array.name}.{f.name}" for f in array.type.fields} or {array.name}
            if array.is_argument and array.field is None and not fields & used:
                out.append(f"argument `{array.name}` is not used")
        read = _read_arrays(statements.values())
        # The values of one reduction need each other: where one is read, none is idle.
        joined = {d.group for d in drafts if d.group and d.array in read}
        read |= {d.array for d in drafts if d.group in joined}
        for name in sorted(self.scope.temps - read):
            out.append(f"nothing reads `{name}`")
        return tuple(out)


def _with_temps(scope: Scope, drafts: list[Draft]) -> Scope:
    temps = frozenset(d.array for d in drafts if d.array not in scope.arrays)
    for draft in drafts:
        if draft.array in temps:
            taken = scope.size_value(draft.array) is not None or draft.array in scope.exact
            if taken or draft.array in scope.defs:
                kind = "a size or constant" if taken else "a def"
                raise ParseError.at(
                    draft.target_span, f"`{draft.array}` is {kind}, and the left side is an array"
                )
    return replace(scope, temps=temps)


def _drafts(items: tuple[Item, ...]) -> list[Draft]:
    out: list[Draft] = []
    for item in items:
        out += [item] if isinstance(item, Draft) else _drafts(item.body)
    return out


def _body(
    items: tuple[Item, ...], statements: Mapping[str, ir.Statement], tuples: Mapping[str, Made]
) -> tuple[ir.BodyItem, ...]:
    out: list[ir.BodyItem] = []
    for item in items:
        match item:
            case Draft() if item.group:
                if item.group == item.name:
                    out += tuples[item.group].items
            case Draft():
                out.append(statements[item.name])
            case NestDraft(loop, body):
                inner = _body(body, statements, tuples)
                out.append(
                    ir.Nest(
                        loop.index, loop.lo, loop.hi, loop.down, loop.step, inner, span=loop.span
                    )
                )
    return tuple(out)


def _read_arrays(statements: Iterable[ir.Statement]) -> set[str]:
    out: set[str] = set()
    for s in statements:
        for expr in (s.value, *s.subscript):
            out |= {e.array for e in ir.walk(expr) if isinstance(e, ir.Read)}
    return out


def _distinct(problems: list[Error]) -> list[Error]:
    """One mistake shows in many statements; it is told once."""
    count: Counter[str] = Counter()
    out: list[Error] = []
    for problem in problems:
        count[str(problem)] += 1
        if count[str(problem)] == 1:
            out.append(problem)
    return out
