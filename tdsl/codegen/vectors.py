"""Operations on vectors in C: a row of the target's table, else operators on GNU vectors,
else a helper that goes lane by lane."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tdsl.codegen.lanes import per_lane
from tdsl.codegen.literals import literal
from tdsl.codegen.scalar import scalar_op
from tdsl.codegen.text import BITAND, BITOR, BITXOR, PRODUCT, SUM, UNARY, C, binary, call, cast
from tdsl.codegen.unit import Unit, kept
from tdsl.ir.kernel import COMPARISONS
from tdsl.ir.types import TYPES, ElemType
from tdsl.ir.vector import Const, Op, Splat, Value, VType

_SUMS = {"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "div": ("/", PRODUCT)}
_BITS = {"band": ("&", BITAND), "bor": ("|", BITOR), "bxor": ("^", BITXOR)}
_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def vector_op(unit: Unit, op: Op, args: Sequence[C]) -> C:
    """An operation whose operands are printed already."""
    of = op.args[0].type
    if of.is_mask:
        return _mask_op(unit, op.op, args, op.type)
    if of.elem.name in ("f16", "bf16"):
        found = unit.apply(op.op, of.elem.name, unit.physical(of.elem, of.lanes), *args)
        return found if found is not None else _by_lane(unit, op.op, args, of, op.type)
    if op.op in ("floordiv", "mod"):
        return _division_by_constant(unit, op, args) or _by_lane(unit, op.op, args, of, op.type)
    if op.op in ("min", "max") and of.elem.is_float:
        found = _extremum_with_number(unit, op, args)
        if found is not None:
            return found
    if op.op in ("shl", "shr"):
        found = _shift_by_constant(unit, op, args)
        if found is not None:
            return found
    return plain_op(unit, op.op, args, of, op.type)


def plain_op(unit: Unit, op: str, args: Sequence[C], of: VType, result: VType) -> C:
    """The same without regard to which operands are constants."""
    elem, lanes = kept(of.elem), unit.physical(of.elem, of.lanes)
    found = unit.apply(op, elem, lanes, *args)
    if found is not None:
        return found
    ctype = unit.ctype(result)
    if op in COMPARISONS:
        if unit.target.has_mask_registers:
            raise ValueError(f"no row for {op} on {of}")
        left, right = (_plain(unit, a, of.elem, lanes) for a in args)
        return cast(ctype, C(f"{left.at(UNARY)} {_SIGNS[op]} {right.at(UNARY)}", 0))
    if op in _BITS:
        return binary(*_BITS[op], *args)
    if op == "bnot":
        return C(f"~{args[0].at(UNARY)}", UNARY)
    if of.elem.is_integer and op in ("add", "sub", "mul"):
        operands = [_unsigned(unit, a, of.elem, lanes) for a in args]
        return cast(ctype, binary(*_SUMS[op], *operands))
    if of.elem.is_integer and op == "neg":
        return cast(ctype, C(f"-{_unsigned(unit, args[0], of.elem, lanes).at(UNARY)}", UNARY))
    if op == "abs" and of.elem.kind == "uint":
        return args[0]
    if op == "rsqrt":
        one = splat(unit, literal(unit, 1.0, of.elem), of)
        return plain_op(unit, "div", [one, plain_op(unit, "sqrt", args, of, of)], of, of)
    if op in ("min", "max", "min_strict", "max_strict"):
        return _extremum(unit, op, args, of)
    if op in ("shl", "shr"):
        return _shift(unit, op, args, of)
    return _by_lane(unit, op, args, of, result)


def splat(unit: Unit, scalar: C, type: VType) -> C:
    """A scalar in every lane."""
    lanes = unit.physical(type.elem, type.lanes)
    found = unit.apply("splat", kept(type.elem), lanes, scalar)
    if found is None:
        raise ValueError(f"no row for a splat of {type}")
    return found


def choose(unit: Unit, mask: C, then: C, other: C, type: VType) -> C:
    """Lane-wise `mask ? then : other`."""
    lanes = unit.physical(type.elem, type.lanes)
    found = unit.apply("choose", kept(type.elem), lanes, mask, then, other)
    if found is None:
        raise ValueError(f"no row for a choice of {type}")
    return found


def compare_type(of: VType) -> VType:
    """The mask that a comparison of such vectors gives."""
    return VType(TYPES["bool"], of.lanes, of.elem.bits)


def _plain(unit: Unit, arg: C, elem: ElemType, lanes: int) -> C:
    return cast(unit.gnu(kept(elem), elem.bytes, lanes), arg)


def _unsigned(unit: Unit, arg: C, elem: ElemType, lanes: int) -> C:
    return cast(unit.gnu(f"u{elem.bits}", elem.bytes, lanes), arg)


def _by_lane(unit: Unit, op: str, args: Sequence[C], of: VType, result: VType) -> C:
    name = f"tdsl_{op}_{of.elem}x{of.lanes}"
    return per_lane(unit, name, args, of, result, lambda s: scalar_op(unit, op, s, of.elem))


# ---------------------------------------------------------------- masks


def _mask_op(unit: Unit, op: str, args: Sequence[C], type: VType) -> C:
    """Bits or lanes of ones, the operators are the same."""
    match op:
        case "and" | "or" | "band" | "bor" | "bxor":
            return binary(*_BITS["b" + op.removeprefix("b")], *args)
        case "eq" | "ne":
            different = binary(*_BITS["bxor"], *args)
            return different if op == "ne" else _not(unit, different, type)
        case "not" | "bnot":
            return _not(unit, args[0], type)
        case _:
            raise ValueError(f"{op} is no operation on masks")


def _not(unit: Unit, arg: C, type: VType) -> C:
    flipped = C(f"~{arg.at(UNARY)}", UNARY)
    return cast(unit.ctype(type), flipped) if unit.target.has_mask_registers else flipped


# ---------------------------------------------------------------- min, max


def _number(value: Value) -> bool:
    """A constant that is no NaN."""
    match value:
        case Const(number):
            return not math.isnan(number)
        case Splat(arg):
            return _number(arg)
        case _:
            return False


def _extremum_with_number(unit: Unit, op: Op, args: Sequence[C]) -> C | None:
    of = op.type
    key = (kept(of.elem), unit.physical(of.elem, of.lanes))
    if unit.table.get((op.op, *key)) is not None:
        return None
    if _number(op.args[0]):
        return unit.apply(f"{op.op}.number", *key, args[0], args[1])
    if _number(op.args[1]):
        return unit.apply(f"{op.op}.number", *key, args[1], args[0])
    return None


def _extremum(unit: Unit, op: str, args: Sequence[C], of: VType) -> C:
    name = f"tdsl_{op}_{of.elem}x{of.lanes}"
    ctype, mask = unit.ctype(of), compare_type(of)
    a, b = C("a"), C("b")
    base = op.removesuffix("_strict")
    if not of.elem.is_float:
        first = plain_op(unit, "lt" if base == "min" else "gt", [a, b], of, mask)
        body = [f"return {choose(unit, first, a, b, of).text};"]
    else:
        lanes = unit.physical(of.elem, of.lanes)
        # Of a NaN and a number the second operand is given: a NaN in `a` stays, so that where `a`
        # collects a result the next one waits for two instructions alone.
        result = unit.apply(f"{base}.number", kept(of.elem), lanes, b, a)
        result = result or plain_op(unit, base, [a, b], of, of)
        body = []
        if op != base:
            # Of two zeros the bits say which is less; elsewhere equal numbers have equal bits.
            bits = VType(TYPES[f"u{of.elem.bits}"], of.lanes)
            both = [cast(unit.ctype(bits), x) for x in (a, b)]
            joined = plain_op(unit, "bor" if base == "min" else "band", both, bits, bits)
            equal = plain_op(unit, "eq", [a, b], of, mask)
            result = choose(unit, equal, cast(ctype, joined), result, of)
        body.append(f"const {ctype} r = {result.text};")
        nan = plain_op(unit, "ne", [b, b], of, mask)
        body.append(f"return {choose(unit, nan, b, C('r'), of).text};")
    unit.function(ctype, name, [f"{ctype} a", f"{ctype} b"], body)
    return call(name, *args)


# ---------------------------------------------------------------- shifts, divisions


def _constant(value: Value) -> int | None:
    match value:
        case Const(int() as number):
            return number
        case Splat(arg):
            return _constant(arg)
        case _:
            return None


def _shift_by_constant(unit: Unit, op: Op, args: Sequence[C]) -> C | None:
    of, count = op.type, _constant(op.args[1])
    if count is None:
        return None
    if not 0 <= count < of.elem.bits:
        if op.op == "shl" or of.elem.kind == "uint":
            return splat(unit, literal(unit, 0, of.elem), of)
        count = of.elem.bits - 1
    lanes = unit.physical(of.elem, of.lanes)
    number = C(str(count))
    found = unit.apply(f"{op.op}.const", kept(of.elem), lanes, args[0], number)
    if found is not None:
        return found
    if op.op == "shl":
        moved = C(f"{_unsigned(unit, args[0], of.elem, lanes).at(UNARY)} << {count}", 0)
    else:
        moved = C(f"{_plain(unit, args[0], of.elem, lanes).at(UNARY)} >> {count}", 0)
    return cast(unit.ctype(of), moved)


def _shift(unit: Unit, op: str, args: Sequence[C], of: VType) -> C:
    """Counts beyond the width give 0 or the sign; a negative count is a large unsigned one."""
    name = f"tdsl_{op}_{of.elem}x{of.lanes}"
    ctype, bits = unit.ctype(of), of.elem.bits
    lanes = unit.physical(of.elem, of.lanes)
    unsigned = unit.gnu(f"u{bits}", of.elem.bytes, lanes)
    plain = unit.gnu(kept(of.elem), of.elem.bytes, lanes)
    every = ", ".join([str(bits)] * lanes)
    least = ", ".join([str(bits - 1)] * lanes)
    body = [
        f"const {unsigned} n = ({unsigned})b;",
        *wrap_braces(f"const {unsigned} width = ", every),
        *wrap_braces(f"const {unsigned} most = ", least),
    ]
    if op == "shl" or of.elem.kind == "uint":
        sign, start = ("<<", unsigned) if op == "shl" else (">>", unsigned)
        body.append(f"return ({ctype})((({start})a {sign} (n & most)) & ({unsigned})(n < width));")
    else:
        body.append(f"const {unsigned} inside = ({unsigned})(n < width);")
        body.append("const " + unsigned + " count = (n & inside) | (most & ~inside);")
        body.append(f"return ({ctype})(({plain})a >> ({plain})count);")
    unit.function(ctype, name, [f"{ctype} a", f"{ctype} b"], body)
    return call(name, *args)


def wrap_braces(start: str, items: str) -> list[str]:
    """An initializer over as many lines as it needs."""
    whole = f"{start}{{{items}}};"
    if len(whole) <= 100:
        return [whole]
    out, line = [f"{start}{{"], "   "
    for item in items.split(", "):
        if len(line) + len(item) > 96:
            out.append(line)
            line = "   "
        line += f" {item},"
    return [*out, line.rstrip(","), "};"]


def _division_by_constant(unit: Unit, op: Op, args: Sequence[C]) -> C | None:
    """Floor division by a power of two is a shift, the modulo a mask."""
    of = op.type
    if op.op not in ("floordiv", "mod") or not of.elem.is_integer:
        return None
    divisor = _constant(op.args[1])
    if divisor is None or divisor <= 0 or divisor & (divisor - 1):
        return None
    if op.op == "floordiv":
        count = Const(divisor.bit_length() - 1, of)
        return _shift_by_constant(unit, Op("shr", (op.args[0], count), of), [args[0], args[1]])
    mask = splat(unit, literal(unit, divisor - 1, of.elem), of)
    return plain_op(unit, "band", [args[0], mask], of, of)
