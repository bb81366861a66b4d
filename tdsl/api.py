"""The Python interface.

    module = tdsl.load("conv2d.tdsl")
    conv = module["conv2d"]
    fast = conv.compile(target="native", sizes={"C": 64})
    y = fast(x=x, w=w, b=b)

`tdsl` gives these names to users.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import index
from typing import Any, SupportsIndex

import numpy as np

from tdsl import driver
from tdsl.built import Built, build, messages, plain_entry, unchecked
from tdsl.checking import check_items, kernel_warnings
from tdsl.diagnostics import Diagnostic, ParseError, render
from tdsl.imports import linked
from tdsl.ir.arguments import ArgumentPlan, dimension_text
from tdsl.ir.interp import reference
from tdsl.runtime.arguments import Checker
from tdsl.schedule.builder import Schedule
from tdsl.schedule.choose import size_lets, variants
from tdsl.source import module_name, read_source
from tdsl.syntax import tree
from tdsl.syntax.elaborate import elaborate
from tdsl.syntax.parser import parse as parse_text
from tdsl.syntax.print_expr import print_expr as print_surface
from tdsl.targets import target as find_target

Constant = int | float | str


class CompileWarning(UserWarning):
    """What a compilation found odd, and what it did instead."""


@dataclass(frozen=True)
class Argument:
    """One argument of a kernel; `shape` in the words of the source."""

    name: str
    role: str  # in, const, out or inout
    type: str
    shape: tuple[str, ...]

    def __str__(self) -> str:
        shape = f"[{', '.join(self.shape)}]" if self.shape else ""
        return f"{self.role} {self.name}: {self.type}{shape}"


def load(path: str | os.PathLike[str]) -> Module:
    """The module of a `.tdsl` file."""
    name = os.fspath(path)
    try:
        _, text = read_source(name)
    except UnicodeDecodeError as error:
        raise ParseError.at(
            None, f"{name} is not UTF-8 text: {error.reason} at byte {error.start}"
        ) from None
    return parse(text, name=name)


def parse(text: str, name: str = "<text>") -> Module:
    """The module of a text; messages call it `name`."""
    if not isinstance(text, str):
        raise TypeError(f"expected the text of a .tdsl file as str, got {type(text).__name__}")
    file = linked(parse_text(text, name), name)
    check_items(file)
    return Module(file, name)


class Module:
    """The kernels of one file: `module["conv2d"]`, or `module.kernels`."""

    def __init__(self, file: tree.File, name: str) -> None:
        self.file = file
        self.name = name
        self.kernels: Mapping[str, Kernel] = {
            item.name: Kernel(self, item) for item in file.items if isinstance(item, tree.Kernel)
        }

    def __getitem__(self, name: str) -> Kernel:
        if name not in self.kernels:
            known = ", ".join(self.kernels) or "none"
            raise KeyError(f"{self.name} has no kernel {name!r}; its kernels are {known}")
        return self.kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.kernels)

    def __len__(self) -> int:
        return len(self.kernels)

    def __contains__(self, name: object) -> bool:
        return name in self.kernels

    def __repr__(self) -> str:
        return f"<module {self.name}: {', '.join(self.kernels)}>"


class Kernel:
    """One kernel of a module, not yet compiled."""

    def __init__(self, module: Module, item: tree.Kernel) -> None:
        self.module = module
        self.name = item.name
        self._item = item

    @property
    def sizes(self) -> tuple[str, ...]:
        """Names of the sizes, in the order of the C signature."""
        return self._item.sizes

    @property
    def constants(self) -> Mapping[str, str | None]:
        """The constants and element types, each with its default as it is written."""
        return {
            p.name: None if p.default is None else print_surface(p.default)
            for p in self._item.constants
        }

    @property
    def arguments(self) -> Mapping[str, Argument]:
        """The arguments in order, for the default constants."""
        return {
            a.name: Argument(a.name, a.role, a.type.name, tuple(map(dimension_text, a.grouped)))
            for a in self._default.arguments
        }

    @property
    def statements(self) -> tuple[str, ...]:
        """Names of the statements that schedules may name, in the order of the text."""
        return tuple(s.name for s in self._default.statements if s.starts is None)

    @property
    def schedules(self) -> tuple[str, ...]:
        """Names of the variants in the order in which they are tried; an unnamed one has the
        kernel's name."""
        found = variants(self.module.file, self.name)
        return tuple(dict.fromkeys(s.variant or s.kernel for s in found))

    @cached_property
    def _default(self) -> Any:
        return elaborate(self.module.file, self.name)

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self.sizes)})>"

    # ------------------------------------------------------------ what can be done with it

    def reference(
        self, constants: Mapping[str, Constant] | None = None, /, *arrays: Any, **named: Any
    ) -> Any:
        """What the kernel computes, by the interpreter, in program order and without a schedule.

        Takes and gives back what a compiled kernel does: outputs are made or written into, inout
        arrays are updated. Constants come first: `conv.reference({"pad": 1}, x=x, w=w)`.
        """
        kernel = elaborate(self.module.file, self.name, constants or {})
        entry = plain_entry(kernel)
        checker = Checker(entry, ArgumentPlan(kernel))
        bound = checker.bind(arrays, named)
        values = {a.name: v for a, v in zip(entry.arguments, bound.values, strict=True)}
        inputs = {a.name: np.asarray(values[a.name]) for a in entry.arguments if a.role != "out"}
        sizes = dict(zip(entry.sizes, bound.sizes, strict=True))
        for name, result in reference(kernel, sizes, inputs).items():
            values[name][...] = result
        return checker.give(bound.given)

    def schedule(
        self,
        target: str = "native",
        *,
        variant: str | None = None,
        sizes: Mapping[str, int] | None = None,
        constants: Mapping[str, Constant] | None = None,
        knobs: Mapping[str, int] | None = None,
        strict_fp: bool = False,
    ) -> Schedule:
        """An empty schedule; its methods are the directives, each checked at once."""
        file = self.module.file
        _text(target, "target", "avx2")
        options = driver.Options(self.name, find_target(target), _sizes(sizes), constants or {})
        front = driver.run(file, options, until="dependences")
        return Schedule(
            front.program,
            options.target,
            variant=variant,
            recipes={i.name: i for i in file.items if isinstance(i, tree.Recipe)},
            lets=size_lets(file, self.name),
            knobs=knobs,
            strict_fp=strict_fp,
            known=front.dependences,
        )

    def compile(
        self,
        target: str | None = None,
        sizes: Mapping[str, int] | None = None,
        constants: Mapping[str, Constant] | None = None,
        schedule: str | Schedule | None = None,
        strict_fp: bool = False,
        knobs: Mapping[str, int] | None = None,
    ) -> Built:
        """Compile, and load where this machine or an emulator can run it.

        target: "native" unless `schedule` was made for another. sizes: those that are bound.
        schedule: the name of a variant, or one made by methods, whose sizes, constants and knobs
        then count where none are given here; None takes the first variant whose target and
        condition hold. Where conditions ask about sizes that are not bound, all these variants
        are compiled into one function, which picks at each call.
        """
        sizes, constants, knobs = _sizes(sizes), dict(constants or {}), dict(knobs or {})
        if target is not None:
            _text(target, "target", "avx2")
        if schedule is not None and not isinstance(schedule, str | Schedule):
            raise TypeError(
                "schedule: expected the name of a variant or a schedule made by methods, got "
                f"{schedule!r}"
            )
        if isinstance(schedule, Schedule):
            made_for = schedule.program.kernel
            if made_for.name != self.name:
                raise ValueError(f"this schedule is for {made_for.name}, not for {self.name}")
            sizes = {**dict(made_for.bound), **sizes}
            constants = {**dict(made_for.constants), **constants}
            knobs = {**schedule.knobs, **knobs}
            strict_fp = strict_fp or schedule.strict_fp
            target = target or schedule.target.name
        options = driver.Options(
            self.name, find_target(target or "native"), sizes, constants, schedule, knobs, strict_fp
        )
        front = driver.run(self.module.file, options, until="variant")
        for message in (*kernel_warnings(front), *messages(front)):
            _warn(message)
        parts = driver.complete(front)
        for message in dict.fromkeys(m for part in parts for m in part.scheduled.warnings):
            _warn(message)
        for message in unchecked(parts):
            _warn(message)
        return build(parts, module_name(self.module.name))


def _sizes(given: Mapping[str, int] | None) -> dict[str, int]:
    """Sizes that are bound, which Python's types do not promise to be integers."""
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f'sizes: expected a dict such as {{"N": 64}}, got {given!r}')
    bound = dict(given or {})
    for name, value in bound.items():
        if isinstance(value, bool) or not isinstance(value, SupportsIndex):
            raise TypeError(f"size {name!r}: expected an integer, got {value!r}")
        bound[name] = index(value)
    return bound


def _text(given: object, what: str, example: str) -> None:
    if not isinstance(given, str):
        raise TypeError(f"{what}: expected a name such as {example!r}, got {given!r}")


def _warn(message: Diagnostic) -> None:
    # The caller of `compile`, past this function and the method.
    warnings.warn(render(message), CompileWarning, stacklevel=3)
