"""Rows of NEON's extensions for numbers of 16 bits, which are kept as their bits.

Sums, products, quotients and roots of f16 that are computed in f32 and rounded are those that are
computed in f16: 24 bits are enough for that. So these rows change no bit.
"""

from __future__ import annotations

from collections.abc import Iterator

from tdsl.targets.neon import COMPARISONS, HEADER, ROUNDING
from tdsl.targets.rows import Row, Table, table

_BINARY = ("add", "sub", "mul", "div", "min", "max")
_UNARY = {"sqrt": "sqrt", "neg": "neg", "abs": "abs", **ROUNDING}


def _f16() -> Iterator[Row]:
    for q, lanes in (("q", 8), ("", 4)):
        bits, number = f"vreinterpret{q}_u16_f16", f"vreinterpret{q}_f16_u16"
        one, two = f"{number}({{0}})", f"{number}({{0}}), {number}({{1}})"
        for op in _BINARY:
            yield Row(op, "f16", lanes, f"{bits}(v{op}{q}_f16({two}))", "fp16", HEADER)
        for op, name in _UNARY.items():
            yield Row(op, "f16", lanes, f"{bits}(v{name}{q}_f16({one}))", "fp16", HEADER)
        for op, name in COMPARISONS.items():
            yield Row(op, "f16", lanes, f"v{name}{q}_f16({two})", "fp16", HEADER)
        yield Row("ne", "f16", lanes, f"(~vceq{q}_f16({two}))", "fp16", HEADER)


def _bf16() -> Iterator[Row]:
    template = "vreinterpret_u16_bf16(vcvt_bf16_f32({0}))"
    yield Row("convert.f32", "bf16", 4, template, "bf16", HEADER)


FP16: Table = table(_f16())
BF16: Table = table(_bf16())
