"""What this machine can do at best: multiply-adds a second in registers, bytes a second copied.

Loops of independent multiply-adds on full registers are built as kernels are. Nothing else is as
fast, so that a kernel's speed can be told as a fraction.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from tdsl.runtime.build import load
from tdsl.runtime.interface import BuildRequest
from tdsl.runtime.memory import empty

# Chains of additions: more than the latency of two units, so that no order of them leaves one idle.
CHAINS, IN_16_REGISTERS = 20, 12
TRIPS = 100_000
ROUNDS = 20
SETTLED = 1 << 20  # bytes

# Starting values come from outside: what a compiler knows, it computes.
_TEXT = """\
#include <stdint.h>
{include}
typedef {vector};
void peak(int64_t n, const vec *in, vec *out)
{{
    const vec x = in[0], y = in[1];
    vec {sums};
    for (int64_t i = 0; i < n; i++) {{
{steps}
    }}
{stores}
}}
"""


@dataclass(frozen=True)
class _Form:
    """A multiply-add on vectors of `bytes`: C of the type, of one step, what it needs, and how
    many multiplications and additions a step is."""

    vector: str
    step: str
    flags: tuple[str, ...]
    bytes: int
    operations: int
    include: str = ""


def _floats(name: str, size: int, features: frozenset[str], width: int) -> _Form:
    flags = tuple(f"-m{f}" for f in ("avx512f", "avx2", "fma") if f in features)
    vector = f"{name} vec __attribute__((vector_size({width})))"
    return _Form(vector, "{sum} = x * {sum} + y;", flags, width, 2 * width // size)


def _dot(kind: str, features: frozenset[str], width: int) -> _Form | None:
    """The widest instruction that adds products of bytes (of bf16) in groups."""
    lanes = width // 4
    if kind == "int8" and features & {"avx512vnni", "avxvnni"}:
        wide = "avx512vnni" in features and width == 64
        name, flag = ("_mm512", "-mavx512vnni") if wide else ("_mm256", "-mavxvnni")
        bits = 512 if wide else 256
        step = f"{{sum}} = {name}_dpbusd{'' if wide else '_avx'}_epi32({{sum}}, x, y);"
        operations = 2 * 4 * bits // 32
        return _Form(f"__m{bits}i vec", step, (flag,), bits // 8, operations, "immintrin.h")
    if kind == "bf16" and "avx512bf16" in features:
        step = "{sum} = _mm512_dpbf16_ps({sum}, (__m512bh)x, (__m512bh)y);"
        return _Form("__m512 vec", step, ("-mavx512bf16",), 64, 2 * 2 * lanes, "immintrin.h")
    if kind == "int8" and "dotprod" in features:
        step = "{sum} = vdotq_s32({sum}, vreinterpretq_s8_s32(x), vreinterpretq_s8_s32(y));"
        march = ("-march=armv8.2-a+dotprod",)
        return _Form("int32x4_t vec", step, march, 16, 2 * 4 * 4, "arm_neon.h")
    return None


@dataclass(frozen=True)
class Busy:
    """A call that does nothing but multiply-adds, and how many operations it does."""

    call: Callable[[], object]
    operations: int


@cache
def peak(kind: str, features: frozenset[str], width: int) -> float | None:
    """Operations a second of one thread (a multiply-add is two) on registers of `width` bytes, of
    the kinds f32, f64, int8 and bf16; None where there is no such instruction."""
    found = busy(kind, features, width)
    return None if found is None else found.operations / _best(found.call)


@cache
def busy(kind: str, features: frozenset[str], width: int) -> Busy | None:
    """What `peak` measures, to be timed beside a kernel: clock rates drift."""
    if kind in ("f32", "f64"):
        name, size = ("float", 4) if kind == "f32" else ("double", 8)
        form: _Form | None = _floats(name, size, features, max(width, 16))
    else:
        form = _dot(kind, features, width)
    if form is None:
        return None
    chains = CHAINS if width == 64 or "neon" in features else IN_16_REGISTERS
    sums = [f"a{n}" for n in range(chains)]
    text = _TEXT.format(
        include=f"#include <{form.include}>" if form.include else "",
        vector=form.vector,
        sums=", ".join(f"{s} = in[{n + 2}]" for n, s in enumerate(sums)),
        steps="\n".join(f"        {form.step.format(sum=s)}" for s in sums),
        stores="\n".join(f"    out[{n}] = {s};" for n, s in enumerate(sums)),
    )
    declaration = "void peak(int64_t n, const void *in, void *out);"
    request = BuildRequest(
        f"peak_{kind}",
        text,
        "",
        declaration,
        flags=("-O1", "-ffp-contract=fast", *form.flags),
    )
    library = load(request, mode="shared")
    values = empty(((chains + 2) * form.bytes,), np.dtype(np.uint8))
    values[...] = 0
    at = library.ffi.from_buffer(values)
    # `library.lib` is looked up in each call: that keeps the library loaded.
    return Busy(lambda: library.lib.peak(TRIPS, at, at), TRIPS * chains * form.operations)


@cache
def copy_seconds(bytes: int) -> float:
    """How long one thread takes to move that many bytes by a copy, which reads half of them and
    writes half, over and over: what fits into a cache is there."""
    shape, dtype = (bytes // 2,), np.dtype(np.uint8)
    source, sink = empty(shape, dtype), empty(shape, dtype)
    source[...] = sink[...] = 1
    times = max(1, 2 * SETTLED // max(1, bytes))  # in one batch, long for the clock

    def copy() -> None:
        for _ in range(times):
            np.copyto(sink, source)

    return _best(copy) / times


def _best(call: Callable[[], object]) -> float:
    """Seconds of processor time of the fastest of several calls."""
    call()
    found = []
    for _ in range(ROUNDS):
        start = time.thread_time_ns()
        call()
        found.append(time.thread_time_ns() - start)
    return min(found) * 1e-9
