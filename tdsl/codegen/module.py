"""A file of C from functions of the vector level, and the header beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from tdsl.codegen.calls import CVariant, Static, static_parameters
from tdsl.codegen.checks import is_argument, is_scalar
from tdsl.codegen.entry import (
    PREPARE,
    RUN_PREPARED,
    STATUS,
    CFunction,
    CPrepared,
    EntryPrinter,
    describe,
    document,
    parameters,
)
from tdsl.codegen.functions import define_functions
from tdsl.codegen.lines import Written, split
from tdsl.codegen.literals import literal
from tdsl.codegen.names import Names
from tdsl.codegen.statements import StatementPrinter
from tdsl.codegen.structs import guarded, records, struct
from tdsl.codegen.text import comment, comment_text, prototype, wrap
from tdsl.codegen.unit import SCALARS, Unit
from tdsl.codegen.vectors import wrap_braces
from tdsl.ir.vector import Block, Buffer, Declare, For, Function, Let, LetIndex
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


PREPARING = (
    "",
    "A kernel with `const` arguments has three functions more. NAME_prepare makes what",
    "depends on them alone, once, in NAME_prepared_bytes bytes, aligned to 64; the two ask",
    "for no sizes but those of the const arguments. NAME_run_prepared is NAME with what was",
    "prepared: const arguments that only NAME_prepare reads may then be NULL.",
)


@dataclass(frozen=True)
class CModule:
    """`c_source` and `header` are whole files; `cdef` declares the same for cffi. `written`: the
    lines that write for a statement."""

    name: str
    c_source: str
    header: str
    cdef: str
    functions: tuple[CFunction, ...]
    written: tuple[Written, ...] = ()


def emit_module(
    name: str,
    functions: Sequence[Function],
    target: Target,
    *,
    prefix: str = "",
) -> CModule:
    """C for one target. Functions of one name, which follow one another, are variants of one
    entry; `prefix` leads its name."""
    unit = Unit(target)
    kernels = [tuple(group) for _, group in groupby(functions, lambda f: f.name)]
    external = Names(external=True, wanted=[prefix + k[0].name for k in kernels])
    for variants in kernels:
        external.add("kernel", prefix + variants[0].name)
    code: list[str] = []
    heads: list[str] = [line for r in records(functions) for line in guarded(r)]
    cdef: list[str] = [line for r in records(functions) for line in struct(r)]
    described: list[CFunction] = []
    number = 0
    for variants in kernels:
        printer = _KernelPrinter(unit, variants, external, prefix, number)
        number += len(variants)
        described.append(printer.described)
        code += ["", *printer.code()]
        heads += ["", *printer.header()]
        cdef += printer.prototypes()
    define_functions(unit)
    header_name = comment_text(name).replace('"', "")
    whole = "\n".join([*_prologue(unit, header_name, target), *code])
    plain, written = split(whole.split("\n"))
    return CModule(
        name,
        "\n".join(plain) + "\n",
        "\n".join(_header(header_name, heads, prepared=any(d.prepared for d in described))) + "\n",
        "\n".join(cdef) + "\n",
        tuple(described),
        written,
    )


class _KernelPrinter:
    """One kernel: static functions compute, the entry checks and calls the one that runs.
    `number`: the place of the first variant among all functions of the file."""

    def __init__(
        self,
        unit: Unit,
        variants: Sequence[Function],
        external: Names,
        prefix: str,
        number: int,
    ) -> None:
        self._unit, self._variants, self._number = unit, variants, number
        self._function = variants[0]
        start = prefix + self._function.name

        def derived(end: str, kind: str = "derived") -> str:
            taken.append(external.add(kind, start + end))
            return taken[-1]

        taken: list[str] = []
        beside = (derived("_workspace_bytes"), derived("_variant"))
        prepared = None
        if any(b.role == "const" for b in self._function.buffers):
            ends = ("_prepared_bytes", "_prepare", "_run_prepared")
            prepared = CPrepared(*map(derived, ends))
        self._choice, self._places = derived("_choice"), derived("_prepared_at")
        labels = [_label(f) if len(variants) > 1 else "" for f in variants]
        # A kind for each: two variants may have one name, or that of a function above.
        self._runs = [derived(f"_run{x}", f"run {n}") for n, x in enumerate(labels)]
        self._fills = [derived(f"_fill{x}", f"fill {n}") for n, x in enumerate(labels)]
        wanted = dict.fromkeys(name for f in variants for name in _wanted(f))
        self._names = Names(taken=taken, wanted=wanted)
        self.described = describe(
            self._function, self._names, external["kernel", start], *beside, prepared
        )

    def code(self) -> list[str]:
        """All C of the kernel."""
        lines: list[str] = []
        variants = []
        for function, run, fill in zip(self._variants, self._runs, self._fills, strict=True):
            lines += comment(function.notes, "") if function.notes else []
            filling = None
            if function.prepare is not None:
                filling = self._static(lines, function, fill, function.prepare, fills=True)
                lines.append("")
            running = self._static(lines, function, run, function.body)
            lines.append("")
            variants.append(CVariant(function, running, filling))
        entry = EntryPrinter(
            self._unit, variants, self._names, self.described, self._choice, self._places
        )
        return [*lines, *entry.code()]

    def _static(
        self, lines: list[str], function: Function, name: str, block: Block, fills: bool = False
    ) -> Static:
        """Adds the text of a static function."""
        by_value = {b.name for b in function.buffers if is_argument(b) and is_scalar(b)}
        number = self._number + [f is function for f in self._variants].index(True)
        statements = StatementPrinter(self._unit, function, self._names, by_value, number)
        body = statements.body(block)
        static = Static(name, function, frozenset(statements.used), fills)
        start = f"static {self._unit.attribute}void {name}"
        lines += prototype(start, static_parameters(self._names, static), "")
        lines += ["{", *self._tables(function, static), *body, "}"]
        return static

    def _tables(self, function: Function, static: Static) -> list[str]:
        tables = [b for b in function.buffers if b.role == "table"]
        return [line for b in tables if static.uses(b) for line in self._table(b)]

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
        function, names, described = self._function, self._names, self.described
        sizes = [f"int64_t {names['index', s]}" for s in function.sizes]
        lines = [
            *prototype(f"int {described.c_name}", parameters(function, names), ";"),
            *prototype(f"size_t {described.workspace_bytes}", sizes, ";"),
            *prototype(f"const char *{described.variant}", sizes, ";"),
        ]
        if described.prepared is not None:
            prepare = parameters(function, names, PREPARE, "const")
            run = parameters(function, names, RUN_PREPARED)
            lines += prototype(f"size_t {described.prepared.bytes}", sizes, ";")
            lines += prototype(f"int {described.prepared.prepare}", prepare, ";")
            lines += prototype(f"int {described.prepared.run}", run, ";")
        return lines

    def header(self) -> list[str]:
        """Prototypes with a comment."""
        return [*document(self.described, self._function, self._names), *self.prototypes()]


def _wanted(function: Function) -> list[str]:
    """All names of the kernel and of the code in it."""
    found = [*function.sizes, *(b.name for b in function.buffers)]
    found += [stride for b in function.buffers for stride in b.free_strides]
    for item in (i for block in function.blocks for i in items(block)):
        match item:
            case Let(name) | LetIndex(name) | Declare(name) | For(name):
                found.append(name)
            case _:
                pass
    return found


def _label(function: Function) -> str:
    """What tells a variant's functions from the others'."""
    return f"_{function.variant or 'as_written'}"


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


def _header(name: str, heads: Sequence[str], *, prepared: bool) -> list[str]:
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
                *(PREPARING if prepared else ()),
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
