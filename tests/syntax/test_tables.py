"""The cached parse tables: made once, never trusted blindly, never needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tdsl.syntax import tables

TEXT = "def f(x) = x"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "cache"
    monkeypatch.setenv("TDSL_CACHE_DIR", str(place))
    return place


def fresh() -> None:
    """A parser as a new process would get it."""
    assert tables.parser.__wrapped__().parse(TEXT, start="file").data == "file"


def only_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> None:
        raise AssertionError("built although the tables are there")

    monkeypatch.setattr(tables, "_build", refuse)


def test_tables_are_kept_and_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh()
    (file,) = folder.iterdir()
    assert folder.stat().st_mode & 0o077 == 0

    only_load(monkeypatch)
    fresh()
    assert [file] == list(folder.iterdir())


@pytest.mark.parametrize("damage", [b"", b"torn", None])
def test_damaged_tables_are_built_anew(
    folder: Path, damage: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh()
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    fresh()
    only_load(monkeypatch)
    fresh()


def test_a_folder_of_everybody_is_not_used(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    fresh()
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TDSL_CACHE_DIR", str(tmp_path / "file" / "cache"))
    fresh()


def test_processes_may_race(folder: Path) -> None:
    program = f"from tdsl.syntax.parser import parse; print(len(parse({TEXT!r}).items))"
    running = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [process.communicate()[0] for process in running] == ["1\n"] * 4
    assert len(list(folder.iterdir())) == 1
