"""Verdicts on orders against enumeration at small sizes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence

import pytest

from tdsl.ir.kernel import Kernel
from tdsl.ir.types import F32, I32
from tdsl.polyhedral import dependences, legality, model
from tdsl.polyhedral.affine import pw_aff
from tdsl.polyhedral.order import paths
from tdsl.polyhedral.program import Program, Violation
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq
from tests.polyhedral import brute, samples
from tests.polyhedral.build import expr, kernel, nest, stmt
from tests.polyhedral.orders import Places, chain, random_coords, shared

SIZES = range(5)


def brute_reversed(
    k: Kernel, program: Program, tree: Node, sizes: Mapping[str, int], relax: bool
) -> list[brute.Pair]:
    time = Places(tree, program, sizes)
    return [
        p
        for p in brute.pairs(k, sizes)
        if not (relax and p.relaxable) and time(p.source) >= time(p.sink)
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


@pytest.mark.parametrize("name", samples.one_statement_kernels())
def test_random_orders_agree_with_enumeration(name: str) -> None:
    k = samples.one_statement_kernels()[name]
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
    for k in (*samples.one_statement_kernels().values(), samples.lu(), samples.conv2d()):
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
    k = samples.one_statement_kernels()["B27"]
    tile = [("io", "i // 2"), ("jo", "j // 2"), LOOP_I, LOOP_J]
    skewed = [("io", "i // 2"), ("jo", "(i + j) // 2"), LOOP_I, ("j", "i + j")]
    assert not verdict(k, tile)
    assert not verdict(k, [LOOP_J, LOOP_I])
    assert verdict(k, skewed)
    assert parallel_verdict(k, [LOOP_I, LOOP_J], 1)
    assert not parallel_verdict(k, [LOOP_I, LOOP_J], 0)


def test_interchange_over_an_anti_dependence() -> None:
    k = samples.one_statement_kernels()["B29"]
    assert not verdict(k, [("i", "i"), ("m", "m")])
    assert not parallel_verdict(k, [("m", "m"), ("i", "i")], 0)


def test_legal_tiling_is_accepted() -> None:
    k = samples.one_statement_kernels()["B47"]
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


def test_fusion_of_a_stencil_needs_a_shift() -> None:
    program = model.build(samples.jacobi())
    found = dependences.compute(program)
    for shift, legal in [("0", False), ("1", True), ("2", True), ("-1", False)]:
        inner = shared(program, "i", {"S": "i", "T": f"i + {shift}"}, Leaf("S"), Leaf("T"))
        tree = shared(program, "t", {"S": "t", "T": "t"}, inner)
        assert (not legality.check(program, tree, found)) == legal


def test_a_mirrored_consumer_fuses_at_rows_only() -> None:
    domain = "0 <= y < N and 0 <= x < N"
    k = kernel(
        "N",
        {"a": "in N, N", "f": "temp N, N", "g": "out N, N"},
        [
            stmt("f", "f[y, x]", "y, x", domain, ["a[y, x]"]),
            stmt("g", "g[y, x]", "y, x", domain, ["f[y, N - 1 - x]"]),
        ],
    )
    program = model.build(k)
    found = dependences.compute(program)
    rows, columns = {"f": "y", "g": "y"}, {"f": "x", "g": "x"}
    own = [chain(program, s, [("x", "x")]) for s in ("f", "g")]
    assert not legality.check(program, shared(program, "y", rows, *own), found)
    inner = shared(program, "x", columns, Leaf("f"), Leaf("g"))
    assert legality.check(program, shared(program, "y", rows, inner), found)


def test_a_wave_in_time() -> None:
    k = kernel(
        "T, N",
        {"u": "inout T + 2, N + 2"},
        [nest("t", "0", "T", stmt(
            "S", "u[t + 2, x]", "t, x", "0 <= t < T and 1 <= x < N + 1",
            ["u[t + 1, x]", "u[t + 1, x + 1]", "u[t + 1, x - 1]", "u[t, x]"],
        ))],
    )  # fmt: skip
    inside, outside = [("t", "t"), ("x", "x")], [("x", "x"), ("t", "t")]
    assert not parallel_verdict(k, outside, 0)
    assert parallel_verdict(k, inside, 1)
    assert not verdict(k, [("to", "t // 4"), ("xo", "x // 4"), *inside])
    assert verdict(k, [("to", "t // 4"), ("xo", "(t + x) // 4"), ("t", "t"), ("x", "t + x")])


def test_a_triangle_is_tiled_in_any_order() -> None:
    k = kernel(
        "M, K",
        {"A": "in M, K", "B": "in M, K", "C": "inout M, M"},
        [stmt("C", "C[i, j]", "i, j, k", "0 <= i < M and 0 <= j <= i and 0 <= k < K",
              ["A[i, k]", "B[j, k]"], "add", "k")],
    )  # fmt: skip
    tiles = [("io", "i // 4"), ("jo", "j // 4"), ("ii", "i"), ("ji", "j"), ("k", "k")]
    assert verdict(k, tiles)
    assert verdict(k, [tiles[1], tiles[0], tiles[3], tiles[2], tiles[4]])


def test_a_loop_that_runs_downward_stays_so() -> None:
    """x[i] needs x[j] for all j > i: back substitution."""
    k = kernel(
        "N",
        {"U": "in N, N", "x": "inout N"},
        [nest("i", "0", "N", stmt(
            "S", "x[i]", "i, j", "0 <= i < j and j < N", ["U[i, j]", "x[j]"], "sub"
        ), down=True)],
    )  # fmt: skip
    assert verdict(k, [("i", "-i"), ("j", "j")])
    assert not verdict(k, [("i", "i"), ("j", "j")])
    assert not verdict(k, [("i", "-i"), ("j", "-j")])  # the sum's order
    assert not verdict(k, [("j", "-j"), ("i", "-i")])  # the same


def test_reductions_of_integers_and_floats() -> None:
    reversed_k = [("i", "i"), ("j", "j"), ("k", "-k")]
    assert not verdict(samples.matmul(F32), reversed_k)
    for type, strict, reassociate, legal in [
        (I32, False, "", True),
        (I32, True, "", True),
        (F32, False, "", False),
        (F32, False, "C", True),
        (F32, True, "C", False),
    ]:
        program = model.build(samples.matmul(type))
        tree = legality.with_inits(program, chain(program, "C", reversed_k))
        relaxed = dependences.relaxed(
            dependences.compute(program), program, frozenset(reassociate), strict
        )
        assert (not legality.check(program, tree, relaxed)) == legal


def test_every_order_of_a_convolution_is_quick_and_right() -> None:
    k = samples.conv2d()
    names = ("n", "y", "x", "o", "r", "s", "c")
    program = model.build(k)
    found = dependences.compute(program)
    rng = random.Random(1)
    for order in rng.sample(list(itertools.permutations(names)), 60):
        tree = legality.with_inits(program, chain(program, "y", [(n, n) for n in order]))
        kept = [n for n in order if n in ("r", "s", "c")] == ["r", "s", "c"]
        assert (not legality.check(program, tree, found)) == kept
        assert not legality.check_once(program, tree)


def test_updates_by_two_operators_keep_their_order() -> None:
    """For integers too: (C + a) * b is not C * b + a."""
    domain = "0 <= i < N"
    for second, legal in [("add", True), ("mul", False)]:
        k = kernel(
            "N",
            {"C": "inout", "a": "in N"},
            [nest("i", "0", "N",
                  stmt("S", "C", "i", domain, ["a[i]"], "add", type=I32),
                  stmt("T", "C", "i", domain, ["a[i]"], second, type=I32))],
            type=I32,
        )  # fmt: skip
        program = model.build(k)
        tree = Seq((chain(program, "T", [("i", "i")]), chain(program, "S", [("i", "i")])))
        relaxed = dependences.relaxed(dependences.compute(program), program)
        assert (not legality.check(program, tree, relaxed)) == legal


def test_two_instances_at_one_place_are_not_in_order() -> None:
    program = model.build(samples.seidel())
    tree = chain(program, "S", [("t", "t"), ("i", "i")])
    violations = legality.check(program, tree, dependences.compute(program))
    assert violations
    w = violations[0].witness
    assert w is not None and w.source[:2] == w.sink[:2]
