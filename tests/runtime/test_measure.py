"""Comparing speeds: what is slower by a factor is found to be, within what noise allows."""

import gc
from collections.abc import Callable

import pytest

from tdsl.runtime import measure
from tdsl.runtime.measure import Comparison, Timing, compare


def work(amount: int) -> int:
    return sum(range(amount))


class Machine:
    """A clock that candidates push on, on a machine that gets slower and slower."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slowness = 1.0

    def read(self) -> int:
        return round(self.now)

    def costing(self, nanoseconds: float) -> Callable[[], None]:
        def call() -> None:
            self.now += nanoseconds * self.slowness
            self.slowness *= 1.00001

        return call


def test_ratios_are_right_where_times_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    monkeypatch.setitem(measure.CLOCKS, "cpu", machine.read)
    calls = {name: machine.costing(c) for name, c in [("a", 1e5), ("b", 1e5), ("c", 3e5)]}
    result = compare(calls, baseline="a", seconds=0.0, minimum_rounds=201)
    assert machine.slowness > 1.1  # over the whole run, and yet:
    assert result.rounds == 201
    assert result["a"].ratio == 1 and result["a"].spread == 0
    assert result["b"].ratio == pytest.approx(1, rel=2e-3)
    assert result["c"].ratio == pytest.approx(3, rel=2e-3)
    assert result["c"].speed == 1 / result["c"].ratio
    assert result["c"].low <= result["c"].ratio <= result["c"].high
    assert 3e-4 <= result["c"].best < result["c"].seconds
    assert list(result.timings) == ["a", "b", "c"]


@pytest.mark.parametrize("clock", ["cpu", "wall"])
def test_more_work_takes_longer_by_the_real_clocks(clock: str) -> None:
    calls = {"little": lambda: work(2_000), "much": lambda: work(100_000)}
    result = compare(calls, baseline="little", seconds=0.05, clock=clock)
    assert result["much"].ratio > 5  # of 50: the machine is not ours alone
    assert gc.isenabled()


def test_rounds_follow_the_time_and_are_enough() -> None:
    calls = {"a": lambda: work(1000), "b": lambda: work(1000)}
    few = compare(calls, baseline="a", seconds=0.0)
    assert few.rounds == 5
    assert compare(calls, baseline="a", seconds=0.1).rounds > 5


def test_a_pause_before_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    calls = {"a": lambda: work(1000), "b": lambda: work(1000)}
    assert compare(calls, baseline="a", seconds=0.0, pause=0.25).rounds == 5
    assert slept == [0.25] * 10
    compare(calls, baseline="a", seconds=0.0)
    assert len(slept) == 10


def test_an_unknown_baseline() -> None:
    with pytest.raises(ValueError, match="the baseline 'c' is not among a, b"):
        compare({"a": gc.isenabled, "b": gc.isenabled}, baseline="c")


def test_a_candidate_that_fails_is_heard_and_leaves_the_collector_on() -> None:
    calls = 0

    def fails_later() -> None:
        nonlocal calls
        calls += 1
        if calls > 20:
            raise RuntimeError("failed")
        work(200_000)

    with pytest.raises(RuntimeError, match="failed"):
        compare({"a": fails_later}, baseline="a", seconds=60)
    assert gc.isenabled()


def test_the_table() -> None:
    result = Comparison(
        "numpy",
        9,
        {"numpy": Timing(2e-6, 1e-6, 1, 1, 1), "ours": Timing(1e-6, 9e-7, 0.5, 0.49, 0.51)},
    )
    assert str(result) == (
        "numpy         2.000 us    1.000 of numpy  (spread 0.0%)\n"
        "ours          1.000 us    0.500 of numpy  (spread 4.0%)"
    )
