"""`import tiles`: what several files share is written once.

    import tiles                       # tiles.tdsl beside this file, else in the operator library
    schedule matmul for any { use register_tile(C, Y, i, j, k, MR = 6, NR = 64) }

An import brings the recipes, defs, combines, records and tables of a file, and those that it
imports itself; its kernels and their schedules stay its own. Each file is right by itself: it sees
what it declares and imports, never what stands in a file that imports it. All names of a file and
of what it imports are different, so that no order decides what a name means.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tdsl.diagnostics import Diagnostic, Error, Note, ParseError, Span
from tdsl.schedule.directives import Directive, On, Use
from tdsl.source import read_source
from tdsl.syntax import tree
from tdsl.syntax.check import check_file, unsupported
from tdsl.syntax.expand import walk
from tdsl.syntax.parser import parse
from tdsl.syntax.scope import RESERVED, suggest

LIBRARY = Path(__file__).resolve().parent / "ops"
DEEPEST = 64  # files that import each other in a chain

Item = tree.Recipe | tree.Def | tree.Combine | tree.Record | tree.ArrayDecl


@dataclass(frozen=True)
class _Unit:
    """One imported file: what it shares, and the files that it imports, those further on first."""

    items: tuple[Item, ...]
    needs: tuple[str, ...]


@dataclass
class _Linker:
    units: dict[str, _Unit] = field(default_factory=dict)  # by real path
    open: list[tuple[str, str]] = field(default_factory=list)  # (real path, name), being read

    def items(self, file: tree.File, name: str) -> tuple[tuple[Item, ...], tuple[str, ...]]:
        """What the imports of a file bring, and the files that it comes from."""
        needs: dict[str, tree.Import] = {}
        for item in file.items:
            if isinstance(item, tree.Import):
                path = _find(item, name)
                key = os.path.realpath(path)
                for real in (*self._unit(item, path, key).needs, key):
                    needs.setdefault(real, item)
        brought = [(i, needs[real]) for real in needs for i in self.units[real].items]
        _distinct(brought)
        return tuple(i for i, _ in brought), tuple(needs)

    def _unit(self, item: tree.Import, path: str, key: str) -> _Unit:
        if key in self.units:
            return self.units[key]
        names = [name for real, name in self.open]
        if key in [real for real, _ in self.open]:
            chain = [*names[[real for real, _ in self.open].index(key) :], path]
            raise ParseError.at(
                item.span, f"these files import each other: {' -> '.join(chain)}",
                help="put what they share into a file of its own",
            )  # fmt: skip
        if len(self.open) >= DEEPEST:
            raise ParseError.at(item.span, f"more than {DEEPEST} files import each other in a row")
        self.open.append((key, path))
        try:
            self.units[key] = self._read(path, _text(item, path))
        except Error as error:
            note = Note("it is imported here", item.span)
            raise type(error)(
                *(replace(d, notes=(*d.notes, note)) for d in error.diagnostics)
            ) from None
        self.open.pop()
        return self.units[key]

    def _read(self, path: str, text: str) -> _Unit:
        file = parse(text, path)
        brought, needs = self.items(file, path)
        whole = _whole(file, brought)
        check_file(whole)
        own = tuple(i for i in file.items if isinstance(i, Item))
        if problems := [*_unknown(own, whole)]:
            raise ParseError(*problems)
        return _Unit(own, needs)


def linked(file: tree.File, name: str) -> tree.File:
    """The file with what it imports before its own items, in place of its imports.

    `name` is what messages call the file; beside it are the files that it may import. One that is
    no file, as `<stdin>`, has the operator library alone.
    """
    if problems := [*unsupported(file)]:
        raise ParseError(*problems)
    linker = _Linker(open=[] if _dressed(name) else [(os.path.realpath(name), name)])
    brought, _ = linker.items(file, name)
    return _whole(file, brought)


def _whole(file: tree.File, brought: tuple[Item, ...]) -> tree.File:
    own = (i for i in file.items if not isinstance(i, tree.Import))
    return replace(file, items=(*brought, *own))


def _dressed(name: str) -> bool:
    """Whether the text has no place among files."""
    return name.startswith("<") and name.endswith(">")


# ---------------------------------------------------------------- files


def _find(item: tree.Import, name: str) -> str:
    beside = [] if _dressed(name) else [Path(name).parent]
    for folder in (*beside, LIBRARY):
        path = str(folder / f"{item.name}.tdsl")
        if os.path.isfile(path):
            return path
    there = sorted({p.stem for folder in (*beside, LIBRARY) for p in folder.glob("*.tdsl")})
    close = difflib.get_close_matches(item.name, there, n=1)
    where = f"beside {name}, and none " if beside else ""
    raise ParseError.at(
        item.span,
        f"there is no file {item.name}.tdsl {where}in the operator library",
        help=f"did you mean `import {close[0]}`?" if close else None,
    )


def _text(item: tree.Import, path: str) -> str:
    try:
        return read_source(path)[1]
    except UnicodeDecodeError as error:
        why = f"{path} is not UTF-8 text: {error.reason} at byte {error.start}"
    except OSError as error:
        why = f"cannot read {path}: {error.strerror or error}"
    raise ParseError.at(item.span, why)


# ---------------------------------------------------------------- names


def _names(item: Item) -> tuple[str, ...]:
    return item.names if isinstance(item, tree.ArrayDecl) else (item.name,)


def _distinct(brought: list[tuple[Item, tree.Import]]) -> None:
    """Two imports may not bring one name. (Own names are held against them with the file.)"""
    seen: dict[tuple[bool, str], Item] = {}
    for item, by in brought:
        for name in _names(item):
            other = seen.setdefault((isinstance(item, tree.Recipe), name), item)
            if other is not item:
                raise ParseError.at(
                    by.span, f"this brings a second `{name}`",
                    Note("the first is here", other.span), Note("the second is here", item.span),
                    help="rename one, or put what both files share into one that both import",
                )  # fmt: skip


def _unknown(own: tuple[Item, ...], whole: tree.File) -> Iterator[Diagnostic]:
    """What an imported file uses and does not have: the file that imports it is not to lend it."""
    recipes = {i.name for i in whole.items if isinstance(i, tree.Recipe)}
    defs = {i.name for i in whole.items if isinstance(i, tree.Def)}
    for item in own:
        if isinstance(item, tree.Recipe):
            for use in _uses(item.directives):
                if use.recipe not in recipes:
                    yield _missing("recipe", use.recipe, use.span, recipes)
        for e in (e for part in _values(item) for e in walk(part)):
            if isinstance(e, tree.Call) and e.func not in RESERVED | defs:
                yield _missing("function", e.func, e.span, defs)


def _values(item: Item) -> tuple[tree.Expr, ...]:
    match item:
        case tree.Def(_, _, body):
            return (body,)
        case tree.Combine():
            return (*(let.value for let in item.lets), *item.give)
        case _:
            return ()


def _uses(directives: tuple[Directive, ...]) -> Iterator[Use]:
    for directive in directives:
        match directive:
            case Use():
                yield directive
            case On(_, body):
                yield from _uses(body)


def _missing(kind: str, name: str, span: Span | None, known: set[str]) -> Diagnostic:
    help = suggest(name, known)
    return Diagnostic(f"there is no {kind} `{name}`", span, ParseError.code, (), help)
