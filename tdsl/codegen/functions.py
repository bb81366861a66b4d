"""Elementary functions in C: a static function for each type that calls one, made from the
formulas of `tdsl.elementary`.

    exp(f32x16)  ->  static inline __m512 tdsl_exp_f32x16(__m512 x) { ... return result; }
"""

from __future__ import annotations

from tdsl.codegen.names import Names
from tdsl.codegen.statements import StatementPrinter
from tdsl.codegen.text import comment
from tdsl.codegen.unit import Unit
from tdsl.codegen.vectors import wrap_braces
from tdsl.elementary import ARGUMENT, FUNCTIONS, LARGE, RESULT, TABLES, Formula
from tdsl.ir.types import F64
from tdsl.ir.vector import Function, VType


def define_functions(unit: Unit) -> None:
    """Define all functions that the code printed so far calls, behind the helpers that they use."""
    for op, type in list(unit.functions.values()):
        _define(unit, op, type)


def _define(unit: Unit, op: str, type: VType) -> None:
    strict = op.endswith("_strict")
    base = op.removesuffix("_strict")
    if f"{base}_far" in LARGE:
        _define(unit, op.replace(base, f"{base}_far"), VType(F64))
    name = f"tdsl_{op}_{type}"
    if name in unit.helpers:
        return
    fused = unit.target.has_fma and not strict
    scales = type.lanes > 1 and _has(unit, "scale", type)
    formula = Formula(type.elem, type.lanes, fused=fused, strict=strict, scales=scales)
    body = {**FUNCTIONS, **LARGE}[base](formula)
    names = Names()
    names.add("value", ARGUMENT)
    names.add("value", RESULT)
    printer = StatementPrinter(unit, Function(name, (), (), (), body), names, set())
    lines = printer.body(body)
    used = {table for kind, table in printer.used if kind == "buffer"}
    tables = [line for table in TABLES if table in used for line in _table(names, table)]
    ctype = unit.ctype(type)
    attribute = unit.attribute
    head = f"static inline {attribute}{ctype} {name}({ctype} {ARGUMENT})"
    above = comment([_title(base, strict)], "")
    unit.helper(name, "\n".join([*above, head, "{", *tables, *lines, f"    return {RESULT};", "}"]))


def _has(unit: Unit, op: str, type: VType) -> bool:
    """Whether an instruction does that."""
    return (op, type.elem.name, unit.physical(type.elem, type.lanes)) in unit.table


def _title(base: str, strict: bool) -> str:
    title = f"{base.removesuffix('_far')}, within 2 ulp"
    if base in LARGE:
        title += ", for large arguments"
    return title + (", the same on every target" if strict else "")


def _table(names: Names, table: str) -> list[str]:
    """A table of words inside the function."""
    words = TABLES[table]
    start = f"static const uint64_t {names['buffer', table]}[{len(words)}] = "
    values = ", ".join(f"0x{word:016x}ULL" for word in words)
    return [f"    {line}" for line in wrap_braces(start, values)]
