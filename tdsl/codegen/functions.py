"""Elementary functions in C: a static function for each type that calls one, made from the
formulas of `tdsl.elementary`.

    exp(f32x16)  ->  static inline __m512 tdsl_exp_f32x16(__m512 x) { ... return result; }
"""

from __future__ import annotations

from tdsl.codegen.names import Names
from tdsl.codegen.statements import StatementPrinter
from tdsl.codegen.text import comment
from tdsl.codegen.unit import Unit
from tdsl.elementary import ARGUMENT, FUNCTIONS, RESULT, Formula
from tdsl.ir.vector import Function


def define_functions(unit: Unit) -> None:
    """Define all functions that the code printed so far calls, behind the helpers that they use."""
    for name, (op, type) in unit.functions.items():
        strict = op.endswith("_strict")
        base = op.removesuffix("_strict")
        formula = Formula(type.elem, type.lanes, fused=unit.target.has_fma and not strict)
        body = FUNCTIONS[base](formula)
        names = Names()
        names.add("value", ARGUMENT)
        names.add("value", RESULT)
        printer = StatementPrinter(unit, Function(name, (), (), (), body), names, set())
        lines = [*printer.body(body), f"    return {RESULT};"]
        ctype = unit.ctype(type)
        attribute = "TDSL_TARGET " if unit.target.family == "x86" else ""
        head = f"static inline {attribute}{ctype} {name}({ctype} {ARGUMENT})"
        above = comment([_title(base, strict)], "")
        unit.helper(name, "\n".join([*above, head, "{", *lines, "}"]))


def _title(op: str, strict: bool) -> str:
    return f"{op}, within 2 ulp" + (", the same on every target" if strict else "")
