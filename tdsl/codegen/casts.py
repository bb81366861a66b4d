"""Conversions of vectors in C: a row, a chain of rows, else lane by lane."""

from __future__ import annotations

from tdsl.codegen.lanes import per_lane
from tdsl.codegen.literals import literal
from tdsl.codegen.scalar import bounds, scalar_cast
from tdsl.codegen.text import C, call, cast
from tdsl.codegen.unit import Unit, kept
from tdsl.codegen.vectors import choose, compare_type, plain_op, splat, vector_op
from tdsl.ir.types import BOOL, F32, I32, TYPES, ElemType
from tdsl.ir.vector import Const, Op, VType


def vector_cast(unit: Unit, mode: str, arg: C, source: VType, result: VType) -> C:
    """`arg` of type `source` as a `result` of as many lanes."""
    if source == result:
        return arg
    if source.is_mask:
        return _from_mask(unit, arg, source, result)
    if result.is_mask:
        return _from_mask(unit, _not_zero(unit, arg, source), _compared(source), result)
    if mode == "bitcast":
        return cast(unit.ctype(result), arg)
    if source.elem == BOOL:  # bytes 0 and 1
        return vector_cast(unit, "convert", arg, VType(TYPES["u8"], source.lanes), result)
    if result.elem == BOOL:
        mask = VType(BOOL, source.lanes, source.elem.bits)
        return vector_cast(unit, mode, vector_cast(unit, mode, arg, source, mask), mask, result)
    if source.elem.is_integer and result.elem.is_integer:
        return _between_integers(unit, mode, arg, source, result)
    return _with_floats(unit, arg, source, result)


# ---------------------------------------------------------------- masks


def _compared(source: VType) -> VType:
    return VType(BOOL, source.lanes, source.elem.bytes * 8)


def _not_zero(unit: Unit, arg: C, source: VType) -> C:
    """The mask of lanes that are not 0; -0 of f16 and bf16 is a bit pattern of its own."""
    of = source
    if source.elem.name in ("f16", "bf16"):
        of = VType(TYPES["u16"], source.lanes)
        magnitude = splat(unit, literal(unit, 0x7FFF, of.elem), of)
        arg = plain_op(unit, "band", [arg, magnitude], of, of)
    elif source.elem == BOOL:
        of = VType(TYPES["u8"], source.lanes)
    zero = splat(unit, literal(unit, 0, of.elem), of)
    return plain_op(unit, "ne", [arg, zero], of, compare_type(of))


def _from_mask(unit: Unit, arg: C, source: VType, result: VType) -> C:
    if result.is_mask:
        if source.bits == result.bits or unit.target.has_mask_registers:
            return arg
        of, to = (VType(TYPES[f"i{t.bits}"], t.lanes) for t in (source, result))
        same = cast(unit.ctype(of), arg) if unit.target.family == "neon" else arg
        moved = _between_integers(unit, "convert", same, of, to)
        return cast(unit.ctype(result), moved) if unit.target.family == "neon" else moved
    fitting = VType(BOOL, source.lanes, result.elem.bits)
    mask = _from_mask(unit, arg, source, fitting)
    one, zero = (splat(unit, literal(unit, n, result.elem), result) for n in (1, 0))
    return choose(unit, mask, one, zero, result)


# ---------------------------------------------------------------- integers


def _row(unit: Unit, mode: str, arg: C, source: VType, result: VType) -> C | None:
    wide = max(source.elem, result.elem, key=lambda e: e.bits)
    lanes = unit.physical(wide, source.lanes)
    of, to = (_number_name(e) for e in (source.elem, result.elem))
    return unit.apply(f"{mode}.{of}", to, lanes, arg)


def _number_name(elem: ElemType) -> str:
    """As `kept`, but f16 and bf16 are no integers here."""
    return elem.name if elem.name in ("f16", "bf16") else kept(elem)


def _between_integers(unit: Unit, mode: str, arg: C, source: VType, result: VType) -> C:
    if mode == "saturate":
        low, high = bounds(result.elem)
        least, most = bounds(source.elem)
        if least < low or most > high:
            found = _row(unit, "saturate", arg, source, result)
            if found is not None:
                return found
        if least < low:
            limit = splat(unit, literal(unit, low, source.elem), source)
            arg = plain_op(unit, "max", [arg, limit], source, source)
        if most > high:
            limit = splat(unit, literal(unit, high, source.elem), source)
            arg = plain_op(unit, "min", [arg, limit], source, source)
    if source.elem.bits == result.elem.bits:
        return arg if unit.ctype(source) == unit.ctype(result) else cast(unit.ctype(result), arg)
    found = _row(unit, "convert", arg, source, result)
    return found if found is not None else _by_lane(unit, "convert", arg, source, result)


def _by_lane(unit: Unit, mode: str, arg: C, source: VType, result: VType) -> C:
    name = f"tdsl_{source}_to_{result.elem}"
    return per_lane(
        unit, name, [arg], source, result,
        lambda s: scalar_cast(unit, mode, s[0], source.elem, result.elem),
    )  # fmt: skip


# ---------------------------------------------------------------- floats


def _with_floats(unit: Unit, arg: C, source: VType, result: VType) -> C:
    found = _row(unit, "convert", arg, source, result)
    if found is not None:
        return found
    of, to = source.elem, result.elem
    x86 = unit.target.family == "x86"
    if x86 and of == F32 and to.is_integer and to.bits < 32 and _fits(unit, I32, source.lanes):
        return _clamped(unit, arg, source, result)
    by_way_of: ElemType | None = None
    if (of.is_integer and of.bits < 32) or (of == F32 and to.is_integer and to.bits < 32):
        by_way_of = I32
    elif of.name in ("f16", "bf16") and to != F32:
        by_way_of = F32
    if by_way_of is not None and _fits(unit, by_way_of, source.lanes):
        middle = VType(by_way_of, source.lanes)
        half = vector_cast(unit, "convert", arg, source, middle)
        return vector_cast(unit, "saturate", half, middle, result)
    if of == F32 and to == I32 and x86:
        return _truncate(unit, arg, source, result)
    if of.name == "bf16" and to == F32:
        bits = VType(TYPES["u32"], source.lanes)
        wide = _between_integers(unit, "convert", arg, VType(TYPES["u16"], source.lanes), bits)
        shifted = unit.apply(
            "shl.const", "u32", unit.physical(bits.elem, bits.lanes), wide, C("16")
        )
        if shifted is not None:
            return cast(unit.ctype(result), shifted)
    if of == F32 and to.name == "bf16":
        return _upper_halves(unit, arg, source, result)
    return _by_lane(unit, "convert", arg, source, result)


def _fits(unit: Unit, elem: ElemType, lanes: int) -> bool:
    return unit.target.register_bytes(elem, lanes) is not None


def _upper_halves(unit: Unit, arg: C, source: VType, result: VType) -> C:
    """The nearest bf16, ties to even: the upper half of the bits, after half a unit is added.

    x86 has an instruction that takes small numbers as 0, which bf16 can hold; it is not used.
    """
    name = f"tdsl_{source}_to_{result.elem}"
    bits, ctype, x = VType(TYPES["u32"], source.lanes), unit.ctype(result), C("x")
    upper, odd = C("upper"), C("odd")

    def constant(number: int) -> C:
        return splat(unit, literal(unit, number, bits.elem), bits)

    def joined(op: str, left: C, right: C) -> C:
        return plain_op(unit, op, [left, right], bits, bits)

    def half(of: C) -> C:
        count = Const(16, bits)
        return vector_op(unit, Op("shr", (count, count), bits), [of, constant(16)])

    rounded = half(joined("add", joined("add", C("bits"), constant(0x7FFF)), odd))
    nan = plain_op(unit, "ne", [x, x], source, compare_type(source))
    quiet = joined("bor", upper, constant(0x40))
    narrow = VType(TYPES["u16"], source.lanes)
    chosen = choose(unit, nan, quiet, C("r"), bits)
    unit.function(
        ctype,
        name,
        [f"{unit.ctype(source)} x"],
        [
            f"const {unit.ctype(bits)} bits = {cast(unit.ctype(bits), x).text};",
            f"const {unit.ctype(bits)} upper = {half(C('bits')).text};",
            f"const {unit.ctype(bits)} odd = {joined('band', upper, constant(1)).text};",
            f"const {unit.ctype(bits)} r = {rounded.text};",
            f"return {_between_integers(unit, 'convert', chosen, bits, narrow).text};",
        ],
    )
    return call(name, arg)


def _clamped(unit: Unit, arg: C, source: VType, result: VType) -> C:
    """To a narrow integer, whose limits are floats: clamped before, x86 truncates all that is left
    right. Its max gives the second operand where one is NaN."""
    name = f"tdsl_{source}_to_{result.elem}"
    prefix, x = _prefix(unit, source), C("x")
    low, high = (splat(unit, literal(unit, float(n), F32), source) for n in bounds(result.elem))
    body = [f"x = {prefix}_max_ps(x, {low.text});", f"x = {prefix}_min_ps(x, {high.text});"]
    if bounds(result.elem)[0] != 0:
        zero = splat(unit, literal(unit, 0.0, F32), source)
        number = plain_op(unit, "eq", [x, x], source, compare_type(source))
        body.insert(0, f"x = {choose(unit, number, x, zero, source).text};")
    whole = C(f"{prefix}_cvttps_epi32(x)")
    narrow = _between_integers(unit, "convert", whole, VType(I32, source.lanes), result)
    body.append(f"return {narrow.text};")
    unit.function(unit.ctype(result), name, [f"{unit.ctype(source)} x"], body)
    return call(name, arg)


def _prefix(unit: Unit, source: VType) -> str:
    bits = unit.physical(source.elem, source.lanes) * 32
    return {128: "_mm", 256: "_mm256", 512: "_mm512"}[bits]


def _truncate(unit: Unit, arg: C, source: VType, result: VType) -> C:
    """x86 gives INT_MIN for all that is out of range: the upper end and NaN are put right."""
    name = f"tdsl_{source}_to_{result.elem}"
    ctype, of = unit.ctype(result), unit.ctype(source)
    prefix = _prefix(unit, source)
    mask, x = compare_type(source), C("x")
    top = splat(unit, literal(unit, 2.0**31, F32), source)
    beyond = plain_op(unit, "ge", [x, top], source, mask)
    most = splat(unit, literal(unit, 2**31 - 1, I32), result)
    nan = plain_op(unit, "ne", [x, x], source, mask)
    zero = splat(unit, literal(unit, 0, I32), result)
    unit.function(
        ctype,
        name,
        [f"{of} x"],
        [
            f"{ctype} r = {prefix}_cvttps_epi32(x);",
            f"r = {choose(unit, beyond, most, C('r'), result).text};",
            f"return {choose(unit, nan, zero, C('r'), result).text};",
        ],
    )
    return call(name, arg)
