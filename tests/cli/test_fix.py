"""`tdsl check --fix`: only lines with directives are added, and the file is right then."""

from pathlib import Path

import pytest

from tests.cli.conftest import Tdsl

SEIDEL = """\
# A comment that stays.
kernel seidel(T, N) {
    assume N >= 3
    inout A: f64[N, N]
    for t in 0..T, i in 1..N-1, j in 1..N-1 {
        S: A[i, j] = (A[i-1, j] + A[i, j-1] + A[i, j] + A[i, j+1] + A[i+1, j]) / 5.0
    }
}

schedule seidel.tiled for c {
    tile t, i, j by 4, 8, 8 -> to, io, jo, ti, ii, ji    # three dimensions
}
"""
SUM = """\
kernel rows(N) {
    in  x: f32[N, N]
    out y, z: f32[N]
    y[i] = sum[j](x[i, j])
    z[i] = y[i] + 1.0
}
schedule rows for avx2 { on y { vectorize j } }
"""


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (SEIDEL, ["    skew i by t", "    skew j by t"]),
        (SUM, ["reassociate y"]),
    ],
)
def test_fixes_are_written(tdsl: Tdsl, folder: Path, text: str, lines: list[str]) -> None:
    path = folder / "wrong.tdsl"
    path.write_text(text)
    assert tdsl("check", "wrong.tdsl").status == 1
    result = tdsl("check", "wrong.tdsl", "--fix")
    assert result.status == 0, result.err
    for line in lines:
        assert f"inserted: {line.strip()}\n" in result.err
    fixed = path.read_text()
    # What was there is there, and nothing else but the lines.
    kept = fixed
    for line in lines:
        assert line in fixed
        kept = kept.replace(line.strip(), "", 1)
    assert kept.split() == text.split()
    again = tdsl("check", "wrong.tdsl", "--fix")
    assert again.status == 0
    assert path.read_text() == fixed
    assert "nothing was fixed" in again.err


def test_lines_stand_as_the_directive_does(tdsl: Tdsl, folder: Path) -> None:
    path = folder / "wrong.tdsl"
    path.write_text(SEIDEL)
    tdsl("check", "wrong.tdsl", "--fix")
    want = SEIDEL.replace("    tile", "    skew i by t\n    skew j by t\n    tile")
    assert path.read_text() == want


def test_without_a_fix_it_says_so_and_leaves_the_file(tdsl: Tdsl, folder: Path) -> None:
    path = folder / "wrong.tdsl"
    text = SEIDEL.replace("tile t, i, j by 4, 8, 8 -> to, io, jo, ti, ii, ji", "reverse t")
    path.write_text(text)
    result = tdsl("check", "wrong.tdsl", "--fix")
    assert result.status == 1
    assert "nothing was fixed: no directive is known that would help" in result.err
    assert path.read_text() == text
