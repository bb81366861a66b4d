"""What is made once of `const` arguments: `NAME_prepared_bytes`, `NAME_prepare`, and the entry
that uses it, `NAME_run_prepared`.

The buffer holds the arrays of every variant that calls with these const arguments may choose, so
that it serves whatever the other sizes of a call are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tdsl.codegen.calls import CallPrinter, CVariant, indented
from tdsl.codegen.checks import UNUSABLE, ArgumentChecks, is_scalar
from tdsl.codegen.dispatch import ConditionPrinter, reachable, sizes_in
from tdsl.codegen.names import Names
from tdsl.codegen.text import comment, prototype, wrap
from tdsl.codegen.unit import Unit
from tdsl.ir.kernel import Const, Expr, Size, walk
from tdsl.ir.vector import Buffer, Function


@dataclass(frozen=True)
class Layout:
    """Where prepared arrays are in the buffer: the C function that says so, the sizes that it
    takes, the place of each array in the table that it fills, by variant and name, and for each
    variant the sizes for which it has its arrays there."""

    function: str
    sizes: tuple[str, ...]
    places: tuple[tuple[int, Buffer], ...]
    reached: tuple[Expr, ...]

    def place(self, variant: int, buffer: Buffer) -> int:
        return self.places.index((variant, buffer))


def layout(function: str, variants: Sequence[CVariant]) -> Layout:
    """The arrays of all variants, one after the other."""
    told = variants[0].function.const_sizes
    reached = reachable([v.function.condition for v in variants], told)
    places = tuple((n, b) for n, v in enumerate(variants) for b in v.prepared)
    kept = [reached[n] for n, v in enumerate(variants) if v.prepared]
    extents = [e for _, b in places for e in b.shape]
    return Layout(function, tuple(sizes_in([*kept, *extents], told)), places, tuple(reached))


@dataclass(frozen=True)
class PreparePrinter:
    """Prints the functions around prepared arrays, for kernels that have `const` arguments."""

    unit: Unit
    names: Names
    variants: Sequence[CVariant]
    layout: Layout

    @property
    def _function(self) -> Function:
        return self.variants[0].function

    @property
    def _const(self) -> Function:
        """With the const arguments alone."""
        kept = tuple(b for b in self._function.buffers if b.role == "const")
        return replace(self._function, buffers=kept)

    @property
    def _sizes(self) -> list[str]:
        """The sizes that matter: those that const arguments tell, and those in their shapes."""
        told = set(self._function.const_sizes)
        told |= {s for b in self._const.buffers for s in _sizes_of((*b.shape, *(b.range or ())))}
        return [s for s in self._function.sizes if s in told]

    # ------------------------------------------------------------ the layout

    def places(self) -> list[str]:
        """A function that fills a table of offsets, and returns the bytes of all or -1."""
        if not self.layout.places:
            return []
        calls = CallPrinter(self.unit, self.names)
        sizes = [f"int64_t {self.names['index', s]}" for s in self.layout.sizes]
        total, bytes_, at = (calls.local(n) for n in ("total", "bytes", "at"))
        lines = [
            *comment(["Where each prepared array begins; gives the bytes of all, or -1."], ""),
            *prototype(f"static int64_t {self.layout.function}", [*sizes, f"int64_t *{at}"], ""),
            "{",
            f"    int64_t {total} = 0, {bytes_};",
        ]
        for number, variant in enumerate(self.variants):
            part: list[str] = []
            for buffer in variant.prepared:
                part += wrap(f"    {bytes_} = {calls.room(buffer)};")
                part.append(f"    if ({bytes_} < 0 || {bytes_} >= ((int64_t)1 << 62) - {total})")
                part.append("        return -1;")
                part.append(f"    {at}[{self.layout.place(number, buffer)}] = {total};")
                part.append(f"    {total} += {bytes_};")
            lines += self._where_reached(number, part)
        return [*lines, f"    return {total};", "}"]

    def _where_reached(self, number: int, lines: list[str]) -> list[str]:
        condition = self.layout.reached[number]
        if not lines or condition == Const(True, condition.type):
            return lines
        text = ConditionPrinter(self.unit, self.names)(condition).text
        return [*wrap(f"    if ({text}) {{"), *indented(lines), "    }"]

    def find(self, calls: CallPrinter, number: int, prepared: str) -> list[str]:
        """Statements after which the prepared arrays of a variant have places in the buffer."""
        at, bytes_ = calls.local("at"), calls.local("prepared_bytes")
        sizes = ", ".join([*(self.names["index", s] for s in self.layout.sizes), at])
        self.unit.helper("tdsl_unusable", UNUSABLE)
        self._locate(calls, number, prepared)
        return [
            f"    int64_t {at}[{len(self.layout.places)}] = {{0}};",
            *wrap(f"    const int64_t {bytes_} = {self.layout.function}({sizes});"),
            f"    if ({bytes_} < 0)",
            "        return 1;",
            f"    if (tdsl_unusable(prepared, {bytes_}, 64))",
            "        return 3;",
        ]

    # ------------------------------------------------------------ what callers see

    def bytes(self, name: str) -> list[str]:
        """`NAME_prepared_bytes`."""
        calls = CallPrinter(self.unit, self.names)
        sizes = [f"int64_t {self.names['index', s]}" for s in self._function.sizes]
        lines = [*prototype(f"size_t {name}", sizes, ""), "{"]
        used = self._sizes if self.layout.places else []
        lines += self._unused(used)
        if not self.layout.places:
            return [*lines, "    return 0;", "}"]
        at, total = calls.local("at"), calls.local("total")
        passed = ", ".join([*(self.names["index", s] for s in self.layout.sizes), at])
        lines += self._size_checks(used, "return 0;")
        lines.append(f"    int64_t {at}[{len(self.layout.places)}];")
        lines += wrap(f"    const int64_t {total} = {self.layout.function}({passed});")
        return [*lines, f"    return {total} < 0 ? 0 : (size_t){total};", "}"]

    def prepare(self, name: str, parameters: Sequence[str], processor: Sequence[str]) -> list[str]:
        """`NAME_prepare`: the checks of const arguments in the order of their status, then all
        that is prepared."""
        calls = CallPrinter(self.unit, self.names)
        lines = [*prototype(f"int {name}", parameters, ""), "{"]
        lines += self._unused(self._sizes)
        for buffer in self._const.buffers:
            if is_scalar(buffer) and not self._filled(buffer):
                lines.append(f"    (void){self.names['buffer', buffer.name]};")
        lines += self._size_checks(self._sizes, "return 1;")
        checks = ArgumentChecks(self.unit, self._const, self.names, calls.local)
        lines += checks.bytes()
        printer = ConditionPrinter(self.unit, self.names)
        for assumption in self._function.assumptions:
            if set(_sizes_of((assumption,))) <= set(self._sizes):
                text = printer(assumption).text
                lines += [*wrap(f"    if (!({text}))"), "        return 2;"]
        lines += [*checks.pointers(), *checks.ranges()]
        if not self.layout.places:
            return [*lines, "    (void)prepared;", "    return 0;", "}"]
        lines += self.find(calls, 0, "(char *)prepared")
        lines += checks.apart("prepared", calls.local("prepared_bytes"), written=False)
        lines += processor
        for number, variant in enumerate(self.variants):
            if variant.fill is not None:
                self._locate(calls, number, "(char *)prepared")
                memory, free = calls.obtain(variant.fill.memory, None)
                part = [*memory, *calls.call(variant.fill), *free]
                guarded = self._where_reached(number, part)
                if memory and guarded is part:
                    guarded = ["    {", *indented(part), "    }"]
                lines += guarded
        return [*lines, "    return 0;", "}"]

    def _locate(self, calls: CallPrinter, number: int, prepared: str) -> None:
        at = calls.local("at")
        for buffer in self.variants[number].prepared:
            place = self.layout.place(number, buffer)
            calls.places[buffer.name] = f"{prepared} + {at}[{place}]"

    def _filled(self, buffer: Buffer) -> bool:
        fills = (v.fill for v in self.variants)
        return buffer.range is not None or any(f is not None and f.uses(buffer) for f in fills)

    def _unused(self, used: Sequence[str]) -> list[str]:
        others = [s for s in self._function.sizes if s not in used]
        return [f"    (void){self.names['index', s]};" for s in others]

    def _size_checks(self, sizes: Sequence[str], failure: str) -> list[str]:
        return [line for s in sizes for line in size_check(self.names["index", s], failure)]


def size_check(name: str, failure: str) -> list[str]:
    """Leaves with `failure` where a size is not allowed."""
    return [f"    if ({name} < 0 || {name} >= (int64_t)1 << 40)", f"        {failure}"]


def _sizes_of(exprs: Sequence[Expr]) -> list[str]:
    return [e.name for x in exprs for e in walk(x) if isinstance(e, Size)]
