"""`tdsl bench`: what is timed, against what, and what is said of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Tdsl

SIZES = ("--size", "M=48", "--size", "N=32", "--size", "K=40")
SHORT = ("--seconds", "0")  # a few rounds of a few milliseconds
PEERS = """\
import numpy as np

def matmul_numpy(A, B, C):
    return lambda: np.matmul(A, B, C)

def matmul_transposed(A, B, C):
    result = np.empty((C.shape[1], C.shape[0]), np.float32)  # a layout of its own
    def finish():
        C[...] = result.T
    return (lambda: np.matmul(B.T, A.T, result)), finish

def matmul_wrong(A, B, C):
    return lambda: np.matmul(A, 2 * B, C)

def matmul_absent(A, B, C):
    import a_package_that_is_not_there

def matmul_nothing(A, B, C):
    np.matmul(A, B, C)

def second_numpy(x, z, n):
    raise AssertionError("of another kernel")
"""


@pytest.fixture(autouse=True)
def peers(folder: Path) -> None:
    (folder / "matmul.bench.py").write_text(PEERS)


def benched(tdsl: Tdsl, *options: str) -> dict[str, Any]:
    result = tdsl("bench", "matmul.tdsl", *SIZES, *SHORT, "--json", *options)
    assert result.status == 0, result.err
    found: dict[str, Any] = json.loads(result.out)
    return found


def test_json_has_the_documented_fields(tdsl: Tdsl) -> None:
    found = benched(tdsl, "--against", "numpy", "--target", "avx2")
    kinds = {
        "version": int, "file": str, "target": str, "threads": int, "seconds": float, "clock": str,
        "kernels": list,
    }  # fmt: skip
    assert {name: type(value) for name, value in found.items()} == kinds
    assert (found["version"], found["file"], found["target"]) == (1, "matmul.tdsl", "avx2")
    (kernel,) = found["kernels"]
    assert set(kernel) == {"name", "sizes", "operations", "bytes", "baseline", "limit", "rows"}
    assert kernel["sizes"] == {"M": 48, "N": 32, "K": 40}
    for row in kernel["rows"]:
        assert set(row) == {
            "name", "kind", "prepared", "seconds", "best", "ratio", "low", "high", "rounds",
            "speed", "of_limit",
        }  # fmt: skip
        assert 0 < row["best"] <= row["seconds"]
        assert 0 < row["low"] <= row["ratio"] <= row["high"]
        assert row["rounds"] >= 5
        assert row["speed"] == pytest.approx(kernel["operations"] / row["seconds"])
    assert [(r["name"], r["kind"]) for r in kernel["rows"]] == [
        ("tiled", "schedule"),
        ("numpy", "peer"),
    ]


def test_operations_and_bytes_are_those_of_the_kernel(tdsl: Tdsl) -> None:
    (kernel,) = benched(tdsl)["kernels"]
    assert kernel["operations"] == 2 * 48 * 32 * 40
    assert kernel["bytes"] == 4 * (48 * 40 + 40 * 32 + 48 * 32)
    assert kernel["baseline"] == "tiled"
    assert kernel["limit"] == "fma"


def test_a_small_kernel_is_slower_than_the_machine_at_its_best(tdsl: Tdsl) -> None:
    (kernel,) = benched(tdsl)["kernels"]
    assert 0 < kernel["rows"][0]["of_limit"] < 1.05  # with what clocks drift by


def test_threads_are_timed_by_the_wall_clock(tdsl: Tdsl) -> None:
    assert benched(tdsl)["clock"] == "cpu"
    found = benched(tdsl, "--threads", "2", "--against", "numpy")
    assert (found["clock"], found["threads"]) == ("wall", 2)


def test_peers_are_told_apart_in_the_table(tdsl: Tdsl) -> None:
    result = tdsl("bench", "matmul.tdsl", *SIZES, *SHORT, "--against", "numpy,transposed")
    assert result.status == 0, result.err
    for word in ("matmul M=48 N=32 K=40", "tiled", "numpy", "transposed", "spread", "of fma"):
        assert word in result.out


def test_schedules_are_compared(tdsl: Tdsl, folder: Path) -> None:
    text = (folder / "matmul.tdsl").read_text()
    (folder / "matmul.tdsl").write_text(
        text + "\nschedule matmul.also for any { vectorize j by 8 }\n"
        "schedule matmul.never for any when M > 1000 { }\n"
        "schedule matmul.elsewhere for neon { }\n"
    )
    names = [r["name"] for r in benched(tdsl, "--target", "avx2")["kernels"][0]["rows"]]
    assert names == ["tiled", "also"]
    names = [r["name"] for r in benched(tdsl, "--schedule", "never")["kernels"][0]["rows"]]
    assert names == ["never"]


def test_the_programs_own_order_runs_where_there_is_no_schedule(tdsl: Tdsl) -> None:
    result = tdsl("bench", "two.tdsl", "--kernel", "first", "--size", "N=100", *SHORT)
    assert result.status == 0, result.err
    assert "own order" in result.out


def test_const_arguments_are_prepared_on_both_sides(tdsl: Tdsl, folder: Path) -> None:
    (folder / "scaled.tdsl").write_text(
        "kernel scaled(N) {\n  in x: f32[N]\n  const w: f32[N]\n  out y: f32[N]\n"
        "  y[i] = x[i] * w[i]\n}\n"
    )
    (folder / "scaled.bench.py").write_text(
        "import numpy as np\ndef scaled_numpy(x, w, y):\n    return lambda: np.multiply(x, w, y)\n"
    )
    result = tdsl("bench", "scaled.tdsl", "--size", "N=64", *SHORT, "--against", "numpy", "--json")
    assert result.status == 0, result.err
    assert [r["prepared"] for r in json.loads(result.out)["kernels"][0]["rows"]] == [True, True]


@pytest.mark.parametrize(
    ("peer", "said"),
    [
        ("wrong", "wrong and tiled do not agree"),
        ("absent", "absent cannot be imported: No module named 'a_package_that_is_not_there'"),
        ("nothing", "matmul_nothing of matmul.bench.py returned no function to time"),
    ],
)
def test_a_peer_that_is_none(tdsl: Tdsl, peer: str, said: str) -> None:
    result = tdsl("bench", "matmul.tdsl", *SIZES, *SHORT, "--against", peer)
    assert result.status == 1
    assert said in result.err


def test_a_peer_that_nobody_wrote_is_a_wrong_use(tdsl: Tdsl) -> None:
    result = tdsl("bench", "matmul.tdsl", *SIZES, *SHORT, "--against", "numpy,torch")
    assert result.status == 2
    assert "there is no peer torch in matmul.bench.py for matmul" in result.err
    assert "its peers are numpy, transposed, wrong, absent, nothing" in result.err


def test_peers_are_run_only_when_they_are_asked_for(tdsl: Tdsl, folder: Path) -> None:
    (folder / "matmul.bench.py").write_text("raise AssertionError('run')\n")
    benched(tdsl)
    (folder / "matmul.bench.py").unlink()
    result = tdsl("bench", "matmul.tdsl", *SIZES, *SHORT, "--against", "numpy")
    assert result.status == 2
    assert "there is no matmul.bench.py" in result.err


def test_sizes_are_wanted(tdsl: Tdsl) -> None:
    result = tdsl("bench", "matmul.tdsl", "--size", "M=8")
    assert result.status == 2
    assert "not bound: N, K" in result.err
    assert "--size N=64" in result.err


def test_code_for_another_machine_is_not_timed(tdsl: Tdsl) -> None:
    result = tdsl("bench", "matmul.tdsl", *SIZES, *SHORT, "--target", "neon")
    assert result.status == 1
    assert "nothing can be timed" in result.err
