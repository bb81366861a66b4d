"""The Makefile's plain words where something is missing, and what its targets run."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

if shutil.which("make") is None:
    pytest.skip("make is not installed", allow_module_level=True)


def make(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(shutil.which("make")), "--no-print-directory", "-C", str(ROOT), *arguments]
    # Under `make test` the outer make's variables are in the environment; they are not meant here.
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    env["PATH"] = path or env["PATH"]
    return subprocess.run(command, capture_output=True, text=True, env=env)


def program(folder: Path, name: str, text: str) -> Path:
    """An executable shell script."""
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def test_a_missing_python_is_named() -> None:
    done = make("check-python", "PYTHON=no-such-python")
    assert done.returncode != 0
    assert "needs Python 3.11 or newer, and 'no-such-python' was not found" in done.stderr


def test_an_older_python_is_refused(tmp_path: Path) -> None:
    older = program(tmp_path, "python3", 'case "$2" in *version_info*) exit 1;; esac')
    done = make("check-python", f"PYTHON={older}")
    assert done.returncode != 0
    assert "is older than that" in done.stderr


def test_a_python_without_venv_is_refused(tmp_path: Path) -> None:
    bare = program(tmp_path, "python3", 'case "$2" in *ensurepip*) exit 1;; esac')
    done = make("check-python", f"PYTHON={bare}")
    assert done.returncode != 0
    assert "apt-get install python3-venv" in done.stderr


def test_a_machine_without_a_c_compiler_is_told(tmp_path: Path) -> None:
    done = make("check-cc", path=str(tmp_path))
    assert done.returncode != 0
    assert "neither gcc nor clang was found" in done.stderr


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_either_compiler_will_do(tmp_path: Path, compiler: str) -> None:
    program(tmp_path, compiler, "exit 0")
    assert make("check-cc", path=str(tmp_path)).returncode == 0


def test_make_test_runs_lint_types_and_tests() -> None:
    plan = make("--dry-run", "test").stdout
    steps = ["ruff check .", "ruff format --check .", "bin/mypy", "-m pytest -n 2"]
    positions = [plan.find(step) for step in steps]
    assert -1 not in positions
    assert positions == sorted(positions)


def test_an_environment_is_made_once(tmp_path: Path) -> None:
    """With a stamp newer than pyproject.toml nothing is installed; without one it is."""
    env = tmp_path / "env"
    env.mkdir()
    setting = f"VENV={env}"
    assert "pip install" in make("--dry-run", "lint", setting).stdout
    (env / ".installed-dev").touch()
    assert "pip install" not in make("--dry-run", "lint", setting).stdout
    assert "pip install" in make("--dry-run", "bench", setting).stdout
