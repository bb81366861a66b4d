"""What several commands take: a file, which of its kernels, and how these are compiled."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from tdsl import driver
from tdsl.built import messages
from tdsl.checking import check_items, kernel_warnings
from tdsl.commands import console
from tdsl.diagnostics import Error, ParseError, UnsupportedTarget
from tdsl.imports import linked
from tdsl.schedule.choose import variants
from tdsl.source import module_name, read_source
from tdsl.syntax import tree
from tdsl.syntax.constants import kernel_constants
from tdsl.syntax.parser import parse
from tdsl.targets import Target, target

SIZE_LIMIT = 2**40


class WrongUse(click.UsageError):
    """The command line asks for what is not there; `hint` says what is."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def read(path: str) -> tuple[str, str]:
    """(name, text) of the file that a command is given; `-` is standard input."""
    try:
        return read_source(path)
    except UnicodeDecodeError as error:
        raise WrongUse(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise WrongUse(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:  # a null byte in a path
        raise WrongUse(f"cannot read {path!r}: {error}") from None


# ---------------------------------------------------------------- values of options


def pairs(values: Iterable[str], option: str, example: str) -> dict[str, str]:
    """`NAME=VALUE`, each name once."""
    found: dict[str, str] = {}
    for value in values:
        name, sign, text = value.partition("=")
        if not name or not sign or not text:
            raise WrongUse(f"{option} {value}: expected NAME=VALUE, as in {option} {example}")
        if found.get(name, text) != text:
            raise WrongUse(f"{option} {name} is given twice, as {found[name]} and as {text}")
        found[name] = text
    return found


def sizes_of(values: Iterable[str]) -> dict[str, int]:
    """`N=64`, in the range of sizes."""
    found = {}
    for name, text in pairs(values, "--size", "N=64").items():
        if not re.fullmatch(r"[+-]?[0-9]{1,30}", text):
            several = "write --size once for each: --size M=64 --size N=64"
            raise WrongUse(
                f"--size {name}={text}: {text!r} is not an integer",
                several if "," in text else None,
            )
        if not 0 <= int(text) < SIZE_LIMIT:
            raise WrongUse(f"--size {name}={text}: sizes satisfy 0 <= {name} < 2^40")
        found[name] = int(text)
    return found


def unknown(kind: str, name: str, known: Sequence[str], where: str) -> WrongUse:
    """`there is no kernel conv in x.tdsl`, with the nearest names."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    listed = f"its {kind}s are {', '.join(known)}" if known else f"it has no {kind}s"
    hint = f"did you mean {' or '.join(close)}?" if close else listed
    return WrongUse(f"there is no {kind} {name} in {where}", hint)


def target_of(name: str) -> Target:
    """The target of an option."""
    try:
        return target(name)
    except UnsupportedTarget as error:
        first = error.diagnostics[0]
        known = "; ".join(n.message for n in first.notes)
        raise WrongUse(first.message, first.help or known or None) from None


# ---------------------------------------------------------------- the request


@dataclass(frozen=True)
class Request:
    """A file, and the options of each kernel that is asked for. `module` names the C files."""

    name: str
    module: str
    file: tree.File
    target: Target
    options: tuple[driver.Options, ...]

    def only(self) -> driver.Options:
        """The one kernel of a command that takes no more."""
        if len(self.options) > 1:
            names = ", ".join(o.kernel for o in self.options)
            raise WrongUse(
                f"{self.name} has {len(self.options)} kernels: name one with --kernel",
                f"its kernels are {names}",
            )
        return self.options[0]


Command = Callable[..., Any]

_SHARED = (
    click.argument("file", metavar="FILE"),
    click.option(
        "--kernel",
        metavar="K",
        help="One kernel of the file; `run` wants it where there are several.",
    ),
    click.option("--schedule", metavar="V", help="The schedule by name, whatever its `when` says."),
    click.option("--target", metavar="T", default="native", show_default=True,
                 help="c, avx2, avx512, neon or native; extensions follow a plus."),
    click.option("--size", "sizes", metavar="N=64", multiple=True,
                 help="Bind a size: it is compiled in. Repeated."),
    click.option("--const", "constants", metavar="C=1", multiple=True,
                 help="A constant, element type, def or table between < and >. Repeated."),
    click.option("--strict-fp", is_flag=True,
                 help="Keep the order of sums, round every operation, and let -0 be less than +0."),
)  # fmt: skip


def shared(command: Command) -> Command:
    """The options of `compile`, `run` and `show`, which `request` takes by name."""
    for option in reversed(_SHARED):
        command = option(command)
    return command


def request(
    file: str,
    kernel: str | None,
    schedule: str | None,
    target: str,
    sizes: Sequence[str],
    constants: Sequence[str],
    strict_fp: bool,
) -> Request:
    """Read the file and hold the options against it."""
    chosen, bound = target_of(target), sizes_of(sizes)
    values = pairs(constants, "--const", "pad=1")
    name, text = read(file)
    parsed = linked(parse(text, name), name)
    check_items(parsed)
    found = [i for i in parsed.items if isinstance(i, tree.Kernel)]
    if kernel is not None:
        names = [k.name for k in found]
        found = [k for k in found if k.name == kernel]
        if not found:
            raise unknown("kernel", kernel, names, name)
    if not found:
        raise ParseError.at(None, f"{name} has no kernel")
    where = f"kernel {kernel}" if kernel is not None else name
    _known("size", bound, [s for k in found for s in k.sizes], where)
    _known("constant", values, [p.name for k in found for p in k.constants], where)
    labels = {k.name: [s.variant or k.name for s in variants(parsed, k.name)] for k in found}
    if schedule is not None:
        _known("schedule", (schedule,), [label for k in found for label in labels[k.name]], where)
    options = []
    for item in found:
        mine = {n: v for n, v in values.items() if n in {p.name for p in item.constants}}
        _check_constants(parsed, item, mine)
        options.append(
            driver.Options(
                item.name,
                chosen,
                {n: v for n, v in bound.items() if n in item.sizes},
                mine,
                schedule if schedule in labels[item.name] else None,
                strict_fp=strict_fp,
            )
        )
    return Request(name, module_name(name), parsed, chosen, tuple(options))


def _known(kind: str, asked: Iterable[str], known: Sequence[str], where: str) -> None:
    for name in asked:
        if name not in known:
            raise unknown(kind, name, list(dict.fromkeys(known)), where)


def _check_constants(file: tree.File, kernel: tree.Kernel, values: Mapping[str, str]) -> None:
    """What `--const` says must fit; a constant that is missing is the program's affair."""
    defs = [i.name for i in file.items if isinstance(i, tree.Def)]
    tables = [n for i in file.items if isinstance(i, tree.ArrayDecl) for n in i.names]
    given = tree.Kernel(kernel.name, tuple(p for p in kernel.constants if p.name in values), (), ())
    try:
        kernel_constants(given, values, defs, tables)
    except Error as error:
        first = error.diagnostics[0]
        raise WrongUse(f"--const: {first.message}", first.help) from None


# ---------------------------------------------------------------- compiling


Variants = tuple[driver.Compilation, ...]
"""One kernel, compiled: the variants that the sizes of a call choose from, in their order."""


def compiled(asked: Request, *, until: str = "validated") -> list[Variants]:
    """All kernels of a request; what is wrong with any of them is told together."""
    parts: list[Variants] = []
    errors: list[Error] = []
    with console.progress(f"compiling {asked.name}"):
        for options in asked.options:
            try:
                parts.append(_compiled(asked, options, until))
            except Error as error:
                errors.append(error)
    if errors:
        raise type(errors[0])(*dict.fromkeys(d for e in errors for d in e.diagnostics))
    return parts


def _compiled(asked: Request, options: driver.Options, until: str) -> Variants:
    if until in driver.ABOVE_VARIANTS:
        return (driver.run(asked.file, options, until=until),)
    return driver.complete(driver.run(asked.file, options, until="variant"), until=until)


def warn(parts: Variants) -> None:
    """The warnings of a kernel that was compiled."""
    told = [d for part in parts for d in part.warnings]
    console.show((*kernel_warnings(parts[-1]), *dict.fromkeys((*told, *messages(parts[-1])))))


def described(parts: Variants) -> str:
    """`schedule tiled`, or the program's own order."""
    if len(parts) == 1:
        return _described(parts[0].label)
    *first, last = (part.label for part in parts)
    names = [*first, last] if last else first
    own = "" if last else ", or the program's own order"
    return f"schedules {', '.join(names)}{own}, by the sizes of a call"


def _described(label: str) -> str:
    return f"schedule {label}" if label else "the program's own order"
