"""Boxes, rings and layouts, against an enumeration of all accesses at small sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import islpy as isl
import pytest

from tdsl.ir.kernel import INDEX, Const, Expr, Op, Var
from tdsl.polyhedral.box import CannotPlace, Layout
from tdsl.polyhedral.inits import with_inits
from tdsl.polyhedral.place import localize
from tdsl.polyhedral.program import Access, Program, Stmt, accesses_to
from tdsl.polyhedral.stage import path_to
from tdsl.polyhedral.tree import Loop, Node
from tests.polyhedral.brute import value
from tests.schedule.run import scheduled

PAIRS = """
kernel pairs(M, N) {
    in  x: f32[M, N]
    out y: f32[M, N]
    temp t: f32[M, N]
    t[i, j] = x[i, j] + 1.0
    y[i, j] = t[i, j] * 2.0
}
"""
FUSED = "fuse t.i, y.i -> i"
WINDOW = """
kernel window(N) {
    assume N >= 3
    in  x: f32[N]
    out y: f32[N - 2]
    temp t: f32[N]
    t[i] = x[i] + 1.0
    y[i] = t[i] + t[i + 2]
}
"""


def made(text: str, directives: str) -> tuple[Program, Node]:
    name = text.split()[1].split("(")[0]
    done = scheduled(f"{text}\nschedule {name} for any {{ {directives} }}")
    return done.program, with_inits(done.program, done.tree)


def points(stmt: Stmt, sizes: Mapping[str, int], program: Program) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    at = fixed(stmt.domain, sizes, program)
    at.foreach_point(lambda p: found.append(coordinates(p, len(stmt.indices))))
    return sorted(found)


def fixed(object: isl.Set, sizes: Mapping[str, int], program: Program) -> isl.Set:
    for size, param in program.params.items():
        position = object.find_dim_by_name(isl.dim_type.param, param)
        object = object.fix_val(isl.dim_type.param, position, isl.Val(sizes[size]))
    return object


def coordinates(point: isl.Point, count: int) -> tuple[int, ...]:
    return tuple(point.get_coordinate_val(isl.dim_type.set, d).to_python() for d in range(count))


def image(
    access: Access, at: Sequence[int], sizes: Mapping[str, int], program: Program
) -> list[tuple[int, ...]]:
    map_ = access.map
    for d, x in enumerate(at):
        map_ = map_.fix_val(isl.dim_type.in_, d, isl.Val(x))
    found: list[tuple[int, ...]] = []
    elements = fixed(map_.range(), sizes, program)
    elements.foreach_point(lambda p: found.append(coordinates(p, elements.dim(isl.dim_type.set))))
    return found


def hold(
    before: Program, after: Program, array: str, home: Sequence[Loop], sizes: Mapping[str, int]
) -> set[tuple[int, ...]]:
    """Subscripts say what the maps say, inside the extents; in one iteration of the home loops
    elements have one place, and different ones different places. The places are returned."""
    shape = [value(e, sizes) for e in after.arrays[array].shape]
    place: dict[tuple[object, ...], tuple[int, ...]] = {}
    for name, stmt in after.statements.items():
        old = before.statements[name]
        for mine, other in zip(accesses_to(stmt, array), accesses_to(old, array), strict=True):
            for at in points(stmt, sizes, after):
                env = {**sizes, **dict(zip(stmt.indices, at, strict=True))}
                new = tuple(value(e, env) for e in mine.subscript)
                assert image(mine, at, sizes, after) == [new]
                assert all(0 <= x < extent for x, extent in zip(new, shape, strict=True))
                iteration = tuple(
                    str(loop.coords[name].eval(_point(stmt, at, sizes, after))) for loop in home
                )
                element = tuple(value(e, env) for e in other.subscript)
                assert place.setdefault((iteration, *element), new) == new
    by_place = {(key[0], new) for key, new in place.items()}
    assert len(by_place) == len(place), "two elements in one place"
    return set(place.values())


def _point(stmt: Stmt, at: Sequence[int], sizes: Mapping[str, int], program: Program) -> isl.Point:
    only = fixed(stmt.domain, sizes, program)
    for d, x in enumerate(at):
        only = only.fix_val(isl.dim_type.set, d, isl.Val(x))
    return only.sample_point()


def op(name: str, index: str, by: int) -> Expr:
    return Op(name, (Var(index), Const(by, INDEX)), INDEX)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 9])
def test_a_row_for_each_iteration(n: int) -> None:
    program, tree = made(PAIRS, FUSED)
    home = path_to(tree, "t", "i")
    after = localize(program, tree, "t", home)
    sizes = {"M": 3, "N": n}
    assert hold(program, after, "t", home, sizes) == {(0, j) for j in range(n)}
    assert after.arrays["t"].role == "scratch"
    assert [value(e, sizes) for e in after.arrays["t"].shape] == [1, n]


@pytest.mark.parametrize("n", [1, 7, 8, 9, 20])
def test_a_block_has_constant_extents(n: int) -> None:
    directives = f"{FUSED}  fuse t.j, y.j -> j  split j by 8 -> jo, ji"
    program, tree = made(PAIRS, directives)
    home = path_to(tree, "t", "jo")
    after = localize(program, tree, "t", home)
    hold(program, after, "t", home, {"M": 2, "N": n})
    assert after.arrays["t"].role == "stack"
    assert [value(e, {}) for e in after.arrays["t"].shape] == [1, 8]
    assert localize(program, tree, "t", home, memory="scratch").arrays["t"].role == "scratch"


def test_at_the_root_the_extents_stay() -> None:
    program, tree = made(PAIRS, "")
    after = localize(program, tree, "t", ())
    assert after.arrays["t"].role == "temp"
    assert len(hold(program, after, "t", (), {"M": 3, "N": 4})) == 12


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 40])
def test_a_layout_has_full_tiles(n: int) -> None:
    program, tree = made(PAIRS, "")
    tiles = Layout(("i", "j"), (op("floordiv", "j", 16), Var("i"), op("mod", "j", 16)))
    after = localize(program, tree, "t", (), layout=tiles)
    sizes = {"M": 3, "N": n}
    assert [value(e, sizes) for e in after.arrays["t"].shape] == [(n + 15) // 16, 3, 16]
    found = hold(program, after, "t", (), sizes)
    assert found == {(j // 16, i, j % 16) for i in range(3) for j in range(n)}


@pytest.mark.parametrize(
    ("storage", "word"),
    [
        ((Var("i"), op("floordiv", "j", 2)), "two elements"),
        ((Var("i"), op("mod", "j", 4)), "two elements"),
        ((Var("j"), op("sub", "i", 1)), "negative"),
    ],
)
def test_layouts_that_are_refused(storage: tuple[Expr, ...], word: str) -> None:
    program, tree = made(PAIRS, "")
    with pytest.raises(CannotPlace, match=word):
        localize(program, tree, "t", (), layout=Layout(("i", "j"), storage))


def test_a_ring_takes_the_index_modulo_its_length() -> None:
    program, tree = made(WINDOW, "shift y.i by 2  fuse t.i, y.i -> i")
    after = localize(program, tree, "t", (), fold={0: 3})
    assert [value(e, {}) for e in after.arrays["t"].shape] == [3]
    write = after.statements["t"].write
    assert [image(write, (i,), {"N": 7}, after) for i in range(7)] == [[(i % 3,)] for i in range(7)]
    assert [value(write.subscript[0], {"i": i}) for i in range(7)] == [i % 3 for i in range(7)]


@pytest.mark.parametrize("memory", ["stack", "registers"])
def test_what_is_too_large_for_the_stack_is_refused(memory: str) -> None:
    program, tree = made(PAIRS, FUSED)
    with pytest.raises(CannotPlace, match="not constant"):
        localize(program, tree, "t", path_to(tree, "t", "i"), memory=memory)
    directives = f"{FUSED}  fuse t.j, y.j -> j  split j by 20000 -> jo, ji"
    program, tree = made(PAIRS, directives)
    with pytest.raises(CannotPlace, match="80000 bytes"):
        localize(program, tree, "t", path_to(tree, "t", "jo"), memory=memory)


def test_uses_outside_of_the_home_are_refused() -> None:
    program, tree = made(PAIRS, "")
    with pytest.raises(CannotPlace, match="y uses t outside i"):
        localize(program, tree, "t", path_to(tree, "t", "i"))
