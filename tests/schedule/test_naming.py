"""Which loops a directive's names mean."""

from __future__ import annotations

import pytest

from tdsl.diagnostics import IllegalSchedule
from tdsl.polyhedral.tree import loops_of
from tdsl.schedule.state import Scheduled
from tests.schedule.run import on_matmul, scheduled

TWO = """
kernel two(N) {
    inout A, B: f32[N, N]
    for t in 0..4 {
        for i in 0..N, j in 0..N { S: A[i, j] = A[i, j] + 1.0 }
        for i in 0..N, j in 0..N { T: B[i, j] = B[i, j] + 1.0 }
    }
}
schedule two for any {
"""


def names(made: Scheduled, statement: str) -> list[str]:
    return [loop.name for loop in loops_of(made.tree, statement)]


def marks(made: Scheduled, statement: str) -> dict[str, str]:
    return {loop.name: loop.mark for loop in loops_of(made.tree, statement)}


def two(directives: str) -> Scheduled:
    return scheduled(TWO + directives + "\n}")


def test_a_bare_name_of_a_starred_directive_means_every_loop() -> None:
    made = two("split j by 8 -> jo, ji\nvectorize ji")
    for statement in ("S", "T"):
        assert marks(made, statement) == {
            "t": "serial",
            "i": "serial",
            "jo": "serial",
            "ji": "vector",
        }


def test_a_qualified_name_means_one_loop() -> None:
    made = two("split S.j by 8 -> jo, ji")
    assert names(made, "S") == ["t", "i", "jo", "ji"]
    assert names(made, "T") == ["t", "i", "j"]


def test_a_shared_loop_is_one_thing() -> None:
    made = two("split S.t by 2 -> to, ti")
    assert names(made, "T")[:2] == ["to", "ti"]
    made = two("on S, T { split t by 2 -> to, ti }")
    assert names(made, "S") == ["to", "ti", "i", "j"] == names(made, "T")


def test_names_inside_on_belong_to_each_statement_in_turn() -> None:
    made = two("on S, T { reorder j, i }")
    assert names(made, "S") == ["t", "j", "i"] == names(made, "T")
    made = two("on S { reorder j, i\n on T { unroll i by 4 } }")
    assert names(made, "S") == ["t", "j", "i"]
    assert names(made, "T") == ["t", "i", "i_u", "j"]


def test_other_directives_want_one_loop() -> None:
    with pytest.raises(IllegalSchedule, match=r"j may be S\.j or T\.j"):
        two("reorder j, i")


def test_names_are_resolved_in_text_order() -> None:
    made = two("split S.i by 8 -> a, b\nsplit S.b by 4 -> c, d")
    assert names(made, "S") == ["t", "a", "c", "d", "j"]
    with pytest.raises(IllegalSchedule, match="there is no loop i around S"):
        two("split S.i by 8 -> a, b\nsplit S.i by 4 -> c, d")


def test_a_loop_elsewhere_is_named() -> None:
    with pytest.raises(IllegalSchedule, match=r"S\.a is elsewhere"):
        two("split S.i by 8 -> a, b\nunroll T.a by 2")


def test_an_array_written_by_several_statements_means_all() -> None:
    text = """
    kernel parts(N) {
        out C: f32[N]
        C[i] = 1.0 where i < N // 2
        C[i] = 2.0 where i >= N // 2
    }
    schedule parts for any { vectorize C.i }
    """
    made = scheduled(text)
    for statement in ("C_1", "C_2"):
        assert marks(made, statement) == {"i": "serial", "i_v": "vector"}


def test_a_name_of_a_path_may_be_used_on_another() -> None:
    made = two("split S.i by 8 -> a, b\nsplit T.j by 8 -> a, b")
    assert names(made, "S") == ["t", "a", "b", "j"]
    assert names(made, "T") == ["t", "i", "a", "b"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("C.init", "C.init follows C: its loops cannot be named"),
        ("Y.init", "there is no loop init around Y"),  # no reduction: it has no first term
    ],
)
def test_first_terms_are_not_scheduled(name: str, said: str) -> None:
    with pytest.raises(IllegalSchedule, match=said):
        on_matmul(f"unroll {name} by 2")
