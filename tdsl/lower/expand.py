"""loops -> vector: copies and lanes written out, values in chunks that fit a register.

before: for k { S at (6 io + ii, 64 jo + ji, k) for ii < 6, ji < 64 (lanes) }
after:  for k { A_0 = splat A[6 io, k]; B_0 = B[k, 64 jo..+16]; C_0 = fma(A_0, B_0, C_0); ... }
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tdsl.ir import loops as ir
from tdsl.ir import vector as v
from tdsl.ir.index import (
    add,
    compare,
    conjunction,
    const,
    constant_difference,
    simplify,
    sub,
    substitute,
    variables,
    whole_blocks,
)
from tdsl.ir.kernel import Const, Expr, Op, Var, walk
from tdsl.ir.types import BOOL
from tdsl.lower.builder import Code, Names, written
from tdsl.lower.context import Context
from tdsl.lower.copies import Copy, write_copy
from tdsl.lower.dots import Terms, in_groups
from tdsl.lower.keep import close
from tdsl.lower.lanes import chunks, not_linear, widest_bytes, widths
from tdsl.lower.memory import stored_type
from tdsl.lower.peel import write_row
from tdsl.lower.prefetch import prefetch
from tdsl.lower.registers import CannotKeep, Guards, Scope
from tdsl.lower.rename import rename, renamed_hints
from tdsl.lower.specialize import instances
from tdsl.lower.tiles import guarded, tile_of, tiled
from tdsl.lower.turn import write_turned
from tdsl.polyhedral.known import Facts, range_facts

MOST_COPIES = 256
TRUE = Const(True, BOOL)
FALSE = Const(False, BOOL)


@dataclass
class Expander:
    """Lowers one function. widths, groups: of the dimensions of the instance at hand, which are
    the same in all its copies. tiles: statements whose lanes are rows and columns."""

    context: Context
    widths: dict[str, tuple[int, ...]] = field(default_factory=dict)
    groups: dict[tuple[str, int], bool] = field(default_factory=dict)
    tiles: frozenset[str] = frozenset()

    # ---------------------------------------------------------------- structure

    def function(self, block: ir.Block, taken: frozenset[str]) -> v.Block:
        """The whole body; `taken`: names that variables must not have."""
        code = Code(Names(taken), self.context.frozen)
        self.tiles = tiled(self.context, instances(block))
        self._block(block, code, frozenset())
        return v.Block(tuple(code.items))

    def _block(self, block: ir.Block, code: Code, known: frozenset[str]) -> None:
        for item in block.items:
            match item:
                case ir.Instance():
                    self._instance(item, code)
                case ir.Block():
                    self._block(item, code, known)
                case ir.For():
                    self._for(item, code, known)
                case ir.If(condition, then, other):
                    self._if(condition, then, other, code, known)
                case ir.Switch(on, cases, default):
                    self._switch(on, cases, default, code, known)
                case ir.Scope():
                    self._scope(item, code, known)

    def _nested(
        self,
        block: ir.Block,
        code: Code,
        known: frozenset[str],
        guards: Guards,
        loop: str | None = None,
        hints: tuple[ir.Prefetch, ...] = (),
        facts: Facts = (),
    ) -> v.Block:
        inner = code.inside(loop=loop)
        for hint in hints:
            prefetch(self.context, hint, inner)
        with self.context.under(*guards), self.context.knowing(*guards, *facts):
            self._block(block, inner, known)
        code.forget_all(written(inner.items))
        return v.Block(tuple(inner.items))

    def _for(self, loop: ir.For, code: Code, known: frozenset[str]) -> None:
        if loop.mark == "unroll" and self._copies(loop, code, known):
            return
        row = self.context.rows.of_loop(loop)
        if row is not None:
            write_row(self.context, row, {}, (), code)
            return
        names = code.names.inside()
        var = names.claim(loop.var)
        body = loop.body if var == loop.var else rename(loop.body, loop.var, Var(var))
        runs = compare("lt", loop.lo, loop.hi)
        hints = loop.hints if var == loop.var else renamed_hints(loop.hints, loop.var, Var(var))
        facts = range_facts(var, loop.lo, loop.hi)
        with self.context.inside(var, loop.lo, _most(loop)):
            inner = self._nested(body, code, known | {var}, (runs,), var, hints, facts)
        code.add(
            v.For(var, loop.lo, loop.hi, inner, loop.step, loop.mark == "parallel", loop.notes)
        )

    def _copies(self, loop: ir.For, code: Code, known: frozenset[str]) -> bool:
        """The body once an iteration, where their number is a constant; else False."""
        most = _most(loop)
        if most is None or most > MOST_COPIES:
            return False
        # Every copy runs where the block is full; else the loop stays a loop.
        full = tuple(compare("ge", sub(end, loop.lo), const(most)) for end in _ends(loop.hi))
        test = conjunction(full)

        def copies(inner: Code) -> None:
            for number in range(0, most, loop.step):
                here = add(loop.lo, const(number))
                for hint in renamed_hints(loop.hints, loop.var, here):
                    prefetch(self.context, hint, inner)
                self._block(rename(loop.body, loop.var, here), inner, known)

        if test is None:
            copies(code)
            return True
        if _keeps(loop.body):
            # Each copy has registers and loops of its own, and shares nothing: it is tested.
            for number in range(0, most, loop.step):
                self._copy(loop, number, code, known)
            return True
        then = code.inside()
        with self.context.under(compare("lt", loop.lo, loop.hi)), self.context.knowing(test):
            copies(then)
        other = code.inside()
        try:
            self._for(replace(loop, mark="serial"), other, known)
        except CannotKeep:
            if loop.step != 1:
                raise
            # In a loop an element would have no fixed register: a case for each number of copies.
            other = code.inside()
            self._cases(loop, most, other, known)
        code.forget_all(written([*then.items, *other.items]))
        code.add(v.If(test, v.Block(tuple(then.items)), v.Block(tuple(other.items))))
        return True

    def _copy(self, loop: ir.For, number: int, code: Code, known: frozenset[str]) -> None:
        """One copy of a body, where the loop has that many iterations."""
        here = add(loop.lo, const(number))
        runs = conjunction(tuple(compare("lt", here, end) for end in _ends(loop.hi)))
        body = rename(loop.body, loop.var, here)
        hints = renamed_hints(loop.hints, loop.var, here)
        decided = True if runs is None else self.context.known.decide(runs, self.context.facts)
        if decided is False:
            return
        if runs is not None and decided is None:
            code.add(v.If(runs, self._nested(body, code, known, (runs,), hints=hints)))
            return
        for hint in hints:
            prefetch(self.context, hint, code)
        self._block(body, code, known)

    def _cases(self, loop: ir.For, most: int, code: Code, known: frozenset[str]) -> None:
        cases = []
        for count in range(1, most):
            copies = (
                rename(loop.body, loop.var, add(loop.lo, const(number))) for number in range(count)
            )
            cases.append((count, ir.Block(tuple(copies))))
        self._switch(sub(loop.hi, loop.lo), tuple(cases), None, code, known)

    def _if(
        self,
        condition: Expr,
        then: ir.Block,
        other: ir.Block | None,
        code: Code,
        known: frozenset[str],
    ) -> None:
        if isinstance(condition, Const):
            chosen = then if condition.value else other
            if chosen is not None:
                self._block(chosen, code, known)
            return
        first = self._nested(then, code, known, (condition,))
        negated = simplify(Op("not", (condition,), BOOL))
        second = None
        if other is not None:
            second = self._nested(other, code, known, (negated,))
        code.add(v.If(condition, first, second))

    def _switch(
        self,
        on: Expr,
        cases: tuple[tuple[int, ir.Block], ...],
        default: ir.Block | None,
        code: Code,
        known: frozenset[str],
    ) -> None:
        blocks = tuple(
            (n, self._nested(b, code, known, (compare("eq", on, const(n)),))) for n, b in cases
        )
        rest = v.Block(())
        if default is not None:
            rest = self._nested(default, code, known, ())
        code.add(v.Switch(on, blocks, rest))

    def _scope(self, item: ir.Scope, code: Code, known: frozenset[str]) -> None:
        context = self.context
        if item.array in context.scopes:
            raise CannotKeep(item.array, "a scope around this one already keeps it")
        scope, inner = Scope(item.array, known, item.private), code.inside(always=True)
        before, context.guards = context.guards, ()
        context.scopes[item.array] = scope, inner
        self._block(item.body, inner, known)
        del context.scopes[item.array]
        context.guards = before
        close(context, scope, inner, code)

    # ---------------------------------------------------------------- instances

    def _instance(self, instance: ir.Instance, code: Code) -> None:
        self.widths, self.groups = {}, {}
        self._dims(instance, instance.dims, {}, Copy(), code)

    def _dims(
        self,
        instance: ir.Instance,
        dims: tuple[ir.Dim, ...],
        env: dict[str, Expr],
        copy: Copy,
        code: Code,
    ) -> None:
        if not dims:
            self._guarded(instance, env, copy, code)
            return
        dim, rest = dims[0], dims[1:]
        if dim.mark == "transpose":

            def element(here: dict[str, Expr], inner: Code) -> None:
                self._guarded(instance, here, copy, inner)

            write_turned(self.context, instance, env, copy, code, element)
            return
        if dim.mark == "vector":
            if copy.lanes > 1:
                raise AssertionError("two vector loops around one statement, and others between")
            if rest and rest[0].mark == "vector":
                self._pair(instance, dim, rest[0], rest[1:], env, copy, code)
                return
            if dim.var not in self.widths:
                self.widths[dim.var] = self._widths(instance, dim)
            row = None if rest else self.context.rows.of_dim(instance, dim, env)
            if row is not None and not self._reads_registers(instance):
                write_row(self.context, row, env, copy.tests, code)
                return
            for start, lanes in chunks(dim.extent, self.widths[dim.var]):
                here = add(const(start), Var(v.LANE)) if lanes > 1 else const(start)
                count = None if dim.count is None else sub(dim.count, const(start))
                chunk = replace(copy, lanes=lanes, chunk=copy.chunk * 64 + start)
                if count is not None and lanes > 1:
                    chunk = replace(chunk, count=count)
                elif count is not None:
                    chunk = replace(chunk, tests=(*copy.tests, compare("gt", count, const(0))))
                self._dims(instance, rest, {**env, dim.var: here}, chunk, code)
            return
        if dim.mark == "dot" and self._in_groups(instance, dim, copy):
            overrun = dim.count is not None and dim.tail == "overrun"
            group = replace(copy, terms=Terms(dim.extent, dim.count, overrun))
            self._dims(instance, rest, {**env, dim.var: Var(v.TERM)}, group, code)
            return
        for number in range(dim.extent):
            tests = copy.tests
            if dim.count is not None:
                tests = (*tests, compare("gt", dim.count, const(number)))
            self._dims(
                instance, rest, {**env, dim.var: const(number)}, replace(copy, tests=tests), code
            )

    def _reads_registers(self, instance: ir.Instance) -> bool:
        """Whether a statement reads elements of which each has its lane of a register."""
        reads = self.context.program.statements[instance.statement].reads
        return any(self.context.scope(read.array) is not None for read in reads)

    def _pair(
        self,
        instance: ir.Instance,
        rows: ir.Dim,
        columns: ir.Dim,
        rest: tuple[ir.Dim, ...],
        env: dict[str, Expr],
        copy: Copy,
        code: Code,
    ) -> None:
        """Two vector loops: rows and columns of one register, or a register for each row."""
        if instance.statement in self.tiles:
            tile = tile_of(self.context, instance, rows, columns)
            here = {**env, rows.var: Var(v.ROW), columns.var: Var(v.LANE)}
            lanes = replace(copy, lanes=tile.lanes, tile=tile)
            self._dims(instance, rest, here, lanes, code)
            return
        for number in range(rows.extent):
            tests = copy.tests
            if rows.count is not None:
                tests = (*tests, compare("gt", rows.count, const(number)))
            row = replace(copy, chunk=copy.chunk * 64 + number, tests=tests)
            here = {**env, rows.var: const(number)}
            self._dims(instance, (columns, *rest), here, row, code)

    def _in_groups(self, instance: ir.Instance, dim: ir.Dim, copy: Copy) -> bool:
        if sum(d.mark == "vector" for d in instance.dims) > 1:
            return copy.tile is not None
        key, lanes = (dim.var, copy.lanes), copy.lanes
        if key not in self.groups:
            self.groups[key] = in_groups(self.context, instance, dim, lanes)
        return self.groups[key]

    def _widths(self, instance: ir.Instance, dim: ir.Dim) -> tuple[int, ...]:
        stmt = self.context.program.statements[instance.statement]
        varying = frozenset(i for i, e in instance.index if dim.var in variables(e))
        elem = stored_type(self.context.program.arrays[stmt.write.array].type)
        values = widest_bytes(stmt, elem.bytes, varying, lambda e: True)
        cut = chunks(dim.extent, widths(self.context.target, values, dim.width))
        index = dict(instance.index)

        def linear(expr: Expr) -> bool:
            here = substitute(expr, index)
            return all(_is_linear(here, dim, start, lanes) for start, lanes in cut)

        bytes = widest_bytes(stmt, elem.bytes, varying, linear)
        found = widths(self.context.target, bytes, dim.width)
        # Reads were asked already: what is left is the guard, and the place that is written.
        places = [e for _, e in instance.index]
        if stmt.write.exact:
            at = tuple(substitute(e, index) for e in stmt.write.subscript)
            places = [self.context.places[stmt.write.array].offset(at)]
        asked = places if instance.guard is None else [instance.guard, *places]
        if bytes < 8 and not all(
            _is_linear(expr, dim, start, lanes)
            for start, lanes in chunks(dim.extent, found)
            for expr in asked
        ):
            return widths(self.context.target, 8, dim.width)
        return found

    def _guarded(self, instance: ir.Instance, env: dict[str, Expr], copy: Copy, code: Code) -> None:
        guard = None
        tests = copy.tests
        if instance.guard is not None:
            guard = simplify(substitute(instance.guard, env))
            if copy.tile is not None:
                stmt = self.context.program.statements[instance.statement]
                tile, more = guarded(stmt, copy.tile, guard)
                copy, tests, guard = replace(copy, tile=tile), (*tests, *more), None
            elif v.LANE not in variables(guard):
                tests, guard = (*tests, guard), None
        known = {t: self.context.known.decide(t, self.context.facts) for t in tests}
        if False in known.values():
            return
        tests = tuple(t for t, decided in known.items() if decided is None)
        test = conjunction(tests)
        if test is None:
            write_copy(self.context, instance, env, copy, guard, code)
            return
        inner = code.inside()
        with self.context.under(*tests), self.context.knowing(*tests):
            write_copy(self.context, instance, env, copy, guard, inner)
        code.forget_all(written(inner.items))
        code.add(v.If(test, v.Block(tuple(inner.items))))


def _is_linear(expr: Expr, dim: ir.Dim, start: int, lanes: int) -> bool:
    """Whether an expression grows by a constant a lane in one chunk."""
    if dim.var not in variables(expr):
        return True
    here = simplify(substitute(expr, {dim.var: add(const(start), Var(v.LANE))}))
    return not any(
        not_linear(part) and v.LANE in variables(part)
        for part in walk(whole_blocks(here, v.LANE, lanes))
    )


def _keeps(item: ir.Item, inside: bool = False) -> bool:
    """Whether a scope of registers lies somewhere in it, or is around (`inside`), with a loop."""
    match item:
        case ir.Scope(body=body):
            return _keeps(body, True)
        case ir.For(mark=mark, body=body):
            return (inside and mark != "unroll") or _keeps(body, inside)
        case ir.If(_, then, other):
            return _keeps(then, inside) or (other is not None and _keeps(other, inside))
        case ir.Switch(_, cases, default):
            arms = [b for _, b in cases] + ([] if default is None else [default])
            return any(_keeps(b, inside) for b in arms)
        case ir.Block(items):
            return any(_keeps(i, inside) for i in items)
        case ir.Instance():
            return False


def _ends(hi: Expr) -> tuple[Expr, ...]:
    """The bounds that an exclusive end is the least of."""
    if isinstance(hi, Op) and hi.op == "min":
        return tuple(end for arg in hi.args for end in _ends(arg))
    return (hi,)


def _most(loop: ir.For) -> int | None:
    """The largest number of iterations, where one of the bounds says a constant."""
    gaps = [constant_difference(end, loop.lo) for end in _ends(loop.hi)]
    known = [gap for gap in gaps if gap is not None]
    return min(known) if known else None
