"""`tdsl compile`: files, their names, and what is said."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Tdsl


def test_c_and_header_go_to_build(tdsl: Tdsl, folder: Path) -> None:
    result = tdsl("compile", "matmul.tdsl", "--target", "avx2")
    assert result.status == 0
    assert result.out == (
        "matmul: schedule tiled, for avx2\nwrote build/matmul.c\nwrote build/matmul.h\n"
    )
    assert result.err == ""
    assert sorted(p.name for p in (folder / "build").iterdir()) == ["matmul.c", "matmul.h"]
    assert "_mm256_" in (folder / "build" / "matmul.c").read_text()


def test_the_same_program_gives_the_same_bytes(tdsl: Tdsl, folder: Path) -> None:
    for name in ("one", "other"):
        assert tdsl("compile", "matmul.tdsl", "--target", "avx2", "-o", name).status == 0
    for file in ("matmul.c", "matmul.h"):
        assert (folder / "one" / file).read_bytes() == (folder / "other" / file).read_bytes()


def test_every_kind_of_output(tdsl: Tdsl, folder: Path) -> None:
    result = tdsl(
        "compile", "matmul.tdsl", "--emit", "asm,so,o,h,c", "-o", "all", "--prefix", "my_"
    )
    assert result.status == 0, result.err
    made = {p.suffix for p in (folder / "all").iterdir()}
    assert made == {".c", ".h", ".o", ".so", ".s"}
    assert "int my_matmul(" in (folder / "all" / "matmul.h").read_text()
    library = ctypes.CDLL(str(folder / "all" / "matmul.so"))
    assert library.my_matmul is not None


def test_only_what_is_asked_for_is_written(tdsl: Tdsl, folder: Path) -> None:
    assert tdsl("compile", "matmul.tdsl", "--emit", "h", "-o", "deep/er").status == 0
    assert [p.name for p in (folder / "deep" / "er").iterdir()] == ["matmul.h"]


def test_all_kernels_of_a_file_go_into_one_module(tdsl: Tdsl, folder: Path) -> None:
    result = tdsl("compile", "two.tdsl", "--target", "c", "--size", "M=4", "--const", "by=5")
    assert result.status == 0, result.err
    header = (folder / "build" / "two.h").read_text()
    assert "int first(" in header
    assert "int second(" in header
    assert "5.0" in (folder / "build" / "two.c").read_text()


def test_one_kernel_by_name(tdsl: Tdsl, folder: Path) -> None:
    assert tdsl("compile", "two.tdsl", "--kernel", "first").status == 0
    assert "second" not in (folder / "build" / "two.h").read_text()


def test_variants_that_wait_for_a_size_are_in_one_entry(tdsl: Tdsl, folder: Path) -> None:
    result = tdsl("compile", "two.tdsl", "--kernel", "second", "--target", "c")
    assert result.status == 0
    assert "no schedule of second holds for every size" in result.err
    assert "wide, low" in result.err
    assert "second: schedules wide, low, or the program's own order, by the sizes" in result.out
    source = (folder / "build" / "two.c").read_text()
    for name in ("second_run_wide(", "second_run_low(", "second_run_as_written("):
        assert source.count(name) == 2  # defined and called
    assert (folder / "build" / "two.h").read_text().count("int second(") == 1


def test_a_bound_size_decides(tdsl: Tdsl) -> None:
    result = tdsl("compile", "two.tdsl", "--kernel", "second", "--size", "N=2048")
    assert result.out.startswith("second: schedule wide, for ")
    assert result.err == ""


def test_a_schedule_by_name_needs_no_condition(tdsl: Tdsl) -> None:
    result = tdsl("compile", "two.tdsl", "--schedule", "low")
    assert "second: schedule low" in result.out
    assert "first: the program's own order" in result.out


def test_no_schedule_is_a_warning(tdsl: Tdsl, folder: Path) -> None:
    result = tdsl("compile", "two.tdsl", "--kernel", "first", "--target", "c")
    assert result.status == 0
    assert result.err == (
        "warning[schedule]: first has no schedule: the program's own order runs\n"
    )
    result = tdsl("compile", "matmul.tdsl", "--target", "c")
    assert result.err == ""
    text = (folder / "matmul.tdsl").read_text().replace("rows for c {", "rows for c when false {")
    (folder / "matmul.tdsl").write_text(text)
    result = tdsl("compile", "matmul.tdsl", "--target", "c")
    assert result.status == 0
    assert result.err == (
        "warning[schedule]: no schedule of matmul holds for c: the program's own order runs\n"
    )


def test_a_refused_program_leaves_no_files(tdsl: Tdsl, folder: Path) -> None:
    result = tdsl("compile", "wrong.tdsl", "--schedule", "lanes")
    assert result.status == 1
    assert result.out == ""
    assert "x[i + 1] leaves x" in result.err
    assert "vectorize i by 8" in result.err
    assert not (folder / "build").exists()


def test_a_toolchain_that_fails_is_status_3(
    tdsl: Tdsl, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = folder / "cc-that-fails"
    compiler.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && { echo cc 1.0; exit 0; }\necho no luck >&2\nexit 1\n'
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    result = tdsl("compile", "matmul.tdsl", "--emit", "o")
    assert result.status == 3
    assert result.err.startswith("error[toolchain]: ")
    assert "no luck" in result.err
    assert not (folder / "build" / "matmul.o").exists()


def test_a_compiler_that_is_missing_is_status_3(
    tdsl: Tdsl, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    result = tdsl("compile", "matmul.tdsl", "--emit", "c,h,so")
    assert result.status == 3
    assert "no-such-compiler" in result.err
    assert not (folder / "build").exists()
    assert tdsl("compile", "matmul.tdsl", "--emit", "c,h").status == 0


def test_the_c_compiles_on_its_own(tdsl: Tdsl, folder: Path) -> None:
    assert tdsl("compile", "two.tdsl", "--target", "c").status == 0
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler is not None
    command = [compiler, "-std=gnu11", "-Wall", "-Werror", "-c", "two.c", "-o", "two.o"]
    subprocess.run(command, cwd=folder / "build", check=True)


def test_neon_is_c_everywhere(tdsl: Tdsl, folder: Path) -> None:
    result = tdsl("compile", "matmul.tdsl", "--target", "neon")
    assert result.status == 0
    assert "arm_neon.h" in (folder / "build" / "matmul.c").read_text()


@pytest.mark.neon
def test_an_object_for_another_machine(tdsl: Tdsl, folder: Path) -> None:
    result = tdsl("compile", "matmul.tdsl", "--target", "neon", "--emit", "o")
    assert result.status == 0, result.err
    header = (folder / "build" / "matmul.o").read_bytes()[:20]
    assert header[:4] == b"\x7fELF"
    assert int.from_bytes(header[18:20], "little") == 183  # EM_AARCH64


def test_standard_input(tdsl: Tdsl, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (folder / "matmul.tdsl").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert tdsl("compile", "-", "--target", "c").status == 0
    assert (folder / "build" / "stdin.c").exists()


def test_a_disk_that_is_full_is_said_and_leaves_nothing(
    tdsl: Tdsl, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "build/matmul.c")

    monkeypatch.setattr("os.replace", full)
    result = tdsl("compile", "matmul.tdsl")
    assert result.status == 2
    assert result.err == "error: build/matmul.c: No space left on device\n"
    assert list((folder / "build").iterdir()) == []


def test_code_that_is_not_what_the_schedule_expects_is_not_written(
    tdsl: Tdsl, folder: Path
) -> None:
    text = (folder / "matmul.tdsl").read_text()
    asked = text.replace("vectorize ji\n", 'vectorize ji\n    expect uses(C, "vdivps")\n')
    (folder / "matmul.tdsl").write_text(asked)
    assert tdsl("check", "matmul.tdsl").status == 0  # which runs no compiler
    result = tdsl("compile", "matmul.tdsl", "--target", "avx2", "--size", "N=64")
    assert result.status == 1
    assert "the innermost loop of C does not use vdivps" in result.err
    assert "in the loop of matmul.c:" in result.err
    assert not (folder / "build").exists()
