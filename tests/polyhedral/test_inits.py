"""Where accumulators are set: `S.init` follows S."""

from __future__ import annotations

import random

import pytest

from tdsl.ir.kernel import Kernel
from tdsl.polyhedral import dependences, legality, model
from tdsl.polyhedral.order import paths
from tdsl.polyhedral.tree import Leaf, Loop, loops
from tests.polyhedral import brute, samples
from tests.polyhedral.build import kernel, nest, stmt
from tests.polyhedral.orders import Places, chain, outline, random_coords, shared

TILED = {"io": "i // 4", "jo": "j // 8", "ko": "k // 2"}


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("i j k", "i(j(C.init k(C)))"),
        ("k i j", "k(i(j(C.init C)))"),
        ("i k j", "i(k(j(C.init C)))"),
        ("i k j:vector", "i(j:vector(C.init) k(j:vector(C)))"),
        ("k i:unroll j:vector", "i:unroll(j:vector(C.init)) k(i:unroll(j:vector(C)))"),
        ("io jo ko i j k", "io(jo(ko(i(j(C.init k(C))))))"),
        (
            "io jo ko k i:unroll j:vector",
            "io(jo(i:unroll(j:vector(C.init)) ko(k(i:unroll(j:vector(C))))))",
        ),
        (
            "io jo ko i k j:vector",
            "io(jo(ko(i(j:vector(C.init) k(j:vector(C))))))",
        ),
        ("ko io k jo i j", "ko(io(k(jo(i(j(C.init C))))))"),
        ("ko i k j:vector jo", "ko(i(k(j:vector(jo(C.init C)))))"),
        ("i j ko k:unroll", "i(j(C.init ko(k:unroll(C))))"),
    ],
)
def test_places_of_a_matrix_product(order: str, expected: str) -> None:
    program = model.build(samples.matmul())
    coords = [(n, TILED.get(n.split(":")[0], n.split(":")[0])) for n in order.split()]
    tree = legality.with_inits(program, chain(program, "C", coords))
    assert outline(tree) == expected
    assert not legality.check_once(program, tree)


def test_an_index_without_a_loop_of_its_own_gets_a_plain_one() -> None:
    """The loops inside of k do not tell i: its only loop is skewed by k."""
    program = model.build(samples.matmul())
    tree = legality.with_inits(
        program, chain(program, "C", [("k", "k"), ("i", "i + k"), ("j", "j")])
    )
    assert outline(tree) == "k(i(j(i_init(C.init) C)))"
    assert not legality.check_once(program, tree)


def test_two_reductions_in_shared_loops() -> None:
    domain = "0 <= i < N and 0 <= k < N"
    k = kernel(
        "N",
        {"x": "in N, N", "a": "out N", "b": "out N"},
        [
            stmt(s, f"{s}[i]", "i, k", domain, ["x[i, k]"], "add", "k", True, outer="0 <= i < N")
            for s in ("a", "b")
        ],
    )
    program = model.build(k)
    both = {"a": "k", "b": "k"}
    inner = shared(program, "k", both, Leaf("a"), Leaf("b"))
    tree = shared(program, "i", {"a": "i", "b": "i"}, inner)
    placed = legality.with_inits(program, tree)
    assert outline(placed) == "i(a.init b.init k(a b))"
    assert not legality.check(program, placed, dependences.compute(program))
    assert not legality.check_once(program, placed)


def triangle() -> Kernel:
    """Sums whose first term depends on the row; the last row has none."""
    return kernel(
        "N",
        {"x": "in N, N", "y": "out N"},
        [
            stmt(
                "y", "y[i]", "i, k", "0 <= i < N and i < k and k < N", ["x[i, k]"],
                "add", "k", True, outer="0 <= i < N",
            )
        ],
    )  # fmt: skip


def in_a_nest() -> Kernel:
    return kernel(
        "N",
        {"L": "in N, N", "b": "in N", "x": "out N", "r": "temp N"},
        [
            nest(
                "i", "0", "N",
                stmt("r", "r[i]", "i, k", "0 <= i < N and 0 <= k < i", ["L[i, k]", "x[k]"],
                     "add", "k", True, outer="0 <= i < N"),
                stmt("x", "x[i]", "i", "0 <= i < N", ["b[i]", "r[i]"]),
            )
        ],
    )  # fmt: skip


@pytest.mark.parametrize("make", [samples.matmul, triangle])
def test_every_sum_starts_once_and_before_its_terms(make: object) -> None:
    assert callable(make)
    k = make()
    program = model.build(k)
    name = k.statements[0].name
    found = dependences.compute(program)
    rng = random.Random(3)
    for _ in range(40):
        coords = [
            (f"{n}:{rng.choice(['serial', 'unroll', 'vector'])}", c)
            for n, c in random_coords(rng, k.statements[0].indices)
        ]
        tree = legality.with_inits(program, chain(program, name, coords))
        assert not legality.check_once(program, tree), outline(tree)
        starts = [d for d in found if d.source == f"{name}.init"]
        assert not legality.check(program, tree, starts), outline(tree)
        sizes = dict.fromkeys(k.sizes, 3)
        time = Places(tree, program, sizes)
        everything = brute.instances(k, sizes)
        inits = {i.write: time(i) for i in everything if i.statement.endswith(".init")}
        assert (
            len(set(inits.values()))
            == len(inits)
            == 3 ** (len(program.statements[name].indices) - 1)
        )
        assert all(inits[i.write] < time(i) for i in everything if i.statement == name)


def test_a_reduction_in_a_nest_starts_in_each_iteration() -> None:
    program = model.build(in_a_nest())
    tree = legality.with_inits(program, model.initial_tree(program))
    assert outline(tree) == "i(r.init k(r) x)"
    assert not legality.check(program, tree, dependences.compute(program))


def test_the_first_block_is_where_the_first_term_is() -> None:
    program = model.build(triangle())
    tree = legality.with_inits(
        program, chain(program, "y", [("ko", "k // 2"), ("i", "i"), ("k", "k")])
    )
    assert outline(tree) == "ko(i(y.init k(y)))"
    outer = next(loop for loop in loops(tree) if loop.name == "ko")
    time = Places(tree, program, {"N": 5})
    blocks = {
        i.point[0]: time(i)[0]
        for i in brute.instances(triangle(), {"N": 5})
        if i.statement == "y.init"
    }
    # The first k of row i is i + 1; row 4 has no term and runs in the first block of all.
    assert blocks == {0: 0, 1: 1, 2: 1, 3: 2, 4: 0}
    assert isinstance(paths(tree)["y.init"][0], Loop) and outer.coords.keys() == {"y", "y.init"}
