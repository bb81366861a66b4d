"""The reading of imports itself, on small trees with known faults."""

import ast
from pathlib import Path

from tests.project.modules import Import, cycles, imports_of, load_modules, module_graph


def imports(text: str) -> list[Import]:
    return list(imports_of(ast.parse(text)))


def test_from_imports_name_module_and_member() -> None:
    found = imports("import a.b\nfrom c import d, e\nfrom . import f\n")
    assert found == [
        Import("a.b", 1),
        Import("c.d", 2),
        Import("c.e", 2),
        Import("..f", 3),
    ]


def test_imports_in_functions_methods_and_branches_are_seen() -> None:
    text = "if True:\n    import a\nclass C:\n  def m(self):\n    with x:\n      import b\n"
    assert imports(text) == [Import("a", 2), Import("b", 6, inner=True)]


def test_imports_for_types_alone_are_told_apart() -> None:
    text = "if TYPE_CHECKING:\n    import a\nelse:\n    import b\n"
    assert imports(text) == [Import("a", 2, typing=True), Import("b", 4)]


def tree(root: Path, files: dict[str, str]) -> Path:
    for folder in ("tdsl", "grammar", "polyhedral", "runtime"):
        (root / folder).mkdir()
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for folder in ("grammar", "polyhedral", "runtime"):
        (root / "tdsl" / folder).symlink_to(f"../{folder}")
    return root


def test_folders_get_their_installed_names_once(tmp_path: Path) -> None:
    files = {
        "tdsl/__init__.py": "",
        "tdsl/ir/loops.py": "",
        "polyhedral/__init__.py": "",
        "polyhedral/model.py": "from tdsl.ir import loops\nfrom tdsl.ir.loops import Loop\n",
    }
    modules = load_modules(tree(tmp_path, files))
    assert sorted(modules) == ["tdsl", "tdsl.ir.loops", "tdsl.polyhedral", "tdsl.polyhedral.model"]
    assert module_graph(modules)["tdsl.polyhedral.model"] == {"tdsl.ir.loops"}


def test_a_cycle_is_found_and_a_diamond_is_none(tmp_path: Path) -> None:
    files = {
        "tdsl/a.py": "from tdsl import b\n",
        "tdsl/b.py": "from tdsl.c import x\n",
        "tdsl/c.py": "import tdsl.a\n",
        "tdsl/top.py": "import tdsl.left, tdsl.right\n",
        "tdsl/left.py": "import tdsl.leaf\n",
        "tdsl/right.py": "import tdsl.leaf\n",
        "tdsl/leaf.py": "import os\n",
    }
    graph = module_graph(load_modules(tree(tmp_path, files)))
    assert cycles(graph) == [["tdsl.a", "tdsl.b", "tdsl.c"]]


def test_a_cycle_through_types_alone_is_none_at_run_time(tmp_path: Path) -> None:
    files = {
        "tdsl/a.py": "from tdsl.b import x\n",
        "tdsl/b.py": "if TYPE_CHECKING:\n    from tdsl.a import y\n",
    }
    modules = load_modules(tree(tmp_path, files))
    assert cycles(module_graph(modules)) == [["tdsl.a", "tdsl.b"]]
    assert cycles(module_graph(modules, typing=False)) == []


def test_two_separate_cycles_are_two() -> None:
    graph = {"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"c"}, "e": {"a"}}
    assert cycles(graph) == [["c", "d"], ["a", "b"]]
