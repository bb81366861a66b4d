"""Instructions that add a group of products in each lane, and what stands for them elsewhere.

All of them are exact for integers: the sums of products are formed without saturation and wrap
in 32 bits, whatever the operands. What has no instruction of its own is made of one that has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tdsl.ir.dots import BYTES
from tdsl.targets.target import Target
from tdsl.targets.x86 import PREFIX


@dataclass(frozen=True)
class DotRow:
    """One way to compute a `Dot` of `lanes` lanes of 4 bytes.

    value: C over {0} (the accumulator), {1} and {2}; body: statements before it, for a helper
    function whose parameters are a, b and c. feature: what the processor must have beyond the
    target's own. instruction: of x86, the assembler's name where the row is one instruction that
    adds to its own register.
    """

    first: str
    second: str
    lanes: int
    value: str
    body: tuple[str, ...] = ()
    feature: str = ""
    instruction: str = ""


def dot_row(target: Target, first: str, second: str, lanes: int) -> DotRow | None:
    """The best way that the target has, or None."""
    return _rows(target).get((first, second, lanes))


def tile_row(target: Target, first: str, second: str) -> DotRow | None:
    """The instruction that adds to a tile of two rows and two columns, or None."""
    row = _TILES.get((first, second)) if target.family == "neon" else None
    return row if row is not None and row.feature in target.features else None


def _tiles() -> Iterator[DotRow]:
    """Products of 2 x 8 bytes with 2 x 8 others, or of 2 x 4 bf16."""
    unsigned = "vreinterpretq_s32_u32(vmmlaq_u32(vreinterpretq_u32_s32({0}), {1}, {2}))"
    yield DotRow("u8", "i8", 4, "vusmmlaq_s32({0}, {1}, {2})", (), "i8mm")
    yield DotRow("i8", "i8", 4, "vmmlaq_s32({0}, {1}, {2})", (), "i8mm")
    yield DotRow("u8", "u8", 4, unsigned, (), "i8mm")
    b, c = (f"vreinterpretq_bf16_u16({{{n}}})" for n in (1, 2))
    yield DotRow("bf16", "bf16", 4, f"vbfmmlaq_f32({{0}}, {b}, {c})", (), "bf16")


_TILES = {(row.first, row.second): row for row in _tiles()}


@cache
def _rows(target: Target) -> dict[tuple[str, str, int], DotRow]:
    found: dict[tuple[str, str, int], DotRow] = {}
    rows = {"x86": _x86, "neon": _neon}.get(target.family)
    for row in () if rows is None else rows(target):
        if not row.feature or row.feature in target.features:
            found.setdefault((row.first, row.second, row.lanes), row)
    return found


# ---------------------------------------------------------------- x86


def _x86(target: Target) -> Iterator[DotRow]:
    """The best first: instructions of VNNI and BF16, then pmaddwd and fused multiplications."""
    wide = "avx512f" in target.features
    for width in target.widths:
        p, n = PREFIX[width], width // 4
        vex = "" if wide else "_avx"
        vnni = "avx512vnni" if wide else "avxvnni"
        dp, zero = f"{p}_dpbusd{vex}_epi32", f"{p}_setzero_si{width * 8}()"
        xor, vector = f"{p}_xor_si{width * 8}", f"__m{width * 8}i"
        form = "" if wide else "%{vex%} "  # not of AVX-512, whose forms gas takes by itself
        value = f"{dp}({{0}}, {{1}}, {{2}})"
        yield DotRow("u8", "i8", n, value, (), vnni, f"{form}vpdpbusd")
        # Of s8 the upper bit is flipped: c + 128 is u8, and 128 times the others is subtracted.
        flipped = (f"const {vector} half = {p}_set1_epi8(-128);",)
        value = f"{p}_sub_epi32({dp}(a, {xor}(c, half), b), {dp}({zero}, half, b))"
        yield DotRow("i8", "i8", n, value, flipped, vnni)
        # Of u8 too: c - 128 is s8, and -128 times the others is subtracted.
        value = f"{p}_sub_epi32({dp}(a, b, {xor}(c, half)), {dp}({zero}, b, half))"
        yield DotRow("u8", "u8", n, value, flipped, vnni)
        value = f"{p}_dpwssd{vex}_epi32({{0}}, {{1}}, {{2}})"
        yield DotRow("i16", "i16", n, value, (), vnni, f"{form}vpdpwssd")
        yield from _madd(width)
        yield from _pairs_of_bf16(width)


def _madd(width: int) -> Iterator[DotRow]:
    """pmaddwd adds the products of pairs of s16 in 32 bits. Bytes become s16 in two steps: those
    at even places and those at odd ones, so that no lane changes its place."""
    p, n, vector = PREFIX[width], width // 4, f"__m{width * 8}i"
    value = f"{p}_add_epi32({{0}}, {p}_madd_epi16({{1}}, {{2}}))"
    yield DotRow("i16", "i16", n, value)
    for first, second in BYTES:
        body = []
        for name, elem in (("b", first), ("c", second)):
            if elem == "i8":
                even = f"{p}_srai_epi16({p}_slli_epi16({name}, 8), 8)"
                odd = f"{p}_srai_epi16({name}, 8)"
            else:
                even = f"{p}_and_si{width * 8}({name}, {p}_set1_epi16(255))"
                odd = f"{p}_srli_epi16({name}, 8)"
            body.append(f"const {vector} {name}0 = {even}, {name}1 = {odd};")
        body.append(f"const {vector} s = {p}_add_epi32(a, {p}_madd_epi16(b0, c0));")
        value = f"{p}_add_epi32(s, {p}_madd_epi16(b1, c1))"
        yield DotRow(first, second, n, value, tuple(body))


def _pairs_of_bf16(width: int) -> Iterator[DotRow]:
    """vdpbf16ps; else two fused multiplications, with bf16 as the upper half of an f32."""
    p, n = PREFIX[width], width // 4
    as_bf16 = f"(__m{width * 8}bh)"
    value = f"{p}_dpbf16_ps({{0}}, {as_bf16}{{1}}, {as_bf16}{{2}})"
    yield DotRow("bf16", "bf16", n, value, (), "avx512bf16", "vdpbf16ps")
    vector, as_float = f"__m{width * 8}", f"{p}_castsi{width * 8}_ps"
    body = [f"const {vector}i upper = {p}_set1_epi32(-65536);"]
    for name in "bc":
        even = f"{as_float}({p}_slli_epi32({name}, 16))"
        odd = f"{as_float}({p}_and_si{width * 8}({name}, upper))"
        body += [f"const {vector} {name}0 = {even};", f"const {vector} {name}1 = {odd};"]
    value = f"{p}_fmadd_ps(b1, c1, {p}_fmadd_ps(b0, c0, a))"
    yield DotRow("bf16", "bf16", n, value, tuple(body))


# ---------------------------------------------------------------- NEON


def _neon(target: Target) -> Iterator[DotRow]:
    """The best first: i8mm, dotprod, then widening multiplications."""
    for q, n in (("q", 4), ("", 2)):
        yield DotRow("u8", "i8", n, f"vusdot{q}_s32({{0}}, {{1}}, {{2}})", (), "i8mm")
        yield DotRow("i8", "i8", n, f"vdot{q}_s32({{0}}, {{1}}, {{2}})", (), "dotprod")
        signed, unsigned = f"vreinterpret{q}_s32_u32", f"vreinterpret{q}_u32_s32"
        value = f"{signed}(vdot{q}_u32({unsigned}({{0}}), {{1}}, {{2}}))"
        yield DotRow("u8", "u8", n, value, (), "dotprod")
        # b - 128 is s8; -128 times the others is subtracted.
        kind = f"int8x{4 * n}_t"
        body = (
            f"const {kind} low = vreinterpret{q}_s8_u8(veor{q}_u8(b, vdup{q}_n_u8(128)));",
            f"const int32x{n}_t more = vdot{q}_s32(vdup{q}_n_s32(0), vdup{q}_n_s8(-128), c);",
        )
        value = f"vsub{q}_s32(vdot{q}_s32(a, low, c), more)"
        yield DotRow("u8", "i8", n, value, body, "dotprod")
        b, c = (f"vreinterpret{q}_bf16_u16({{{k}}})" for k in (1, 2))
        yield DotRow("bf16", "bf16", n, f"vbfdot{q}_f32({{0}}, {b}, {c})", (), "bf16")
    yield from _widened()
    body_ = [f"const uint32x4_t {x}s = vreinterpretq_u32_u16({x});" for x in "bc"]
    for name in "bc":
        even = f"vreinterpretq_f32_u32(vshlq_n_u32({name}s, 16))"
        odd = f"vreinterpretq_f32_u32(vandq_u32({name}s, vdupq_n_u32(0xffff0000u)))"
        body_ += [f"const float32x4_t {name}0 = {even};", f"const float32x4_t {name}1 = {odd};"]
    yield DotRow("bf16", "bf16", 4, "vfmaq_f32(vfmaq_f32(a, b0, c0), b1, c1)", tuple(body_))


def _widened() -> Iterator[DotRow]:
    """A product of bytes fits 16 bits: s8 x s8, u8 x s8 (at least -32640) and u8 x u8."""
    for first, s in (("i8", "s"), ("u8", "u")):
        product = f"const {'uint' if s == 'u' else 'int'}16x8_t"
        body = [
            f"{product} p0 = vmull_{s}8(vget_low_{s}8(b), vget_low_{s}8(c));",
            f"{product} p1 = vmull_high_{s}8(b, c);",
        ]
        sums = f"vpaddq_{s}32(vpaddlq_{s}16(p0), vpaddlq_{s}16(p1))"
        sums = sums if s == "s" else f"vreinterpretq_s32_u32({sums})"
        yield DotRow(first, first, 4, f"vaddq_s32(a, {sums})", tuple(body))
    wide = "vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(b)))"
    high = "vreinterpretq_s16_u16(vmovl_high_u8(b))"
    mixed = (
        f"const int16x8_t p0 = vmulq_s16({wide}, vmovl_s8(vget_low_s8(c)));",
        f"const int16x8_t p1 = vmulq_s16({high}, vmovl_high_s8(c));",
    )
    value = "vaddq_s32(a, vpaddq_s32(vpaddlq_s16(p0), vpaddlq_s16(p1)))"
    yield DotRow("u8", "i8", 4, value, mixed)
    halves = (
        "const int32x4_t p0 = vmull_s16(vget_low_s16(b), vget_low_s16(c));",
        "const int32x4_t p1 = vmull_high_s16(b, c);",
    )
    yield DotRow("i16", "i16", 4, "vaddq_s32(a, vpaddq_s32(p0, p1))", halves)
