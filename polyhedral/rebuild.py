"""Finished loops as relations again: when does which instance run?

Nothing of the loop tree is used: only the loops level as the next pass reads it. So what isl's
AST generation and the description of the dims made of the tree is seen afresh.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import islpy as isl

from tdsl.ir import loops as ir
from tdsl.ir.kernel import INDEX, Const, Expr, Op, Var
from tdsl.ir.types import BOOL
from tdsl.polyhedral.affine import NotAffine, Scope, pw_aff, region, set_space
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Program

IN, OUT, SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set


class Miscompiled(Exception):
    """A pass made code that is not what it was made from: a defect of the compiler.

    Never a user's error, and never ignored: no C is emitted.
    """


@dataclass(frozen=True)
class Around:
    """A loop around an occurrence: its column in the time tuple, and what it is."""

    column: int
    loop: ir.For


@dataclass(frozen=True)
class Occurrence:
    """One place in the text where a statement runs.

    path      from the root: positions in blocks (arms of a choice have positions too) and loops
    relation  time tuple -> statement instance; the columns are the loops' variables, then the
              dims. Iterations that a bound, condition, count or guard leaves out have no time.
    reached   the iterations of the loops around that get to this place
    scopes    the kept arrays around it, each with the number of loops outside of it
    """

    statement: str
    path: tuple[Around | int, ...]
    dims: tuple[ir.Dim, ...]
    relation: isl.Map
    reached: isl.Set
    scopes: tuple[tuple[ir.Scope, int], ...]

    @property
    def depth(self) -> int:
        """The number of loops around it."""
        return sum(isinstance(step, Around) for step in self.path)


def occurrences(program: Program, block: ir.Block) -> tuple[Occurrence, ...]:
    """All places where statements run, in order of the text."""
    where = Scope(set_space(program.params, 0), {}, program.params)
    start = where.universe.intersect_params(program.context)
    return tuple(_Walk(program, where, start, (), ()).block(block))


def _operands(op: str, expr: Expr) -> Iterator[Expr]:
    """`a, b, c` of min(a, min(b, c))."""
    match expr:
        case Op(found, args) if found == op:
            for arg in args:
                yield from _operands(op, arg)
        case _:
            yield expr


@dataclass(frozen=True)
class _Walk:
    """runs: the iterations of the loops around that get here."""

    program: Program
    where: Scope
    runs: isl.Set
    path: tuple[Around | int, ...]
    scopes: tuple[tuple[ir.Scope, int], ...]

    def block(self, block: ir.Block) -> Iterator[Occurrence]:
        for position, item in enumerate(block.items):
            yield from self._at(position)._item(item)

    def _at(self, position: int) -> _Walk:
        return replace(self, path=(*self.path, position))

    def _item(self, item: ir.Item) -> Iterator[Occurrence]:
        match item:
            case ir.Block():
                yield from self.block(item)
            case ir.Instance():
                yield self._instance(item)
            case ir.For():
                yield from self._loop(item).block(item.body)
            case ir.Scope(_, body):
                depth = len(self.where.indices)
                yield from replace(self, scopes=(*self.scopes, (item, depth))).block(body)
            case ir.If(condition, then, other):
                yield from self._choice([(condition, then)], other)
            case ir.Switch(on, cases, default):
                if len({n for n, _ in cases}) < len(cases):
                    raise Miscompiled("two cases of a switch are the same")
                tests = [(Op("eq", (on, Const(n, INDEX)), BOOL), body) for n, body in cases]
                yield from self._choice(tests, default)

    def _choice(
        self, arms: list[tuple[Op, ir.Block]] | list[tuple[Expr, ir.Block]], rest: ir.Block | None
    ) -> Iterator[Occurrence]:
        left = self.runs
        for position, (condition, body) in enumerate(arms):
            chosen = self._holds(condition)
            taken = replace(self._at(position), runs=self.runs.intersect(chosen))
            yield from taken.block(body)
            left = left.subtract(chosen)
        if rest is not None:
            yield from replace(self._at(len(arms)), runs=coalesced(left)).block(rest)

    def _loop(self, loop: ir.For) -> _Walk:
        around = Around(len(self.where.indices), loop)
        inside = replace(self._with(loop.var), path=(*self.path, around))
        var = Var(loop.var)
        # One by one: the least of several as one function is a case distinction for isl.
        conditions: list[Expr] = [Op("ge", (var, lo), BOOL) for lo in _operands("max", loop.lo)]
        conditions += [Op("lt", (var, hi), BOOL) for hi in _operands("min", loop.hi)]
        if loop.step > 1:
            distance = Op("sub", (var, loop.lo), INDEX)
            steps = Op("mod", (distance, Const(loop.step, INDEX)), INDEX)
            conditions.append(Op("eq", (steps, Const(0, INDEX)), BOOL))
        return inside._where(conditions)

    def _instance(self, instance: ir.Instance) -> Occurrence:
        inside = self
        for dim in instance.dims:
            var = Var(dim.var)
            counts = [Const(dim.extent, INDEX), *([] if dim.count is None else [dim.count])]
            conditions = [Op("ge", (var, Const(0, INDEX)), BOOL)]
            conditions += [
                Op("lt", (var, least), BOOL)
                for count in counts
                for least in _operands("min", count)
            ]
            inside = inside._with(dim.var)._where(conditions)
        if instance.guard is not None:
            inside = inside._where([instance.guard])
        stmt = self.program.statements[instance.statement]
        if tuple(name for name, _ in instance.index) != stmt.indices:
            raise Miscompiled(f"{stmt.name}: an instance without its indices")
        relation = isl.Map.from_domain(inside.runs)
        for _, value in instance.index:
            relation = relation.flat_range_product(inside._function(value).as_map())
        relation = relation.set_tuple_name(OUT, stmt.tuple_name)
        return Occurrence(stmt.name, self.path, instance.dims, relation, self.runs, self.scopes)

    # ---------------------------------------------------------------- sets

    def _with(self, var: str) -> _Walk:
        """One more column, of any value."""
        count = len(self.where.indices)
        if var in self.where.indices:
            raise Miscompiled(f"two loops around one place are called {var}")
        where = Scope(
            set_space(self.program.params, count + 1),
            {**self.where.indices, var: count},
            self.program.params,
        )
        return replace(self, where=where, runs=self.runs.insert_dims(SET, count, 1))

    def _where(self, conditions: list[Op] | list[Expr]) -> _Walk:
        runs = self.runs
        for condition in conditions:
            runs = runs.intersect(self._holds(condition))
        return replace(self, runs=runs)

    def _holds(self, condition: Expr) -> isl.Set:
        found = region(condition, self.where)
        if not found.exact:
            raise Miscompiled("a condition of the loops is not affine")
        return found.may

    def _function(self, value: Expr) -> isl.PwAff:
        try:
            return pw_aff(value, self.where)
        except NotAffine:
            raise Miscompiled("an index of the loops is not affine") from None
