"""Who may import whom, and the shape of the files (see ARCHITECTURE.md)."""

import re
from pathlib import Path

import pytest

from tests.project.modules import (
    Module,
    cycles,
    load_modules,
    module_graph,
    source_files,
    within,
)

ROOT = Path(__file__).resolve().parents[2]
MODULES = load_modules(ROOT)
GRAPH = module_graph(MODULES)

# One room a dependency.
ROOMS = {
    "islpy": "tdsl.polyhedral",
    "lark": "tdsl.syntax",
    "cffi": "tdsl.runtime",
}

# What a package must know nothing of.
CLOSED = {
    "tdsl.polyhedral": ["tdsl.syntax", "tdsl.codegen", "tdsl.targets", "tdsl.search"],
    "tdsl.runtime": ["tdsl.syntax", "tdsl.polyhedral", "tdsl.lower", "tdsl.codegen"],
    "tdsl.ir": ["tdsl.polyhedral", "tdsl.runtime", "tdsl.lower", "tdsl.codegen"],
}

# Those above the pipeline; everything else is below it.
ABOVE_DRIVER = [
    "tdsl.__main__",
    "tdsl.api",
    "tdsl.built",
    "tdsl.checking",
    "tdsl.cli",
    "tdsl.commands",
    "tdsl.comparison",
    "tdsl.contracts",
    "tdsl.driver",
    "tdsl.fixes",
    "tdsl.ordering",
]

# A schedule block of the tree holds directives, and a directive's factors are expressions of the
# tree: the two types need each other as the language does. The tree imports for types alone.
TYPE_CYCLE = ["tdsl.schedule.directives", "tdsl.syntax.tree"]

LINE_LIMIT = 500


def places(module: Module, *packages: str) -> list[str]:
    """The lines of `module` that import one of `packages`."""
    path = module.path.relative_to(ROOT)
    return [
        f"{path}:{i.line} imports {i.module}"
        for i in module.imports
        if any(within(i.module, p) for p in packages)
    ]


def test_the_tree_is_read() -> None:
    assert {"tdsl", "tdsl.grammar", "tdsl.polyhedral", "tdsl.runtime"} <= set(MODULES)


@pytest.mark.parametrize("dependency", ROOMS)
def test_a_dependency_is_imported_in_its_room_alone(dependency: str) -> None:
    outside = [m for m in MODULES.values() if not within(m.name, ROOMS[dependency])]
    assert [p for m in outside for p in places(m, dependency)] == []


@pytest.mark.parametrize("package", CLOSED)
def test_a_package_does_not_know_what_it_must_not(package: str) -> None:
    inside = [m for m in MODULES.values() if within(m.name, package)]
    assert [p for m in inside for p in places(m, *CLOSED[package])] == []


def test_nothing_below_the_driver_imports_it() -> None:
    below = [
        m
        for m in MODULES.values()
        if m.name != "tdsl" and not any(within(m.name, above) for above in ABOVE_DRIVER)
    ]
    assert [p for m in below for p in places(m, *ABOVE_DRIVER)] == []


def test_the_public_names_are_for_users() -> None:
    """`from tdsl import load` inside would tie everything to everything."""
    assert [m for m, found in GRAPH.items() if "tdsl" in found and not within(m, "tdsl.cli")] == []


def test_no_cycle_at_run_time() -> None:
    assert cycles(module_graph(MODULES, typing=False)) == []


def test_no_cycle_of_types_but_the_one_of_the_language() -> None:
    assert cycles(GRAPH) == [TYPE_CYCLE]


def test_no_import_inside_a_function() -> None:
    inner = [
        f"{m.path.relative_to(ROOT)}:{i.line}"
        for m in MODULES.values()
        for i in m.imports
        if i.inner
    ]
    assert inner == []


def test_imports_are_absolute_and_never_a_bare_folder() -> None:
    wrong = [
        f"{m.path.relative_to(ROOT)}:{i.line} imports {i.module}"
        for m in MODULES.values()
        for i in m.imports
        if i.module.startswith(".")
        or any(within(i.module, bare) for bare in ("grammar", "polyhedral", "runtime"))
    ]
    assert wrong == []


def own_files() -> list[Path]:
    """Every source file of the project, in all its languages."""
    names = ["benchmarks", "examples", "grammar", "polyhedral", "runtime", "tdsl", "tests"]
    folders = [ROOT / name for name in names if (ROOT / name).is_dir()]
    python = [f for folder in folders for f in source_files(folder)]
    other = [
        f
        for folder in folders
        for pattern in ("*.lark", "*.h", "*.tdsl")
        for f in folder.rglob(pattern)
        if not any(p.is_symlink() for p in (f, *f.parents))
    ]
    return sorted({*python, *other})


def test_files_are_short() -> None:
    lengths = {f.relative_to(ROOT): len(f.read_text("utf-8").splitlines()) for f in own_files()}
    assert {f: n for f, n in lengths.items() if n > LINE_LIMIT} == {}


def test_nothing_is_left_for_later() -> None:
    # Split so that this file does not hold the words itself.
    words = ["TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + "Error"]
    pattern = re.compile(r"\b(" + "|".join(words) + r")\b")
    found = [
        f"{f.relative_to(ROOT)}:{number}: {line.strip()}"
        for f in own_files()
        for number, line in enumerate(f.read_text("utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]
    assert found == []
