"""What may be computed once for all calls."""

from __future__ import annotations

from dataclasses import replace

import islpy as isl
import pytest

from tdsl.polyhedral import model
from tdsl.polyhedral.prepared import const_sizes, prepared_program, why_not_prepared
from tdsl.polyhedral.program import Program
from tdsl.syntax.elaborate import elaborate
from tdsl.syntax.parser import parse


def program(text: str) -> Program:
    return model.build(elaborate(parse(text, "prepared.tdsl"), "k"))


def kernel(body: str, head: str = "", sizes: str = "M, N, K") -> Program:
    declared = "in x: f32[M]  const w: f32[N, K]  const s: f32  out y: f32[M]"
    return program(f"kernel k({sizes}) {{ {head} {declared} {body} }}")


SUM = "y[i] = x[i] + sum[a, b](u[a, b])"


@pytest.mark.parametrize(
    "body",
    [
        "u[a, b] = 2.0 * w[a, b] " + SUM,
        "u[a, b] = s * w[a, b] + f32(N) " + SUM,
        "const G: f32[2] = [1.0, 2.0] u[a, b] = G[a % 2] * w[a, b] " + SUM,
        "t[a] = sum[b](w[a, b]) u[a, b] = t[a] * w[a, b] " + SUM,
        "temp u: f32[N, K] u[a, b] = sum[c in 0..b](w[a, c]) " + SUM,
    ],
)
def test_what_is_made_of_const_arguments_and_their_sizes_is_prepared(body: str) -> None:
    made = kernel(body)
    names = [s for s in made.statements if made.statements[s].write.array in ("u", "t")]
    assert why_not_prepared(made, [n for n in names if not n.endswith(".init")]) is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("u[a, b] = x[0] * w[a, b]", "u reads x, which is no `const` argument"),
        ("u[a, b] = f32(M) * w[a, b]", "u computes with M, and no shape of a `const` argument"),
        ("t[a] = sum[b](w[a, b]) u[a, b] = t[a] * w[a, b]", "u reads t, which t.init writes"),
    ],
)
def test_what_differs_from_call_to_call_is_not(body: str, reason: str) -> None:
    made = kernel(body + " " + SUM, "assume M >= 1, N >= 1, K >= 1")
    found = why_not_prepared(made, ["u"])
    assert found is not None and found.startswith(reason)


def test_arguments_are_not_written_once() -> None:
    found = why_not_prepared(kernel("y[i] = x[i]"), ["y"])
    assert found == "y writes y, which is an argument of each call"


def test_a_domain_that_another_size_bounds_is_not() -> None:
    made = kernel(
        "temp u: f32[N, K] u[a, b] = w[a, b] where a < M u[a, b] = 0.0 where a >= M " + SUM
    )
    found = why_not_prepared(made, [s for s in made.statements if s.startswith("u")])
    assert found == "the instances of u_1 depend on M, and no shape of a `const` argument tells M"


def test_an_extent_of_another_size_is_not() -> None:
    made = kernel("temp u: f32[M] u[i] = s y[i] = u[i] * x[i] + w[0, 0]", "assume N >= 1, K >= 1")
    found = why_not_prepared(made, ["u"])
    assert found == "u has the extent M, and no shape of a `const` argument tells M"


def test_an_assumption_about_other_sizes_leaves_what_it_says_of_these() -> None:
    body = "u[a, b] = w[a + 2, b] y[i] = x[i] + sum[a in 0..2, b](u[a, b])"
    made = kernel(body, "assume M >= 4, N >= M")
    assert why_not_prepared(made, ["u"]) is None
    seen = prepared_program(replace(made, prepared=frozenset({"u"})))
    assert str(seen.statements["u"].domain).count("p0") == 1  # its declaration
    domain, (n, _) = seen.statements["u"].domain, ("p1", "p2")
    assert domain.params().is_subset(isl.Set(f"[p0, {n}, p2] -> {{ : {n} >= 4 }}"))
    assert seen.context.is_equal(
        isl.Set("[p0, p1, p2] -> { : 0 <= p1 < 1099511627776 and 0 <= p2 < 1099511627776 }")
    )


def test_sizes_that_const_shapes_determine() -> None:
    declared = "in x: f32[M] const w: f32[2 * N + 1] const v: f32[N + K] out y: f32[M]"
    made = program(f"kernel k(M, N, K) {{ {declared} y[i] = x[i] }}")
    assert const_sizes(made.kernel) == {"N"}


def test_sizes_that_are_equal_to_each_other_alone_do_not_tell_them() -> None:
    body = "temp u: f32[N, K] u[a, b] = w[a, b] where a < M u[a, b] = 0.0 where a >= M "
    made = kernel(
        body + SUM.replace("x[i]", "x[i] + z[i]"), "assume M == L in z: f32[L]", "M, L, N, K"
    )
    found = why_not_prepared(made, ["u_1", "u_2"])
    assert found is not None and found.startswith("the instances of u_1 depend on M")
