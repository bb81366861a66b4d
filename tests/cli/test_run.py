"""`tdsl run`: arrays in, arrays out, and the comparison with the reference."""

import re
from pathlib import Path

import numpy as np
import pytest

from tdsl.commands import run as module
from tdsl.ir.interp import reference
from tests.cli.conftest import Tdsl

SIZES = ("--size", "M=5", "--size", "N=37", "--size", "K=11")


def save(folder: Path, **arrays: np.ndarray) -> None:
    for name, value in arrays.items():
        np.save(folder / f"{name}.npy", value)


def test_files_in_and_out(tdsl: Tdsl, folder: Path) -> None:
    generator = np.random.default_rng(1)
    a = generator.standard_normal((7, 5), np.float32)
    b = generator.standard_normal((5, 70), np.float32)
    save(folder, A=a, B=b)
    arrays = ("--input", "A=A.npy", "--input", "B=B.npy", "--output", "C=out/C.npy")
    result = tdsl("run", "matmul.tdsl", *arrays)
    assert result.status == 0, result.err
    assert "wrote out/C.npy\n" in result.out
    np.testing.assert_allclose(np.load(folder / "out" / "C.npy"), a @ b, rtol=1e-4, atol=1e-5)


def test_what_is_said(tdsl: Tdsl, folder: Path) -> None:
    save(folder, x=np.arange(4, dtype=np.float32), z=np.zeros(4, np.float32))
    arrays = ("--input", "x=x.npy", "--input", "z=z.npy", "--size", "M=3")
    result = tdsl("run", "two.tdsl", "--kernel", "second", "--target", "c", *arrays, "--check")
    assert (result.status, result.err) == (0, "")
    lines = result.out.splitlines()
    assert re.fullmatch(r"second: low, for c, [0-9.e+-]+ m?s", lines[0])
    assert lines[1:] == [
        "z: f32[4]  least 0.333333, greatest 6.33333, mean 3.33333",
        "n: i32[3]  least 0, greatest 14, mean 7",
        "check: equal to the reference",
    ]


def test_random_inputs_and_check(tdsl: Tdsl) -> None:
    result = tdsl("run", "matmul.tdsl", *SIZES, "--random", "0", "--check")
    assert result.status == 0, result.err
    assert result.out.endswith("check: equal to the reference\n")


def test_strict_is_bit_for_bit(tdsl: Tdsl) -> None:
    result = tdsl("run", "matmul.tdsl", *SIZES, "--random", "0", "--check", "--strict-fp")
    assert result.status == 0, result.err
    assert result.out.endswith("check: equal to the reference, bit for bit\n")


@pytest.mark.neon
def test_another_machine_under_its_emulator(tdsl: Tdsl) -> None:
    arguments = ("--random", "0", "--check", "--target", "neon")
    result = tdsl("run", "matmul.tdsl", *SIZES, *arguments)
    assert result.status == 0, result.err
    assert "matmul: tiled, for neon" in result.out


def test_the_seed_decides_the_inputs(tdsl: Tdsl, folder: Path) -> None:
    for seed, out in (("3", "a"), ("3", "b"), ("4", "c")):
        output = ("--output", f"C={out}.npy")
        assert tdsl("run", "matmul.tdsl", *SIZES, "--random", seed, *output).status == 0
    a, b, c = (np.load(folder / f"{name}.npy") for name in "abc")
    assert (a == b).all()
    assert (a != c).any()


def test_shapes_of_given_arrays_tell_sizes_of_random_ones(tdsl: Tdsl, folder: Path) -> None:
    save(folder, A=np.ones((3, 4), np.float32))
    arguments = ("--input", "A=A.npy", "--size", "N=6", "--random", "1", "--output", "C=C.npy")
    assert tdsl("run", "matmul.tdsl", *arguments).status == 0
    assert np.load(folder / "C.npy").shape == (3, 6)


def test_a_wrong_result_is_found(tdsl: Tdsl, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison must be able to fail: the reference is made to say something else."""

    def wrong(*arguments: object) -> dict[str, np.ndarray]:
        results = reference(*arguments)  # type: ignore[arg-type]
        results["C"][2, 3] += 1e-3
        return results

    monkeypatch.setattr(module, "reference", wrong)
    result = tdsl("run", "matmul.tdsl", *SIZES, "--random", "0", "--check")
    assert result.status == 1
    assert "error[check]: 1 of 185 elements of C differ, the first is C[2, 3]" in result.err


def test_an_inout_array_is_compared_from_what_it_was(tdsl: Tdsl) -> None:
    sizes = ("--size", "N=9", "--size", "M=2")
    result = tdsl("run", "two.tdsl", "--kernel", "second", *sizes, "--random", "5", "--check")
    assert result.status == 0, result.err


def test_empty_arrays(tdsl: Tdsl) -> None:
    sizes = ("--size", "M=0", "--size", "N=3", "--size", "K=2")
    result = tdsl("run", "matmul.tdsl", *sizes, "--random", "0", "--check")
    assert result.status == 0, result.err
    assert "C: f32[0, 3]  empty" in result.out


def test_threads_of_parallel_loops(tdsl: Tdsl, folder: Path) -> None:
    text = (folder / "matmul.tdsl").read_text().replace("unroll ii", "unroll ii\n    parallel io")
    (folder / "parallel.tdsl").write_text(
        text.replace("tiled for avx512, avx2, neon", "all for any")
    )
    arguments = ("--random", "0", "--check", "--threads", "2", "--target", "c")
    result = tdsl("run", "parallel.tdsl", "--schedule", "all", *SIZES, *arguments)
    assert result.status == 0, result.err


@pytest.mark.parametrize("type_", ["f64", "f32", "f16", "bf16", "i8", "u8", "i16", "i64", "u32"])
def test_random_values_of_every_type(tdsl: Tdsl, folder: Path, type_: str) -> None:
    (folder / "copy.tdsl").write_text(
        f"kernel copy(N) {{ in x: {type_}[N] out y: {type_}[N] y[i] = x[i] }}"
    )
    arguments = ("--size", "N=50", "--random", "2", "--check", "--output", "y=y.npy")
    result = tdsl("run", "copy.tdsl", "--target", "c", *arguments)
    if type_ in ("f16", "bf16") and result.status == 1:
        assert type_ in result.err  # the target may lack the type, and says so
        return
    assert result.status == 0, result.err
    assert len(np.unique(np.load(folder / "y.npy"))) > 20


SOFTMAX = """\
kernel softmax(M, N) {
    assume N >= 1
    in  x: f32[M, N]
    out y, z: f32[M, N]

    e[i, j] = exp(x[i, j])
    y[i, j] = e[i, j] / sum[k](e[i, k])
    z[i, j] = 0.5 * x[i, j]
}
"""


def test_functions_that_are_not_exact_have_a_tolerance_under_strict_fp(
    tdsl: Tdsl, folder: Path
) -> None:
    (folder / "softmax.tdsl").write_text(SOFTMAX)
    arguments = ("--size", "M=40", "--size", "N=90", "--random", "0", "--check", "--strict-fp")
    result = tdsl("run", "softmax.tdsl", *arguments)
    assert result.status == 0, result.err
    assert result.out.endswith(
        "check: equal to the reference, bit for bit but for y: exp is within 2 units in the last "
        "place\n"
    )


def test_a_difference_that_may_be_rounding_points_to_strict_fp(
    tdsl: Tdsl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*arguments: object) -> dict[str, np.ndarray]:
        results = reference(*arguments)  # type: ignore[arg-type]
        results["C"][2, 3] += 1e-3
        return results

    monkeypatch.setattr(module, "reference", wrong)
    arguments = (*SIZES, "--random", "0", "--check")
    assert "help: this may be rounding alone" in tdsl("run", "matmul.tdsl", *arguments).err
    assert "rounding" not in tdsl("run", "matmul.tdsl", *arguments, "--strict-fp").err


@pytest.mark.parametrize("path", ["taken", "/proc/none/y.npy", "matmul.tdsl/y.npy"])
def test_an_output_that_cannot_be_written_is_said_before_the_run(
    tdsl: Tdsl, folder: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def no_run(*_: object) -> None:
        raise AssertionError("compiled")

    (folder / "taken").mkdir()
    monkeypatch.setattr("tdsl.commands.run.build", no_run)
    before = sorted(folder.rglob("*"))
    sizes = [f"--size={s}=4" for s in "MNK"]
    result = tdsl("run", "matmul.tdsl", *sizes, "--random", "0", "--output", f"C={path}")
    assert result.status == 2
    assert f"--output C={path}: cannot write it: " in result.err
    assert sorted(folder.rglob("*")) == before
