"""Random schedules: what is accepted keeps the order of every pair that shares an element.

The pairs come from enumeration at small sizes, not from the dependence analysis: instances in
the order of the program, the elements that they touch read off their access maps.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence

import islpy as isl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tdsl.diagnostics import IllegalSchedule
from tdsl.polyhedral.edit import jammed
from tdsl.polyhedral.legality import with_inits
from tdsl.polyhedral.model import initial_tree
from tdsl.polyhedral.program import Program, Violation
from tdsl.polyhedral.tree import Node, loops_of
from tdsl.schedule.builder import Schedule
from tests.schedule import programs
from tests.schedule.run import Front, front, target

KERNELS = {
    "product": """
    kernel product(N) {
        in  A, B: f32[N, N]
        out C: f32[N, N]
        C[i, j] = sum[k](A[i, k] * B[k, j])
    }""",
    "maxima": """
    kernel maxima(N) {
        assume N >= 1
        in  x: i32[N, N]
        out m: i32[N]
        m[i] = max[j](x[i, j])
    }""",
    "sweep": """
    kernel sweep(N) {
        inout A: f64[N, N]
        for i in 1..N, j in 1..N-1 { S: A[i, j] = A[i, j] + A[i - 1, j + 1] }
    }""",
    "chain": """
    kernel chain(N) {
        in  x: f32[N + 1]
        out y: f32[N]
        t[i] = 2.0 * x[i]
        y[i] = t[i] + t[i + 1]
    }""",
    "pair": """
    kernel pair(N) {
        inout A: f64[N]
        inout B: f64[N]
        for t in 0..3 {
            for i in 1..N { S: A[i] = A[i - 1] + B[i] }
            for i in 0..N { T: B[i] = 0.5 * A[i] }
        }
    }""",
}
SIZES = {"N": 5}


@functools.cache
def kernel(name: str) -> Front:
    return front(KERNELS[name])


Instance = tuple[str, tuple[int, ...]]


@functools.cache
def pairs(name: str) -> frozenset[tuple[Instance, Instance]]:
    """Pairs in the program's order that touch one element, one of them writing; the updates of
    one reduction among themselves are left out where they may change order."""
    program = kernel(name).program
    run = programs.order(program, with_inits(program, initial_tree(program)), SIZES)
    touched = {instance: touches(program, instance) for instance in run}
    return frozenset(
        (a, b)
        for a, b in itertools.combinations(run, 2)
        if conflict(touched[a], touched[b]) and not (name == "maxima" and a[0] == b[0] == "m")
    )


def touches(program: Program, instance: Instance) -> list[tuple[bool, str, str]]:
    """(written, array, element) of one instance."""
    stmt = program.statements[instance[0]]
    point = isl.Set.universe(stmt.domain.get_space())
    for position, value in enumerate(instance[1]):
        point = point.fix_val(isl.dim_type.set, position, isl.Val(value))
    found = []
    for written, access in [(True, stmt.write), *((False, r) for r in stmt.reads)]:
        elements = point.apply(access.map).fix_val(isl.dim_type.param, 0, isl.Val(SIZES["N"]))
        if not elements.is_empty():
            found.append((written, access.array, str(elements.lexmin())))
    return found


def conflict(a: Sequence[tuple[bool, str, str]], b: Sequence[tuple[bool, str, str]]) -> bool:
    return any((x[0] or y[0]) and x[1:] == y[1:] for x in a for y in b)


def broken(name: str, tree: Node) -> set[tuple[Instance, Instance]]:
    program = kernel(name).program
    final = jammed(with_inits(program, tree))
    place = {x: k for k, x in enumerate(programs.order(program, final, SIZES))}
    assert len(place) == len(programs.order(program, with_inits(program, tree), SIZES))
    return {(a, b) for a, b in pairs(name) if place[a] > place[b]}


@st.composite
def directive(draw: st.DrawFn, s: Schedule, number: int) -> str:
    statement = draw(
        st.sampled_from([n for n, x in s.program.statements.items() if x.init_of is None])
    )
    loops = [f"{statement}.{x.name}" for x in loops_of(s.tree, statement)]
    first = draw(st.sampled_from(loops))
    second = draw(st.sampled_from(loops))
    factor = draw(st.integers(1, 4))
    tail = draw(st.sampled_from(["", " tail balanced"]))
    names = f"a{number}, b{number}"
    return draw(
        st.sampled_from(
            [
                f"split {first} by {factor} -> {names}{tail}",
                f"reorder {first}, {second}",
                f"tile {first}, {second} by {factor}, 2 -> {names}, c{number}, d{number}",
                f"reverse {first}",
                f"skew {first} by {second.split('.')[1]}",
                f"shift {first} by {factor - 2}",
                f"unroll {first} by {factor}",
                f"unroll {first} by {factor} plain",
                f"distribute {first}",
                f"collapse {first}, {second} -> a{number}",
            ]
        )
    )


@pytest.mark.parametrize("name", KERNELS)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_accepted_schedules_keep_the_order(name: str, data: st.DataObject) -> None:
    s = Schedule(kernel(name).program, target())
    for number in range(data.draw(st.integers(1, 4))):
        text = data.draw(directive(s, number))
        try:
            s.add(text)
        except IllegalSchedule as error:
            for violation in error.violations:
                real(name, violation)
    assert broken(name, s.complete().tree) == set()


def real(name: str, violation: Violation) -> None:
    """The two iterations of a witness do share an element in the order of the program."""
    pair = violation.witness
    assert pair is not None
    program = kernel(name).program
    sizes: Mapping[str, int] = pair.sizes
    run = programs.order(program, with_inits(program, initial_tree(program)), sizes)
    source, sink = (violation.source, pair.source), (violation.sink, pair.sink)
    assert run.index(source) < run.index(sink)
