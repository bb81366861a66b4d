"""Verdicts on orders against enumeration at small sizes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence

import islpy as isl
import pytest

from tdsl.ir.kernel import Kernel
from tdsl.ir.types import F32, I32
from tdsl.polyhedral import dependences, legality, model
from tdsl.polyhedral.affine import pw_aff
from tdsl.polyhedral.order import paths
from tdsl.polyhedral.program import Program, Violation
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq
from tests.polyhedral import brute, build
from tests.polyhedral.build import expr, kernel, nest, stmt

SIZES = range(5)


def chain(program: Program, statement: str, coords: Sequence[tuple[str, str]]) -> Node:
    """Loops (name, coordinate) around one statement."""
    where = model.scope_of(program, statement)
    node: Node = Leaf(statement)
    for name, coordinate in reversed(coords):
        node = Loop(name, {statement: pw_aff(expr(coordinate), where)}, node)
    return node


def place(
    tree: Node, program: Program, instance: brute.Instance, sizes: Mapping[str, int]
) -> tuple[int, ...]:
    """The time of an instance in a tree, its coordinates evaluated one by one."""
    result: list[int] = []
    for step in paths(tree)[instance.statement]:
        if isinstance(step, Loop):
            coordinate = step.coords[instance.statement]
            result.append(evaluate(coordinate, instance.point, sizes))
        else:
            result.append(step)
    return tuple(result)


def evaluate(function: isl.PwAff, point: Sequence[int], sizes: Mapping[str, int]) -> int:
    cell = isl.Set.universe(function.domain().get_space())
    for n, size in enumerate(sizes.values()):
        cell = cell.fix_val(isl.dim_type.param, n, isl.Val(size))
    for n, x in enumerate(point):
        cell = cell.fix_val(isl.dim_type.set, n, isl.Val(x))
    return int(function.eval(cell.sample_point()).to_python())


def brute_reversed(
    k: Kernel, program: Program, tree: Node, sizes: Mapping[str, int], relax: bool
) -> list[brute.Pair]:
    found = brute.instances(k, sizes)
    times = {(i.statement, i.point): place(tree, program, i, sizes) for i in found}
    return [
        p
        for p in brute.dependences(found)
        if not (relax and p.relaxable)
        and times[p.source.statement, p.source.point] >= times[p.sink.statement, p.sink.point]
    ]


def assert_witness(
    k: Kernel, program: Program, tree: Node, violation: Violation, relax: bool
) -> None:
    """The witness is a pair that brute force finds too, and names an element both touch."""
    w = violation.witness
    assert w is not None
    pairs = brute_reversed(k, program, tree, w.sizes, relax)
    pair = [
        p
        for p in pairs
        if (p.source.statement, p.source.point) == (violation.source, w.source)
        and (p.sink.statement, p.sink.point) == (violation.sink, w.sink)
    ]
    assert pair, (violation, tree)
    element = violation.array, w.element
    for end in (pair[0].source, pair[0].sink):
        assert element in end.reads | {end.write}


def random_coords(rng: random.Random, indices: Sequence[str]) -> list[tuple[str, str]]:
    """A permuted, perhaps skewed, reversed and tiled nest of loops."""
    base = {i: i for i in indices}
    names = list(indices)
    if len(names) > 1 and rng.random() < 0.5:
        a, b = rng.sample(names, 2)
        base[a] = f"{base[a]} + {rng.choice([1, 2, -1])} * {b}"
    if rng.random() < 0.2:
        a = rng.choice(names)
        base[a] = f"-({base[a]})"
    rng.shuffle(names)
    coords = [(n, base[n]) for n in names]
    if rng.random() < 0.5:
        tiled = rng.sample(names, rng.randint(1, len(names)))
        coords = [(f"{n}o", f"({base[n]}) // 2") for n in names if n in tiled] + coords
    return coords


def one_statement_kernels() -> dict[str, Kernel]:
    square = "0 <= i < N and 0 <= j < N"
    return {
        "matmul": build.matmul(),
        "seidel": build.seidel(),
        "B27": kernel(
            "N",
            {"A": "inout N + 1, N + 1"},
            [nest("i", "0", "N", nest("j", "1", "N + 1", stmt(
                "S", "A[i, j]", "i, j", "0 <= i < N and 1 <= j < N + 1", ["A[i + 1, j - 1]"]
            )))],
        ),
        "B29": kernel(
            "M, N",
            {"A": "inout N + 1"},
            [nest("m", "0", "M", nest("i", "0", "N", stmt(
                "S", "A[i]", "m, i", "0 <= m < M and 0 <= i < N", ["A[i + 1]"]
            )))],
        ),
        "B47": kernel(
            "N",
            {"A": "inout N, N"},
            [nest("i", "1", "N", nest("j", "1", "N", stmt(
                "S", "A[i, j]", "i, j", "1 <= i < N and 1 <= j < N", ["A[i, j-1]", "A[i-1, j]"]
            )))],
        ),
        "down": kernel(
            "N",
            {"A": "inout N, N + 1"},
            [nest("i", "0", "N", nest("j", "0", "N", stmt(
                "S", "A[i, j]", "i, j", square, ["A[i, j + 1]"]
            ), down=True))],
        ),
        "step": kernel(
            "N",
            {"A": "inout 2 * N + 9"},
            [nest("i", "0", "N", nest("j", "0", "N", stmt(
                "S", "A[i + j]", "i, j", square, ["A[i + j + 3]"]
            ), step=2), step=3)],
        ),
        "fold": kernel(
            "N",
            {"h": "inout 3", "x": "in N, N"},
            [nest("i", "0", "N", nest("j", "0", "N", stmt(
                "S", "h[(i + j) % 3]", "i, j", square, ["x[i, j]"], "add"
            )))],
        ),
        "triangle": kernel(
            "N",
            {"A": "in N, N", "B": "in N, N", "C": "inout N, N"},
            [stmt("S", "C[i, j]", "i, j, k", f"{square} and j <= i and j <= k < N",
                  ["A[i, k]", "B[k, j]"], "add", "k")],
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", one_statement_kernels())
def test_random_orders_agree_with_enumeration(name: str) -> None:
    k = one_statement_kernels()[name]
    rng = random.Random(name)
    program = model.build(k)
    found = dependences.compute(program)
    statement = k.statements[0]
    verdicts = set()
    for _ in range(25):
        tree = chain(program, statement.name, random_coords(rng, statement.indices))
        tree = legality.with_inits(program, tree)
        assert not legality.check_once(program, tree)
        for reassociate in (frozenset[str](), frozenset({statement.name})):
            strict = dependences.relaxed(found, program, reassociate)
            violations = legality.check(program, tree, strict)
            wrong = [
                p
                for size in SIZES
                for p in brute_reversed(
                    k, program, tree, dict.fromkeys(k.sizes, size), bool(reassociate)
                )
            ]
            verdicts.add(not violations)
            if violations:
                assert_witness(k, program, tree, violations[0], bool(reassociate))
            else:
                assert not wrong, (tree, wrong[0])
    assert True in verdicts


def test_the_written_order_is_legal() -> None:
    for k in (*one_statement_kernels().values(), build.lu(), build.conv2d()):
        program = model.build(k)
        tree = legality.with_inits(program, model.initial_tree(program))
        assert not legality.check(program, tree, dependences.compute(program))
        assert not legality.check_once(program, tree)


def verdict(k: Kernel, coords: Sequence[tuple[str, str]]) -> bool:
    program = model.build(k)
    tree = legality.with_inits(program, chain(program, k.statements[0].name, coords))
    return not legality.check(program, tree, dependences.compute(program))


def parallel_verdict(k: Kernel, coords: Sequence[tuple[str, str]], loop: int) -> bool:
    program = model.build(k)
    name = k.statements[0].name
    tree = chain(program, name, coords)
    step = [s for s in paths(tree)[name] if isinstance(s, Loop)][loop]
    return not legality.check_parallel(program, tree, dependences.compute(program), step)


LOOP_I, LOOP_J = ("i", "i"), ("j", "j")


def test_tiling_with_a_negative_distance() -> None:
    k = one_statement_kernels()["B27"]
    tile = [("io", "i // 2"), ("jo", "j // 2"), LOOP_I, LOOP_J]
    skewed = [("io", "i // 2"), ("jo", "(i + j) // 2"), LOOP_I, ("j", "i + j")]
    assert not verdict(k, tile)
    assert not verdict(k, [LOOP_J, LOOP_I])
    assert verdict(k, skewed)
    assert parallel_verdict(k, [LOOP_I, LOOP_J], 1)
    assert not parallel_verdict(k, [LOOP_I, LOOP_J], 0)


def test_interchange_over_an_anti_dependence() -> None:
    k = one_statement_kernels()["B29"]
    assert not verdict(k, [("i", "i"), ("m", "m")])
    assert not parallel_verdict(k, [("m", "m"), ("i", "i")], 0)


def test_legal_tiling_is_accepted() -> None:
    k = one_statement_kernels()["B47"]
    assert verdict(k, [("io", "i // 8"), ("jo", "j // 8"), LOOP_I, LOOP_J])
    assert verdict(k, [LOOP_J, LOOP_I])
    assert not parallel_verdict(k, [LOOP_I, LOOP_J], 0)
    assert not parallel_verdict(k, [LOOP_I, LOOP_J], 1)
    assert parallel_verdict(k, [("front", "i + j"), LOOP_J], 1)
    assert not parallel_verdict(k, [("front", "i + j"), LOOP_J], 0)


def test_fusion_that_overwrites_what_is_still_read() -> None:
    k = kernel(
        "N",
        {"a": "inout N", "c": "in N", "s": "temp N"},
        [
            stmt("S", "s[p]", "p", "1 <= p < N", ["a[1]", "c[p]"]),
            stmt("T", "a[p]", "p", "1 <= p < N", ["s[p]"]),
        ],
        "N >= 2",
    )
    program = model.build(k)
    coords = {s: pw_aff(expr("p"), model.scope_of(program, s)) for s in ("S", "T")}
    fused = Loop("p", coords, Seq((Leaf("S"), Leaf("T"))))
    violations = legality.check(program, fused, dependences.compute(program))
    assert [(v.source, v.sink, v.array) for v in violations] == [("S", "T", "a")]
    w = violations[0].witness
    assert w is not None
    assert (w.sizes, w.source, w.sink, w.element) == ({"N": 3}, (2,), (1,), (1,))


def test_reductions_of_integers_and_floats() -> None:
    reversed_k = [("i", "i"), ("j", "j"), ("k", "-k")]
    assert not verdict(build.matmul(F32), reversed_k)
    for type, strict, reassociate, legal in [
        (I32, False, "", True),
        (I32, True, "", True),
        (F32, False, "", False),
        (F32, False, "C", True),
        (F32, True, "C", False),
    ]:
        program = model.build(build.matmul(type))
        tree = legality.with_inits(program, chain(program, "C", reversed_k))
        relaxed = dependences.relaxed(
            dependences.compute(program), program, frozenset(reassociate), strict
        )
        assert (not legality.check(program, tree, relaxed)) == legal


def test_every_order_of_a_convolution_is_quick_and_right() -> None:
    k = build.conv2d()
    names = ("n", "y", "x", "o", "r", "s", "c")
    program = model.build(k)
    found = dependences.compute(program)
    rng = random.Random(1)
    for order in rng.sample(list(itertools.permutations(names)), 60):
        tree = legality.with_inits(program, chain(program, "y", [(n, n) for n in order]))
        kept = [n for n in order if n in ("r", "s", "c")] == ["r", "s", "c"]
        assert (not legality.check(program, tree, found)) == kept
        assert not legality.check_once(program, tree)
