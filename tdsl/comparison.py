"""One kernel's schedules and its peers against each other, as `tdsl bench` does it.

All get buffers of their own with the same values, and must agree in their results before anything
is timed. They run in turn (`tdsl.runtime.measure`). Kernels with const arguments are prepared
first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tdsl import driver
from tdsl.built import build
from tdsl.diagnostics import Error, UnsupportedTarget
from tdsl.ir.arguments import ArgumentPlan
from tdsl.ir.dtypes import storage_dtype
from tdsl.ir.kernel import Kernel
from tdsl.operations import Work
from tdsl.peers import Call, Peers
from tdsl.runtime.callable import CompiledKernel
from tdsl.runtime.measure import Timing, compare
from tdsl.runtime.memory import empty
from tdsl.runtime.peak import copy_seconds, peak
from tdsl.schedule.choose import holds, size_lets, variants
from tdsl.schedule.target import serves
from tdsl.syntax import tree
from tdsl.targets import Target, runnable

Values = np.ndarray[Any, Any]
Differs = Callable[[str, Values, Values], str | None]  # output, found, wanted -> in words

SMALL = 1 << 16  # bytes of arguments that are no matter
DOTS = {"int8": ("dpbusd", "vdotq_", "vusdot", "mmlaq_s32"), "bf16": ("dpbf16", "bfdot")}


@dataclass(frozen=True)
class Candidate:
    """What is timed: a schedule by name, or a peer."""

    name: str
    kind: str  # "schedule" or "peer"
    prepared: bool  # const arguments were packed beforehand
    call: Call
    outputs: Mapping[str, Values]
    source: str = ""  # C of a schedule


@dataclass(frozen=True)
class Row:
    """A candidate and its times. `limit`: what bounds the kernel here, "fma", "dot" or "copy"; `of`
    is the fraction of it that was reached."""

    candidate: Candidate
    timing: Timing
    rounds: int
    speed: float  # operations a second
    limit: str | None
    of: float | None


# ---------------------------------------------------------------- candidates


def chosen(front: driver.Compilation, label: str | None) -> list[tree.Schedule | None]:
    """The schedules that serve the target and hold for the sizes, each name once, in the order in
    which they are tried; None: the program's own order, where there is none."""
    target, lets = front.options.target, size_lets(front.file, front.kernel.name)
    found: dict[str, tree.Schedule | None] = {}
    for schedule in variants(front.file, front.kernel.name):
        name = schedule.variant or schedule.kernel
        if not any(serves(target, t) for t in schedule.targets) or label not in (None, name):
            continue
        if label is not None or holds(schedule.condition, front.kernel, {}, target, lets):
            found.setdefault(name, schedule)
    return list(found.values()) or [None]


def scheduled(
    front: driver.Compilation,
    schedule: tree.Schedule | None,
    module: str,
    given: Mapping[str, Values],
) -> Candidate:
    """A schedule, compiled, prepared and called once."""
    made = driver.resume(front, front.options, schedule)
    reason = runnable(front.options.target)
    built = build([made], module)
    if not isinstance(built, CompiledKernel):
        raise UnsupportedTarget.at(None, f"nothing can be timed: {reason}", help="--target native")
    buffers = _buffers(front.kernel, given)
    # Arguments that the schedule lays out are given so, and no time goes into that.
    stored = {name: built.laid_out(name, value) for name, value in buffers.items()}
    constants = [a.name for a in front.kernel.arguments if a.role == "const"]
    fast = built
    if constants:
        fast = built.prepare(**{name: stored[name] for name in constants})
    passed = {n: v for n, v in stored.items() if n not in constants}
    positional = [passed[a.name] for a in front.kernel.arguments if a.name in passed]
    call = partial(fast, *positional)
    call()
    results = {n: built.natural(n, stored[n], buffers[n].shape) for n in _outputs(front.kernel)}
    name, source = made.label or "own order", built.c_source
    return Candidate(name, "schedule", bool(constants), call, _copied(results), source)


def peer(kernel: Kernel, name: str, peers: Peers, given: Mapping[str, Values]) -> Candidate:
    """A peer, prepared and called once."""
    buffers = _buffers(kernel, given)
    call, finish = peers.prepare(kernel.name, name, buffers)
    call()
    if finish is not None:
        finish()
    packed = any(a.role == "const" for a in kernel.arguments)
    results = {n: buffers[n] for n in _outputs(kernel)}
    return Candidate(name, "peer", packed, call, _copied(results))


def _buffers(kernel: Kernel, given: Mapping[str, Values]) -> dict[str, Values]:
    """Copies of the inputs and room for the outputs, aligned alike."""
    plan = ArgumentPlan(kernel)
    sizes = plan.known(given)
    made = {}
    for array in kernel.arguments:
        if array.role == "out":
            made[array.name] = empty(
                tuple(plan.shape(array.name, sizes)), storage_dtype(array.type)
            )
            made[array.name][...] = np.zeros((), storage_dtype(array.type))
        else:
            value = np.asarray(given[array.name])
            made[array.name] = empty(value.shape, value.dtype)
            made[array.name][...] = value
    return made


def _outputs(kernel: Kernel) -> list[str]:
    return [a.name for a in kernel.arguments if a.is_written]


def _copied(results: Mapping[str, Values]) -> dict[str, Values]:
    """Results as they were after the first call."""
    return {name: value.copy() for name, value in results.items()}


def check(candidates: Sequence[Candidate], differs: Differs) -> None:
    """Raise Error where a candidate's results are not those of the first one."""
    first = candidates[0]
    for other in candidates[1:]:
        for name, want in first.outputs.items():
            found = differs(name, other.outputs[name], want)
            if found is not None:
                raise Error.at(None, f"{other.name} and {first.name} do not agree: {found}")


# ---------------------------------------------------------------- times


def timed(
    candidates: Sequence[Candidate],
    work: Work,
    target: Target,
    *,
    seconds: float,
    threads: int,
    tick: Callable[[float], None],
) -> Iterator[Row]:
    """All candidates in turn, about `seconds` for each; ratios are against the first one."""
    keys = [f"{c.kind} {c.name}" for c in candidates]
    calls = {key: c.call for key, c in zip(keys, candidates, strict=True)}
    clock = "cpu" if threads == 1 else "wall"
    found = compare(calls, baseline=keys[0], seconds=seconds, clock=clock, tick=tick)
    limit, least = _limit(candidates, work, target, threads)
    for key, candidate in zip(keys, candidates, strict=True):
        timing = found[key]
        of = None if least is None else least / timing.seconds
        yield Row(candidate, timing, found.rounds, work.total / timing.seconds, limit, of)


def _limit(
    candidates: Sequence[Candidate], work: Work, target: Target, threads: int
) -> tuple[str | None, float | None]:
    """What bounds the kernel on this machine, and the seconds that it cannot be below."""
    kind = _kind(candidates, work)
    best = None if kind is None else peak(kind, target.features, target.vector_bytes)
    computing = 0.0 if best is None else work.total / best / threads
    moving = copy_seconds(work.bytes) if work.bytes >= SMALL else 0.0
    if computing == moving == 0.0:
        return None, None
    if moving > computing:
        return "copy", moving
    return ("dot" if kind in DOTS else "fma"), computing


def _kind(candidates: Sequence[Candidate], work: Work) -> str | None:
    """The kind of multiply-add that the operations of a kernel may be done by."""
    for kind, names in DOTS.items():
        if any(name in c.source for c in candidates for name in names):
            return kind
    return work.type if work.type in ("f32", "f64") else None
