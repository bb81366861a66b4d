"""What is installed: the package list against the tree, the symlinks, and a wheel put to use."""

import os
import shutil
import stat
import subprocess
import sys
import tomllib
import venv
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import numpy
import pytest

from tests.project.modules import FOLDERS, source_files

ROOT = Path(__file__).resolve().parents[2]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SETUPTOOLS = CONFIG["tool"]["setuptools"]
LINKED = [folder for folder in FOLDERS.values() if folder != "tdsl"]


def tree_packages() -> dict[str, Path]:
    """Every folder that holds Python, by the name of its package."""
    found = {}
    for package, folder in FOLDERS.items():
        for file in source_files(ROOT / folder):
            inside = file.parent.relative_to(ROOT / folder).parts
            found[".".join((package, *inside))] = file.parent
    return found


def test_the_package_list_equals_the_tree() -> None:
    assert sorted(SETUPTOOLS["packages"]) == sorted(tree_packages())
    assert SETUPTOOLS["packages"] == sorted(SETUPTOOLS["packages"])


def test_every_package_has_an_init_file() -> None:
    bare = [name for name, path in tree_packages().items() if not (path / "__init__.py").is_file()]
    assert bare == []


def test_the_folders_are_mapped_into_the_one_package() -> None:
    mapped = {name: folder for name, folder in FOLDERS.items() if name != "tdsl"}
    assert SETUPTOOLS["package-dir"] == mapped


@pytest.mark.parametrize("folder", LINKED)
def test_a_mapped_folder_is_a_relative_symlink_in_the_checkout(folder: str) -> None:
    link = ROOT / "tdsl" / folder
    assert link.is_symlink()
    assert os.readlink(link) == f"../{folder}"
    assert link.resolve() == ROOT / folder


def test_the_symlinks_are_committed_as_such() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    names = [f"tdsl/{folder}" for folder in LINKED]
    listing = subprocess.run(
        ["git", "ls-files", "--stage", *names], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    modes = {line.split("\t")[1]: line.split()[0] for line in listing.splitlines()}
    assert modes == dict.fromkeys(names, "120000")


def test_the_entry_of_ci_is_executable() -> None:
    assert (ROOT / ".ci" / "run").stat().st_mode & stat.S_IXUSR


def test_each_extra_and_dependency_says_why() -> None:
    lines = (ROOT / "pyproject.toml").read_text("utf-8").splitlines()
    project = CONFIG["project"]
    wanted = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        wanted += extra
    for requirement in wanted:
        line = next(text for text in lines if text.strip().startswith(f'"{requirement}"'))
        assert "#" in line, line


def expected_files() -> set[str]:
    """The files that the packages of this tree hold, named as in a wheel."""
    patterns = ["*.py", *SETUPTOOLS["package-data"]["*"]]
    return {
        f"{name.replace('.', '/')}/{file.name}"
        for name, path in tree_packages().items()
        for file in path.iterdir()
        if file.is_file() and any(fnmatch(file.name, pattern) for pattern in patterns)
    }


def run(*command: str | Path, cwd: Path) -> str:
    """Standard output of a command that must succeed; its error output is the failure's text."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pip(*arguments: str | Path, cwd: Path) -> str:
    """pip without the network."""
    options = ("--quiet", "--no-index", "--disable-pip-version-check")
    return run(sys.executable, "-m", "pip", *arguments, *options, cwd=cwd)


def test_a_wheel_made_from_the_sdist_installs_one_name_and_works(tmp_path: Path) -> None:
    # A copy: building leaves build/ and *.egg-info behind, and a stale build/ enters a wheel.
    source = tmp_path / "source"
    skip = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "tests")
    shutil.copytree(ROOT, source, symlinks=True, ignore=skip)
    dist = tmp_path / "dist"
    dist.mkdir()
    build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    run(sys.executable, "-c", build, dist, cwd=source)
    (sdist,) = dist.glob("*.tar.gz")
    pip("wheel", "--no-build-isolation", "--no-deps", "-w", dist, sdist, cwd=tmp_path)

    (wheel,) = dist.glob("*.whl")
    metadata = f"tdsl-{CONFIG['project']['version']}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert f"{metadata}/licenses/LICENSE" in names
        assert {name for name in names if not name.startswith(metadata)} == expected_files()

    target = tmp_path / "env"
    venv.create(target, with_pip=False)
    python = target / "bin" / "python"
    pip("--python", python, "install", "--no-deps", wheel, cwd=tmp_path)
    assert (target / "bin" / "tdsl").is_file()

    # The dependencies come from the environment of this test; a .pth line adds their folder, but
    # not the .pth files in it, so that the editable install does not stand in for the wheel.
    (site,) = target.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(f"{Path(numpy.__file__).parents[1]}\n")
    modules = sorted(tree_packages())
    check = "import " + ", ".join(modules) + "; print(*(m.__file__ for m in (" + ", ".join(modules)
    files = run(python, "-I", "-c", f"{check},)), sep='\\n')", cwd=tmp_path).splitlines()
    assert files == [str(site / name.replace(".", "/") / "__init__.py") for name in modules]
