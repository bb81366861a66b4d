"""Refusals in words."""

from __future__ import annotations

from tdsl.diagnostics import BudgetExceeded, render
from tdsl.polyhedral import dependences, explain, legality, model
from tdsl.polyhedral.tree import Leaf, loops
from tests.polyhedral import samples
from tests.polyhedral.build import kernel, stmt
from tests.polyhedral.orders import chain, shared


def test_an_order() -> None:
    program = model.build(samples.seidel())
    tree = chain(program, "S", [("j", "j"), ("t", "t"), ("i", "i")])
    violations = legality.check(program, tree, dependences.compute(program))
    anti = next(v for v in violations if v.dependence and v.dependence.kind == "anti")
    text = render(
        explain.describe_violation(
            program, anti, directive="reorder j, t, i", help="`skew j by t` first"
        )
    )
    # In the written order A[1, 2] is averaged before A[2, 1] below it changes.
    assert text == (
        "error[schedule]: `reorder j, t, i` would run S(t=0, i=2, j=1) before S(t=0, i=1, j=2), "
        "which must run first, with T=1, N=4\n"
        "note: anti dependence through A[2, 1]: S(t=0, i=1, j=2) reads it\n"
        "note: and then S(t=0, i=2, j=1) overwrites it\n"
        "help: `skew j by t` first"
    )


def test_a_sum() -> None:
    program = model.build(samples.matmul())
    tree = chain(program, "C", [("i", "i"), ("j", "j"), ("k", "-k")])
    tree = legality.with_inits(program, tree)
    (violation,) = legality.check(program, tree, dependences.compute(program))
    text = render(explain.describe_violation(program, violation))
    assert "this order would run C(i=0, j=0, k=1) before C(i=0, j=0, k=0)" in text
    assert "with N=1, M=1, K=2" in text
    assert "note: reduction through C[0, 0]: C(i=0, j=0, k=0) updates it" in text


def test_threads_and_lanes() -> None:
    program = model.build(samples.matmul())
    tree = legality.with_inits(program, chain(program, "C", [(n, n) for n in "kij"]))
    loop = next(x for x in loops(tree) if x.name == "k")
    found = dependences.compute(program)
    start, parallel = legality.check_parallel(program, tree, found, loop)
    assert (start.source, start.sink) == ("C.init", "C"), "the first term stands in the loop"
    (vector,) = legality.check_vector(program, tree, found, loop)
    pair = "C(i=0, j=0, k=0) and C(i=0, j=0, k=1)"
    text = explain.describe_violation(program, parallel, directive="parallel k").message
    assert text == f"`parallel k` would run {pair} at the same time, with N=1, M=1, K=2"
    text = explain.describe_violation(program, vector, directive="vectorize k").message
    assert text == f"`vectorize k` would run {pair} in lanes of one vector, with N=1, M=1, K=2"


def test_two_statements() -> None:
    k = kernel(
        "N",
        {"a": "in N", "t": "temp N", "y": "out N"},
        [
            stmt("t", "t[i]", "i", "0 <= i < N", ["a[i]"]),
            stmt("y", "y[i]", "i", "0 <= i < N", ["t[N - 1 - i]"]),
        ],
    )
    program = model.build(k)
    tree = shared(program, "i", {"t": "i", "y": "i"}, Leaf("t"), Leaf("y"))
    (violation,) = legality.check(program, tree, dependences.compute(program))
    text = render(explain.describe_violation(program, violation, directive="fuse t.i, y.i -> i"))
    assert "would run y(i=0) before t(i=1), which must run first, with N=2" in text
    assert "flow dependence through t[1]: t(i=1) writes it" in text
    assert "and then y(i=0) reads it" in text
    assert violation.loop == next(loops(tree)).name


def test_a_suggestion_is_checked_before_it_is_made() -> None:
    def undecided() -> bool:
        raise BudgetExceeded.at(None, "too much")

    tried = [("reverse i", lambda: False), ("skew j by i", undecided), ("split", lambda: True)]
    assert explain.first_that_works(tried) == "split"
    assert explain.first_that_works(tried[:2]) is None
