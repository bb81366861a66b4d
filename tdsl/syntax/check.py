"""Checks of a whole file: names that stand twice, names that are taken, bodies of defs."""

from __future__ import annotations

from collections.abc import Iterable

from tdsl.diagnostics import Diagnostic, Error, Note, ParseError, Span
from tdsl.syntax import tree
from tdsl.syntax.expand import walk
from tdsl.syntax.later import refuse
from tdsl.syntax.records import record
from tdsl.syntax.scope import RESERVED, WORDS, suggest

_LATER: tuple[tuple[type, str], ...] = ((tree.Graph, "graph"), (tree.Select, "select"))


def kernels(file: tree.File) -> tuple[str, ...]:
    """Names of the kernels of a file, in order."""
    return tuple(item.name for item in file.items if isinstance(item, tree.Kernel))


def check_file(file: tree.File) -> None:
    """Raise for everything that is wrong with the file's items, whichever kernel is compiled."""
    problems = list(_names(file))
    problems += [d for item in file.items if isinstance(item, tree.Def) for d in _def(item, file)]
    for item in file.items:
        if isinstance(item, tree.Record):
            try:
                record(item)
            except Error as error:
                problems += error.diagnostics
    for kernel in file.items:
        if isinstance(kernel, tree.Kernel):
            problems += list(duplicates(kernel))
    problems += unsupported(file)
    if problems:
        raise ParseError(*problems)


def unsupported(file: tree.File) -> Iterable[Diagnostic]:
    """Items that are parsed and not compiled."""
    for item in file.items:
        for kind, feature in _LATER:
            if isinstance(item, kind):
                yield from refuse(feature, item.span).diagnostics


def check_names(file: tree.File) -> None:
    """The part of `check_file` that every kernel needs: names that stand twice."""
    problems = list(_names(file))
    if problems:
        raise ParseError(*problems)


def _names(file: tree.File) -> Iterable[Diagnostic]:
    kernels_: dict[str, Span | None] = {}  # names that other files and C see
    recipes: dict[str, Span | None] = {}
    values: dict[str, Span | None] = {}  # names that expressions see
    for item in file.items:
        match item:
            case tree.Kernel(name):
                yield from _once(name, item.name_span, kernels_)
            case tree.Graph(name):
                yield from _once(name, item.span, kernels_)
            case tree.Recipe(name):
                yield from _once(name, item.span, recipes)
            case tree.Def(name) | tree.Combine(name) | tree.Record(name):
                yield from _declare(name, item.span, values)
            case tree.ArrayDecl(_, names):
                for name in names:
                    yield from _declare(name, item.span, values)


def _declare(name: str, span: Span | None, seen: dict[str, Span | None]) -> Iterable[Diagnostic]:
    if name in RESERVED:
        yield _problem(span, f"`{name}` is a word of the language and cannot be a name here")
    else:
        yield from _once(name, span, seen)


def _once(name: str, span: Span | None, seen: dict[str, Span | None]) -> Iterable[Diagnostic]:
    if name in seen:
        note = Note(f"`{name}` is declared here first", seen[name])
        yield _problem(span, f"`{name}` is declared twice", note)
    else:
        seen[name] = span


def duplicates(kernel: tree.Kernel) -> Iterable[Diagnostic]:
    """Constants, sizes, lets and arrays of a kernel that share a name."""
    seen: dict[str, Span | None] = {}
    for param in kernel.constants:
        yield from _declare(param.name, param.span or kernel.name_span, seen)
    for size in kernel.sizes:
        yield from _declare(size, kernel.name_span, seen)
    for item in kernel.items:
        match item:
            case tree.SizeLet(name):
                yield from _declare(name, item.span, seen)
            case tree.ArrayDecl(_, names):
                for name in names:
                    yield from _declare(name, item.span, seen)


def _def(item: tree.Def, file: tree.File) -> Iterable[Diagnostic]:
    tables = {n for i in file.items if isinstance(i, tree.ArrayDecl) for n in i.names}
    allowed = {*item.params, *tables, *WORDS}
    for e in walk(item.body):
        match e:
            case tree.Name(name) if name not in allowed:
                yield _problem(
                    e.span,
                    f"`{name}` is no parameter of `{item.name}`: a def sees its parameters and "
                    "the file's tables",
                    help=suggest(name, allowed),
                )
            case tree.Reduce(op):
                yield _problem(
                    e.span, f"`{op}[...]` cannot stand in a def",
                    help="write the reduction in the kernel, and a def for its terms",
                )  # fmt: skip


def _problem(span: Span | None, message: str, *notes: Note, help: str | None = None) -> Diagnostic:
    return Diagnostic(message, span, ParseError.code, notes, help)


def collect(problems: list[Error]) -> None:
    """Raise several errors as one, of the first one's class."""
    if problems:
        raise type(problems[0])(*(d for p in problems for d in p.diagnostics))
