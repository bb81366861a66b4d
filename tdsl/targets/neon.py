"""Rows of AArch64 NEON (Armv8.0).

Vectors narrower than 8 bytes live in the low lanes of an 8-byte register.
"""

from __future__ import annotations

from collections.abc import Iterator

from tdsl.targets.rows import Row, Table, table

HEADER = "arm_neon.h"
# Element -> (suffix of the intrinsics, bytes). What is only moved is moved as unsigned integers.
FLOATS = {"f32": ("f32", 4), "f64": ("f64", 8)}
SIGNED = {"i8": ("s8", 1), "i16": ("s16", 2), "i32": ("s32", 4), "i64": ("s64", 8)}
UNSIGNED = {"u8": ("u8", 1), "u16": ("u16", 2), "u32": ("u32", 4), "u64": ("u64", 8)}
MOVED = {"f16": ("u16", 2), "bf16": ("u16", 2), "bool": ("u8", 1)}
ARITHMETIC = {**FLOATS, **SIGNED, **UNSIGNED}
COMPARISONS = {"eq": "ceq", "lt": "clt", "le": "cle", "gt": "cgt", "ge": "cge"}
ROUNDING = {"round": "rndn", "floor": "rndm", "ceil": "rndp", "trunc": "rnd"}


def _row(op: str, elem: str, lanes: int, template: str, feature: str = "") -> Row:
    return Row(op, elem, lanes, template, feature, HEADER)


def _call(name: str, q: str, suffix: str, operands: int) -> str:
    inside = ", ".join(f"{{{i}}}" for i in range(operands))
    return f"v{name}{q}_{suffix}({inside})"


def _moves(width: int) -> Iterator[Row]:
    q = "q" if width == 16 else ""
    for elem, (s, size) in {**ARITHMETIC, **MOVED}.items():
        n = width // size
        if n == 1:
            continue
        yield _row("load", elem, n, _call("ld1", q, s, 1))
        yield _row("store", elem, n, _call("st1", q, s, 2))
        yield _row("splat", elem, n, f"vdup{q}_n_{s}({{0}})")
        yield _row("choose", elem, n, _call("bsl", q, s, 3))
        if elem not in MOVED:
            yield from _halves(elem, width)
        if width == 16:
            yield _row("zip.low", elem, n, _call("zip1", q, s, 2))
            yield _row("zip.high", elem, n, _call("zip2", q, s, 2))


def _halves(elem: str, width: int) -> Iterator[Row]:
    s, size = ARITHMETIC[elem]
    n = width // size
    if width == 16 and n > 2:
        yield _row("low", elem, n, f"vget_low_{s}({{0}})")
        yield _row("high", elem, n, f"vget_high_{s}({{0}})")
        return
    q = "q" if width == 16 else ""
    while n > 1:
        yield _row("upper", elem, n, f"vext{q}_{s}({{0}}, {{0}}, {n // 2})")
        n //= 2


def _arithmetic(width: int) -> Iterator[Row]:
    q = "q" if width == 16 else ""
    for elem, (s, size) in ARITHMETIC.items():
        n = width // size
        if n == 1:
            continue
        yield _row("add", elem, n, _call("add", q, s, 2))
        yield _row("sub", elem, n, _call("sub", q, s, 2))
        if size < 8 or elem in FLOATS:
            yield _row("mul", elem, n, _call("mul", q, s, 2))
            for op in ("min", "max"):  # these carry NaN
                yield _row(op, elem, n, _call(op, q, s, 2))
        if elem not in UNSIGNED:
            yield _row("neg", elem, n, _call("neg", q, s, 1))
            yield _row("abs", elem, n, _call("abs", q, s, 1))
        for op, name in COMPARISONS.items():
            yield _row(op, elem, n, _call(name, q, s, 2))
        yield _row("ne", elem, n, f"(~{_call('ceq', q, s, 2)})")
        if elem in FLOATS:
            yield _row("div", elem, n, _call("div", q, s, 2))
            yield _row("sqrt", elem, n, _call("sqrt", q, s, 1))
            yield _row("fma", elem, n, f"vfma{q}_{s}({{2}}, {{0}}, {{1}})")
            yield _row("fnma", elem, n, f"vfms{q}_{s}({{2}}, {{0}}, {{1}})")
            for op, name in ROUNDING.items():
                yield _row(op, elem, n, _call(name, q, s, 1))
        else:
            for op, name in (("band", "and"), ("bor", "orr"), ("bxor", "eor")):
                yield _row(op, elem, n, _call(name, q, s, 2))
            yield _row("shl.const", elem, n, f"vshl{q}_n_{s}({{0}}, {{1}})")
        if elem in UNSIGNED:
            as_words = "{0}" if size < 8 else "vreinterpretq_u32_u64({0})"
            suffix = s if size < 8 else "u32"
            yield _row("any", elem, n, f"(vmaxv{q}_{suffix}({as_words}) != 0)")
            yield _row("all", elem, n, f"(vminv{q}_{suffix}({as_words}) != 0)")


def _widen(narrow: str, wide: str, lanes: int) -> str:
    """`vmovl` until the width fits; the low half of what lies above the lanes."""
    source, size = {**SIGNED, **UNSIGNED}[narrow]
    result, target = {**SIGNED, **UNSIGNED}[wide]
    kind, text = source[0], "{0}"
    while size < target:
        text = f"vmovl_{kind}{size * 8}({text})"
        size *= 2
        if size < target or lanes * size < 16:
            text = f"vget_low_{kind}{size * 8}({text})"
    if result[0] != kind:
        q = "q" if lanes * target == 16 else ""
        text = f"vreinterpret{q}_{result}_{kind}{size * 8}({text})"
    return text


def _narrow(wide: str, narrow: str, lanes: int, saturate: bool) -> str:
    """`vmovn` (or its saturating forms) until the width fits, upper lanes 0."""
    source, size = {**SIGNED, **UNSIGNED}[wide]
    result, target = {**SIGNED, **UNSIGNED}[narrow]
    kind, text = source[0], "{0}"
    whole = lanes * size == 16
    while size > target:
        if not whole:
            text = f"vcombine_{kind}{size * 8}({text}, vdup_n_{kind}{size * 8}(0))"
        last = size // 2 == target
        name = "movn" if not saturate else "qmovn"
        if saturate and last and kind == "s" and result[0] == "u":
            name = "qmovun"
        text = f"v{name}_{kind}{size * 8}({text})"
        size, whole = size // 2, False
        if name == "qmovun":
            kind = "u"
    if result[0] != kind:
        text = f"vreinterpret_{result}_{kind}{size * 8}({text})"
    return text


def _casts() -> Iterator[Row]:
    integers = {**SIGNED, **UNSIGNED}
    for wide, (_, size) in integers.items():
        for narrow, (_, small) in integers.items():
            if small >= size:
                continue
            for width in (16, 8):
                n = width // size
                if n == 1:
                    continue
                yield _row(f"convert.{narrow}", wide, n, _widen(narrow, wide, n))
                yield _row(f"convert.{wide}", narrow, n, _narrow(wide, narrow, n, False))
                if wide[0] == "i" or narrow[0] == "u":
                    yield _row(f"saturate.{wide}", narrow, n, _narrow(wide, narrow, n, True))
    for q, width in (("q", 16), ("", 8)):
        for source, s in (("i32", "s32"), ("u32", "u32")):
            n = width // 4
            yield _row(f"convert.{source}", "f32", n, f"vcvt{q}_f32_{s}({{0}})")
            # Truncates, saturates, and gives 0 for NaN.
            yield _row("convert.f32", source, n, f"vcvt{q}_{s}_f32({{0}})")
    for source, s in (("i64", "s64"), ("u64", "u64")):
        yield _row(f"convert.{source}", "f64", 2, f"vcvtq_f64_{s}({{0}})")
        yield _row("convert.f64", source, 2, f"vcvtq_{s}_f64({{0}})")
    yield _row("convert.f32", "f64", 2, "vcvt_f64_f32({0})")
    yield _row("convert.f64", "f32", 2, "vcvt_f32_f64({0})")
    yield _row("convert.f16", "f32", 4, "vcvt_f32_f16(vreinterpret_f16_u16({0}))")
    yield _row("convert.f32", "f16", 4, "vreinterpret_u16_f16(vcvt_f16_f32({0}))")


def _rows() -> Iterator[Row]:
    for width in (16, 8):
        yield from _moves(width)
        yield from _arithmetic(width)
    yield from _casts()


NEON: Table = table(_rows())
