"""The functions that a caller sees: checks on entry, the workspace, the variant's name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tdsl.codegen.calls import CallPrinter, CVariant, indented, pointer
from tdsl.codegen.checks import ArgumentChecks, is_argument, is_scalar
from tdsl.codegen.dispatch import choice_function, sizes_in
from tdsl.codegen.index import IndexPrinter
from tdsl.codegen.names import Names
from tdsl.codegen.prepare import PreparePrinter, layout, size_check
from tdsl.codegen.processors import arm_feature
from tdsl.codegen.text import comment, prototype, wrap
from tdsl.codegen.unit import Unit, memory_type
from tdsl.codegen.workspace import in_workspace
from tdsl.ir import kernel
from tdsl.ir.printer import print_expr
from tdsl.ir.types import ElemType
from tdsl.ir.vector import Buffer, Function

STATUS = (
    (0, "done"),
    (1, "a size or stride is out of range, or an array has 2^62 bytes or more"),
    (2, "an assumption of the kernel, or a promised range, does not hold"),
    (3, "a pointer is NULL or misaligned"),
    (4, "an output overlaps another argument or itself"),
    (5, "no memory for the workspace"),
    (6, "the processor lacks an instruction that this code uses"),
    (7, "the workspace is not aligned to 64 bytes"),
)


@dataclass(frozen=True)
class CArgument:
    """An argument of an entry, sizes apart. `by_value`: a scalar that is only read."""

    name: str
    c_name: str
    elem: ElemType
    role: str
    rank: int
    by_value: bool
    align: int


@dataclass(frozen=True)
class CPrepared:
    """What a kernel with `const` arguments has beside its entry: `size_t bytes(sizes...)`,
    `int prepare(sizes..., const arguments..., void *prepared)`, and `int run(sizes...,
    arguments..., const void *prepared, void *workspace)`."""

    bytes: str
    prepare: str
    run: str


@dataclass(frozen=True)
class CFunction:
    """An entry: `int c_name(int64_t sizes..., arguments..., void *workspace)`; the free strides of
    an argument follow it."""

    name: str
    c_name: str
    sizes: tuple[str, ...]
    arguments: tuple[CArgument, ...]
    workspace_bytes: str
    variant: str
    prepared: CPrepared | None = None


def describe(
    function: Function,
    names: Names,
    c_name: str,
    space: str,
    variant: str,
    prepared: CPrepared | None,
) -> CFunction:
    """The entry's description; mangles sizes and arguments in declaration order."""
    for size in function.sizes:
        names.add("index", size)
    arguments = tuple(
        CArgument(
            b.name, names.add("buffer", b.name), b.elem, b.role, len(b.groups or b.shape),
            is_scalar(b), max(b.align or 1, b.elem.align),
        )
        for b in function.buffers if is_argument(b)
    )  # fmt: skip
    for buffer in function.buffers:
        for stride in buffer.free_strides:
            names.add("index", stride)
    return CFunction(function.name, c_name, function.sizes, arguments, space, variant, prepared)


def parameters(
    function: Function, names: Names, last: Sequence[str] = ("void *workspace",), role: str = ""
) -> list[str]:
    """Of the entry, with the types and names of the header; `role`: with its arguments alone."""
    out = [f"int64_t {names['index', size]}" for size in function.sizes]
    for buffer in function.buffers:
        if is_argument(buffer) and role in ("", buffer.role):
            name = names["buffer", buffer.name]
            kind = f"{memory_type(buffer.elem)} " if is_scalar(buffer) else pointer(buffer)
            out.append(kind + name)
            out += [f"int64_t {names['index', stride]}" for stride in buffer.free_strides]
    return [*out, *last]


ALIGNED = ("    if ((uintptr_t)workspace % 64 != 0)", "        return 7;")
PREPARE = ("void *prepared",)
RUN_PREPARED = ("const void *prepared", "void *workspace")


class EntryPrinter:
    """Prints what surrounds the functions that compute, one for each variant. `choice`: the name
    of the function that picks a variant; `places`: of the one that lays prepared arrays out."""

    def __init__(
        self,
        unit: Unit,
        variants: Sequence[CVariant],
        names: Names,
        described: CFunction,
        choice: str,
        places: str,
    ) -> None:
        self._unit, self._variants, self._names = unit, variants, names
        self._function = variants[0].function  # arguments and assumptions are those of all
        self._described, self._choice = described, choice
        self._index = IndexPrinter(lambda kind, name: names[kind, name], unit.helper, frozenset())
        self._layout = layout(places, variants)
        self._prepare = PreparePrinter(unit, names, variants, self._layout)

    def code(self) -> list[str]:
        """All functions, those that are called before those that call."""
        described = self._described
        parts = [self._chooser(), self._prepare.places(), self._workspace(), self._variant()]
        if described.prepared is not None:
            names = described.prepared
            parts.append(self._prepare.bytes(names.bytes))
            params = parameters(self._function, self._names, PREPARE, "const")
            parts.append(self._prepare.prepare(names.prepare, params, self._processor_check()))
        parts.append(self._entry())
        if described.prepared is not None:
            parts.append(self._run_prepared(described.prepared.run))
        return [line for part in parts if part for line in ("", *part)][1:]

    # ------------------------------------------------------------ the variants

    def _chooser(self) -> list[str]:
        conditions = [v.function.condition for v in self._variants]
        if len(conditions) == 1:
            return []
        sizes = sizes_in(conditions, self._function.sizes)
        above = comment(["Which variant runs: the first one whose condition holds."], "")
        made = choice_function(self._unit, self._names, self._choice, sizes, conditions)
        return [*above, *made]

    def _chosen(self) -> str:
        conditions = [v.function.condition for v in self._variants]
        sizes = sizes_in(conditions, self._function.sizes)
        return f"{self._choice}({', '.join(self._names['index', s] for s in sizes)})"

    def _by_variant(self, parts: Sequence[list[str]], *, ends: bool) -> list[str]:
        """The statements of the variant that runs. `ends`: they return."""
        if len(parts) == 1:
            return parts[0]
        lines = [*wrap(f"    switch ({self._chosen()}) {{")]
        for number, part in enumerate(parts):
            case = "default" if number == len(parts) - 1 else f"case {number}"
            body = indented(part) if ends else [*indented(part), "        break;"]
            declares = len(body) > 2
            lines += [f"    {case}: {{" if declares else f"    {case}:", *body]
            lines += ["    }"] if declares else []
        return [*lines, "    }"]

    # ------------------------------------------------------------ beside the entry

    def _size_parameters(self) -> list[str]:
        return [f"int64_t {self._names['index', s]}" for s in self._function.sizes]

    def _size_checks(self, failure: str) -> list[str]:
        """Statements that leave with `failure` where a size is not allowed."""
        sizes = [self._names["index", s] for s in self._function.sizes]
        return [line for s in sizes for line in size_check(s, failure)]

    def _unused(self) -> list[str]:
        return [f"    (void){self._names['index', s]};" for s in self._function.sizes]

    def _memory(self, variant: CVariant) -> list[Buffer]:
        """What a call needs that is handed nothing prepared."""
        return [*in_workspace(variant.function.buffers), *variant.prepared]

    def _workspace(self) -> list[str]:
        """`NAME_workspace_bytes`."""
        lines = prototype(f"size_t {self._described.workspace_bytes}", self._size_parameters(), "")
        lines.append("{")
        calls = CallPrinter(self._unit, self._names)
        total, size = calls.local("total"), calls.local("bytes")
        parts: list[list[str]] = []
        for variant in self._variants:
            part: list[str] = []
            for buffer in self._memory(variant):
                part += wrap(f"    {size} = {calls.room(buffer)};")
                part.append(f"    if ({size} < 0 || {size} >= ((int64_t)1 << 62) - {total})")
                part.append("        return 0;")
                part.append(f"    {total} += {size};")
            parts.append(part)
        if not any(parts):
            return [*lines, *self._unused(), "    return 0;", "}"]
        lines += self._size_checks("return 0;")
        lines.append(f"    int64_t {total} = 0, {size};")
        lines += self._by_variant(parts, ends=False)
        return [*lines, f"    return (size_t){total};", "}"]

    def _variant(self) -> list[str]:
        """`NAME_variant`."""
        texts = [string(v.function.variant) for v in self._variants]
        lines = prototype(f"const char *{self._described.variant}", self._size_parameters(), "")
        lines.append("{")
        if len(texts) == 1:
            return [*lines, *self._unused(), f"    return {texts[0]};", "}"]
        lines += self._size_checks('return "";')
        found = self._names.add("entry", "names")
        lines += wrap(f"    static const char *const {found}[] = {{{', '.join(texts)}}};")
        return [*lines, *wrap(f"    return {found}[{self._chosen()}];"), "}"]

    # ------------------------------------------------------------ the entry

    def _assumptions(self) -> list[str]:
        lines = []
        for assumption in self._function.assumptions:
            lines += [*wrap(f"    if (!({self._index(assumption).text}))"), "        return 2;"]
        return lines

    def _entry(self) -> list[str]:
        """The checks in the order of their status, then the call."""
        params = parameters(self._function, self._names)
        lines = [*prototype(f"int {self._described.c_name}", params, ""), "{"]
        lines += self._size_checks("return 1;")
        local = CallPrinter(self._unit, self._names).local
        checks = ArgumentChecks(self._unit, self._function, self._names, local)
        lines += [*checks.bytes(), *self._assumptions()]
        lines += [*checks.pointers(), *checks.ranges(), *checks.overlaps()]
        lines += self._processor_check()
        lines += ALIGNED
        parts = []
        for variant in self._variants:
            calls = CallPrinter(self._unit, self._names)
            memory, free = calls.obtain(self._memory(variant), "workspace")
            fill = [] if variant.fill is None else calls.call(variant.fill)
            parts.append([*memory, *fill, *calls.call(variant.run), *free, "    return 0;"])
        return [*lines, *self._by_variant(parts, ends=True), "}"]

    def _run_prepared(self, name: str) -> list[str]:
        """`NAME_run_prepared`: const arguments that the calls do not read may be NULL."""
        params = parameters(self._function, self._names, RUN_PREPARED)
        lines = [*prototype(f"int {name}", params, ""), "{"]
        if not self._layout.places:
            passed = [p.split("*")[-1].split(" ")[-1] for p in params if p != RUN_PREPARED[0]]
            call = f"{self._described.c_name}({', '.join(passed)})"
            return [*lines, "    (void)prepared;", *wrap(f"    return {call};"), "}"]
        lines += [*self._size_checks("return 1;"), *self._assumptions()]
        lines += [*self._processor_check(), *ALIGNED]
        parts = [self._prepared_call(number) for number in range(len(self._variants))]
        return [*lines, *self._by_variant(parts, ends=True), "}"]

    def _prepared_call(self, number: int) -> list[str]:
        variant = self._variants[number]
        calls = CallPrinter(self._unit, self._names)
        read = [
            b for b in self._function.buffers
            if b.role != "const" or b.field is not None or variant.run.reads(b)
        ]  # fmt: skip
        unread = [b for b in self._function.buffers if b not in read]
        seen = replace(self._function, buffers=tuple(read))
        checks = ArgumentChecks(self._unit, seen, self._names, calls.local)
        lines = [f"    (void){self._names['buffer', b.name]};" for b in unread]
        lines += [f"    (void){self._names['index', s]};" for b in unread for s in b.free_strides]
        lines += [*checks.bytes(), *checks.pointers()]
        if variant.prepared:
            lines += self._prepare.find(calls, number, "(const char *)prepared")
        else:
            lines.append("    (void)prepared;")
        lines += [*checks.ranges(), *checks.overlaps()]
        if variant.prepared:
            lines += checks.apart("prepared", calls.local("prepared_bytes"))
        memory, free = calls.obtain(variant.run.memory, "workspace")
        return [*lines, *memory, *calls.call(variant.run), *free, "    return 0;"]

    def _processor_check(self) -> list[str]:
        features = sorted(self._unit.required)
        if not features:
            return []
        if self._unit.target.family == "x86":
            tests = " && ".join(f'__builtin_cpu_supports("{f}")' for f in features)
        else:
            for feature in features:
                self._unit.helper(f"tdsl_has_{feature}", arm_feature(feature))
            tests = " && ".join(f"tdsl_has_{f}()" for f in features)
        return [*wrap(f"    if (!({tests}))"), "        return 6;"]


def string(text: str) -> str:
    """A string literal: bytes of UTF-8, those that mean something to C in octal."""
    plain = (
        chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in text.encode()
    )
    return f'"{"".join(plain)}"'


def document(described: CFunction, function: Function, names: Names) -> list[str]:
    """The comment over a prototype."""
    lines = [f"{function.name}: sizes and arguments in the order of the kernel."]
    for argument, buffer in zip(
        described.arguments, (b for b in function.buffers if is_argument(b)), strict=True
    ):
        index = IndexPrinter(lambda kind, name: names[kind, name], lambda a, b: None, frozenset())
        groups = kernel.in_groups(buffer.shape, buffer.groups)
        shape = ", ".join(
            " * ".join(
                f"({text})" if len(g) > 1 and isinstance(e, kernel.Op) else text
                for e, text in ((e, _shape_text(index, e)) for e in g)
            )
            for g in groups
        )
        kind = f"{argument.elem}[{shape}]" if buffer.shape else str(argument.elem)
        if buffer.strides is not None:
            inner = (g[-1] for g in kernel.in_groups(buffer.strides, buffer.groups))
            texts = (
                names["index", s] if isinstance(s, str) else _shape_text(index, s) for s in inner
            )
            kind += f", strides [{', '.join(texts)}] in elements"
        if buffer.layout is not None:
            names_, stored = buffer.layout
            kind += f", element [{', '.join(names_)}] at [{', '.join(map(print_expr, stored))}]"
        align = f", aligned to {buffer.align} bytes" if buffer.align else ""
        values = ""
        if buffer.range is not None:
            values = ", values in " + "..".join(_shape_text(index, e) for e in buffer.range)
        lines.append(f"  {argument.c_name}: {argument.role}, {kind}{align}{values}")
    return comment(lines, "")


def _shape_text(index: IndexPrinter, extent: kernel.Expr) -> str:
    return index(extent).text.replace("tdsl_", "")
