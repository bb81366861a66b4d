"""Rows of AVX2 (with FMA) and AVX-512 (F, BW, DQ, VL).

Vectors narrower than 16 bytes live in the low lanes of a 16-byte register. Integer vectors of
one width share a C type, whatever their elements.
"""

from __future__ import annotations

from collections.abc import Iterator

from tdsl.targets.rows import Row, Table, table

PREFIX = {16: "_mm", 32: "_mm256", 64: "_mm512"}
FLOATS = {"f32": ("ps", 4), "f64": ("pd", 8)}
SIGNED = {"i8": 1, "i16": 2, "i32": 4, "i64": 8}
UNSIGNED = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}
STORED = {
    **SIGNED,
    **UNSIGNED,
    "f16": 2,
    "bf16": 2,
    "bool": 1,
}  # bytes of what is moved as integers
ROUNDING = {
    "round": "_MM_FROUND_TO_NEAREST_INT",
    "floor": "_MM_FROUND_TO_NEG_INF",
    "ceil": "_MM_FROUND_TO_POS_INF",
    "trunc": "_MM_FROUND_TO_ZERO",
}
FLOAT_COMPARISONS = {
    "eq": "_CMP_EQ_OQ", "ne": "_CMP_NEQ_UQ", "lt": "_CMP_LT_OQ", "le": "_CMP_LE_OQ",
    "gt": "_CMP_GT_OQ", "ge": "_CMP_GE_OQ",
}  # fmt: skip
INT_COMPARISONS = {"eq": "eq", "ne": "neq", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}


def _cast(width: int, source: str, result: str) -> str:
    return f"{PREFIX[width]}_cast{source}_{result}"


def _float_rows(width: int, mask_registers: bool) -> Iterator[Row]:
    p = PREFIX[width]
    for elem, (s, size) in FLOATS.items():
        n = width // size
        for op in ("add", "sub", "mul", "div"):
            yield Row(op, elem, n, f"{p}_{op}_{s}({{0}}, {{1}})")
        # x86 returns the second operand where one is NaN: exact if the first is a plain number.
        for op in ("min", "max"):
            yield Row(f"{op}.number", elem, n, f"{p}_{op}_{s}({{0}}, {{1}})")
        yield Row("sqrt", elem, n, f"{p}_sqrt_{s}({{0}})")
        yield Row("fma", elem, n, f"{p}_fmadd_{s}({{0}}, {{1}}, {{2}})")
        yield Row("fnma", elem, n, f"{p}_fnmadd_{s}({{0}}, {{1}}, {{2}})")
        literal = "-0.0f" if elem == "f32" else "-0.0"
        yield Row("abs", elem, n, f"{p}_andnot_{s}({p}_set1_{s}({literal}), {{0}})")
        yield Row("neg", elem, n, f"{p}_xor_{s}({{0}}, {p}_set1_{s}({literal}))")
        name = "roundscale" if mask_registers else "round"
        for op, mode in ROUNDING.items():
            yield Row(op, elem, n, f"{p}_{name}_{s}({{0}}, {mode} | _MM_FROUND_NO_EXC)")
        yield Row("splat", elem, n, f"{p}_set1_{s}({{0}})")
        yield Row("load", elem, n, f"{p}_loadu_{s}({{0}})")
        yield Row("store", elem, n, f"{p}_storeu_{s}({{0}}, {{1}})")
        yield Row("stream", elem, n, f"{p}_stream_{s}({{0}}, {{1}})")
        yield Row("zip.low", elem, n, f"{p}_unpacklo_{s}({{0}}, {{1}})")
        yield Row("zip.high", elem, n, f"{p}_unpackhi_{s}({{0}}, {{1}})")
        if width == 32:
            for op, code in (("low", "0x20"), ("high", "0x31")):
                template = f"_mm256_permute2f128_{s}({{0}}, {{1}}, {code})"
                yield Row(f"groups2.{op}", elem, n, template)
        if width == 64:
            shape = "f32x4" if elem == "f32" else "f64x2"
            for op, parts in (("even", "0x88"), ("odd", "0xdd")):
                template = f"_mm512_shuffle_{shape}({{0}}, {{1}}, {parts})"
                yield Row(f"groups4.{op}", elem, n, template)
            of, to = _cast(width, s, "si512"), _cast(width, "si512", s)
            moved = f"_mm512_alignr_epi{512 // n}({of}({{1}}), {of}({{0}}), {{2}})"
            yield Row("slide", elem, n, f"{to}({moved})")
        for op, code in FLOAT_COMPARISONS.items():
            if mask_registers:
                yield Row(op, elem, n, f"{p}_cmp_{s}_mask({{0}}, {{1}}, {code})")
            else:
                to = _cast(width, s, f"si{width * 8}")
                yield Row(op, elem, n, f"{to}({p}_cmp_{s}({{0}}, {{1}}, {code}))")
        if mask_registers:
            yield Row("scale", elem, n, f"{p}_scalef_{s}({{0}}, {{1}})")
            yield Row("choose", elem, n, f"{p}_mask_blend_{s}({{0}}, {{2}}, {{1}})")
            yield Row("maskload", elem, n, f"{p}_maskz_loadu_{s}({{1}}, {{0}})")
            yield Row("maskstore", elem, n, f"{p}_mask_storeu_{s}({{0}}, {{1}}, {{2}})")
        else:
            lanes = _cast(width, f"si{width * 8}", s)
            yield Row("choose", elem, n, f"{p}_blendv_{s}({{2}}, {{1}}, {lanes}({{0}}))")
            yield Row("maskload", elem, n, f"{p}_maskload_{s}({{0}}, {{1}})")
            yield Row("maskstore", elem, n, f"{p}_maskstore_{s}({{0}}, {{1}}, {{2}})")
        if width > 16:
            half = width // 2
            yield Row("low", elem, n, f"{p}_cast{s}{width * 8}_{s}{half * 8}({{0}})")
            lane = {64: f"f{'32x8' if elem == 'f32' else '64x4'}", 32: "f128"}[width]
            yield Row("high", elem, n, f"{p}_extract{lane}_{s}({{0}}, 1)")
    if width == 16:
        yield Row("upper", "f32", 4, "_mm_movehl_ps({0}, {0})")
        yield Row("upper", "f32", 2, "_mm_movehdup_ps({0})")
        yield Row("upper", "f64", 2, "_mm_unpackhi_pd({0}, {0})")
        yield Row("load", "f32", 2, "_mm_castsi128_ps(_mm_loadu_si64({0}))")
        yield Row("store", "f32", 2, "_mm_storeu_si64({0}, _mm_castps_si128({1}))")


def _moves(width: int, mask_registers: bool) -> Iterator[Row]:
    """Loads, stores, splats and halves of everything that is moved as integers."""
    p, whole = PREFIX[width], f"si{width * 8}"
    vector = f"__m{width * 8}i"
    for elem, size in STORED.items():
        n, bits = width // size, size * 8
        wide = "x" if bits == 64 and width < 64 else ""
        yield Row("splat", elem, n, f"{p}_set1_epi{bits}{wide}({{0}})")
        if width == 64:
            yield Row("load", elem, n, f"{p}_loadu_{whole}({{0}})")
            yield Row("store", elem, n, f"{p}_storeu_{whole}({{0}}, {{1}})")
        else:
            yield Row("load", elem, n, f"{p}_loadu_{whole}((const {vector} *){{0}})")
            yield Row("store", elem, n, f"{p}_storeu_{whole}(({vector} *){{0}}, {{1}})")
        yield Row("stream", elem, n, f"{p}_stream_{whole}(({vector} *){{0}}, {{1}})")
        yield Row("zip.low", elem, n, f"{p}_unpacklo_epi{bits}({{0}}, {{1}})")
        yield Row("zip.high", elem, n, f"{p}_unpackhi_epi{bits}({{0}}, {{1}})")
        if width == 32:
            for op, code in (("low", "0x20"), ("high", "0x31")):
                template = f"_mm256_permute2x128_si256({{0}}, {{1}}, {code})"
                yield Row(f"groups2.{op}", elem, n, template)
        if width == 64:
            for op, parts in (("even", "0x88"), ("odd", "0xdd")):
                template = f"_mm512_shuffle_i32x4({{0}}, {{1}}, {parts})"
                yield Row(f"groups4.{op}", elem, n, template)
            if size >= 4:
                yield Row("slide", elem, n, f"_mm512_alignr_epi{bits}({{1}}, {{0}}, {{2}})")
        if width == 16 and elem not in ("f16", "bf16", "bool"):
            for half in (1, 2, 4, 8):
                if half >= size:
                    yield Row("upper", elem, 2 * half // size, f"_mm_srli_si128({{0}}, {half})")
        if width == 16:
            for part in (2, 4, 8):
                if part // size > 1:
                    count = part // size
                    yield Row("load", elem, count, f"_mm_loadu_si{part * 8}({{0}})")
                    yield Row("store", elem, count, f"_mm_storeu_si{part * 8}({{0}}, {{1}})")
        else:
            half = width // 2
            yield Row("low", elem, n, f"{p}_cast{whole}_si{half * 8}({{0}})")
            high = "extracti64x4_epi64" if width == 64 else "extracti128_si256"
            yield Row("high", elem, n, f"{p}_{high}({{0}}, 1)")
        if mask_registers:
            yield Row("choose", elem, n, f"{p}_mask_blend_epi{bits}({{0}}, {{2}}, {{1}})")
            yield Row("maskload", elem, n, f"{p}_maskz_loadu_epi{bits}({{1}}, {{0}})")
            yield Row("maskstore", elem, n, f"{p}_mask_storeu_epi{bits}({{0}}, {{1}}, {{2}})")
        else:
            yield Row("choose", elem, n, f"{p}_blendv_epi8({{2}}, {{1}}, {{0}})")
            if bits >= 32:
                ptr = "int *" if bits == 32 else "long long *"
                yield Row("maskload", elem, n, f"{p}_maskload_epi{bits}((const {ptr}){{0}}, {{1}})")
                template = f"{p}_maskstore_epi{bits}(({ptr}){{0}}, {{1}}, {{2}})"
                yield Row("maskstore", elem, n, template)


def _int_rows(width: int, mask_registers: bool) -> Iterator[Row]:
    p, whole = PREFIX[width], f"si{width * 8}"
    for elem, size in {**SIGNED, **UNSIGNED}.items():
        n, bits, sign = width // size, size * 8, "i" if elem[0] == "i" else "u"
        for op in ("add", "sub"):
            yield Row(op, elem, n, f"{p}_{op}_epi{bits}({{0}}, {{1}})")
        if bits in (16, 32) or (bits == 64 and mask_registers):
            yield Row("mul", elem, n, f"{p}_mullo_epi{bits}({{0}}, {{1}})")
        if bits < 64 or mask_registers:
            for op in ("min", "max"):
                yield Row(op, elem, n, f"{p}_{op}_ep{sign}{bits}({{0}}, {{1}})")
            if sign == "i":
                yield Row("abs", elem, n, f"{p}_abs_epi{bits}({{0}})")
        for op, name in (("band", "and"), ("bor", "or"), ("bxor", "xor")):
            yield Row(op, elem, n, f"{p}_{name}_{whole}({{0}}, {{1}})")
        if sign == "i" and not mask_registers:
            bytes_set = f"{p}_movemask_epi8({{0}})"
            yield Row("any", elem, n, f"({bytes_set} != 0)")
            yield Row("all", elem, n, f"({bytes_set} == {-1 if width == 32 else 0xFFFF})")
        yield from _shifts(p, elem, n, bits, sign, mask_registers)
        if mask_registers:
            for op, name in INT_COMPARISONS.items():
                yield Row(op, elem, n, f"{p}_cmp{name}_ep{sign}{bits}_mask({{0}}, {{1}})")


def _shifts(p: str, elem: str, n: int, bits: int, sign: str, mask_registers: bool) -> Iterator[Row]:
    if bits == 8:
        return
    right = "sra" if sign == "i" else "srl"
    has_right = sign == "u" or bits < 64 or mask_registers
    if bits >= 32 or mask_registers:  # counts beyond the width give 0 or the sign, as ours do
        yield Row("shl", elem, n, f"{p}_sllv_epi{bits}({{0}}, {{1}})")
        if has_right:
            yield Row("shr", elem, n, f"{p}_{right}v_epi{bits}({{0}}, {{1}})")
    yield Row("shl.const", elem, n, f"{p}_slli_epi{bits}({{0}}, {{1}})")
    if has_right:
        yield Row("shr.const", elem, n, f"{p}_{right}i_epi{bits}({{0}}, {{1}})")


def _casts(widths: tuple[int, ...], mask_registers: bool) -> Iterator[Row]:
    """Conversions that keep the lanes; the narrower side may fill a part of its register."""
    integers = {**SIGNED, **UNSIGNED}
    for width in widths:
        p = PREFIX[width]
        for wide, size in integers.items():
            n = width // size
            for narrow, small in integers.items():
                if small >= size:
                    continue
                kind = "i" if narrow[0] == "i" else "u"
                name = f"cvtep{kind}{small * 8}_epi{size * 8}"
                yield Row(f"convert.{narrow}", wide, n, f"{p}_{name}({{0}})")
                if mask_registers:
                    name = f"cvtepi{size * 8}_epi{small * 8}"
                    yield Row(f"convert.{wide}", narrow, n, f"{p}_{name}({{0}})")
                elif size <= 4 or small == 4:
                    packed = _packed(width, size, small)
                    yield Row(f"convert.{wide}", narrow, n, packed)
                if mask_registers and wide[0] == narrow[0]:
                    s = "s" if wide[0] == "i" else "us"
                    name = f"cvt{s}epi{size * 8}_epi{small * 8}"
                    yield Row(f"saturate.{wide}", narrow, n, f"{p}_{name}({{0}})")
        yield Row("convert.i32", "f32", width // 4, f"{p}_cvtepi32_ps({{0}})")
        yield Row("convert.i32", "f64", width // 8, f"{p}_cvtepi32_pd({{0}})")
        yield Row("convert.f32", "f64", width // 8, f"{p}_cvtps_pd({{0}})")
        yield Row("convert.f64", "f32", width // 8, f"{p}_cvtpd_ps({{0}})")
        half = f"{p}_cvtph_ps({{0}})"
        yield Row("convert.f16", "f32", width // 4, half, "" if width == 64 else "f16c")
        half = f"{p}_cvtps_ph({{0}}, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)"
        yield Row("convert.f32", "f16", width // 4, half, "" if width == 64 else "f16c")
        if mask_registers:
            yield Row("convert.u32", "f32", width // 4, f"{p}_cvtepu32_ps({{0}})")
            yield Row("convert.u32", "f64", width // 8, f"{p}_cvtepu32_pd({{0}})")
            for source in ("i64", "u64"):
                name = f"cvtep{source[0]}64"
                yield Row(f"convert.{source}", "f64", width // 8, f"{p}_{name}_pd({{0}})")
                yield Row(f"convert.{source}", "f32", width // 8, f"{p}_{name}_ps({{0}})")


def _packed(width: int, wide: int, narrow: int) -> str:
    """AVX2 has no truncation: clear the upper bits, pack (which then cannot saturate), and bring
    the halves' results together. Sizes in bytes; `wide` is at most 4, or 8 where `narrow` is 4."""
    p, whole = PREFIX[width], f"si{width * 8}"
    if wide == 8:
        if width == 16:
            return "_mm_shuffle_epi32({0}, 0x08)"
        order = "_mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)"
        return f"_mm256_castsi256_si128(_mm256_permutevar8x32_epi32({{0}}, {order}))"
    kept = "0xff" if narrow == 1 else "0xffff"
    text, size = f"{p}_and_{whole}({{0}}, {p}_set1_epi{wide * 8}({kept}))", wide
    while size > narrow:
        text = f"{p}_packus_epi{size * 8}({text}, {p}_setzero_{whole}())"
        size //= 2
    if width == 16:
        return text
    if wide == 2 * narrow:
        return f"_mm256_castsi256_si128(_mm256_permute4x64_epi64({text}, 0xd8))"
    order = "_mm256_setr_epi32(0, 4, 1, 1, 1, 1, 1, 1)"
    return f"_mm256_castsi256_si128(_mm256_permutevar8x32_epi32({text}, {order}))"


def _rows(widths: tuple[int, ...], mask_registers: bool) -> Iterator[Row]:
    yield Row("stream.fence", "u8", 1, "_mm_sfence()")
    for width in widths:
        yield from _float_rows(width, mask_registers)
        yield from _moves(width, mask_registers)
        yield from _int_rows(width, mask_registers)
    yield from _casts(widths, mask_registers)


AVX2: Table = table(_rows((16, 32), False))
AVX512: Table = table(_rows((16, 32, 64), True))
