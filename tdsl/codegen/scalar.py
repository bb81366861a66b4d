"""Operations on scalars in C, with the meaning that the language gives them.

Signed integers are added unsigned, where C lets them wrap; what C leaves open (division by
zero, shifts beyond the width, conversions out of range) is a helper that does not.
"""

from __future__ import annotations

from collections.abc import Sequence

from tdsl.codegen.halves import from_f32, to_f32
from tdsl.codegen.literals import literal
from tdsl.codegen.text import (
    AND,
    BITAND,
    BITOR,
    BITXOR,
    EQUAL,
    OR,
    PRODUCT,
    RELATION,
    SUM,
    UNARY,
    C,
    binary,
    call,
    cast,
    negate,
    ternary,
)
from tdsl.codegen.unit import SCALARS, Unit
from tdsl.ir.types import F32, F64, ElemType

_SUMS = {"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT)}
_COMPARE = {
    "eq": ("==", EQUAL), "ne": ("!=", EQUAL), "lt": ("<", RELATION), "le": ("<=", RELATION),
    "gt": (">", RELATION), "ge": (">=", RELATION),
}  # fmt: skip
_BITS = {"band": ("&", BITAND), "bor": ("|", BITOR), "bxor": ("^", BITXOR)}
_LOGIC = {"and": ("&&", AND), "or": ("||", OR)}
_LIBM = {
    "sqrt": "sqrt", "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2", "sin": "sin",
    "cos": "cos", "tanh": "tanh", "erf": "erf", "pow": "pow", "floor": "floor", "ceil": "ceil",
    "trunc": "trunc", "round": "rint", "abs": "fabs", "fma": "fma",
}  # fmt: skip
_HALVES = ("f16", "bf16")


def scalar_op(unit: Unit, op: str, args: Sequence[C], elem: ElemType) -> C:
    """`op` on operands of the element type; comparisons and logic give 0 or 1."""
    if elem.name in _HALVES:
        return _half_op(unit, op, args, elem)
    if op in _COMPARE:
        return binary(*_COMPARE[op], *args)
    if op in _LOGIC:
        return binary(*_LOGIC[op], *args)
    if elem.name == "bool" and op in _BITS:
        return binary(*_BITS[op], *args)
    if op == "not" or (op == "bnot" and elem.name == "bool"):
        return C(f"!{args[0].at(UNARY)}", UNARY)
    if elem.is_float:
        return _float_op(unit, op, args, elem)
    return _integer_op(unit, op, args, elem)


def _half_op(unit: Unit, op: str, args: Sequence[C], elem: ElemType) -> C:
    """In f32, rounded back: exact for + - * / sqrt, since f32 has more than twice the digits."""
    result = scalar_op(unit, op, [to_f32(unit, a, elem) for a in args], F32)
    return result if op in _COMPARE else from_f32(unit, result, elem)


# ---------------------------------------------------------------- floats


def _float_op(unit: Unit, op: str, args: Sequence[C], elem: ElemType) -> C:
    end = "f" if elem == F32 else ""
    match op:
        case "add" | "sub" | "mul":
            return binary(*_SUMS[op], *args)
        case "div":
            return binary("/", PRODUCT, *args)
        case "neg":
            return negate(args[0])
        case "min" | "max" | "min_strict" | "max_strict":
            return _extremum(unit, op, args, elem)
        case "fnma":
            unit.headers.add("math.h")
            return call(f"fma{end}", negate(args[0]), *args[1:])
        case "rsqrt":
            unit.headers.add("math.h")
            one = literal(unit, 1.0, elem)
            return binary("/", PRODUCT, one, call(f"sqrt{end}", args[0]))
        case "sigmoid":
            unit.headers.add("math.h")
            one = literal(unit, 1.0, elem)
            below = binary("+", SUM, one, call(f"exp{end}", negate(args[0])))
            return binary("/", PRODUCT, one, below)
        case _ if op in _LIBM:
            unit.headers.add("math.h")
            return call(_LIBM[op] + end, *args)
        case _:
            raise ValueError(f"{op} is no operation on {elem}")


def _extremum(unit: Unit, op: str, args: Sequence[C], elem: ElemType) -> C:
    """NaN wins; strictly, -0 is below +0."""
    name, ctype = f"tdsl_{op}_{elem}", SCALARS[elem.name]
    sign = ">" if op.startswith("max") else "<"
    value = f"a {sign} b || a != a ? a : b"
    if op.endswith("_strict"):
        unit.headers.add("math.h")
        first = "!signbit(a)" if sign == ">" else "signbit(a)"
        value = f"a {sign} b || a != a || (a == b && {first}) ? a : b"
    unit.helper(
        name,
        f"static inline {ctype} {name}({ctype} a, {ctype} b)\n{{\n    return {value};\n}}",
    )
    return call(name, *args)


# ---------------------------------------------------------------- integers


def _integer_op(unit: Unit, op: str, args: Sequence[C], elem: ElemType) -> C:
    ctype = SCALARS[elem.name]
    match op:
        case "add" | "sub" | "mul":
            return _wrapping(op, args, elem)
        case "neg":
            return _wrapping("sub", [C("0"), args[0]], elem)
        case "band" | "bor" | "bxor":
            return binary(*_BITS[op], *args)
        case "bnot":
            flipped = C(f"~{args[0].at(UNARY)}", UNARY)
            return flipped if elem.kind == "int" or elem.bits >= 32 else cast(ctype, flipped)
        case "abs" if elem.kind == "uint":
            return args[0]
        case "abs" | "min" | "max" | "floordiv" | "mod" | "shl" | "shr":
            return _integer_helper(unit, op, args, elem)
        case _:
            raise ValueError(f"{op} is no operation on {elem}")


def _wrapping(op: str, args: Sequence[C], elem: ElemType) -> C:
    """In unsigned arithmetic, at least as wide as int, then back."""
    if elem.kind == "uint" and elem.bits >= 32:
        return binary(*_SUMS[op], *args)
    unsigned = "uint64_t" if elem.bits == 64 else "uint32_t"
    wide = [a if a.text == "0" else cast(unsigned, a) for a in args]
    return cast(SCALARS[elem.name], binary(*_SUMS[op], *wide))


def _integer_helper(unit: Unit, op: str, args: Sequence[C], elem: ElemType) -> C:
    name, ctype = f"tdsl_{op}_{elem}", SCALARS[elem.name]
    parameters = f"{ctype} a" if op == "abs" else f"{ctype} a, {ctype} b"
    body = _integer_body(op, elem, ctype)
    unit.helper(
        name,
        "\n".join(
            [f"static inline {ctype} {name}({parameters})", "{", *(f"    {s}" for s in body), "}"]
        ),
    )
    return call(name, *args)


def _integer_body(op: str, elem: ElemType, ctype: str) -> list[str]:
    signed, bits = elem.kind == "int", elem.bits
    unsigned = "uint64_t" if bits == 64 else "uint32_t"
    negated = f"({ctype})(0 - ({unsigned})a)"
    match op, signed:
        case "min" | "max", _:
            return [f"return a {'<' if op == 'min' else '>'} b ? a : b;"]
        case "abs", _:
            return [f"return a < 0 ? {negated} : a;"]
        case "floordiv", False:
            return ["return b == 0 ? 0 : a / b;"]
        case "mod", False:
            return ["return b == 0 ? 0 : a % b;"]
        case "floordiv", True:
            return [
                "if (b == 0)",
                "    return 0;",
                "if (b == -1)",
                f"    return {negated};",
                f"return ({ctype})(a / b - (a % b != 0 && (a < 0) != (b < 0)));",
            ]
        case "mod", True:
            return [
                "if (b == 0 || b == -1)",
                "    return 0;",
                f"const {ctype} r = ({ctype})(a % b);",
                f"return r != 0 && (r < 0) != (b < 0) ? ({ctype})(r + b) : r;",
            ]
        case "shl", _:  # a negative count is a large unsigned one
            return [f"return ({unsigned})b < {bits} ? ({ctype})(({unsigned})a << b) : 0;"]
        case _, True:
            return [f"return ({ctype})(a >> (({unsigned})b < {bits} ? b : {bits - 1}));"]
        case _:
            return [f"return b < {bits} ? ({ctype})(a >> b) : 0;"]


# ---------------------------------------------------------------- casts


def scalar_cast(unit: Unit, mode: str, arg: C, source: ElemType, result: ElemType) -> C:
    """`arg` of type `source` as a `result`."""
    if source == result:
        return arg
    if mode == "bitcast":
        return _bitcast(unit, arg, source, result)
    if source.name in _HALVES and result.name == "bool":
        return binary("!=", EQUAL, C(f"({arg.at(BITAND)} & 0x7fff)"), C("0"))
    if result.name == "bool":
        return binary("!=", EQUAL, arg, C("0"))
    if source.name in _HALVES:
        return scalar_cast(unit, mode, to_f32(unit, arg, source), F32, result)
    if result.name in _HALVES:
        return _to_half(unit, mode, arg, source, result)
    if source.is_float and not result.is_float:
        return _float_to_integer(unit, arg, source, result)
    if mode == "saturate" and source.is_integer and result.is_integer:
        arg = clamp(unit, arg, source, result)
    return cast(SCALARS[result.name], arg)


def _to_half(unit: Unit, mode: str, arg: C, source: ElemType, result: ElemType) -> C:
    if source.name == "bool":
        return ternary(arg, literal(unit, 1.0, result), C("0"))
    if source == F32:
        return from_f32(unit, arg, result)
    if source != F64:
        arg = cast("double", arg)  # 64-bit integers too: what it rounds away is beyond a half
    return from_f32(unit, _odd(unit, arg), result)


def _odd(unit: Unit, arg: C) -> C:
    """f64 to f32 rounding to odd, so that a second rounding is as if it were the only one."""
    unit.helper(
        "tdsl_odd_f32",
        """static inline float tdsl_odd_f32(double x)
{
    float y = (float)x;
    uint32_t bits;
    memcpy(&bits, &y, sizeof bits);
    if ((double)y == x || x != x || (bits & 1) != 0)
        return y;
    const int away = (y < 0 ? -(double)y : (double)y) > (x < 0 ? -x : x);
    bits = away ? bits - 1 : bits + 1;
    memcpy(&y, &bits, sizeof y);
    return y;
}""",
    )
    return call("tdsl_odd_f32", arg)


def clamp(unit: Unit, arg: C, source: ElemType, result: ElemType) -> C:
    """An integer moved into the range of another integer type, still of its own."""
    low, high = bounds(result)
    least, most = bounds(source)
    if least < low:
        arg = scalar_op(unit, "max", [arg, literal(unit, low, source)], source)
    if most > high:
        arg = scalar_op(unit, "min", [arg, literal(unit, high, source)], source)
    return arg


def bounds(elem: ElemType) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    if elem.kind == "int":
        return -(1 << elem.bits - 1), (1 << elem.bits - 1) - 1
    return 0, (1 << elem.bits) - 1


def _float_to_integer(unit: Unit, arg: C, source: ElemType, result: ElemType) -> C:
    name, ctype = f"tdsl_{source}_to_{result}", SCALARS[result.name]
    low, high = bounds(result)
    above = literal(unit, float(high + 1), source).text  # a power of two: exact
    below = literal(unit, float(low), source).text
    bottom, top = literal(unit, low, result).text, literal(unit, high, result).text
    unit.helper(
        name,
        f"""static inline {ctype} {name}({SCALARS[source.name]} x)
{{
    if (x != x)
        return 0;
    if (x <= {below})
        return {bottom};
    if (x >= {above})
        return {top};
    return ({ctype})x;
}}""",
    )
    return call(name, arg)


def _bitcast(unit: Unit, arg: C, source: ElemType, result: ElemType) -> C:
    if source.is_integer and result.is_integer:
        return cast(SCALARS[result.name], arg)
    to, of = SCALARS[result.name], SCALARS[source.name]
    if to == of:
        return arg
    name = f"tdsl_{result}_from_bits" if result.is_float else f"tdsl_bits_of_{source}"
    unit.helper(
        name,
        f"""static inline {to} {name}({of} x)
{{
    {to} y;
    memcpy(&y, &x, sizeof y);
    return y;
}}""",
    )
    return cast(to, call(name, arg)) if result.is_integer else call(name, arg)
