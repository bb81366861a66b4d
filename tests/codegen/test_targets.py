"""Which targets there are, what they say of themselves, and what unknown ones are told."""

from __future__ import annotations

import pytest

from tdsl.diagnostics import UnsupportedTarget
from tdsl.ir.types import F32, F64, I8
from tdsl.schedule.target import serves
from tdsl.targets import TARGETS, compile_flags, cpu_features, machine, native, runnable, target
from tdsl.targets.target import EXTENSIONS


@pytest.mark.parametrize(
    ("name", "registers", "lanes", "fma"),
    [("c", 16, 4, False), ("avx2", 16, 8, True), ("avx512", 32, 16, True), ("neon", 32, 4, True)],
)
def test_facts(name: str, registers: int, lanes: int, fma: bool) -> None:
    of = target(name)
    assert (of.registers, of.lanes(F32), of.has_fma) == (registers, lanes, fma)
    assert of.lanes(F64) == lanes // 2
    assert of.lanes(I8) == 4 * lanes
    assert of.vector_bytes == (0 if name == "c" else 4 * lanes)


def test_register_bytes() -> None:
    assert target("avx512").register_bytes(F32, 16) == 64
    assert target("avx512").register_bytes(F32, 4) == 16
    assert target("avx512").register_bytes(I8, 4) == 16
    assert target("neon").register_bytes(I8, 4) == 8
    assert target("neon").register_bytes(F32, 8) is None
    assert target("c").register_bytes(F32, 2) is None


def test_extensions() -> None:
    of = target("avx512+vnni")
    assert of.name == "avx512+vnni"
    assert "avx512vnni" in of.features
    assert target("avx512+vnni+bf16").name == target("avx512+bf16+vnni").name
    assert target("avx2+vnni").features >= {"avxvnni", "avx2"}
    assert target("neon+i8mm").features == {"i8mm", "dotprod"}
    assert target("neon+fp16+bf16+dotprod").name == "neon+bf16+dotprod+fp16"
    assert target("avx512+vnni").required == target("avx512").features


def test_schedules_are_served_by_targets_that_have_more() -> None:
    assert serves(target("neon+i8mm"), "neon+dotprod")
    assert serves(target("avx512+vnni+bf16"), "avx512+bf16")
    assert serves(target("avx2+vnni"), "avx2")
    assert not serves(target("avx512"), "avx512+vnni")
    assert not serves(target("neon+dotprod"), "neon+i8mm")
    assert not serves(target("avx512+vnni"), "avx2+vnni")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("avx521", ["avx521", "did you mean 'avx512'", "avx2, avx512, neon, native"]),
        ("riscv", ["no target 'riscv'", "c, avx2, avx512, neon, native"]),
        ("avx2+bf16", ["'avx2+bf16'", "'bf16' is unknown", "known here: vnni"]),
        ("c+vnni", ["'c+vnni'", "'vnni' is unknown"]),
        ("", ["no target ''"]),
        ("AVX2", ["no target 'AVX2'"]),
    ],
)
def test_unknown_targets(name: str, words: list[str]) -> None:
    with pytest.raises(UnsupportedTarget) as caught:
        target(name)
    for word in words:
        assert word in str(caught.value)


def test_native_runs_here() -> None:
    assert runnable(native()) is None
    assert target("native") == native()
    for extension, features in EXTENSIONS.get(native().base, {}).items():
        assert (extension in native().name.split("+")) == (features <= cpu_features())
    assert runnable(target("c")) is None


def test_what_cannot_run_says_why() -> None:
    foreign = "avx2" if machine() == "aarch64" else "neon"
    assert machine() in str(runnable(target(foreign)))


def test_flags_keep_floating_point_exact() -> None:
    for of in TARGETS.values():
        flags = compile_flags(of)
        assert "-ffp-contract=off" in flags
        assert "-ffast-math" not in flags
        assert not any(f.startswith("-march") for f in flags)
