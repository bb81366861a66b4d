"""Kernels from text: proofs with places, and the tour's kernels in their own order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tdsl.diagnostics import render
from tdsl.ir.kernel import Kernel
from tdsl.polyhedral import dependences, legality, model, proofs
from tdsl.syntax.elaborate import elaborate
from tdsl.syntax.parser import parse

TOUR = Path(__file__).parents[3] / "shared" / "language"


def one(text: str) -> Kernel:
    return elaborate(parse(text, "k.tdsl"), "k")


def messages(text: str) -> list[str]:
    return [render(d) for d in proofs.diagnose(model.build(one(text)))]


@pytest.mark.skipif(not TOUR.exists(), reason="the tour is not beside the checkout")
@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("blur", "blur"), ("conv2d", "conv2d"), ("dynamic", "bicg"), ("dynamic", "nussinov"),
        ("fdtd2d", "fdtd2d"), ("lu", "lu"), ("matmul", "matmul"), ("qconv2d", "qconv2d"),
        ("seidel2d", "seidel2d"), ("softmax", "softmax"), ("winograd", "winograd"),
    ],
)  # fmt: skip
def test_the_tour_is_proved_and_its_own_order_legal(file: str, name: str) -> None:
    path = TOUR / f"{file}.tdsl"
    program = model.build(elaborate(parse(path.read_text(), path.name), name))
    proofs.prove(program)
    tree = legality.with_inits(program, model.initial_tree(program))
    assert not legality.check(program, tree, dependences.compute(program))
    assert not legality.check_once(program, tree)


def test_a_sum_beyond_its_table() -> None:
    (text,) = messages(
        "kernel k() {\n    in t: f32[3]\n    out B: f32[1]\n    B[i] = sum[k in 0..64](t[k])\n}\n"
    )
    assert text.startswith("error[bounds]: t[k] leaves t: B(i=0, k=3) reads t[3]")
    assert "4 |     B[i] = sum[k in 0..64](t[k])\n  |                            ^^^^" in text
    assert "B reads t[3..63]" in text


def test_a_stencil_that_reads_beyond_its_border() -> None:
    text, *_ = messages(
        "kernel k(N) {\n    in x: f32[N]\n    out y: f32[N]\n    y[i] = x[i] + x[i + 1]\n}\n"
    )
    assert "x[i + 1] leaves x: with N=1, y(i=0) reads x[1]" in text
    assert "k.tdsl:4:19" in text
    padded = "kernel k(N) { in x: f32[N] out y: f32[N] y[i] = x[i] + padded(x[i + 1], 0.0) }"
    assert messages(padded) == []


def test_missing_sizes_are_said_as_an_assumption() -> None:
    declared = "kernel k(N, M) {{ {} in x: f32[M] out y: f32[N] y[i] = x[i] }}"
    (text,) = messages(declared.format(""))
    assert text.endswith("help: assume M >= N")
    assert messages(declared.format("assume M >= N")) == []


def test_a_byte_as_an_index_has_its_range() -> None:
    def lookup(extent: int) -> list[str]:
        return messages(
            f"kernel k(N) {{ in x: u8[N] in t: f32[{extent}] out y: f32[N] y[i] = t[x[i]] }}"
        )

    assert lookup(256) == []
    assert "y(i=0) may read t[255]" in lookup(255)[0]


def test_an_update_of_an_out_needs_its_first_value() -> None:
    (text,) = [
        t
        for t in messages("kernel k(N) { in x: f32[N] out y: f32[N] y[i] += x[i] }")
        if "before" in t
    ]
    assert "this updates y, an output, whose elements have no value before" in text
    assert "inout y" in text
