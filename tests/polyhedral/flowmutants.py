"""Small wrong changes of programs with copies and local arrays, each with a name.

Expressions are changed and the maps of accesses made anew from them, so that a mutant is a program
as a pass with a slip would make it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import islpy as isl

from tdsl.ir import kernel as k
from tdsl.ir.index import add, const
from tdsl.polyhedral.affine import Scope, pw_aff, region
from tdsl.polyhedral.model import scope_of
from tdsl.polyhedral.program import Access, Program, Stmt
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq
from tests.polyhedral.flowrun import Case

SET, OUT = isl.dim_type.set, isl.dim_type.out


@dataclass(frozen=True)
class Mutant:
    name: str
    where: str
    case: Case


def mutants(case: Case) -> Iterator[Mutant]:
    """All mutants of a case."""
    for stmt in case.final.statements.values():
        if stmt.copies is not None or stmt.origin is not None:
            yield from _domains(case, stmt)
        yield from _subscripts(case, stmt)
        yield from _values(case, stmt)
    yield from _rings(case)
    yield from _privates(case)
    for where, tree in _trees(case.tree):
        yield Mutant(where.split(" ")[0], where, replace(case, tree=tree))


# ---------------------------------------------------------------- statements


def _with(case: Case, stmt: Stmt) -> Case:
    final = case.final
    statements = {n: stmt if n == stmt.name else s for n, s in final.statements.items()}
    return replace(case, final=replace(final, statements=statements))


def consistent(program: Program, stmt: Stmt) -> Stmt:
    """The statement with the maps that its expressions say."""
    where = scope_of(program, stmt.name)

    def access(array: str, subscript: tuple[k.Expr, ...], domain: isl.Set, old: Access) -> Access:
        result = isl.Map.from_domain(domain)
        for index in subscript:
            result = result.flat_range_product(pw_aff(index, where).as_map())
        name = program.extents[array].get_tuple_name()
        return replace(old, array=array, map=result.set_tuple_name(OUT, name), subscript=subscript)

    write = access(stmt.write.array, stmt.write.subscript, stmt.domain, stmt.write)
    reads = [
        access(r.array, r.indices, domain, stmt.write)
        for r, domain in _reads(stmt.value, where, stmt.domain)
    ]
    return replace(stmt, write=write, reads=tuple(reads))


def _reads(expr: k.Expr | None, where: Scope, domain: isl.Set) -> Iterator[tuple[k.Read, isl.Set]]:
    match expr:
        case k.Read():
            yield expr, domain
        case k.Select(condition, then, other):
            chosen = region(condition, where).may
            for arm, part in ((then, chosen), (other, chosen.complement())):
                if not domain.intersect(part).is_empty():
                    yield from _reads(arm, where, domain.intersect(part))
        case None:
            return
        case _:
            for child in k.children(expr):
                yield from _reads(child, where, domain)


def _domains(case: Case, stmt: Stmt) -> Iterator[Mutant]:
    """One face less at either end of a dimension, for copies also one more."""
    final, domain = case.final, stmt.domain
    for d, index in enumerate(stmt.indices):
        for name, step in (("first", 1), ("last", -1)):
            moved = _moved(domain, d, step)
            yield _restricted(case, stmt, domain.intersect(moved), f"{name} of {index}")
            if stmt.copies is not None:
                more = domain.union(_moved(domain, d, -step)).coalesce()
                changed = replace(stmt, domain=more)
                mutant = _with(case, consistent(final, changed))
                yield Mutant("one more", f"{stmt.name}: {name} of {index}", mutant)
    inits = [s for s in final.statements.values() if s.init_of == stmt.name]
    for init in inits:
        free = [d for d, i in enumerate(init.indices) if i in stmt.indices]
        for d in free:
            less = init.domain.intersect(_moved(init.domain, d, 1))
            yield _restricted(case, init, less, f"first of {init.indices[d]}")


def _restricted(case: Case, stmt: Stmt, domain: isl.Set, where: str) -> Mutant:
    changed = replace(stmt, domain=domain.coalesce())
    changed = consistent(case.final, changed)
    if stmt.origin is not None:
        origin = replace(stmt.origin, map=stmt.origin.map.intersect_domain(domain))
        changed = replace(changed, origin=origin)
    return Mutant("one less", f"{stmt.name}: {where}", _with(case, changed))


def _moved(domain: isl.Set, d: int, step: int) -> isl.Set:
    """The set, a step further along one dimension."""
    space = domain.get_space()
    local = isl.LocalSpace.from_space(space)
    shift = isl.MultiAff.identity(space.map_from_set())
    aff = isl.Aff.var_on_domain(local, SET, d).add_constant_val(isl.Val(step))
    return domain.apply(isl.Map.from_multi_aff(shift.set_at(d, aff)))


def _subscripts(case: Case, stmt: Stmt) -> Iterator[Mutant]:
    """Offsets of what a write or a read names; two subscripts that change places."""
    program = case.final
    moved = program.arrays.keys() - {a for a, v in program.arrays.items() if v.is_argument}

    def changed(name: str, where: str, write: tuple[k.Expr, ...], value: k.Expr) -> Mutant:
        new = replace(stmt, value=value, write=replace(stmt.write, subscript=write))
        return Mutant(name, f"{stmt.name}: {where}", _with(case, consistent(program, new)))

    assert stmt.value is not None
    if stmt.write.array in moved or stmt.copies is not None:
        for name, new in _variants(stmt.write.subscript):
            yield changed(name, f"write {name}", new, stmt.value)
    reads = [e for e in k.walk(stmt.value) if isinstance(e, k.Read)]
    for number, read in enumerate(reads):
        if read.array in moved or stmt.copies is not None:
            for name, new in _variants(read.indices):
                value = _replaced(stmt.value, read, replace(read, indices=new))
                yield changed(name, f"read {number} {name}", stmt.write.subscript, value)


def _variants(subscript: tuple[k.Expr, ...]) -> Iterator[tuple[str, tuple[k.Expr, ...]]]:
    for d, index in enumerate(subscript):
        for step in (1, -1):
            new = (*subscript[:d], add(index, const(step)), *subscript[d + 1 :])
            yield f"offset {step} of {d}", new
    for d in range(len(subscript) - 1):
        if subscript[d] != subscript[d + 1]:
            new = (*subscript[:d], subscript[d + 1], subscript[d], *subscript[d + 2 :])
            yield f"swap {d}", new


def _replaced(expr: k.Expr, old: k.Expr, new: k.Expr) -> k.Expr:
    if expr is old:
        return new
    return k.rebuilt(expr, lambda e: _replaced(e, old, new)) if k.children(expr) else expr


def _values(case: Case, stmt: Stmt) -> Iterator[Mutant]:
    """Selects without their condition, turned round, or with limits that are one off."""
    assert stmt.value is not None
    for n, part in enumerate(e for e in k.walk(stmt.value) if isinstance(e, k.Select)):
        changes = [
            ("always", part.then),
            ("never", part.other),
            ("other arm", replace(part, then=part.other, other=part.then)),
        ]
        for m, limit in enumerate(e for e in k.walk(part.condition) if isinstance(e, k.Const)):
            if isinstance(limit.value, int) and limit.type == k.INDEX:
                new = _replaced(part.condition, limit, replace(limit, value=limit.value + 1))
                changes.append((f"limit {m}", replace(part, condition=new)))
        for name, new in changes:
            value = _replaced(stmt.value, part, new)
            changed = consistent(case.final, replace(stmt, value=value))
            yield Mutant(name, f"{stmt.name}: {name} of select {n}", _with(case, changed))


def _rings(case: Case) -> Iterator[Mutant]:
    """Rings that are one shorter."""
    final = case.final
    for array in final.arrays.values():
        lengths = set()
        for stmt in final.statements.values():
            for access in (stmt.write, *stmt.reads):
                if access.array == array.name:
                    for d, e in enumerate(access.subscript):
                        if isinstance(e, k.Op) and e.op == "mod":
                            lengths.add((d, int(e.args[1].value)))  # type: ignore[union-attr]
        for d, n in sorted(lengths):
            statements = {
                name: consistent(final, _shorter(stmt, array.name, d, n - 1))
                for name, stmt in final.statements.items()
            }
            changed = replace(case, final=replace(final, statements=statements))
            yield Mutant("shorter ring", f"{array.name}: {d}", changed)


def _shorter(stmt: Stmt, array: str, d: int, n: int) -> Stmt:
    def cut(subscript: tuple[k.Expr, ...]) -> tuple[k.Expr, ...]:
        index = subscript[d]
        if isinstance(index, k.Op) and index.op == "mod":
            index = replace(index, args=(index.args[0], const(n)))
        return (*subscript[:d], index, *subscript[d + 1 :])

    def edit(expr: k.Expr) -> k.Expr:
        if isinstance(expr, k.Read) and expr.array == array:
            return replace(expr, indices=cut(expr.indices))
        return k.rebuilt(expr, edit) if k.children(expr) else expr

    assert stmt.value is not None
    write = stmt.write
    if write.array == array:
        write = replace(write, subscript=cut(write.subscript))
    return replace(stmt, write=write, value=edit(stmt.value))


def _privates(case: Case) -> Iterator[Mutant]:
    """Memory that is new in a loop further inside."""
    for array, named in case.private.items():
        users = [
            s.name
            for s in case.final.statements.values()
            if any(a.array == array for a in (s.write, *s.reads))
        ]
        for loop in _all_loops(case.tree):
            if all(u in loop.coords for u in users):
                name = users[0], loop.name
                if loop.name not in [n for _, n in named]:
                    private = {**case.private, array: (*named, name)}
                    yield Mutant("newer", f"{array}: {loop.name}", replace(case, private=private))


def _all_loops(node: Node) -> Iterator[Loop]:
    match node:
        case Loop():
            yield node
            yield from _all_loops(node.body)
        case Seq(children):
            for child in children:
                yield from _all_loops(child)


# ---------------------------------------------------------------- trees


def _trees(node: Node) -> Iterator[tuple[str, Node]]:
    """Sequences in another order, loops that run backward, nests one loop further out."""
    match node:
        case Leaf():
            return
        case Seq(children):
            for n in range(len(children) - 1):
                new = (*children[:n], children[n + 1], children[n], *children[n + 2 :])
                yield f"exchange {n}", Seq(new)
            for n, child in enumerate(children):
                for where, changed in _trees(child):
                    yield f"{where} in {n}", Seq((*children[:n], changed, *children[n + 1 :]))
        case Loop(name, coords, body):
            back = {s: c.neg() for s, c in coords.items()}
            yield f"backward {name}", replace(node, coords=back)
            if isinstance(body, Loop) and coords.keys() == body.coords.keys():
                inner = replace(node, body=body.body)
                yield f"interchange {name}", replace(body, body=inner)
            for where, changed in _trees(body):
                yield f"{where} in {name}", replace(node, body=changed)
