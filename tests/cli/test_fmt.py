"""`tdsl fmt`: in place, as a question, and as a filter."""

import os
import stat
from pathlib import Path

import pytest

from tests.cli.conftest import MATMUL, Tdsl

UGLY = "kernel f( N ){in x:f32[N]\n# kept\nout y:f32[N]\ny[i]=x[i]*2.0}\n"
NEAT = """\
kernel f(N) {
    in x: f32[N]
    # kept
    out y: f32[N]
    y[i] = x[i] * 2.0
}
"""


def test_a_file_is_rewritten_in_place(tdsl: Tdsl, folder: Path) -> None:
    (folder / "f.tdsl").write_text(UGLY)
    result = tdsl("fmt", "f.tdsl")
    assert (result.status, result.out, result.err) == (0, "reformatted f.tdsl\n", "")
    assert (folder / "f.tdsl").read_text() == NEAT


def test_a_second_time_changes_nothing(tdsl: Tdsl, folder: Path) -> None:
    (folder / "f.tdsl").write_text(NEAT)
    before = (folder / "f.tdsl").stat()
    assert tdsl("fmt", "f.tdsl").out == ""
    after = (folder / "f.tdsl").stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


def test_check_writes_nothing(tdsl: Tdsl, folder: Path) -> None:
    (folder / "f.tdsl").write_text(UGLY)
    (folder / "g.tdsl").write_text(NEAT)
    result = tdsl("fmt", "--check", "f.tdsl", "g.tdsl")
    assert (result.status, result.out) == (1, "would reformat f.tdsl\n")
    assert (folder / "f.tdsl").read_text() == UGLY
    assert tdsl("fmt", "--check", "g.tdsl").status == 0


def test_a_filter(tdsl: Tdsl, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "f.tdsl").write_text(UGLY)
    with (folder / "f.tdsl").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        result = tdsl("fmt", "-")
    assert (result.status, result.out, result.err) == (0, NEAT, "")


def test_one_that_does_not_parse_stops_all(tdsl: Tdsl, folder: Path) -> None:
    (folder / "f.tdsl").write_text(UGLY)
    (folder / "broken.tdsl").write_text("kernel {")
    result = tdsl("fmt", "f.tdsl", "broken.tdsl")
    assert result.status == 1
    assert "--> broken.tdsl:1:8" in result.err
    assert (folder / "f.tdsl").read_text() == UGLY


def test_a_link_stays_a_link_and_modes_are_kept(tdsl: Tdsl, folder: Path) -> None:
    (folder / "real").mkdir()
    real, link = folder / "real" / "f.tdsl", folder / "link.tdsl"
    real.write_text(UGLY)
    real.chmod(0o640)
    link.symlink_to(real)
    assert tdsl("fmt", "link.tdsl").status == 0
    assert link.is_symlink()
    assert real.read_text() == NEAT
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert os.listdir(folder / "real") == ["f.tdsl"]


def test_what_a_person_wrote_well_stays(tdsl: Tdsl, folder: Path) -> None:
    (folder / "m.tdsl").write_text(MATMUL)
    tdsl("fmt", "m.tdsl")
    once = (folder / "m.tdsl").read_text()
    assert "schedule matmul.tiled for avx512, avx2, neon {" in once
    assert tdsl("fmt", "--check", "m.tdsl").status == 0
