"""Wrong uses of the commands: status 2, one sentence, never a traceback, nothing written."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Tdsl

SIZES = ["--size", "M=2", "--size", "N=3", "--size", "K=4"]

CASES: dict[str, tuple[list[str], str]] = {
    "missing file": (["check", "none.tdsl"], "cannot read none.tdsl: No such file or directory"),
    "folder": (["check", "."], "cannot read .: Is a directory"),
    "binary file": (["compile", "binary.tdsl"], "binary.tdsl is not UTF-8 text"),
    "null byte in a path": (["check", "a\0b"], "cannot read"),
    "no file": (["compile"], "Missing argument 'FILE'"),
    "two files": (["check", "matmul.tdsl", "two.tdsl"], "unexpected extra argument"),
    "unknown command": (["chekc", "matmul.tdsl"], "No such command 'chekc'"),
    "unknown option": (["check", "matmul.tdsl", "--jsn"], "No such option"),
    "unknown kernel": (
        ["compile", "matmul.tdsl", "--kernel", "matmu"],
        "there is no kernel matmu in matmul.tdsl\nhelp: did you mean matmul?",
    ),
    "unknown schedule": (
        ["compile", "matmul.tdsl", "--schedule", "tilled"],
        "there is no schedule tilled in matmul.tdsl\nhelp: did you mean tiled?",
    ),
    "unknown target": (
        ["compile", "matmul.tdsl", "--target", "avx"],
        "there is no target 'avx'\nhelp: did you mean 'avx2' or 'avx512'?",
    ),
    "unknown extension": (
        ["compile", "matmul.tdsl", "--target", "avx2+bf16"],
        "there is no target 'avx2+bf16'",
    ),
    "size not a number": (["compile", "matmul.tdsl", "--size", "N=abc"], "'abc' is not an integer"),
    "sizes in one option": (
        ["run", "matmul.tdsl", "--size", "M=4,N=4"], "write --size once for each",
    ),
    "size a fraction": (["compile", "matmul.tdsl", "--size", "N=1.5"], "'1.5' is not an integer"),
    "size negative": (["compile", "matmul.tdsl", "--size", "N=-1"], "sizes satisfy 0 <= N < 2^40"),
    "size too large": (
        ["compile", "matmul.tdsl", "--size", "N=1099511627776"], "sizes satisfy 0 <= N < 2^40",
    ),
    "size with thousands of digits": (
        ["compile", "matmul.tdsl", "--size", "N=" + "9" * 9000], "is not an integer",
    ),
    "size unknown": (
        ["compile", "matmul.tdsl", "--size", "Q=4"],
        "there is no size Q in matmul.tdsl\nhelp: its sizes are M, N, K",
    ),
    "size without a value": (["compile", "matmul.tdsl", "--size", "N="], "expected NAME=VALUE"),
    "size twice": (
        ["compile", "matmul.tdsl", "--size", "N=1", "--size", "N=2"],
        "--size N is given twice, as 1 and as 2",
    ),
    "constant unknown": (
        ["compile", "two.tdsl", "--const", "bye=4"],
        "there is no constant bye in two.tdsl\nhelp: did you mean by?",
    ),
    "constant no number": (["compile", "two.tdsl", "--const", "by=four"], "--const: `four` is no"),
    "constant no type": (["compile", "two.tdsl", "--const", "T=float"], "`T` is an element type"),
    "check with a size": (["check", "matmul.tdsl", "--size", "N=x"], "'x' is not an integer"),
    "output folder is a file": (["compile", "two.tdsl", "-o", "matmul.tdsl"], "this is a file"),
    "output below a file": (
        ["compile", "matmul.tdsl", "-o", "two.tdsl/x"], "Not a directory",
    ),
    "output unwritable": (["compile", "matmul.tdsl", "-o", "/proc/here"], "No such file"),
    "kind of output": (["compile", "matmul.tdsl", "--emit", "c,exe"], "there is no output 'exe'"),
    "no kind of output": (["compile", "matmul.tdsl", "--emit", ","], "at least one kind"),
    "prefix": (["compile", "matmul.tdsl", "--prefix", "a-b"], "not the start of a C name"),
    "stage": (["show", "matmul.tdsl", "--stage", "lops"], "'lops' is not one of"),
    "no stage": (["show", "matmul.tdsl"], "Missing option '--stage'"),
    "after a wrong stage": (
        ["show", "matmul.tdsl", "--stage", "c", "--after", "1"], "--after goes with --stage tree",
    ),
    "after too many": (
        ["show", "matmul.tdsl", "--stage", "tree", "--target", "avx2", "--after", "9"],
        "--after 9: the schedule of matmul has 4 directives",
    ),
    "run of several kernels": (
        ["run", "two.tdsl", "--random", "0"], "has 2 kernels: name one with --kernel",
    ),
    "run without inputs": (
        ["run", "matmul.tdsl", *SIZES],
        "matmul reads A, B, and nothing is given for it\n"
        "help: add --input A=A.npy --input B=B.npy, or --random SEED",
    ),
    "random without sizes": (
        ["run", "matmul.tdsl", "--random", "0", "--size", "M=4"],
        "no array that is given tells the size N, K\nhelp: add --size N=64 --size K=64",
    ),
    "negative seed": (["run", "matmul.tdsl", *SIZES, "--random", "-1"], "-1 is not in the range"),
    "no threads": (
        ["run", "matmul.tdsl", *SIZES, "--random", "1", "--threads", "0"], "0 is not in the range",
    ),
    "unknown input": (
        ["run", "matmul.tdsl", "--input", "a=A.npy"], "there is no argument a in kernel matmul",
    ),
    "missing input file": (
        ["run", "matmul.tdsl", "--input", "A=none.npy"],
        "--input A=none.npy: cannot read it: No such file or directory",
    ),
    "input of another type": (
        ["run", "matmul.tdsl", "--input", "A=f64.npy", "--input", "B=f32.npy"],
        "argument 'A': expected dtype float32, got float64",
    ),
    "input of another rank": (
        ["run", "matmul.tdsl", "--input", "A=line.npy", "--input", "B=f32.npy"],
        "argument 'A': expected 2 dimensions",
    ),
    "inputs that do not fit": (
        ["run", "matmul.tdsl", "--input", "A=f32.npy", "--input", "B=f32.npy"],
        "argument 'B': expected shape [3, 3]",
    ),
    "input is no npy": (
        ["run", "matmul.tdsl", "--input", "A=matmul.tdsl"],
        "--input A=matmul.tdsl: this is no .npy file",
    ),
    "input is cut off": (
        ["run", "matmul.tdsl", "--input", "A=cut.npy"], "--input A=cut.npy: a damaged .npy file",
    ),
    "input with a huge shape": (
        ["run", "matmul.tdsl", "--input", "A=huge.npy"], "--input A=huge.npy: it does not fit",
    ),
    "input holds objects": (
        ["run", "matmul.tdsl", "--input", "A=objects.npy"], "--input A=objects.npy: a damaged",
    ),
    "input is an archive": (
        ["run", "matmul.tdsl", "--input", "A=archive.npz"], "this is no .npy file",
    ),
    "output is no output": (
        ["run", "matmul.tdsl", *SIZES, "--random", "0", "--output", "A=x.npy"],
        "there is no output A in kernel matmul\nhelp: its outputs are C",
    ),
    "output of run unwritable": (
        ["run", "matmul.tdsl", *SIZES, "--random", "0", "--output", "C=/proc/x.npy"],
        "--output C=/proc/x.npy: cannot write it",
    ),
    "fmt of nothing": (["fmt"], "Missing argument 'FILE...'"),
    "fmt of a missing file": (["fmt", "none.tdsl"], "cannot read none.tdsl"),
    "fmt of two at once": (["fmt", "-", "two.tdsl"], "`-` stands alone"),
    "targets of something": (["targets", "matmul.tdsl"], "unexpected extra argument"),
}  # fmt: skip


@pytest.fixture
def arrays(folder: Path) -> None:
    np.save(folder / "f32.npy", np.zeros((2, 3), np.float32))
    np.save(folder / "f64.npy", np.zeros((2, 3)))
    np.save(folder / "line.npy", np.zeros(3, np.float32))
    np.save(folder / "objects.npy", np.array([[object()]], dtype=object), allow_pickle=True)
    np.savez(folder / "archive.npz", a=np.zeros(2))
    (folder / "cut.npy").write_bytes((folder / "f32.npy").read_bytes()[:-5])
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 9999), }\n"
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
    (folder / "huge.npy").write_bytes(start + header)
    (folder / "binary.tdsl").write_bytes(b"kernel \xff\xfe")


@pytest.mark.usefixtures("arrays")
@pytest.mark.parametrize("case", CASES)
def test_wrong_use(tdsl: Tdsl, folder: Path, case: str) -> None:
    arguments, said = CASES[case]
    before = sorted(folder.rglob("*"))
    result = tdsl(*arguments)
    assert result.status == 2, result.err
    assert result.err.startswith("error: ")
    assert said in result.err
    assert "Traceback" not in result.err
    assert sorted(folder.rglob("*")) == before


def test_there_are_cases() -> None:
    assert len(CASES) >= 50


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_the_right_to_write(tdsl: Tdsl, folder: Path) -> None:
    (folder / "locked").mkdir(mode=0o500)
    result = tdsl("compile", "matmul.tdsl", "-o", "locked")
    assert result.status == 2
    assert "Permission denied" in result.err
