"""Compares the speed of functions where absolute times mean little.

Clock rates, caches and neighbours drift by more than the differences that matter. So candidates
and a baseline run in turn, in short batches; each round gives one ratio a candidate, in which the
drift cancels; the median of the ratios is the result, and their spread says what it is worth.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

BATCH = 0.003  # seconds of one batch: long for the clock, short for the drift
WAKING = 0.02  # seconds: a few ticks of the scheduler
CLOCKS = {"cpu": time.thread_time_ns, "wall": time.perf_counter_ns}

Call = Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """One candidate. `seconds` and `best` are of one call; `ratio` is against the baseline.

    `ratio` below 1 is faster than the baseline. Half of the rounds lie between `low` and `high`.
    """

    seconds: float
    best: float
    ratio: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """Width of the middle half of the ratios, relative to their median."""
        return (self.high - self.low) / self.ratio if self.ratio else math.inf

    @property
    def speed(self) -> float:
        """How many times as fast as the baseline."""
        return 1 / self.ratio if self.ratio else math.inf


@dataclass(frozen=True)
class Comparison:
    """Timings by name, the baseline's too, and the number of rounds behind them."""

    baseline: str
    rounds: int
    timings: Mapping[str, Timing]

    def __getitem__(self, name: str) -> Timing:
        return self.timings[name]

    def __str__(self) -> str:
        width = max(map(len, self.timings))
        return "\n".join(
            f"{name:{width}}  {timing.seconds * 1e6:12.3f} us  "
            f"{timing.ratio:7.3f} of {self.baseline}  (spread {timing.spread:.1%})"
            for name, timing in self.timings.items()
        )


def compare(
    candidates: Mapping[str, Call],
    *,
    baseline: str,
    seconds: float = 0.1,
    clock: str = "cpu",
    minimum_rounds: int = 5,
    pause: float = 0.0,
    tick: Callable[[float], None] | None = None,
) -> Comparison:
    """Time the candidates against the one named `baseline`, about `seconds` for each.

    The clock "cpu" counts the time of the calling thread alone and ignores what else the machine
    does; functions that start threads need "wall". pause: seconds before each batch, since idle
    threads of the candidate before keep a processor busy for a while. Then calls for WAKING are not
    counted: its own threads wake on one processor until the system spreads them. tick: told after
    each round how much of the time is spent.
    """
    if baseline not in candidates:
        raise ValueError(f"the baseline {baseline!r} is not among {', '.join(candidates)}")
    read = CLOCKS[clock]
    calls = {name: _calls_in_batch(call, read) for name, call in candidates.items()}
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    order = list(candidates)
    rounds = 0
    collecting = gc.isenabled()
    gc.disable()
    try:
        start, wanted = time.perf_counter(), seconds * len(candidates)
        while rounds < minimum_rounds or time.perf_counter() < start + wanted:
            for name in order:
                if pause:
                    time.sleep(pause)
                    _wake(candidates[name])
                samples[name].append(_batch(candidates[name], calls[name], read))
            order.reverse()  # nobody always comes after the same one
            rounds += 1
            if tick is not None:
                tick(min(1.0, (time.perf_counter() - start) / max(wanted, BATCH)))
    finally:
        if collecting:
            gc.enable()
    return Comparison(
        baseline,
        rounds,
        {name: _timing(found, samples[baseline]) for name, found in samples.items()},
    )


def _wake(call: Call) -> None:
    start = time.perf_counter()
    while time.perf_counter() < start + WAKING:
        call()


def _calls_in_batch(call: Call, read: Callable[[], int]) -> int:
    """How many calls fill a batch; warms caches and branch predictors on the way."""
    calls = 1
    while True:
        spent = _batch(call, calls, read) * calls
        if spent >= BATCH / 2:
            return max(1, round(calls * BATCH / spent))
        calls *= 2


def _batch(call: Call, calls: int, read: Callable[[], int]) -> float:
    """Seconds of one call."""
    start = read()
    for _ in range(calls):
        call()
    return (read() - start) * 1e-9 / calls


def _timing(samples: list[float], baseline: list[float]) -> Timing:
    ratios = [s / b for s, b in zip(samples, baseline, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Timing(statistics.median(samples), min(samples), middle, low, high)
