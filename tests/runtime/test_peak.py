"""What a machine can do at best is measured by code that does nothing else."""

import pytest

from tdsl.runtime.peak import copy_seconds, peak
from tdsl.targets import native


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_wider_registers_do_more(kind: str) -> None:
    target = native()
    if target.family != "x86":
        pytest.skip("one width of registers")
    narrow = peak(kind, frozenset({"avx2", "fma"}), 16)
    wide = peak(kind, frozenset({"avx2", "fma"}), 32)
    assert narrow is not None and wide is not None
    assert 1.5 * narrow < wide < 2.5 * narrow


def test_half_the_bytes_are_twice_the_operations() -> None:
    target = native()
    single, double = (peak(k, target.features, target.vector_bytes) for k in ("f32", "f64"))
    assert single is not None and double is not None
    assert 1.6 * double < single < 2.4 * double


def test_groups_of_four_bytes_do_more_than_floats() -> None:
    target = native()
    dot, single = (peak(k, target.features, target.vector_bytes) for k in ("int8", "f32"))
    assert single is not None
    if dot is None:
        pytest.skip("this processor has no such instruction")
    assert dot > 1.5 * single


def test_what_is_not_there_has_no_peak() -> None:
    assert peak("int8", frozenset({"avx2", "fma"}), 32) is None
    assert peak("bf16", frozenset({"avx2", "fma"}), 32) is None


def test_more_bytes_take_longer() -> None:
    assert 0 < copy_seconds(1 << 20) < copy_seconds(1 << 24) < copy_seconds(1 << 26)
