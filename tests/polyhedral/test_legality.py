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
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq, loops
from tests.polyhedral import brute, build
from tests.polyhedral.build import expr, kernel, nest, stmt
from tests.polyhedral.orders import Places, chain, outline, random_coords, shared

SIZES = range(5)


def brute_reversed(
    k: Kernel, program: Program, tree: Node, sizes: Mapping[str, int], relax: bool
) -> list[brute.Pair]:
    time = Places(tree, program, sizes)
    return [
        p
        for p in brute.dependences(brute.instances(k, sizes))
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
    for _ in range(15):
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


def jacobi() -> Kernel:
    domain = "0 <= t < T and 1 <= i < N - 1"
    return kernel(
        "T, N",
        {"A": "inout N", "B": "inout N"},
        [nest("t", "0", "T",
              stmt("S", "B[i]", "t, i", domain, ["A[i - 1]", "A[i]", "A[i + 1]"]),
              stmt("T", "A[i]", "t, i", domain, ["B[i - 1]", "B[i]", "B[i + 1]"]))],
    )  # fmt: skip


def test_fusion_of_a_stencil_needs_a_shift() -> None:
    program = model.build(jacobi())
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
    program = model.build(build.seidel())
    tree = chain(program, "S", [("t", "t"), ("i", "i")])
    violations = legality.check(program, tree, dependences.compute(program))
    assert violations
    w = violations[0].witness
    assert w is not None and w.source[:2] == w.sink[:2]


# ---------------------------------------------------------------- marks


def marked_trees() -> list[tuple[Kernel, Program, Node]]:
    """Trees whose loops are asked about as threads, lanes and jammed copies."""
    rng = random.Random(7)
    result = []
    for k in one_statement_kernels().values():
        program = model.build(k)
        statement = k.statements[0]
        for _ in range(6):
            tree = chain(program, statement.name, random_coords(rng, statement.indices))
            result.append((k, program, legality.with_inits(program, tree)))
    for k in (build.lu(), jacobi()):
        program = model.build(k)
        result.append((k, program, model.initial_tree(program)))
    program = model.build(jacobi())
    for shift in ("-1", "0", "1", "2"):
        inner = shared(program, "i", {"S": "i", "T": f"i + {shift}"}, Leaf("S"), Leaf("T"))
        result.append((jacobi(), program, shared(program, "t", {"S": "t", "T": "t"}, inner)))
        inner = shared(program, "t", {"S": "t", "T": "t"}, Leaf("S"), Leaf("T"))
        outer = shared(program, "i", {"S": "i", "T": f"i + {shift}"}, inner)
        result.append((jacobi(), program, outer))
    program = model.build(build.lu())
    inner = shared(program, "i", {"S": "i", "T": "i"}, Leaf("S"), chain(program, "T", [LOOP_J]))
    result.append((build.lu(), program, shared(program, "k", {"S": "k", "T": "k"}, inner)))
    return result


def violating(
    kind: str, found: Sequence[brute.Pair], time: Places, loop: Loop, near: int | None
) -> list[brute.Pair]:
    """Pairs that one mark breaks, from their places alone."""
    result = []
    for p in found:
        path = time.path(p.source.statement)
        depth = next((n for n, s in enumerate(path) if s is loop), None)
        if depth is None or loop not in time.path(p.sink.statement):
            continue
        a, b = time(p.source), time(p.sink)
        if a[:depth] != b[:depth] or a[depth] == b[depth]:
            continue
        close = near is None or abs(a[depth] - b[depth]) < near
        after, before = a[depth + 1 :], b[depth + 1 :]
        if kind == "parallel":
            broken = True
        elif kind == "vector":
            same = p.source.statement == p.sink.statement and p.kinds == {"anti"}
            broken = close and (after > before or (after == before and not same))
        else:  # jammed: copies of one iteration come last
            broken = close and a[depth] < b[depth] and after > before
        if broken:
            result.append(p)
    return result


@pytest.mark.parametrize("kind", ["parallel", "vector", "jam"])
@pytest.mark.parametrize("near", [None, 2, 4])
def test_marks_agree_with_enumeration(kind: str, near: int | None) -> None:
    verdicts = set()
    for k, program, tree in marked_trees():
        deps = dependences.compute(program)
        for loop in loops(tree):
            match kind:
                case "parallel":
                    violations = legality.check_parallel(program, tree, deps, loop)
                case "vector":
                    violations = legality.check_vector(program, tree, deps, loop, lanes=near)
                case _:
                    violations = legality.check_unroll_jam(program, tree, deps, loop, by=near)
            verdicts.add(not violations)
            if violations:
                w = violations[0].witness
                assert w is not None
                pairs = brute.dependences(brute.instances(k, w.sizes))
                wrong = violating(kind, pairs, Places(tree, program, w.sizes), loop, near)
                assert (w.source, w.sink) in [(p.source.point, p.sink.point) for p in wrong]
            else:
                for size in (2, 3, 4):
                    sizes = dict.fromkeys(k.sizes, size)
                    pairs = brute.dependences(brute.instances(k, sizes))
                    time = Places(tree, program, sizes)
                    assert not violating(kind, pairs, time, loop, near), outline(tree)
    assert verdicts == {True, False}


def test_lanes_over_a_reduction_need_reassociation() -> None:
    for type, strict, names, legal in [
        (F32, False, "", False),
        (F32, False, "C", True),
        (F32, True, "C", False),
        (I32, True, "", True),
    ]:
        program = model.build(build.matmul(type))
        tree = chain(program, "C", [("i", "i"), ("j", "j"), ("k:vector", "k")])
        tree = legality.with_inits(program, tree)
        lanes = next(loop for loop in loops(tree) if loop.name == "k")
        violations = legality.check_vector(
            program,
            tree,
            dependences.compute(program),
            lanes,
            reassociate=frozenset(names),
            strict_fp=strict,
        )
        assert (not violations) == legal


def test_lanes_that_meet_in_one_element_only_sometimes_are_refused() -> None:
    """h[i // 2] += x[i]: no lane has an element of its own, nor do all share one."""
    k = kernel(
        "N",
        {"h": "inout N", "x": "in N"},
        [stmt("S", "h[i // 2]", "i", "0 <= i < N", ["x[i]"], "add", type=I32)],
        type=I32,
    )
    program = model.build(k)
    tree = chain(program, "S", [("i", "i")])
    assert isinstance(tree, Loop)
    assert legality.check_vector(program, tree, dependences.compute(program), tree)


def test_a_place_for_two_instances_or_none_is_found() -> None:
    program = model.build(build.seidel())
    clash = legality.check_once(program, chain(program, "S", [("t", "t"), ("i", "i + j")]))
    assert [(v.kind, v.source) for v in clash] == [("once", "S")]
    w = clash[0].witness
    assert w is not None and w.source != w.sink
    assert w.source[0] == w.sink[0] and sum(w.source[1:]) == sum(w.sink[1:])
    program = model.build(build.matmul())
    absent = legality.check_once(program, chain(program, "C", [(n, n) for n in "ijk"]))
    assert [v.source for v in absent] == ["C.init"]
