"""Expressions, recipes and knobs become integers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tdsl.diagnostics import IllegalSchedule
from tdsl.schedule.resolve import Resolved, resolve
from tdsl.syntax.parser import parse_directives
from tests.schedule.run import MATMUL, front, resolved, target

TILE = """
recipe register_tile(P, i, j, k, MR, NR, U = 4) {
    let W = 2 * U
    on P {
        tile j, i by NR, MR -> jo, io, ji, ii tail cases
        reorder jo, io, k, ii, ji
        unroll k by W plain
        unroll ii
        vectorize ji
    }
}
"""


def of(
    directives: str,
    on: str = "avx512",
    knobs: Mapping[str, int] | None = None,
    sizes: Mapping[str, int] | None = None,
    strict_fp: bool = False,
) -> Resolved:
    text = f"{MATMUL}{TILE}schedule matmul for any {{ {directives} }}"
    return resolved(front(text, sizes=sizes), on, knobs, strict_fp)


def same(made: Resolved, text: str) -> None:
    flat = tuple(step.written for step in made.steps)
    assert flat == parse_directives(text)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 * lanes(f32)", 32),
        ("lanes(f64) + lanes(i8)", 72),
        ("registers - 2", 30),
        ("min(7, 2 * 3, 9)", 6),
        ("max(7, 2 * 3, 9)", 9),
        ("select(registers == 32, 512, 256)", 512),
        ("select(2 < 3 < 3 or false, 1, 17 // 5)", 3),
        ("select(not registers < 32 and 1 <= 1, 17 % 5, 1)", 2),
        ("abs(3 - 8)", 5),
        ("N // 2", 32),
    ],
)
def test_expressions(expression: str, value: int) -> None:
    made = of(f"split C.i by {expression} -> a, b", sizes={"N": 64})
    same(made, f"split C.i by {value} -> a, b")


def test_floor_division_and_modulo_follow_python() -> None:
    same(of("split C.i by 9 + -7 // 2 -> a, b"), f"split C.i by {9 + -7 // 2} -> a, b")
    same(of("split C.i by 9 + -7 % 4 -> a, b"), f"split C.i by {9 + -7 % 4} -> a, b")
    same(of("split C.i by 9 + 1 // 0 + 1 % 0 -> a, b"), "split C.i by 9 -> a, b")


def test_targets_differ() -> None:
    same(of("split C.j by lanes(f32) -> a, b", "neon"), "split C.j by 4 -> a, b")
    same(of("split C.j by lanes(f32) -> a, b", "avx2"), "split C.j by 8 -> a, b")


def test_lets_are_seen_by_what_follows() -> None:
    same(of("let W = 8 let V = W * 2 split C.i by V -> a, b"), "split C.i by 16 -> a, b")
    with pytest.raises(IllegalSchedule, match="V is no value"):
        of("split C.i by V -> a, b let V = 2")


def test_an_unbound_size_is_refused_by_name() -> None:
    with pytest.raises(IllegalSchedule, match="the size N is not bound"):
        of("split C.i by 2 * N -> a, b")


# ---------------------------------------------------------------- recipes


def test_a_recipe_is_written_out() -> None:
    made = of("use register_tile(C, i, j, k, MR = 6, NR = 64)")
    same(
        made,
        """
        on C { tile j, i by 64, 6 -> jo, io, ji, ii tail cases }
        on C { reorder jo, io, k, ii, ji }
        on C { unroll k by 8 plain }
        on C { unroll ii }
        on C { vectorize ji }
        """,
    )


def test_names_of_loops_are_substituted_and_lets_stay_inside() -> None:
    made = of("let W = 3 use register_tile(Y, a, b, c, 6, 64, U = W) split C.i by W -> p, q")
    same(
        made,
        """
        on Y { tile b, a by 64, 6 -> jo, io, ji, ii tail cases }
        on Y { reorder jo, io, c, ii, ji }
        on Y { unroll c by 6 plain }
        on Y { unroll ii }
        on Y { vectorize ji }
        split C.i by 3 -> p, q
        """,
    )


def test_an_argument_is_evaluated_where_it_stands() -> None:
    # MR of the caller is an argument for NR, and the recipe's own MR another value.
    made = of("let MR = 2 use register_tile(C, i, j, k, MR = 6, NR = 8 * MR)")
    first = parse_directives("on C { tile j, i by 16, 6 -> jo, io, ji, ii tail cases }")
    assert made.directives[:1] == first


def test_recipes_may_use_recipes_but_not_themselves() -> None:
    text = f"""{MATMUL}
    recipe outer(P, x) {{ use inner(P, x, 2 * 4) }}
    recipe inner(S, y, F) {{ split S.y by F -> yo, yi }}
    schedule matmul for any {{ use outer(C, i) }}
    """
    same(resolved(front(text)), "split C.i by 8 -> yo, yi")
    loop = f"{MATMUL} recipe r(P) {{ use r(P) }} schedule matmul for any {{ use r(C) }}"
    with pytest.raises(IllegalSchedule, match="without end"):
        resolved(front(loop))


def test_a_loop_of_a_statement_may_be_an_argument() -> None:
    text = f"""{MATMUL}
    recipe lanes_of(x) {{ vectorize x }}
    schedule matmul for any {{ use lanes_of(C.j) }}
    """
    same(resolved(front(text)), "vectorize C.j")


# ---------------------------------------------------------------- knobs

KNOBS = """
let NV = tune(4, 3, 2)
let MR = tune(6, 8, 4)
require MR * NV + NV + 1 <= registers
split C.i by MR -> io, ii
split C.j by NV * lanes(f32) -> jo, ji
"""


def test_the_default_is_the_first_combination_that_satisfies_require() -> None:
    # 32 registers hold 6 rows of 4 vectors, 16 registers 6 rows of 2.
    assert of(KNOBS, "avx512").knobs == {"NV": 4, "MR": 6}
    assert of(KNOBS, "avx2").knobs == {"NV": 2, "MR": 6}


def test_given_knobs_stand_and_the_rest_adapts() -> None:
    assert of(KNOBS, "avx512", {"MR": 8}).knobs == {"NV": 3, "MR": 8}
    made = of(KNOBS, "avx512", {"NV": 2, "MR": 4})
    same(made, "split C.i by 4 -> io, ii split C.j by 32 -> jo, ji")
    with pytest.raises(IllegalSchedule, match="require: this does not hold"):
        of(KNOBS, "avx512", {"NV": 4, "MR": 8})


def test_knobs_are_checked() -> None:
    with pytest.raises(IllegalSchedule, match="there is no knob MX"):
        of(KNOBS, knobs={"MX": 8})
    with pytest.raises(IllegalSchedule, match="the knob MR may be 6, 8 or 4, not 5"):
        of(KNOBS, knobs={"MR": 5})


def test_candidates_may_depend_on_the_target() -> None:
    text = "let KC = tune(select(registers == 32, 512, 256), 384) split C.k by KC -> ko, ki"
    assert of(text, "avx512").candidates == {"KC": (512, 384)}
    assert of(text, "avx2").knobs == {"KC": 256}


def test_a_knob_is_no_value_of_another_knob() -> None:
    with pytest.raises(IllegalSchedule, match="cannot depend on A"):
        of("let A = tune(2, 4) let B = A * 2 let D = tune(B, 1)")


def test_an_integer_requirement_is_shown_with_its_values() -> None:
    with pytest.raises(IllegalSchedule, match="it says 3 >= 4"):
        of("let W = 3 require W >= 4")


def test_strict_fp_refuses_reassociate() -> None:
    assert len(of("reassociate C").steps) == 1
    with pytest.raises(IllegalSchedule, match="strict_fp keeps the order"):
        of("reassociate C", strict_fp=True)


def test_resolved_directives_resolve_to_themselves() -> None:
    made = of("use register_tile(C, i, j, k, MR = 6, NR = 2 * lanes(f32))")
    again = resolve(made.directives, target(), front(MATMUL).kernel)
    assert again.directives == made.directives
