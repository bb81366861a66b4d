"""A file of C from functions of the vector level, and the header beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tdsl.codegen.checks import is_argument, is_scalar
from tdsl.codegen.entry import (
    STATUS,
    CFunction,
    EntryPrinter,
    describe,
    document,
    parameters,
    pointer,
    prototype,
)
from tdsl.codegen.functions import define_functions
from tdsl.codegen.literals import literal
from tdsl.codegen.names import Names
from tdsl.codegen.statements import StatementPrinter
from tdsl.codegen.text import comment, comment_text, wrap
from tdsl.codegen.unit import SCALARS, Unit
from tdsl.codegen.vectors import wrap_braces
from tdsl.codegen.workspace import is_sliced, slice_parameters, threads_name
from tdsl.ir.vector import Buffer, Declare, For, Function, Let, LetIndex
from tdsl.ir.walk_vector import items
from tdsl.targets import Target

GUARD = """#ifdef __FAST_MATH__
#error "results are exact only without -ffast-math"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif"""
_HEADERS = ("stddef.h", "stdint.h", "stdlib.h", "math.h", "string.h", "immintrin.h", "arm_neon.h")


@dataclass(frozen=True)
class CModule:
    """`c_source` and `header` are whole files; `cdef` declares the same for cffi."""

    name: str
    c_source: str
    header: str
    cdef: str
    functions: tuple[CFunction, ...]


def emit_module(
    name: str,
    functions: Sequence[Function],
    target: Target,
    *,
    prefix: str = "",
    variants: Mapping[str, str],
) -> CModule:
    """C for one target. `variants` names each function's schedule; `prefix` leads each entry."""
    unit = Unit(target)
    external = Names(external=True, wanted=[prefix + function.name for function in functions])
    for function in functions:
        external.add("kernel", prefix + function.name)
    code: list[str] = []
    heads: list[str] = []
    cdef: list[str] = []
    described: list[CFunction] = []
    for function in functions:
        printer = _FunctionPrinter(unit, function, external, prefix)
        described.append(printer.described)
        code += ["", *printer.code(variants.get(function.name, ""))]
        heads += ["", *printer.header()]
        cdef += printer.prototypes()
    define_functions(unit)
    header_name = comment_text(name).replace('"', "")
    return CModule(
        name,
        "\n".join([*_prologue(unit, header_name, target), *code]) + "\n",
        "\n".join(_header(header_name, heads)) + "\n",
        "\n".join(cdef) + "\n",
        tuple(described),
    )


class _FunctionPrinter:
    """One kernel: `run` computes, the entry checks and calls it."""

    def __init__(self, unit: Unit, function: Function, external: Names, prefix: str) -> None:
        self._unit, self._function = unit, function
        c_name = external["kernel", prefix + function.name]
        derived = [
            external.add("derived", prefix + function.name + end)
            for end in ("_workspace_bytes", "_variant", "_run")
        ]
        self._run = derived[2]
        self._names = Names(taken=derived, wanted=_wanted(function))
        self.described = describe(function, self._names, c_name, derived[0], derived[1])

    def code(self, variant: str) -> list[str]:
        """All C of the kernel."""
        by_value = {b.name for b in self._function.buffers if is_argument(b) and is_scalar(b)}
        statements = StatementPrinter(self._unit, self._function, self._names, by_value)
        body = statements.body(self._function.body)
        entry = EntryPrinter(self._unit, self._function, self._names, self.described, self._run)
        return [
            *(comment(self._function.notes, "") if self._function.notes else []),
            *self._head(statements.used),
            "{",
            *self._tables(statements.used),
            *body,
            "}",
            "",
            *entry.workspace(),
            "",
            *entry.variant(variant),
            "",
            *entry.entry(self._run, statements.used),
        ]

    def _head(self, used: set[tuple[str, str]]) -> list[str]:
        params = [
            f"const int64_t {self._names['index', s]}"
            for s in self._function.sizes
            if ("index", s) in used
        ]
        for buffer in self._function.buffers:
            if ("buffer", buffer.name) not in used or buffer.role in ("stack", "table"):
                continue
            name = self._names["buffer", buffer.name]
            if is_sliced(buffer):
                params += slice_parameters(self._names, buffer)
            elif is_scalar(buffer):
                params.append(f"const {SCALARS[buffer.elem.name]} {name}")
            else:
                params.append(f"{pointer(buffer)}restrict {name}")
                params += [
                    f"const int64_t {self._names['index', s]}"
                    for s in buffer.free_strides
                    if ("index", s) in used
                ]
        if any(is_sliced(b) and ("buffer", b.name) in used for b in self._function.buffers):
            params.append(f"const int {threads_name(self._names)}")
        attribute = self._unit.attribute
        return prototype(f"static {attribute}void {self._run}", params, "")

    def _tables(self, used: set[tuple[str, str]]) -> list[str]:
        tables = [b for b in self._function.buffers if b.role == "table"]
        return [line for b in tables if ("buffer", b.name) in used for line in self._table(b)]

    def _table(self, buffer: Buffer) -> list[str]:
        values = ", ".join(literal(self._unit, v, buffer.elem).text for v in buffer.values or ())
        name = self._names["buffer", buffer.name]
        start = (
            f"static const {SCALARS[buffer.elem.name]} {name}[{max(1, len(buffer.values or ()))}] "
            "__attribute__((aligned(64))) = "
        )
        return [f"    {line}" for line in wrap_braces(start, values or "0")]

    def prototypes(self) -> list[str]:
        """As cffi and the header declare them."""
        sizes = [f"int64_t {self._names['index', s]}" for s in self._function.sizes]
        return [
            *prototype(
                f"int {self.described.c_name}", parameters(self._function, self._names), ";"
            ),
            *prototype(f"size_t {self.described.workspace_bytes}", sizes, ";"),
            *prototype(f"const char *{self.described.variant}", sizes, ";"),
        ]

    def header(self) -> list[str]:
        """Prototypes with a comment."""
        return [*document(self.described, self._function, self._names), *self.prototypes()]


def _wanted(function: Function) -> list[str]:
    """All names of the kernel and of the code in it."""
    found = [*function.sizes, *(b.name for b in function.buffers)]
    found += [stride for b in function.buffers for stride in b.free_strides]
    for item in items(function.body):
        match item:
            case Let(name) | LetIndex(name) | Declare(name) | For(name):
                found.append(name)
            case _:
                pass
    return found


def _prologue(unit: Unit, name: str, target: Target) -> list[str]:
    headers = {"stddef.h", "stdint.h"} | unit.headers
    lines = [f"/* {name}: generated by tdsl for {target.name}. */", "", GUARD, ""]
    lines += [f"#include <{h}>" for h in _HEADERS if h in headers]
    if "omp.h" in headers:
        lines += ["#ifdef _OPENMP", "#include <omp.h>", "#endif"]
    lines += ["", f'#include "{name}.h"']
    if unit.attribute:
        features = ",".join(sorted(unit.required))
        if unit.target.family == "neon":
            features = "+".join(["arch=armv8.2-a", *sorted(unit.required)])
        lines += ["", f'#define TDSL_TARGET __attribute__((target("{features}")))']
    if unit.typedefs:
        lines += ["", *unit.typedefs.values()]
    for text in unit.helpers.values():
        lines += ["", *(w for line in text.split("\n") for w in wrap(line))]
    return lines


def _header(name: str, heads: Sequence[str]) -> list[str]:
    guard = "TDSL_" + "".join(c if c.isalnum() and c.isascii() else "_" for c in name).upper()
    status = [f"  {number}  {text}" for number, text in STATUS]
    return [
        *comment(
            [
                f"{name}: generated by tdsl.",
                "",
                "Each kernel returns a status:",
                *status,
                "",
                "Arrays are row-major and contiguous, unless strides are said; f16, bf16 are their",
                "bits, bool is 0 or 1.",
                "NAME_workspace_bytes says how much memory, aligned to 64 bytes, `workspace` must",
                "point to; with NULL the kernel allocates and frees it. NAME_variant names the",
                "schedule that runs.",
            ],
            "",
        ),
        f"#ifndef {guard}_H",
        f"#define {guard}_H",
        "",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        *heads,
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        "#endif",
    ]
