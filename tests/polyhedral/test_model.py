"""Instances, accesses and dependences of the model, point by point against enumeration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import islpy as isl
import pytest

from tdsl.ir.kernel import Kernel
from tdsl.polyhedral import dependences, model
from tdsl.polyhedral.program import Program
from tdsl.polyhedral.tree import loops_of
from tests.polyhedral import brute, samples
from tests.polyhedral.build import kernel, nest, stmt
from tests.polyhedral.orders import evaluate, outline
from tests.polyhedral.polybench import KERNELS

Point = tuple[int, ...]


def strided() -> Kernel:
    domain = "0 <= t < N and 1 <= i < 2 * N"
    return kernel(
        "N",
        {"A": "inout 9", "B": "inout 9"},
        [
            nest(
                "t", "0", "N",
                nest("i", "1", "2 * N", stmt("S", "A[i % 3]", "t, i", domain, ["B[i // 2]"]),
                     step=2),
                stmt("T", "B[t]", "t", "0 <= t < N", ["A[t]", "A[min(t, 2)]"]),
                down=True, step=2,
            )
        ],
    )  # fmt: skip


SMALL: dict[str, Kernel] = {
    **{name: make() for name, make in KERNELS.items()},
    "conv2d": samples.conv2d(),
    "matmul": samples.matmul(),
    "strided": strided(),
}


def fixed(points: isl.Set, program: Program, sizes: Mapping[str, int]) -> Iterator[Point]:
    """The points of a set at these sizes."""
    for position, name in enumerate(program.params):
        points = points.fix_val(isl.dim_type.param, position, isl.Val(sizes[name]))
    found: list[Point] = []
    dims = points.dim(isl.dim_type.set)

    def add(point: isl.Point) -> None:
        values = [point.get_coordinate_val(isl.dim_type.set, d) for d in range(dims)]
        found.append(tuple(v.to_python() for v in values))

    points.project_out_all_params().foreach_point(add)
    yield from found


def small_sizes(k: Kernel) -> dict[str, int]:
    many = sum(len(s.indices) for s in k.statements) > 20 or len(k.sizes) > 3
    return dict.fromkeys(k.sizes, 2 if many else 3)


@pytest.mark.parametrize("name", SMALL)
def test_instances_and_accesses(name: str) -> None:
    k = SMALL[name]
    program = model.build(k)
    sizes = small_sizes(k)
    found = brute.instances(k, sizes, range(-1, 7))
    for statement, s in program.statements.items():
        mine = [i for i in found if i.statement == statement]
        assert set(fixed(s.domain, program, sizes)) == {i.point for i in mine}
        split = len(s.indices)
        writes = {(p[:split], p[split:]) for p in fixed(s.write.map.wrap(), program, sizes)}
        assert writes == {(i.point, i.write[1]) for i in mine}
        reads = {
            (p[:split], (a.array, p[split:]))
            for a in s.reads
            for p in fixed(a.map.wrap(), program, sizes)
        }
        assert reads == {(i.point, r) for i in mine for r in i.reads}
        assert all(a.exact for a in (s.write, *s.reads))


@pytest.mark.parametrize("name", SMALL)
def test_dependences_are_those_of_all_pairs(name: str) -> None:
    k = SMALL[name]
    program = model.build(k)
    sizes = small_sizes(k)
    found: dict[tuple[str, Point, str, Point], list[bool]] = {}
    for d in dependences.compute(program):
        split = len(program.statements[d.source].indices)
        for p in fixed(d.map.wrap(), program, sizes):
            key = d.source, p[:split], d.sink, p[split:]
            found.setdefault(key, []).append(d.relaxable is not None)
    expected = {
        (p.source.statement, p.source.point, p.sink.statement, p.sink.point): p
        for p in brute.dependences(brute.instances(k, sizes, range(-1, 7)))
    }
    assert found.keys() == expected.keys()
    assert all(all(found[key]) == pair.relaxable for key, pair in expected.items())


def test_the_written_order() -> None:
    program = model.build(strided())
    tree = model.initial_tree(program)
    assert outline(tree) == "t(i(S) T)"
    outer, inner = loops_of(tree, "S")
    assert outer is loops_of(tree, "T")[0]
    # Coordinates ascend: a loop that runs downward has minus its index.
    assert evaluate(outer.coords["S"], (3, 1), (5,)) == -3
    assert evaluate(outer.coords["T"], (3,), (5,)) == -3
    assert evaluate(inner.coords["S"], (3, 1), (5,)) == 1


def test_a_sum_is_two_statements() -> None:
    program = model.build(samples.matmul())
    init, update = program.statements.values()
    assert (init.name, init.init_of, init.op, init.indices) == ("C.init", "C", "define", ("i", "j"))
    assert (update.name, update.init_of, update.op) == ("C", None, "add")
    assert update.reduction == ("k",)
    assert outline(model.initial_tree(program)) == "i(j(k(C)))"


def test_user_names_never_reach_isl() -> None:
    k = kernel(
        "EXISTS",
        {"mod": "in EXISTS", "floor": "out EXISTS"},
        [stmt("max", "floor[exists]", "exists", "0 <= exists < EXISTS", ["mod[exists]"])],
    )
    program = model.build(k)
    text = str(program.context) + "".join(
        str(s.domain) + str(s.write.map) + "".join(str(a.map) for a in s.reads)
        for s in program.statements.values()
    )
    assert not any(word in text.lower() for word in ("mod", "floor", "max", "exists"))
