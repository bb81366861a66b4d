"""Threads, lanes and jammed copies against enumeration at small sizes."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

import pytest

from tdsl.ir.kernel import Kernel
from tdsl.ir.types import F32, I32
from tdsl.polyhedral import dependences, legality, model
from tdsl.polyhedral.program import Program
from tdsl.polyhedral.tree import Leaf, Loop, Node, loops
from tests.polyhedral import brute, samples
from tests.polyhedral.build import kernel, stmt
from tests.polyhedral.orders import Places, chain, outline, random_coords, shared

LOOP_J = ("j", "j")


def marked_trees() -> list[tuple[Kernel, Program, Node]]:
    """Trees whose loops are asked about as threads, lanes and jammed copies."""
    rng = random.Random(7)
    result = []
    for k in samples.one_statement_kernels().values():
        program = model.build(k)
        statement = k.statements[0]
        for _ in range(6):
            tree = chain(program, statement.name, random_coords(rng, statement.indices))
            result.append((k, program, legality.with_inits(program, tree)))
    for k in (samples.lu(), samples.jacobi()):
        program = model.build(k)
        result.append((k, program, model.initial_tree(program)))
    program = model.build(samples.jacobi())
    for shift in ("-1", "0", "1", "2"):
        inner = shared(program, "i", {"S": "i", "T": f"i + {shift}"}, Leaf("S"), Leaf("T"))
        result.append(
            (samples.jacobi(), program, shared(program, "t", {"S": "t", "T": "t"}, inner))
        )
        inner = shared(program, "t", {"S": "t", "T": "t"}, Leaf("S"), Leaf("T"))
        outer = shared(program, "i", {"S": "i", "T": f"i + {shift}"}, inner)
        result.append((samples.jacobi(), program, outer))
    program = model.build(samples.lu())
    inner = shared(program, "i", {"S": "i", "T": "i"}, Leaf("S"), chain(program, "T", [LOOP_J]))
    result.append((samples.lu(), program, shared(program, "k", {"S": "k", "T": "k"}, inner)))
    return result


def into_one_element(k: Kernel, program: Program, tree: Node, loop: Loop) -> set[str]:
    """Updates whose lanes, the other loops fixed, all go into one element at some larger sizes:
    each lane then has a sum of its own, whatever the loops inside."""
    sizes = dict.fromkeys(k.sizes, 5)
    time = Places(tree, program, sizes)
    result, apart = set(), set()
    elements: dict[tuple[str, tuple[int, ...]], object] = {}
    for i in brute.instances(k, sizes):
        path = time.path(i.statement)
        depth = next((n for n, s in enumerate(path) if s is loop), None)
        if depth is None or i.update is None:
            continue
        place = time(i)
        result.add(i.statement)
        group = i.statement, (*place[:depth], *place[depth + 1 :])
        if elements.setdefault(group, i.write) != i.write:
            apart.add(i.statement)
    return result - apart


def violating(
    kind: str,
    found: Sequence[brute.Pair],
    time: Places,
    loop: Loop,
    near: int | None,
    joined: Collection[str] = (),
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
            if p.source.statement == p.sink.statement and p.source.statement in joined:
                broken = close
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
            joined = into_one_element(k, program, tree, loop) if kind == "vector" else set()
            if violations:
                w = violations[0].witness
                assert w is not None
                pairs = brute.pairs(k, w.sizes)
                time = Places(tree, program, w.sizes)
                wrong = violating(kind, pairs, time, loop, near, joined)
                assert (w.source, w.sink) in [(p.source.point, p.sink.point) for p in wrong]
            else:
                for size in (2, 3, 4):
                    sizes = dict.fromkeys(k.sizes, size)
                    pairs = brute.pairs(k, sizes)
                    time = Places(tree, program, sizes)
                    assert not violating(kind, pairs, time, loop, near, joined), outline(tree)
    assert verdicts == {True, False}


def test_lanes_over_a_reduction_need_reassociation() -> None:
    for type, strict, names, legal in [
        (F32, False, "", False),
        (F32, False, "C", True),
        (F32, True, "C", False),
        (I32, True, "", True),
    ]:
        program = model.build(samples.matmul(type))
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


def test_lanes_over_terms_need_reassociation_also_where_the_loops_inside_order_them() -> None:
    """The inner loop of a split counts on over all blocks, so no two lanes run at once in it."""
    for names, legal in [("", False), ("C", True)]:
        program = model.build(samples.matmul(F32))
        coords = [("i", "i"), ("j", "j"), ("ko:vector", "k // 2"), ("ki", "k")]
        tree = legality.with_inits(program, chain(program, "C", coords))
        lanes = next(loop for loop in loops(tree) if loop.name == "ko")
        deps = dependences.compute(program)
        found = legality.check_vector(program, tree, deps, lanes, reassociate=frozenset(names))
        assert (not found) == legal


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
    program = model.build(samples.seidel())
    clash = legality.check_once(program, chain(program, "S", [("t", "t"), ("i", "i + j")]))
    assert [(v.kind, v.source) for v in clash] == [("once", "S")]
    w = clash[0].witness
    assert w is not None and w.source != w.sink
    assert w.source[0] == w.sink[0] and sum(w.source[1:]) == sum(w.sink[1:])
    program = model.build(samples.matmul())
    absent = legality.check_once(program, chain(program, "C", [(n, n) for n in "ijk"]))
    assert [v.source for v in absent] == ["C.init"]
