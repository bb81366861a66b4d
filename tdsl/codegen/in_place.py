"""Sums that grow in loops, each by one instruction that adds to its own register.

gcc 12 takes each product that is added to a sum for a value of its own, and a multiply-add may
overwrite any of its three operands. In a tile that just fits into the registers these values
wander from register to register until some have none. An instruction in assembly says that the
sum stays where it is, so that all values of one sum share one register.

A loop of known length is left by one way, on which gcc 12 reads the last value from before it
came to the sum's own register: all sums have two registers then. Where the length is hidden there
are two ways, through the loop or around it, and only the sum's own register is on both. A loop
inside another, with nothing behind it, is left to the next iteration: there are two ways anyway.
"""

from __future__ import annotations

from collections.abc import Callable

from tdsl.codegen.text import C, call
from tdsl.codegen.unit import Unit
from tdsl.ir import kernel
from tdsl.ir.index import constant_difference
from tdsl.ir.vector import Assign, Declare, Dot, For, Op, Ref, Value
from tdsl.ir.walk_vector import items
from tdsl.targets.dots import dot_row

MULTIPLY_ADD = {"f32": "vfmadd231ps", "f64": "vfmadd231pd"}

HIDDEN = """static inline int64_t tdsl_hidden(int64_t n)
{
#if defined(__GNUC__) && !defined(__clang__)
    __asm__("" : "+r"(n));
#endif
    return n;
}"""

LIKELY = """#if defined(__GNUC__)
#define tdsl_likely(test) __builtin_expect(!!(test), 1)
#else
#define tdsl_likely(test) (test)
#endif"""


def in_place(unit: Unit, item: Assign, text: Callable[[Value], C]) -> C | None:
    """`s := fma(b, c, s)` or a dot as a call of a helper that prints one instruction; None where
    it is nothing of the kind, or the target's instruction has no choice of registers anyway."""
    if not _is_sum(item) or unit.target.family != "x86":
        return None
    match item.value:
        case Op("fma", (first, second, old), type) if type.lanes > 1 and type.elem.bits >= 32:
            lanes = unit.physical(type.elem, type.lanes)
            short, name = "fma", MULTIPLY_ADD[type.elem.name]
            plain = unit.apply("fma", type.elem.name, lanes, C("a"), C("b"), C("sum"))
        case Dot(old, first, second, columns=0) if old.type.lanes > 1:
            type, kinds = old.type, (first.type.elem.name, second.type.elem.name)
            row = dot_row(unit.target, *kinds, type.lanes)
            if row is None or not row.instruction:
                return None
            unit.features.add(row.feature)
            short, name = f"dot_{kinds[0]}_{kinds[1]}", row.instruction
            plain = C(row.value.format("sum", "a", "b"))
        case _:
            return None
    if plain is None:
        return None
    helper, where = f"tdsl_{short}_to_{type}", "v" if unit.target.has_mask_registers else "x"
    body = [
        "#if defined(__GNUC__) && !defined(__clang__)",
        f'__asm__("{name} %2, %1, %0" : "+{where}"(sum) : "{where}"(a), "{where}m"(b));',
        "return sum;",
        "#else",
        f"return {plain.text};",
        "#endif",
    ]
    operands = {"a": first.type, "b": second.type, "sum": type}
    unit.function(
        unit.ctype(type), helper, [f"{unit.ctype(t)} {n}" for n, t in operands.items()], body
    )
    return call(helper, text(first), text(second), text(old))


def hidden_end(
    unit: Unit, loop: For, grown: frozenset[str], *, last: bool
) -> tuple[str, frozenset[str]]:
    """The function that hides the bound of a loop in which sums grow, or "" where that is of no
    use; and the sums of this loop and those around it, which are `grown`. `last`: nothing stands
    behind the loop in its block."""
    if unit.target.family != "x86":
        return "", grown
    inside = list(items(loop.body))
    declared = {i.name for i in inside if isinstance(i, Declare)}
    sums = {i.name for i in inside if isinstance(i, Assign) and _is_sum(i)} - declared
    known = constant_difference(loop.hi, loop.lo) is not None or all(
        isinstance(e, kernel.Const | kernel.Op)
        for end in (loop.lo, loop.hi)
        for e in kernel.walk(end)
    )
    if not known or not sums or (last and sums <= grown):
        return "", grown | sums
    unit.helper("tdsl_hidden", HIDDEN)
    return "tdsl_hidden", grown | sums


def likely(unit: Unit, condition: kernel.Expr, text: str) -> str:
    """The test of a block that has another version: this one, of all its elements, is the rule.
    Where sizes are numbers, gcc 12 guesses that `62 - 4 * i >= 4` never holds, and then saves space
    in the loops where the time goes."""
    if any(isinstance(e, kernel.Size) for e in kernel.walk(condition)):
        return text
    unit.helper("tdsl_likely", LIKELY)
    return f"tdsl_likely({text})"


def _is_sum(item: Assign) -> bool:
    match item.value:
        case Op("fma", (_, _, Ref(name))) | Dot(Ref(name)):
            return name == item.name and item.value.type.lanes > 1
        case _:
            return False
