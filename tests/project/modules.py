"""The modules of the compiler and what each imports, read from the source without running it."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# The folders at the root and the packages that they are (see pyproject.toml).
FOLDERS = {
    "tdsl": "tdsl",
    "tdsl.grammar": "grammar",
    "tdsl.polyhedral": "polyhedral",
    "tdsl.runtime": "runtime",
}


@dataclass(frozen=True)
class Import:
    """One imported name: `module` is dotted and absolute.

    `inner`: inside a function. `typing`: under `if TYPE_CHECKING`, hence absent at run time.
    """

    module: str
    line: int
    inner: bool = False
    typing: bool = False


@dataclass(frozen=True)
class Module:
    """A source file under its installed name."""

    name: str
    path: Path
    imports: tuple[Import, ...]


def source_files(folder: Path) -> Iterator[Path]:
    """Python files under `folder`, not following symlinks: each file has one true place."""
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or path.name == "__pycache__":
            continue
        if path.is_dir():
            yield from source_files(path)
        elif path.suffix == ".py":
            yield path


def imports_of(tree: ast.AST) -> Iterator[Import]:
    """Every import in `tree`. `from a import b` counts as a.b, which may be a module or a name."""
    return _imports(ast.iter_child_nodes(tree), inner=False, typing=False)


def _imports(nodes: Iterable[ast.AST], inner: bool, typing: bool) -> Iterator[Import]:
    for node in nodes:
        match node:
            case ast.Import():
                for alias in node.names:
                    yield Import(alias.name, node.lineno, inner, typing)
            case ast.ImportFrom():
                # Relative imports are kept visible as such (".x"); a test refuses them.
                base = "." * node.level + (node.module or "")
                for alias in node.names:
                    yield Import(f"{base}.{alias.name}", node.lineno, inner, typing)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _imports(node.body, True, typing)
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                yield from _imports(node.body, inner, True)
                yield from _imports(node.orelse, inner, typing)
            case _:
                yield from _imports(ast.iter_child_nodes(node), inner, typing)


def load_modules(root: Path) -> dict[str, Module]:
    """All modules of the compiler in the checkout at `root`, by name."""
    modules = {}
    for package, folder in FOLDERS.items():
        base = root / folder
        for path in source_files(base):
            parts = path.relative_to(base).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
            name = ".".join((package, *parts))
            tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
            modules[name] = Module(name, path, tuple(imports_of(tree)))
    return modules


def within(name: str, package: str) -> bool:
    """True where `name` is `package` or lies inside it."""
    return name == package or name.startswith(package + ".")


def target(name: str, known: Iterable[str]) -> str | None:
    """The module of ours that an imported dotted name means: itself, or its holder."""
    names = set(known)
    if name in names:
        return name
    holder = name.rpartition(".")[0]
    return holder if holder in names else None


def module_graph(modules: Mapping[str, Module], typing: bool = True) -> dict[str, set[str]]:
    """For each module the modules of ours that it imports by name, for types alone too if asked.

    That importing a.b runs a/__init__ as well is left out: it says nothing about who knows whom.
    """
    graph: dict[str, set[str]] = {}
    for module in modules.values():
        found = (target(i.module, modules) for i in module.imports if typing or not i.typing)
        graph[module.name] = {t for t in found if t is not None and t != module.name}
    return graph


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of nodes that reach each other, each sorted (Tarjan's components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for successor in sorted(graph.get(node, ())):
            if successor not in index:
                visit(successor)
                low[node] = min(low[node], low[successor])
            elif successor in stack:
                low[node] = min(low[node], index[successor])
        if low[node] == index[node]:
            at = stack.index(node)
            group = stack[at:]
            del stack[at:]
            if len(group) > 1:
                groups.append(sorted(group))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return groups
