"""`inline P`: a definition is substituted where it is read, and is gone.

before: d[h, v] = select(0 <= h - 1 < H, x[h - 1, v], 0)   y[i] = sum[r](d[i + r, 0] * w[r])
after:  y[i] = sum[r](select(0 <= i + r - 1 < H, x[i + r - 1, 0], 0) * w[r])

An element that is read names the instance that defines it, so the value of that instance stands
for the element. What the new values read is found as for values that were written (`model`):
selects restrict it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import islpy as isl

from tdsl.diagnostics import BoundsError
from tdsl.ir.index import simplify, substitute
from tdsl.ir.kernel import INDEX, Const, Expr, Read, Select, Size, Var, rebuilt, walk
from tdsl.ir.types import BOOL
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.edit import EditError, sequence
from tdsl.polyhedral.fresh import around
from tdsl.polyhedral.from_isl import from_pw_aff, from_set
from tdsl.polyhedral.model import with_value
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Dependence, Program, Stmt
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq, statements

MOST_NODES = 4096  # of one value
SET, OUT = isl.dim_type.set, isl.dim_type.out


@bounded("the substitution of a definition")
def inline(
    program: Program, array: str, dependences: Sequence[Dependence]
) -> tuple[Program, frozenset[str]]:
    """The program without the array and what defines it, and the arrays that are read instead.

    Raises EditError where that is no pure definition, or some reader cannot do without it.
    """
    writers = [s for s in program.statements.values() if s.write.array == array]
    names = {w.name for w in writers}
    readers = [s for s in program.statements.values() if any(a.array == array for a in s.reads)]
    _pure(program, array, writers, dependences)
    if not readers:
        raise EditError(f"nothing reads {array}")
    meaning = _Meaning(program, array, writers)
    changed = {}
    for reader in readers:
        value = None if reader.value is None else meaning.in_(reader.value)
        if value is not None and sum(1 for _ in walk(value)) > MOST_NODES:
            raise EditError(f"the value of {reader.name} would have more than {MOST_NODES} parts")
        subscript = tuple(meaning.in_(e) for e in reader.write.subscript)
        try:
            changed[reader.name] = with_value(program, reader, value, subscript)
        except BoundsError as error:
            raise EditError(
                f"{array} cannot be substituted in {reader.name}: {error.diagnostics[0].message}"
            ) from None
    kept = {n: changed.get(n, s) for n, s in program.statements.items() if n not in names}
    result = replace(
        program,
        statements=kept,
        arrays={n: a for n, a in program.arrays.items() if n != array},
        extents={n: e for n, e in program.extents.items() if n != array},
    )
    touched = {a.array for s in (*writers, *readers) for a in (*s.reads, s.write)}
    return result, frozenset(touched - {array})


def without(tree: Node, gone: frozenset[str]) -> Node | None:
    """The tree without some statements, and without the loops that ran them alone."""
    match tree:
        case Leaf(name):
            return None if name in gone else tree
        case Loop():
            body = without(tree.body, gone)
            if body is None:
                return None
            coords = {s: c for s, c in tree.coords.items() if s not in gone}
            return replace(tree, coords=coords, body=body)
        case Seq(children):
            kept = [c for child in children if (c := without(child, gone)) is not None]
            return sequence(kept) if kept else None


def heir(loop: Loop, gone: frozenset[str]) -> str | None:
    """A statement below a loop that is left, to name the loop by."""
    return next((s for s in statements(loop.body) if s not in gone), None)


def _pure(
    program: Program, array: str, writers: Sequence[Stmt], dependences: Sequence[Dependence]
) -> None:
    if program.arrays[array].role != "temp":
        raise EditError(f"{array} is an argument: it has to be written")
    for writer in writers:
        if writer.init_of is not None or writer.reduction:
            raise EditError(f"{writer.init_of or writer.name} is a reduction: it is no expression")
        if writer.is_update:
            raise EditError(f"{writer.name} updates {array}: it is no definition")
        if any(a.array == array for a in writer.reads):
            raise EditError(f"{writer.name} reads {array} itself")
        for read in writer.reads:
            if not _lives(program, read.array, array):
                raise EditError(
                    f"{writer.name} reads {read.array}, which is another array in each iteration "
                    f"of a `for`: declare {array} in that body too"
                )
        for d in dependences:
            if d.source == writer.name and d.kind == "anti":
                raise EditError(
                    f"{writer.name} reads {d.array}, which {d.sink} writes afterwards: its "
                    "readers would see the new elements"
                )


def _lives(program: Program, read: str, array: str) -> bool:
    """Whether an array that a definition reads is the same one wherever its result is read."""
    if program.arrays[read].local is None:
        return True
    if program.arrays[array].local is None:
        return False
    inner, outer = around(program, array), around(program, read)
    return inner[: len(outer)] == outer


class _Meaning:
    """What stands for an element of the array."""

    def __init__(self, program: Program, array: str, writers: Sequence[Stmt]) -> None:
        self._array = array
        self._shared: tuple[str, ...] = ()
        if program.arrays[array].local is not None:
            self._shared = around(program, array)
        sizes = [Size(s) for s in program.params]
        rank = len(program.arrays[array].shape)
        self._names = tuple(f"{array}'{k}" for k in range(rank))
        places: list[Expr] = [Var(n) for n in self._names]
        everything = isl.Set.empty(program.extents[array].get_space())
        for writer in writers:
            everything = everything.union(writer.write.map.range())
        everything = everything.intersect_params(program.context)
        self._ways: list[tuple[Expr, Expr]] = []  # where, what: both over the element's names
        for writer in writers:
            assert writer.value is not None
            elements = coalesced(writer.write.map.range().gist(everything))
            where = from_set(elements, places, sizes)
            index = self._instance(program, writer, places, sizes)
            self._ways.append((where, substitute(writer.value, index)))

    def _instance(
        self, program: Program, writer: Stmt, places: Sequence[Expr], sizes: Sequence[Expr]
    ) -> Mapping[str, Expr]:
        """The indices of the instance that writes an element."""
        plain = {e.name: place for e, place in zip(writer.write.subscript, places, strict=True)
                 if isinstance(e, Var)}  # fmt: skip
        if len(plain) == len(places) and set(plain) | set(self._shared) == set(writer.indices):
            return plain
        key = isl.Map.from_domain(writer.domain)
        local = isl.LocalSpace.from_space(writer.domain.get_space())
        for name in self._shared:
            column = writer.indices.index(name)
            index = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, column))
            key = key.flat_range_product(index.as_map())
        key = key.flat_range_product(writer.write.map.reset_tuple_id(OUT))
        back = key.intersect_params(program.context).reverse()
        if not back.is_single_valued():
            raise EditError(f"{writer.name} writes elements of {self._array} more than once")
        function = isl.PwMultiAff.from_map(back).gist(back.domain())
        known: list[Expr] = [*(Var(n) for n in self._shared), *places]
        return {
            i: from_pw_aff(function.get_pw_aff(k), known, sizes)
            for k, i in enumerate(writer.indices)
        }

    def in_(self, expr: Expr) -> Expr:
        """An expression without reads of the array."""
        new = rebuilt(expr, self.in_)
        if isinstance(new, Read) and new.array == self._array:
            at = dict(zip(self._names, new.indices, strict=True))
            *others, (_, result) = self._ways
            for where, value in reversed(others):
                result = Select(where, value, result, value.type, span=expr.span)
            return _tidy(substitute(result, at))
        return new


def _tidy(expr: Expr) -> Expr:
    """Index arithmetic in its short form; conditions that always hold are decided."""
    if expr.type == INDEX or (expr.type == BOOL and _about_indices(expr)):
        return simplify(expr)
    new = rebuilt(expr, _tidy)
    if isinstance(new, Select) and isinstance(new.condition, Const):
        return new.then if new.condition.value else new.other
    return new


def _about_indices(expr: Expr) -> bool:
    return not any(isinstance(e, Read) for e in walk(expr))
