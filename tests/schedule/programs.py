"""Small programs and trees made by hand, for tests of edits without a front end."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import islpy as isl

from tdsl.ir.kernel import Kernel
from tdsl.polyhedral.program import Access, Program, Stmt
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq, loops_of, path, statements


def program(given: Mapping[str, tuple[str, str]], sizes: Sequence[str] = ("N",)) -> Program:
    """`given`: name -> (indices such as "i, j", conditions in isl's notation over p0...)."""
    params = {name: f"p{k}" for k, name in enumerate(sizes)}
    head = f"[{', '.join(params.values())}]"
    made = {}
    for number, (name, (indices, conditions)) in enumerate(given.items()):
        tuple_name = f"S{number}"
        domain = isl.Set(f"{head} -> {{ {tuple_name}[{indices}] : {conditions} }}")
        write = Access("A", isl.Map(f"{head} -> {{ {tuple_name}[{indices}] -> A0[0] }}"), ())
        names = tuple(i.strip() for i in indices.split(",") if i.strip())
        made[name] = Stmt(name, tuple_name, names, domain, write, ())
    bounds = " and ".join(f"0 <= {p} < {1 << 40}" for p in params.values()) or "true"
    kernel = Kernel("k", tuple(sizes), (), (), ())
    return Program(kernel, isl.Set(f"{head} -> {{ : {bounds} }}"), params, made, {}, {})


def nest(made: Program, statement: str, body: Node | None = None) -> Node:
    """The statement in its own loops, named by its indices."""
    stmt = made.statements[statement]
    node: Node = Leaf(statement) if body is None else body
    space = isl.LocalSpace.from_space(stmt.domain.get_space())
    for position, name in reversed(list(enumerate(stmt.indices))):
        aff = isl.Aff.var_on_domain(space, isl.dim_type.set, position)
        node = Loop(name, {statement: isl.PwAff.from_aff(aff)}, node)
    return node


def program_tree(made: Program) -> Node:
    nests = [nest(made, s) for s in made.statements]
    return nests[0] if len(nests) == 1 else Seq(tuple(nests))


def points(made: Program, sizes: Mapping[str, int], statement: str) -> list[tuple[int, ...]]:
    """The instances at fixed sizes, by enumeration in a box that holds them."""
    stmt = made.statements[statement]
    fixed = stmt.domain
    for name, value in sizes.items():
        fixed = fixed.fix_val(
            isl.dim_type.param,
            fixed.find_dim_by_name(isl.dim_type.param, made.params[name]),
            isl.Val(value),
        )
    found: list[tuple[int, ...]] = []
    fixed.foreach_point(lambda p: found.append(_ints(p, len(stmt.indices))))
    return sorted(found)


def _ints(point: isl.Point, count: int) -> tuple[int, ...]:
    return tuple(point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(count))


def value(
    made: Program, coordinate: isl.PwAff, sizes: Mapping[str, int], instance: Sequence[int]
) -> int:
    """A coordinate at one instance."""
    point = isl.Point.zero(coordinate.get_domain_space())
    for name, size in sizes.items():
        where = coordinate.find_dim_by_name(isl.dim_type.param, made.params[name])
        if where >= 0:
            point = point.set_coordinate_val(isl.dim_type.param, where, isl.Val(size))
    for k, v in enumerate(instance):
        point = point.set_coordinate_val(isl.dim_type.set, k, isl.Val(v))
    return int(coordinate.eval(point).to_python())


def order(made: Program, tree: Node, sizes: Mapping[str, int]) -> list[tuple[str, tuple[int, ...]]]:
    """All instances in the order in which the tree runs them."""
    timed = []
    for name in statements(tree):
        steps = path(tree, name)
        for instance in points(made, sizes, name):
            time = tuple(
                value(made, s.coords[name], sizes, instance) if isinstance(s, Loop) else s
                for s in steps
            )
            timed.append((time, name, instance))
    return [(name, instance) for _, name, instance in sorted(timed)]


def loop_values(
    made: Program, tree: Node, statement: str, sizes: Mapping[str, int]
) -> dict[tuple[int, ...], tuple[int, ...]]:
    """instance -> coordinates of the loops around it."""
    loops = loops_of(tree, statement)
    return {
        x: tuple(value(made, loop.coords[statement], sizes, x) for loop in loops)
        for x in points(made, sizes, statement)
    }


def box(*extents: int) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(e) for e in extents)))
