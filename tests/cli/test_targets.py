"""`tdsl targets`: what the machine is said to run, against what it runs."""

import json
import platform

import pytest

from tests.cli.conftest import Tdsl
from tests.conftest import missing_neon_tools

SIZES = ("--size", "M=3", "--size", "N=5", "--size", "K=2")


def test_json(tdsl: Tdsl) -> None:
    found = json.loads(tdsl("targets", "--json").out)
    assert set(found) == {"version", "machine", "native", "features", "targets"}
    assert found["version"] == 1
    assert [t["name"] for t in found["targets"]] == ["c", "avx2", "avx512", "neon"]
    for row in found["targets"]:
        assert set(row) == {
            "name", "native", "runs", "reason", "registers", "vector_bits", "compiler",
            "emulator", "extensions",
        }  # fmt: skip
        assert row["runs"] in ("here", "emulated", "no")
        assert (row["reason"] is None) == (row["runs"] == "here")
    assert [t["name"] for t in found["targets"] if t["native"]] == [found["native"].split("+")[0]]
    by_name = {t["name"]: t for t in found["targets"]}
    assert by_name["c"]["runs"] == "here"
    assert (by_name["avx512"]["registers"], by_name["avx512"]["vector_bits"]) == (32, 512)
    assert by_name["neon"]["extensions"] == ["dotprod", "i8mm", "bf16", "fp16"]


def test_what_is_said_to_run_runs(tdsl: Tdsl) -> None:
    for row in json.loads(tdsl("targets", "--json").out)["targets"]:
        arguments = ("--random", "0", "--check", "--target", row["name"])
        result = tdsl("run", "matmul.tdsl", *SIZES, *arguments)
        assert (result.status == 0) == (row["runs"] != "no"), result.err


def test_the_emulator_is_found_where_it_is(tdsl: Tdsl) -> None:
    if platform.machine() in ("aarch64", "arm64") or missing_neon_tools():
        pytest.skip("no emulator for AArch64 here")
    rows = {t["name"]: t for t in json.loads(tdsl("targets", "--json").out)["targets"]}
    assert rows["neon"]["runs"] == "emulated"
    assert "qemu-aarch64" in rows["neon"]["emulator"]


def test_the_table(tdsl: Tdsl) -> None:
    result = tdsl("targets")
    lines = result.out.splitlines()
    assert result.status == 0
    assert lines[0].startswith("this machine: ")
    assert lines[2].split() == ["target", "runs", "vectors", "extensions", "compiler"]
    assert [line.split()[0] for line in lines[3:]] == ["c", "avx2", "avx512", "neon"]


def test_without_tools_nothing_foreign_runs(tdsl: Tdsl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    rows = json.loads(tdsl("targets", "--json").out)["targets"]
    assert {r["runs"] for r in rows} == {"no"}
    assert all(r["compiler"] is None or "zig" in r["compiler"] for r in rows)
