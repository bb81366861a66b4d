"""The budget of a whole compilation: what is too much is refused, at a line, with a way out."""

from __future__ import annotations

import islpy as isl
import pytest

from tdsl.diagnostics import BudgetExceeded
from tdsl.polyhedral import budget
from tdsl.polyhedral.known import MOST_PARTS, is_large
from tests.language.run import lowered
from tests.polyhedral.build import expr

TRIANGLE = """
kernel tri(N, M) {
    in  L: f32[N, N]
    in  X: f32[N, M]
    out y: f32[N, M]

    y[i, c] = sum[j in 0..N where j <= i](L[i, j] * X[j, c])
}

schedule tri for any {
    split i by 5 -> io, ii
    unroll ii
}
"""


POINTS = isl.Set("{ [i, j, k] : 0 <= i < 97 and i <= 3j <= 2i + 5 and 0 <= k < 7 }")


def work() -> None:
    """A few thousand operations of isl."""
    for _ in range(20):
        assert not POINTS.lexmin().is_empty()


def test_questions_of_one_compilation_share_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "WHOLE", 1000)
    monkeypatch.setattr(budget, "FIRST_SLICE", 100)

    @budget.bounded("something hard")
    def hard() -> None:
        work()

    with budget.compilation():
        with pytest.raises(BudgetExceeded, match="something hard was not decided within 1,000"):
            hard()
        with pytest.raises(BudgetExceeded, match="the questions before it had used them up"):
            hard()
    work()


def test_what_is_no_question_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "WHOLE", 100)
    with pytest.raises(BudgetExceeded, match="what the compiler computes"), budget.compilation():
        work()
    work()


def test_a_question_that_may_stay_open_has_a_budget_of_its_own() -> None:
    @budget.bounded("something optional", 100)
    def optional() -> None:
        work()

    with pytest.raises(BudgetExceeded, match="within 100 operations"):
        optional()


@pytest.mark.parametrize("whole", [2_000, 20_000])
def test_a_refusal_has_a_line_and_help(monkeypatch: pytest.MonkeyPatch, whole: int) -> None:
    monkeypatch.setattr(budget, "WHOLE", whole)
    monkeypatch.setattr(budget, "FIRST_SLICE", whole)
    with pytest.raises(BudgetExceeded) as caught:
        lowered(TRIANGLE, "tri")
    text = str(caught.value)
    assert "--> t.tdsl:" in text
    assert "^^^" in text
    assert "help: bind sizes" in text
    monkeypatch.undo()
    lowered(TRIANGLE, "tri")


def test_large_conditions_are_not_looked_at() -> None:
    small = expr("i < N")
    assert not is_large(small)
    assert is_large(expr(" + ".join(["i"] * (MOST_PARTS + 1)) + " < N"))
